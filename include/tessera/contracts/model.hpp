// SPDX-License-Identifier: BSD-3-Clause
// Model: an objective with parameters. Whatever changes a loss (routing, mixing, distilling, freezing, a
// Bregman pull) wraps a model and is a model again; the engine knows none of these words.
//
// A model is a stateless const value: parameters come in from outside, so one object serves every client
// and thread. `Step` is the value between method, rule and kernel: fused, sparse and plain kernels read it.
#pragma once

#include <concepts>
#include <cstddef>

#include <tessera/core/batch.hpp>
#include <tessera/core/function_ref.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/view.hpp>

namespace tessera {

template <class M>
using real = typename M::Real;

template <class M>
concept Model = std::copyable<M> && std::floating_point<typename M::Real> &&
                requires(const M model, In<real<M>> x, Out<real<M>> out, const Batch<real<M>>& batch) {
                    { model.layout() } -> std::convertible_to<Layout>;
                    { model.outputs() } -> std::convertible_to<std::size_t>;
                    { model.gradient(x, batch, out) } -> std::convertible_to<double>;  // mean loss; out = gradient
                    { model.predict(x, batch, out) } -> std::same_as<void>;  // outputs() log-probabilities an example
                };

// The same, one sentence at a time: static_assert(check_model<Mine>()) says what a model of yours still lacks.
template <class M>
consteval bool check_model() {
    constexpr bool has_real = requires { requires std::floating_point<typename M::Real>; };
    static_assert(has_real, "tessera::Model: a model needs `using Real = float;` (or double)");
    static_assert(std::copyable<M>, "tessera::Model: a model must be copyable");
    if constexpr (has_real) {
        using R = typename M::Real;
        using B = const Batch<R>&;
        constexpr bool layout = requires(const M m) { { m.layout() } -> std::convertible_to<Layout>; };
        constexpr bool outputs = requires(const M m) { { m.outputs() } -> std::convertible_to<std::size_t>; };
        constexpr bool gradient =
            requires(const M m, In<R> x, B b, Out<R> o) { { m.gradient(x, b, o) } -> std::convertible_to<double>; };
        constexpr bool predict =
            requires(const M m, In<R> x, B b, Out<R> o) { { m.predict(x, b, o) } -> std::same_as<void>; };
        static_assert(layout, "tessera::Model: a model needs `Layout layout() const`");
        static_assert(outputs, "tessera::Model: a model needs `std::size_t outputs() const`");
        static_assert(gradient, "tessera::Model: a model needs `double gradient(x, batch, out) const`, which returns "
                                "the mean loss and writes its gradient");
        static_assert(predict, "tessera::Model: a model needs `void predict(x, batch, out) const`, which writes "
                               "outputs() log-probabilities an example");
    }
    return true;
}

// What a method asks of a step. A field enters only when two methods need it and it acts per coordinate.
template <class R>
struct Terms {
    Coordinates on{};              // coordinates that move
    const Mask* active = nullptr;  // coordinates that exist
    In<R> prox_center{};           // + prox_weight * (x - prox_center)
    double prox_weight = 0;
    In<R> linear{};  // + a fixed vector
};

// What a rule adds to it. With momentum, `velocity` is the caller's and has the size of x.
template <class R>
struct Step {
    Terms<R> terms{};
    double rate = 0.1, decay = 0, clip = 0, momentum = 0;
    Vec<R>* velocity = nullptr;
};

// One call does gradient and update, with no stored gradient.
template <class M>
concept FusedModel =
    Model<M> && requires(const M model, Out<real<M>> x, const Batch<real<M>>& batch, const Step<real<M>>& step) {
        { model.fuses(step) } -> std::same_as<bool>;
        { model.fused_step(x, batch, step) } -> std::convertible_to<double>;
    };

// Brings its own initial values; other models start from the torch default of their layout.
template <class M>
concept InitializedModel = Model<M> && requires(const M model, Out<real<M>> x, Key key) { model.initialize(x, key); };

// Says which layers and which loss it is made of (nn/graph.hpp), so that somebody else can walk it.
template <class M>
concept BlueprintModel = Model<M> && requires(const M model) { model.blueprint().graph; };

// Says what a forward pass over one example costs, so that reports can count.
template <class M>
concept CountedModel = Model<M> && requires(const M model) {
    { model.forward_flops() } -> std::convertible_to<double>;
};

// Raw outputs before any normalisation, and the gradient of <dz, logits>: what distillation descends.
template <class M>
concept LogitModel = Model<M> && requires(const M model, In<real<M>> x, const Batch<real<M>>& batch, Out<real<M>> out) {
    model.logits(x, batch, out);
    model.pullback(x, batch, x, out);
};

// What the last layer reads: one row of `feature_width()` numbers an example.
template <class M>
concept FeatureModel = Model<M> && requires(const M model, In<real<M>> x, const Batch<real<M>>& b, Out<real<M>> out) {
    { model.feature_width() } -> std::convertible_to<std::size_t>;
    model.features(x, b, out);
};

// A term of the loss that reads the features of a batch: adds its slope in them to `slope` and returns its value.
template <class R>
using FeatureTerm = FunctionRef<double(In<R> features, Out<R> slope)>;

// Loss and gradient with such a term, in one pass. `aligns()` is false where no parameter moves the features.
template <class M>
concept AlignableModel = FeatureModel<M> && requires(const M model, In<real<M>> x, const Batch<real<M>>& b,
                                                     FeatureTerm<real<M>> term, Out<real<M>> out) {
    { model.aligns() } -> std::same_as<bool>;
    { model.aligned_gradient(x, b, term, out) } -> std::convertible_to<double>;
};

template <Model M>
std::size_t dimension(const M& model) {
    return dimension(Layout(model.layout()));
}

// How many numbers an example has: `inputs` or, where it is known at run time, `input_width()`. 0: it does not say.
template <Model M>
std::size_t input_width(const M& model) {
    if constexpr (requires { M::inputs; }) return M::inputs;
    else if constexpr (requires { model.input_width(); }) return model.input_width();
    else return 0;
}

// Initial parameters: the model's own, or what each segment of its layout asks for.
template <Model M>
Vec<real<M>> initial_parameters(const M& model, Key key) {
    Vec<real<M>> x(dimension(model));
    if constexpr (InitializedModel<M>) {
        model.initialize(x, key);
    } else {
        std::uint64_t index = 0;
        for (const auto& segment : model.layout()) {
            Stream draw(key(index++));
            const double bound = segment.fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(segment.fan_in)) : 0;
            for (std::size_t j = segment.offset; j < segment.end(); ++j) {
                if (segment.fan_in > 0) x[j] = static_cast<real<M>>((2 * draw.uniform() - 1) * bound);
                else if (segment.deviation != 0)
                    x[j] = static_cast<real<M>>(segment.value + segment.deviation * draw.normal());
                else x[j] = static_cast<real<M>>(segment.value);
            }
        }
    }
    return x;
}

}  // namespace tessera
