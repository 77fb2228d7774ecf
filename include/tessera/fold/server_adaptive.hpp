// SPDX-License-Identifier: BSD-3-Clause
// FedAdagrad, FedAdam and FedYogi (Reddi et al. 2021). D = fold(w) - w:
//
//   m = b1 m + (1 - b1) D;   w += rate m / (sqrt(v) + tau)
//   Adagrad  v = v + D^2        (the paper uses b1 = 0)
//   Adam     v = b2 v + (1 - b2) D^2
//   Yogi     v = v - (1 - b2) D^2 sign(v - D^2)
//
// `bias_corrected` is the torch form (with b2 = 0.999, tau = 1e-8 as in the FedAlt presets): m and v are
// divided by 1 - b1^k and 1 - b2^k. v starts at v0 (the paper has tau^2, many codes 0; a v that is corrected starts at
// 0, as the correction takes it to).
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <tessera/contracts/fold.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/kernels/moments.hpp>

namespace tessera::fold {

using kernels::SecondMoment;

template <SecondMoment Kind, class Inner = Mean>
struct ServerAdaptive {
    static constexpr auto offers = offer::validate;
    double server_rate = 0.1;
    double b1 = Kind == SecondMoment::adagrad ? 0.0 : 0.9;
    double b2 = 0.99;
    double tau = 1e-3;
    double v0 = -1;  // -1: 0 for a v that is corrected, else tau^2
    bool bias_corrected = false;
    Inner inner{};

    template <class R>
    struct Memory {
        Vec<double> m, v;
        std::uint64_t steps = 0;
        memory_t<Inner, R> inner;
    };

    template <class M>
    void around(const Context<M>&, Vec<real<M>>& w, auto& memory, auto&& fold_inner) const {
        auto to = w;
        fold_inner(to);
        memory.m.resize(w.size());
        memory.v.resize(w.size(), first_v());
        const auto k = static_cast<double>(++memory.steps);
        const double unbias_m = bias_corrected ? 1 / (1 - std::pow(b1, k)) : 1;
        const double unbias_v = corrects_v() ? 1 / (1 - std::pow(b2, k)) : 1;
        const kernels::MomentNumbers<double> numbers{server_rate, b1, b2, tau, unbias_m, unbias_v};
        kernels::adapt_toward(w.data(), to.data(), memory.m.data(), memory.v.data(), w.size(), Kind, &numbers);
    }
    bool corrects_v() const { return bias_corrected && Kind != SecondMoment::adagrad; }  // Adagrad's v is a sum
    double first_v() const { return v0 >= 0 ? v0 : corrects_v() ? 0 : tau * tau; }
    void validate() const {
        detail::require_positive(server_rate, "server_rate");
        detail::require(b1 >= 0 && b1 < 1, "b1 must lie in [0, 1), not " + std::to_string(b1));
        detail::require(b2 >= 0 && b2 < 1, "b2 must lie in [0, 1), not " + std::to_string(b2));
        detail::require_positive(tau, "tau");
        detail::require((v0 >= 0 && std::isfinite(v0)) || v0 == -1,
                        "v0 must be 0 or more, and finite, or -1 for the usual, not " + std::to_string(v0));
        detail::require(v0 <= 0 || !corrects_v(),
                        "v0 must be 0 with bias_corrected, which takes v to start there; leave v0 out");
    }
};

template <class Inner = Mean>
using ServerAdagrad = ServerAdaptive<SecondMoment::adagrad, Inner>;
template <class Inner = Mean>
using ServerAdam = ServerAdaptive<SecondMoment::adam, Inner>;
template <class Inner = Mean>
using ServerYogi = ServerAdaptive<SecondMoment::yogi, Inner>;

}  // namespace tessera::fold
