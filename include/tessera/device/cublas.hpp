// SPDX-License-Identifier: BSD-3-Clause
// Single large products on a device, for who keeps his matrices there: device pointers go in and come out, and matrices
// lie row by row as everywhere in this library. The functions and their meaning are those of backend::Simd; nothing
// waits, so the numbers are there after context.finish().
//
// This is no backend of a network: a layer's pointers are the host's, and each call would cross the bus. Whole cohorts
// are trained by exec::Device (device/executor.hpp).
#pragma once

#include <cstddef>

#include <tessera/device/runtime.hpp>
#include <tessera/kernels/dense.hpp>

namespace tessera::backend {

class Cublas {
public:
    explicit Cublas(const device::Context& on) : on_(&on) {}

    // y = x w' + bias; w is [out][in], a null bias is none.
    void affine(const float* x, const float* w, const float* bias, float* y, std::size_t batch, std::size_t in,
                std::size_t out) const {
        on_->product({x, in}, {.at = w, .pitch = in, .turned = true}, y, out, 0, batch, out, in);
        if (bias) device::must(tessera_add(y, bias, batch, out));
    }
    void affine_input_gradient(const float* dy, const float* w, float* dx, std::size_t batch, std::size_t in,
                               std::size_t out) const {
        on_->product({dy, out}, {w, in}, dx, in, 0, batch, in, out);
    }
    // A null dbias is not wanted.
    void affine_weight_gradient(const float* dy, const float* x, float* dw, float* dbias, std::size_t batch,
                                std::size_t in, std::size_t out) const {
        weights(dy, x, dw, batch, in, out, 1, 0);
        if (dbias) biases(dy, dbias, batch, out, 1, 0);
    }
    // Gradient and update of w and the biases behind it. Without momentum the product itself moves w.
    void affine_update(const float* dy, const float* x, float* w, std::size_t batch, std::size_t in, std::size_t out,
                       const kernels::UpdateVectors<float>& reads, const kernels::UpdateNumbers<float>& numbers) const {
        const std::size_t n = out * in + out;
        if (reads.velocity) {
            const device::Array<float> g(n);
            affine_weight_gradient(dy, x, g.data(), g.data() + out * in, batch, in, out);
            return update(w, g.data(), n, reads, numbers);
        }
        if (numbers.decay != 0 || reads.prox_center || reads.linear) update(w, nullptr, n, reads, numbers);
        weights(dy, x, w, batch, in, out, -numbers.rate, 1);
        biases(dy, w + out * in, batch, out, -numbers.rate, 1);
    }

private:
    using Long = device::kernel::Long;

    int tessera_add(float* y, const float* bias, std::size_t batch, std::size_t out) const {
        const auto n = static_cast<Long>(batch * out);
        return device::kernel::tessera_add_bias(n, y, bias, 0, 0, n, static_cast<Long>(out), 1, on_->stream());
    }
    void weights(const float* dy, const float* x, float* to, std::size_t batch, std::size_t in, std::size_t out,
                 float alpha, float beta) const {
        on_->product({.at = dy, .pitch = out, .turned = true}, {x, in}, to, in, 0, out, in, batch, 1, alpha, beta);
    }
    void biases(const float* dy, float* to, std::size_t batch, std::size_t out, float alpha, float beta) const {
        device::must(device::kernel::tessera_bias_sums(static_cast<Long>(out), dy, to, 0, 0, static_cast<Long>(batch),
                                                       static_cast<Long>(out), 1, alpha, beta, on_->stream()));
    }
    void update(float* w, const float* g, std::size_t n, const kernels::UpdateVectors<float>& reads,
                const kernels::UpdateNumbers<float>& u) const {
        const auto all = static_cast<Long>(n);
        device::must(device::kernel::tessera_update(all, w, g, reads.prox_center, reads.linear, reads.velocity, nullptr,
                                                    nullptr, 0, {0, all, all},
                                                    {u.rate, u.decay, u.prox_weight, u.momentum}, on_->stream()));
    }

    const device::Context* on_;
};

}  // namespace tessera::backend
