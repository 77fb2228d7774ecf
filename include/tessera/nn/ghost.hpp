// SPDX-License-Identifier: BSD-3-Clause
// Norms of the gradients of single examples without those gradients ("ghost norms", Goodfellow 2015, Li et al. 2022).
//
//   affine layer   |g_i|^2 = |x_i|^2 |dy_i|^2 for the weights, |dy_i|^2 for the bias
//
// One backward pass leaves dy of every layer with parameters and the squared norms. Back-propagation is linear in dy,
// so sum_i c_i g_i is then one weight gradient per layer with the rows of dy scaled by c_i: no second pass. Norms are
// in double. Layers that are known: Linear, GroupNorm (its few numbers example by example), Adapter, Sequential, and
// all without parameters; a network with another goes one example at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tessera/contracts/private.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/adapter.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/sequential.hpp>

namespace tessera::nn {

// Which coordinates count, seen from a layer.
struct GhostScope {
    const Where* on = nullptr;
    std::size_t offset = 0;  // of the layer in the whole vector

    GhostScope at(std::size_t begin) const { return {on, offset + begin}; }
    bool touches(std::size_t begin, std::size_t end) const { return on->touches({offset + begin, offset + end}); }
};

//   known                                     whether there is a rule for this layer
//   kept(in)                                  numbers an example that the first pass leaves for the second
//   squares(layer, call, w, x, y, notes, dy, dx, kept, scope, squares)     first pass; adds to squares[i]
//   sum(layer, call, w, x, y, notes, kept, factors, scope, dw)             second pass; writes what the scope touches
template <class L>
struct Ghost {
    static constexpr bool known = L::segments.empty();
    static constexpr std::size_t kept(std::size_t) { return 0; }

    template <class R, class X>
    static void squares(const L& layer, const Call& call, const R* w, X x, const R* y, const R* notes, const R* dy,
                        R* dx, R*, const GhostScope&, double*) {
        layer.backward(call, w, x, y, notes, dy, dx, static_cast<R*>(nullptr));
    }
    template <class R, class X>
    static void sum(const L&, const Call&, const R*, X, const R*, const R*, R*, const double*, const GhostScope&, R*) {}
};

namespace detail {

template <class R>
double row_square(const R* x, std::size_t i, std::size_t width) {
    double squared = 0;
    kernels::squared_norm(x + i * width, width, &squared);
    return squared;
}
template <class R>
double row_square(const Gathered<R>& x, std::size_t i, std::size_t width) {
    return row_square<R>(x.rows[i], 0, width);
}
inline double row_square(const GatheredBytes& x, std::size_t i, std::size_t width) {
    Scratch<float> row(width);
    kernels::widen_bytes(x.rows.row(i, width), row.data(), width, x.rows.shift, x.rows.scale);
    return row_square<float>(row.data(), 0, width);
}

// Numbers below the smallest normal one become 0: rounding there could add a part in 2 to what was clipped.
template <class R>
void scale_rows(R* rows, const double* factors, std::size_t batch, std::size_t width) {
    for (std::size_t i = 0; i < batch; ++i) {
        if (factors[i] == 1) continue;
        for (R* v = rows + i * width; v != rows + (i + 1) * width; ++v) {
            const double scaled = static_cast<double>(*v) * factors[i];
            *v = std::abs(scaled) < static_cast<double>(std::numeric_limits<R>::min()) ? R(0) : static_cast<R>(scaled);
        }
    }
}

// A layer whose dy is kept and whose weight gradient is taken from it.
template <class L>
struct GhostLeaf {
    static constexpr bool known = true;
    static constexpr std::size_t parameters = dimension(Layout(L::segments));
    static constexpr std::size_t kept(std::size_t in) { return L::width(in); }

    template <class R>
    static void keep(const Call& call, const R* dy, R* to) {
        std::copy_n(dy, call.batch * L::width(call.in), to);
    }
    template <class R, class X>
    static void sum(const L& layer, const Call& call, const R* w, X x, const R* y, const R* notes, R* kept,
                    const double* factors, const GhostScope& scope, R* dw) {
        if (!scope.touches(0, parameters)) return;
        scale_rows(kept, factors, call.batch, L::width(call.in));
        layer.backward(call, w, x, y, notes, static_cast<const R*>(kept), static_cast<R*>(nullptr), dw);
    }
};

}  // namespace detail

template <std::size_t In, std::size_t Out, class Backend>
struct Ghost<Linear<In, Out, Backend>> : detail::GhostLeaf<Linear<In, Out, Backend>> {
    using L = Linear<In, Out, Backend>;

    template <class R, class X>
    static void squares(const L& layer, const Call& call, const R* w, X x, const R* y, const R* notes, const R* dy,
                        R* dx, R* kept, const GhostScope& scope, double* squares) {
        const bool weights = scope.touches(0, In * Out), bias = scope.touches(In * Out, In * Out + Out);
        if (weights || bias) {
            Ghost::keep(call, dy, kept);
            for (std::size_t i = 0; i < call.batch; ++i) {
                const double inputs = weights ? detail::row_square(x, i, In) : 0;
                squares[i] += (inputs + (bias ? 1 : 0)) * detail::row_square(dy, i, Out);
            }
        }
        if (dx) layer.backward(call, w, x, y, notes, dy, dx, static_cast<R*>(nullptr));
    }
};

template <std::size_t Channels, std::size_t Groups, std::size_t Positions>
struct Ghost<GroupNorm<Channels, Groups, Positions>> : detail::GhostLeaf<GroupNorm<Channels, Groups, Positions>> {
    using L = GroupNorm<Channels, Groups, Positions>;

    template <class R>
    static void squares(const L& layer, const Call& call, const R* w, const R* x, const R* y, const R* notes,
                        const R* dy, R* dx, R* kept, const GhostScope& scope, double* squares) {
        if (scope.touches(0, Ghost::parameters)) {
            Ghost::keep(call, dy, kept);
            Call one = call;
            one.batch = 1;
            Scratch<R> dw(Ghost::parameters);
            const std::size_t width = L::width(call.in);
            for (std::size_t i = 0; i < call.batch; ++i) {
                layer.backward(one, w, x + i * width, y + i * width, notes + i * L::notes(call.in), dy + i * width,
                               static_cast<R*>(nullptr), dw.data());
                if (scope.touches(0, Channels)) squares[i] += detail::row_square<R>(dw.data(), 0, Channels);
                if (scope.touches(Channels, 2 * Channels)) squares[i] += detail::row_square<R>(dw.data(), 1, Channels);
            }
        }
        if (dx) layer.backward(call, w, x, y, notes, dy, dx, static_cast<R*>(nullptr));
    }
};

template <class Inner, class Start>
struct Ghost<Adapter<Inner, Start>> {
    using L = Adapter<Inner, Start>;
    static constexpr bool known = Ghost<Inner>::known;
    static constexpr std::size_t kept(std::size_t in) { return Ghost<Inner>::kept(in); }

    template <class R>
    static void squares(const L& layer, const Call& call, const R* w, const R* x, const R*, const R* notes,
                        const R* dy, R* dx, R* kept, const GhostScope& scope, double* squares) {
        const std::size_t n = call.batch * call.in;
        Ghost<Inner>::squares(layer.inner(), call.child(0, call.in), w, x, notes, notes + n, dy, dx, kept, scope,
                              squares);
        for (std::size_t i = 0; dx && i < n; ++i) dx[i] += dy[i];
    }
    template <class R>
    static void sum(const L& layer, const Call& call, const R* w, const R* x, const R*, const R* notes, R* kept,
                    const double* factors, const GhostScope& scope, R* dw) {
        Ghost<Inner>::sum(layer.inner(), call.child(0, call.in), w, x, notes, notes + call.batch * call.in, kept,
                          factors, scope, dw);
    }
};

template <class... Layers>
struct Ghost<Sequential<Layers...>> {
    using L = Sequential<Layers...>;
    static constexpr std::size_t count = sizeof...(Layers);
    static constexpr bool known = (Ghost<Layers>::known && ...);
    static constexpr std::size_t kept([[maybe_unused]] std::size_t in) {
        std::size_t sum = 0;
        ((sum += Ghost<Layers>::kept(in), in = Layers::width(in)), ...);
        return sum;
    }

    template <class R, class X>
    static void squares(const L& layer, const Call& call, const R* w, X x, const R* y, const R* notes, const R* dy,
                        R* dx, R* kept, const GhostScope& scope, double* squares) {
        squares_from<0>(layer, call, call.in, w, x, y, notes, dy, dx, kept, scope, squares, dx != nullptr);
    }
    template <class R, class X>
    static void sum(const L& layer, const Call& call, const R* w, X x, const R* y, const R* notes, R* kept,
                    const double* factors, const GhostScope& scope, R* dw) {
        sum_from<0>(layer, call, call.in, w, x, y, notes, kept, factors, scope, dw);
    }

private:
    template <std::size_t I>
    using at = std::tuple_element_t<I, std::tuple<Layers...>>;
    template <std::size_t I>
    static constexpr std::size_t parameters = dimension(Layout(at<I>::segments));

    // `below`: something under layer I asks for dy, so that layers under all that train cost nothing.
    template <std::size_t I, class R, class X>
    static void squares_from(const L& layer, const Call& call, std::size_t in, const R* w, X x, const R* y,
                             const R* notes, const R* dy, R* dx, R* kept, const GhostScope& scope, double* squares,
                             bool below) {
        if constexpr (I < count) {
            const std::size_t out = at<I>::width(in);
            const R* after = notes + call.batch * at<I>::notes(in);
            const R* to = I + 1 < count ? after : y;
            const R* dto = dy;
            const bool here = scope.touches(0, parameters<I>);
            const bool asks = below || here;
            const Scratch<R> inner(I + 1 < count && asks ? call.batch * out : 0);
            if constexpr (I + 1 < count) {
                squares_from<I + 1>(layer, call, out, w + parameters<I>, to, y, after + call.batch * out, dy,
                                    asks ? inner.data() : nullptr, kept + call.batch * Ghost<at<I>>::kept(in),
                                    scope.at(parameters<I>), squares, asks);
                dto = inner.data();
            }
            if (asks)
                Ghost<at<I>>::squares(layer.template layer<I>(), call.child(I, in), w, x, to, notes, dto,
                                      below ? dx : nullptr, kept, scope, squares);
        }
    }
    template <std::size_t I, class R, class X>
    static void sum_from(const L& layer, const Call& call, std::size_t in, const R* w, X x, const R* y, const R* notes,
                         R* kept, const double* factors, const GhostScope& scope, R* dw) {
        if constexpr (I < count) {
            const std::size_t out = at<I>::width(in);
            const R* after = notes + call.batch * at<I>::notes(in);
            const R* to = I + 1 < count ? after : y;
            Ghost<at<I>>::sum(layer.template layer<I>(), call.child(I, in), w, x, to, notes, kept, factors, scope, dw);
            sum_from<I + 1>(layer, call, out, w + parameters<I>, to, y, after + call.batch * out,
                            kept + call.batch * Ghost<at<I>>::kept(in), factors, scope.at(parameters<I>),
                            dw + parameters<I>);
        }
    }
};

}  // namespace tessera::nn
