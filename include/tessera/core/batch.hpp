// SPDX-License-Identifier: BSD-3-Clause
// Examples where they lie, and the minibatches that name them. Nothing here owns or copies data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tessera/core/arena.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>

namespace tessera {

class RowsSeen;

enum class Storage : std::uint8_t { float32, float64, bytes, callback, int32 };

constexpr std::size_t bytes_each(Storage storage) {  // of one number; 0 for rows that are made on demand
    switch (storage) {
        case Storage::float32:
        case Storage::int32: return 4;
        case Storage::float64: return 8;
        case Storage::bytes: return 1;
        case Storage::callback: break;
    }
    return 0;
}

// How to read rows of `width` features that stay in somebody else's memory. Bytes become
// (byte - shift) * scale when read, so images stay 8-bit until a kernel uses them. Whole numbers are names (of words):
// they are read as they are.
//
// An example has one label, or `labels_each` of them, a position after the other; a negative one is none: it costs
// nothing in a loss, a gradient, a clipped sum or an accuracy.
struct Examples {
    std::size_t size = 0, width = 0;
    Storage storage = Storage::float32;
    const void* rows = nullptr;                                             // size x width, row-major
    void (*fetch)(const void* rows, std::size_t example, float* out) = nullptr;  // for Storage::callback
    float shift = 0, scale = 1;
    const std::int32_t* labels = nullptr;  // classes of each example, when the task is classification
    const double* targets = nullptr;       // or its real targets
    const std::uint8_t* multi_hot = nullptr;  // or `classes` bytes an example, 1 for each class it belongs to, else 0
    std::size_t labels_each = 1, targets_each = 1;
    std::size_t classes = 0;
    std::size_t words = 0;  // labels 1 .. words are words of a vocabulary, others its marks; 0: labels are classes
    const RowsSeen* seen = nullptr;  // of who keeps the rows: their fingerprint, once somebody has asked (content.hpp)

    bool one_label() const { return labels && labels_each == 1; }
};

// A minibatch: which examples, with which weights, under which random draw. A batch that carries a
// draw is a training batch (dropout acts); one without is evaluated as is.
template <class R>
class Batch {
public:
    Batch(const Examples& examples, std::span<const Index> ids, In<R> weights = {}, const Key* draw = nullptr)
        : examples_(&examples), ids_(ids), weights_(weights), training_(draw != nullptr), draw_(draw ? *draw : Key{}) {}

    std::size_t size() const { return ids_.size(); }
    std::size_t width() const { return examples_->width; }
    const Examples& examples() const { return *examples_; }
    std::span<const Index> ids() const { return ids_; }

    // Row i where it lies, or null when it has to be converted first.
    const R* row(std::size_t i) const {
        if (rows_) return rows_ + i * width();
        constexpr auto same = std::is_same_v<R, float> ? Storage::float32 : Storage::float64;
        if (examples_->storage != same) return nullptr;
        return static_cast<const R*>(examples_->rows) + ids_[i] * width();
    }
    const std::uint8_t* bytes(std::size_t i) const {
        if (rows_ || examples_->storage != Storage::bytes) return nullptr;
        return static_cast<const std::uint8_t*>(examples_->rows) + ids_[i] * width();
    }

    // Asks memory for the bytes of row i, if there is one: a batch lies in no order, so nobody else foresees its rows.
    // (Inlined, for GCC drops a call that does nothing else.)
    [[gnu::always_inline]] void fetch(std::size_t i) const {
        if (rows_ || examples_->storage != Storage::bytes || i >= size()) return;
        const std::uint8_t *row = bytes(i), *end = row + width();
        for (; row < end; row += alignment) __builtin_prefetch(row);
    }

    void read(std::size_t i, Out<R> out) const {
        if (rows_) return convert(row(i), out);
        const std::size_t begin = ids_[i] * width();
        switch (examples_->storage) {
            case Storage::float32: convert(static_cast<const float*>(examples_->rows) + begin, out); return;
            case Storage::float64: convert(static_cast<const double*>(examples_->rows) + begin, out); return;
            case Storage::bytes: {
                const auto* in = static_cast<const std::uint8_t*>(examples_->rows) + begin;
                const R shift = R(examples_->shift), scale = R(examples_->scale);
                for (std::size_t j = 0; j < out.size(); ++j) out[j] = (R(in[j]) - shift) * scale;
                return;
            }
            case Storage::int32: convert(static_cast<const std::int32_t*>(examples_->rows) + begin, out); return;
            case Storage::callback:
                if constexpr (std::is_same_v<R, float>) {
                    examples_->fetch(examples_->rows, ids_[i], out.data());
                } else {
                    Vec<float> narrow(width());
                    examples_->fetch(examples_->rows, ids_[i], narrow.data());
                    convert(narrow.data(), out);
                }
                return;
        }
    }
    // All rows, size() x width(), row-major.
    Vec<R> inputs() const {
        Vec<R> x(size() * width());
        for (std::size_t i = 0; i < size(); ++i) read(i, Out<R>(x).subspan(i * width(), width()));
        return x;
    }

    // Of examples with one label or target,
    std::size_t label(std::size_t i) const { return static_cast<std::size_t>(examples_->labels[ids_[i]]); }
    R target(std::size_t i) const {
        return examples_->targets ? R(examples_->targets[ids_[i]]) : R(examples_->labels[ids_[i]]);
    }
    // and of any: the label at position t, negative where there is none, and target k.
    std::int32_t label(std::size_t i, std::size_t t) const {
        return examples_->labels[ids_[i] * examples_->labels_each + t];
    }
    R target(std::size_t i, std::size_t k) const {
        return R(examples_->targets[ids_[i] * examples_->targets_each + k]);
    }
    // Labels of example i, and of all, that are there.
    std::size_t labelled(std::size_t i) const {
        std::size_t n = 0;
        for (std::size_t t = 0; t < examples_->labels_each; ++t) n += label(i, t) >= 0;
        return n;
    }
    std::size_t labelled() const {
        std::size_t n = 0;
        for (std::size_t i = 0; i < size(); ++i) n += labelled(i);
        return n;
    }
    bool in_class(std::size_t i, std::size_t c) const {  // whether it belongs to class c, of several
        return examples_->multi_hot[ids_[i] * examples_->classes + c] != 0;
    }
    bool weighted() const { return !weights_.empty(); }
    In<R> weights() const { return weights_; }  // of all examples, or none
    R weight(std::size_t i) const { return weights_.empty() ? R(1) : weights_[ids_[i]]; }  // by example, not position

    bool training() const { return training_; }
    Key draw() const { return draw_; }
    // The same examples, whose rows are read from size() x width() numbers that somebody converted already.
    Batch over(const R* rows) const {
        Batch b = *this;
        b.rows_ = rows;
        return b;
    }
    Batch evaluated() const { return Batch(*examples_, ids_, weights_).over(rows_); }
    Batch drawn(Key draw) const {  // under another draw, if it has one
        Batch b = *this;
        b.draw_ = draw;
        return b;
    }
    Batch of(std::span<const Index> ids) const {  // other examples, all else alike
        Batch b = over(nullptr);
        b.ids_ = ids;
        return b;
    }
    Batch part(std::size_t begin, std::size_t count) const {
        Batch b = over(rows_ ? rows_ + begin * width() : nullptr);
        b.ids_ = ids_.subspan(begin, count);
        return b;
    }

private:
    template <class S>
    static void convert(const S* in, Out<R> out) {
        for (std::size_t j = 0; j < out.size(); ++j) out[j] = static_cast<R>(in[j]);
    }

    const Examples* examples_;
    std::span<const Index> ids_;
    In<R> weights_;
    const R* rows_ = nullptr;
    bool training_;
    Key draw_;
};

// A client's place in its infinite stream of batches; part of its state, so it survives a checkpoint.
struct Cursor {
    std::uint64_t pass = 0, at = 0;
};

// Minibatches to walk over: cuts of an order. Both iterators end here.
template <class R>
class Batches {
public:
    explicit Batches(const Examples& examples) : examples_(&examples) {}

    std::size_t size() const { return ends_.size(); }
    Batch<R> operator[](std::size_t i) const {
        const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
        return Batch<R>(*examples_, std::span<const Index>(order_).subspan(begin, ends_[i] - begin), weights_,
                        &draws_[i]);
    }
    void append(std::span<const Index> batch, Key draw) {
        order_.insert(order_.end(), batch.begin(), batch.end());
        ends_.push_back(order_.size());
        draws_.push_back(draw);
    }
    void keep(std::size_t first) {  // and no others
        ends_.resize(std::min(first, ends_.size()));
        draws_.resize(ends_.size());
        order_.resize(ends_.empty() ? 0 : ends_.back());
    }
    Batches weighted(In<R> by_example) && {
        weights_ = by_example;
        return std::move(*this);
    }

    struct Iterator {
        const Batches* batches;
        std::size_t i;
        Batch<R> operator*() const { return (*batches)[i]; }
        Iterator& operator++() {
            ++i;
            return *this;
        }
        bool operator!=(const Iterator& other) const { return i != other.i; }
    };
    Iterator begin() const { return {this, 0}; }
    Iterator end() const { return {this, size()}; }

private:
    const Examples* examples_;
    In<R> weights_{};
    Vec<Index> order_;
    Vec<std::size_t> ends_;
    Vec<Key> draws_;
};

}  // namespace tessera
