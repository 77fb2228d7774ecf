// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/prior/meta_hybrid.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <tessera/prior/hybrid.hpp>

#include <support/one_client.hpp>

namespace meta_hybrid_test {

using namespace tessera;
using prior::MetaHybrid;

namespace {
const Personal<double> me{.theta = {1}, .w_last = {5}, .cursor = {}};
}

TEST_CASE("mu = w - eta { share grad f(w - ahead grad f(w)) + w_last - theta }") {
    support::OneClient<1> client({{2, 1}});
    Vec<double> w{3};
    // ahead: 3 - 0.25 * 4 = 2, gradient there 2; mu = 3 - 0.5 (0.5 * 2 + 4) = 0.5
    CHECK(client.mean(MetaHybrid{.eta = 0.5, .share = 0.5, .ahead = 0.25}, w, me) == Vec<double>{0.5});
    CHECK(w == Vec<double>{3});
    CHECK(client.tally().examples == 2);
}

TEST_CASE("without looking ahead it is mh with eta_a = eta share") {
    support::OneClient<1> client({{2, 1}, {4, 3}}, 1);
    Vec<double> w{2};
    const double mh = client.mean(prior::Hybrid{.eta_a = 0.01, .eta = 0.05}, w, me)[0];
    CHECK(std::fabs(client.mean(MetaHybrid{.ahead = 0}, w, me)[0] - mh) < 1e-15);
    CHECK(std::fabs(client.mean(MetaHybrid{}, w, me)[0] - mh) > 1e-4);
    // With small steps it is nearly mh, as the paper says: the difference is of second order.
    CHECK(std::fabs(client.mean(MetaHybrid{.ahead = 1e-6}, w, me)[0] - mh) < 1e-6);
}

TEST_CASE("with two batches it looks ahead on the first") {
    support::OneClient<1> client({{2, 1}, {4, 3}}, 1);
    Vec<double> w{0.5};
    const double one = client.mean(MetaHybrid{.ahead = 0.1}, w, me)[0];
    const double two = client.mean(MetaHybrid{.ahead = 0.1, .batches = 2}, w, me)[0];
    CHECK(std::fabs(one - two) > 1e-4);
    CHECK(MetaHybrid{.batches = 2}.draws() == 2);
    CHECK_THROWS_WITH_AS(MetaHybrid{.batches = 3}.validate(), doctest::Contains("batches must be 1 or 2"), ConfigError);
    CHECK_THROWS_AS(MetaHybrid{.ahead = -1}.validate(), ConfigError);
}

TEST_CASE("Dmu on a quadratic is 1 - eta share a (1 - ahead a)") {
    support::OneClient<1> client({{2, 1}});
    const auto v = client.pulled_back(MetaHybrid{.eta = 0.5, .share = 0.5, .ahead = 0.25}, {3}, me, {8});
    CHECK(std::fabs(v[0] - 8 * (1 - 0.25 * 2 * (1 - 0.25 * 2))) < 1e-9);  // rounding over d, twice
}

}  // namespace meta_hybrid_test
