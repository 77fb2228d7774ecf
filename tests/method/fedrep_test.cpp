// SPDX-License-Identifier: BSD-3-Clause
// FedRep, FedPer and LG-FedAvg against the same methods written out by hand (L-ALT-6).
#include <doctest/doctest.h>

#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedper.hpp>
#include <tessera/method/fedrep.hpp>
#include <tessera/method/lg_fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>

#include <support/by_hand.hpp>

namespace fedrep_test {

using namespace tessera;
using support::at_that_rate;
using support::is_by_hand;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};

// Dnn<8, 6, 4>: 54 numbers below the head, 28 in it.
constexpr support::ByHand head{.begin = 54, .end = 82}, body{.begin = 0, .end = 54, .together = true};
}  // namespace

TEST_CASE("L-ALT-6 FedRep is the head's epochs, then the body's") {
    CHECK(is_by_hand<Net>(at_that_rate(FedRep<>{}), head));
    auto longer = at_that_rate(FedRep<>{});
    longer.order.epochs_v = 3;
    support::ByHand three = head;
    three.first = 3;
    CHECK(is_by_hand<Net>(longer, three));
    CHECK_FALSE(is_by_hand<Net>(longer, head));
    auto alt = at_that_rate(FedAlt<>{});
    alt.weights = Weigh::samples;
    CHECK(is_by_hand<Net>(alt, head));
}

TEST_CASE("FedRep's head takes its epochs to the end; FedAlt's personal phase stops after the paper's 1000 steps") {
    constexpr std::size_t many = 300;  // of 4 to 6 batches each
    const auto steps = [](auto method) {
        method.order.v.rate = method.order.u.rate = 0;
        method.order.epochs_v = many;
        method.order.epochs_u = 0;
        Setup<decltype(method), Net> setup(Net{}, method, usual);
        const auto data = toy_data();
        Client<decltype(method), Net> client(setup, 0, data[0]);
        Workspace<float> workspace;
        const Server<decltype(method), Net> server(setup, 1);
        client.visit(server.state().w, 0, workspace);
        return workspace.tally.steps;
    };
    CHECK(steps(FedRep<>{}) == many * 4);  // 17 examples in batches of 5
    CHECK(steps(FedAlt<>{}) == 1000);
}

TEST_CASE("L-ALT-6 FedPer trains head and body together, LG-FedAvg keeps the body") {
    support::ByHand joint = head;
    joint.together = true;
    CHECK(is_by_hand<Net>(at_that_rate(FedPer<>{}), joint));
    CHECK_FALSE(is_by_hand<Net>(at_that_rate(FedPer<>{}), head));
    CHECK(is_by_hand<Net>(at_that_rate(LgFedAvg<>{}), body));
    Federation<LgFedAvg<>, Net> lg{{}, toy_data(), {}, usual};
    CHECK(lg.server().w.size() == 28);
}

}  // namespace fedrep_test
