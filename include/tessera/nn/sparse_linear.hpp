// SPDX-License-Identifier: BSD-3-Clause
// What a layer does on the active coordinates of a mask, whether its widths are compiled (nn/sparse_layers.hpp) or not
// (nn/sparse_mlp.hpp): a linear one on the sparse kernels, any on zero-filled weights of its own; and what flows
// between them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/kernels/sparse.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn::detail {

inline std::size_t count_active(const Mask& mask, std::size_t begin, std::size_t end) {
    std::size_t n = 0;
    kernels::each_word(mask.words().data(), begin, end, [&](std::size_t, std::uint64_t bits) {
        n += static_cast<std::size_t>(std::popcount(bits));
    });
    return n;
}
// packed = what is active of dense, and back; both begin at coordinate `begin`.
template <class R>
void gather_active(const Mask& mask, std::size_t begin, std::size_t end, const R* dense, R* packed) {
    kernels::each_word(mask.words().data(), begin, end, [&](std::size_t base, std::uint64_t bits) {
        for (; bits != 0; bits &= bits - 1)
            *packed++ = dense[base + static_cast<std::size_t>(std::countr_zero(bits)) - begin];
    });
}
template <class R>
void fill_active(const Mask& mask, std::size_t begin, std::size_t end, const R* packed, R* dense) {
    std::fill_n(dense, end - begin, R(0));
    kernels::each_word(mask.words().data(), begin, end, [&](std::size_t base, std::uint64_t bits) {
        for (; bits != 0; bits &= bits - 1)
            dense[base + static_cast<std::size_t>(std::countr_zero(bits)) - begin] = *packed++;
    });
}

// One layer of a network: its coordinates, its packed values, and the pattern of its weights if those go sparse.
struct SparseLayer {
    Range whole{}, packed{};
    std::size_t inputs = 0, outputs = 0;
    std::size_t weights = 0;  // of the packed ones
    bool sparse = false;
    kernels::SparsePattern pattern{};

    bool full() const { return whole.size() == packed.size(); }
};

// Rows of `width` numbers.
template <class R>
void load_rows(const Batch<R>& batch, std::size_t width, R* to) {
    for (std::size_t i = 0; i < batch.size(); ++i, to += width) {
        batch.fetch(i + 2);
        if (const auto* bytes = batch.bytes(i))
            kernels::widen_bytes(bytes, to, width, R(batch.examples().shift), R(batch.examples().scale));
        else
            batch.read(i, Out<R>(to, width));
    }
}

// The numbers of a batch between two layers: by rows, in blocks (kernels/sparse_blocks.hpp), or both. One is made of
// the other when it is asked for.
template <class R>
class Carried {
public:
    void shape(std::size_t batch, std::size_t width) {
        batch_ = batch;
        width_ = width;
    }
    std::size_t size(bool blocked) const { return (blocked ? kernels::padded<R>(batch_) : batch_) * width_; }
    bool in_blocks() const { return blocks_.has_value(); }

    R* make(bool blocked) { return (blocked ? blocks_ : rows_).emplace(size(blocked)).data(); }
    R* get(bool blocked) { return blocked ? blocks() : rows(); }
    R* rows() {
        if (!rows_) {
            make(false);
            kernels::from_blocks(blocks_->data(), rows_->data(), batch_, width_, kernels::padded<R>(batch_));
        }
        return rows_->data();
    }
    R* blocks() {
        if (!blocks_) turn(kernels::RowTable<R>(rows_->data(), batch_, width_).rows());
        return blocks_->data();
    }
    // Rows that the caller writes, so that blocks of them are old.
    R* rows_to_write() {
        R* all = rows();
        blocks_.reset();
        return all;
    }
    // The same of what a network reads: nothing was made yet.
    R* rows(const Batch<R>& batch) {
        if (!rows_) load_rows(batch, width_, make(false));
        return rows_->data();
    }
    R* blocks(const Batch<R>& batch) {
        if (!blocks_) {
            const bool in_place = batch_ > 0 && batch.row(0);
            const Scratch<const R*> all(batch_);
            for (std::size_t i = 0; i < batch_; ++i) all[i] = in_place ? batch.row(i) : rows(batch) + i * width_;
            turn(all.data());
        }
        return blocks_->data();
    }
    void clear() {
        rows_.reset();
        blocks_.reset();
    }

private:
    void turn(const R* const* rows) {
        kernels::to_blocks(rows, make(true), batch_, width_, kernels::padded<R>(batch_));
    }

    std::size_t batch_ = 0, width_ = 0;
    std::optional<Scratch<R>> rows_{}, blocks_{};
};

// Packed values, and what becomes of their gradient: it is written down, or moves them.
template <class R>
struct Descent {
    R* packed = nullptr;
    R* gradient = nullptr;
    const Update<R>* update = nullptr;

    R* values(const SparseLayer& layer) const { return packed + layer.packed.begin; }
    R* slopes(const SparseLayer& layer) const { return gradient ? gradient + layer.packed.begin : nullptr; }
    bool moves(const SparseLayer& layer) const { return update && update->on->touches(layer.packed); }
    void move(Range r, const R* slopes) const {
        const auto pulls = update->pulls.at(r.begin);
        kernels::update(packed + r.begin, slopes, pulls.toward, pulls.also, pulls.velocity, r.size(), R(1),
                        update->numbers);
    }
};

// A linear layer on the sparse kernels; x, y, dx and dy are blocked.
template <class R>
void sparse_forward(const SparseLayer& layer, const Mask& mask, const R* packed, const R* x, R* y, std::size_t batch) {
    const R* w = packed + layer.packed.begin;
    const Scratch<R> bias(layer.outputs);
    fill_active(mask, layer.whole.end - layer.outputs, layer.whole.end, w + layer.weights, bias.data());
    kernels::sparse_affine(layer.pattern, w, bias.data(), x, y, batch);
}
// Without blocks of dx there is no gradient in x.
template <class R>
void sparse_backward(const SparseLayer& layer, const Mask& mask, const Descent<R>& to, const R* dy, const R* x,
                     kernels::SparseOut<R> dx, std::size_t batch) {
    R* w = to.values(layer);
    R* g = to.slopes(layer);
    const bool moves = to.moves(layer);
    if (dx.blocks && moves)
        kernels::sparse_backward(layer.pattern, dy, x, w, dx, batch, to.update->pulls.at(layer.packed.begin),
                                 to.update->numbers);
    else if (dx.blocks)
        kernels::sparse_gradients(layer.pattern, static_cast<const R*>(w), dy, x, dx, g, batch);
    else if (g)
        kernels::sparse_weight_gradient(layer.pattern, dy, x, g, batch);
    else if (moves)
        kernels::sparse_update(layer.pattern, dy, x, w, batch, to.update->pulls.at(layer.packed.begin),
                               to.update->numbers);
    if (!g && !moves) return;
    const Range biases{layer.packed.begin + layer.weights, layer.packed.end};
    const Scratch<R> sums(layer.outputs), active(g ? 0 : biases.size());
    kernels::block_sums(dy, sums.data(), layer.outputs, kernels::padded<R>(batch));
    gather_active(mask, layer.whole.end - layer.outputs, layer.whole.end, sums.data(),
                  g ? g + layer.weights : active.data());
    if (moves) to.move(biases, active.data());
}

// The weights of a layer that works on zero-filled ones: made in `room`, or the packed ones where none is missing.
template <class R>
const R* filled_weights(const SparseLayer& layer, const Mask& mask, const R* packed, std::optional<Scratch<R>>& room) {
    if (layer.full()) return packed + layer.packed.begin;
    R* w = room.emplace(layer.whole.size()).data();
    fill_active(mask, layer.whole.begin, layer.whole.end, packed + layer.packed.begin, w);
    return w;
}
// backward(dw) writes the gradient in such weights; null: not wanted.
template <class R, class F>
void filled_backward(const SparseLayer& layer, const Mask& mask, const Descent<R>& to, const F& backward) {
    R* g = to.slopes(layer);
    const bool moves = to.moves(layer), direct = g && layer.full();
    const Scratch<R> own((g || moves) && !direct ? layer.whole.size() : 0);
    R* dw = direct ? g : own.data();
    backward(dw);
    if (!dw || direct) return;
    const Scratch<R> active(layer.full() || g ? 0 : layer.packed.size());
    if (!layer.full()) gather_active(mask, layer.whole.begin, layer.whole.end, dw, g ? g : active.data());
    if (moves) to.move(layer.packed, layer.full() ? dw : active.data());
}

}  // namespace tessera::nn::detail
