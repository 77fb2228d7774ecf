// SPDX-License-Identifier: BSD-3-Clause
// DP-FedAvg (McMahan et al., ICLR 2018): a round that hides every single client.
//
//   u_k = (x_k - w) min(1, C / |x_k - w|), 0 if it is not finite
//   w  += (sum_k u_k + noise C N(0, I)) / clients
//
// `clients` is a fixed number, what a round is expected to bring, never what came; weights play no part, for a client
// could claim any. Norms and sums are in double. The noise is sized for a sum in which a client counts once and by at
// most C, so the inner fold must be such a sum: fold::Mean. Server optimizers go around this fold, as post-processing.
//
// Neighbours differ by one client. What a round costs depends on how its clients were drawn, which the server's context
// says: each by itself with probability q (sample::Poisson; sample::Everyone, q = 1) is a sample of rate q. In any
// other cohort, one of fixed size say, another client takes the seat of the one that is not there: the sum moves by 2
// C, and the round counts as half the noise on everybody. q < 1 counts on nobody's knowing who was drawn, so the plan's
// key is then the noise source's.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>

#include <tessera/contracts/fold.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/fold/mean.hpp>

namespace tessera::fold {

template <class Noise, class Inner = Mean>
struct PrivateMean {
    static constexpr auto offers =
        offer::validate | offer::streams | offer::hides_clients | offer::cohort_key | offer::keeps | offer::check;
    static_assert(std::is_same_v<Inner, Mean>,
                  "tessera::fold::PrivateMean: noise is sized for a sum of clipped updates (fold::Mean); how far one "
                  "client moves any other fold is not known");

    double clip = 1;      // C
    double noise = 1;     // deviation over C
    double clients = 0;   // what a round is expected to bring
    double delta = 1e-5;  // at which `privacy_statement` tells epsilon; below 1 over the number of clients
    Noise source{};
    Inner inner{};

    template <class R>
    struct Memory {
        Vec<Spent> ledger;
        memory_t<Inner, R> inner;
    };
    template <class R>
    using Sum = typename Inner::template Sum<R>;

    template <class R>
    void lift(const Row<R>& row, const Vec<R>& before, Sum<R>& sum) const {
        Vec<R> update(before.size());
        const R* from = row.x.data();
        for (std::size_t j = 0; j < update.size(); ++j)
            update[j] = !row.mask || (*row.mask)[j] ? *from++ - before[j] : 0;
        double squared = 0;
        for (const R u : update) squared += static_cast<double>(u) * static_cast<double>(u);
        const double factor = Clip<R>{clip}.factor(squared);
        if (!std::isfinite(squared)) std::fill(update.begin(), update.end(), R(0));
        else if (factor < 1)
            for (R& u : update) u = static_cast<R>(factor * static_cast<double>(u));
        inner.lift(Row<R>{update}, before, sum);
    }
    template <class R>
    void add(Sum<R>& into, const Sum<R>& other) const {
        inner.add(into, other);
    }
    template <class M>
    void finish(const Context<M>& context, Vec<real<M>>& w, const Sum<real<M>>& sum, Memory<real<M>>& memory) const {
        spend(memory.ledger, cost(context.participation));
        Vec<double> moved = sum.values.here();  // all weights are 1
        moved.resize(w.size());
        if (noise > 0) source.add(context.key(purpose::noise)(context.round), noise * clip, Out<double>(moved));
        for (std::size_t j = 0; j < w.size(); ++j)
            w[j] = static_cast<real<M>>(static_cast<double>(w[j]) + moved[j] / clients);
    }
    template <class M>
    void fold(const Context<M>& context, Vec<real<M>>& w, Rows<real<M>> rows, Memory<real<M>>& memory) const {
        Sum<real<M>> all;
        if (!rows.empty()) all = below(rows, w, 0, std::bit_ceil(rows.size()));
        finish(context, w, all, memory);
    }

    Spent cost(const Participation& drawn) const {
        return drawn.each_by_itself ? Spent{drawn.rate, noise, 1} : Spent{1, noise / 2, 1};
    }
    template <class R>
    bool keeps(const Memory<R>& memory, std::size_t) const {
        return valid(memory.ledger);
    }
    template <class M>
    void check(const Context<M>& context, const Vec<real<M>>&) const {
        tessera::detail::require(!has_buffers(context.model->layout()),
                                 "noise on running statistics would make variances of its own; use GroupNorm or "
                                 "LayerNorm where clients are to be private");
    }
    Key cohort_key(Key place) const { return source.sample_key(place); }

    void validate() const {
        tessera::detail::require(clip > 0, "clip must be a positive norm, not " + std::to_string(clip));
        tessera::detail::require(noise >= 0 && std::isfinite(noise),
                                 "noise must be 0 or more, not " + std::to_string(noise));
        tessera::detail::require(noise == 0 || std::isfinite(clip),
                                 "noise has the size of clip: give clip a norm, or set noise to 0");
        tessera::detail::require(clients > 0,
                                 "clients must be the number of uploads that a round is expected to bring; it divides "
                                 "the sum, whoever comes");
        tessera::detail::require(delta > 0 && delta < 1, "delta must lie in (0, 1), not " + std::to_string(delta));
    }

private:
    // Along the tree of a cohort that streams.
    template <class R>
    Sum<R> below(Rows<R> rows, const Vec<R>& before, std::size_t first, std::size_t span) const {
        Sum<R> left;
        if (span == 1) {
            lift(rows[first], before, left);
            return left;
        }
        left = below(rows, before, first, span / 2);
        if (first + span / 2 < rows.size()) add(left, below(rows, before, first + span / 2, span / 2));
        return left;
    }
};

}  // namespace tessera::fold
