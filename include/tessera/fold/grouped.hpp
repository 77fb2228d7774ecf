// SPDX-License-Identifier: BSD-3-Clause
// Some parameters folded one way, the others another: Grouped<scope::Norm, Median, Mean>.
//
// Each fold sees its own coordinates alone, as if the model had no others: a fold that looks at whole rows looks at
// the rows of its group, and its memory is as long as the group. The scope is asked of the model's layout, so w must be
// a whole model.
//
// Streams where both folds do. Cost: the two folds', and a copy of each row unless its group lies in one piece; without
// streaming, of the cohort, which is kept until the round closes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include <tessera/contracts/fold.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/fold/mean.hpp>

namespace tessera::detail::grouped {

// What can be asked of a fold before there is a model: only the numbers count.
template <class R>
struct AnyModel {
    using Real = R;
};
template <class F>
inline constexpr bool streams = detail::is_linear<F, AnyModel<float>>();

// What a row has in a group: its own numbers where they lie together, else a copy of them.
template <class R>
class Cut {
public:
    Row<R> operator()(const Row<R>& row, std::size_t d, const Coordinates& where) {
        if (row.x.empty() && !row.mask) return row;  // nobody's
        if (row.mask) {
            active(row, d, where);
            return {numbers_, row.weight, &mask_};
        }
        Range all;
        std::size_t pieces = 0;
        where.each(d, [&](Range r) { all = r, ++pieces; });
        if (pieces == 1) return {row.x.subspan(all.begin, all.size()), row.weight};
        numbers_.reserve(where.size(d));
        where.each(d, [&](Range r) { numbers_.insert(numbers_.end(), row.x.data() + r.begin, row.x.data() + r.end); });
        return {numbers_, row.weight};
    }

private:
    void active(const Row<R>& row, std::size_t d, const Coordinates& where) {
        mask_ = Mask(where.size(d));
        std::size_t place = 0, i = 0, next = 0;  // in the row, in the group, up to where the row was counted
        where.each(d, [&](Range r) {
            for (; next < r.begin; ++next) place += (*row.mask)[next];
            for (; next < r.end; ++next, ++i)
                if ((*row.mask)[next]) {
                    numbers_.push_back(row.x[place++]);
                    mask_.set(i, true);
                }
        });
    }
    Vec<R> numbers_;
    Mask mask_;
};

// f(the rows of a group, w of a group)
template <class R, class F>
void in_group(Rows<R> rows, const Vec<R>& w, const Coordinates& where, F&& f) {
    Vec<Cut<R>> cuts(rows.size());
    Vec<Row<R>> mine;
    mine.reserve(rows.size());
    for (std::size_t k = 0; k < rows.size(); ++k) mine.push_back(cuts[k](rows[k], w.size(), where));
    Vec<R> some = gather(w, where);
    f(Rows<R>(mine), some);
}
template <class F, class M, class R = real<M>>
void fold_group(const F& fold, const Context<M>& context, Vec<R>& w, Rows<R> rows, memory_t<F, R>& memory,
                const Coordinates& where) {
    if (where.empty()) return;
    in_group<R>(rows, w, where, [&](Rows<R> mine, Vec<R>& some) {
        if (!keeps_memory<R>(fold, memory, some.size())) memory = {};
        fold_rows(fold, context, some, mine, memory, &where);
        scatter(some, where, w);
    });
}
// One row that came, or several of which some may be nobody's.
template <class F, class R>
void lift_group(const F& fold, const Row<R>& row, const Vec<R>& w, sum_t<F, R>& sum, const Coordinates& where) {
    if (where.empty()) return;
    in_group<R>({&row, 1}, w, where,
                [&](Rows<R> mine, const Vec<R>& some) { lift_row<AnyModel<R>>(fold, mine[0], some, sum); });
}
template <class F, class R>
void lift_group(const F& fold, Rows<R> rows, const Vec<R>& w, sum_t<F, R>& sum, const Coordinates& where) {
    if (where.empty()) return;
    in_group<R>(rows, w, where,
                [&](Rows<R> mine, const Vec<R>& some) { lift_rows<AnyModel<R>>(fold, mine, some, sum); });
}
template <class F, class M, class R = real<M>>
void finish_group(const F& fold, const Context<M>& context, Vec<R>& w, const sum_t<F, R>& sum, memory_t<F, R>& memory,
                  const Coordinates& where) {
    if (where.empty()) return;
    Vec<R> some = gather(w, where);
    if (!keeps_memory<R>(fold, memory, some.size())) memory = {};
    finish_sum(fold, context, some, sum, memory, &where);
    scatter(some, where, w);
}

// As off() of a model with this layout.
template <class Group>
Coordinates rest(const Group& group, Layout layout) {
    Coordinates w = Coordinates::none();
    for (const auto& s : layout)
        if (!group.selects(s)) w.add({s.offset, s.end()});
    return w;
}

template <class Selected, class Others>
consteval bool go_in_groups() {
    static_assert(!hides_clients<Selected> && !hides_clients<Others>,
                  "tessera::fold::Grouped: a fold that hides clients clips whole rows, so it folds all coordinates");
    static_assert(
        !detail::somewhere_offers<Selected>(offer::check) && !detail::somewhere_offers<Others>(offer::check),
        "tessera::fold::Grouped: a fold that asks for the whole model (it offers `check`) cannot fold a part");
    return true;
}
template <class M>
void check_whole(const Context<M>& context, const Vec<real<M>>& w) {
    const std::size_t d = dimension(*context.model);
    detail::require(w.size() == d,
                    "fold::Grouped asks a scope about a whole model; this method's server "
                    "folds " +
                        std::to_string(w.size()) + " of " + std::to_string(d) + " parameters");
}
inline bool lengths_within(const auto& memory, std::size_t w) {
    return detail::for_each_length<void>(memory, {}, [&](const auto&, std::size_t length) { return length <= w; });
}
template <class Selected, class Others>
inline constexpr Offers offers =
    offer::check | offer::keeps | offer::when(accepts_masks<Selected> && accepts_masks<Others>, offer::masked);

}  // namespace tessera::detail::grouped

namespace tessera::fold {

template <Scope Group, class Selected, class Others = Mean>
struct Grouped {
    static_assert(detail::grouped::go_in_groups<Selected, Others>());
    static constexpr Offers offers = detail::grouped::offers<Selected, Others>;
    Group group{};
    Selected selected{};
    Others others{};

    template <class R>
    struct Memory {
        memory_t<Selected, R> selected;
        memory_t<Others, R> others;
    };

    template <class M>
    void fold(const Context<M>& context, Vec<real<M>>& w, Rows<real<M>> rows, Memory<real<M>>& memory) const {
        detail::grouped::fold_group(selected, context, w, rows, memory.selected, on(group, *context.model));
        detail::grouped::fold_group(others, context, w, rows, memory.others, off(group, *context.model));
    }
    template <class M>
    void check(const Context<M>& context, const Vec<real<M>>& w) const {
        on(group, *context.model);
        detail::grouped::check_whole(context, w);
    }
    // Of how many numbers each group is made nobody says here; what does not fit is begun anew.
    bool keeps(const auto& memory, std::size_t w) const {
        return detail::grouped::lengths_within(memory.selected, w) && detail::grouped::lengths_within(memory.others, w);
    }
};

// Where both add up as uploads come. Neighbours are lifted by as many as both can.
template <Scope Group, class Selected, class Others>
    requires(detail::grouped::streams<Selected> && detail::grouped::streams<Others>)
struct Grouped<Group, Selected, Others> {
    static_assert(detail::grouped::go_in_groups<Selected, Others>());
    static constexpr Offers offers = detail::grouped::offers<Selected, Others> | offer::streams | offer::lift_width;
    static constexpr std::size_t lift_width = std::min(tessera::lift_width<Selected>, tessera::lift_width<Others>);
    Group group{};
    Selected selected{};
    Others others{};

    template <class R>
    struct Memory {
        memory_t<Selected, R> selected;
        memory_t<Others, R> others;
    };
    template <class R>
    struct Sum {
        sum_t<Selected, R> selected;
        sum_t<Others, R> others;
    };

    template <class R>
    void lift(const Row<R>& row, const Vec<R>& before, Sum<R>& sum, Layout layout) const {
        lift_both(row, before, sum, layout);
    }
    template <class R>
    void lift(Rows<R> rows, const Vec<R>& before, Sum<R>& sum, Layout layout) const {
        lift_both(rows, before, sum, layout);
    }
    template <class R>
    void add(Sum<R>& into, const Sum<R>& other) const {
        add_sums<R>(selected, into.selected, other.selected);
        add_sums<R>(others, into.others, other.others);
    }
    template <class M>
    void finish(const Context<M>& context, Vec<real<M>>& w, const Sum<real<M>>& sum, Memory<real<M>>& memory) const {
        detail::grouped::finish_group(selected, context, w, sum.selected, memory.selected, on(group, *context.model));
        detail::grouped::finish_group(others, context, w, sum.others, memory.others, off(group, *context.model));
    }
    template <class M>
    void fold(const Context<M>& context, Vec<real<M>>& w, Rows<real<M>> rows, Memory<real<M>>& memory) const {
        detail::grouped::fold_group(selected, context, w, rows, memory.selected, on(group, *context.model));
        detail::grouped::fold_group(others, context, w, rows, memory.others, off(group, *context.model));
    }
    template <class M>
    void check(const Context<M>& context, const Vec<real<M>>& w) const {
        on(group, *context.model);
        detail::grouped::check_whole(context, w);
    }
    bool keeps(const auto& memory, std::size_t w) const {
        return detail::grouped::lengths_within(memory.selected, w) && detail::grouped::lengths_within(memory.others, w);
    }

private:
    template <class R>
    void lift_both(const auto& some, const Vec<R>& before, Sum<R>& sum, Layout layout) const {
        detail::grouped::lift_group(selected, some, before, sum.selected, select(group, layout));
        detail::grouped::lift_group(others, some, before, sum.others, detail::grouped::rest(group, layout));
    }
};

}  // namespace tessera::fold
