// SPDX-License-Identifier: BSD-3-Clause
// Backend: who multiplies, as an object that a pass brings along. Every product of every layer goes through it, so
// a network runs on another backend without being another type. backend::Simd, Reference, Eigen and XtensorBlas
// (kernels/) become one by `backend_for<R, backend::Eigen>()`.
#pragma once

#include <cstddef>
#include <type_traits>

#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/backend.hpp>

namespace tessera::nn {

// The rows of a matrix: in one piece, each where it lies, or in bytes (of products, float only).
template <class R>
struct Rows {
    const R* matrix = nullptr;
    const R* const* table = nullptr;
    kernels::ByteRows bytes{};
    bool sequence = false;  // positions of sequences: there are many, and kernels for many may be taken

    // f(matrix), f(table) or f(bytes)
    template <class F>
    void visit(const F& f) const {
        if constexpr (std::is_same_v<R, float>)
            if (bytes.examples) return f(bytes);
        if (table) f(table);
        else f(matrix);
    }
};

// Matrices are row-major; w is [out][in]. A null bias is none, a null dbias is not wanted.
template <class R>
class Backend {
public:
    // Whether it reads rows where they lie, and bytes; all read one piece.
    virtual bool reads_rows() const = 0;
    virtual bool reads_bytes() const = 0;
    virtual void affine(const Rows<R>& x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                        std::size_t out) const = 0;
    virtual void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                                       std::size_t out) const = 0;
    // Whether it is our kernels, which know more than products. In float a layer may then pack a matrix that it
    // multiplies by again and again.
    virtual bool own() const = 0;
    virtual bool packs() const = 0;
    virtual void affine_weight_gradient(const R* dy, const Rows<R>& x, R* dw, R* dbias, std::size_t batch,
                                        std::size_t in, std::size_t out) const = 0;
    // Gradient and update in one pass over w and the biases behind it.
    virtual void affine_update(const R* dy, const Rows<R>& x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                               const kernels::UpdateVectors<R>& vectors,
                               const kernels::UpdateNumbers<R>& numbers) const = 0;

protected:
    ~Backend() = default;
};

// What may be multiplied. A network that is known when compiling leaves out what never comes to it: the kernels of
// sequences, bytes and large factors are half of all that a small program compiles.
struct RowKinds {
    bool sequences = true, bytes = true, large = true;
};

namespace detail {

template <class R, class B, RowKinds kinds>
class BackendOf final : public Backend<R> {
    template <class X>
    static constexpr bool reads = requires(X x, const R* w, R* y, std::size_t n) { B::affine(x, w, w, y, n, n, n); } &&
                                  (kinds.bytes || !std::is_same_v<X, kernels::ByteRows>);
    static constexpr bool sequences = kinds.sequences && requires(const R* x, R* y, std::size_t n) {
        B::sequence_affine(x, x, x, y, n, n, n);
    };
    using By = std::conditional_t<std::is_same_v<B, backend::Simd> && !kinds.large, backend::SimdOf<false>, B>;
    // Rows of sequences that lie in memory.
    static bool apart(const Rows<R>& x) { return sequences && x.sequence && !x.bytes.examples; }

public:
    bool reads_rows() const override { return reads<const R* const*>; }
    bool reads_bytes() const override { return std::is_same_v<R, float> && reads<kernels::ByteRows>; }
    void affine(const Rows<R>& x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                std::size_t out) const override {
        if constexpr (sequences)
            if (apart(x) && x.matrix && !x.table) return B::sequence_affine(x.matrix, w, bias, y, batch, in, out);
        with(x, [&](auto rows) { By::affine(rows, w, bias, y, batch, in, out); });
    }
    bool own() const override { return std::is_same_v<B, backend::Simd>; }
    bool packs() const override { return sequences; }
    void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                               std::size_t out) const override {
        By::affine_input_gradient(dy, w, dx, batch, in, out);
    }
    void affine_weight_gradient(const R* dy, const Rows<R>& x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                                std::size_t out) const override {
        if constexpr (sequences)
            if (apart(x)) return B::sequence_weight_gradient(dy, source(x, in), dw, dbias, batch, in, out);
        with(x, [&](auto rows) { By::affine_weight_gradient(dy, rows, dw, dbias, batch, in, out); });
    }
    void affine_update(const R* dy, const Rows<R>& x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                       const kernels::UpdateVectors<R>& vectors,
                       const kernels::UpdateNumbers<R>& numbers) const override {
        if constexpr (sequences)
            if (apart(x)) return B::sequence_update(dy, source(x, in), w, batch, in, out, vectors, numbers);
        with(x, [&](auto rows) { By::affine_update(dy, rows, w, batch, in, out, vectors, numbers); });
    }

private:
    static kernels::PanelSource source(const Rows<R>& x, std::size_t in)
        requires(sequences)
    {
        return {.b = x.matrix, .table = x.table, .bk = in};
    }
    template <class F>
    static void with(const Rows<R>& x, const F& f) {
        x.visit([&](const auto& rows) {
            if constexpr (reads<std::remove_cvref_t<decltype(rows)>>) f(rows);
        });
    }
};

}  // namespace detail

template <class R, class B = backend::Simd, RowKinds kinds = RowKinds{}>
const Backend<R>& backend_for() {
    static constexpr detail::BackendOf<R, B, kinds> one;
    return one;
}
#ifdef TESSERA_LINKED_KERNELS
// There is nothing to leave out of what is compiled already.
consteval RowKinds compiled(RowKinds) { return {}; }
extern template const Backend<float>& backend_for<float>();
extern template const Backend<double>& backend_for<double>();
#else
consteval RowKinds compiled(RowKinds kinds) { return kinds; }
#endif

}  // namespace tessera::nn
