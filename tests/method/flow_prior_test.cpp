// SPDX-License-Identifier: BSD-3-Clause
// Flow over other objectives: local models that a prior pulls, a pulled w_g, a frozen backbone.
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/gate/chain.hpp>
#include <tessera/gate/fixed.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/nn/tuned.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/prior/hybrid.hpp>
#include <tessera/prior/loss_gradient.hpp>
#include <tessera/prior/memorized.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/runtime/routing_theory.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>
#include <support/unfused.hpp>

namespace flow_prior_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
using Router = gate::Chain<5>;
template <class Prior, class Divergence = divergence::Gaussian>
using With = Flow<Router, rule::Sgd, fold::Mean, Prior, Divergence>;
constexpr Settings usual{.seed = 3, .batch = 5};
const rule::Sgd lively{.rate = 0.1, .momentum = 0.5};

template <class Me>
Vec<float> after(const Me& method, std::size_t rounds = 3) {
    Federation<Me, Net> run{{}, toy_data(), method, usual};
    run.run(rounds, sample::Everyone{});
    return run.server().w;
}
// (w_g, psi, w_l) that client 0 is served.
template <class Me, class M>
Vec<real<M>> served(const Federation<Me, M>& run) {
    Workspace<real<M>> workspace;
    Vec<real<M>> x;
    run.at_client(0, workspace, [&](const auto& client, auto received, auto& space) {
        x = client.serve(std::move(received), run.rounds_done(), space).parameters();
    });
    return x;
}
template <class R>
Vec<R> local_of(const Vec<R>& x) {
    return {x.end() - static_cast<std::ptrdiff_t>(Net::parameters), x.end()};
}

}  // namespace

TEST_CASE_TEMPLATE("strength 0 is Flow, bit for bit, whatever the prior; any other is not", Prior, prior::Identity,
                   prior::LossGradient, prior::Memorized, prior::Hybrid) {
    const auto plain = after(Flow<Router>{.local = lively, .local_epochs = 2});
    With<Prior> method{.local = lively, .local_epochs = 2};
    CHECK(same_bits(after(method), plain));
    method.lambda = 2;
    CHECK_FALSE(same_bits(after(method), plain));
}

TEST_CASE("the identity's prior is a proximal pull of w_l to the w_g received") {
    const Flow<Router> method{.local = lively, .local_epochs = 2, .lambda = 0.7};
    Federation<Flow<Router>, Net> run{{}, toy_data(), method, usual};
    run.run(2, sample::Everyone{});
    const auto by_hand = [&](double pull) {
        Workspace<float> workspace;
        auto at = run.setup().context(run.data()[0], 0, run.rounds_done(), workspace);
        at.serving = true;
        const detail::Halves halves(at, method.halves);
        const auto zeta_l = halves.local(at);
        const Vec<float> w_g(run.server().w.begin(), run.server().w.begin() + static_cast<std::ptrdiff_t>(Net::parameters));
        auto w_l = w_g;
        descend(zeta_l, w_l, zeta_l.epochs(2, Pass::own), lively, {.prox_center = w_g, .prox_weight = pull});
        return w_l;
    };
    CHECK(same_bits(local_of(served(run)), by_hand(0.7)));
    CHECK_FALSE(same_bits(local_of(served(run)), by_hand(0)));
}

TEST_CASE("lg by hand: one step on all data goes rate (1 + lambda eta_a) along the slope") {
    using Method = With<prior::LossGradient>;
    const Method method{.local = {.rate = 0.2}, .joint_epochs = 0, .halves = {.split = SplitBy::none},
                        .prior = {.eta_a = 0.5}, .lambda = 3};
    const Federation<Method, Net> run{{}, toy_data(), method, {.seed = 3, .batch = 0}};
    Workspace<float> workspace;
    const auto at = run.setup().context(run.data()[0], 0, 0, workspace);
    const Vec<float>& w = run.setup().initial;
    Vec<float> g(w.size()), along = w, short_of = w;
    at.gradient(w, at.everything(), g);
    for (std::size_t j = 0; j < w.size(); ++j) along[j] -= 0.2F * 2.5F * g[j], short_of[j] -= 0.2F * g[j];
    CHECK(support::distance(local_of(served(run)), along) < 1e-6);  // sums in another order, in float
    CHECK(support::distance(local_of(served(run)), short_of) > 1e-3);
}

TEST_CASE("a prior that remembers keeps w_l and w_g of the last visit; one that forgets keeps nothing") {
    using Method = With<prior::Memorized>;
    Federation<Method, Net> run{{}, toy_data(), {.local = lively, .lambda = 1}, usual};
    run.round(sample::Everyone{});
    const auto me = run.client(0);
    CHECK(same_bits(me.w_last, run.setup().initial));
    CHECK_FALSE(same_bits(me.theta, me.w_last));
    static_assert(std::is_same_v<With<prior::LossGradient>::Client<float>, Nothing>);
}

TEST_CASE("q0 = 1 with a pull of w_g is FedProx on zeta_g, bit for bit") {
    using Bare = support::Unfused<Net>;
    const auto same = [](double mu, double other) {
        Federation<Flow<gate::Fixed>, Net> flow{
            {}, toy_data(), {.local = lively, .halves = {.split = SplitBy::none}, .mu = mu}, usual};
        Federation<FedProx<>, Bare> prox{{}, toy_data(), {.local = lively, .mu = other}, usual};
        for (int r = 0; r < 3; ++r) flow.round(sample::Everyone{}), prox.round(sample::Everyone{});
        return same_bits(flow.server().w, prox.server().w);
    };
    CHECK(same(0.4, 0.4));
    CHECK(same(0, 0));
    CHECK_FALSE(same(0.4, 0));
}

TEST_CASE("a frozen backbone: branches of what trains alone, with the gradients that differences find") {
    using Wide = nn::Dnn<8, 6, 4, double>;
    const Wide net;
    const nn::Tuned<Wide> tuned(net, initial_parameters(net, Key{2}));
    const gate::Chain<5> gate;
    const nn::Routed<nn::Tuned<Wide>, gate::Chain<5>> objective(tuned, gate, {.gamma = 0.1});
    CHECK(conformance::check_gradients(objective, 1e-6, 8).empty());

    using Head = nn::Tuned<Net>;
    const Net model;
    const Head head(model, initial_parameters(model, Key{2}));
    const auto trained = [&](const auto& method) {
        Federation<std::remove_cvref_t<decltype(method)>, Head> run{head, toy_data(), method, usual};
        run.run(3, sample::Everyone{});
        return run.server().w;
    };
    // q0 = 1 is FedAvg of the head on the same backbone. Routed steps take the gradient first, FedAvg's are fused, so
    // they round differently: a few roundings of float a step.
    const auto flow = trained(Flow<gate::Fixed>{.local = lively, .halves = {.split = SplitBy::none}});
    CHECK(support::distance(flow, trained(FedAvg<>{.local = lively})) < 1e-5);
    CHECK(support::distance(flow, trained(FedAvg<>{.local = {.rate = 0.05}})) > 1e-3);
    CHECK(flow.size() == dimension(head));
}

TEST_CASE("the theory's constants of a fixed gate can be written down") {
    using Fixed = Flow<gate::Fixed>;
    Federation<Fixed, Net> run{{}, toy_data(), {.gate = {.q0 = 0.25}, .local = lively}, usual};
    run.run(2, sample::Everyone{});
    const auto t = routing_theory(run, {.power_steps = 3});
    CHECK(t.q0_squared == doctest::Approx(0.0625));
    CHECK(t.q1_squared == doctest::Approx(0.5625));
    double mean = 0;
    for (const double each : t.delta_w) mean += each / static_cast<double>(run.size());
    CHECK(t.g() == doctest::Approx(std::sqrt(mean)));  // mean |g_m|^2 - |g|^2 = mean |g_m - g|^2
    CHECK(t.heterogeneity(4) == doctest::Approx(2 * 9 * mean / 4));
    for (const double each : t.delta_psi) CHECK(each == 0);  // it has no parameters
    const double s = t.sigma_l() * t.sigma_l(), m = static_cast<double>(run.size());
    CHECK(t.noise(4, 2) == doctest::Approx(s / (2 * std::sqrt(5.0) * m * 0.0625 * 2 * 2) + s / 8));
    CHECK(routing_theory_table(t, 10, 1).series[0].y.size() == routing_theory_table(t, 10, 1).categories.size());
    Federation<Flow<Router>, Net> learnt{{}, toy_data(), {.local = lively}, usual};
    learnt.run(2, sample::Everyone{});
    CHECK(routing_theory(learnt, {.power_steps = 1}).delta_psi[0] > 0);
}

TEST_CASE("the snapshot is of w_g after one epoch, however many there are, and tagged as trained") {
    const auto snapshot = [](std::size_t epochs, double rate) {
        Federation<Flow<Router>, Net> run{{}, toy_data(), {.local = {.rate = rate}, .joint_epochs = epochs}, usual};
        const auto figure = evaluate_first_epoch(run);
        static_assert(std::is_same_v<std::remove_cvref_t<decltype(figure)>,
                                     report::PerClient<Which::global, When::after, SplitOf::test, Whom::all>>);
        return std::pair{figure.loss(Average::unweighted).value.get(),
                         evaluate<Which::global>(run).loss(Average::unweighted).value.get()};
    };
    CHECK(snapshot(1, 0.2).first == snapshot(3, 0.2).first);
    CHECK(snapshot(1, 0.2).first != snapshot(1, 0.2).second);
    CHECK(snapshot(1, 0).first == snapshot(1, 0).second);
}

TEST_CASE("wrong strengths are refused; laws of a Flow with a prior") {
    CHECK_THROWS_WITH_AS((Federation<Flow<Router>, Net>{{}, toy_data(), {.lambda = -1}, usual}),
                         doctest::Contains("lambda"), ConfigError);
    CHECK_THROWS_WITH_AS((Federation<Flow<Router>, Net>{{}, toy_data(), {.mu = -1}, usual}), doctest::Contains("mu"),
                         ConfigError);
    CHECK(support::broken_laws<With<prior::Hybrid>, Net>({.local = {.rate = 0.05}, .lambda = 2}) == "");
}

}  // namespace flow_prior_test
