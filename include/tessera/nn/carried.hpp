// SPDX-License-Identifier: BSD-3-Clause
// What flows between the layers of a network on the active coordinates of a mask (nn/masked.hpp), by rows or in blocks,
// and which coordinates of a layer are active.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/kernels/sparse.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::nn::detail {

inline std::size_t count_active(const Mask& mask, std::size_t begin, std::size_t end) {
    std::size_t n = 0;
    kernels::each_word(mask.words().data(), begin, end,
                       [&](std::size_t, std::uint64_t bits) { n += static_cast<std::size_t>(std::popcount(bits)); });
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
        else batch.read(i, Out<R>(to, width));
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

// The weights of a layer that works on zero-filled ones: made in `room`, or the packed ones where none is missing.
template <class R>
const R* filled_weights(const SparseLayer& layer, const Mask& mask, const R* packed, std::optional<Scratch<R>>& room) {
    if (layer.full()) return packed + layer.packed.begin;
    R* w = room.emplace(layer.whole.size()).data();
    fill_active(mask, layer.whole.begin, layer.whole.end, packed + layer.packed.begin, w);
    return w;
}

}  // namespace tessera::nn::detail
