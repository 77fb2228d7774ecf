// SPDX-License-Identifier: BSD-3-Clause
// A network on the active coordinates of a mask (nn/sparse.hpp): the same list, rewritten, over packed parameters.
// Where it pays, an affine layer uses the sparse kernels, and what flows between such layers stays in blocks
// (kernels/sparse_blocks.hpp): layers that act number by number take blocks as they are. Every other layer works on
// zero-filled weights of its own. What comes out is a list like any other, so the walk (walk.hpp) knows no masks.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <tessera/contracts/sparse.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/kernels/sparse.hpp>
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

inline std::size_t count_active(const Mask& mask, std::size_t begin, std::size_t end) {
    std::size_t n = 0;
    kernels::each_word(mask.words().data(), begin, end,
                       [&](std::size_t, std::uint64_t bits) { n += static_cast<std::size_t>(std::popcount(bits)); });
    return n;
}

// Some coordinates of a mask, one after the other.
struct Active {
    const Mask* mask = nullptr;
    Range whole{};

    std::size_t count() const { return count_active(*mask, whole.begin, whole.end); }
    // packed = what is active of dense, and back; both begin with the first of these coordinates.
    template <class R>
    void gather(const R* dense, R* packed) const {
        each([&](std::size_t j) { *packed++ = dense[j]; });
    }
    template <class R>
    void fill(const R* packed, R* dense) const {
        std::fill_n(dense, whole.size(), R(0));
        each([&](std::size_t j) { dense[j] = *packed++; });
    }

private:
    template <class F>
    void each(const F& f) const {
        kernels::each_word(mask->words().data(), whole.begin, whole.end, [&](std::size_t base, std::uint64_t bits) {
            for (; bits != 0; bits &= bits - 1)
                f(base + static_cast<std::size_t>(std::countr_zero(bits)) - whole.begin);
        });
    }
};

template <class R>
void rows_to_blocks(const Rows<R>& rows, R* blocks, std::size_t batch, std::size_t width) {
    const auto turn = [&](const R* const* table) {
        kernels::to_blocks(table, blocks, batch, width, kernels::padded<R>(batch));
    };
    if (rows.table) turn(rows.table);
    else turn(kernels::RowTable<R>(rows.matrix, batch, width).rows());
}

// Rows to blocks, and slopes back.
struct ToBlocks {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.out = Shape(s.in[0].size());
        s.backward_reads = Reads::nothing;
        s.reads_rows = true;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        rows_to_blocks(p.rows, p.y, p.batch, p.in().size());
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (p.dx()) kernels::from_blocks(p.dy, p.dx(), p.batch, p.in().size(), kernels::padded<R>(p.batch));
    }
};
// The other way. The shape of the rows is known to who made the blocks.
struct FromBlocks {
    Shape rows{};

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.out = rows;
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        kernels::from_blocks(p.x(), p.y, p.batch, p.in().size(), kernels::padded<R>(p.batch));
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (p.dx()) rows_to_blocks({p.dy, nullptr, {}}, p.dx(), p.batch, p.in().size());
    }
};

// A layer that acts number by number, on blocks.
template <class R>
struct InBlocks {
    const Op<R>* inner;

    static constexpr Offers offers = offer::nothing;

    void infer(Spec& s) const {
        s.out = Shape(inner->spec.out.size());
        s.in_place = inner->spec.in_place;
        s.backward_reads = inner->spec.backward_reads;
    }
    void forward(const Pass<R>& p) const { inner->forward(wide(p)); }
    void backward(const Pass<R>& p) const { inner->backward(wide(p)); }

private:
    static Pass<R> wide(Pass<R> p) {
        p.batch = kernels::padded<R>(p.batch);
        return p;
    }
};

// An affine layer on its active weights, packed row by row, and its active biases behind them. Blocks go in and out.
template <class R>
struct ActiveLinear {
    kernels::SparsePattern pattern;
    Active biases;  // none: no bias
    std::size_t inputs, outputs;

    static constexpr Offers offers = offer::step;

    void infer(Spec& s) const {
        s.out = Shape(outputs);
        s.parameters = pattern.count() + biases.count();
        s.backward_reads = Reads::x;
    }
    void forward(const Pass<R>& p) const {
        const Scratch<R> bias(outputs);
        if (has_bias()) biases.fill(p.w + pattern.count(), bias.data());
        else std::fill_n(bias.data(), outputs, R(0));
        kernels::sparse_affine(pattern, p.w, static_cast<const R*>(bias.data()), p.x(), p.y, p.batch);
    }
    void backward(const Pass<R>& p) const {
        if (p.dx()) kernels::sparse_gradients(pattern, p.w, p.dy, p.x(), {.blocks = p.dx()}, p.dw, p.batch);
        else if (p.dw) kernels::sparse_weight_gradient(pattern, p.dy, p.x(), p.dw, p.batch);
        if (p.dw && has_bias()) bias_gradient(p, p.dw + pattern.count());
    }
    void step(const Pass<R>& p, R* w, const Update<R>& u) const {
        if (p.dx()) kernels::sparse_backward(pattern, p.dy, p.x(), w, {.blocks = p.dx()}, p.batch, u.pulls, u.numbers);
        else kernels::sparse_update(pattern, p.dy, p.x(), w, p.batch, u.pulls, u.numbers);
        if (!has_bias()) return;
        const Scratch<R> db(p.spec->parameters - pattern.count());
        bias_gradient(p, db.data());
        u.at(pattern.count())(w + pattern.count(), db.data(), db.size());
    }

private:
    bool has_bias() const { return biases.whole.size() > 0; }
    void bias_gradient(const Pass<R>& p, R* to) const {
        const Scratch<R> sums(outputs);
        kernels::block_sums(p.dy, sums.data(), outputs, kernels::padded<R>(p.batch));
        biases.gather(static_cast<const R*>(sums.data()), to);
    }
};

// Any other layer, on zero-filled weights.
template <class R>
struct Filled {
    const Op<R>* inner;
    Active parameters;

    static constexpr Offers offers = offer::nothing;

    void infer(Spec& s) const {
        const Spec& own = inner->spec;
        s.out = own.out;
        for (std::size_t k = 0; k < own.parts; ++k) {
            Segment part = own.segments[k];
            const std::size_t begin = parameters.whole.begin + part.offset;
            part.shape = {count_active(*parameters.mask, begin, begin + part.size()), 1, 1, 1};
            part.rank = 1;
            s.parameter(part);
        }
        for (std::size_t k = 0; k < own.note_count; ++k) s.note(own.note_sizes[k]);
        s.batch_notes = parameters.whole.size() + own.batch_notes;
        s.backward_reads = own.backward_reads;
        s.in_place = own.in_place;
        s.apart = own.apart;
        s.reads_rows = own.reads_rows;
        s.words = own.words;
    }
    void forward(const Pass<R>& p) const {
        parameters.fill(p.w, p.batch_notes);
        inner->forward(whole(p));
    }
    void backward(const Pass<R>& p) const {
        const Scratch<R> dense(p.dw ? parameters.whole.size() : 0);
        Pass<R> q = whole(p);
        q.dw = dense.data();
        inner->backward(q);
        if (p.dw) parameters.gather(static_cast<const R*>(dense.data()), p.dw);
    }

private:
    Pass<R> whole(Pass<R> p) const {
        p.spec = &inner->spec;
        p.w = p.batch_notes;
        p.batch_notes += parameters.whole.size();
        return p;
    }
};

// The list of a network on what is active; it keeps references to both. Null: no layer goes sparse.
template <class R>
std::shared_ptr<const Graph<R>> masked(const Graph<R>& graph, const Mask& mask, std::size_t batch, Arithmetic how) {
    const auto weights_of = [&](std::size_t i) {
        const Spec& s = graph.nodes[i].spec();
        return Active{&mask, {graph.nodes[i].w, graph.nodes[i].w + s.in[0].width() * s.out.width()}};
    };
    const auto goes_sparse = [&](std::size_t i) {
        const Node<R>& n = graph.nodes[i];
        if (!n.spec().affine || n.spec().in[0].positions() != 1 || n.shared || graph.on != &backend_for<R>())
            return false;
        const Active w = weights_of(i);
        return how == Arithmetic::sparse ||
               (how == Arithmetic::table && sparse_pays(w.count(), w.whole.size(), n.spec().out.width(), batch));
    };
    bool any = false;
    Vec<std::uint8_t> sparse(graph.size());
    for (std::size_t i = 0; i < graph.size(); ++i) any |= (sparse[i] = goes_sparse(i)) != 0;
    if (!any) return nullptr;

    const auto rewrite = [&](Graph<R>& to) {
        to.lanes = kernels::padded<R>(1);
        Vec<int> rows(graph.shapes.size(), -1), blocks(graph.shapes.size(), -1);  // where each value lies now
        Vec<Tie> ties(graph.size());
        rows[0] = 0;
        const auto by_rows = [&](std::size_t v) {
            if (rows[v] < 0) rows[v] = to.put(FromBlocks{graph.shapes[v]}, std::array{blocks[v]});
            return rows[v];
        };
        const auto in_blocks = [&](std::size_t v) {
            if (blocks[v] < 0) blocks[v] = to.put(ToBlocks{}, std::array{rows[v]});
            return blocks[v];
        };
        for (std::size_t i = 0; i < graph.size(); ++i) {
            const Node<R>& n = graph.nodes[i];
            const auto x = static_cast<std::size_t>(graph.from(i)[0]);
            if (sparse[i]) {
                const std::size_t in = n.spec().in[0].width(), out = n.spec().out.width();
                kernels::SparsePattern pattern(mask.words().data(), n.w, out, in, x > 0);  // the input has no slope
                const Active biases{&mask, {weights_of(i).whole.end, n.range().end}};
                const int from = in_blocks(x);
                blocks[i + 1] = to.put(ActiveLinear<R>{std::move(pattern), biases, in, out}, std::array{from});
            } else if (n.spec().pointwise && blocks[x] >= 0) {
                blocks[i + 1] = to.put(InBlocks<R>{n.op.get()}, std::array{blocks[x]});
            } else {
                std::array<int, Spec::most_inputs> from{};
                for (std::size_t k = 0; k < n.spec().inputs; ++k)
                    from[k] = by_rows(static_cast<std::size_t>(graph.from(i)[k]));
                const std::span<const int> all(from.data(), n.spec().inputs);
                const Active own{&mask, n.range()};
                Tie* tie = n.shared ? &ties[n.owner] : nullptr;
                rows[i + 1] = own.count() < own.whole.size()
                                  ? to.put(Filled<R>{n.op.get(), own}, all, tie)
                                  : to.add({std::shared_ptr<const void>(), n.op.get()}, all, tie);
            }
        }
        by_rows(graph.size());
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
