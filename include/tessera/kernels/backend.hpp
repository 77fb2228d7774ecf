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
class Simd {
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
                kernels::affine_of_many(from<R>(x, b, in), w, bias, y + b * out, end - b, in, out);
            });
        } else {  // by rows of w, as it will be updated: they stay in the cache of their core
            by_rows(out, batch * in, [&](std::size_t o, std::size_t end) {
                const std::size_t n = end - o;
                const Scratch<R> part(batch * n);
                kernels::affine_of_many(x, w + o * in, bias ? bias + o : nullptr, part.data(), batch, in, n);
                for (std::size_t b = 0; b < batch; ++b) std::copy_n(part.data() + b * n, n, y + b * out + o);
            });
        }
    }
    template <class R>
    static void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                                      std::size_t out) {
        by_rows(batch, in * out, [&](std::size_t b, std::size_t end) {
            kernels::affine_input_gradient_of_many(dy + b * out, w, dx + b * in, end - b, in, out);
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
                kernels::outer_products_of_many(dy + o, out, 1, x, dw + o * in, end - o, in, batch, batch);
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
                kernels::affine_update_rows_of_many(dy, x, w, batch, in, out, o, end, reads, numbers);
            });
    }

    // The same for the positions of sequences, of which there are many (kernels/panels.hpp). Which of the two it is
    // must not depend on how many rows there are, for a row's bits would.
    static void sequence_affine(const float* x, const float* w, const float* bias, float* y, std::size_t rows,
                                std::size_t in, std::size_t out) {
        by_panels(rows, in, out, [&](std::size_t o, std::size_t n, float* room) {
            kernels::panel_products(x, in, {.b = w + o * in, .bk = 1, .bj = in}, room, bias ? bias + o : nullptr, y + o,
                                    out, rows, in, n);
        });
    }
    // x has a row for each of dy, each where it lies.
    static void sequence_weight_gradient(const float* dy, kernels::PanelSource x, float* dw, float* dbias,
                                         std::size_t rows, std::size_t in, std::size_t out) {
        by_outputs(rows, in, out, [&](std::size_t o, std::size_t n) {
            kernels::panel_outer_products(dy + o, out, x, dw + o * in, in, n, rows, in);
        });
        if (dbias) kernels::bias_gradient(dy, dbias, rows, out);
    }
    static void sequence_update(const float* dy, kernels::PanelSource x, float* w, std::size_t rows, std::size_t in,
                                std::size_t out, const kernels::UpdateVectors<float>& reads,
                                const kernels::UpdateNumbers<float>& numbers) {
        const auto descend = [&](const float* dw, std::size_t from, std::size_t n) {
            const auto own = reads.at(from);
            kernels::update(w + from, dw, own.prox_center, own.linear, own.velocity, n, 1.0f, numbers);
        };
        by_outputs(rows, in, out, [&](std::size_t o, std::size_t n) {
            const Scratch<float> dw(n * in);
            kernels::panel_outer_products(dy + o, out, x, dw.data(), in, n, rows, in);
            descend(dw.data(), o * in, n * in);
        });
        const Scratch<float> dbias(out);
        kernels::bias_gradient(dy, dbias.data(), rows, out);
        descend(dbias.data(), in * out, out);
    }

private:
    // f(first, columns, room for a packed panel) for pieces of the columns of an output; a piece is whole panels.
    template <class F>
    static void by_panels(std::size_t rows, std::size_t depth, std::size_t columns, const F& f) {
        constexpr std::size_t width = kernels::widest_panel;
        const std::size_t threads = rows * depth * columns < large ? 1 : Crew::size();
        const std::size_t each = (columns + threads * width - 1) / (threads * width) * width;
        Crew::for_each((columns + each - 1) / each, [&](std::size_t piece) {
            const Scratch<float> room(depth * width);
            f(piece * each, std::min(each, columns - piece * each), room.data());
        });
    }
    // f(first, outputs) for pieces whose gradients stay in L2 while the rows go by.
    template <class F>
    static void by_outputs(std::size_t rows, std::size_t in, std::size_t out, const F& f) {
        constexpr std::size_t l2 = std::size_t{1} << 18;  // numbers
        const std::size_t threads = rows * in * out < large ? 1 : Crew::size();
        const std::size_t fitting = std::max<std::size_t>(l2 / in / 6 * 6, 48);
        const std::size_t each = std::min(fitting, (out + 6 * threads - 1) / (6 * threads) * 6);
        Crew::for_each((out + each - 1) / each,
                       [&](std::size_t piece) { f(piece * each, std::min(each, out - piece * each)); });
    }
};

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
