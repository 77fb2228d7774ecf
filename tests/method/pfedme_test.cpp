// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/pfedme.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace pfedme_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Mclr<Toy::width, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};
const PFedMe<> lively{.local = {.rate = 0.05}, .steps = 4, .inner_steps = 3};

// theta and w of the single client f = (x - 1)^2 from w = 0 after R steps of one visit.
struct End {
    double theta, w;
};
End end(PFedMe<> method, std::size_t R, std::size_t rounds = 1) {
    method.steps = R;
    Federation<PFedMe<>, support::Quadratic<>> run{
        {}, support::quadratic_data({{{2, 1}}}), method, {.batch = 0}, Vec<double>{0}};
    run.run(rounds, sample::Everyone{});
    return {run.client(0).theta[0], run.server().w[0]};
}
// The same by a loop.
End by_hand(std::size_t R, double decay, bool warm, double pull) {
    double w = 0, theta = 0;
    for (std::size_t r = 0; r < R; ++r) {
        if (!warm) theta = w;
        for (int k = 0; k < 5; ++k) theta -= 0.01 * (2 * (theta - 1) + pull * (theta - w) + decay * theta);
        w -= 0.01 * 15 * (w - theta);
    }
    return {theta, w};
}
double apart(End a, End b) { return std::max(std::fabs(a.theta - b.theta), std::fabs(a.w - b.w)); }

}  // namespace

TEST_CASE("every option, against a loop") {
    // 1e-15: the same operations on numbers below 1, in another order at most.
    CHECK(apart(end({}, 4), by_hand(4, 0, false, 15)) < 1e-15);
    CHECK(apart(end({.local = {.rate = 0.01, .weight_decay = 1e-3}}, 4), by_hand(4, 1e-3, false, 15)) < 1e-15);
    CHECK(apart(end({.prox_init = ProxInit::theta_prev}, 4), by_hand(4, 0, true, 15)) < 1e-15);
    CHECK(apart(end({.detached = true}, 4), by_hand(4, 0, false, 0)) < 1e-15);
    CHECK(apart(end(pfedme_as_released(), 4), by_hand(4, 1e-3, true, 15)) < 1e-15);
    CHECK(apart(by_hand(4, 0, false, 15), by_hand(4, 1e-3, false, 15)) > 1e-6);  // each of them shows
    CHECK(apart(by_hand(4, 0, false, 15), by_hand(4, 0, true, 15)) > 1e-3);
    CHECK(apart(by_hand(4, 0, false, 15), by_hand(4, 0, false, 0)) > 1e-3);
}

TEST_CASE("detached: w <- (1 - alpha_m lambda) w + alpha_m lambda theta, theta by plain SGD") {
    const End one = end({.detached = true}, 1);
    const double theta = 1 - std::pow(1 - 0.02, 5);
    CHECK(std::fabs(one.theta - theta) < 1e-15);
    CHECK(std::fabs(one.w - 0.15 * theta) < 1e-15);
}

TEST_CASE("the program's personal model is w at the end of the visit") {
    CHECK(pfedme_as_released().eval_model == EvalModel::w_local);
    CHECK(pfedme_as_released({.lambda = 30}).lambda == 30);  // other settings are kept
    Federation<PFedMe<>, Net> run{{}, toy_data(), pfedme_as_released(lively), usual};
    run.run(2, sample::Everyone{});
    CHECK_FALSE(run.client(0).w_last.empty());
    CHECK_FALSE(same_bits(run.client(0).w_last, run.client(0).theta));
}

TEST_CASE("settings by name") {
    PFedMe<> method;
    CHECK(set_by_name(method, "rate", "0.05"));
    CHECK(set_by_name(method, "lambda", "30"));
    CHECK(set_by_name(method, "beta", "2"));
    CHECK(set_by_name(method, "prox_init", "theta_prev"));
    CHECK(set_by_name(method, "eval_model", "w_local"));
    CHECK(method.local.rate == 0.05);
    CHECK(method.fold.beta == 2);
    CHECK(method.prox_init == ProxInit::theta_prev);
    CHECK(method.eval_model == EvalModel::w_local);
    CHECK_FALSE(set_by_name(method, "eta_a", "1"));  // pFedMe has no meta-step
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws(lively) == "");
    CHECK(support::broken_laws(pfedme_as_released(lively)) == "");
}

TEST_CASE("all train, few are merged: everybody's theta moves, w depends on the merged alone") {
    Federation<PFedMe<>, Net> all{{}, toy_data(), lively, usual}, few{{}, toy_data(), lively, usual};
    const auto report = all.round(sample::Uniform{.count = 2, .everyone_trains = true});
    few.round(sample::Uniform{.count = 2});
    CHECK(report.trained == 6);
    CHECK(report.outcome.merged == 2);
    CHECK(same_bits(all.server().w, few.server().w));
    std::size_t trained = 0;
    for (Id k = 0; k < 6; ++k) {
        CHECK_FALSE(all.client(k).theta.empty());
        trained += !few.client(k).theta.empty();
    }
    CHECK(trained == 2);
}

TEST_CASE("L-GEN-7 a client that is not visited keeps every bit") {
    Federation<PFedMe<>, Net> run{{}, toy_data(), lively, usual};
    run.round(sample::Everyone{});
    std::size_t kept = 0;
    for (int r = 0; r < 4; ++r) {
        std::vector<Vec<float>> before;
        for (Id k = 0; k < 6; ++k) before.push_back(run.client(k).theta);
        run.round(sample::Uniform{2});
        std::size_t same = 0;
        for (Id k = 0; k < 6; ++k) same += same_bits(before[k], run.client(k).theta);
        CHECK(same == 4);
        kept += same;
    }
    CHECK(kept == 16);
}

TEST_CASE("L-GEN-9 what a checkpoint leaves out is missed") {
    const auto ends_alike = [](auto edit) {
        Federation<PFedMe<>, Net> straight{{}, toy_data(), pfedme_as_released(lively), usual};
        Federation<PFedMe<>, Net> second{{}, toy_data(), pfedme_as_released(lively), usual};
        straight.run(2, sample::Everyone{});
        Bytes bytes;
        put(bytes, std::uint64_t{2});
        put(bytes, straight.server());
        put(bytes, std::uint64_t{6});
        for (Id k = 0; k < 6; ++k) {
            auto state = straight.client(k);
            edit(state);
            put(bytes, k);
            put(bytes, state);
        }
        Reader in(bytes);
        second.restore(in);
        straight.run(2, sample::Everyone{});
        second.run(2, sample::Everyone{});
        return straight.fingerprint() == second.fingerprint();
    };
    CHECK(ends_alike([](auto&) {}));
    CHECK_FALSE(ends_alike([](auto& state) { state.cursor = {}; }));
    CHECK_FALSE(ends_alike([](auto& state) { state.theta.clear(); }));
}

}  // namespace pfedme_test
