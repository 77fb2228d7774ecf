// SPDX-License-Identifier: BSD-3-Clause
// What Chain and AnyChain share: the chain with its exits, for widths that are handed in.
//
//   psi = for each hidden layer: W, b, exit W (2 x width), exit b; then the end's W (2 x width), b
//   saved of an example, for each hidden layer: before ReLU, after ReLU, and with dropout the factors and what the
//   exit read
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include <tessera/contracts/gate.hpp>
#include <tessera/core/error.hpp>
#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/dropout.hpp>
#include <tessera/kernels/softmax.hpp>

namespace tessera::gate::detail {

// The examples of a batch where they lie, as the dense kernels read them.
template <class R>
class Inputs {
public:
    explicit Inputs(const Batch<R>& batch)
        : batch_(batch), copy_(in_place() || in_bytes() ? 0 : batch.size() * batch.width()), rows_(batch.size()) {
        for (std::size_t i = 0; !in_bytes() && i < batch.size(); ++i) {
            rows_[i] = in_place() ? batch.row(i) : copy_.data() + i * batch.width();
            if (!in_place()) batch.read(i, Out<R>(copy_.data() + i * batch.width(), batch.width()));
        }
    }
    template <class F>
    void with(F&& f) const {
        if constexpr (std::is_same_v<R, float>)
            if (in_bytes()) {
                const Examples& e = batch_.examples();
                const auto* bytes = static_cast<const std::uint8_t*>(e.rows);
                return f(kernels::ByteRows{bytes, batch_.ids().data(), e.shift, e.scale});
            }
        f(static_cast<const R* const*>(rows_.data()));
    }

private:
    bool in_place() const { return batch_.size() > 0 && batch_.row(0) != nullptr; }
    bool in_bytes() const { return std::is_same_v<R, float> && batch_.examples().storage == Storage::bytes; }

    const Batch<R>& batch_;
    Scratch<R> copy_;
    Scratch<const R*> rows_;
};

struct Exits {
    std::span<const std::size_t> widths;  // of the hidden layers
    double dropout = 0;
    bool relu = false;

    void validate() const {
        tessera::detail::require(dropout >= 0 && dropout < 1,
                                 "dropout must lie in [0, 1), not " + std::to_string(dropout));
    }
    Vec<Segment> segments(const Routes& routes) const {
        if (routes.blocks != widths.size() + 1)  // sentences are made when they are needed: this runs in every visit
            throw ConfigError("a router with " + std::to_string(widths.size()) + " hidden widths serves " +
                              std::to_string(widths.size() + 1) + " blocks, the model has " +
                              std::to_string(routes.blocks) + "; give it one width less than there are blocks");
        Vec<Segment> all;
        std::size_t offset = 0, in = routes.inputs;
        const auto add = [&](const std::string& name, std::size_t from, std::size_t out) {
            if (from == 0 || out == 0) throw ConfigError("every width of a router must be at least 1");
            all.push_back({.name = Name(name + ".weight"), .part = Part::router, .offset = offset,
                           .shape = {out, from, 1, 1}, .rank = 2, .fan_in = from});
            all.push_back({.name = Name(name + ".bias"), .part = Part::router, .offset = offset + out * from,
                           .shape = {out, 1, 1, 1}, .rank = 1, .fan_in = from});
            offset += out * from + out;
        };
        for (std::size_t i = 0; i < widths.size(); ++i) {
            add("router." + std::to_string(i), in, widths[i]);
            add("exit." + std::to_string(i), widths[i], 2);
            in = widths[i];
        }
        add("router." + std::to_string(widths.size()), in, 2);
        return all;
    }
    std::size_t saved() const {
        std::size_t sum = 0;
        for (const auto w : widths) sum += w * per_unit();
        return sum;
    }
    double flops(const Routes& routes) const {
        double sum = 0;
        std::size_t in = routes.inputs;
        const auto add = [&](std::size_t out) { sum += static_cast<double>(2 * in * out + out); };
        for (const auto w : widths) {
            add(w);
            in = w;
            add(2);
        }
        add(2);
        return sum;
    }

    template <class R>
    void forward(const Routes& routes, In<R> psi, const Batch<R>& batch, Out<R> q0, Out<R> saved) const {
        const std::size_t n = batch.size();
        const Inputs<R> input(batch);
        const Scratch<R> z(2 * n);
        Layer<R> at(*this, routes, psi.data(), saved.data(), n);
        const R* below = nullptr;
        const auto affine = [&](const R* w, std::size_t out, R* y) {
            const auto run = [&](auto x) { kernels::affine(x, w, w + out * at.in, y, n, at.in, out); };
            if (below) run(below);
            else input.with(run);
        };
        for (std::size_t i = 0; i < widths.size(); ++i, at.next()) {
            const std::size_t count = n * at.out;
            affine(at.w, at.out, at.pre);
            kernels::leaky_relu(at.pre, at.act, count, R(0));
            const R* read = relu ? at.act : at.pre;
            if (dropout > 0 && batch.training()) {
                kernels::fill_dropout(batch.draw()(meaning)(i), dropout, Out<R>(at.factor, count));
                for (std::size_t k = 0; k < count; ++k) at.exit_in[k] = read[k] * at.factor[k];
                read = at.exit_in;
            }
            kernels::affine(read, at.exit, at.exit + 2 * at.out, z.data(), n, at.out, std::size_t{2});
            softmax(z.data(), q0, routes.blocks, i);
            below = at.act;
        }
        affine(at.w, 2, z.data());
        softmax(z.data(), q0, routes.blocks, widths.size());
    }

    template <class R>
    void backward(const Routes& routes, In<R> psi, const Batch<R>& batch, In<R> q0, In<R> saved, In<R> dq0,
                  Out<R> dpsi) const {
        const std::size_t n = batch.size(), most = widest();
        const Inputs<R> input(batch);
        const Scratch<R> dz(2 * n), d_pre(n * most), d_act(n * most), d_exit(n * most);
        Layer<const R> at(*this, routes, psi.data(), saved.data(), n);
        for (std::size_t i = 0; i < widths.size(); ++i) at.next();
        const auto weights = [&](const R* dy, std::size_t out) {
            R* dw = dpsi.data() + (at.w - psi.data());
            const auto run = [&](auto x) {
                kernels::affine_weight_gradient(dy, x, dw, dw + out * at.in, n, at.in, out);
            };
            if (at.index > 0) run(at.below());
            else input.with(run);
        };
        logits(q0, dq0, routes.blocks, widths.size(), dz.data());
        weights(dz.data(), 2);
        if (at.index > 0) kernels::affine_input_gradient(dz.data(), at.w, d_act.data(), n, at.in, std::size_t{2});
        for (std::size_t i = widths.size(); i-- > 0;) {
            at.previous();
            const std::size_t count = n * at.out;
            const bool drops = dropout > 0 && batch.training();
            logits(q0, dq0, routes.blocks, i, dz.data());
            R* d_end = dpsi.data() + (at.exit - psi.data());
            const R* read = drops ? at.exit_in : relu ? at.act : at.pre;
            kernels::affine_weight_gradient(dz.data(), read, d_end, d_end + 2 * at.out, n, at.out, std::size_t{2});
            kernels::affine_input_gradient(dz.data(), at.exit, d_exit.data(), n, at.out, std::size_t{2});
            for (std::size_t k = 0; drops && k < count; ++k) d_exit[k] *= at.factor[k];
            kernels::leaky_relu_gradient(at.pre, d_act.data(), d_pre.data(), count, R(0));
            for (std::size_t k = 0; k < count; ++k)
                if (!relu || at.pre[k] > 0) d_pre[k] += d_exit[k];
            weights(d_pre.data(), at.out);
            if (i > 0) kernels::affine_input_gradient(d_pre.data(), at.w, d_act.data(), n, at.in, at.out);
        }
    }

private:
    static constexpr std::uint64_t meaning = 0x67617465;  // draws that no layer of the model makes

    std::size_t per_unit() const { return dropout > 0 ? 4 : 2; }
    std::size_t widest() const {
        std::size_t w = 1;
        for (const auto each : widths) w = each > w ? each : w;
        return w;
    }
    // z0, z1 of each example to q0 = exp(z0) / (exp(z0) + exp(z1)), and back: dz0 = dq0 q0 (1 - q0) = -dz1.
    template <class R>
    static void softmax(const R* z, Out<R> q0, std::size_t blocks, std::size_t j) {
        for (std::size_t i = 0; i * blocks < q0.size(); ++i)
            q0[i * blocks + j] = 1 / (1 + std::exp(z[2 * i + 1] - z[2 * i]));
    }
    template <class R>
    static void logits(In<R> q0, In<R> dq0, std::size_t blocks, std::size_t j, R* dz) {
        for (std::size_t i = 0; i * blocks < q0.size(); ++i) {
            const R q = q0[i * blocks + j];
            dz[2 * i] = dq0[i * blocks + j] * q * (1 - q);
            dz[2 * i + 1] = -dz[2 * i];
        }
    }

    // A hidden layer's parameters and saved numbers; behind the last one, the end's.
    template <class N>  // R, or const R on the way back
    struct Layer {
        using R = std::remove_const_t<N>;
        const Exits& chain;
        std::size_t n, index = 0, inputs, in, out;
        const R *w, *exit;
        N *pre, *act, *factor, *exit_in;

        Layer(const Exits& exits, const Routes& routes, const R* psi, N* saved, std::size_t batch)
            : chain(exits), n(batch), inputs(routes.inputs), in(inputs), out(width()), w(psi) {
            place(saved);
        }
        void next() {
            const R* after = exit + 2 * out + 2;
            N* room = pre + n * out * chain.per_unit();
            ++index;
            in = out;
            out = width();
            w = after;
            place(room);
        }
        void previous() {
            --index;
            out = width();
            in = index > 0 ? chain.widths[index - 1] : inputs;
            w -= out * in + out + 2 * out + 2;
            place(pre - n * out * chain.per_unit());
        }
        const R* below() const {  // what the layer reads: the one before it, after its ReLU
            const std::size_t before = chain.widths[index - 1];
            return pre - n * before * chain.per_unit() + n * before;
        }

    private:
        std::size_t width() const { return index < chain.widths.size() ? chain.widths[index] : 2; }
        void place(N* saved) {
            exit = w + out * in + out;
            pre = saved;
            act = pre + n * out;
            factor = act + n * out;
            exit_in = factor + n * out;
        }
    };
};

}  // namespace tessera::gate::detail
