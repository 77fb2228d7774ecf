// SPDX-License-Identifier: BSD-3-Clause
// Layers with two sets of parameters, mixed per example:
//
//   h = q0 G(x) + (1 - q0) Lam(x),   dG = q0 dh,   dLam = (1 - q0) dh,   dq0 = <dh, G(x) - Lam(x)>
//
// Every layer with parameters is a block; those without stay between blocks. Draws (dropout) are those of the plain
// network, so with q0 = 1 every number is the plain network's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tessera/contracts/routable.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/sequential.hpp>

namespace tessera::nn {

// Several layers that are routed as one: a residual stage, a layer with its norm.
template <class... Layers>
using Block = Sequential<Layers...>;

namespace detail {

// What is mixed one by one: the layers of a Sequential, or all of a network at once.
template <class Layers, MixAt Mix>
struct Stages {
    static constexpr std::size_t count = 1;
    template <std::size_t>
    using at = Layers;
    template <std::size_t>
    static const Layers& get(const Layers& layers) {
        return layers;
    }
    static Call call(const Call& call, std::size_t, std::size_t) { return call; }
};
template <class... Layers>
struct Stages<Sequential<Layers...>, MixAt::layer> {
    static constexpr std::size_t count = sizeof...(Layers);
    template <std::size_t I>
    using at = std::tuple_element_t<I, std::tuple<Layers...>>;
    template <std::size_t I>
    static const at<I>& get(const Sequential<Layers...>& layers) {
        return layers.template layer<I>();
    }
    static Call call(const Call& call, std::size_t i, std::size_t in) { return call.child(i, in); }
};

// Exact where it can be: q0 = 1 gives the first branch, q0 = 0 the second, equal branches give themselves.
template <class R>
void mix_rows(const R* global, const R* local, const R* q0, R* to, std::size_t rows, std::size_t width) {
    for (std::size_t i = 0; i < rows; ++i, global += width, local += width, to += width) {
        const bool more = q0[i] >= R(0.5);
        const R *near = more ? global : local, *far = more ? local : global;
        const R share = more ? 1 - q0[i] : q0[i];
        for (std::size_t k = 0; k < width; ++k) to[k] = near[k] + share * (far[k] - near[k]);
    }
}

template <class R, class Layers, MixAt Mix>
class RoutedPass {
    using S = Stages<Layers, Mix>;
    template <std::size_t I>
    using at = typename S::template at<I>;
    template <std::size_t I>
    static constexpr std::size_t size = dimension(Layout(at<I>::segments));
    template <std::size_t I>
    static constexpr bool last = I + 1 == S::count;

public:
    static constexpr std::size_t blocks = []<std::size_t... I>(std::index_sequence<I...>) {
        return (std::size_t{0} + ... + (size<I> > 0 ? 1 : 0));
    }(std::make_index_sequence<S::count>{});

    RoutedPass(const Layers& layers, const R* w_g, const R* w_l, Routing<R>& routing)
        : layers_(layers), w_g_(w_g), w_l_(w_l), routing_(routing) {}

    // Numbers an example that forward leaves for backward. What does not depend on q0 comes first.
    static constexpr std::size_t notes(std::size_t in) { return notes_from<0>(in); }

    // `known`: the notes hold all that comes before the first mix.
    template <class X>
    void forward(const Call& call, X x, R* y, R* notes, bool known) const {
        forward_from<0, 0, 0>(call, call.in, x, y, notes, known);
    }
    template <class X>
    void backward(const Call& call, X x, const R* y, const R* notes, const R* dy, R* dw_g, R* dw_l) const {
        backward_from<0, 0, 0>(call, call.in, x, y, notes, dy, static_cast<R*>(nullptr), dw_g, dw_l);
    }
    // Rows go through each block in two groups, read where they lie. Only the outputs return to the order of the batch.
    template <class X>
    void hard(const Call& call, X x, R* y) const {
        const Scratch<Index> order(call.batch);
        for (std::size_t i = 0; i < call.batch; ++i) order[i] = static_cast<Index>(i);
        hard_from<0, 0, 0>(call, call.in, x, order.data(), y);
    }

private:
    // Where a block's numbers lie in the notes.
    template <class P>  // R or const R
    struct Places {
        P *global_notes, *local_notes, *global, *local, *q0, *mixed;

        Places(P* notes, std::size_t batch, std::size_t own, std::size_t out)
            : global_notes(notes),
              local_notes(global_notes + batch * own),
              global(local_notes + batch * own),
              local(global + batch * out),
              q0(local + batch * out),
              mixed(q0 + batch) {}
    };

    template <std::size_t I>
    static constexpr std::size_t notes_from(std::size_t in) {
        if constexpr (I < S::count) {
            const std::size_t out = at<I>::width(in), own = at<I>::notes(in);
            const std::size_t here = size<I> > 0 ? 2 * own + 2 * out + 1 : own;
            return here + (last<I> ? 0 : out) + notes_from<I + 1>(out);
        } else {
            return 0;
        }
    }

    // I: the layer; J: its block; P: where its parameters begin.
    template <std::size_t I, std::size_t J, std::size_t P, class X>
    void forward_from(const Call& call, std::size_t in, X x, R* y, R* notes, bool known) const {
        if constexpr (I < S::count) {
            const auto& layer = S::template get<I>(layers_);
            const Call own = S::call(call, I, in);
            const std::size_t out = at<I>::width(in);
            const bool done = J == 0 && known;
            R* after = notes + call.batch * at<I>::notes(in);
            if constexpr (size<I> > 0) {
                const Places<R> place(notes, call.batch, at<I>::notes(in), out);
                if (!done) {
                    layer.forward(own, w_g_ + P, x, place.global, place.global_notes);
                    layer.forward(own, w_l_ + P, x, place.local, place.local_notes);
                }
                routing_.ask(J, {}, Out<R>(place.q0, call.batch));
                after = place.mixed;
                mix_rows(place.global, place.local, place.q0, last<I> ? y : after, call.batch, out);
            } else if (!done) {
                layer.forward(own, w_g_ + P, x, last<I> ? y : after, notes);
            }
            forward_from<I + 1, J + (size<I> > 0), P + size<I>>(call, out, static_cast<const R*>(after), y,
                                                                after + call.batch * out, known);
        }
    }

    // Nothing below the first block is asked for a gradient.
    template <std::size_t I, std::size_t J, std::size_t P, class X>
    void backward_from(const Call& call, std::size_t in, X x, const R* y, const R* notes, const R* dy, R* dx, R* dw_g,
                       R* dw_l) const {
        if constexpr (I < S::count) {
            const auto& layer = S::template get<I>(layers_);
            const Call own = S::call(call, I, in);
            constexpr bool block = size<I> > 0;
            const std::size_t out = at<I>::width(in);
            const Places<const R> place(notes, call.batch, at<I>::notes(in), out);
            const R* after = block ? place.mixed : notes + call.batch * at<I>::notes(in);
            const R* dto = dy;
            constexpr bool wanted = J + block > 0;
            const Scratch<R> inner(last<I> || !wanted ? 0 : call.batch * out);
            if constexpr (!last<I>) {
                backward_from<I + 1, J + block, P + size<I>>(call, out, after, y, after + call.batch * out, dy,
                                                             wanted ? inner.data() : nullptr, dw_g, dw_l);
                dto = inner.data();
            }
            if constexpr (block) {
                if (routing_.wants_gradient()) tell(J, place, dto, call.batch, out);
                branches_back<P>(layer, own, x, place, dto, out, dx, dw_g, dw_l);
            } else if constexpr (J > 0) {
                layer.backward(own, w_g_ + P, x, last<I> ? y : after, notes, dto, dx, static_cast<R*>(nullptr));
            }
        }
    }
    void tell(std::size_t j, const Places<const R>& place, const R* dto, std::size_t batch, std::size_t width) const {
        const Scratch<R> dq0(batch);
        for (std::size_t i = 0; i < batch; ++i) {
            const R *dh = dto + i * width, *g = place.global + i * width, *l = place.local + i * width;
            double sum = 0;
            for (std::size_t k = 0; k < width; ++k)
                sum += static_cast<double>(dh[k]) * (static_cast<double>(g[k]) - static_cast<double>(l[k]));
            dq0[i] = static_cast<R>(sum);
        }
        routing_.answer(j, {}, In<R>(dq0.data(), batch), {});
    }
    template <std::size_t P, class L, class X>
    void branches_back(const L& layer, const Call& call, X x, const Places<const R>& place, const R* dto,
                       std::size_t out, R* dx, R* dw_g, R* dw_l) const {
        if (!dx && !dw_g && !dw_l) return;
        const std::size_t n = call.batch * out;
        const Scratch<R> part(n), dx_l(dx ? call.batch * call.in : 0);
        const auto scaled = [&](auto share) {
            for (std::size_t i = 0; i < call.batch; ++i) {
                const R s = share(place.q0[i]);
                for (std::size_t k = i * out; k < (i + 1) * out; ++k) part[k] = s * dto[k];
            }
            return part.data();
        };
        if (dx || dw_g)
            layer.backward(call, w_g_ + P, x, place.global, place.global_notes, scaled([](R q) { return q; }), dx,
                           dw_g ? dw_g + P : nullptr);
        if (dx || dw_l)
            layer.backward(call, w_l_ + P, x, place.local, place.local_notes, scaled([](R q) { return 1 - q; }),
                           dx ? dx_l.data() : nullptr, dw_l ? dw_l + P : nullptr);
        if (dx)
            for (std::size_t k = 0; k < call.batch * call.in; ++k) dx[k] += dx_l[k];
    }

    // Row r of x belongs to example order[r].
    template <std::size_t I, std::size_t J, std::size_t P, class X>
    void hard_from(const Call& call, std::size_t in, X x, const Index* order, R* y) const {
        if constexpr (I < S::count) {
            const auto& layer = S::template get<I>(layers_);
            const std::size_t out = at<I>::width(in);
            const Scratch<R> h(call.batch * out), notes(call.batch * at<I>::notes(in));
            const Scratch<Index> next(size<I> > 0 ? call.batch : 0);
            if constexpr (size<I> > 0) {
                const Scratch<Index> rows(call.batch);
                const std::size_t global = grouped(J, call.batch, order, rows.data(), next.data());
                Call own = S::call(call, I, in);
                own.batch = global;
                some_rows(layer, own, w_g_ + P, x, rows.data(), h.data(), notes.data());
                own.batch = call.batch - global;
                some_rows(layer, own, w_l_ + P, x, rows.data() + global, h.data() + global * out, notes.data());
                order = next.data();
            } else {
                layer.forward(S::call(call, I, in), w_g_ + P, x, h.data(), notes.data());
            }
            if constexpr (last<I>)
                for (std::size_t r = 0; r < call.batch; ++r) std::copy_n(h.data() + r * out, out, y + order[r] * out);
            else
                hard_from<I + 1, J + (size<I> > 0), P + size<I>>(call, out, static_cast<const R*>(h.data()), order, y);
        }
    }
    // Which rows go to the global branch (their number is returned), then which to the local one. A tie is global.
    std::size_t grouped(std::size_t j, std::size_t batch, const Index* order, Index* rows, Index* next) const {
        const Scratch<R> q0(batch);
        routing_.ask(j, {}, Out<R>(q0.data(), batch));
        std::size_t n = 0, global = 0;
        for (const bool wanted : {true, false}) {
            for (std::size_t r = 0; r < batch; ++r)
                if ((q0[order[r]] >= R(0.5)) == wanted) {
                    rows[n] = static_cast<Index>(r);
                    next[n++] = order[r];
                }
            if (wanted) global = n;
        }
        return global;
    }
    template <class L, class X>
    static void some_rows(const L& layer, const Call& call, const R* w, X x, const Index* rows, R* y, R* notes) {
        if (call.batch == 0) return;
        if constexpr (std::is_same_v<X, GatheredBytes>) {
            const Scratch<Index> ids(call.batch);
            for (std::size_t i = 0; i < call.batch; ++i) ids[i] = x.rows.ids[rows[i]];
            layer.forward(call, w, GatheredBytes{{x.rows.examples, ids.data(), x.rows.shift, x.rows.scale}}, y, notes);
        } else {
            const auto row = [&](std::size_t i) -> const R* {
                if constexpr (std::is_same_v<X, Gathered<R>>) return x.rows[rows[i]];
                else return x + rows[i] * call.in;
            };
            if constexpr (GatheringLayer<L, R>) {
                const Scratch<const R*> table(call.batch);
                for (std::size_t i = 0; i < call.batch; ++i) table[i] = row(i);
                layer.forward(call, w, Gathered<R>{table.data()}, y, notes);
            } else {
                const Scratch<R> copy(call.batch * call.in);
                for (std::size_t i = 0; i < call.batch; ++i) std::copy_n(row(i), call.in, copy.data() + i * call.in);
                layer.forward(call, w, static_cast<const R*>(copy.data()), y, notes);
            }
        }
    }

    const Layers& layers_;
    const R *w_g_, *w_l_;
    Routing<R>& routing_;
};

// f(pass) for the level that the routing asks for.
template <class R, class Layers, class F>
auto with_routed_pass(const Layers& layers, In<R> w_g, In<R> w_l, Routing<R>& routing, F&& f) {
    if (routing.mix == MixAt::output)
        return f(RoutedPass<R, Layers, MixAt::output>(layers, w_g.data(), w_l.data(), routing));
    return f(RoutedPass<R, Layers, MixAt::layer>(layers, w_g.data(), w_l.data(), routing));
}

}  // namespace detail
}  // namespace tessera::nn
