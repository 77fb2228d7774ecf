// SPDX-License-Identifier: BSD-3-Clause
// Flow's vectors and limits. "Same" means every bit after every round, unless a tolerance stands beside the check.
#include <tessera/method/flow.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <tessera/fold/server_adaptive.hpp>
#include <tessera/gate/chain.hpp>
#include <tessera/gate/fixed.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/answers.hpp>
#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/scalar_net.hpp>
#include <support/toy_data.hpp>
#include <support/toy_place.hpp>
#include <support/unfused.hpp>

namespace flow_test {

using namespace tessera;
using support::answers;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
using Router = gate::Chain<5>;
using Fixed = Flow<gate::Fixed>;
constexpr Settings usual{.seed = 3, .batch = 5};
const rule::Sgd lively{.rate = 0.1, .momentum = 0.5};
constexpr Halving undivided{.split = SplitBy::none};

Vec<float> head(const Vec<float>& x) { return {x.begin(), x.begin() + static_cast<std::ptrdiff_t>(Net::parameters)}; }
Vec<float> router_of(const Vec<float>& x) {
    return {x.begin() + static_cast<std::ptrdiff_t>(Net::parameters), x.end()};
}

// Data in which client k has only its half zeta_g (or zeta_l), for a method that knows no halves.
data::FederatedDataset half(bool global) {
    const auto all = toy_data();
    data::Split split = all.split();
    for (auto& share : split.clients) {
        const Net model;
        Context<Net> at{.model = &model, .ids = share.train, .batch = usual.batch};
        const detail::Halves halves(at, {});
        const auto ids = (global ? halves.global(at) : halves.local(at)).ids;
        share.train.assign(ids.begin(), ids.end());
    }
    return {all.pool(), std::move(split)};
}

// w_g has the bits of FedAvg's w on these data for `rounds` rounds. FedAvg does not fuse here: routed steps take the
// gradient first, and FedAvg must round that way as well.
template <class Method>
bool is_fedavg(const Method& method, const data::FederatedDataset& data_of_fedavg, const FedAvg<>& fedavg,
               std::size_t rounds = 4, std::size_t cohort = 4) {
    Federation<Method, Net> flow{{}, toy_data(), method, usual};
    Federation<FedAvg<>, support::Unfused<Net>> plain{{}, data_of_fedavg, fedavg, usual};
    for (std::size_t r = 0; r < rounds; ++r) {
        flow.round(sample::Uniform{cohort});
        plain.round(sample::Uniform{cohort});
        if (!same_bits(head(flow.server().w), plain.server().w)) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("V-FLOW-1 one block, scalar: a router step and a global step") {
    using Scalar = support::ScalarNet<1>::type;
    using Method = Flow<support::Biases>;
    const Method method{.local = {.rate = 1},
                        .local_epochs = 0,
                        .routing = {.gamma = 0.1, .eps = 0},
                        .halves = undivided,
                        .local_init = LocalInit::averaged_local};
    Federation<Method, Scalar> run{{}, support::scalar_data({1}, {1}), method, {.batch = 0}};
    const auto data = run.data()[0];
    Workspace<double> workspace;
    const Scalar model;
    const Vec<double> initial{0.5};
    const Context<Scalar> at{
        .model = &model, .examples = data.examples, .ids = data.train, .initial = &initial, .workspace = &workspace};
    Nothing me;
    const auto up = visit_at<Method, Scalar>(method, at, {0.5, 0, 0, 1}, me);
    CHECK(std::fabs(up.x[1] - 0.01875) < 1e-15);
    CHECK(std::fabs(up.x[2] + 0.01875) < 1e-15);
    CHECK(std::fabs(up.x[0] - 0.6297308858) < 1e-10);  // ten digits are given
    CHECK(up.x[3] == 1);
    CHECK(up.weight == 1);
}

TEST_CASE("L-FLOW-1 q0 = 1: w_g is FedAvg's on zeta_g, K2 epochs, weighed by |zeta_g|") {
    for (const auto& rule : {rule::Sgd{}, lively}) {
        const FedAvg<> fedavg{.local = rule, .epochs = 2};
        const Fixed all_global{.gate = {.q0 = 1}, .local = rule, .local_epochs = 3, .joint_epochs = 2};
        CHECK(is_fedavg(all_global, half(true), fedavg));
        CHECK_FALSE(is_fedavg(all_global, half(false), fedavg));
        auto mixed = all_global;
        mixed.gate.q0 = 0.9;
        CHECK_FALSE(is_fedavg(mixed, half(true), fedavg));
        auto output = all_global;
        output.routing.mix = MixAt::output;
        CHECK(is_fedavg(output, half(true), fedavg));
    }
}

TEST_CASE("L-GEN-10, Flow's arm: q0 = 1 and no split is FedAvg") {
    const FedAvg<> fedavg{.local = {.rate = 0.1}};
    const Fixed flow{.local = {.rate = 0.1}, .halves = undivided};
    CHECK(is_fedavg(flow, toy_data(), fedavg, 4, 6));
    auto two = flow;
    two.joint_epochs = 2;
    CHECK_FALSE(is_fedavg(two, toy_data(), fedavg, 4, 6));
}

TEST_CASE("L-FLOW-2 q0 = 0: w_g never moves; a client is served as by FedAvg + FT on zeta_l") {
    const rule::Sgd local{.rate = 0.2, .momentum = 0.5};
    Federation<Fixed, Net> flow{
        {}, toy_data(), {.gate = {.q0 = 0}, .local = local, .local_epochs = 3, .joint_epochs = 2}, usual};
    Federation<FedAvgFt<>, Net> tuned{{}, half(false), {.local = local, .tune_epochs = 3}, usual};
    for (Id k = 0; k < 6; ++k) CHECK(same_bits(answers(flow, k), answers(tuned, k)));
    flow.run(3, sample::Everyone{});
    CHECK(same_bits(flow.server().w, flow.setup().initial));
    Federation<Fixed, Net> mixed{{}, toy_data(), {.gate = {.q0 = 0.2}, .local = local, .local_epochs = 3}, usual};
    mixed.round(sample::Everyone{});
    CHECK_FALSE(same_bits(mixed.server().w, mixed.setup().initial));
}

TEST_CASE("L-FLOW-3 K1 = 0 and gamma = 0: psi does not move in its step while w_l = w_g") {
    // The global step comes after the router's, so one batch a visit leaves psi where it was.
    const auto psi_moves = [](std::size_t local_epochs, double gamma) {
        Flow<Router> method{.local = {.rate = 0.5}, .local_epochs = local_epochs, .routing = {.gamma = gamma}};
        Federation<Flow<Router>, Net> run{{}, toy_data(), method, {.seed = 3, .batch = 0}};
        const auto before = router_of(run.server().w);
        run.round(sample::Everyone{});
        CHECK_FALSE(same_bits(head(run.server().w), run.setup().initial));
        return !same_bits(before, router_of(run.server().w));
    };
    CHECK_FALSE(psi_moves(0, 0));
    CHECK(psi_moves(0, 0.1));
    CHECK(psi_moves(1, 0));
}

TEST_CASE("L-FLOW-4 equal branches and q0 = c: the first global step is FedAvg's with rate c") {
    const auto after_one = [](const auto& method) {
        Federation<std::remove_cvref_t<decltype(method)>, support::ScalarNet<2>::type> run{
            {}, support::scalar_data({1, 2, -1}, {1, 3, 2}), method, {.batch = 0}, Vec<double>{0.7, -0.4}};
        run.round(sample::Everyone{});
        return run.server().w;
    };
    for (const double c : {0.25, 0.5, 0.8, 1.0}) {
        const auto flow = after_one(
            Fixed{.gate = {.q0 = c}, .local = {.rate = 0.3}, .local_epochs = 0, .halves = undivided});
        const auto plain = after_one(FedAvg<>{.local = {.rate = c * 0.3}});
        CHECK(support::distance(flow, plain) < 1e-15);  // c moves from the gradient to the rate: one rounding each
        CHECK((support::distance(flow, after_one(FedAvg<>{.local = {.rate = 0.3}})) > 1e-3) == (c < 1));
    }
}

TEST_CASE("L-FLOW-6 K2 = 0: the server's state is constant") {
    Federation<Flow<Router>, Net> run{{}, toy_data(), {.local_epochs = 2, .joint_epochs = 0}, usual};
    const auto before = run.server().w;
    run.run(3, sample::Everyone{});
    CHECK(same_bits(run.server().w, before));
    Federation<Flow<Router>, Net> moving{{}, toy_data(), {.local_epochs = 2, .joint_epochs = 1}, usual};
    moving.round(sample::Everyone{});
    CHECK_FALSE(same_bits(moving.server().w, before));
}

TEST_CASE("L-FLOW-7 hard policy with all q0 >= 1/2: nobody is right alone") {
    Federation<Fixed, Net> run{{}, toy_data(), {.gate = {.q0 = 0.5}, .local_epochs = 5}, usual};
    run.run(3, sample::Everyone{});
    CHECK(break_down(run).shares().global_only == 0);
    CHECK(break_down(run).shares().personal_only == 0);
    CHECK(break_down(run).shares().both > 0);
    for (Id k = 0; k < 6; ++k) {
        const auto share = run.data()[k];
        Vec<float> global(share.test.size() * Toy::classes);
        Net{}.predict(head(run.server().w), Batch<float>(*share.examples, share.test), global);
        CHECK(same_bits(answers(run, k), global));
    }
    auto soft = run.setup().method;
    soft.routing.inference = nn::Inference::soft;
    Federation<Fixed, Net> other{{}, toy_data(), soft, usual};
    other.run(3, sample::Everyone{});
    CHECK_FALSE(same_bits(answers(other, 0), answers(run, 0)));
}

TEST_CASE("L-FLOW-10 global_loss = global: w_g is FedAvg's on zeta_g for any gamma, psi and K1") {
    const FedAvg<> fedavg{.local = lively, .epochs = 2};
    Flow<Router> method{.local = lively, .joint_epochs = 2, .routing = {.global_loss = nn::GlobalLoss::global}};
    for (const double gamma : {0.0, 0.3})
        for (const std::size_t local_epochs : {0u, 2u}) {
            method.routing.gamma = gamma;
            method.local_epochs = local_epochs;
            CHECK(is_fedavg(method, half(true), fedavg));
        }
    method.routing.global_loss = nn::GlobalLoss::personalized;
    CHECK_FALSE(is_fedavg(method, half(true), fedavg));
}

TEST_CASE("frozen means frozen, with momentum too (D-FLOW-7)") {
    // A router step moves psi alone and a global step w_g alone, whatever their momenta hold.
    support::ToyPlace<Net> place;
    const auto at = place.context();
    const auto& w0 = place.initial;
    const Flow<Router> method{.local = {.rate = 0.1, .momentum = 0.9}, .local_epochs = 1};
    auto x = detail::routed(method, at).start(w0, Key{1});
    Nothing none;
    detail::train_local(method, at, x, none);
    const auto j_psi = detail::routed(method, at, nn::Moves::router);
    const auto j_g = detail::routed(method, at, nn::Moves::global);
    detail::Steps router(at, j_psi, method.local), global(at, j_g, method.local);
    const auto moved = [&](const Vec<float>& before, Range r) {
        return !std::equal(before.begin() + static_cast<std::ptrdiff_t>(r.begin),
                           before.begin() + static_cast<std::ptrdiff_t>(r.end),
                           x.begin() + static_cast<std::ptrdiff_t>(r.begin));
    };
    const std::size_t d = Net::parameters, p = j_psi.router_size();
    for (const auto b : at.epochs(2)) {
        auto before = x;
        router(x, b);
        CHECK_FALSE(moved(before, {0, d}));
        CHECK(moved(before, {d, d + p}));
        CHECK_FALSE(moved(before, {d + p, x.size()}));
        before = x;
        global(x, b);
        CHECK(moved(before, {0, d}));
        CHECK_FALSE(moved(before, {d, x.size()}));
    }
}

TEST_CASE("a visit is billed three passes: of w_l alone on zeta_l, of both branches and the router on zeta_g, twice") {
    const Net model;
    const double one = model.forward_flops(), router = Router{}.forward_flops(model.routes(MixAt::layer));
    double local = 0, global = 0;  // examples
    for (std::size_t k = 0; k < 6; ++k) {
        local += static_cast<double>(half(false)[k].train.size());
        global += static_cast<double>(half(true)[k].train.size());
    }
    const auto bill = [&]<class Me>(Me method) {
        method.local_epochs = 2;
        method.joint_epochs = 3;
        return Federation<Me, Net>{{}, toy_data(), method, usual}.round(sample::Everyone{}).flops;
    };
    CHECK(bill(Flow<Router>{}) == 3 * (2 * local * one + 3 * global * 2 * (2 * one + router)));
    CHECK(bill(Flow<Router>{.routing = {.global_loss = nn::GlobalLoss::global}}) ==
          3 * (2 * local * one + 3 * global * (2 * one + router + one)));
    CHECK(bill(Fixed{}) == 3 * (2 * local * one + 3 * global * 2 * one));  // no router, and no step of it
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws<Flow<Router>, Net>({.gate = {.dropout = 0.3}}) == "");
    CHECK(support::broken_laws<Flow<Router>, Net>({.local = lively,
                                                   .routing = {.inference = nn::Inference::soft},
                                                   .halves = {.split = SplitBy::sample_random},
                                                   .local_init = LocalInit::averaged_local,
                                                   .alternate = Alternate::epoch}) == "");
    CHECK(support::broken_laws<Flow<Router, rule::Sgd, fold::ServerAdam<>>, Net>({}, {.rate_zero_stays = false}) == "");
}

}  // namespace flow_test
