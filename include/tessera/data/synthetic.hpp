// SPDX-License-Identifier: BSD-3-Clause
// Synthetic(alpha, beta) (Li et al., MLSys 2020): clients that differ in their model
// (alpha) and in their inputs (beta). As published, u_k moves all class scores of a client alike, so labels, and with
// them everything trained, do not depend on alpha; clients differ because each W_k is drawn anew.
//
//   n_k = 50 + floor(LogNormal(4, 2))
//   u_k ~ N(0, alpha),  W_k, b_k ~ N(u_k, 1);   B_k ~ N(0, beta),  v_k ~ N(B_k, 1)    (alpha, beta: scales)
//   x ~ N(v_k, diag(j^-1.2)), j = 1, 2, ...;    y = argmax(W_k x + b_k)
//
// A client's examples are independent, so the first floor(train_share * n_k) train and the rest test. They
// depend on the seed and the client's number only: more clients, or a smaller max_examples, do not change those
// that are there. Memory: four bytes per feature; without max_examples one client in 200 exceeds 10,000 examples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/settings.hpp>

namespace tessera::data {

struct SyntheticSettings {
    double alpha = 0, beta = 0;  // in [0, 1e6]
    std::size_t clients = 30;
    std::uint64_t seed = 0;
    std::size_t features = 60, classes = 10;
    std::optional<std::size_t> max_examples{};  // per client, at least 2
    double train_share = 0.75;                  // in (0, 1)
    double validation = 0;                      // as in PartitionSettings
    std::size_t unseen = 0;
};

namespace detail {

inline constexpr std::size_t fewest_examples = 50;  // of a client, without max_examples

inline void check(const SyntheticSettings& s) {
    const auto require = [](bool holds, const std::string& rest) {
        tessera::detail::require(holds, "data::synthetic: " + rest);
    };
    require(s.alpha >= 0 && s.alpha <= 1e6, "alpha is " + std::to_string(s.alpha) + "; it must be in [0, 1e6]");
    require(s.beta >= 0 && s.beta <= 1e6, "beta is " + std::to_string(s.beta) + "; it must be in [0, 1e6]");
    require(s.clients > 0, "clients is 0; it must be at least 1");
    require(s.clients <= std::numeric_limits<Id>::max(),
            "clients is " + std::to_string(s.clients) + "; a client's number has 32 bits");
    const auto least = std::clamp<std::size_t>(s.max_examples.value_or(fewest_examples), 1, fewest_examples);
    require(s.clients <= std::numeric_limits<Index>::max() / least,
            "clients is " + std::to_string(s.clients) + "; each has " + std::to_string(least) +
                " examples or more, and an example's number has 32 bits");
    require(s.features > 0, "features is 0; it must be at least 1");
    constexpr std::size_t most = std::size_t{1} << 32;  // numbers, 16 GiB
    require(s.clients <= most / s.features / least,
            "clients is " + std::to_string(s.clients) + "; each has " + std::to_string(least) +
                " examples or more of " + std::to_string(s.features) +
                " features, together more than the 2^32 numbers that are allowed");
    require(s.classes > 0 && s.classes <= std::size_t{std::numeric_limits<std::int32_t>::max()},
            "classes is " + std::to_string(s.classes) + "; it must be in 1..2^31-1");
    require(s.max_examples.value_or(2) >= 2,
            "max_examples is " + std::to_string(s.max_examples.value_or(2)) + "; it must be at least 2");
    require(s.train_share > 0 && s.train_share < 1,
            "train_share is " + std::to_string(s.train_share) + "; it must be in (0, 1)");
}

// Appends one client's examples and returns how many.
inline std::size_t append_client(const SyntheticSettings& s, Key key, std::vector<float>& rows,
                                 std::vector<std::int32_t>& labels) {
    Stream stream(key);
    const double drawn = stream.lognormal(4, 2);
    const double most = static_cast<double>(s.max_examples.value_or(std::numeric_limits<Index>::max()));
    const auto n = static_cast<std::size_t>(std::min(most, fewest_examples + std::floor(drawn)));
    tessera::detail::require(n <= std::numeric_limits<Index>::max() - labels.size(),
                             "data::synthetic: more than 2^32 examples; set max_examples");

    const double model_mean = s.alpha * stream.normal(), input_mean = s.beta * stream.normal();
    std::vector<double> weights(s.classes * s.features), bias(s.classes), mean(s.features), spread(s.features),
        x(s.features);
    for (auto& w : weights) w = model_mean + stream.normal();
    for (auto& b : bias) b = model_mean + stream.normal();
    for (auto& v : mean) v = input_mean + stream.normal();
    for (std::size_t j = 0; j < s.features; ++j) spread[j] = std::pow(static_cast<double>(j + 1), -0.6);

    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < s.features; ++j) {
            x[j] = mean[j] + spread[j] * stream.normal();
            rows.push_back(static_cast<float>(x[j]));
        }
        std::size_t best = 0;
        double highest = -std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < s.classes; ++c) {
            double score = bias[c];
            for (std::size_t j = 0; j < s.features; ++j) score += weights[c * s.features + j] * x[j];
            if (score > highest) {
                highest = score;
                best = c;
            }
        }
        labels.push_back(static_cast<std::int32_t>(best));
    }
    return n;
}

}  // namespace detail

inline FederatedDataset synthetic(const SyntheticSettings& settings) {
    detail::check(settings);
    std::vector<float> rows;
    std::vector<std::int32_t> labels;
    std::vector<Share> shares;
    for (std::size_t k = 0; k < settings.clients; ++k) {
        const std::size_t begin = labels.size();
        const std::size_t n = detail::append_client(settings, Key{settings.seed}(purpose::synthetic)(k), rows, labels);
        const auto train =
            std::max<std::size_t>(1, static_cast<std::size_t>(settings.train_share * static_cast<double>(n) + 1e-9));
        Share share;
        for (std::size_t i = 0; i < n; ++i)
            (i < train ? share.train : share.test).push_back(static_cast<Index>(begin + i));
        shares.push_back(std::move(share));
    }
    auto pool = Dataset::own(std::move(rows), std::move(labels), settings.classes);
    const PartitionSettings parts{.clients = settings.clients,
                                  .seed = settings.seed,
                                  .validation = settings.validation,
                                  .unseen = settings.unseen};
    detail::check(pool, parts);
    return {std::move(pool), detail::finished(std::move(shares), parts)};
}

}  // namespace tessera::data
