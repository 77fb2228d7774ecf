// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/seeds.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <support/toy_records.hpp>

namespace seeds_test {

using namespace tessera::report;
using tessera::support::measured, tessera::support::run_of_curve;

TEST_CASE("mean and deviation over seeds, of what every run has") {
    auto runs = std::vector{run_of_curve(1, {0.5, 0.7}), run_of_curve(2, {0.6, 0.9}), run_of_curve(3, {0.4, 0.8})};
    runs[1].final_evaluations.push_back(measured(0.1, Which::global));
    const auto all = over_seeds(runs);
    REQUIRE(all.size() == 1);
    CHECK(all[0].mean.value == doctest::Approx(0.8));
    CHECK(all[0].deviation() == doctest::Approx(0.1));  // of 0.7, 0.9, 0.8 with n - 1
    CHECK(all[0].values == std::vector{0.7, 0.9, 0.8});
    CHECK(std::isnan(over_seeds({runs[0]})[0].deviation()));
    CHECK(over_seeds({}).empty());
}

}  // namespace seeds_test
