// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/data/synthetic.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/data/partition/fault.hpp>

namespace synthetic_test {

namespace {

using namespace tessera;
using namespace tessera::data;
using doctest::Contains;

const float* row(const FederatedDataset& data, Index i) {
    const auto& view = data.pool().examples();
    return static_cast<const float*>(view.rows) + i * view.width;
}

// Mean of feature j over all examples of a client.
double mean_feature(const FederatedDataset& data, std::size_t client, std::size_t j) {
    double sum = 0;
    for (const auto part : {data[client].train, data[client].test})
        for (const Index i : part) sum += row(data, i)[j];
    return sum / static_cast<double>(data[client].train.size() + data[client].test.size());
}

}  // namespace

TEST_CASE("synthetic has the shape") {
    const auto data = synthetic({.alpha = 1, .beta = 1, .seed = 1, .max_examples = 500});
    CHECK(data.size() == 30);
    CHECK(data.unseen() == 0);
    CHECK(data.pool().examples().width == 60);
    CHECK(data.pool().examples().classes == 10);
    CHECK(fault_in(data.split(), data.pool().size(), Tests::disjoint).value_or("") == "");
    std::size_t total = 0;
    for (std::size_t k = 0; k < 30; ++k) {
        const std::size_t n = data[k].train.size() + data[k].test.size();
        CHECK(n >= 50);
        CHECK(n <= 500);
        CHECK(data[k].train.size() == n * 3 / 4);
        total += n;
    }
    CHECK(total == data.pool().size());
}

TEST_CASE("synthetic sizes are 50 + floor(LogNormal(4, 2))") {
    // Half of the clients exceed 50 + e^4 = 104.6; of 400, 200 +- 10.
    const auto data = synthetic({.clients = 400, .seed = 2, .features = 1, .classes = 2});
    std::size_t above = 0;
    for (std::size_t k = 0; k < 400; ++k) above += data[k].train.size() + data[k].test.size() > 104;
    CHECK(std::abs(static_cast<double>(above) - 200) < 50);
    // One in six lies more than one scale above, and one in 44 two: 50 + e^6 = 453.4 (63 +- 7), 50 + e^8 = 3031 (9 +- 3).
    const auto beyond = [&](double log_size) {
        std::size_t n = 0;
        for (std::size_t k = 0; k < 400; ++k)
            n += static_cast<double>(data[k].train.size() + data[k].test.size()) > 50 + std::exp(log_size);
        return static_cast<double>(n);
    };
    CHECK(std::abs(beyond(6) - 63) < 28);  // four deviations; a scale of 1 has 9 there, one of 4 has 123
    CHECK(std::abs(beyond(8) - 9) < 9);
}

TEST_CASE("synthetic: a client depends on the seed and its number only") {
    const auto few = synthetic({.alpha = 0.5, .beta = 0.5, .clients = 3, .seed = 7, .max_examples = 100});
    const auto many = synthetic({.alpha = 0.5, .beta = 0.5, .clients = 6, .seed = 7, .max_examples = 60});
    for (std::size_t k = 0; k < 3; ++k) {
        CHECK(few[k].key == many[k].key);
        for (std::size_t i = 0; i < std::min(few[k].train.size(), many[k].train.size()); ++i) {
            const Index a = few[k].train[i], b = many[k].train[i];
            CHECK(few.pool().label(a) == many.pool().label(b));
            CHECK(std::equal(row(few, a), row(few, a) + 60, row(many, b)));
        }
    }
    const auto other = synthetic({.alpha = 0.5, .beta = 0.5, .clients = 3, .seed = 8, .max_examples = 100});
    CHECK(row(other, 0)[0] != row(few, 0)[0]);
    CHECK(other[0].key != few[0].key);
}

TEST_CASE("synthetic: feature j has variance j^-1.2") {
    const auto data = synthetic({.clients = 40, .seed = 3, .max_examples = 1000});
    for (const std::size_t j : {0u, 1u, 9u, 59u}) {
        double sum = 0, n = 0;
        for (std::size_t k = 0; k < data.size(); ++k) {
            const double mean = mean_feature(data, k, j);
            for (const Index i : data[k].train) {
                sum += std::pow(row(data, i)[j] - mean, 2);
                ++n;
            }
        }
        // A variance from n normal draws has relative deviation sqrt(2 / n), about 0.02 here.
        CHECK(sum / n * std::pow(static_cast<double>(j + 1), 1.2) == doctest::Approx(1).epsilon(6 * std::sqrt(2 / n)));
    }
}

TEST_CASE("synthetic: beta spreads the clients' inputs") {
    const auto spread = [](double beta) {
        const auto data = synthetic({.beta = beta, .clients = 100, .seed = 4, .max_examples = 50});
        double sum = 0;
        for (std::size_t k = 0; k < data.size(); ++k) {
            double mean = 0;  // of v_k's 60 entries, so about B_k, with deviation 1 / sqrt(60)
            for (std::size_t j = 0; j < 60; ++j) mean += mean_feature(data, k, j) / 60;
            sum += mean * mean;
        }
        return std::sqrt(sum / 100);
    };
    CHECK(spread(0) < 0.25);
    CHECK(spread(4) == doctest::Approx(4).epsilon(0.3));  // four deviations of a scale from 100 draws: 4 / sqrt(200)
}

TEST_CASE("synthetic: labels follow one linear model per client") {
    // With one feature and two classes the label is a threshold on x: sorted by x, it changes at most once.
    const auto data =
        synthetic({.alpha = 1, .clients = 10, .seed = 5, .features = 1, .classes = 2, .max_examples = 200});
    std::size_t both = 0;
    for (std::size_t k = 0; k < 10; ++k) {
        std::vector<Index> order(data[k].train.begin(), data[k].train.end());
        std::sort(order.begin(), order.end(), [&](Index a, Index b) { return row(data, a)[0] < row(data, b)[0]; });
        std::size_t changes = 0;
        for (std::size_t i = 1; i < order.size(); ++i)
            changes += data.pool().label(order[i]) != data.pool().label(order[i - 1]);
        CHECK(changes <= 1);
        both += changes;
    }
    CHECK(both > 0);
}

TEST_CASE("synthetic refuses wrong settings in a sentence") {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const auto refused = [](const SyntheticSettings& settings, const char* what) {
        CHECK_THROWS_WITH_AS(synthetic(settings), Contains(what), ConfigError);
    };
    refused({.alpha = -1}, "alpha is -1");
    refused({.alpha = nan}, "alpha is nan");
    refused({.beta = 1e7}, "beta is 1");
    refused({.clients = 0}, "clients is 0");
    refused({.clients = std::size_t{1} << 32}, "clients is 4294967296; a client's number has 32 bits");
    refused({.clients = std::size_t{1} << 31}, "clients is 2147483648; each has 50 examples or more");
    refused({.clients = std::size_t{1} << 31, .max_examples = 2}, "clients is 2147483648; each has 2 examples or more");
    refused({.features = 0}, "features is 0");
    refused({.classes = 0}, "classes is 0");
    refused({.max_examples = 1}, "max_examples is 1");
    refused({.train_share = 1}, "train_share is 1");
}

}  // namespace synthetic_test
