// SPDX-License-Identifier: BSD-3-Clause
// A network on the active coordinates of a mask (nn/sparse.hpp): the same list, rewritten, over packed parameters.
// Where it pays, an affine layer or a convolution uses the sparse kernels, and what flows between such layers stays in
// blocks (kernels/sparse_blocks.hpp): layers that act number by number take blocks as they are, some others offer to.
// Every other layer works on zero-filled weights of its own. What comes out is a list like any other, so the walk
// (walk.hpp) knows no masks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <tessera/contracts/sparse.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/kernels/conv_winograd.hpp>
#include <tessera/nn/active.hpp>
#include <tessera/nn/walk.hpp>

namespace tessera::nn::detail {

// The fixed table: up to which share of active weights a layer of so many outputs is faster on these alone. Zero-filled
// weights cost a dense step, and filling and gathering beside it. Sparse ones are read once for sixteen examples, or
// for fewer, and 48 are a block of 32 and one of 16. On Zen 4, for whose AVX sets it was made, whole steps are within
// 10 % of the faster way in 72 (AVX-512), 70 (AVX2) and 62 (portable, which would take more on active weights alone) of
// 72 cases (scripts/bench --only sparse_choice).
constexpr bool sparse_pays(std::size_t ones, std::size_t weights, std::size_t outputs, std::size_t batch) {
    const auto tenths = [&]() -> std::size_t {
        if (outputs < 32) return batch >= 8 ? 4 : 1;
        if (batch < 8) return batch >= 4 ? 6 : 3;
        return batch > 32 && batch <= 48 ? 5 : 9;
    };
    return 10 * ones <= tenths() * weights;
}

// The same of a convolution. Winograd's tiles cost a quarter of the multiplications of what they replace, and columns
// and blocks about as many as they say. Against tiles copying patches counts too, which takes a share of the work that
// falls with the channels: all three products break even at a density of 0.05 with 64 channels (32 x 32), of 0.15 with
// 128 (16 x 16) and of 0.2 from 256 on (batch 32, Zen 4). Blocks of examples are whole registers.
template <class R>
constexpr bool sparse_conv_pays(std::size_t ones, const kernels::ConvShape& s, std::size_t out, std::size_t batch) {
    const std::size_t least = s.channels < out ? s.channels : out;
    const std::size_t hundredths = !kernels::winograd_pays<R>(s, out) ? 60 : least >= 256 ? 20 : least >= 128 ? 15 : 4;
    return 100 * ones * kernels::padded<R>(batch) <= hundredths * out * s.taps() * batch;
}

// A layer that may work on its active weights: which these are, and whether it does.
template <class R>
class ActiveChoice {
public:
    ActiveChoice(const Node<R>& n, const Graph<R>& graph, const Mask& mask, std::size_t batch, Arithmetic how) {
        const Spec& s = n.spec();
        const bool affine = s.affine && s.in[0].positions() == 1;
        if ((!affine && s.kernel == 0) || n.shared || !graph.on->own()) return;
        weights = {&mask, {n.w, n.w + s.segments[0].size()}};
        biases = {&mask, {weights.whole.end, n.range().end}};
        if (s.kernel > 0)
            conv = {s.in[0].sizes[0], s.in[0].sizes[1], s.in[0].sizes[2], s.kernel, s.stride, s.pad};
        goes = how == Arithmetic::sparse ||
               (how == Arithmetic::table &&
                (s.kernel > 0 ? sparse_conv_pays<R>(weights.count(), conv, s.out.sizes[0], batch)
                              : sparse_pays(weights.count(), weights.whole.size(), s.out.width(), batch)));
    }

    bool goes = false;
    Active weights{}, biases{};
    kernels::ConvShape conv{};
};

// The list of a network on what is active; it keeps references to both. Null: no layer goes sparse.
template <class R>
std::shared_ptr<const Graph<R>> masked(const Graph<R>& graph, const Mask& mask, std::size_t batch, Arithmetic how) {
    bool any = false;
    Vec<ActiveChoice<R>> choices;
    for (const auto& n : graph.nodes) {
        choices.emplace_back(n, graph, mask, batch, how);
        any = any || choices.back().goes;
    }
    if (!any) return nullptr;

    const auto rewrite = [&](Graph<R>& to) {
        to.lanes = kernels::padded<R>(1);
        Vec<int> rows(graph.shapes.size(), -1), blocks(graph.shapes.size(), -1);  // where each value lies now
        Vec<Tie> ties(graph.size());
        rows[0] = 0;
        const auto by_rows = [&](int v) {
            const auto at = static_cast<std::size_t>(v);
            if (rows[at] < 0) rows[at] = to.put(FromBlocks{graph.shapes[at]}, std::array{blocks[at]});
            return rows[at];
        };
        const auto in_blocks = [&](int v) {
            const auto at = static_cast<std::size_t>(v);
            if (blocks[at] < 0) blocks[at] = to.put(ToBlocks{}, std::array{rows[at]});
            return blocks[at];
        };
        for (std::size_t i = 0; i < graph.size(); ++i) {
            const Node<R>& n = graph.nodes[i];
            const Spec& s = n.spec();
            const ActiveChoice<R>& choice = choices[i];
            const auto from = graph.from(i);
            const auto all_of = [&](const auto& where, const auto& f) {
                std::array<int, Spec::most_inputs> values{};
                std::transform(from.begin(), from.end(), values.begin(), where);
                return f(std::span<const int>(values.data(), from.size()));
            };
            const bool takes_blocks = (s.pointwise || n.op->offers.has(offer::blocks)) &&
                                      std::any_of(from.begin(), from.end(), [&](int v) {
                                          return blocks[static_cast<std::size_t>(v)] >= 0;
                                      });
            if (choice.goes) {
                const std::uint64_t* words = mask.words().data();
                const bool slope = from[0] > 0;  // the input has none
                const std::array x{in_blocks(from[0])};
                if (s.kernel > 0) {
                    kernels::SparseConvPattern<R> pattern(words, n.w, choice.conv, s.out.sizes[0], batch, slope);
                    blocks[i + 1] = to.put(ActiveConv<R>{std::move(pattern), choice.biases}, x);
                } else {
                    const std::size_t in = s.in[0].width(), out = s.out.width();
                    kernels::SparsePattern pattern(words, n.w, out, in, slope);
                    blocks[i + 1] = to.put(ActiveLinear<R>{std::move(pattern), choice.biases, in, out}, x);
                }
            } else if (takes_blocks) {
                blocks[i + 1] = all_of(in_blocks, [&](auto all) { return to.put(InBlocks<R>{n.op.get()}, all); });
            } else {
                const Active own{&mask, n.range()};
                Tie* tie = n.shared ? &ties[n.owner] : nullptr;
                rows[i + 1] = all_of(by_rows, [&](auto all) {
                    if (own.count() < own.whole.size()) return to.put(Filled<R>{n.op.get(), own}, all, tie);
                    return to.add({std::shared_ptr<const void>(), n.op.get()}, all, tie);
                });
            }
        }
        by_rows(static_cast<int>(graph.size()));
    };
    return std::allocate_shared<const Graph<R>>(ArenaAllocator<Graph<R>>(), graph, rewrite);
}

// As many positions as in the dense layer, each with twice its active weights and its active biases (FedSpa, 5.5).
template <class R>
double masked_flops(const Graph<R>& graph, const Mask& mask) {
    double sum = 0;
    for (const auto& n : graph.nodes) {
        double dense = 0, active = 0;
        for (std::size_t k = 0; k < n.spec().parts; ++k) {
            const Segment& s = n.spec().segments[k];
            const double share = s.rank > 1 ? 2 : 1;
            dense += share * static_cast<double>(s.size());
            active += share * static_cast<double>(count_active(mask, n.w + s.offset, n.w + s.end()));
        }
        sum += dense > 0 ? n.spec().flops / dense * active : n.spec().flops;
    }
    return sum;
}

// The gradient in every coordinate at the zero-filled weights that stand in `w`, and in their place: from the last
// layer to the first, each reads its weights a last time before its gradient takes their room.
template <class R, class Loss>
double gradient_in_place(const Graph<R>& graph, const Batch<R>& batch, const Loss& loss, R* w) {
    const Walk<R> walk(graph, batch, Mode::train);
    const Lane<R> lane = walk.lane(w);
    const Scratch<R> sums(graph.shared_parameters);
    const Begun begun(graph);
    walk.forward(0, graph.size(), lane);
    const double value = walk.loss(lane, loss);
    walk.backward(0, graph.size(), lane, [&](std::size_t i, Pass<R>& p) {
        const Node<R>& n = graph.nodes[i];
        if (n.spec().affine && !n.shared) {  // reads its weights for dx alone
            if (p.dx()) n.op->backward(p);
            Pass<R> own = p;
            own.dxs = {};
            own.dw = w + n.w;
            return n.op->backward(own);
        }
        const Scratch<R> one(n.shared ? 0 : n.spec().parameters);
        R* dw = n.shared ? sums.data() + n.sum : one.data();
        walk.store(i, p, dw, begun);
        if (n.owner == i) std::copy_n(dw, n.spec().parameters, w + n.w);
    });
    return value;
}

}  // namespace tessera::nn::detail
