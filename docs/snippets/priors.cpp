// SPDX-License-Identifier: BSD-3-Clause
// The code of policies/prior.md, policies/divergence.md and systems/pfedbred.md.
#include <tessera/conformance.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/divergence.hpp>
#include <tessera/method/apfl.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/mtl.hpp>
#include <tessera/method/per_fedavg.hpp>
#include <tessera/method/pfedme.hpp>
#include <tessera/prior.hpp>
#include <tessera/report/coherence.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>
#include <vector>

using namespace tessera;

namespace mine {

// [prior]
// mu = w - eta (w - theta): the mean lies between the global and the personal model. Phi_i = 1/2 |w - theta_i|^2.
struct Halfway {
    static constexpr auto offers = offer::validate | offer::pull_back | offer::forgets;
    double eta = 0.5;

    template <class R>
    void operator()(const auto&, const Vec<R>& w, const Drawn<R>&, const Personal<R>& me, Vec<R>& mu) const {
        for (std::size_t j = 0; j < w.size(); ++j) mu[j] = w[j] - R(eta) * (w[j] - me.theta[j]);
    }
    template <class R>
    void pull_back(const auto&, const Vec<R>&, const Drawn<R>&, const Personal<R>&, Vec<R>& v) const {
        for (R& x : v) x *= R(1 - eta);  // Dmu = (1 - eta) I
    }
    void validate() const {
        detail::require(eta >= 0 && eta <= 1, "eta must lie in [0, 1], not " + std::to_string(eta));
    }
};
// [/prior]

// [divergence]
// g*(x) = sum_j cosh(x_j): near 0 half the square, far away much steeper.
struct Cosh {
    static constexpr std::string_view name = "Cosh";
    static constexpr double low = -std::numeric_limits<double>::infinity(), high = -low;

    template <class R>
    static R value(R x) { return std::cosh(x); }
    template <class R>
    static R slope(R x) { return std::sinh(x); }
    template <class R>
    static R curvature(R x) { return std::cosh(x); }
    template <class R>
    static R mean(R s) { return std::asinh(s); }
};
using Steep = divergence::General<Cosh>;
// [/divergence]

}  // namespace mine

int main() {
    using Net = nn::Mclr<60, 10>;
    const auto clients = data::synthetic({.clients = 6, .seed = 3, .max_examples = 60});
    const Settings settings{.seed = 1, .batch = 10};

    // [prior_use]
    const FedBreD<prior::LossGradient> lg{.prior = {.eta_a = 0.01}};
    const FedBreD<prior::Memorized> meg{.prior = {.eta = 0.05}};
    const FedBreD<prior::Hybrid> mh{.prior = {.eta_a = 0.01, .eta = 0.05}, .fold = {.beta = 2}, .lambda = 30};
    const FedBreD<prior::Hybrid> released{.prior = {.mh = prior::Reading::code}};
    const FedBreD<prior::MetaHybrid> variant{.prior = {.eta = 0.05, .share = 0.2, .ahead = 0.01}};
    const FedBreD<mine::Halfway> halfway{.jacobian = Jacobian::hvp};
    // [/prior_use]

    // [prior_test]
    conformance::require(  // the rate is not all that moves it: there is eta
        conformance::method(FedBreD<mine::Halfway>{.steps = 3}, Net{}, {.rate_zero_serves = false}));
    // [/prior_test]

    // [divergence_use]
    const FedBreD<prior::Hybrid, mine::Steep> steep{.lambda = 5};
    const FedBreD<prior::Identity, divergence::DiagonalGaussian> diagonal{
        .divergence = {.variance = Vec<double>(Net::parameters, 0.5)}};
    const FedBreD<prior::Identity, divergence::Bernoulli> coins{.divergence = {.margin = 1e-4}, .lambda = 0.1};
    const Vec<float> inside(Net::parameters, 0.5F);  // initial weights of a network are not in (0, 1)
    Federation<FedBreD<prior::Identity, divergence::Bernoulli>, Net> bounded{{}, clients, coins, settings, inside};
    const double apart = bregman(divergence::Poisson{}, Vec<double>{3}, Vec<double>{5});
    // [/divergence_use]

    // [system]
    const sample::Uniform plan{.count = 4, .everyone_trains = true};  // all train, four are merged
    Federation<FedBreD<prior::Hybrid>, Net> run{{}, clients, mh, settings};
    run.run(3, plan);
    const double personal = evaluate<Which::personal>(run).accuracy(Average::pooled).value;
    // [/system]

    // [coherence]
    std::vector<Vec<float>> directions;
    for (Id k = 0; k < run.size(); ++k) {
        Workspace<float> workspace;
        const auto at = run.setup().context(run.data()[k], k, run.rounds_done(), workspace);
        directions.push_back(mh.envelope().gap(at, run.server().w, run.client(k)));  // mu_k(w) - theta_k
    }
    const double gce = report::coherence(std::span<const Vec<float>>(directions));
    // [/coherence]

    // [personal_methods]
    const PFedMe<> pfedme{.local = {.rate = 0.1}, .lambda = 15};
    const PerFedAvg<> per_fedavg{.local = {.rate = 0.01}, .alpha = 0.03, .steps = 10};
    const Ditto<> ditto{.local = {.rate = 0.05}, .personal = {.rate = 0.05}, .lambda = 0.5};
    const Apfl<> apfl{.local = {.rate = 0.05}, .alpha = 0.5, .mixing = nn::Mixing::per_round};
    const Mtl<> mtl{.local = {.rate = 0.05}, .lambda = 0.1};
    // [/personal_methods]

    for (const FedBreD<prior::Hybrid>& method : {mh, released}) Federation<FedBreD<prior::Hybrid>, Net>{{}, clients, method};
    bounded.run(1, plan);
    const bool used = lg.steps == meg.steps && variant.steps == halfway.steps && steep.lambda == 5 &&
                      diagonal.divergence.variance.size() == Net::parameters && pfedme.lambda == 15 &&
                      per_fedavg.steps == 10 && ditto.lambda == 0.5 && apfl.alpha == 0.5 && mtl.lambda == 0.1;
    std::printf("%.3f %.3f %.3f\n", personal, gce, apart);
    return used && personal > 0.1 && gce > 0 && gce <= 1 ? 0 : 1;
}
