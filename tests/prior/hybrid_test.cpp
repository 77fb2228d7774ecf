// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/prior/hybrid.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <tessera/core/by_name.hpp>

#include <support/one_client.hpp>

namespace hybrid_test {

using namespace tessera;
using prior::Hybrid;
using prior::Reading;

namespace {
const Personal<double> me{.theta = {1}, .w_last = {5}, .cursor = {}};
}

TEST_CASE("paper: mu = w - eta_a grad f(w) - eta (w_last - theta), and w stays") {
    support::OneClient<1> client({{2, 1}});
    Vec<double> w{3};
    // 3 - 0.25 * 4 - 0.5 * 4 = 0
    CHECK(client.mean(Hybrid{.eta_a = 0.25, .eta = 0.5}, w, me) == Vec<double>{0});
    CHECK(w == Vec<double>{3});
    CHECK(client.tally().examples == 1);
    CHECK(Hybrid{}.draws() == 1);
}

TEST_CASE("code: w itself takes the look-ahead step, mu forgets the gradient") {
    support::OneClient<1> client({{2, 1}});
    Vec<double> w{3};
    // ahead = 3 - 0.25 * 4 = 2; g2 = 2; w' = 3 - 0.25 * 2 = 2.5; mu = 2.5 - 0.5 * 4 = 0.5
    CHECK(client.mean(Hybrid{.eta_a = 0.25, .eta = 0.5, .mh = Reading::code}, w, me) == Vec<double>{0.5});
    CHECK(w == Vec<double>{2.5});
    CHECK(client.tally().examples == 2);
}

TEST_CASE("code draws two batches and looks ahead on the first") {
    support::OneClient<1> client({{2, 1}, {4, 3}}, 1);
    const Hybrid hybrid{.eta_a = 0.1, .eta = 0, .mh = Reading::code};
    CHECK(hybrid.draws() == 2);
    Cursor cursor;
    const auto at = client.context();
    const auto batches = at.stream(cursor, 2);
    const bool first_is_gentle = batches[0].ids()[0] == 0;
    const double a1 = first_is_gentle ? 2 : 4, c1 = first_is_gentle ? 1 : 3;
    const double a2 = first_is_gentle ? 4 : 2, c2 = first_is_gentle ? 3 : 1;
    const double ahead = 0.5 - 0.1 * a1 * (0.5 - c1), expected = 0.5 - 0.1 * a2 * (ahead - c2);
    Vec<double> w{0.5};
    client.mean(hybrid, w, me);
    CHECK(std::fabs(w[0] - expected) < 1e-15);
    const double swapped = 0.5 - 0.1 * a1 * (0.5 - 0.1 * a2 * (0.5 - c2) - c1);
    CHECK(std::fabs(w[0] - swapped) > 1e-3);
}

TEST_CASE("Dmu: the loss gradient bends it, the memory and the released reading do not") {
    support::OneClient<1> client({{2, 1}});
    const Vec<double> w{3};
    CHECK(std::fabs(client.pulled_back(Hybrid{.eta_a = 0.25}, w, me, {8})[0] - 4) < 1e-9);  // rounding over d
    CHECK(client.pulled_back(Hybrid{.eta_a = 0.25, .mh = Reading::code}, w, me, {8}) == Vec<double>{8});
}

TEST_CASE("settings by name") {
    Hybrid hybrid;
    CHECK(set_by_name(hybrid, "mh", "code"));
    CHECK(hybrid.mh == Reading::code);
    CHECK_THROWS_AS(set_by_name(hybrid, "mh", "book"), ConfigError);
    CHECK_THROWS_AS(Hybrid{.eta_a = -1}.validate(), ConfigError);
    CHECK_THROWS_AS(Hybrid{.eta = std::nan("")}.validate(), ConfigError);
}

}  // namespace hybrid_test
