// SPDX-License-Identifier: BSD-3-Clause
// FedSpa (Huang et al., 2022): every client trains a sparse model of its own.
//
//   client: x = m_k o w, E epochs of the local rule in the active coordinates alone
//           m_k' = masking(x, m_k)                mask::DynamicSparse: DST, mask::RandomStatic: RSM
//   server: w = w - (1/M) sum_k (m_k o w - x_k)   fold::Mean; fold::OwnersMean divides by owners
//   serve:  m_k' o w
//
// A grown coordinate starts at the server's value; a pruned one keeps its value there.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/mask/dynamic_sparse.hpp>
#include <tessera/method/detail/masked.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Masking = mask::DynamicSparse, class Local = rule::Sgd, class Fold = fold::Mean>
struct FedSpa {
    static_assert(accepts_masks<Fold>, "tessera::FedSpa: this aggregator does not understand "
                                       "rows with masks (Mean and OwnersMean do)");
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::admits | offer::takes | offer::keeps | offer::holds |
                                   offer::global | offer::needs_memory;
    Masking masking{};
    Local local{};
    Fold fold{};
    std::size_t epochs = 1;  // E
    FirstMasks first = FirstMasks::same;
    bool remember = true;  // clients keep their mask; false: its bits go down at every visit
    Arithmetic arithmetic = Arithmetic::table;
    template <class R>
    using Server = detail::MaskedServer<Fold, R>;
    template <class R>
    using Client = detail::KnownMasks;

    template <class M>
    auto open(const Site<M>& hub, Vec<real<M>> w0, std::size_t n) const {
        return detail::masked_server<Fold>(masking, first, hub, std::move(w0), n);
    }
    auto send(const auto& s, Id k) const { return s.send(k, !remember); }
    template <class M, class R = real<M>>
    auto visit(const Site<M>& at, detail::MaskedDown<R> got, detail::KnownMasks& me) const {
        static_assert(check_masking<Masking, R>());
        if (!me.recall(at, got)) return detail::lacks_its_mask<R>(at.id);
        const nn::Sparse sparse(*at.model, me.mask, at.batch_size(), arithmetic);
        descend(at.with(sparse), got.x, at.epochs(epochs), local);
        Mask next = me.mask;
        detail::search_mask(masking, at, sparse, got.x, next);
        if (next != me.mask) me.next = std::move(next);
        detail::MaskedUp<R> up{std::move(got.x), 1, me.next, at.id};
        if (!remember) me = {};
        return up;
    }
    template <class M, class Up>
    void merge(const Site<M>& hub, Server<real<M>>& s, std::span<const Up> ups) const {
        const auto rows = s.rows(ups);
        fold_rows(fold, hub, s.w, Rows<real<M>>(rows), s.fold);
        for (const auto& up : ups) s.note(up);
    }
    auto serve(const auto& at, auto got, detail::KnownMasks me) const {
        return detail::serve_masked(at, std::move(got), std::move(me), arithmetic);
    }
    bool admits(const auto& s, Id from, const auto& up) const {
        return s.admits(from, up);
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
