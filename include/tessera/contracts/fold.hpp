// SPDX-License-Identifier: BSD-3-Clause
// Fold: moves the server's vector, given what came up. w enters as it was and leaves as it is now. A
// coordinate that a client does not own reads "unchanged".
//
// A fold is one of
//   plain      void fold(context, w, rows, memory) const
//   linear     a plain one that offers `streams`: template <class R> struct Sum; lift(row, w, sum),
//              add(sum, other), finish(context, w, sum, memory). Partial sums are added along one fixed tree
//              over cohort positions, so the cohort need not be kept and the bits are those of fold(). One that
//              adds up neighbours at once says how many, a power of two, `static constexpr std::size_t lift_width`,
//              and has lift(rows, w, sum) too: for the rows of so many positions, along the same tree. One that must
//              know which coordinate is whose takes the model's layout last: lift(row, w, sum, layout).
//   decorator  a member `inner`, and void around(context, w, memory, fold_inner) const, where fold_inner(to) lets the
//              inner fold move `to`. Streams if its inner fold does. Its Memory has a member `inner`.
//              One that also reads the uploads takes them after w, around(context, w, rows, memory, fold_inner),
//              and keeps the cohort until the round closes.
// and lists what else it offers (core/offers.hpp): that it streams, understands masks, hides clients, what it asks of
// the server before round one (`check`), how long its memory may be (`keeps`).
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include <tessera/contracts/context.hpp>
#include <tessera/contracts/memory.hpp>
#include <tessera/contracts/policy.hpp>
#include <tessera/core/form.hpp>

namespace tessera {

// One client's contribution. With a mask, x holds the active coordinates only.
template <class R>
struct Row {
    In<R> x{};
    double weight = 1;
    const Mask* mask = nullptr;
};
template <class R>
using Rows = std::span<const Row<R>>;

namespace detail {
template <class R>
struct FoldInner {  // stands for the engine's callable when a decorator is checked
    void operator()(Vec<R>&) const {}
};
}  // namespace detail

template <class F, class M>
concept PlainFold = std::copyable<F> && requires(const F fold, const Context<M>& context, Vec<real<M>>& w,
                                                 Rows<real<M>> rows, memory_t<F, real<M>>& memory) {
    { fold.fold(context, w, rows, memory) } -> std::same_as<void>;
};

namespace detail {
template <class F, class M>
concept WrapsFold = std::copyable<F> && requires(const F fold, memory_t<F, real<M>>& memory) {
    fold.inner;
    memory.inner;
};
}  // namespace detail

// A decorator that reads the uploads themselves.
template <class F, class M>
concept RowDecorator = detail::WrapsFold<F, M> && requires(const F fold, const Context<M>& context, Vec<real<M>>& w,
                                                           Rows<real<M>> rows, memory_t<F, real<M>>& memory) {
    { fold.around(context, w, rows, memory, detail::FoldInner<real<M>>{}) } -> std::same_as<void>;
};
template <class F, class M>
concept FoldDecorator =
    RowDecorator<F, M> || (detail::WrapsFold<F, M> && requires(const F fold, const Context<M>& context, Vec<real<M>>& w,
                                                               memory_t<F, real<M>>& memory) {
        { fold.around(context, w, memory, detail::FoldInner<real<M>>{}) } -> std::same_as<void>;
    });

namespace detail {
template <class F, class M>
consteval bool is_fold() {
    if constexpr (PlainFold<F, M>) return true;
    else if constexpr (FoldDecorator<F, M>) return is_fold<std::remove_cvref_t<decltype(F::inner)>, M>();
    else return false;
}
// `Some` is a row or several.
template <class F, class R, class Some>
consteval bool lifts_by_layout() {
    return requires(const F fold, const Some& rows, const Vec<R>& w, typename F::template Sum<R>& sum) {
        fold.lift(rows, w, sum, Layout{});
    };
}
template <class F, class R, class Some>
consteval bool lifts_these() {
    return lifts_by_layout<F, R, Some>() || requires(const F fold, const Some& rows, const Vec<R>& w,
                                                     typename F::template Sum<R>& sum) { fold.lift(rows, w, sum); };
}
template <class F, class M>
consteval bool can_stream() {
    return lifts_these<F, real<M>, Row<real<M>>>() &&
           requires(const F fold, const Context<M>& context, Vec<real<M>>& w, typename F::template Sum<real<M>>& sum,
                    memory_t<F, real<M>>& memory) {
               fold.add(sum, sum);
               fold.finish(context, w, sum, memory);
           };
}
template <class F, class M>
consteval bool is_linear() {
    if constexpr (RowDecorator<F, M>) return false;
    else if constexpr (FoldDecorator<F, M> && !PlainFold<F, M>)
        return is_linear<std::remove_cvref_t<decltype(F::inner)>, M>();
    else return offers_of<F>().has(offer::streams) && can_stream<F, M>();
}
template <class F>
consteval bool takes_masks() {
    if constexpr (offers_of<F>().has(offer::masked)) return true;
    else if constexpr (offers_of<F>().has(offer::whole_rows)) return false;
    else if constexpr (requires { &F::inner; }) return takes_masks<std::remove_cvref_t<decltype(F::inner)>>();
    else return false;
}
template <class F>
consteval bool hides() {
    return somewhere_offers<F>(offer::hides_clients);
}
// Reads, here or further in, what the fold inside it is to hide.
template <class F, class M>
consteval bool reads_hidden_rows() {
    if constexpr (FoldDecorator<F, M> && !PlainFold<F, M>) {
        using Inner = std::remove_cvref_t<decltype(F::inner)>;
        return (RowDecorator<F, M> && hides<Inner>()) || reads_hidden_rows<Inner, M>();
    } else {
        return false;
    }
}
template <class F>
consteval std::size_t lifts() {
    if constexpr (offers_of<F>().has(offer::lift_width)) return F::lift_width;
    else if constexpr (offers_of<F>().has(offer::streams)) return 1;
    else if constexpr (requires { &F::inner; }) return lifts<std::remove_cvref_t<decltype(F::inner)>>();
    else return 1;
}
template <class F, class M>
consteval bool lifts_so_many() {
    if constexpr (offers_of<F>().has(offer::lift_width))
        return F::lift_width > 0 && (F::lift_width & (F::lift_width - 1)) == 0 &&
               lifts_these<F, real<M>, Rows<real<M>>>();
    else if constexpr (requires { &F::inner; }) return lifts_so_many<std::remove_cvref_t<decltype(F::inner)>, M>();
    else return true;
}
template <class F, class R>
struct SumOf {
    using type = typename SumOf<std::remove_cvref_t<decltype(F::inner)>, R>::type;
};
template <class F, class R>
    requires requires { typename F::template Sum<R>; }
struct SumOf<F, R> {
    using type = typename F::template Sum<R>;
};
}  // namespace detail

template <class F, class M>
concept Fold = detail::is_fold<F, M>();

namespace detail {
template <class F, class M>
concept FoldUnlessConst =
    !Fold<F, M> && requires(F fold, const Context<M>& context, Vec<real<M>>& w, Rows<real<M>> rows,
                            memory_t<F, real<M>>& memory) { fold.fold(context, w, rows, memory); };
}  // namespace detail

namespace detail {

struct FoldNames {
    int lift, masked, hides_clients, whole_rows, streams, lift_width, check, cohort_key, keeps;
};
template <class F> concept names_lift = !requires { &Probed<F, FoldNames>::lift; };
template <class F> concept names_masked = !requires { &Probed<F, FoldNames>::masked; };
template <class F> concept names_hides_clients = !requires { &Probed<F, FoldNames>::hides_clients; };
template <class F>
concept names_lift_width = !requires { &Probed<F, FoldNames>::lift_width; };
template <class F> concept names_check = !requires { &Probed<F, FoldNames>::check; };
template <class F> concept names_cohort_key = !requires { &Probed<F, FoldNames>::cohort_key; };
template <class F> concept names_keeps = !requires { &Probed<F, FoldNames>::keeps; };

// Of a memory that holds more than vectors of numbers nobody but the fold knows how long it may be. A decorator's own
// part is meant; the inner fold answers for its own.
template <class T, class Inner>
consteval bool knows_lengths() {
    if constexpr (std::is_same_v<T, Inner>) return true;
    else if constexpr (std::is_class_v<T> && Reflectable<T> && !is_array<T>)
        return []<class... X>(Types<X...>*) { return (knows_lengths<X, Inner>() && ...); }(
            static_cast<field_types<T>*>(nullptr));
    else return grows_by_numbers<T>();
}
template <class F>
consteval bool memory_is_known() {
    using Memory = memory_t<F, float>;
    if constexpr (requires { &F::inner; })
        return knows_lengths<Memory, memory_t<std::remove_cvref_t<decltype(F::inner)>, float>>();
    else return knows_lengths<Memory, void>();
}

template <class F>
consteval bool fold_is_spelt() {
    static_assert(policy_is_spelt<F>());
    if constexpr (StatesOffers<F>) {
        static_assert(agrees<F>(names_lift<F>, offer::streams),
                      "tessera::Fold: a fold with `lift` (and Sum, add, finish) lists `streams` in `offers`, and no "
                      "other does; is one misspelt?");
        static_assert(!names_masked<F> && !names_hides_clients<F>,
                      "tessera::Fold: `masked` and `hides_clients` are no members: list them in `offers`");
        static_assert(
            agrees<F>(names_lift_width<F>, offer::lift_width),
            "tessera::Fold: `lift_width` must be a member and be listed in `offers`, or neither; is it misspelt?");
        static_assert(agrees<F>(names_check<F>, offer::check),
                      "tessera::Fold: `check` must be a member and be listed in `offers`, or neither; is it misspelt?");
        static_assert(agrees<F>(names_cohort_key<F>, offer::cohort_key),
                      "tessera::Fold: `cohort_key` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(agrees<F>(names_keeps<F>, offer::keeps),
                      "tessera::Fold: `keeps` must be a member and be listed in `offers`, or neither; is it misspelt?");
        static_assert(
            names_keeps<F> || memory_is_known<F>(),
            "tessera::Fold: a Memory with more in it than numbers and vectors of them needs `bool keeps(memory, "
            "w) const`, which says whether one that was read from a file can be right");
    }
    return true;
}

}  // namespace detail

// The same in sentences: static_assert(check_fold<Mine, SomeModel>()) says what a fold of yours still lacks.
template <class F, class M>
consteval bool check_fold() {
    static_assert(detail::fold_is_spelt<F>());
    constexpr bool forgets_const = detail::FoldUnlessConst<F, M>, folds = Fold<F, M>,
                   reads_hidden_rows = detail::reads_hidden_rows<F, M>();
    static_assert(!forgets_const,
                  "tessera::Fold: `fold` must be const and return nothing; what it changes belongs in `template <class "
                  "R> struct Memory`");
    static_assert(
        forgets_const || folds,
        "tessera::Fold: an aggregator needs `void fold(context, w, rows, memory) const` (and, if it remembers, "
        "`template <class R> struct Memory`)");
    constexpr bool streams = !detail::offers_of<F>().has(offer::streams) || detail::can_stream<F, M>();
    static_assert(!folds || streams,
                  "tessera::Fold: a fold that streams needs `template <class R> struct Sum`, `lift(row, w, sum)`, "
                  "`add(sum, other)` and `finish(context, w, sum, memory)`, all const");
    constexpr bool lifts = detail::lifts_so_many<F, M>();
    static_assert(
        !folds || lifts,
        "tessera::Fold: `lift_width` must be a power of two, and a fold that says it needs `void lift(rows, w, "
        "sum) const` for so many neighbours");
    static_assert(!reads_hidden_rows,
                  "tessera::Fold: a decorator that reads the rows cannot go around a fold that hides clients");
    return true;
}

template <class F, class M>
concept LinearFold = Fold<F, M> && detail::is_linear<F, M>();

// A fold that understands rows with absent coordinates offers `masked`.
template <class F>
inline constexpr bool accepts_masks = detail::takes_masks<F>();

// A fold that hides what any single client sent offers `hides_clients`. Whoever goes around it must not read the rows.
template <class F>
inline constexpr bool hides_clients = detail::hides<F>();

template <class F, class R>
using sum_t = typename detail::SumOf<F, R>::type;

// How many neighbours of the cohort a linear fold lifts at once.
template <class F>
inline constexpr std::size_t lift_width = detail::lifts<F>();

namespace detail {
// Running statistics are averaged and nothing else: a decorator leaves them as the fold inside it made them. One that
// extrapolates or divides by moments could take a variance below zero. `part`: the coordinates of the model that are
// folded, null for all of them.
template <class M>
struct KeptBuffers {
    Layout layout;
    const Coordinates* part = nullptr;
    Vec<real<M>> values{};
    void keep(const Vec<real<M>>& to) {
        const std::size_t d = dimension(layout);
        if (has_buffers(layout) && to.size() == (part ? part->size(d) : d)) values = to;
    }
    void put(Vec<real<M>>& w) const {
        if (values.empty() || values.size() != w.size()) return;
        std::size_t at = 0;  // among what is folded
        each_piece(part ? *part : Coordinates(), layout, dimension(layout), [&](Range r, bool of_buffers) {
            if (of_buffers) std::copy_n(values.data() + at, r.size(), w.data() + at);
            at += r.size();
        });
    }
};
}  // namespace detail

// The engine's calls, which see through decorators.
template <class F, class M>
void fold_rows(const F& fold, const Context<M>& context, Vec<real<M>>& w, Rows<real<M>> rows,
               memory_t<F, real<M>>& memory, const Coordinates* part = nullptr) {
    if constexpr (PlainFold<F, M>) fold.fold(context, w, rows, memory);
    else {
        detail::KeptBuffers<M> buffers{context.model->layout(), part};
        const auto fold_inner = [&](Vec<real<M>>& to) {
            fold_rows(fold.inner, context, to, rows, memory.inner, part);
            buffers.keep(to);
        };
        if constexpr (RowDecorator<F, M>) fold.around(context, w, rows, memory, fold_inner);
        else fold.around(context, w, memory, fold_inner);
        buffers.put(w);
    }
}
// Whether a memory that was read from outside may be this fold's beside a vector of `w` numbers: by default every
// vector in it is empty or as long.
template <class R, class F>
bool keeps_memory(const F& fold, const memory_t<F, R>& memory, std::size_t w) {
    bool fits = true;
    if constexpr (detail::offers_of<F>().has(offer::keeps)) {
        fits = fold.keeps(memory, w);
    } else {
        for_each_field(memory, [&](std::string_view name, const auto& field) {
            if (name != "inner" || !requires { fold.inner; }) fits = fits && detail::fresh_or(field, w);
        });
    }
    if constexpr (requires { fold.inner; memory.inner; })
        fits = fits && keeps_memory<R>(fold.inner, memory.inner, w);
    return fits;
}
template <class M, class F>
void lift_row(const F& fold, const Row<real<M>>& row, const Vec<real<M>>& w, sum_t<F, real<M>>& sum,
              Layout layout = {}) {
    if constexpr (!detail::offers_of<F>().has(offer::streams)) lift_row<M>(fold.inner, row, w, sum, layout);
    else if constexpr (detail::lifts_by_layout<F, real<M>, Row<real<M>>>()) fold.lift(row, w, sum, layout);
    else fold.lift(row, w, sum);
}
// The rows of `lift_width` neighbours, fewer where the cohort ends. If there are several, weight 0 says that nobody
// came.
template <class M, class F>
void lift_rows(const F& fold, Rows<real<M>> rows, const Vec<real<M>>& w, sum_t<F, real<M>>& sum, Layout layout = {}) {
    if constexpr (lift_width<F> == 1) lift_row<M>(fold, rows[0], w, sum, layout);
    else if constexpr (!detail::offers_of<F>().has(offer::streams)) lift_rows<M>(fold.inner, rows, w, sum, layout);
    else if constexpr (detail::lifts_by_layout<F, real<M>, Rows<real<M>>>()) fold.lift(rows, w, sum, layout);
    else fold.lift(rows, w, sum);
}
template <class R, class F>
void add_sums(const F& fold, sum_t<F, R>& into, const sum_t<F, R>& other) {
    if constexpr (requires { fold.add(into, other); }) fold.add(into, other);
    else add_sums<R>(fold.inner, into, other);
}
template <class F, class M>
void finish_sum(const F& fold, const Context<M>& context, Vec<real<M>>& w, const sum_t<F, real<M>>& sum,
                memory_t<F, real<M>>& memory, const Coordinates* part = nullptr) {
    if constexpr (requires { fold.finish(context, w, sum, memory); }) fold.finish(context, w, sum, memory);
    else {
        detail::KeptBuffers<M> buffers{context.model->layout(), part};
        fold.around(context, w, memory, [&](Vec<real<M>>& to) {
            finish_sum(fold.inner, context, to, sum, memory.inner, part);
            buffers.keep(to);
        });
        buffers.put(w);
    }
}

}  // namespace tessera
