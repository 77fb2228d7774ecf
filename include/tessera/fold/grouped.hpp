// SPDX-License-Identifier: BSD-3-Clause
// Some parameters folded one way, the others another: Grouped<scope::Norm, Median, Mean>.
//
// Each fold sees its own coordinates alone, as if the model had no others: a fold that looks at whole rows looks at
// the rows of its group, and its memory is as long as the group. The scope is asked of the model's layout, so w must be
// a whole model.
//
// Cost: the two folds', and a copy of the cohort, which is kept until the round closes.
#pragma once

#include <cstddef>
#include <string>

#include <tessera/contracts/fold.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/fold/mean.hpp>

namespace tessera::fold {

template <Scope Group, class Selected, class Others = Mean>
struct Grouped {
    static_assert(!hides_clients<Selected> && !hides_clients<Others>,
                  "tessera::fold::Grouped: a fold that hides clients clips whole rows, so it folds all coordinates");
    static constexpr Offers offers = offer::check | offer::keeps |
                                     offer::when(accepts_masks<Selected> && accepts_masks<Others>, offer::masked);
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
        part(selected, context, w, rows, memory.selected, on(group, *context.model));
        part(others, context, w, rows, memory.others, off(group, *context.model));
    }
    template <class M>
    void check(const Context<M>& context, const Vec<real<M>>& w) const {
        on(group, *context.model);
        const std::size_t d = dimension(*context.model);
        tessera::detail::require(w.size() == d, "fold::Grouped asks a scope about a whole model; this method's server "
                                                "folds " + std::to_string(w.size()) + " of " + std::to_string(d) +
                                                    " parameters");
    }
    // Of how many numbers each group is made nobody says here; what does not fit is begun anew.
    template <class Memory>
    bool keeps(const Memory& memory, std::size_t w) const {
        return lengths_within(memory.selected, w) && lengths_within(memory.others, w);
    }

private:
    static bool lengths_within(const auto& memory, std::size_t w) {
        return tessera::detail::for_each_length<void>(memory, {},
                                                      [&](const auto&, std::size_t length) { return length <= w; });
    }
    template <class F, class M, class R = real<M>>
    static void part(const F& fold, const Context<M>& context, Vec<R>& w, Rows<R> rows, memory_t<F, R>& memory,
                     const Coordinates& where) {
        if (where.empty()) return;
        Vec<R> some = gather(w, where);
        if (!keeps_memory<R>(fold, memory, some.size())) memory = {};
        Vec<Vec<R>> numbers(rows.size());
        Vec<Mask> masks(rows.size());
        Vec<Row<R>> mine;
        for (std::size_t k = 0; k < rows.size(); ++k) {
            cut(rows[k], w.size(), where, numbers[k], masks[k]);
            mine.push_back({numbers[k], rows[k].weight, rows[k].mask ? &masks[k] : nullptr});
        }
        fold_rows(fold, context, some, Rows<R>(mine), memory);
        scatter(some, where, w);
    }
    template <class R>
    static void cut(const Row<R>& row, std::size_t d, const Coordinates& where, Vec<R>& x, Mask& mask) {
        if (row.mask) mask = Mask(where.size(d));
        std::size_t place = 0, i = 0, next = 0;  // in the row, in the group, up to where the row was counted
        where.each(d, [&](Range r) {
            if (!row.mask) {
                x.insert(x.end(), row.x.data() + r.begin, row.x.data() + r.end);
                return;
            }
            for (; next < r.begin; ++next) place += (*row.mask)[next];
            for (; next < r.end; ++next, ++i)
                if ((*row.mask)[next]) {
                    x.push_back(row.x[place++]);
                    mask.set(i, true);
                }
        });
    }
};

}  // namespace tessera::fold
