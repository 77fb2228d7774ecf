// SPDX-License-Identifier: BSD-3-Clause
// DP-SGD (Abadi et al., CCS 2016): descent that hides every single example.
//
//   g_i = gradient of example i over all coordinates that move;   c_i = min(1, C / |g_i|), 0 if g_i is not finite
//   G   = (sum_i c_i g_i + noise C N(0, I)) / (expected number of examples)
//   d   = G + weight_decay*x (+ the method's terms);   m = momentum*m + d;   x -= rate*s(t)*m
//
// Noise comes once a step, also to an empty sample, and the divisor is the expected size, never the one that came. What
// reads no data (decay, pull) is added after the noise: it needs no clipping and costs nothing. Draw decides how
// examples come and thereby what a step costs (contracts/private.hpp); a step takes as many examples as the method's
// batch has on average. noise = 0, clip = infinity, sampling_rate = 1 is the plain step on all data.
//
// A model in whose batches examples meet (batch norm) is refused before round one: c_i would mean nothing.
//
// `Noise` is where random numbers come from, privacy::Noise. The mean loss that a step returns is not private.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <tessera/contracts/private.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/rule/schedule.hpp>
#include <tessera/rule/step.hpp>

namespace tessera::sampling {
struct Poisson;  // privacy/sampling.hpp, which comes with every source of noise
}

namespace tessera::rule {

template <class Noise, class Draw = sampling::Poisson>
struct DpSgd {
    static constexpr auto offers = offer::validate | offer::adds_noise | offer::check;
    using Sampling = Draw;

    double rate = 0.1;
    double clip = 1;           // C
    double noise = 1;          // deviation over C
    double sampling_rate = 0;  // of a client's examples; 0: batch size / examples
    double momentum = 0;       // in [0, 1)
    double weight_decay = 0;
    Schedule schedule{};
    Noise source{};

    template <class R>
    struct Memory {
        Vec<R> velocity;
        std::uint64_t steps = 0;
    };

    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
                Memory<real<M>>& memory) const {
        using R = real<M>;
        // Steps so far tell two walks apart that read the same batch: they must share neither sample nor noise.
        const Key place = b.draw()(at.workspace->tally.steps);
        const double q = rate_at(at);
        spend(at.workspace->spent, Draw::cost(at, q, noise, memory.steps++));
        auto& g = at.workspace->gradient;
        g.resize(x.size());
        const double loss = sum(at, x, b, terms, source.sample_key(place(purpose::sampling)), g);
        if (noise > 0) blur(terms.on, place(purpose::noise), g);
        if (momentum != 0) memory.velocity.resize(x.size());
        const Step<R> step{.terms = terms,
                           .rate = rate * schedule.at(at),
                           .decay = weight_decay,
                           .momentum = momentum,
                           .velocity = &memory.velocity};
        const R share = static_cast<R>(1 / Draw::expected(at, q));
        terms.on.each(x.size(), [&](Range r) { tessera::detail::update_range<R>(x, g, step, share, r); });
        return loss;
    }
    template <class M>
    void check(const Context<M>& context, const Vec<real<M>>&) const {
        tessera::detail::require(examples_apart(*context.model), tessera::detail::examples_meet);
    }
    template <class S>
    double rate_at(const S& at) const {
        if (sampling_rate > 0) return sampling_rate;
        return std::min(1.0, static_cast<double>(at.batch_size()) / static_cast<double>(at.ids.size()));
    }

    void validate() const {
        tessera::detail::require(std::isfinite(rate) && rate >= 0,
                                 "rate must be 0 or more, not " + std::to_string(rate));
        tessera::detail::require(clip > 0, "clip must be a positive norm, not " + std::to_string(clip));
        tessera::detail::require(noise >= 0 && std::isfinite(noise),
                                 "noise must be 0 or more, not " + std::to_string(noise));
        tessera::detail::require(noise == 0 || std::isfinite(clip),
                                 "noise has the size of clip: give clip a norm, or set noise to 0");
        tessera::detail::require(sampling_rate >= 0 && sampling_rate <= 1,
                                 "sampling_rate must lie in [0, 1], not " + std::to_string(sampling_rate));
        constexpr bool drawn = std::is_same_v<Draw, sampling::Poisson>;
        tessera::detail::require(sampling_rate == 0 || drawn,
                                 "sampling_rate is of Poisson samples; batches of an epoch have their own");
        tessera::detail::require(momentum >= 0 && momentum < 1,
                                 "momentum must lie in [0, 1), not " + std::to_string(momentum));
        tessera::detail::require_size(weight_decay, "weight_decay");
    }

private:
    template <class M>
    double sum(const Context<M>& at, const Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
               Key draw, Vec<real<M>>& g) const {
        const auto drawn = Draw::draw(at, b, rate_at(at), draw);
        const auto sample = drawn[0];
        if (sample.size() == 0) {
            std::fill(g.begin(), g.end(), real<M>(0));
            return 0;
        }
        return clipped_sum(*at.model, x, sample, Clip<real<M>>{clip, terms.on, terms.active}, g);
    }
    template <class R>
    void blur(const Coordinates& on, Key place, Vec<R>& g) const {
        on.each(g.size(), [&](Range r) {
            source.add(place(r.begin), noise * clip, Out<R>(g).subspan(r.begin, r.size()));
        });
    }
};

}  // namespace tessera::rule
