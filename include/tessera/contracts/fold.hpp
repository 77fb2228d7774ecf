// SPDX-License-Identifier: BSD-3-Clause
// Fold: moves the server's vector, given what came up. w enters as it was and leaves as it is now. A
// coordinate that a client does not own reads "unchanged".
//
// A fold is one of
//   plain      void fold(hub, w, rows, memory) const
//   linear     a plain one that can also stream: template <class R> struct Sum; lift(row, w, sum),
//              add(sum, other), finish(hub, w, sum, memory). Partial sums are added along one fixed tree
//              over cohort positions, so the cohort need not be kept and the bits are those of fold(). One that
//              adds up neighbours at once says how many, a power of two, `static constexpr std::size_t abreast`,
//              and has lift(rows, w, sum) too: for the rows of so many positions, along the same tree.
//   decorator  a member `inner`, and void around(hub, w, memory, inward) const, where inward(to) lets the
//              inner fold move `to`. Streams if its inner fold does. Its Memory has a member `inner`.
//              One that also reads the uploads takes them after w, around(hub, w, rows, memory, inward),
//              and keeps the cohort until the round closes.
// and may ask for something of the server (public data, say) before round one: void check(hub) const.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#include <tessera/contracts/memory.hpp>
#include <tessera/contracts/site.hpp>

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
struct Inward {  // stands for the engine's callable when a decorator is checked
    void operator()(Vec<R>&) const {}
};
}  // namespace detail

template <class F, class M>
concept PlainFold = std::copyable<F> && requires(const F fold, const Site<M>& hub, Vec<real<M>>& w, Rows<real<M>> rows,
                                                 memory_t<F, real<M>>& memory) {
    { fold.fold(hub, w, rows, memory) } -> std::same_as<void>;
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
concept RowDecorator = detail::WrapsFold<F, M> && requires(const F fold, const Site<M>& hub, Vec<real<M>>& w,
                                                           Rows<real<M>> rows, memory_t<F, real<M>>& memory) {
    { fold.around(hub, w, rows, memory, detail::Inward<real<M>>{}) } -> std::same_as<void>;
};
template <class F, class M>
concept FoldDecorator = RowDecorator<F, M> || (detail::WrapsFold<F, M> && requires(const F fold, const Site<M>& hub,
                                                                                   Vec<real<M>>& w,
                                                                                   memory_t<F, real<M>>& memory) {
    { fold.around(hub, w, memory, detail::Inward<real<M>>{}) } -> std::same_as<void>;
});

namespace detail {
template <class F, class M>
consteval bool is_fold() {
    if constexpr (PlainFold<F, M>) return true;
    else if constexpr (FoldDecorator<F, M>) return is_fold<std::remove_cvref_t<decltype(F::inner)>, M>();
    else return false;
}
template <class F, class M>
consteval bool is_linear() {
    if constexpr (RowDecorator<F, M>)
        return false;
    else if constexpr (FoldDecorator<F, M> && !PlainFold<F, M>)
        return is_linear<std::remove_cvref_t<decltype(F::inner)>, M>();
    else
        return requires(const F fold, const Site<M>& hub, Vec<real<M>>& w, const Row<real<M>>& row,
                        typename F::template Sum<real<M>>& sum, memory_t<F, real<M>>& memory) {
            fold.lift(row, w, sum);
            fold.add(sum, sum);
            fold.finish(hub, w, sum, memory);
        };
}
template <class F>
consteval bool takes_masks() {
    if constexpr (requires { F::masked; }) return F::masked;
    else if constexpr (requires { &F::inner; }) return takes_masks<std::remove_cvref_t<decltype(F::inner)>>();
    else return false;
}
template <class F>
consteval bool hides() {
    if constexpr (requires { F::hides_clients; }) return F::hides_clients;
    else if constexpr (requires { &F::inner; }) return hides<std::remove_cvref_t<decltype(F::inner)>>();
    else return false;
}
// Reads, here or further in, what the fold inside it is to hide.
template <class F, class M>
consteval bool peeks() {
    if constexpr (FoldDecorator<F, M> && !PlainFold<F, M>) {
        using Inner = std::remove_cvref_t<decltype(F::inner)>;
        return (RowDecorator<F, M> && hides<Inner>()) || peeks<Inner, M>();
    } else {
        return false;
    }
}
template <class F>
consteval std::size_t lifts() {
    if constexpr (requires { F::abreast; }) return F::abreast;
    else if constexpr (requires { typename F::template Sum<float>; }) return 1;
    else if constexpr (requires { &F::inner; }) return lifts<std::remove_cvref_t<decltype(F::inner)>>();
    else return 1;
}
template <class F, class M>
consteval bool lifts_so_many() {
    if constexpr (requires { F::abreast; })
        return F::abreast > 0 && (F::abreast & (F::abreast - 1)) == 0 &&
               requires(const F fold, Rows<real<M>> rows, const Vec<real<M>>& w,
                        typename F::template Sum<real<M>>& sum) { fold.lift(rows, w, sum); };
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
concept FoldUnlessConst = !Fold<F, M> && requires(F fold, const Site<M>& hub, Vec<real<M>>& w, Rows<real<M>> rows,
                                                  memory_t<F, real<M>>& memory) { fold.fold(hub, w, rows, memory); };
}  // namespace detail

// The same in sentences: static_assert(check_fold<Mine, SomeModel>()) says what a fold of yours still lacks.
template <class F, class M>
consteval bool check_fold() {
    constexpr bool forgets_const = detail::FoldUnlessConst<F, M>, folds = Fold<F, M>, peeks = detail::peeks<F, M>();
    static_assert(!forgets_const,
                  "tessera::Fold: `fold` must be const and return nothing; what it changes belongs in `template <class "
                  "R> struct Memory`");
    static_assert(forgets_const || folds,
                  "tessera::Fold: an aggregator needs `void fold(site, w, rows, memory) const` (and, if it remembers, "
                  "`template <class R> struct Memory`)");
    constexpr bool lifts = detail::lifts_so_many<F, M>();
    static_assert(!folds || lifts,
                  "tessera::Fold: `abreast` must be a power of two, and a fold that says it needs `void lift(rows, w, "
                  "sum) const` for so many neighbours");
    static_assert(!peeks, "tessera::Fold: a decorator that reads the rows cannot go around a fold that hides clients");
    return true;
}

template <class F, class M>
concept LinearFold = Fold<F, M> && detail::is_linear<F, M>();

// A fold that understands rows with absent coordinates says so: `static constexpr bool masked = true;`
template <class F>
inline constexpr bool accepts_masks = detail::takes_masks<F>();

// A fold that hides what any single client sent says so: `static constexpr bool hides_clients = true;`. Whoever goes
// around it must not read the rows.
template <class F>
inline constexpr bool hides_clients = detail::hides<F>();

// A fold that counts on nobody's knowing who was drawn says with which key plans are: `Key cohort_key(Key) const`.
template <class F>
Key cohort_key(const F& fold, Key key) {
    if constexpr (requires { fold.cohort_key(key); }) return fold.cohort_key(key);
    else if constexpr (requires { fold.inner; }) return cohort_key(fold.inner, key);
    else return key;
}

template <class F, class R>
using sum_t = typename detail::SumOf<F, R>::type;

// How many neighbours of the cohort a linear fold lifts at once.
template <class F>
inline constexpr std::size_t abreast = detail::lifts<F>();

// The engine's calls, which see through decorators.
template <class F, class M>
void fold_rows(const F& fold, const Site<M>& hub, Vec<real<M>>& w, Rows<real<M>> rows,
               memory_t<F, real<M>>& memory) {
    if constexpr (PlainFold<F, M>)
        fold.fold(hub, w, rows, memory);
    else {
        const auto inward = [&](Vec<real<M>>& to) { fold_rows(fold.inner, hub, to, rows, memory.inner); };
        if constexpr (RowDecorator<F, M>) fold.around(hub, w, rows, memory, inward);
        else fold.around(hub, w, memory, inward);
    }
}
// Before round one, for the fold and for every fold inside it.
template <class F, class M>
void check_hub(const F& fold, const Site<M>& hub) {
    if constexpr (requires { fold.check(hub); }) fold.check(hub);
    if constexpr (requires { fold.inner; }) check_hub(fold.inner, hub);
}
template <class M, class F>
void lift_row(const F& fold, const Row<real<M>>& row, const Vec<real<M>>& w, sum_t<F, real<M>>& sum) {
    if constexpr (requires { fold.lift(row, w, sum); }) fold.lift(row, w, sum);
    else lift_row<M>(fold.inner, row, w, sum);
}
// The rows of `abreast` neighbours, fewer where the cohort ends. If there are several, weight 0 says that nobody came.
template <class M, class F>
void lift_rows(const F& fold, Rows<real<M>> rows, const Vec<real<M>>& w, sum_t<F, real<M>>& sum) {
    if constexpr (abreast<F> == 1) lift_row<M>(fold, rows[0], w, sum);
    else if constexpr (requires { fold.lift(rows, w, sum); }) fold.lift(rows, w, sum);
    else lift_rows<M>(fold.inner, rows, w, sum);
}
template <class R, class F>
void add_sums(const F& fold, sum_t<F, R>& into, const sum_t<F, R>& other) {
    if constexpr (requires { fold.add(into, other); }) fold.add(into, other);
    else add_sums<R>(fold.inner, into, other);
}
template <class F, class M>
void finish_sum(const F& fold, const Site<M>& hub, Vec<real<M>>& w, const sum_t<F, real<M>>& sum,
                memory_t<F, real<M>>& memory) {
    if constexpr (requires { fold.finish(hub, w, sum, memory); })
        fold.finish(hub, w, sum, memory);
    else
        fold.around(hub, w, memory, [&](Vec<real<M>>& to) { finish_sum(fold.inner, hub, to, sum, memory.inner); });
}

}  // namespace tessera
