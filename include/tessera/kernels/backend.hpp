// SPDX-License-Identifier: BSD-3-Clause
// Backends: who does the matrix work of a layer. A backend is a stateless policy with these functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <tessera/core/crew.hpp>
#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/packed.hpp>
#include <tessera/kernels/panels.hpp>
#include <tessera/kernels/reference/dense.hpp>

namespace tessera::backend {

// Our own kernels, the widest set this CPU has. Rows of x are a matrix (const R*), a table of pointers, or bytes (in
// float). A thread with a crew (core/crew.hpp) hands out rows of the output of large products, unless x is bytes.
// `Packs`: factors may be so large that copies of them pay (kernels/packed.hpp); whoever knows that none is has less to
// compile.
template <bool Packs>
class SimdOf {
    // Multiply-adds from which on the microsecond or two that a crew costs are well spent: 26 us of an AVX-512 core.
    static constexpr std::size_t large = std::size_t{1} << 21;

    // f(begin, end) for pieces of the rows of an output, each of `work` multiply-adds; fives are the rows of a tile.
    template <class F>
    static void by_rows(std::size_t rows, std::size_t work, const F& f) {
        constexpr std::size_t tile = 5;
        const std::size_t threads = rows * work < large ? 1 : Crew::size();
        const std::size_t each = threads == 1 ? rows : (rows + threads * tile - 1) / (threads * tile) * tile;
        if (each >= rows) return f(std::size_t{0}, rows);
        Crew::for_each((rows + each - 1) / each, [&](std::size_t piece) {
            f(piece * each, rows - piece * each < each ? rows : (piece + 1) * each);
        });
    }
    template <class R>
    static void affine_rows(auto x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                            std::size_t out) {
        if constexpr (Packs) kernels::affine_of_many(x, w, bias, y, batch, in, out);
        else kernels::affine(x, w, bias, y, batch, in, out);
    }
    template <class R>
    static void outer(const R* a, std::size_t ak, std::size_t am, const R* const* b, R* c, std::size_t rows,
                      std::size_t columns, std::size_t depth, std::size_t deep) {
        if constexpr (Packs) kernels::outer_products_of_many(a, ak, am, b, c, rows, columns, depth, deep);
        else kernels::outer_sums(a, ak, am, b, c, rows, columns, depth, deep, kernels::detail::Epilogue<R>{});
    }
    template <class R>
    static const R* from(const R* x, std::size_t row, std::size_t in) {
        return x + row * in;
    }
    template <class R>
    static const R* const* from(const R* const* x, std::size_t row, std::size_t) {
        return x + row;
    }

public:
    template <class R>
    static void affine(auto x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in, std::size_t out) {
        if constexpr (std::is_same_v<decltype(x), kernels::ByteRows>) {
            kernels::affine(x, w, bias, y, batch, in, out);
        } else if (batch >= out || batch * in * out < large || Crew::size() == 1) {
            by_rows(batch, in * out, [&](std::size_t b, std::size_t end) {
                affine_rows<R>(from<R>(x, b, in), w, bias, y + b * out, end - b, in, out);
            });
        } else {  // by rows of w, as it will be updated: they stay in the cache of their core
            by_rows(out, batch * in, [&](std::size_t o, std::size_t end) {
                const std::size_t n = end - o;
                const Scratch<R> part(batch * n);
                affine_rows<R>(x, w + o * in, bias ? bias + o : nullptr, part.data(), batch, in, n);
                for (std::size_t b = 0; b < batch; ++b) std::copy_n(part.data() + b * n, n, y + b * out + o);
            });
        }
    }
    template <class R>
    static void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                                      std::size_t out) {
        const kernels::RowTable<R> rows(w, out, in);
        by_rows(batch, in * out, [&](std::size_t b, std::size_t end) {
            outer(dy + b * out, 1, out, rows.rows(), dx + b * in, end - b, in, out, kernels::input_deep);
        });
    }
    template <class R>
    static void affine_weight_gradient(const R* dy, auto x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                                       std::size_t out) {
        if constexpr (std::is_same_v<decltype(x), kernels::ByteRows>) {
            kernels::affine_weight_gradient(dy, x, dw, dbias, batch, in, out);
        } else if constexpr (std::is_convertible_v<decltype(x), const R*>) {
            affine_weight_gradient(dy, kernels::RowTable<R>(x, batch, in).rows(), dw, dbias, batch, in, out);
        } else {
            by_rows(out, batch * in, [&](std::size_t o, std::size_t end) {
                outer(dy + o, out, 1, x, dw + o * in, end - o, in, batch, batch);
            });
            if (dbias) kernels::bias_gradient(dy, dbias, batch, out);
        }
    }
    template <class R>
    static void affine_update(const R* dy, auto x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                              const kernels::UpdateVectors<R>& reads, const kernels::UpdateNumbers<R>& numbers) {
        if constexpr (std::is_same_v<decltype(x), kernels::ByteRows>)
            kernels::affine_update(dy, x, w, batch, in, out, reads, numbers);
        else if constexpr (std::is_convertible_v<decltype(x), const R*>)
            affine_update(dy, kernels::RowTable<R>(x, batch, in).rows(), w, batch, in, out, reads, numbers);
        else
            by_rows(out, batch * in, [&](std::size_t o, std::size_t end) {
                if constexpr (Packs)
                    kernels::affine_update_rows_of_many(dy, x, w, batch, in, out, o, end, reads, numbers);
                else kernels::affine_update_rows(dy, x, w, batch, in, out, o, end, reads, numbers);
            });
    }

    // The same for the positions of sequences, of which there are many (kernels/panels.hpp). Which of the two it is
    // must not depend on how many rows there are, for a row's bits would.
    static void sequence_affine(const float* x, const float* w, const float* bias, float* y, std::size_t rows,
                                std::size_t in, std::size_t out) {
        constexpr std::size_t block = 192;  // rows whose numbers stay in L2 while all panels pass
        by_panels(rows, in, out, [&](std::size_t o, std::size_t n, float* panels) {
            kernels::pack_panels({.b = w + o * in, .bk = 1, .bj = in}, in, n, panels);
            for (std::size_t r = 0; r < rows; r += block)
                kernels::panel_products(x + r * in, in, {}, panels, bias ? bias + o : nullptr, y + r * out + o, out,
                                        std::min(block, rows - r), in, n);
        });
    }
    // x has a row for each of dy, each where it lies.
    static void sequence_weight_gradient(const float* dy, kernels::PanelSource x, float* dw, float* dbias,
                                         std::size_t rows, std::size_t in, std::size_t out) {
        const Positions positions(dy, x, rows, in, out);
        by_outputs(rows, in, out, [&](std::size_t o, std::size_t n) { positions.products(o, n, dw + o * in); });
        if (dbias) kernels::bias_gradient(dy, dbias, rows, out);
    }
    static void sequence_update(const float* dy, kernels::PanelSource x, float* w, std::size_t rows, std::size_t in,
                                std::size_t out, const kernels::UpdateVectors<float>& reads,
                                const kernels::UpdateNumbers<float>& numbers) {
        const auto descend = [&](const float* dw, std::size_t from, std::size_t n) {
            const auto own = reads.at(from);
            kernels::update(w + from, dw, own.prox_center, own.linear, own.velocity, n, 1.0f, numbers);
        };
        const Positions positions(dy, x, rows, in, out);
        by_outputs(rows, in, out, [&](std::size_t o, std::size_t n) {
            const Scratch<float> dw(n * in);
            positions.products(o, n, dw.data());
            descend(dw.data(), o * in, n * in);
        });
        const Scratch<float> dbias(out);
        kernels::bias_gradient(dy, dbias.data(), rows, out);
        descend(dbias.data(), in * out, out);
    }

private:
    // Weight gradients of positions: dw[o][i] = sum_r dy[r][o] x[r][i], added up as panel_outer_products does, with its
    // bits. Reading dy where it lies is faster on Zen 4 than copies of it (GFLOP/s of 1280x128->512: 111 for 97,
    // 1280x256->1024: 106 for 96). An x narrower than a register takes the part of the factor that is spread
    // (1280x8->512: 103 for 25); what comes out lies the other way around.
    class Positions {
        static constexpr std::size_t chunk = 128, narrow = 16;  // rows that are added up by themselves; numbers

        const float* dy_;
        std::size_t rows_, in_, out_;
        Scratch<const float*> table_;
        const float* const* row_;
        Scratch<float> x_;

    public:
        Positions(const float* dy, const kernels::PanelSource& x, std::size_t rows, std::size_t in, std::size_t out)
            : dy_(dy),
              rows_(rows),
              in_(in),
              out_(out),
              table_(x.table && in >= narrow ? 0 : rows),
              row_(x.table && in >= narrow ? x.table : table_.data()),
              x_(in < narrow ? rows * in : 0) {
            for (std::size_t r = 0; r < table_.size(); ++r) {
                const float* from = x.table ? x.table[r] : x.b + r * x.bk;
                table_[r] = in < narrow ? dy + r * out : from;
                if (in < narrow) std::copy_n(from, in, x_.data() + r * in);
            }
        }
        // Those of n outputs from `o` on.
        void products(std::size_t o, std::size_t n, float* dw) const {
            if (in_ >= narrow)
                return kernels::outer_products(dy_ + o, out_, 1, row_, dw, n, in_, rows_, std::min(chunk, rows_));
            const Scratch<const float*> slopes(rows_);
            for (std::size_t r = 0; r < rows_; ++r) slopes[r] = row_[r] + o;
            const Scratch<float> turned(in_ * n);
            kernels::outer_products(static_cast<const float*>(x_.data()), in_, 1, slopes.data(), turned.data(), in_, n,
                                    rows_, std::min(chunk, rows_));
            for (std::size_t j = 0; j < n; ++j)
                for (std::size_t i = 0; i < in_; ++i) dw[j * in_ + i] = turned[i * n + j];
        }
    };

    static constexpr std::size_t l2 = std::size_t{1} << 18;  // numbers

    // The same number for each piece of `count`, a multiple of `unit`, at most `most` and enough pieces for `threads`.
    static std::size_t in_each(std::size_t count, std::size_t unit, std::size_t most, std::size_t threads) {
        const std::size_t pieces = std::max(threads, (count + most - 1) / most);
        return (count + pieces * unit - 1) / (pieces * unit) * unit;
    }
    // f(first, columns, room for their panels) for pieces of the columns of an output; a piece is whole panels.
    template <class F>
    static void by_panels(std::size_t rows, std::size_t depth, std::size_t columns, const F& f) {
        constexpr std::size_t width = kernels::widest_panel;
        const std::size_t threads = rows * depth * columns < large ? 1 : Crew::size();
        const std::size_t fitting = std::max(l2 / std::max<std::size_t>(depth, 1), width);
        const std::size_t each = in_each(columns, width, fitting, threads);
        Crew::for_each((columns + each - 1) / each, [&](std::size_t piece) {
            const Scratch<float> room(depth * each);
            f(piece * each, std::min(each, columns - piece * each), room.data());
        });
    }
    // f(first, outputs) for pieces whose gradients stay in L2 while the rows go by.
    template <class F>
    static void by_outputs(std::size_t rows, std::size_t in, std::size_t out, const F& f) {
        const std::size_t threads = rows * in * out < large ? 1 : Crew::size();
        const std::size_t fitting = std::max<std::size_t>(l2 / std::max<std::size_t>(in, 1), 48);
        const std::size_t each = in_each(out, 6, fitting, threads);
        Crew::for_each((out + each - 1) / each,
                       [&](std::size_t piece) { f(piece * each, std::min(each, out - piece * each)); });
    }
};

struct Simd : SimdOf<true> {};

// Plain loops; slow, and the definition of right.
struct Reference {
    template <class R>
    static void affine(const R* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                       std::size_t out) {
        kernels::reference::affine(x, w, bias, y, batch, in, out);
    }
    template <class R>
    static void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                                      std::size_t out) {
        kernels::reference::affine_input_gradient(dy, w, dx, batch, in, out);
    }
    template <class R>
    static void affine_weight_gradient(const R* dy, const R* x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                                       std::size_t out) {
        kernels::reference::affine_weight_gradient(dy, x, dw, dbias, batch, in, out);
    }
    template <class R>
    static void affine_update(const R* dy, const R* x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                              const kernels::UpdateVectors<R>& reads, const kernels::UpdateNumbers<R>& numbers) {
        kernels::reference::affine_update(dy, x, w, batch, in, out, reads, numbers);
    }
};

}  // namespace tessera::backend
