// SPDX-License-Identifier: BSD-3-Clause
// Masked: any method whose messages are parameters, on a sparse model of each client's own.
//
//   client: m_k o w, packed; the inner method's visit on the packed numbers: f(m_k o .)
//           m_k' = masking(x, m_k), x the model that the inner method would serve
//   server: the inner method's fold over packed rows; a coordinate that a client lacks is unchanged
//   serve:  the inner method's, on the sparse model
//
// `over` says which segments are masked: all, the shared part, a personal head. What the inner
// method keeps is packed too; a grown coordinate starts at what was received, or else where the run
// began.
// FedSpa is Masked around local epochs; at density 1 Masked<Inner> is Inner.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/mask/dynamic_sparse.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/detail/hold_out.hpp>
#include <tessera/method/detail/masked.hpp>
#include <tessera/method/detail/released.hpp>

namespace tessera {

template <class Inner, class Masking = mask::DynamicSparse, class Over = scope::All>
struct Masked {
    static_assert(detail::wears_masks<Inner>());
    static_assert(std::is_same_v<Masking, mask::RandomStatic> ||
                      !detail::somewhere_offers<Inner>(offer::adds_noise),
                  "tessera::Masked: a mask that data chose leaves the client without noise; "
                  "private methods wear mask::RandomStatic");
    static constexpr auto by_default = Verbs{};
    static constexpr Offers offers = offer::admits | offer::takes | offer::keeps | offer::holds |
                                     offer::global | offer::global_at | offer::needs_memory;
    using Fold = std::remove_cvref_t<decltype(detail::merger_t<Inner>::fold)>;
    Inner inner{};
    Masking masking{};
    Over over{};
    FirstMasks first = FirstMasks::same;
    bool remember = true;  // clients keep their mask; false: its bits go down at every visit
    Arithmetic arithmetic = Arithmetic::table;
    bool proposed = false;  // what goes up is packed by the mask after the visit
    template <class R>
    using Server = detail::MaskedServer<Fold, R, detail::beside_vector_t<Inner, Fold, R>>;
    template <class R>
    using Client = detail::KnownMasks<client_t<Inner, R>>;

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>& context, Vec<R> w0, std::size_t n) const {
        const detail::Drawer<Masking, Over> draw{masking, over, context.model->layout()};
        const Key key = context.key(purpose::mask);
        const std::size_t each = sent(*context.model).size(w0.size());
        auto server = open_at<Inner, M>(inner, context, std::move(w0), n);
        detail::require_as_many(server.w.size(), each);
        Server<R> s{std::move(server.w), std::move(server.fold), draw(key), Vec<Mask>(n),
                    Vec<detail::Bits>(n, detail::Bits::lacks)};
        if constexpr (!std::is_same_v<decltype(s.rest), Nothing>) s.rest = std::move(server);
        if (first == FirstMasks::different)
            for (std::size_t k = 0; k < n; ++k) s.own[k] = draw(key(k));
        return s;
    }
    auto send(const auto& s, Id k) const { return s.send(k, !remember); }
    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, detail::MaskedDown<R> got, Client<R>& me) const {
        static_assert(check_masking<Masking, R>());
        if constexpr (detail::sends_parameters<Inner>()) return visited(at, std::move(got), me);
        else return detail::Misfit{};
    }
    template <class M, class R = real<M>>
    void merge(const Context<M>& at, Server<R>& s, std::span<const detail::MaskedUp<R>> ups) const {
        const auto& fold = detail::merger_of(inner).fold;
        s.with_rows(ups, proposed, [&](Rows<R> rows) { fold_rows(fold, at, s.w, rows, s.fold); });
        for (const auto& up : ups) s.note(up);
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, detail::MaskedDown<R> got, Client<R> me) const {
        if constexpr (detail::sends_parameters<Inner>())
            return served(at, std::move(got), std::move(me));
    }
    bool admits(const auto& s, Id from, const auto& up) const {
        return s.admits(from, up, proposed);
    }
    bool takes(const auto& at, const auto& got, const auto& me) const {
        return me.takes(at, got, sent(*at.model));
    }
    template <class M, class R = real<M>>
    bool keeps(const Context<M>& at, const Client<R>& me, std::size_t) const {
        if (!me.fits(at.initial->size())) return false;
        if (me.mask.empty()) return detail::fresh_or(me.own, 0);
        if (!detail::is_mask_of(me.mask, at.model->layout())) return false;
        const detail::SparseContext sparse(at, me.mask, at.batch_size(), arithmetic);
        const auto there = sparse.context(at);
        const std::size_t length = detail::count_in(me.mask, sent(*at.model));
        return detail::keeps_state<Inner, nn::Sparse<M>>(inner, there, me.own, length);
    }
    template <class R>
    bool holds(const Server<R>& opened, const Server<R>& server) const {
        const auto& fold = detail::merger_of(inner).fold;
        return server.like(opened) && keeps_memory<R>(fold, server.fold, server.w.size());
    }
    template <class R>
    Vec<R> global(const Server<R>& server, const Vec<R>& initial) const {
        if constexpr (detail::gives_global<Inner>()) {
            server_t<Inner, R> whole{};
            if constexpr (!std::is_same_v<decltype(server.rest), Nothing>) whole = server.rest;
            whole.w = server.w;
            return detail::global_in(inner, whole, initial);
        } else return server.w;
    }
    // What is received, on the client's mask; 0 elsewhere.
    template <class M, class R = real<M>>
    Vec<R> global_at(const Context<M>& at, detail::MaskedDown<R> got, Client<R> me) const {
        detail::require(recall(at, got, me), detail::knows_no_mask(at.id));
        const detail::SparseContext sparse(at, me.mask, at.batch_size(), arithmetic);
        const auto there = sparse.context(at);
        return sparse.form.whole(detail::global_of(inner, there, got.x, me.own));
    }
    std::string_view needs_memory() const {
        const auto why = detail::needs_memory(inner);
        return why.empty() && remember ? detail::forgotten_masks : why;
    }

private:
    template <class M, class R = real<M>>
    detail::MaskedUp<R> visited(const Context<M>& at, detail::MaskedDown<R> got,
                                Client<R>& me) const {
        if (!recall(at, got, me)) return detail::lacks_its_mask<R>(at.id);
        const detail::SparseContext sparse(at, me.mask, at.batch_size(), arithmetic);
        const auto there = sparse.context(at);
        auto up = visit_at<Inner, nn::Sparse<M>>(inner, there, std::move(got.x), me.own);
        Mask next = me.mask;
        detail::search_mask(masking, over, at, sparse.form, trained(there, up, me.own), next);
        if (next != me.mask) me.next = std::move(next);
        if (proposed && !me.next.empty()) up.x = repacked(at, up.x, me);
        detail::MaskedUp<R> all{std::move(up.x), up.weight, me.next, at.id};
        if (!remember && !detail::holds_vectors<client_t<Inner, R>>()) me.mask = me.next = {};
        return all;
    }
    template <class M, class R = real<M>>
    auto served(const Context<M>& at, detail::MaskedDown<R> got, Client<R> me) const {
        detail::require(recall(at, got, me), detail::knows_no_mask(at.id));
        using Predict = decltype(serve_at<Inner, nn::Sparse<M>>(inner, {}, {}, {}));
        using Predictor = detail::SparsePredictor<M, Predict>;
        auto kept = std::make_unique<const detail::SparseContext<M>>(
            at, std::move(me.mask), Predictor::asked_at_once, arithmetic);
        const auto there = kept->context(at);
        auto predict =
            serve_at<Inner, nn::Sparse<M>>(inner, there, std::move(got.x), std::move(me.own));
        return Predictor(std::move(kept), std::move(predict));
    }
    // Where the numbers that travel lie in the model.
    template <class M>
    Coordinates sent(const M& model) const {
        if constexpr (detail::is_split<Inner>()) return off(detail::own_part(inner), model);
        else return {};
    }
    // Makes me.mask the one that was received by, and packs what is kept by it.
    template <class M, class R = real<M>>
    bool recall(const Context<M>& at, detail::MaskedDown<R>& got, Client<R>& me) const {
        if constexpr (!detail::holds_vectors<client_t<Inner, R>>()) return me.recall(got);
        const Mask before = me.mask;
        if (!me.recall(got)) return false;
        if (before.empty() || before == me.mask) return true;
        auto fresh = packed(*at.initial, me.mask);
        Coordinates part = Coordinates::none();
        if constexpr (detail::is_split<Inner>()) part = on(detail::own_part(inner), *at.model);
        else fresh = got.x;
        detail::repack(me.own, before, me.mask, fresh, part);
        return true;
    }
    // The numbers that masks are searched by: of the model that would be served.
    template <class M, class Up, class Own>
    auto trained(const Context<M>& there, const Up& up, const Own& own) const {
        if constexpr (!detail::names_serve<Inner> && !detail::WrapsMethod<Inner>)
            return In<real<M>>(up.x);
        else return serve_at<Inner, M>(inner, there, up.x, own).parameters;
    }
    template <class M, class R = real<M>>
    auto repacked(const Context<M>& at, Vec<R> out, const Client<R>& me) const {
        const auto part = sent(*at.model);
        const Mask before = detail::gathered(me.mask, part);
        const Mask after = detail::gathered(me.next, part);
        const auto fresh = packed(gather(*at.initial, part), after);
        detail::repack(out, before, after, fresh, Coordinates::none());
        return out;
    }
};

}  // namespace tessera
