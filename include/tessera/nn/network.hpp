// SPDX-License-Identifier: BSD-3-Clause
// A model made of layers and a loss. The first layer with parameters is the input part, the last one the
// head, everything between keeps the part its layer names (body unless it is a norm or an adapter).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <tessera/contracts/routable.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/ghost.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/loss.hpp>
#include <tessera/nn/routing.hpp>
#include <tessera/nn/sequential.hpp>

namespace tessera::nn {

template <class R, std::size_t Inputs, class Layers, class Loss = SoftmaxCrossEntropy>
class Network {
    static_assert(Layer<Layers, R>,
                  "tessera::nn::Network: the second argument must be a layer, such as Sequential<...>");
    static_assert(Layers::width(Inputs) > 0, "tessera::nn::Network: the widths of neighbouring layers do not fit");

public:
    using Real = R;
    static constexpr std::size_t inputs = Inputs;
    static constexpr auto segments = [] {
        auto all = Layers::segments;
        // A layer's segments share the prefix of their name up to the last dot.
        const auto owner = [](const Segment& s) {
            const auto name = s.name.view();
            const auto dot = name.rfind('.');
            return name.substr(0, dot == name.npos ? 0 : dot);
        };
        Segment first{}, last{};  // of the plain layers: a norm, an adapter or a router keeps its part
        for (const auto& s : all)
            if (s.part == Part::body) {
                if (first.name.view().empty()) first = s;
                last = s;
            }
        for (auto& s : all)
            if (s.part == Part::body && owner(s) == owner(first)) s.part = Part::input;
        for (auto& s : all)
            if ((s.part == Part::body || s.part == Part::input) && owner(s) == owner(last)) s.part = Part::head;
        return all;
    }();
    static constexpr std::size_t parameters = dimension(Layout(segments));

    constexpr Network() = default;
    constexpr explicit Network(Layers layers) : layers_(std::move(layers)) {}

    static constexpr Offers offers = [] {
        Offers all = offer::input_width | offer::forward_flops | offer::logits | offer::routed |
                     offer::when(FusedLayer<Layers, R>, offer::fused) |
                     offer::when(Ghost<Layers>::known, offer::clipped);
        if constexpr (requires { Layers::last_width(Inputs); })
            all = all | offer::features | offer::when(!Layers::reads_input_last, offer::aligned);
        return all;
    }();

    Layout layout() const { return segments; }
    std::size_t outputs() const { return Layers::width(Inputs); }
    const Layers& layers() const { return layers_; }
    double forward_flops() const { return Layers::flops(Inputs); }

    double gradient(In<R> w, const Batch<R>& batch, Out<R> out) const {
        const Forward run(*this, w, batch);
        const Slopes at(run.z, batch);
        run.backward(*this, w, In<R>(at.dz), out);
        return at.loss;
    }

    // One pass per layer, no stored gradient. Clipping needs the whole gradient first, a mask the sparse kernels,
    // and a scope must not cut a layer in two.
    bool fuses(const Step<R>& s) const
        requires FusedLayer<Layers, R>
    {
        bool whole = s.clip == 0 && !s.terms.active;
        const auto look = [&](Range r) { whole = whole && (s.terms.on.covers(r) || !s.terms.on.touches(r)); };
        if constexpr (requires { Layers::for_each_layer(look); })
            Layers::for_each_layer(look);
        else
            look({0, parameters});  // a single layer that is no Sequential
        return whole;
    }
    double step(Out<R> w, const Batch<R>& batch, const Step<R>& s) const
        requires FusedLayer<Layers, R>
    {
        const Forward run(*this, w, batch);
        const Slopes at(run.z, batch);
        const Update<R> update{.pulls = {s.terms.pull != 0 ? s.terms.toward.data() : nullptr, s.terms.also.data(),
                                         s.momentum != 0 ? s.velocity->data() : nullptr},
                               .numbers = {R(s.rate), R(s.decay), R(s.terms.pull), R(s.momentum)},
                               .on = &s.terms.on};
        run.with_input([&](auto x) {
            layers_.step(run.call, w.data(), x, run.z.data(), run.notes.data(), at.dz.data(), static_cast<R*>(nullptr),
                         update);
        });
        return at.loss;
    }
    // The gradients of single examples, each cut to a norm, and summed (contracts/private.hpp). A mask, or a scope that
    // cuts a tensor in two, goes one example at a time.
    bool clips(const Clip<R>& clip) const
        requires Ghost<Layers>::known
    {
        bool whole = !clip.active;
        for (const auto& s : segments) {
            const Range r{s.offset, s.end()};
            whole = whole && (clip.on.covers(r) || !clip.on.touches(r));
        }
        return whole;
    }
    double clipped_sum(In<R> w, const Batch<R>& batch, const Clip<R>& clip, Out<R> out) const
        requires Ghost<Layers>::known
    {
        const Forward run(*this, w, batch);
        const Slopes at(run.z, batch);
        const double n = static_cast<double>(batch.size());
        const Scratch<R> kept(batch.size() * Ghost<Layers>::kept(Inputs));
        Vec<double> factors(batch.size());  // squared norms at first
        run.with_input([&](auto x) {
            Ghost<Layers>::squares(layers_, run.call, w.data(), x, run.z.data(), run.notes.data(), at.dz.data(),
                                   static_cast<R*>(nullptr), kept.data(), GhostScope{&clip.on}, factors.data());
        });
        bool finite = true;
        for (double& f : factors) {
            const double squared = f * n * n;  // the loss is the mean over the batch
            finite = finite && std::isfinite(squared);
            f = std::isfinite(squared) ? n * clip.factor(squared) : lost;
        }
        if (!finite) return clipped_sum_without_lost(factors, w, batch, clip, out);
        run.with_input([&](auto x) {
            Ghost<Layers>::sum(layers_, run.call, w.data(), x, run.z.data(), run.notes.data(), kept.data(),
                               factors.data(), GhostScope{&clip.on}, out.data());
        });
        return at.loss;
    }
    void predict(In<R> w, const Batch<R>& batch, Out<R> out) const {
        logits(w, batch, out);
        Loss::predict(out.first(batch.size() * outputs()), outputs());
    }

    void logits(In<R> w, const Batch<R>& batch, Out<R> out) const {
        const Forward run(*this, w, batch);
        std::copy(run.z.begin(), run.z.end(), out.begin());
    }
    // Gradient of sum_i <dz_i, logits_i>.
    void pullback(In<R> w, const Batch<R>& batch, In<R> dz, Out<R> out) const {
        Forward(*this, w, batch).backward(*this, w, dz, out);
    }

    // A single layer that is no Sequential has no last layer to look behind.
    std::size_t feature_width() const
        requires requires { Layers::last_width(Inputs); }
    {
        return Layers::last_width(Inputs);
    }
    void features(In<R> w, const Batch<R>& batch, Out<R> out) const
        requires requires { Layers::last_width(Inputs); }
    {
        const Forward run(*this, w, batch);
        if constexpr (Layers::reads_input_last)
            for (std::size_t i = 0; i < batch.size(); ++i) batch.read(i, out.subspan(i * Inputs, Inputs));
        else
            std::copy_n(Layers::last_input(run.call, run.notes.data()), batch.size() * feature_width(), out.begin());
    }

    // Of a single layer the features are the input, which no parameter moves.
    bool aligns() const
        requires(!Layers::reads_input_last)
    {
        return true;
    }
    double aligned_gradient(In<R> w, const Batch<R>& batch, FeatureTerm<R> term, Out<R> out) const
        requires(!Layers::reads_input_last)
    {
        const Forward run(*this, w, batch);
        const std::size_t n = batch.size() * feature_width();
        const Slopes at(run.z, batch);
        double sum = at.loss;
        run.backward(*this, w, In<R>(at.dz), out, [&](const R* features, R* slope) {
            sum += term(In<R>(features, n), Out<R>(slope, n));
        });
        return sum;
    }

    // Routing between two sets of parameters (contracts/routable.hpp): every layer of a Sequential with parameters is a
    // block.
    Routes routes(MixAt mix) const {
        constexpr std::size_t blocks = detail::RoutedPass<R, Layers, MixAt::layer>::blocks;
        return {Inputs, mix == MixAt::output ? 1 : blocks};
    }
    double routed_gradient(In<R> w_g, In<R> w_l, Routing<R>& routing, const Batch<R>& batch, Out<R> dw_g,
                           Out<R> dw_l) const {
        const Input in(batch);
        Kept<R> own, &kept = routing.kept ? *routing.kept : own;
        return detail::with_routed_pass(layers_, w_g, w_l, routing, [&](const auto& pass) {
            kept.numbers.resize(batch.size() * pass.notes(Inputs));
            const Scratch<R> z(batch.size() * outputs());
            R* notes = kept.numbers.data();
            in.with_input([&](auto x) { pass.forward(in.call, x, z.data(), notes, kept.holds); });
            kept.holds = true;
            const Slopes at(z, batch);
            in.with_input([&](auto x) {
                pass.backward(in.call, x, z.data(), notes, at.dz.data(), dw_g.data(), dw_l.data());
            });
            return at.loss;
        });
    }
    void routed_predict(In<R> w_g, In<R> w_l, Routing<R>& routing, const Batch<R>& batch, Out<R> out) const {
        const Input in(batch);
        detail::with_routed_pass(layers_, w_g, w_l, routing, [&](const auto& pass) {
            const Scratch<R> notes(batch.size() * pass.notes(Inputs));
            in.with_input([&](auto x) { pass.forward(in.call, x, out.data(), notes.data(), false); });
        });
        Loss::predict(out.first(batch.size() * outputs()), outputs());
    }
    void hard_predict(In<R> w_g, In<R> w_l, Routing<R>& routing, const Batch<R>& batch, Out<R> out) const {
        const Input in(batch);
        detail::with_routed_pass(layers_, w_g, w_l, routing, [&](const auto& pass) {
            in.with_input([&](auto x) { pass.hard(in.call, x, out.data()); });
        });
        Loss::predict(out.first(batch.size() * outputs()), outputs());
    }

private:
    static constexpr double lost = -1;  // for a factor: the gradient is not finite

    // As if lost examples were not there: zero times infinity would reach every sum over the batch.
    double clipped_sum_without_lost(const Vec<double>& factors, In<R> w, const Batch<R>& batch, const Clip<R>& clip,
                                    Out<R> out) const
        requires Ghost<Layers>::known
    {
        Vec<Index> others;
        for (std::size_t i = 0; i < factors.size(); ++i)
            if (factors[i] != lost) others.push_back(batch.ids()[i]);
        if (!others.empty()) return clipped_sum(w, batch.of(others), clip, out);
        std::fill(out.begin(), out.end(), R(0));
        return 0;
    }

    static constexpr bool gathers = GatheringLayer<Layers, R>;
    // Whether the first layer may read bytes as they are; where it would not pay, nothing is compiled for it.
    static constexpr bool reads_bytes = std::is_same_v<R, float> && ByteLayer<Layers, R> && !segments.empty() &&
                                        kernels::tiles_pay(segments.front().shape[0]);

    // A minibatch as the first layer reads it.
    struct Input {
        Call call;
        GatheredBytes raw;  // bytes, where the first layer reads them as they are
        Scratch<R> x;
        Scratch<const R*> rows;

        explicit Input(const Batch<R>& batch)
            : call{batch.size(), Inputs, batch.training(), batch.draw()},
              raw(bytes_of(batch)),
              x(in_bytes() || lies_ready(batch) ? 0 : batch.size() * Inputs),
              rows(gathers ? batch.size() : 0) {
            for (std::size_t i = 0; !in_bytes() && i < batch.size(); ++i) load(batch, i);
        }
        // f(what the first layer reads)
        template <class F>
        void with_input(const F& f) const {
            if constexpr (reads_bytes)
                if (in_bytes()) return f(raw);
            if constexpr (gathers) f(Gathered<R>{rows.data()});
            else f(static_cast<const R*>(x.data()));
        }

    private:
        bool in_bytes() const { return reads_bytes && raw.rows.examples != nullptr; }
        static GatheredBytes bytes_of([[maybe_unused]] const Batch<R>& batch) {
            if constexpr (reads_bytes) {
                const Examples& e = batch.examples();
                if (e.storage == Storage::bytes && kernels::tiles_read(e.shift, Inputs))
                    return {{static_cast<const std::uint8_t*>(e.rows), batch.ids().data(), e.shift, e.scale}};
            }
            return {};
        }
        // Rows are read in place when each begins a cache line; others are cheaper to copy than to read in halves
        // again and again (784-100-10, batch 20: 59 against 73 us).
        static bool lies_ready(const Batch<R>& batch) {
            if (!gathers || batch.size() == 0 || !batch.row(0) || Inputs * sizeof(R) % alignment != 0) return false;
            return reinterpret_cast<std::uintptr_t>(batch.row(0)) % alignment == 0;
        }
        void load(const Batch<R>& batch, std::size_t i) {
            if constexpr (gathers) {
                rows[i] = x.size() == 0 ? batch.row(i) : x.data() + i * Inputs;
                if (x.size() == 0) return;
            }
            R* to = x.data() + i * Inputs;
            batch.fetch(i + 2);
            if (const auto* bytes = batch.bytes(i))
                kernels::widen_bytes(bytes, to, Inputs, R(batch.examples().shift), R(batch.examples().scale));
            else
                batch.read(i, Out<R>(to, Inputs));
        }
    };

    // The loss and its gradient in the outputs, which stay as they are where the last layer reads them in backward.
    struct Slopes {
        static constexpr bool apart = reads_outputs<Layers>;
        Scratch<R> own;
        Out<R> dz;
        double loss;

        Slopes(const Scratch<R>& z, const Batch<R>& batch)
            : own(apart ? z.size() : 0), dz(apart ? own.data() : z.data(), z.size()) {
            if (apart) std::copy(z.begin(), z.end(), dz.begin());
            loss = Loss::gradient(batch, dz);
        }
    };

    struct Forward : Input {
        Scratch<R> notes, z;

        Forward(const Network& net, In<R> w, const Batch<R>& batch)
            : Input(batch), notes(batch.size() * Layers::notes(Inputs)), z(batch.size() * Layers::width(Inputs)) {
            this->with_input(
                [&](auto in) { net.layers_.forward(this->call, w.data(), in, z.data(), notes.data()); });
        }
        template <class... AtLast>
        void backward(const Network& net, In<R> w, In<R> dz, Out<R> out, const AtLast&... at_last) const {
            this->with_input([&](auto in) {
                net.layers_.backward(this->call, w.data(), in, z.data(), notes.data(), dz.data(),
                                     static_cast<R*>(nullptr), out.data(), at_last...);
            });
        }
    };

    Layers layers_{};
};

}  // namespace tessera::nn
