// SPDX-License-Identifier: BSD-3-Clause
// Area under the ROC curve: how often an example of a class is ranked above one that is not of it.
//
//   auc = ( #{positive above negative} + #{ties} / 2 ) / (#positives #negatives),  counted exactly
//   macro: the mean over the classes that have both
//
// Without a positive or a negative there is no such number, and it reads absent; so it does when a score is NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/report/evaluation.hpp>

namespace tessera::report::analysis {

namespace detail {
struct Ranked {
    double score;
    bool positive;
};

inline double area(std::vector<Ranked> all) {
    if (std::any_of(all.begin(), all.end(), [](const Ranked& r) { return std::isnan(r.score); })) return absent;
    std::sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) { return a.score < b.score; });
    std::uint64_t positives = 0, negatives = 0, twice = 0;  // twice: two for each pair in order, one for each tie
    for (std::size_t i = 0; i < all.size();) {
        std::uint64_t equal[2] = {};
        const double score = all[i].score;
        for (; i < all.size() && all[i].score == score; ++i) ++equal[all[i].positive];
        twice += equal[1] * (2 * negatives + equal[0]);
        positives += equal[1];
        negatives += equal[0];
    }
    if (positives == 0 || negatives == 0) return absent;
    return static_cast<double>(twice) / (2 * static_cast<double>(positives) * static_cast<double>(negatives));
}
}  // namespace detail

// One score an example; positive where its label is not 0.
inline double auc(In<double> scores, In<std::uint8_t> labels) {
    tessera::detail::require(scores.size() == labels.size(), "auc: there must be one label for each score");
    std::vector<detail::Ranked> all;
    for (std::size_t i = 0; i < scores.size(); ++i) all.push_back({scores[i], labels[i] != 0});
    return detail::area(std::move(all));
}

// `classes` scores and labels an example, example after example.
inline double macro_auc(In<double> scores, In<std::uint8_t> labels, std::size_t classes) {
    tessera::detail::require(classes > 0 && scores.size() == labels.size() && scores.size() % classes == 0,
                             "macro_auc: there must be a score and a label for each class of each example");
    double sum = 0, defined = 0;
    std::vector<detail::Ranked> all(scores.size() / classes);
    for (std::size_t c = 0; c < classes; ++c) {
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] = {scores[i * classes + c], labels[i * classes + c] != 0};
        const double area = detail::area(all);
        if (std::isnan(area)) continue;
        sum += area;
        defined += 1;
    }
    return defined > 0 ? sum / defined : absent;
}

struct ClientAuc {
    Id client = 0;
    double value = absent;
    std::size_t n = 0;  // examples
};

// Of one model per client, as PerClient is for right and wrong. Clients for whom it is absent are left out.
template <Which W, When T, SplitOf S, Whom P>
class AucPerClient {
public:
    AucPerClient(On on, Pick pick, std::string stage, std::vector<ClientAuc> values)
        : on_(std::move(on)), pick_(pick), stage_(std::move(stage)), values_(std::move(values)) {
        std::erase_if(values_, [](const ClientAuc& each) { return std::isnan(each.value); });
        std::sort(values_.begin(), values_.end(),
                  [](const ClientAuc& a, const ClientAuc& b) { return a.client < b.client; });
    }

    const std::vector<ClientAuc>& values() const { return values_; }
    Evaluation mean(Average how) const {
        return evaluation_of<W, T, S, P>(on_, pick_, stage_, how, Metric::auc, spread_of(how).mean);
    }
    double stddev() const { return spread_of(Average::unweighted).stddev; }

private:
    Spread spread_of(Average how) const {
        std::vector<Weighted> all;
        for (const auto& each : values_)
            all.push_back({each.value, how == Average::pooled ? static_cast<double>(each.n) : 1.0});
        return spread(all);
    }

    On on_;
    Pick pick_;
    std::string stage_;
    std::vector<ClientAuc> values_;
};

}  // namespace tessera::report::analysis
