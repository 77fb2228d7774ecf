// SPDX-License-Identifier: BSD-3-Clause
// The limits in which pFedBreD's modes become each other, become Per-FedAvg, or stand still. "Same" means every bit
// after every round, unless a tolerance and its reason stand beside the check.
#include <doctest/doctest.h>

#include <cstddef>

#include <tessera/core/denormals.hpp>
#include <tessera/method/per_fedavg.hpp>
#include <tessera/method/pfedbred.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/prior/hybrid.hpp>
#include <tessera/prior/loss_gradient.hpp>
#include <tessera/prior/memorized.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace pfedbred_limits_test {

using namespace tessera;
using prior::Hybrid;
using prior::Identity;
using prior::LossGradient;
using prior::Memorized;
using prior::Reading;
using support::distance;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Dnn<Toy::width, 6, Toy::classes, float>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};
const sample::Uniform all_train{.count = 3, .everyone_trains = true};

// Options that all sides of a comparison share; the rates are large enough to see every term in float.
template <class Prior>
FedBreD<Prior> with(Prior prior, ProxInit init = ProxInit::w) {
    return {.prior = prior, .local = {.rate = 0.03}, .alpha_m = 0.02, .steps = 4, .inner_steps = 3, .prox_init = init};
}

// Server and every client's theta agree after each of `rounds` rounds.
template <class A, class B>
bool same(const A& first, const B& second, std::size_t rounds = 4) {
    Federation<A, Net> a{{}, toy_data(), first, usual};
    Federation<B, Net> b{{}, toy_data(), second, usual};
    for (std::size_t r = 0; r < rounds; ++r) {
        a.round(all_train);
        b.round(all_train);
        if (!same_bits(a.server().w, b.server().w)) return false;
        for (Id k = 0; k < a.size(); ++k)
            if (!same_bits(a.client(k).theta, b.client(k).theta)) return false;
    }
    return !same_bits(a.server().w, a.setup().initial);  // and it is not that nothing happens
}

}  // namespace

TEST_CASE("L-BRED-1 without meta-steps every mode is pFedMe") {
    const auto pfedme = with(Identity{});
    CHECK(same(with(LossGradient{.eta_a = 0}), pfedme));
    CHECK(same(with(Memorized{.eta = 0}), pfedme));
    CHECK(same(with(Hybrid{.eta_a = 0, .eta = 0}), pfedme));
    CHECK(same(with(Hybrid{.eta_a = 0, .eta = 0}, ProxInit::theta_prev), with(Identity{}, ProxInit::theta_prev)));
    CHECK(same(with(LossGradient{.eta_a = 0}, ProxInit::automatic), with(Identity{}, ProxInit::automatic)));
    CHECK_FALSE(same(with(LossGradient{.eta_a = 1e-3}), pfedme));
    CHECK_FALSE(same(with(Memorized{.eta = 1e-3}), pfedme));
    CHECK_FALSE(same(with(Hybrid{.eta_a = 1e-3, .eta = 0}), pfedme));
}

TEST_CASE("L-BRED-2 mh without one of its parts is the other") {
    for (const auto init : {ProxInit::w, ProxInit::mu, ProxInit::theta_prev}) {
        CHECK(same(with(Hybrid{.eta_a = 0.02, .eta = 0}, init), with(LossGradient{.eta_a = 0.02}, init)));
        CHECK(same(with(Hybrid{.eta_a = 0, .eta = 0.1}, init), with(Memorized{.eta = 0.1}, init)));
    }
    CHECK_FALSE(same(with(Hybrid{.eta_a = 0.02, .eta = 0}), with(LossGradient{.eta_a = 0.02}, ProxInit::automatic)));
    CHECK_FALSE(same(with(Hybrid{.eta_a = 0.02, .eta = 0, .mh = Reading::code}), with(LossGradient{.eta_a = 0.02})));
}

TEST_CASE("L-BRED-3 the first step of a first visit has nothing to remember") {
    const auto first_step = [](auto method) {
        method.steps = 1;
        return method;
    };
    CHECK(same(first_step(with(Memorized{.eta = 0.1})), first_step(with(Identity{})), 1));
    CHECK(same(first_step(with(Hybrid{.eta = 0.1})), first_step(with(LossGradient{})), 1));
    CHECK_FALSE(same(with(Memorized{.eta = 0.1}), with(Identity{}), 1));                              // the second step
    CHECK_FALSE(same(first_step(with(Memorized{.eta = 0.1})), first_step(with(Identity{})), 2));  // the second visit
}

TEST_CASE("L-BRED-4 lambda = 0: w stays and theta is K steps of SGD on the last batch") {
    const auto check = [](auto prior) {
        auto method = with(prior, ProxInit::w);
        method.lambda = 0;
        Federation<decltype(method), Net> run{{}, toy_data(), method, usual};
        const auto& initial = run.setup().initial;
        run.run(3, all_train);
        CHECK(same_bits(run.server().w, initial));
        Workspace<float> workspace;
        const auto at = run.setup().context(run.data()[1], 1, 0, workspace);
        Cursor cursor;
        auto theta = initial;
        const FlushDenormals flush;
        const auto batches = at.stream(cursor, 12);
        auto step = walk(at, method.local);
        for (int k = 0; k < 3; ++k) step(theta, batches[11]);
        CHECK(same_bits(run.client(1).theta, theta));
        step(theta, batches[11]);
        CHECK_FALSE(same_bits(run.client(1).theta, theta));
    };
    check(Identity{});
    check(LossGradient{});
    check(Memorized{});
    check(Hybrid{});
}

TEST_CASE("L-BRED-4 mh as released with lambda = 0 is first-order Per-FedAvg") {
    const auto same_w = [](Hybrid prior, double lambda, double step, MetaGradient order) {
        auto method = with(prior);
        method.lambda = lambda;
        Federation<FedBreD<Hybrid>, Net> bred{{}, toy_data(), method, usual};
        const PerFedAvg<> other{.local = {.rate = step}, .alpha = step, .steps = method.steps, .meta_gradient = order};
        Federation<PerFedAvg<>, Net> per{{}, toy_data(), other, usual};
        for (int r = 0; r < 4; ++r) {
            bred.round(all_train);
            per.round(all_train);
            if (!same_bits(bred.server().w, per.server().w)) return false;
        }
        return true;
    };
    constexpr auto first = MetaGradient::first_order;
    CHECK(same_w({.eta_a = 0.05, .mh = Reading::code}, 0, 0.05, first));
    CHECK_FALSE(same_w({.eta_a = 0.05, .mh = Reading::code}, 1, 0.05, first));
    CHECK_FALSE(same_w({.eta_a = 0.05, .mh = Reading::paper}, 0, 0.05, first));
    CHECK_FALSE(same_w({.eta_a = 0.05, .mh = Reading::code}, 0, 0.05, MetaGradient::hessian_free));
}

TEST_CASE("L-BRED-5 and L-BRED-11: without inner or without outer steps w stays") {
    const auto stays = [](auto method) {
        Federation<decltype(method), Net> run{{}, toy_data(), method, usual};
        run.run(2, all_train);
        return same_bits(run.server().w, run.setup().initial);
    };
    const auto no_inner = [](auto prior) {
        auto method = with(prior, ProxInit::automatic);
        method.inner_steps = 0;
        return method;
    };
    CHECK(stays(no_inner(Identity{})));
    CHECK(stays(no_inner(LossGradient{})));
    CHECK_FALSE(stays(no_inner(Hybrid{})));  // the prox starts at w, not at mu
    const auto no_outer = [](auto prior) {
        auto method = with(prior, ProxInit::automatic);
        method.steps = 0;
        return method;
    };
    CHECK(stays(no_outer(Identity{})));
    CHECK(stays(no_outer(LossGradient{})));
    CHECK(stays(no_outer(Memorized{})));
    CHECK(stays(no_outer(Hybrid{.mh = Reading::code})));
    CHECK_FALSE(stays(with(Identity{})));
}

TEST_CASE("L-BRED-6 alpha_m lambda = 1 and mu = w: w_i is theta_i") {
    // w - (w - theta) rounds twice: 1e-6 relative in float.
    const auto gap = [](double alpha_m) {
        auto method = with(Identity{});
        method.lambda = 16;
        method.alpha_m = alpha_m;
        method.eval_model = EvalModel::w_local;  // so that w_i is kept
        Federation<FedBreD<>, Net> run{{}, toy_data(), method, usual};
        run.run(2, all_train);
        return distance(run.client(2).w_last, run.client(2).theta);
    };
    CHECK(gap(1.0 / 16) < 1e-6);
    CHECK(gap(1.0 / 20) > 1e-4);
}

TEST_CASE("L-BRED-8 beta") {
    const auto end = [](double beta) {
        auto method = with(Hybrid{});
        method.fold.beta = beta;
        Federation<FedBreD<Hybrid>, Net> run{{}, toy_data(), method, usual};
        run.round(all_train);
        return run.server().w;
    };
    const auto w0 = end(0), w1 = end(1), w2 = end(2);
    Federation<FedBreD<Hybrid>, Net> run{{}, toy_data(), with(Hybrid{}), usual};
    CHECK(same_bits(w0, run.setup().initial));
    auto line = w1;
    for (std::size_t j = 0; j < line.size(); ++j) line[j] = 2 * w1[j] - w0[j];
    CHECK(distance(w2, line) < 1e-6);  // affine in beta; float rounding
    CHECK(distance(w2, w1) > 1e-4);

    FedBreD<Hybrid, divergence::Gaussian, fold::Mean> mean{.prior = {}, .local = {.rate = 0.03}, .alpha_m = 0.02,
                                                           .steps = 4, .inner_steps = 3, .prox_init = ProxInit::w};
    CHECK(same(mean, with(Hybrid{})));
    auto half = with(Hybrid{});
    half.fold.beta = 0.5;
    CHECK_FALSE(same(mean, half));
}

}  // namespace pfedbred_limits_test
