// SPDX-License-Identifier: BSD-3-Clause
// What every method owes, asked of pFedBreD's modes, and translation equivariance.
#include <doctest/doctest.h>

#include <vector>

#include <tessera/method/pfedbred.hpp>
#include <tessera/prior/hybrid.hpp>
#include <tessera/prior/loss_gradient.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>

namespace pfedbred_laws_test {

using namespace tessera;

namespace {

template <class Prior>
FedBreD<Prior> lively(Prior prior) {
    return {.prior = prior, .local = {.rate = 0.05}, .steps = 4, .inner_steps = 3};
}

// Largest distance of a run whose targets and start are shifted by 2.75 from the run that is not, shifted.
template <class Method>
double shift_gap(const Method& method) {
    constexpr double s = 2.75;
    const auto path = [&](double shift) {
        std::vector<std::vector<support::Parabola>> clients{{{1, 0}, {2, 1}, {1, 3}}, {{3, 4}, {1, 2}}, {{0.5, -1}}};
        for (auto& examples : clients)
            for (auto& example : examples) example.c += shift;
        Federation<Method, support::Quadratic<>> run{
            {}, support::quadratic_data(clients), method, {.seed = 9, .batch = 1}, Vec<double>{5 + shift}};
        Vec<double> points;
        for (int r = 0; r < 10; ++r) {
            run.round(sample::Uniform{.count = 2, .everyone_trains = true});
            points.push_back(run.server().w[0] - shift);
            for (Id k = 0; k < 3; ++k) points.push_back(run.client(k).theta[0] - shift);
        }
        return points;
    };
    return support::distance(path(s), path(0));
}

}  // namespace

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    // mh moves w by its gradient even with a local rate of 0, which only scales the prox.
    const conformance::MethodLaws moves{.rate_zero_stays = false};
    // The personal model descends by eta, however small the local rate.
    CHECK(support::broken_laws(lively(prior::LossGradient{}), {.rate_zero_serves = false}) == "");
    CHECK(support::broken_laws(lively(prior::Hybrid{}), moves) == "");
    CHECK(support::broken_laws(lively(prior::Hybrid{.mh = prior::Reading::code}), moves) == "");
    CHECK(support::broken_laws(lively(prior::Hybrid{})) != "");  // the law is asked
}

TEST_CASE("L-GEN-8 translation equivariance on quadratics") {
    // w and w + s round differently; after ten rounds of contracting steps the difference stays below 1e-12.
    CHECK(shift_gap(lively(prior::Hybrid{.eta_a = 0})) < 1e-12);
    CHECK(shift_gap(lively(prior::Hybrid{})) < 1e-12);
    CHECK(shift_gap(lively(prior::Hybrid{.mh = prior::Reading::code})) < 1e-12);
    auto decaying = lively(prior::Hybrid{});
    decaying.local.weight_decay = 0.1;
    CHECK(shift_gap(decaying) > 1e-4);  // decay pulls toward 0, which does not shift
}

}  // namespace pfedbred_laws_test
