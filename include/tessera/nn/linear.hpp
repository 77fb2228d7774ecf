// SPDX-License-Identifier: BSD-3-Clause
// Fully connected layer: y = W x + b, weights [outputs][inputs] as in torch checkpoints. A sequence goes position by
// position; planes are one vector.
#pragma once

#include <cstddef>
#include <type_traits>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/amx.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

struct Linear {
    std::size_t outputs = 1;
    bool bias = true;

    static constexpr Offers offers = offer::backward_update | offer::factors;

    constexpr void infer(Spec& s) const {
        const std::size_t in = s.in[0].width();
        if (!s.expect(in > 0 && outputs > 0, "nn::Linear: a width is 0; each must be at least 1")) return;
        if (!s.expect(in < most / outputs, "nn::Linear: these are more weights than memory can hold")) return;
        s.parameter({.name = "weight", .shape = {outputs, in, 1, 1}, .rank = 2, .fan_in = in});
        if (bias) s.parameter({.name = "bias", .shape = {outputs, 1, 1, 1}, .rank = 1, .fan_in = in});
        s.out = s.in[0].rank == 2 ? Shape(s.in[0].sizes[0], outputs) : Shape(outputs);
        s.backward_reads = Reads::x;
        s.affine = true;
        s.reads_rows = s.in[0].positions() == 1;
        s.reads_bytes = s.reads_rows && kernels::tiles_pay(outputs);
        s.flops =
            static_cast<double>(s.in[0].positions()) * (2.0 * static_cast<double>(in) * static_cast<double>(outputs) +
                                                        (bias ? static_cast<double>(outputs) : 0.0));
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        p.on->affine(read(p), p.w, bias ? p.weight(1) : nullptr, p.y, rows(p), p.in().width(), outputs);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (p.dw)
            p.on->affine_weight_gradient(p.dy, read(p), p.dw, bias ? p.slope(1) : nullptr, rows(p), p.in().width(),
                                         outputs);
        if (p.dx()) p.on->affine_input_gradient(p.dy, p.w, p.dx(), rows(p), p.in().width(), outputs);
    }
    template <class R>
    void backward_update(const Pass<R>& p, R* w, const Update<R>& u) const {
        if (p.dx()) p.on->affine_input_gradient(p.dy, p.w, p.dx(), rows(p), p.in().width(), outputs);
        if (bias) {
            p.on->affine_update(p.dy, read(p), w, rows(p), p.in().width(), outputs, u.reads, u.numbers);
        } else {
            const Scratch<R> dw(p.spec->parameters);
            p.on->affine_weight_gradient(p.dy, read(p), dw.data(), nullptr, rows(p), p.in().width(), outputs);
            u(w, dw.data(), dw.size());
        }
    }
    template <class R>
    Factors<R> factors(const Pass<R>& p, std::size_t example, R* room) const {
        const std::size_t n = p.in().positions(), in = p.in().width();
        Factors<R> f{n, p.dy + example * n * outputs, nullptr};
        p.rows.visit([&](const auto& x) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(x)>, kernels::ByteRows>) {
                kernels::widen_bytes(x.row(example, in), room, in, x.shift, x.scale);
                f.right = room;
            } else if constexpr (std::is_convertible_v<decltype(x), const R*>) {
                f.right = x + example * n * in;
            } else {
                f.right = x[example];
            }
        });
        return f;
    }

private:
    static constexpr std::size_t most = static_cast<std::size_t>(-1) / 64;

    template <class R>
    static Rows<R> read(const Pass<R>& p) {
        Rows<R> rows = p.rows;
        rows.sequence |= p.in().positions() > 1;
        return rows;
    }
    template <class R>
    static std::size_t rows(const Pass<R>& p) {
        return p.batch * p.in().positions();
    }
};

}  // namespace tessera::nn
