// SPDX-License-Identifier: BSD-3-Clause
// Sub-FedAvg, unstructured (Vahidian et al., 2021): clients prune down to a target density.
//
//   client: x = m_k o w, E epochs in the active coordinates
//           c1, c2: m_k without the `prune_rate` smallest |x| after the first, the last epoch
//           m_k = c2 if |c1 - c2| > distance, density > target and accuracy(c2 o x) > accuracy
//   server: w_j = mean over the clients whose mask has j; what nobody has stays
//   serve:  m_k o w
//
// Masks begin full. With one epoch c1 is c2 and nothing is ever pruned.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/fold/owners_mean.hpp>
#include <tessera/method/detail/masked.hpp>
#include <tessera/method/detail/prune.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::OwnersMean>
struct SubFedAvg {
    static_assert(accepts_masks<Fold>, "tessera::SubFedAvg: this aggregator does not understand "
                                       "rows with masks (Mean and OwnersMean do)");
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::admits | offer::takes | offer::keeps | offer::holds |
                                   offer::global | offer::needs_memory;
    Local local{};
    Fold fold{};
    std::size_t epochs = 5;  // E
    Pruning pruning{};
    bool old_owners = false;  // count owners by the mask before pruning (D-SPA-6)
    bool remember = true;     // clients keep their mask; false: its bits go down at every visit
    Arithmetic arithmetic = Arithmetic::table;
    template <class R>
    using Server = detail::MaskedServer<Fold, R>;
    template <class R>
    using Client = detail::KnownMasks;

    auto open(const auto&, auto w0, std::size_t n) const {
        const Mask full(w0.size(), true);
        return detail::masked_server<Fold>(std::move(w0), full, n);
    }
    auto send(const auto& s, Id k) const { return s.send(k, !remember); }
    template <class M, class R = real<M>>
    auto visit(const Site<M>& at, detail::MaskedDown<R> got, detail::KnownMasks& me) const {
        if (!me.recall(at, got)) return detail::lacks_its_mask<R>(at.id);
        const nn::Sparse sparse(*at.model, me.mask, at.batch_size(), arithmetic);
        const auto early = detail::after_first(at.with(sparse), got.x, at.epochs(epochs), local);
        const Mask next = pruning.next(at, sparse, early, got.x, me.mask);
        detail::MaskedUp<R> up{std::move(got.x), 1, {}, at.id};
        if (next != me.mask) {
            up.x = detail::cut(up.x, me.mask, next, old_owners);
            up.next = me.next = next;
        }
        if (!remember) me = {};
        return up;
    }
    template <class M, class Up>
    void merge(const Site<M>& hub, Server<real<M>>& s, std::span<const Up> ups) const {
        const auto rows = s.rows(ups, !old_owners);
        fold_rows(fold, hub, s.w, Rows<real<M>>(rows), s.fold);
        for (const auto& up : ups) s.note(up);
    }
    auto serve(const auto& at, auto got, detail::KnownMasks me) const {
        return detail::serve_masked(at, std::move(got), std::move(me), arithmetic);
    }
    bool admits(const auto& s, Id from, const auto& up) const {
        return s.admits(from, up, !old_owners);
    }
    bool takes(const auto& at, const auto& got, const auto& me) const { return me.takes(at, got); }
    bool keeps(const auto& at, const auto& me, std::size_t) const {
        return me.fits(at.initial->size());
    }
    bool holds(const auto& opened, const auto& server) const { return server.like(opened); }
    auto global(const auto& server, const auto&) const { return server.w; }
    std::string_view needs_memory() const { return remember ? detail::forgotten_masks : ""; }
};

}  // namespace tessera
