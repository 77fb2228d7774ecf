// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/data/missing.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/batch.hpp>
#include <tessera/data/normalise.hpp>

namespace missing_test {

using namespace tessera;
using doctest::Contains;

TEST_CASE("a NaN is the mean of its feature over the named examples, and no other example counts") {
    constexpr float gone = std::numeric_limits<float>::quiet_NaN();
    const auto pool = data::Dataset::own(std::vector<float>{1, gone, 3, 10, gone, gone, 100, 1000}, {0, 1, 0, 1}, 2);
    const std::vector<Index> train{0, 1, 2};
    const auto filled = data::filled_by_mean(pool, train);
    std::vector<float> seen;
    for (Index i = 0; i < 4; ++i) {
        std::vector<float> row(2);
        Batch<float>(filled.examples(), {&i, 1}).read(0, row);
        seen.insert(seen.end(), row.begin(), row.end());
    }
    CHECK(seen == std::vector<float>{1, 10, 3, 10, 2, 10, 100, 1000});
    CHECK(filled.fingerprint() != data::filled_by_mean(pool, std::vector<Index>{0, 3}).fingerprint());
    CHECK_THROWS_WITH_AS(data::filled_by_mean(pool, {}), Contains("no example is named"), ConfigError);
    CHECK_THROWS_WITH_AS(data::filled_by_mean(pool, std::vector<Index>{9}), Contains("example 9 is not in the pool"),
                         ConfigError);
}

TEST_CASE("pixels are standardised over the named examples alone") {
    const auto pool = data::Dataset::own(std::vector<std::uint8_t>{0, 2, 4, 2, 200, 250}, {0, 1, 0}, 2);
    const auto over = data::standardised(pool, std::vector<Index>{0, 1}).examples();
    CHECK(over.shift == 2);
    CHECK(over.scale == doctest::Approx(1 / (std::sqrt(2.0) + 0.001)));
    CHECK(data::standardised(pool).examples().shift == doctest::Approx(458.0 / 6));
}

}  // namespace missing_test
