// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/gate/any_chain.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include <tessera/gate/chain.hpp>

#include <support/toy_numbers.hpp>

namespace any_chain_test {

using namespace tessera;

namespace {
template <class G>
std::vector<float> answers(const G& gate, const Routes& routes, bool gradient) {
    const auto data = support::toy_dataset<float>(6, routes.inputs, 2);
    const auto ids = support::first_ids(6);
    const Key draw{3};
    const Batch<float> b(data.examples(), ids, {}, &draw);
    const auto psi = support::toy_numbers<float>(dimension(Layout(gate.segments(routes))), 4);
    const auto dq0 = support::toy_numbers<float>(6 * routes.blocks, 5);
    std::vector<float> q0(6 * routes.blocks), saved(6 * gate.saved(routes)), dpsi(psi.size());
    gate(routes, In<float>(psi), b, Out<float>(q0), Out<float>(saved));
    gate.pull_back(routes, In<float>(psi), b, In<float>(q0), In<float>(saved), In<float>(dq0), Out<float>(dpsi));
    return gradient ? dpsi : q0;
}
}  // namespace

TEST_CASE("has every bit of the chain compiled for these widths, and takes as many as the model has blocks") {
    const gate::AnyChain any{.first = 6, .second = 4, .third = 3};
    for (const bool gradient : {false, true}) {
        CHECK(answers(any, {5, 4}, gradient) == answers(gate::Chain<6, 4, 3>{}, {5, 4}, gradient));
        CHECK(answers(any, {5, 2}, gradient) == answers(gate::Chain<6>{}, {5, 2}, gradient));
        CHECK(answers(any, {5, 1}, gradient) == answers(gate::Chain<>{}, {5, 1}, gradient));
        CHECK(answers(any, {5, 2}, gradient) != answers(gate::Chain<7>{}, {5, 2}, gradient));
    }
    CHECK(dimension(Layout(gate::AnyChain{}.segments({784, 4}))) == 336'158);
    CHECK(any.forward_flops({5, 4}) == gate::Chain<6, 4, 3>{}.forward_flops({5, 4}));
}

TEST_CASE("more blocks than widths are refused") {
    CHECK_THROWS_WITH_AS(gate::AnyChain{}.segments({784, 6}),
                         "a router with 3 hidden widths serves 4 blocks, the model has 6; give it one width less than "
                         "there are blocks",
                         ConfigError);
    CHECK_THROWS_AS(gate::AnyChain{.dropout = 1}.validate(), ConfigError);
}

TEST_CASE("widths whose products are no sizes are refused") {
    for (const std::size_t width : {std::size_t{65537}, std::numeric_limits<std::size_t>::max()}) {
        CHECK_THROWS_AS(gate::AnyChain{.first = width}.validate(), ConfigError);
        CHECK_THROWS_AS(gate::AnyChain{.fifth = width}.validate(), ConfigError);
    }
    CHECK_NOTHROW(gate::AnyChain{.first = 65536}.validate());
}

}  // namespace any_chain_test
