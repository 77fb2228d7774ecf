// SPDX-License-Identifier: BSD-3-Clause
// The layers of a network on the active coordinates of a mask (nn/masked.hpp): affine layers and convolutions on their
// active weights, other layers on blocks or on zero-filled weights, and the ways between rows and blocks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <tessera/core/arena.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/kernels/sparse.hpp>
#include <tessera/kernels/sparse_conv.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn::detail {

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

// A layer on blocks: one that acts number by number takes them as they are, any other offers it.
template <class R>
struct InBlocks {
    const Op<R>* inner;

    static constexpr Offers offers = offer::nothing;

    void infer(Spec& s) const {
        s.out = Shape(inner->spec.out.size());
        s.in_place = inner->spec.in_place;
        s.backward_reads = inner->spec.backward_reads;
    }
    void forward(const Pass<R>& p) const {
        if (inner->spec.pointwise) inner->forward(wide(p));
        else inner->blocks_forward(wide(p));
    }
    void backward(const Pass<R>& p) const {
        if (inner->spec.pointwise) inner->backward(wide(p));
        else inner->blocks_backward(wide(p));
    }

private:
    Pass<R> wide(Pass<R> p) const {
        p.spec = &inner->spec;
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

    static constexpr Offers offers = offer::backward_update;

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
    void backward_update(const Pass<R>& p, R* w, const Update<R>& u) const {
        if (p.dx()) kernels::sparse_backward(pattern, p.dy, p.x(), w, {.blocks = p.dx()}, p.batch, u.reads, u.numbers);
        else kernels::sparse_update(pattern, p.dy, p.x(), w, p.batch, u.reads, u.numbers);
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

// A convolution on its active weights, packed as they stand in the mask, and its active biases behind them.
template <class R>
struct ActiveConv {
    kernels::SparseConvPattern<R> pattern;
    Active biases;  // none: no bias

    static constexpr Offers offers = offer::nothing;

    void infer(Spec& s) const {
        s.out = Shape(pattern.outputs() * pattern.shape().pixels());
        s.parameters = pattern.count() + biases.count();
        s.backward_reads = Reads::x;
    }
    void forward(const Pass<R>& p) const {
        const Scratch<R> bias(biases.whole.size());
        if (bias.size() > 0) biases.fill(p.w + pattern.count(), bias.data());
        kernels::sparse_conv(pattern, p.w, static_cast<const R*>(bias.data()), p.x(), p.y, p.batch);
    }
    void backward(const Pass<R>& p) const {
        if (p.dw) kernels::sparse_conv_weight_gradient(pattern, p.dy, p.x(), p.dw, p.batch);
        if (p.dw && biases.whole.size() > 0) {
            const Scratch<R> sums(biases.whole.size());
            kernels::sparse_conv_bias_gradient(pattern, p.dy, sums.data(), p.batch);
            biases.gather(static_cast<const R*>(sums.data()), p.dw + pattern.count());
        }
        if (p.dx()) kernels::sparse_conv_input_gradient(pattern, p.w, p.dy, p.dx(), p.batch);
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
        for (std::size_t k = 0; k < own.saved_kinds; ++k) s.save(own.saved_sizes[k]);
        s.batch_saved = parameters.whole.size() + own.batch_saved;
        s.backward_reads = own.backward_reads;
        s.in_place = own.in_place;
        s.apart = own.apart;
        s.reads_rows = own.reads_rows;
        s.words = own.words;
    }
    void forward(const Pass<R>& p) const {
        parameters.fill(p.w, p.batch_saved);
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
        p.w = p.batch_saved;
        p.batch_saved += parameters.whole.size();
        return p;
    }
};

}  // namespace tessera::nn::detail
