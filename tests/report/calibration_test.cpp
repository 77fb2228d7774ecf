// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/analysis/calibration.hpp>

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

namespace calibration_test {

using namespace tessera;
using namespace tessera::report;
using analysis::Calibration, analysis::ece_of;

TEST_CASE("the error of calibration by hand: bins of a fifteenth, each with its right end") {
    Calibration all;
    all.add(0.95, true);
    all.add(0.97, false);  // one bin: sure of 1.92, right once
    all.add(0.5, true);    // another: sure of 0.5, right once
    CHECK(all.ece() == doctest::Approx((0.92 + 0.5) / 3).epsilon(1e-14));
    Calibration edge;  // 2/15 ends the second bin, and what is a little more lies in the third
    edge.add(2.0 / 15, true);
    edge.add(2.0 / 15 - 1e-9, false);
    CHECK(edge.ece() == doctest::Approx(std::abs(1 - 4.0 / 15) / 2).epsilon(1e-8));
    edge.add(2.0 / 15 + 1e-9, false);
    CHECK(edge.ece() == doctest::Approx((std::abs(1 - 4.0 / 15) + 2.0 / 15) / 3).epsilon(1e-8));
    Calibration sure;
    for (int i = 0; i < 10; ++i) sure.add(1, true);
    CHECK(sure.ece() == 0);
    CHECK(std::isnan(Calibration{}.ece()));
}

TEST_CASE("a model that is right as often as it is sure has no error, one that is always sure has its misses") {
    Calibration honest, proud;
    for (int i = 0; i < 100; ++i) {
        honest.add(0.75, i % 4 != 0);
        proud.add(1, i % 4 != 0);
    }
    CHECK(honest.ece() == 0);
    CHECK(proud.ece() == doctest::Approx(0.25).epsilon(1e-14));
}

TEST_CASE("confidence is the largest of the softmax, of logarithms too") {
    for (const double shift : {0.0, 500.0, -500.0}) {
        Calibration all;
        const std::vector<double> scores{std::log(0.2) + shift, std::log(0.7) + shift, std::log(0.1) + shift};
        analysis::add_answer<double>(all, scores, 1);
        CHECK(all.n == 1);
        CHECK(all.ece() == doctest::Approx(0.3).epsilon(1e-12));
        analysis::add_answer<double>(all, scores, 0);
        CHECK(all.ece() == doctest::Approx(0.2).epsilon(1e-12));  // sure of 1.4, right once
    }
    Calibration lost;
    analysis::add_answer<double>(lost, std::vector<double>{std::nan(""), 1.0}, 0);
    CHECK(std::isnan(lost.ece()));
}

TEST_CASE("over clients: the mean of errors, or the error of all, in which overs and unders of one bin cancel") {
    std::vector<Calibration> two(3);
    two[0].add(0.9, true);
    two[1].add(0.9, false);
    CHECK(ece_of(two, Average::unweighted) == doctest::Approx((0.1 + 0.9) / 2).epsilon(1e-14));
    CHECK(ece_of(two, Average::pooled) == doctest::Approx(0.8 / 2).epsilon(1e-14));
    CHECK(std::isnan(ece_of({}, Average::pooled)));
    CHECK(std::isnan(ece_of({}, Average::unweighted)));
}

}  // namespace calibration_test
