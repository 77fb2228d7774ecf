// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/prior/memorized.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <support/one_client.hpp>

namespace memorized_test {

using namespace tessera;
using prior::Memorized;

TEST_CASE("mu = w - eta (w_last - theta)") {
    support::OneClient<2> client({{2, 1}});
    Vec<double> w{3, -1};
    const Personal<double> me{.theta = {1, 1}, .w_last = {5, 1}, .cursor = {}};
    CHECK(client.mean(Memorized{.eta = 0.5}, w, me) == Vec<double>{1, -1});
    CHECK(client.mean(Memorized{.eta = -0.5}, w, me) == Vec<double>{5, -1});
    CHECK(client.mean(Memorized{.eta = 0}, w, me) == w);  // 0 means 0, not the learning rate
    const Personal<double> same{.theta = {9, 9}, .w_last = {9, 9}, .cursor = {}};
    CHECK(client.mean(Memorized{}, w, same) == w);
    CHECK(w == Vec<double>{3, -1});
    CHECK(client.tally().examples == 0);
}

TEST_CASE("what is remembered is fixed: Dmu is the identity") {
    support::OneClient<2> client({{2, 1}});
    const Personal<double> me{.theta = {1, 1}, .w_last = {5, 1}, .cursor = {}};
    CHECK(client.pulled_back(Memorized{}, {3, -1}, me, {8, 1}) == Vec<double>{8, 1});
    CHECK(detail::remembers<Memorized>);
    CHECK_THROWS_WITH_AS(Memorized{.eta = std::nan("")}.validate(), doctest::Contains("eta must be a number"),
                         ConfigError);
}

}  // namespace memorized_test
