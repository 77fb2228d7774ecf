// SPDX-License-Identifier: BSD-3-Clause
// pFedBreD by numbers: the vectors, closed forms on quadratics, every option. Its limits: pfedbred_limits_test.cpp.
#include <tessera/method/pfedbred.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <tessera/prior/hybrid.hpp>
#include <tessera/prior/loss_gradient.hpp>
#include <tessera/prior/memorized.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/quadratic.hpp>

namespace pfedbred_test {

using namespace tessera;
using prior::Hybrid;
using prior::LossGradient;
using prior::Memorized;
using prior::Reading;
using support::Parabola;

namespace {

struct Row {
    double mu, theta, w;
};

// A prior that writes down what the one inside saw and said: w and theta before the step, mu.
template <class Inner>
struct Watched {
    static constexpr Offers offers =
        offer::draws | offer::when(detail::starts_at_mean<Inner>, offer::starts_at_mean);
    Inner inner{};
    std::vector<Row>* seen = nullptr;

    std::size_t draws() const { return detail::draws_of(inner); }
    template <class M, class R = real<M>>
    void operator()(const Context<M>& at, Vec<R>& w, const Drawn<R>& b, const Personal<R>& me, Vec<R>& mu) const {
        const Row before{0, me.theta[0], w[0]};
        inner(at, w, b, me, mu);
        seen->push_back({mu[0], before.theta, before.w});
    }
};

template <class Prior>
using Run = Federation<FedBreD<Prior>, support::Quadratic<>>;

// (mu, theta, w) after r = 1, 2, 3 of the first visit and r = 1 of the next: f = (theta - 1)^2 from w = 0.
template <class Inner>
std::array<Row, 4> four_steps(Inner inner, FedBreD<Watched<Inner>> method = {}) {
    std::vector<Row> seen;
    method.prior = {inner, &seen};
    method.steps = 3;
    Run<Watched<Inner>> run{{}, support::quadratic_data({{{2, 1}}}), method, {.batch = 0}, Vec<double>{0}};
    run.run(2, sample::Everyone{});
    std::array<Row, 4> rows{};
    for (std::size_t r = 0; r < 4; ++r) rows[r] = {seen[r].mu, seen[r + 1].theta, seen[r + 1].w};
    return rows;
}

bool equal(const std::array<Row, 4>& got, const std::array<Row, 4>& expected) {
    const auto near = [](double a, double b) { return std::fabs(a - b) < 5e-10; };  // nine digits are given
    for (std::size_t r = 0; r < 4; ++r)
        if (!near(got[r].mu, expected[r].mu) || !near(got[r].theta, expected[r].theta) ||
            !near(got[r].w, expected[r].w))
            return false;
    return true;
}

constexpr std::array<Row, 4> pfedme{Row{0, 0.071305404, 0.010695811}, Row{0.010695811, 0.081238546, 0.021277221},
                                    Row{0.021277221, 0.091065444, 0.031745454},
                                    Row{0.031745454, 0.100787236, 0.042101722}};
constexpr std::array<Row, 4> lg{Row{0.02, 0.089879296, 0.010481894}, Row{0.030272257, 0.099419085, 0.020853919},
                                Row{0.040436840, 0.108858879, 0.031117225}, Row{0.050494880, 0.118199726, 0.041272952}};
constexpr std::array<Row, 4> lg_code{Row{0.1, 0.164174864, 0.009626230}, Row{0.108663607, 0.172220708, 0.019159795},
                                     Row{0.117243815, 0.180189102, 0.028601588},
                                     Row{0.125741429, 0.188080790, 0.037952492}};
constexpr std::array<Row, 4> meg{Row{0, 0.071305404, 0.010695811}, Row{0.014261081, 0.083145218, 0.021028431},
                                 Row{0.025185692, 0.093057658, 0.031209226},
                                 Row{0.034301648, 0.101943042, 0.041355435}};
constexpr std::array<Row, 4> mh{Row{0.02, 0.082001215, 0.009300182}, Row{0.033214239, 0.092731444, 0.018227763},
                                Row{0.042499780, 0.101213874, 0.027034877}, Row{0.050203129, 0.108802710, 0.035824814}};
constexpr std::array<Row, 4> mh_code{Row{0.0196, 0.089507818, 0.030086173}, Row{0.053571875, 0.119294440, 0.058954869},
                                     Row{0.083364075, 0.146375642, 0.086851088},
                                     Row{0.107725035, 0.170176713, 0.114116559}};

}  // namespace

TEST_CASE("V-BRED-1 every mode, step by step") {
    CHECK(equal(four_steps(prior::Identity{}), pfedme));
    CHECK(equal(four_steps(LossGradient{}), lg));
    CHECK(equal(four_steps(LossGradient{.eta_a = 0.05}), lg_code));
    CHECK(equal(four_steps(Memorized{}), meg));
    CHECK(equal(four_steps(Hybrid{}), mh));
    CHECK(equal(four_steps(Hybrid{.mh = Reading::code}), mh_code));

    SUBCASE("and nothing else gives these numbers") {
        CHECK_FALSE(equal(four_steps(LossGradient{.eta_a = 0.02}), lg));
        CHECK_FALSE(equal(four_steps(Memorized{.eta = 0.04}), meg));
        CHECK_FALSE(equal(four_steps(Hybrid{}), mh_code));
        CHECK_FALSE(equal(four_steps(LossGradient{}, {.prox_init = ProxInit::w}), lg));  // lg starts at mu
        CHECK_FALSE(equal(four_steps(Memorized{}, {.prox_init = ProxInit::mu}), meg));   // meg and mh at w
        CHECK_FALSE(equal(four_steps(Hybrid{}, {.prox_init = ProxInit::theta_prev}), mh));
        CHECK_FALSE(equal(four_steps(prior::Identity{}, {.inner_steps = 4}), pfedme));
        CHECK_FALSE(equal(four_steps(prior::Identity{}, {.local = {.rate = 0.01, .weight_decay = 1e-3}}), pfedme));
        CHECK_FALSE(equal(four_steps(prior::Identity{}, {.detached = true}), pfedme));
    }
    SUBCASE("saying what automatic means changes nothing") {
        CHECK(equal(four_steps(LossGradient{}, {.prox_init = ProxInit::mu}), lg));
        CHECK(equal(four_steps(Hybrid{}, {.prox_init = ProxInit::w}), mh));
    }
}

TEST_CASE("V-BRED-2 aggregation with beta") {
    // Clients that return their targets: with a = 1/2, alpha = 2 and K = 1 theta = w - 2 * 1/2 (w - c) = c, and with
    // alpha_m lambda = 1 w follows it. Three examples weigh three.
    const auto merged = [](double beta) {
        const FedBreD<> method{
            .fold = {.beta = beta}, .local = {.rate = 2}, .alpha_m = 1, .lambda = 1, .steps = 1, .inner_steps = 1};
        Run<prior::Identity> run{{},
                                 support::quadratic_data({{{0.5, 2}}, {{0.5, 5}, {0.5, 5}, {0.5, 5}}}),
                                 method,
                                 {.batch = 0},
                                 Vec<double>{1}};
        run.round(sample::Everyone{});
        CHECK(run.client(0).theta[0] == 2);
        CHECK(run.client(1).theta[0] == 5);
        return run.server().w[0];
    };
    const auto near = [](double a, double b) { return std::fabs(a - b) < 1e-14; };  // a weight of 1/3 rounds
    CHECK(merged(0) == 1);
    CHECK(near(merged(1), 4.25));
    CHECK(near(merged(2), 7.5));
    CHECK(near(merged(0.5), 2.625));
}

// ------------------------------------------------------------------------------------------ closed forms on quadratics

namespace {

constexpr double alpha = 0.01, alpha_m = 0.01, lambda = 15, a = 2, c = 1, K = 5;
const double rho = std::pow(1 - alpha * (a + lambda), K);
const double kappa = alpha_m * lambda * (1 - rho) * a / (a + lambda);

// The single client's w and theta after each round, R steps each.
template <class Prior>
std::vector<std::pair<double, double>> path(Prior prior, std::size_t R, std::size_t rounds, double from,
                                            std::vector<std::vector<Parabola>> clients = {{{a, c}}}) {
    const FedBreD<Prior> method{.prior = prior, .steps = R};
    Run<Prior> run{{}, support::quadratic_data(clients), method, {.batch = 0}, Vec<double>{from}};
    std::vector<std::pair<double, double>> points;
    for (std::size_t t = 0; t < rounds; ++t) {
        run.round(sample::Everyone{});
        double theta = 0, examples = 0;
        for (Id k = 0; k < run.size(); ++k) {
            const auto n = static_cast<double>(run.data()[k].train.size());
            theta += n * run.client(k).theta[0];
            examples += n;
        }
        points.emplace_back(run.server().w[0], theta / examples);
    }
    return points;
}

}  // namespace

TEST_CASE("L-BRED-9 on a quadratic pFedMe contracts by 1 - kappa a step, lg by 1 - kappa_lg") {
    // 1e-14: some forty roundings of numbers of size 1.
    CHECK(std::fabs(kappa - 0.01069581063) < 1e-11);
    CHECK(std::fabs(rho - 0.3939040643) < 1e-10);
    const double kappa_lg = kappa * (1 - 0.01 * a);
    for (const std::size_t R : {std::size_t{1}, std::size_t{7}}) {
        const auto steps = static_cast<double>(R);
        CHECK(std::fabs(path(prior::Identity{}, R, 1, -2)[0].first - (c + std::pow(1 - kappa, steps) * (-2 - c))) <
              1e-14);
        CHECK(std::fabs(path(LossGradient{}, R, 1, -2)[0].first - (c + std::pow(1 - kappa_lg, steps) * (-2 - c))) <
              1e-14);
        CHECK(std::fabs(path(Memorized{}, R, 1, -2)[0].first - (c + std::pow(1 - kappa_lg, steps) * (-2 - c))) > 1e-6);
    }
}

TEST_CASE("L-BRED-9 the minimum is a fixed point in every mode") {
    const auto stays = [](auto prior, double from) {
        for (const auto& [w, theta] : path(prior, 5, 4, from))
            if (w != c || theta != c) return false;
        return true;
    };
    CHECK(stays(prior::Identity{}, c));
    CHECK(stays(LossGradient{}, c));
    CHECK(stays(Memorized{}, c));
    CHECK(stays(Hybrid{}, c));
    CHECK(stays(Hybrid{.mh = Reading::code}, c));
    CHECK_FALSE(stays(Hybrid{}, c + 1e-6));
}

TEST_CASE("L-BRED-10 common curvature: the mean of the clients follows one client at the mean target") {
    // Targets 0, 3, -1 with weights 1, 2, 3: the mean is 1/2.
    const std::vector<std::vector<Parabola>> three{{{a, 0}}, {{a, 3}, {a, 3}}, {{a, -1}, {a, -1}, {a, -1}}};
    const auto check = [&](auto prior) {
        const auto many = path(prior, 10, 250, 4, three), one = path(prior, 10, 250, 4, {{{a, 0.5}}});
        double gap = 0;
        for (std::size_t t = 0; t < many.size(); ++t)
            gap = std::max({gap, std::fabs(many[t].first - one[t].first), std::fabs(many[t].second - one[t].second)});
        CHECK(gap < 1e-13);                                // other sums of the same numbers, contracting
        CHECK(std::fabs(many.back().first - 0.5) < 1e-8);  // the slowest contracts by 0.991 a step, 2500 times
        const auto uneven = path(prior, 10, 250, 4, {{{1, 0}}, {{a, 3}, {a, 3}}, {{a, -1}, {a, -1}, {a, -1}}});
        CHECK(std::fabs(uneven.back().first - 0.5) > 1e-2);  // curvatures differ
    };
    check(prior::Identity{});
    check(LossGradient{});
    check(Memorized{});
    check(Hybrid{});
    check(Hybrid{.mh = Reading::code});
}

TEST_CASE("V-BASE-1 pFedMe with an exact prox") {
    // a = (1, 3), c = (0, 4): 60 steps of 0.05 contract by 0.2 or more each, so theta is exact. With one step a visit
    // the fixed point does not depend on alpha_m.
    const FedBreD<> method{.local = {.rate = 0.05}, .alpha_m = 1e-2, .steps = 1, .inner_steps = 60};
    Run<prior::Identity> run{{}, support::quadratic_data({{{1, 0}}, {{3, 4}}}), method, {.batch = 0}, Vec<double>{0}};
    run.run(2000, sample::Everyone{});
    CHECK(std::fabs(run.server().w[0] - 2.909090909) < 1e-9);  // nine digits are given
    const auto theta = [&](Id k) { return run.client(k).theta[0]; };
    CHECK(std::fabs(theta(0) - 2.727272727) < 1e-9);
    CHECK(std::fabs(theta(1) - 3.090909091) < 1e-9);
    const double before = run.server().w[0];
    run.round(sample::Everyone{});
    CHECK(std::fabs(run.server().w[0] - before) < 1e-14);  // it has converged
}

// --------------------------------------------------------------------------------------------------------------
// options

TEST_CASE("the Jacobian by Hessian-vector products") {
    // On f = (w - 1)^2 Dmu = 1 - eta_a a for lg and mh as printed, 1 for the rest.
    const auto moved = [](auto prior, Jacobian jacobian) {
        FedBreD<decltype(prior)> method{.prior = prior, .steps = 1, .jacobian = jacobian};
        Run<decltype(prior)> run{{}, support::quadratic_data({{{a, c}}}), method, {.batch = 0}, Vec<double>{0}};
        run.run(1, sample::Everyone{});
        return run.server().w[0];
    };
    const auto ratio = [&](auto prior) { return moved(prior, Jacobian::hvp) / moved(prior, Jacobian::identity); };
    // A central difference is exact on a quadratic up to rounding, u / (u^(1/3)) = 4e-11 of the product.
    CHECK(std::fabs(ratio(LossGradient{.eta_a = 0.1}) - (1 - 0.1 * a)) < 1e-9);
    CHECK(std::fabs(ratio(Hybrid{.eta_a = 0.1}) - (1 - 0.1 * a)) < 1e-9);
    CHECK(ratio(prior::Identity{}) == 1);
    CHECK(ratio(Memorized{}) == 1);
    CHECK(ratio(Hybrid{.mh = Reading::code}) == 1);
}

namespace {
struct NoWayBack {
    static constexpr auto offers = offer::forgets;
    template <class R>
    void operator()(const auto&, const Vec<R>& w, const Drawn<R>&, const Personal<R>&, Vec<R>& mu) const {
        mu = w;
    }
};
double shown(const auto& run, Id k) {  // what the client's predictor says
    Workspace<double> workspace;
    return run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
        double out = 0;
        client.serve(std::move(received), run.rounds_done(), space)(
            Batch<double>(*run.data()[k].examples, run.data()[k].train), Out<double>(&out, 1));
        return out;
    });
}
}  // namespace

TEST_CASE("what is served: theta, w at the end of the visit, or theta after tuning") {
    const auto run_of = [](FedBreD<> method) {
        method.steps = 2;
        Run<prior::Identity> run{
            {}, support::quadratic_data({{{a, c}}, {{a, -c}}}), method, {.batch = 0}, Vec<double>{0}};
        return run;
    };
    auto plain = run_of({});
    CHECK(shown(plain, 0) == 0);  // never visited: what the server has
    plain.round(sample::Everyone{});
    CHECK(shown(plain, 0) == plain.client(0).theta[0]);
    CHECK(plain.client(0).w_last.empty());  // nobody reads it
    auto local = run_of({.eval_model = EvalModel::w_local});
    local.round(sample::Everyone{});
    CHECK(shown(local, 0) == local.client(0).w_last[0]);
    CHECK(std::fabs(shown(local, 0) - (c - (1 - kappa) * (1 - kappa) * c)) < 1e-14);
    CHECK(shown(local, 0) != shown(plain, 0));
    auto tuned = run_of({.tune_steps = 1});
    tuned.round(sample::Everyone{});
    const double theta = plain.client(0).theta[0];
    CHECK(tuned.client(0).theta[0] == theta);
    CHECK(std::fabs(shown(tuned, 0) - (theta - alpha * a * (theta - c))) < 1e-15);  // one step without the pull
    CHECK(tuned.fingerprint() != local.fingerprint());
    CHECK(tuned.fingerprint() == plain.fingerprint());  // serving never reaches the state
}

TEST_CASE("the envelope's direction, mu - theta, on a client") {
    const FedBreD<Memorized> method{.steps = 3};
    Run<Memorized> run{{}, support::quadratic_data({{{a, c}}, {{a, -c}}}), method, {.batch = 0}, Vec<double>{0}};
    const auto direction = [&](Id k) {
        Workspace<double> workspace;
        const auto at = run.setup().context(run.data()[k], k, run.rounds_done(), workspace);
        return method.envelope().gap(at, run.server().w, run.client(k))[0];
    };
    CHECK(std::fabs(direction(0) + 0.071305404) < 5e-10);  // V-BRED-1: mu = 0, theta = 0.0713...
    CHECK(direction(1) == -direction(0));
    run.round(sample::Everyone{});
    const auto before = run.fingerprint();
    const double gap = direction(0);
    CHECK(gap == direction(0));
    CHECK(run.fingerprint() == before);
    run.round(sample::Everyone{});
    CHECK(gap != direction(0));
}

TEST_CASE("wrong settings are refused before round one") {
    const auto make = [](auto method) {
        return Federation<decltype(method), support::Quadratic<>>{{}, support::quadratic_data({{{a, c}}}), method};
    };
    constexpr double infinite = std::numeric_limits<double>::infinity();
    CHECK_THROWS_WITH_AS(make(FedBreD<>{.lambda = -1}), doctest::Contains("lambda must be 0 or more"), ConfigError);
    CHECK_THROWS_WITH_AS(make(FedBreD<>{.lambda = infinite}), doctest::Contains("and finite"), ConfigError);
    CHECK_THROWS_WITH_AS(make(FedBreD<>{.alpha_m = infinite}), doctest::Contains("alpha_m must be"), ConfigError);
    CHECK_THROWS_AS(make(FedBreD<>{.alpha_m = std::nan("")}), ConfigError);
    CHECK_THROWS_WITH_AS(make(FedBreD<>{.local = {.rate = -1}}), doctest::Contains("rate"), ConfigError);
    CHECK_THROWS_WITH_AS(make(FedBreD<LossGradient>{.prior = {.eta_a = -1}}), doctest::Contains("eta_a"), ConfigError);
    CHECK_THROWS_WITH_AS(make(FedBreD<NoWayBack>{.jacobian = Jacobian::hvp}), doctest::Contains("pull_back"),
                         ConfigError);
    CHECK_NOTHROW(make(FedBreD<NoWayBack>{}));
    CHECK_NOTHROW(make(FedBreD<>{.lambda = 0, .steps = 0}));
}

}  // namespace pfedbred_test
