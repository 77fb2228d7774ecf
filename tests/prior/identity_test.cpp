// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/prior/identity.hpp>

#include <doctest/doctest.h>

#include <tessera/nn/zoo.hpp>
#include <tessera/prior/hybrid.hpp>

#include <support/one_client.hpp>

namespace identity_test {

using namespace tessera;

static_assert(Prior<prior::Identity, nn::Mclr<4, 3>> && DifferentiablePrior<prior::Identity, nn::Mclr<4, 3, double>>);
static_assert(!Prior<Nothing, nn::Mclr<4, 3>>);

TEST_CASE("mu is w, nothing is read and nothing moves") {
    support::OneClient<2> client({{2, 1}});
    Vec<double> w{3, -1};
    const Personal<double> unread{};
    CHECK(client.mean(prior::Identity{}, w, unread) == w);
    CHECK(w == Vec<double>{3, -1});
    CHECK(client.tally().examples == 0);
    CHECK(client.pulled_back(prior::Identity{}, w, unread, {5, 6}) == Vec<double>{5, 6});
    CHECK_FALSE(detail::remembers<prior::Identity>);
    CHECK_FALSE(detail::starts_at_mean<prior::Identity>);
    CHECK(detail::remembers<prior::Hybrid>);
}

TEST_CASE("local steps: as many batches each as the prior draws, in the order of the stream") {
    support::OneClient<1> client({{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}}, 1);
    const auto at = client.context();
    Cursor plain, once, twice;
    const auto stream = at.stream(plain, 6);
    const auto single = local_steps(at, once, 6, prior::Identity{});
    const auto pairs = local_steps(at, twice, 3, prior::Hybrid{.mh = prior::Reading::code});
    REQUIRE(single.size() == 6);
    REQUIRE(pairs.size() == 3);
    for (std::size_t r = 0; r < 6; ++r) {
        CHECK(single[r].last().ids()[0] == stream[r].ids()[0]);
        CHECK(pairs[r / 2][r % 2].ids()[0] == stream[r].ids()[0]);
    }
    CHECK(pairs[0].last().ids()[0] == stream[1].ids()[0]);
    CHECK(twice.at == plain.at);
    CHECK(twice.pass == plain.pass);

    auto nobody = at;
    nobody.ids = {};
    CHECK(local_steps(nobody, once, 4, prior::Identity{}).size() == 0);
}

}  // namespace identity_test
