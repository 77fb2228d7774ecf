// SPDX-License-Identifier: BSD-3-Clause
// Backend: who multiplies, as an object that a pass brings along. Every product of every layer goes through it, so
// a network runs on another backend without being another type. backend::Simd, Reference, Eigen and XtensorBlas
// (kernels/) become one by `backend_for<R, backend::Eigen>()`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/backend.hpp>
#include <tessera/kernels/conv.hpp>

namespace tessera::nn {

// The rows of a matrix: in one piece, each where it lies, or in bytes (float only).
template <class R>
struct Rows {
    const R* matrix = nullptr;
    const R* const* table = nullptr;
    kernels::ByteRows bytes{};

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
    virtual void affine_weight_gradient(const R* dy, const Rows<R>& x, R* dw, R* dbias, std::size_t batch,
                                        std::size_t in, std::size_t out) const = 0;
    // Gradient and update in one pass over w and the biases behind it.
    virtual void affine_update(const R* dy, const Rows<R>& x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                               const kernels::UpdatePulls<R>& pulls,
                               const kernels::UpdateNumbers<R>& numbers) const = 0;

    // dw is followed by the gradient of the biases.
    virtual void conv(const R* x, const R* w, const R* bias, R* y, std::size_t batch, const kernels::ConvShape& s,
                      std::size_t out) const = 0;
    virtual void conv_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, const kernels::ConvShape& s,
                                     std::size_t out) const = 0;
    virtual void conv_weight_gradient(const R* dy, const R* x, R* dw, std::size_t batch, const kernels::ConvShape& s,
                                      std::size_t out) const = 0;

protected:
    ~Backend() = default;
};

namespace detail {

// Patches of one image after the other, [pixel][tap] without gaps, for backends that know matrices only.
template <class R>
class Patches {
public:
    explicit Patches(const kernels::ConvShape& s) : shape_(s), numbers_(s.pixels() * s.taps()) {}
    R* data() const { return numbers_.data(); }
    void take(const R* image) const {
        each([&](std::size_t at, std::size_t in, bool inside) { numbers_[at] = inside ? image[in] : R(0); });
    }
    void add_up(R* image) const {
        std::fill_n(image, shape_.image(), R(0));
        each([&](std::size_t at, std::size_t in, bool inside) {
            if (inside) image[in] += numbers_[at];
        });
    }

private:
    // f(number of a patch, number of the image, whether there is one or the margin)
    template <class F>
    void each(const F& f) const {
        const auto& s = shape_;
        std::size_t at = 0;
        for (std::size_t r = 0; r < s.rows(); ++r)
            for (std::size_t q = 0; q < s.columns(); ++q)
                for (std::size_t c = 0; c < s.channels; ++c)
                    for (std::size_t i = 0; i < s.kernel; ++i)
                        for (std::size_t j = 0; j < s.kernel; ++j, ++at) {
                            const std::size_t y = r * s.stride + i - s.pad, x = q * s.stride + j - s.pad;
                            f(at, (c * s.height + y) * s.width + x, y < s.height && x < s.width);  // wraps below 0
                        }
    }

    kernels::ConvShape shape_;
    Scratch<R> numbers_;
};

template <class R, class B>
class BackendOf final : public Backend<R> {
    static constexpr bool own = std::is_same_v<B, backend::Simd>;
    template <class X>
    static constexpr bool reads = requires(X x, const R* w, R* y, std::size_t n) { B::affine(x, w, w, y, n, n, n); };
    using ConvShape = kernels::ConvShape;

public:
    bool reads_rows() const override { return reads<const R* const*>; }
    bool reads_bytes() const override { return std::is_same_v<R, float> && reads<kernels::ByteRows>; }
    void affine(const Rows<R>& x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                std::size_t out) const override {
        with(x, [&](auto rows) { B::affine(rows, w, bias, y, batch, in, out); });
    }
    void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                               std::size_t out) const override {
        B::affine_input_gradient(dy, w, dx, batch, in, out);
    }
    void affine_weight_gradient(const R* dy, const Rows<R>& x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                                std::size_t out) const override {
        with(x, [&](auto rows) { B::affine_weight_gradient(dy, rows, dw, dbias, batch, in, out); });
    }
    void affine_update(const R* dy, const Rows<R>& x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                       const kernels::UpdatePulls<R>& pulls, const kernels::UpdateNumbers<R>& numbers) const override {
        with(x, [&](auto rows) { B::affine_update(dy, rows, w, batch, in, out, pulls, numbers); });
    }

    void conv(const R* x, const R* w, const R* bias, R* y, std::size_t batch, const ConvShape& s,
              std::size_t out) const override {
        if constexpr (own) {
            kernels::conv(x, w, bias, y, batch, s, out);
        } else {
            const Patches<R> patches(s);
            const Scratch<R> turned(s.pixels() * out);
            for (std::size_t b = 0; b < batch; ++b, x += s.image(), y += out * s.pixels()) {
                patches.take(x);
                B::affine(static_cast<const R*>(patches.data()), w, bias, turned.data(), s.pixels(), s.taps(), out);
                kernels::turn_matrix(turned.data(), y, s.pixels(), out);
            }
        }
    }
    void conv_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, const ConvShape& s,
                             std::size_t out) const override {
        if constexpr (own) {
            kernels::conv_input_gradient(dy, w, dx, batch, s, out);
        } else {
            const Patches<R> patches(s);
            const Scratch<R> turned(s.pixels() * out);
            for (std::size_t b = 0; b < batch; ++b, dx += s.image(), dy += out * s.pixels()) {
                kernels::turn_matrix(dy, turned.data(), out, s.pixels());
                B::affine_input_gradient(static_cast<const R*>(turned.data()), w, patches.data(), s.pixels(), s.taps(),
                                         out);
                patches.add_up(dx);
            }
        }
    }
    void conv_weight_gradient(const R* dy, const R* x, R* dw, std::size_t batch, const ConvShape& s,
                              std::size_t out) const override {
        if constexpr (own) {
            kernels::conv_weight_gradient(dy, x, dw, batch, s, out);
        } else {
            const Patches<R> patches(s);
            const std::size_t weights = out * s.taps();
            const Scratch<R> turned(s.pixels() * out), one(weights + out);
            std::fill_n(dw, weights + out, R(0));
            for (std::size_t b = 0; b < batch; ++b, x += s.image(), dy += out * s.pixels()) {
                patches.take(x);
                kernels::turn_matrix(dy, turned.data(), out, s.pixels());
                B::affine_weight_gradient(static_cast<const R*>(turned.data()), static_cast<const R*>(patches.data()),
                                          one.data(), one.data() + weights, s.pixels(), s.taps(), out);
                kernels::axpy(R(1), static_cast<const R*>(one.data()), dw, weights + out);
            }
        }
    }

private:
    template <class F>
    static void with(const Rows<R>& x, const F& f) {
        x.visit([&](const auto& rows) {
            if constexpr (reads<std::remove_cvref_t<decltype(rows)>>) f(rows);
        });
    }
};

}  // namespace detail

template <class R, class B = backend::Simd>
const Backend<R>& backend_for() {
    static constexpr detail::BackendOf<R, B> one;
    return one;
}

}  // namespace tessera::nn
