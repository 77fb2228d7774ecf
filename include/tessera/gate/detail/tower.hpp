// SPDX-License-Identifier: BSD-3-Clause
// Linear layers with ReLU and dropout behind each, and exits to two numbers behind the last of them: what routers are
// made of that are asked on the way. Rows come question by question; one visit at the end makes the weight gradients.
//
//   psi = for each hidden layer: W, b; then for each exit: W (2 x width), b
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tessera/contracts/gate.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/dropout.hpp>

namespace tessera::gate::detail {

struct TowerShape {
    std::size_t inputs = 0, hidden = 0, exits = 0;
    std::array<std::size_t, 4> widths{};  // of the hidden layers
    double dropout = 0;
    bool bent = false;  // ReLU behind the exits

    std::size_t in(std::size_t i) const { return i == 0 ? inputs : widths[i - 1]; }
    // Which hidden layer an exit reads: the last one the last, and so on.
    std::size_t read_by(std::size_t exit) const { return hidden - exits + exit; }
    std::size_t widest() const { return *std::max_element(widths.begin(), widths.end()); }

    // f(name, inputs, outputs, where its parameters begin) for each layer and then each exit
    template <class F>
    void each_layer(const F& f) const {
        std::size_t at = 0;
        const auto layer = [&](const std::string& name, std::size_t from, std::size_t to) {
            f(name, from, to, at);
            at += to * from + to;
        };
        for (std::size_t i = 0; i < hidden; ++i) layer(std::to_string(i), in(i), widths[i]);
        for (std::size_t e = 0; e < exits; ++e) layer("exit." + std::to_string(e), widths[read_by(e)], 2);
    }
    std::size_t parameters() const {
        std::size_t sum = 0;
        for (std::size_t i = 0; i < hidden; ++i) sum += (in(i) + 1) * widths[i];
        for (std::size_t e = 0; e < exits; ++e) sum += (widths[read_by(e)] + 1) * 2;
        return sum;
    }
    void add_segments(std::string_view prefix, Vec<Segment>& to) const {
        const std::size_t offset = to.empty() ? 0 : to.back().end();
        each_layer([&](const std::string& name, std::size_t from, std::size_t out, std::size_t at) {
            const auto full = [&](std::string_view end) {  // no strings: every visit asks for its segments
                Name all(prefix);
                all.append("."), all.append(name), all.append(end);
                return all;
            };
            to.push_back({.name = full(".weight"), .part = Part::router, .offset = offset + at,
                          .shape = {out, from, 1, 1}, .rank = 2, .fan_in = from});
            to.push_back({.name = full(".bias"), .part = Part::router, .offset = offset + at + out * from,
                          .shape = {out, 1, 1, 1}, .rank = 1, .fan_in = from});
        });
    }
};

template <class R>
class Tower {
public:
    // Rows of a batch for each of `questions`. Kept, they need not be computed again on the way back, and can have
    // weight gradients.
    Tower(const TowerShape& shape, const R* psi, R* dpsi, std::size_t questions, std::size_t batch, bool training,
          Key draw, bool keeps)
        : s_(shape), psi_(psi), dpsi_(dpsi), batch_(batch), training_(training), keeps_(keeps), draw_(draw),
          rows_(questions * batch), room_(room(keeps ? questions : std::min<std::size_t>(questions, 1))),
          z_(rows_ * 2 * s_.exits), dz_(rows_ * 2 * s_.exits) {}

    // Where the rows of a question are written before forward(question).
    R* inputs(std::size_t question) { return x(0) + first_row(question) * s_.inputs; }
    void forward(std::size_t question) {
        const std::size_t at = first_row(question);
        const R* w = psi_;
        for (std::size_t i = 0; i < s_.hidden; ++i) {
            const std::size_t in = s_.in(i), out = s_.widths[i], n = batch_ * out;
            R* y = x(i + 1) + at * out;
            kernels::affine(static_cast<const R*>(x(i) + at * in), w, w + out * in, y, batch_, in, out);
            w += out * in + out;
            for (std::size_t k = 0; k < n; ++k) y[k] = y[k] > 0 ? y[k] : R(0);
            if (!drops()) continue;
            const Scratch<R> factor(n);
            kernels::fill_dropout(draw_(question)(i), s_.dropout, Out<R>(factor.data(), n));
            for (std::size_t k = 0; k < n; ++k) y[k] *= factor[k];
        }
        for (std::size_t e = 0; e < s_.exits; ++e) {
            const std::size_t i = s_.read_by(e), in = s_.widths[i];
            kernels::affine(static_cast<const R*>(x(i + 1) + at * in), w, w + 2 * in, z(e, question), batch_, in,
                            std::size_t{2});
            w += 2 * in + 2;
        }
    }
    // q0 = exp(z0) / (exp(z0) + exp(z1))
    void shares(std::size_t exit, std::size_t question, Out<R> q0) {
        const R* from = z(exit, question);
        for (std::size_t i = 0; i < batch_; ++i) q0[i] = 1 / (1 + std::exp(bent(from[2 * i + 1]) - bent(from[2 * i])));
    }
    void answer(std::size_t exit, std::size_t question, In<R> dq0) {
        const Scratch<R> q0(batch_);
        shares(exit, question, Out<R>(q0.data(), batch_));
        const R* from = z(exit, question);
        R* to = dz_.data() + (exit * rows_ + question * batch_) * 2;
        for (std::size_t i = 0; i < batch_; ++i) {
            const R d = dq0[i] * q0[i] * (1 - q0[i]);
            to[2 * i] = s_.bent && from[2 * i] <= 0 ? R(0) : d;
            to[2 * i + 1] = s_.bent && from[2 * i + 1] <= 0 ? R(0) : -d;
        }
    }
    // After the answers of all exits; dx has a row for each example. Rows that were not kept are computed again from
    // inputs(question).
    void backward(std::size_t question, R* dx) {
        if (!keeps_) forward(question);
        const std::size_t at = first_row(question), most = s_.widest();
        const Scratch<R> one(batch_ * most), other(batch_ * most);
        R *d = one.data(), *below = other.data();
        std::size_t exit = s_.exits;
        for (std::size_t i = s_.hidden; i-- > 0;) {
            const std::size_t in = s_.in(i), out = s_.widths[i], n = batch_ * out;
            if (exit > 0 && s_.read_by(exit - 1) == i) {
                --exit;
                R* to = i + 1 == s_.hidden ? d : below;
                kernels::affine_input_gradient(
                    static_cast<const R*>(dz_.data() + (exit * rows_ + question * batch_) * 2), psi_ + exit_at(exit),
                    to, batch_, out, std::size_t{2});
                for (std::size_t k = 0; to == below && k < n; ++k) d[k] += below[k];
            }
            const R *y = x(i + 1) + at * out, scale = drops() ? R(1 / (1 - s_.dropout)) : R(1);
            R* dy = keeps_ && dpsi_ ? slope(i) + at * out : d;
            for (std::size_t k = 0; k < n; ++k) dy[k] = y[k] > 0 ? d[k] * scale : R(0);
            kernels::affine_input_gradient(static_cast<const R*>(dy), psi_ + layer_at(i), i == 0 ? dx : below, batch_,
                                           in, out);
            std::swap(d, below);
        }
    }
    // After all questions have been answered.
    void weights() {
        if (!dpsi_) return;
        for (std::size_t i = 0; i < s_.hidden; ++i) {
            const std::size_t in = s_.in(i), out = s_.widths[i];
            R* dw = dpsi_ + layer_at(i);
            kernels::affine_weight_gradient(static_cast<const R*>(slope(i)), static_cast<const R*>(x(i)), dw,
                                            dw + out * in, rows_, in, out);
        }
        for (std::size_t e = 0; e < s_.exits; ++e) {
            const std::size_t i = s_.read_by(e), in = s_.widths[i];
            R* dw = dpsi_ + exit_at(e);
            kernels::affine_weight_gradient(static_cast<const R*>(dz_.data() + e * rows_ * 2),
                                            static_cast<const R*>(x(i + 1)), dw, dw + 2 * in, rows_, in,
                                            std::size_t{2});
        }
    }

private:
    bool drops() const { return s_.dropout > 0 && training_; }
    R bent(R v) const { return s_.bent && v < 0 ? R(0) : v; }
    std::size_t first_row(std::size_t question) const { return keeps_ ? question * batch_ : 0; }
    std::size_t stored() const { return keeps_ ? rows_ : batch_; }
    // Numbers of all inputs, outputs of hidden layers and, where weights are wanted, slopes before their ReLU.
    std::size_t room(std::size_t questions) const {
        std::size_t each = s_.inputs;
        for (std::size_t i = 0; i < s_.hidden; ++i) each += s_.widths[i] * (dpsi_ ? 2 : 1);
        return each * questions * batch_;
    }
    // What hidden layer i reads.
    R* x(std::size_t i) const {
        std::size_t before = 0;
        for (std::size_t k = 0; k < i; ++k) before += s_.in(k);
        return room_.data() + before * stored();
    }
    R* slope(std::size_t i) const {
        std::size_t before = 0;
        for (std::size_t k = 0; k < i; ++k) before += s_.widths[k];
        return x(s_.hidden) + (s_.in(s_.hidden) + before) * stored();
    }
    R* z(std::size_t exit, std::size_t question) const { return z_.data() + (exit * rows_ + question * batch_) * 2; }
    std::size_t layer_at(std::size_t i) const {
        std::size_t sum = 0;
        for (std::size_t k = 0; k < i; ++k) sum += (s_.in(k) + 1) * s_.widths[k];
        return sum;
    }
    std::size_t exit_at(std::size_t exit) const {
        std::size_t sum = layer_at(s_.hidden);
        for (std::size_t e = 0; e < exit; ++e) sum += (s_.widths[s_.read_by(e)] + 1) * 2;
        return sum;
    }

    TowerShape s_;
    const R* psi_;
    R* dpsi_;
    std::size_t batch_;
    bool training_, keeps_;
    Key draw_;
    std::size_t rows_;
    Scratch<R> room_, z_, dz_;
};

}  // namespace tessera::gate::detail
