// SPDX-License-Identifier: BSD-3-Clause
// A model made of layers and a loss.
//
//   Network<float> net(784, chain(Linear{100}, LeakyRelu{}, Linear{classes}));     widths known at run time
//
//   struct Tiny { static constexpr Shape in = 784; static constexpr auto layers = chain(Linear{100}, Relu{},
//   Linear{10}); }; Fixed<Tiny> net;                            the same, known when compiling:
//   Fixed<Tiny>::parameters, ::segments
//
// The first layer with parameters is the input part, the last one the head, all between keeps the part its layer names
// (body unless it is a norm or an adapter). A network is a const value: copies share one list of layers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include <tessera/contracts/judgement.hpp>
#include <tessera/contracts/model.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/contracts/routable.hpp>
#include <tessera/core/function_ref.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/nn/clipped.hpp>
#include <tessera/nn/graph.hpp>
#include <tessera/nn/loss.hpp>
#include <tessera/nn/routing.hpp>
#include <tessera/nn/walk.hpp>

namespace tessera::nn {

template <class R = float, class Loss = SoftmaxCrossEntropy>
class Network {
public:
    using Real = R;
    using Objective = Loss;
    static constexpr auto offers = offer::fused | offer::forward_flops | offer::input_width | offer::logits |
                                   offer::features | offer::aligned | offer::clipped | offer::routed |
                                   offer::judge | offer::apart | offer::blueprint;

    template <class L>
    Network(Shape in, const L& layers, const Backend<R>& on = backend_for<R>())
        : Network(in, layers, Loss{}, on) {}
    template <class L>
    Network(Shape in, const L& layers, const Loss& loss, const Backend<R>& on = backend_for<R>())
        : graph_(std::make_shared<const Graph<R>>(in, layers, on)), loss_(loss) {}
    // Of a rewritten list.
    Network(std::shared_ptr<const Graph<R>> graph, const Loss& loss) : graph_(std::move(graph)), loss_(loss) {}

    Layout layout() const { return graph_->segments; }
    std::size_t input_width() const { return graph_->inputs(); }
    std::size_t outputs() const { return graph_->outputs(); }
    double forward_flops() const { return graph_->flops(); }
    // Rows of outputs, each for one label of an example.
    std::size_t positions() const { return graph_->positions(); }
    void judge(const Batch<R>& batch, In<R> predictions, Judgement& to) const { loss_.judge(batch, predictions, to); }
    // Whether rows can be read and, if `labelled`, labels learnt from: a ConfigError says why not.
    void accepts(const Examples& examples, bool labelled) const {
        graph_->accepts(examples);
        if (labelled) loss_.check(examples, outputs(), positions());
    }
    const Graph<R>& graph() const { return *graph_; }
    const Loss& objective() const { return loss_; }
    Blueprint<R> blueprint() const { return {graph_.get(), is_softmax(loss_)}; }
    // Numbers that a pass over a batch has room for.
    std::size_t room(std::size_t batch, Mode mode = Mode::train) const { return graph_->plan(mode).size(batch); }
    // For tests: the same, whose rooms are filled with NaN as soon as nobody should read them.
    Network poisoned() const {
        auto copy = std::make_shared<Graph<R>>(*graph_);
        copy->poison = true;
        Network net = *this;
        net.graph_ = std::move(copy);
        return net;
    }

    double gradient(In<R> w, const Batch<R>& batch, Out<R> out) const {
        const auto loss = loss_of(batch);
        return detail::gradient<R>(*graph_, w.data(), batch, loss, out.data());
    }
    void predict(In<R> w, const Batch<R>& batch, Out<R> out) const {
        logits(w, batch, out);
        to_predictions(batch, out);
    }
    void logits(In<R> w, const Batch<R>& batch, Out<R> out) const {
        detail::evaluate(*graph_, w.data(), batch, graph_->size(), out.data());
    }
    // Gradient of sum_i <dz_i, logits_i>.
    void pullback(In<R> w, const Batch<R>& batch, In<R> dz, Out<R> out) const {
        const auto given = [&](Out<R> z) {
            std::copy_n(dz.data(), z.size(), z.data());
            return 0.0;
        };
        detail::gradient<R>(*graph_, w.data(), batch, given, out.data());
    }

    std::size_t feature_width() const { return graph_->shape(graph_->features).size(); }
    void features(In<R> w, const Batch<R>& batch, Out<R> out) const {
        const std::size_t width = feature_width();
        if (graph_->features > 0)
            return detail::evaluate(*graph_, w.data(), batch, static_cast<std::size_t>(graph_->features), out.data());
        for (std::size_t i = 0; i < batch.size(); ++i) batch.read(i, out.subspan(i * width, width));
    }
    // Of a single layer the features are the input, which no parameter moves.
    bool aligns() const { return graph_->trains[static_cast<std::size_t>(graph_->features)] != 0; }
    double aligned_gradient(In<R> w, const Batch<R>& batch, FeatureTerm<R> term, Out<R> out) const {
        const std::size_t n = batch.size() * feature_width();
        double more = 0;
        const auto own = loss_of(batch);
        const double loss =
            detail::gradient<R>(*graph_, w.data(), batch, own, out.data(),
                             [&](const R* features, R* slope) { more = term(In<R>(features, n), Out<R>(slope, n)); });
        return loss + more;
    }

    // One pass per layer, no stored gradient. Clipping needs the whole gradient first, a mask the sparse kernels, and a
    // scope must not cut a layer in two.
    bool fuses(const Step<R>& s) const {
        if (s.clip != 0 || s.terms.active) return false;
        for (const auto& n : graph_->nodes)
            if (!s.terms.on.covers(n.range()) && s.terms.on.touches(n.range())) return false;
        return true;
    }
    double fused_step(Out<R> w, const Batch<R>& batch, const Step<R>& s) const {
        const auto loss = loss_of(batch);
        return detail::step<R>(*graph_, w.data(), batch, loss, update_of(s), s.terms.on);
    }

    // Whether no layer lets examples meet.
    bool apart() const { return graph_->apart; }
    // The gradients of single examples, each cut to a norm, and summed (contracts/private.hpp). A mask, or a scope that
    // cuts a tensor in two, goes one example at a time.
    bool clips(const Clip<R>& clip) const {
        bool whole = !clip.active && graph_->apart;
        for (const auto& s : graph_->segments) {
            const Range r{s.offset, s.end()};
            whole = whole && (clip.on.covers(r) || !clip.on.touches(r));
        }
        return whole;
    }
    double clipped_sum(In<R> w, const Batch<R>& batch, const Clip<R>& clip, Out<R> out) const {
        if (!graph_->apart) throw ConfigError(tessera::detail::examples_meet);
        const auto loss = [this](const Batch<R>& b, Out<R> z) { return loss_.gradient(b, z, {positions(), true}); };
        return detail::clipped_sum(*graph_, w.data(), batch, clip,
                                   FunctionRef<double(const Batch<R>&, Out<R>)>(loss), out);
    }

    // Routing between two sets of parameters (contracts/routable.hpp): every element of the outermost chain with
    // parameters is a block, unless the recipe says otherwise.
    Routes routes(MixAt mix) const {
        return {graph_->inputs(), graph_->blocks(mode_of(mix)), graph_->shown(mode_of(mix))};
    }
    double routed_gradient(In<R> w_g, In<R> w_l, Routing<R>& routing, const Batch<R>& batch, Out<R> dw_g,
                           Out<R> dw_l) const {
        const MixedPass<R> pass(*graph_, w_g.data(), w_l.data(), routing, batch, routing.kept);
        const auto own = loss_of(batch);
        const double loss = pass.loss(own);
        pass.backward(dw_g.data(), dw_l.data());
        return loss;
    }
    void routed_predict(In<R> w_g, In<R> w_l, Routing<R>& routing, const Batch<R>& batch, Out<R> out) const {
        const std::size_t n = batch.size() * outputs();
        const MixedPass<R> pass(*graph_, w_g.data(), w_l.data(), routing, batch);
        std::copy_n(pass.outputs(), n, out.begin());
        to_predictions(batch, out);
    }
    void hard_predict(In<R> w_g, In<R> w_l, Routing<R>& routing, const Batch<R>& batch, Out<R> out) const {
        if (routing.looks() || graph_->mixes(mode_of(routing.mix))) {  // both branches are seen, or their states go on
            Chosen<R> chosen(routing);
            return routed_predict(w_g, w_l, chosen, batch, out);
        }
        HardPass<R>(*graph_, w_g.data(), w_l.data(), routing, batch)(out.data());
        to_predictions(batch, out);
    }

private:
    auto loss_of(const Batch<R>& batch) const {
        return [this, &batch](Out<R> z) { return loss_.gradient(batch, z, {positions()}); };
    }
    void to_predictions(const Batch<R>& batch, Out<R> out) const {
        loss_.predict(out.first(batch.size() * outputs()), outputs(), {positions()});
    }
    static Update<R> update_of(const Step<R>& s) {
        return {.reads = {s.terms.prox_weight != 0 ? s.terms.prox_center.data() : nullptr, s.terms.linear.data(),
                          s.momentum != 0 ? s.velocity->data() : nullptr},
                .numbers = {R(s.rate), R(s.decay), R(s.terms.prox_weight), R(s.momentum)}};
    }

    std::shared_ptr<const Graph<R>> graph_;
    [[no_unique_address]] Loss loss_{};
};

// A network whose recipe is known when compiling: `T::in` and `T::layers` are constants. Wrong shapes, and scopes that
// select nothing in it, do not compile.
template <class T, class R = float, class Loss = SoftmaxCrossEntropy>
class Fixed : public Network<R, Loss> {
    static constexpr Shape shape = T::in;
    static constexpr bool good = fits(shape, T::layers);
    static_assert(good, "tessera::nn::Fixed: these layers do not fit their input; an nn::Network of them says why");
    struct Counts {
        std::size_t parameters = 0, segments = 0;
        bool hidden = false, apart = true;
        RowKinds reads{};
    };
    static constexpr Counts counts = [] {
        if (!good) return Counts{};
        Outline<> outline(shape);
        outline(T::layers, 0);
        return Counts{outline.parameters, outline.segment_count, outline.last_input > 0, outline.apart,
                      {outline.sequences, outline.bytes, outline.large}};
    }();

public:
    static constexpr Offers offers = offer::fused | offer::forward_flops | offer::input_width | offer::logits |
                                     offer::features | offer::when(counts.hidden, offer::aligned) | offer::clipped |
                                     offer::routed | offer::judge | offer::apart | offer::blueprint;
    static constexpr bool apart() { return counts.apart; }
    static constexpr std::size_t inputs = shape.size(), parameters = counts.parameters;
    static constexpr auto segments = [] {
        Outline<counts.segments> outline(shape);
        if (good) outline(T::layers, 0);
        detail::name_parts(outline.segments);
        return outline.segments;
    }();

    Fixed() : Network<R, Loss>(one()) {}
    explicit Fixed(const Backend<R>& on) : Network<R, Loss>(shape, T::layers, on) {}

    bool aligns() const
        requires(counts.hidden)
    {
        return Network<R, Loss>::aligns();
    }

private:
    static const Network<R, Loss>& one() {
        static const Network<R, Loss> net(shape, T::layers, backend_for<R, backend::Simd, compiled(counts.reads)>());
        return net;
    }
};

}  // namespace tessera::nn
