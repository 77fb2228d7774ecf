// SPDX-License-Identifier: BSD-3-Clause
// The fused step: one pass per layer, the bits of "gradient, then update" in every kernel set.
#include <doctest/doctest.h>

#include <tessera/nn/any_model.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/step.hpp>

#include <support/bits.hpp>
#include <support/kernel_sets.hpp>
#include <support/toy_numbers.hpp>

namespace fused_step_test {

using namespace tessera;

namespace {

// The same objective without the refinement, so that rule/step.hpp takes the gradient first.
template <class M>
struct TwoPass {
    using Real = real<M>;
    static constexpr Offers offers{};
    M model;
    Layout layout() const { return model.layout(); }
    std::size_t outputs() const { return model.outputs(); }
    double gradient(In<Real> x, const Batch<Real>& b, Out<Real> out) const { return model.gradient(x, b, out); }
    void predict(In<Real> x, const Batch<Real>& b, Out<Real> out) const { model.predict(x, b, out); }
};

struct DeepRecipe {
    static constexpr nn::Shape in = 37;
    static constexpr auto layers = nn::chain(nn::Linear{21}, nn::LeakyRelu{}, nn::Linear{9}, nn::Dropout{}, nn::Relu{},
                                             nn::Linear{13}, nn::Relu{}, nn::Linear{5});
};
template <class R>
using Deep = nn::Fixed<DeepRecipe, R>;

static_assert(FusedModel<nn::Mclr<60, 10>> && FusedModel<nn::Dnn<60, 20, 10, double>> && FusedModel<Deep<float>>);
static_assert(!FusedModel<TwoPass<nn::Mclr<60, 10>>>);

// Walks `model` and its two-pass twin over the same batches and compares every bit, velocities included.
template <class M>
void check_same_bits(const M& model, const Step<real<M>>& s, std::size_t width, std::size_t classes,
                     std::size_t batch) {
    using R = real<M>;
    const TwoPass<M> twin{model};
    const auto data = support::toy_dataset<R>(3 * batch + 1, width, classes);
    const auto ids = support::first_ids(data.size());
    auto x = initial_parameters(model, Key{5}), y = x;
    Vec<R> v(x.size()), u(x.size());
    Workspace<R> space;
    const Context<M> at{
        .model = &model, .examples = &data.examples(), .ids = ids, .key = Key{1}, .batch = batch, .workspace = &space};
    const auto by_two_passes = at.with(twin);
    for (const auto b : at.epochs(2)) {
        auto fused = s, plain = s;
        fused.velocity = &v;
        plain.velocity = &u;
        REQUIRE(model.fuses(fused));
        CHECK(take_step(at, x, b, fused) == take_step(by_two_passes, y, b, plain));
    }
    CHECK(support::same_bits(x, y));
    CHECK(support::same_bits(v, u));
}

template <class R>
void check_all_terms(std::size_t batch) {
    using M = Deep<R>;
    const M model;
    const Vec<R> anchor = initial_parameters(model, Key{6}), fixed = initial_parameters(model, Key{7});
    CAPTURE(batch);
    check_same_bits(model, Step<R>{.rate = 0.05}, 37, 5, batch);
    check_same_bits(model, Step<R>{.rate = 0.05, .decay = 0.01}, 37, 5, batch);
    check_same_bits(model, Step<R>{.rate = 0.05, .momentum = 0.9}, 37, 5, batch);
    check_same_bits(model, Step<R>{.terms = {.prox_center = anchor, .prox_weight = 0.3}, .rate = 0.05}, 37, 5, batch);
    check_same_bits(model, Step<R>{.terms = {.linear = fixed}, .rate = 0.05}, 37, 5, batch);
    check_same_bits(model,
                    Step<R>{.terms = {.prox_center = anchor, .prox_weight = 0.3, .linear = fixed},
                            .rate = 0.05,
                            .decay = 0.01,
                            .momentum = 0.5},
                    37, 5, batch);
}

}  // namespace

TEST_CASE("a fused step has the bits of gradient and update, in every kernel set") {
    support::for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t batch : {1u, 2u, 4u, 5u, 20u, 129u, 512u}) {
            check_all_terms<float>(batch);
            check_all_terms<double>(batch);
        }
        check_same_bits(nn::Mclr<784, 10>{}, Step<float>{.rate = 0.01}, 784, 10, 20);
        check_same_bits(nn::Dnn<784, 100, 10>{}, Step<float>{.rate = 0.01}, 784, 10, 20);
    });
}

TEST_CASE("a fused step moves the scope and nothing else") {
    using M = Deep<float>;
    const M model;
    for (const auto& scope : {select<scope::Head>(M::segments), select<scope::Except<scope::Head>>(M::segments),
                              select<scope::Input>(M::segments)}) {
        check_same_bits(model, Step<float>{.terms = {.on = scope}, .rate = 0.1, .decay = 0.1, .momentum = 0.9}, 37, 5,
                        8);
        const auto data = support::toy_dataset<float>(8, 37, 5);
        const auto ids = support::first_ids(8);
        const auto before = initial_parameters(model, Key{5});
        auto x = before;
        model.fused_step(x, Batch<float>(data.examples(), ids),
                         Step<float>{.terms = {.on = scope}, .rate = 0.1, .decay = 0.1});
        std::size_t moved = 0;
        for (std::size_t j = 0; j < x.size(); ++j) {
            if (!scope.touches({j, j + 1})) REQUIRE(x[j] == before[j]);
            moved += x[j] != before[j];
        }
        CHECK(moved > 0);
    }
}

TEST_CASE("what cannot be fused is declined and done in two passes") {
    using M = Deep<float>;
    const M model;
    const Mask mask(M::parameters, true);
    CHECK(model.fuses({.rate = 1}));
    CHECK_FALSE(model.fuses({.rate = 1, .clip = 1}));
    CHECK_FALSE(model.fuses({.terms = {.active = &mask}}));
    CHECK_FALSE(model.fuses({.terms = {.on = select<scope::Named<Name("0.weight")>>(M::segments)}}));  // cuts a layer
}

TEST_CASE("AnyModel takes the same fused step") {
    using M = nn::Dnn<60, 20, 10>;
    const M model;
    const nn::AnyModel<float> any(model);
    const auto data = support::toy_dataset<float>(20, 60, 10);
    const auto ids = support::first_ids(20);
    const Batch<float> batch(data.examples(), ids);
    auto x = initial_parameters(model, Key{3}), y = x;
    CHECK(any.fuses({.rate = 0.1}));
    CHECK(model.fused_step(x, batch, {.rate = 0.1}) == any.fused_step(y, batch, {.rate = 0.1}));
    CHECK(support::same_bits(x, y));
}

}  // namespace fused_step_test
