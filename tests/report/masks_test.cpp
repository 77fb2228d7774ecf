// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/analysis/masks.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace masks_test {

using namespace tessera;
using namespace tessera::report;

namespace {

constexpr std::array<Segment, 2> layout{Segment{.name = "w", .shape = {4, 1, 1, 1}},
                                        Segment{.name = "b", .offset = 4, .shape = {2, 1, 1, 1}}};
Mask bits(std::initializer_list<int> all) {
    Mask mask(all.size());
    std::size_t j = 0;
    for (const int bit : all) mask.set(j++, bit != 0);
    return mask;
}

}  // namespace

TEST_CASE("density of each tensor, with its range where clients differ") {
    const auto same = analysis::density_per_layer(layout, {bits({1, 1, 0, 0, 1, 1}), bits({0, 0, 1, 1, 1, 1})});
    CHECK(same.categories == std::vector<std::string>{"w", "b"});
    CHECK(same.series.size() == 1);
    CHECK(same.series[0].y == std::vector<double>{50, 100});
    const auto other = analysis::density_per_layer(layout, {bits({1, 1, 0, 0, 1, 1}), bits({0, 0, 0, 1, 1, 1})});
    CHECK(other.series.size() == 3);
    CHECK(other.series[0].y[0] == 37.5);
    CHECK(other.series[1].y[0] == 25);
    CHECK(other.series[2].y[0] == 50);
    CHECK_NOTHROW(other.validate());
    CHECK_THROWS_AS(analysis::density_per_layer(layout, {}), ConfigError);
}

TEST_CASE("overlap is symmetric, shared of all, and a gap on the diagonal, which would set the scale") {
    const std::vector<Mask> masks{bits({1, 1, 0, 0, 1, 0}), bits({0, 1, 1, 0, 1, 0}), bits({0, 0, 0, 1, 0, 1})};
    CHECK(analysis::overlap(masks[0], masks[1]) == 0.5);
    CHECK(analysis::overlap(masks[0], masks[2]) == 0);
    const auto map = analysis::mask_overlap({3, 4, 7}, masks);
    CHECK_NOTHROW(map.validate());
    CHECK(analysis::overlap(masks[0], masks[0]) == 1);
    for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t k = 0; k < 3; ++k) {
            CHECK(std::isnan(map.series[i].y[k]) == (i == k));
            if (i != k) CHECK(map.series[i].y[k] == map.series[k].y[i]);
        }
    CHECK(map.caption.find("0.167") != std::string::npos);  // (0.5 + 0 + 0) / 3
    CHECK_THROWS_AS(analysis::mask_overlap({1}, masks), ConfigError);
}

TEST_CASE("both figures of a server that knows everybody's mask") {
    struct Server {
        Mask mask(Id k) const { return k == 0 ? bits({1, 1, 0, 0, 1, 1}) : bits({0, 0, 1, 1, 1, 1}); }
    };
    RunRecord record;
    analysis::add_mask_figures(record, layout, Server{}, 2);
    CHECK(record.extras.size() == 2);
    CHECK(std::isnan(record.extras[1].series[0].y[0]));
    CHECK(record.extras[1].series[0].y[1] == 2.0 / 6);
}

}  // namespace masks_test
