// SPDX-License-Identifier: BSD-3-Clause
// What methods with a split model share: the server's part, and a client's whole vector put together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include <tessera/contracts/context.hpp>
#include <tessera/contracts/memory.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/scope.hpp>

namespace tessera::detail {

template <class Fold, class R>
struct SharedPart {
    Vec<R> w;  // u
    memory_t<Fold, R> fold{};
    Vec<Range> place{};  // of u in the model

    bool like(const SharedPart& opened) const { return w.size() == opened.w.size() && place == opened.place; }
    // The initial vector with u in its place.
    Vec<R> with(Vec<R> initial) const {
        Coordinates where = Coordinates::none();
        for (const auto& r : place) where.add(r);
        scatter(w, where, initial);
        return initial;
    }
};

// Asks the scope about the model, so that a wrong one is known before round one.
template <class Fold, Scope Own, class M>
SharedPart<Fold, real<M>> shared_part(const Own& own, const Context<M>& context, const Vec<real<M>>& w0) {
    on(own, *context.model);
    const Coordinates common = off(own, *context.model);
    SharedPart<Fold, real<M>> part{gather(w0, common)};
    common.each(w0.size(), [&](Range r) { part.place.push_back(r); });
    return part;
}

// u and v in their places; v empty means the initial one. What the client lacks is 0.
template <Scope Own, class M>
Vec<real<M>> joined(const Own& own, const Context<M>& at, const Vec<real<M>>& u, const Vec<real<M>>& v) {
    const auto fits = [&](const Vec<real<M>>& x, const Coordinates& where, const char* what) {
        if (x.size() != where.size(at.initial->size()))
            throw WireError(std::string(what) + " has " + std::to_string(x.size()) +
                            " numbers, the split of this model " + std::to_string(where.size(at.initial->size())));
    };
    auto w = *at.initial;
    const Coordinates common = off(own, *at.model), mine = on(own, *at.model, at.id);
    fits(u, common, "the shared part");
    scatter(u, common, w);
    lacking(own, *at.model, at.id).each(w.size(), [&](Range r) {
        std::fill(w.begin() + static_cast<std::ptrdiff_t>(r.begin), w.begin() + static_cast<std::ptrdiff_t>(r.end), 0);
    });
    if (v.empty()) return w;
    fits(v, mine, "the personal part");
    scatter(v, mine, w);
    return w;
}

template <class Order, class M>
concept OrderOf = requires(const Order order, const Context<M>& at, Vec<real<M>>& w, const Coordinates& where) {
    order(at, w, where, where);
};

}  // namespace tessera::detail
