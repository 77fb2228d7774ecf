// SPDX-License-Identifier: BSD-3-Clause
// A personal prior of your own. pFedBreD pulls each client's model theta toward a mean
// mu_i(w) = w - eta grad Phi_i(w), and you choose Phi_i. Here mu lies on a sphere around w, in the
// direction in which the client's loss falls.
//
// Teaches: a prior, what it may read, how it is compared with those of the paper.
// Next: lab/
#include <tessera/conformance.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/method/pfedme.hpp>
#include <tessera/prior/hybrid.hpp>
#include <tessera/prior/loss_gradient.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <cmath>
#include <cstdio>
#include <string>

using namespace tessera;

// mu = w - radius g / |g|, g = grad f(w; b): the step has one length for all clients.
struct Sphere {
    static constexpr auto offers = offer::validate | offer::starts_at_mean | offer::forgets;
    double radius = 0.05;

    template <class M, class R = real<M>>
    void operator()(const Context<M>& at, const Vec<R>& w, const Drawn<R>& b, const Personal<R>&,
                    Vec<R>& mu) const {
        const auto& g = prior::loss_gradient(at, w, b.last());
        double squares = 0;
        for (const R v : g) squares += static_cast<double>(v) * static_cast<double>(v);
        const double step = squares > 0 ? radius / std::sqrt(squares) : 0;
        for (std::size_t j = 0; j < w.size(); ++j) mu[j] = w[j] - static_cast<R>(step) * g[j];
    }
    void validate() const {
        detail::require(radius >= 0, "radius must be 0 or more, not " + std::to_string(radius));
    }
};

// Trains, prints, and says how much better clients are off with their own model than with w.
template <class Prior>
double gain(const char* name, FedBreD<Prior> method) {
    using Net = nn::Mclr<60, 10>;
    const auto clients =
        data::synthetic({.alpha = 1, .beta = 1, .clients = 20, .seed = 2, .max_examples = 200});
    method.local.rate = 0.02;
    Federation<FedBreD<Prior>, Net> run{Net{}, clients, method, {.seed = 1, .batch = 20}};
    run.run(30, sample::Uniform{.count = 10, .everyone_trains = true});
    const double global = evaluate<Which::global>(run).accuracy(Average::pooled).value;
    const double personal = evaluate<Which::personal>(run).accuracy(Average::pooled).value;
    std::printf("%-28s global %.3f  personal %.3f\n", name, global, personal);
    return personal - global;
}

int main() {
    conformance::require(conformance::method(FedBreD<Sphere>{.steps = 3}, nn::Dnn<8, 6, 4>{},
                                             {.rate_zero_serves = false}));  // eta moves it too
    gain("no personal prior (pFedMe)", PFedMe<>{});
    gain("loss gradient (lg)", FedBreD<prior::LossGradient>{});
    gain("hybrid (mh)", FedBreD<prior::Hybrid>{});
    return gain("on a sphere (this file)", FedBreD<Sphere>{}) > 0.05 ? 0 : 1;
}
