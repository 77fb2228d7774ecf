// SPDX-License-Identifier: BSD-3-Clause
// One phase of a visit: some passes over the client's data, at most so many steps.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/contracts/rule.hpp>

namespace tessera::order::detail {

struct Budget {
    std::size_t epochs, cap;  // cap 0: none
    Pass pass;
};

// f(batch) within the budget.
template <class M, class F>
void for_each_batch(const Context<M>& at, const Budget& budget, F&& f) {
    const auto batches = at.epochs(budget.epochs, budget.pass);
    const std::size_t n = budget.cap > 0 ? std::min(budget.cap, batches.size()) : batches.size();
    for (std::size_t i = 0; i < n; ++i) f(batches[i]);
}

template <class M, class Q>
void phase(const Context<M>& at, Vec<real<M>>& w, const Budget& budget, const Q& rule, const Terms<real<M>>& terms) {
    if (terms.on.empty()) return;
    auto batches = at.epochs(budget.epochs, budget.pass);
    if (budget.cap > 0) batches.keep(budget.cap);
    descend(at, w, batches, rule, terms);
}

}  // namespace tessera::order::detail
