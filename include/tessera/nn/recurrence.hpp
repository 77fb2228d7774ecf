// SPDX-License-Identifier: BSD-3-Clause
// The recurrence joint: layers that are used at every position of a sequence and read what the position before left.
//
//   recurrence(LstmCore{hidden}, Linear{4 * hidden})      an LSTM (recurrent.hpp has a faster form of that one)
//
//   g_t = layers(x_t, h_(t-1))    state_t = core(g_t, state_(t-1))    h_t: what of state_t is put out and read again
//
// T visits move data, and one visit over T x batch rows makes the weight gradients, so every pass that knows layers
// knows a recurrence: it is fused, clipped (the norms have their terms between steps), masked and frozen. Routed as a
// block of its own it is mixed at every position (Flow, Panchal et al., NeurIPS 2023):
//
//   both branches advance, each from its own state, on the same input; the gate sees (x_t, state_g, state_l);
//   h = q0 h_g + (1 - q0) h_l is put out, and the mixed state replaces that of the global branch alone.
//
// A core is a struct without parameters:
//
//   constexpr std::size_t gates() const, state() const, shown() const     numbers it reads, keeps, and of these shows
//   void forward(const R* g, const R* before, R* after) const             shown ones come first in a state
//   void backward(const R* g, const R* before, const R* after, const R* dafter, R* dg, R* dbefore) const
//
// Layers keep examples apart. Dropout among them drops the same numbers at every position.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include <tessera/contracts/routable.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/kernels/recurrent.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/joint.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

// Gates are those of torch, input, forget, cell, output, and the state is (h, c):
//   c' = sigmoid(f) c + sigmoid(i) tanh(g)     h' = sigmoid(o) tanh(c')
struct LstmCore {
    std::size_t hidden = 1;

    constexpr std::size_t gates() const { return 4 * hidden; }
    constexpr std::size_t state() const { return 2 * hidden; }
    constexpr std::size_t shown() const { return hidden; }
    template <class R>
    void forward(const R* g, const R* before, R* after) const {
        const Scratch<R> gates(4 * hidden);
        std::copy_n(g, gates.size(), gates.data());
        kernels::lstm_step(gates.data(), nullptr, before + hidden, after + hidden, after, alone<R>());
    }
    template <class R>
    void backward(const R* g, const R* before, const R* after, const R* dafter, R* dg, R* dbefore) const {
        const Scratch<R> gates(4 * hidden), again(2 * hidden);
        std::copy_n(g, gates.size(), gates.data());
        kernels::lstm_step(gates.data(), nullptr, before + hidden, again.data(), again.data() + hidden, alone<R>());
        std::fill_n(dbefore, hidden, R(0));
        std::copy_n(dafter + hidden, hidden, dbefore + hidden);
        kernels::lstm_step_back(static_cast<const R*>(gates.data()), before + hidden, after + hidden, dafter, nullptr,
                                dbefore + hidden, dg, alone<R>());
    }

private:
    template <class R>
    kernels::LstmStep<R> alone() const {
        return {.rows = 1, .hidden = hidden, .gates_apart = 4 * hidden, .apart = hidden};
    }
};

// h' = tanh(g) (Elman 1990).
struct TanhCore {
    std::size_t hidden = 1;

    constexpr std::size_t gates() const { return hidden; }
    constexpr std::size_t state() const { return hidden; }
    constexpr std::size_t shown() const { return hidden; }
    template <class R>
    void forward(const R* g, const R*, R* after) const {
        for (std::size_t j = 0; j < hidden; ++j) after[j] = std::tanh(g[j]);
    }
    template <class R>
    void backward(const R*, const R*, const R* after, const R* dafter, R* dg, R* dbefore) const {
        for (std::size_t j = 0; j < hidden; ++j) {
            dg[j] = dafter[j] * (1 - after[j] * after[j]);
            dbefore[j] = 0;
        }
    }
};

template <class Core, class... Ls>
struct Recurrence {
    static_assert(sizeof...(Ls) > 0, "tessera::nn::recurrence: a core needs layers in front of it");
    static_assert((check_layer<Ls, float>() && ...));
    Core core;
    std::tuple<Ls...> layers;

    static constexpr Offers offers = offer::mixes;

    constexpr void infer(Spec& s) const {
        if (!s.expect(s.in[0].rank == 2,
                      "nn::recurrence: it reads a sequence; say the shape of the input as positions, width") ||
            !s.expect(core.shown() > 0 && core.shown() <= core.state(), "nn::recurrence: the core keeps no state"))
            return;
        const std::size_t steps = s.in[0].positions();
        const Specs inner = specs(s);
        std::size_t room = 2 * core.state() + 1 + s.in[0].width() + core.shown();
        for (std::size_t k = 0; k < count; ++k) {
            if (!s.expect(inner[k].apart && inner[k].batch_saved == 0 && inner[k].buffers == 0,
                          "nn::recurrence: a layer of a cell lets examples meet, and time steps are no examples"))
                return;
            for (std::size_t i = 0; i < inner[k].parts; ++i) {
                Segment part = inner[k].segments[i];
                constexpr std::string_view digits = "0123456789";
                Name name(digits.substr(k, 1));
                name.append(".");
                name.append(part.name.view());
                part.name = name;
                s.parameter(part);
            }
            room += inner[k].out.size() + inner[k].saved;
            s.flops += inner[k].flops * static_cast<double>(steps);
        }
        if (!s.expect(inner[count - 1].out.size() == core.gates(),
                      "nn::recurrence: the last layer puts out other numbers than the core reads"))
            return;
        s.out = Shape(steps, core.shown());
        s.save(steps * room);
        s.backward_reads = Reads::x;
        s.asks = steps;
        s.holds = core.state();
        s.flops += static_cast<double>(steps * core.gates() * 2);
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const Run<R> run(*this, p);
        for (std::size_t t = 0; t < run.steps; ++t) {
            if (t > 0) std::copy_n(run.after(t - 1), run.batch * core.state(), run.before(t));
            else std::fill_n(run.before(0), run.batch * core.state(), R(0));
            run.advance(t);
            run.put_out(t, run.after(t), p.y);
        }
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const Run<R> run(*this, p);
        const Slopes<R> slopes(run);
        const std::size_t n = core.state();
        const Scratch<R> d(run.batch * n);  // in the state after a step
        std::fill_n(d.data(), d.size(), R(0));
        for (std::size_t t = run.steps; t-- > 0;) {
            run.add_slope(t, p.dy, d.data());
            slopes.back(t, d.data());
        }
        slopes.weights();
    }

    // As a block of routing: y is what is put out, g and l are the branches, `first` the number of the first question.
    template <class R>
    void mix_forward(const Pass<R>& g, const Pass<R>& l, R* y, Routing<R>& routing, std::size_t first) const {
        const Run<R> global(*this, g), local(*this, l);
        const std::size_t n = core.state(), batch = global.batch;
        const Scratch<R> seen(batch * global.seen());
        for (std::size_t t = 0; t < global.steps; ++t) {
            if (t == 0) std::fill_n(global.before(0), batch * n, R(0));
            if (t == 0) std::fill_n(local.before(0), batch * n, R(0));
            else std::copy_n(local.after(t - 1), batch * n, local.before(t));
            global.advance(t);
            local.advance(t);
            show(t, global, local, seen.data());
            routing.ask(first + t, In<R>(seen.data(), seen.size()), Out<R>(global.q0(t), batch));
            // what the global branch goes on from; the last one only for what is put out
            const Scratch<R> last(t + 1 == global.steps ? batch * n : 0);
            R* mixed = t + 1 < global.steps ? global.before(t + 1) : last.data();
            detail::mix_rows<R>(global.after(t), local.after(t), global.q0(t), mixed, batch, n);
            global.put_out(t, mixed, y);
            local.put_out(t, local.after(t), l.y);
        }
    }
    // dy is in what was put out; l.dy in the local branch's own outputs, where somebody read them.
    template <class R>
    void mix_backward(const Pass<R>& g, const Pass<R>& l, const R* dy, Routing<R>& routing, std::size_t first) const {
        const Run<R> global(*this, g), local(*this, l);
        const Slopes<R> of_global(global), of_local(local);
        const std::size_t n = core.state(), batch = global.batch, in = g.in().width(), width = global.seen();
        const Scratch<R> mixed(batch * n), own(batch * n), seen(batch * width), dseen(batch * width), dq0(batch);
        std::fill_n(mixed.data(), mixed.size(), R(0));
        std::fill_n(own.data(), own.size(), R(0));
        std::fill_n(dseen.data(), dseen.size(), R(0));
        for (std::size_t t = global.steps; t-- > 0;) {
            global.add_slope(t, dy, mixed.data());
            if (l.dy) local.add_slope(t, l.dy, own.data());
            if (routing.wants_gradient()) {
                for (std::size_t b = 0; b < batch; ++b) {
                    double sum = 0;
                    for (std::size_t j = b * n; j < (b + 1) * n; ++j)
                        sum += static_cast<double>(mixed[j]) *
                               (static_cast<double>(global.after(t)[j]) - static_cast<double>(local.after(t)[j]));
                    dq0[b] = static_cast<R>(sum);
                }
                show(t, global, local, seen.data());
                std::fill_n(dseen.data(), dseen.size(), R(0));
                routing.answer(first + t, In<R>(seen.data(), seen.size()), In<R>(dq0.data(), batch),
                               Out<R>(dseen.data(), dseen.size()));
            }
            for (std::size_t b = 0; b < batch; ++b) {
                const R q = global.q0(t)[b], *more = dseen.data() + b * width + in;
                for (std::size_t j = 0; j < n; ++j) {
                    const R d = mixed[b * n + j];
                    own[b * n + j] += (1 - q) * d + more[n + j];
                    mixed[b * n + j] = q * d + more[j];
                }
            }
            of_global.back(t, mixed.data());
            of_local.back(t, own.data());
            for (std::size_t b = 0; g.dx() && b < batch; ++b)
                for (std::size_t j = 0; j < in; ++j)
                    g.dx()[(b * global.steps + t) * in + j] += dseen[b * width + j];
        }
        of_global.weights();
        of_local.weights();
    }

private:
    static constexpr std::size_t count = sizeof...(Ls);
    static_assert(count <= 10, "tessera::nn::recurrence: a cell has at most 10 layers");
    using Specs = std::array<Spec, count>;

    // f(layer, its number) for each layer, in order or in reverse
    template <class F>
    constexpr void each(const F& f) const {
        std::apply([&](const auto&... layer) {
            std::size_t k = 0;
            (f(layer, k++), ...);
        }, layers);
    }
    template <class F>
    void each_back(const F& f) const {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (f(std::get<count - 1 - I>(layers), count - 1 - I), ...);
        }(std::make_index_sequence<count>());
    }
    constexpr Specs specs(const Spec& outer) const {
        Specs all;
        Shape in(outer.in[0].width() + core.shown());
        each([&](const auto& layer, std::size_t k) {
            all[k].in[0] = in;
            all[k].path = outer.path;
            all[k].path.enter(k);
            all[k].misfit = outer.misfit;
            layer.infer(all[k]);
            in = all[k].out;
        });
        return all;
    }

    // Where the numbers of a branch lie. Each kind has a row for every step and example, steps first.
    template <class R>
    struct Run {
        const Recurrence& self;
        const Pass<R>& p;
        Specs inner;
        std::size_t steps, batch;
        std::array<std::size_t, count> first{};      // of the parameters of a layer
        std::array<std::size_t, count + 1> value{};  // before the layer of that number, and behind the last
        std::array<std::size_t, count> saved{};
        std::size_t states;

        Run(const Recurrence& recurrence, const Pass<R>& pass)
            : self(recurrence), p(pass), inner(self.specs(*p.spec)), steps(p.in().positions()), batch(p.batch) {
            std::size_t w = 0, place = 0;
            for (std::size_t k = 0; k < count; ++k) {
                first[k] = std::exchange(w, w + inner[k].parameters);
                value[k] = std::exchange(place, place + inner[k].in[0].size());
                saved[k] = std::exchange(place, place + inner[k].saved);
            }
            value[count] = std::exchange(place, place + self.core.gates());
            states = place;
        }
        std::size_t seen() const { return p.in().width() + 2 * self.core.state(); }
        R* at(std::size_t place, std::size_t width, std::size_t t) const {
            return p.saved_base + p.saved_rows * steps * place + (t * p.saved_rows + p.example) * width;
        }
        R* rows(std::size_t k, std::size_t t) const {
            return at(value[k], k < count ? inner[k].in[0].size() : self.core.gates(), t);
        }
        R* before(std::size_t t) const { return at(states, self.core.state(), t); }
        R* after(std::size_t t) const { return at(states + self.core.state(), self.core.state(), t); }
        R* q0(std::size_t t) const { return at(states + 2 * self.core.state(), 1, t); }

        // Layer k over the rows of step t.
        Pass<R> pass(std::size_t k, std::size_t t) const {
            Pass<R> q;
            q.spec = &inner[k];
            q.on = p.on;
            q.batch = batch;
            q.training = p.training;
            q.key = p.key;
            q.w = p.w + first[k];
            q.xs[0] = q.rows.matrix = rows(k, t);
            q.y = rows(k + 1, t);
            q.saved_base = p.saved_base + p.saved_rows * steps * saved[k];
            q.saved_rows = steps * p.saved_rows;
            q.example = t * p.saved_rows + p.example;
            return q;
        }
        void advance(std::size_t t) const {
            const std::size_t in = p.in().width(), shown = self.core.shown(), n = self.core.state();
            for (std::size_t b = 0; b < batch; ++b) {
                R* to = rows(0, t) + b * (in + shown);
                std::copy_n(p.x() + (b * steps + t) * in, in, to);
                std::copy_n(before(t) + b * n, shown, to + in);
            }
            self.each([&](const auto& layer, std::size_t k) { layer.forward(pass(k, t)); });
            for (std::size_t b = 0; b < batch; ++b)
                self.core.forward(static_cast<const R*>(rows(count, t) + b * self.core.gates()),
                                  static_cast<const R*>(before(t) + b * n), after(t) + b * n);
        }
        void put_out(std::size_t t, const R* state, R* y) const {
            for (std::size_t b = 0; b < batch; ++b)
                std::copy_n(state + b * self.core.state(), self.core.shown(), y + (b * steps + t) * self.core.shown());
        }
        void add_slope(std::size_t t, const R* dy, R* dstate) const {
            const std::size_t shown = self.core.shown();
            for (std::size_t b = 0; b < batch; ++b)
                for (std::size_t j = 0; j < shown; ++j)
                    dstate[b * self.core.state() + j] += dy[(b * steps + t) * shown + j];
        }
    };

    // The way back of a branch: slopes of all steps, for the one visit of the weights.
    template <class R>
    struct Slopes {
        const Run<R>& run;
        std::array<std::size_t, count + 1> place{};
        Scratch<R> room;

        explicit Slopes(const Run<R>& r) : run(r), room(r.steps * r.batch * placed(r, place)) {}

        R* rows(std::size_t k, std::size_t t) const {
            const std::size_t width = k < count ? run.inner[k].in[0].size() : run.self.core.gates();
            return room.data() + run.steps * run.batch * place[k] + t * run.batch * width;
        }
        // d enters as the slope in the states after step t and leaves as that in those before; dx of the step is
        // written.
        void back(std::size_t t, R* d) const {
            const std::size_t n = run.self.core.state(), shown = run.self.core.shown(), in = run.p.in().width();
            const Scratch<R> before(n);
            for (std::size_t b = 0; b < run.batch; ++b) {
                run.self.core.backward(static_cast<const R*>(run.rows(count, t) + b * run.self.core.gates()),
                                       static_cast<const R*>(run.before(t) + b * n),
                                       static_cast<const R*>(run.after(t) + b * n), static_cast<const R*>(d + b * n),
                                       rows(count, t) + b * run.self.core.gates(), before.data());
                std::copy_n(before.data(), n, d + b * n);
            }
            run.self.each_back([&](const auto& layer, std::size_t k) {
                Pass<R> p = run.pass(k, t);
                p.dy = rows(k + 1, t);
                p.dxs[0] = rows(k, t);
                layer.backward(p);
            });
            for (std::size_t b = 0; b < run.batch; ++b) {
                const R* from = rows(0, t) + b * (in + shown);
                for (std::size_t j = 0; j < shown; ++j) d[b * n + j] += from[in + j];
                if (run.p.dx()) std::copy_n(from, in, run.p.dx() + (b * run.steps + t) * in);
            }
        }
        // One visit over the rows of all steps. Those of a part of a batch are brought together first.
        void weights() const {
            if (!run.p.dw) return;
            const std::size_t all = run.steps * run.batch;
            run.self.each([&](const auto& layer, std::size_t k) {
                const Spec& s = run.inner[k];
                if (s.parameters == 0) return;
                Pass<R> p = run.pass(k, 0);
                const bool apart = run.batch != run.p.saved_rows;
                const Scratch<R> x(apart ? all * s.in[0].size() : 0), y(apart ? all * s.out.size() : 0),
                    saved(apart ? all * s.saved : 0);
                if (apart) {
                    std::size_t to = 0;
                    for (std::size_t t = 0; t < run.steps; ++t) {
                        std::copy_n(run.rows(k, t), run.batch * s.in[0].size(),
                                    x.data() + t * run.batch * s.in[0].size());
                        std::copy_n(run.rows(k + 1, t), run.batch * s.out.size(),
                                    y.data() + t * run.batch * s.out.size());
                    }
                    for (std::size_t i = 0; i < s.saved_kinds; ++i)
                        for (std::size_t t = 0; t < run.steps; ++t, to += run.batch * s.saved_sizes[i])
                            std::copy_n(run.pass(k, t).saved(i), run.batch * s.saved_sizes[i], saved.data() + to);
                    p.xs[0] = p.rows.matrix = x.data();
                    p.y = y.data();
                    p.saved_base = saved.data();
                    p.saved_rows = all;
                    p.example = 0;
                }
                p.batch = all;
                p.rows.sequence = true;
                p.dy = rows(k + 1, 0);
                p.dw = run.p.dw + run.first[k];
                layer.backward(p);
            });
        }

    private:
        static std::size_t placed(const Run<R>& r, std::array<std::size_t, count + 1>& to) {
            std::size_t sum = 0;
            for (std::size_t k = 0; k < count; ++k) to[k] = std::exchange(sum, sum + r.inner[k].in[0].size());
            to[count] = std::exchange(sum, sum + r.self.core.gates());
            return sum;
        }
    };

    template <class R>
    static void show(std::size_t t, const Run<R>& global, const Run<R>& local, R* seen) {
        const std::size_t in = global.p.in().width(), n = global.self.core.state();
        for (std::size_t b = 0; b < global.batch; ++b) {
            R* to = seen + b * global.seen();
            std::copy_n(global.p.x() + (b * global.steps + t) * in, in, to);
            std::copy_n(global.after(t) + b * n, n, to + in);
            std::copy_n(local.after(t) + b * n, n, to + in + n);
        }
    }
};
template <class Core, class... Ls>
constexpr Recurrence<Core, Ls...> recurrence(Core core, Ls... layers) {
    return {std::move(core), {std::move(layers)...}};
}

}  // namespace tessera::nn
