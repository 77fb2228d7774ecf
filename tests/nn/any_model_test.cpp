// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/any_model.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/nn/zoo.hpp>

#include <support/toy_numbers.hpp>

namespace any_model_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;
using doctest::Contains;

struct NetRecipe {
    static constexpr Shape in = 9;
    static constexpr auto layers = chain(Linear{6}, Relu{}, Dropout{}, Linear{3});
};
using Net = Fixed<NetRecipe>;

// Nothing but what a model must have.
struct Bare {
    using Real = float;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 1> segments{Segment{.name = "w", .shape = {2, 1, 1, 1}, .fan_in = 4}};
    float scale = 1;

    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<float> x, const Batch<float>&, Out<float> out) const {
        for (std::size_t j = 0; j < 2; ++j) out[j] = scale * x[j];
        return 0.5;
    }
    void predict(In<float> x, const Batch<float>& batch, Out<float> out) const {
        for (std::size_t i = 0; i < batch.size(); ++i) out[i] = x[0];
    }
};
// And one that starts and steps by itself.
struct Fused : Bare {
    bool fuses(const Step<float>& s) const { return s.momentum == 0; }
    double fused_step(Out<float> x, const Batch<float>&, const Step<float>& s) const {
        for (float& v : x) v -= static_cast<float>(s.rate) * scale * v;
        return 0.25;
    }
    void initialize(Out<float> x, Key) const { x[0] = x[1] = 7; }
};
static_assert(FusedModel<Fused> && InitializedModel<Fused> && !FusedModel<Bare>);

using Any = AnyModel<float>;
static_assert(Model<Any> && FusedModel<Any> && InitializedModel<Any> && CountedModel<Any> && LogitModel<Any> &&
              FeatureModel<Any>);
static_assert(std::is_constructible_v<Any, Net> && std::is_constructible_v<Any, Bare>);
static_assert(!std::is_constructible_v<Any, Mclr<9, 3, double>>);  // another type of numbers
static_assert(!std::is_constructible_v<Any, int>);

struct Data {
    data::Dataset pool = toy_dataset<float>(7, 9, 3);
    std::vector<Index> ids = first_ids(7);
    std::vector<float> weights = toy_numbers<float>(7, 5);
    Key draw{2};
    Batch<float> batch{pool.examples(), ids};
    Batch<float> drawn{pool.examples(), ids, weights, &draw};
};

// What f writes into n numbers, which start as NaN.
template <class F>
std::vector<float> written(std::size_t n, F&& f) {
    std::vector<float> out(n, std::nanf(""));
    f(Out<float>(out));
    return out;
}

}  // namespace

TEST_CASE("any model: the bits of the model inside") {
    const Data data;
    const Net net;
    const Any any(net);
    const auto w = toy_numbers<float>(Net::parameters, 1);
    const auto dz = toy_numbers<float>(7 * 3, 3);
    CHECK(any.layout().data() == net.layout().data());
    CHECK(any.outputs() == 3);
    CHECK(any.forward_flops() == net.forward_flops());
    CHECK(any.feature_width() == 6);
    for (const auto& batch : {data.batch, data.drawn}) {
        double loss_any = 0, loss_net = 0;
        CHECK(written(w.size(), [&](auto out) { loss_any = any.gradient(w, batch, out); }) ==
              written(w.size(), [&](auto out) { loss_net = net.gradient(w, batch, out); }));
        CHECK(loss_any == loss_net);
        CHECK(written(21, [&](auto out) { any.predict(w, batch, out); }) ==
              written(21, [&](auto out) { net.predict(w, batch, out); }));
        CHECK(written(21, [&](auto out) { any.logits(w, batch, out); }) ==
              written(21, [&](auto out) { net.logits(w, batch, out); }));
        CHECK(written(w.size(), [&](auto out) { any.pullback(w, batch, dz, out); }) ==
              written(w.size(), [&](auto out) { net.pullback(w, batch, dz, out); }));
        CHECK(written(42, [&](auto out) { any.features(w, batch, out); }) ==
              written(42, [&](auto out) { net.features(w, batch, out); }));
    }
    // Negative control: draws and weights do reach the model inside.
    CHECK(written(21, [&](auto out) { any.logits(w, data.batch, out); }) !=
          written(21, [&](auto out) { any.logits(w, data.drawn, out); }));
}

TEST_CASE("any model: starts as the model inside would") {
    CHECK(initial_parameters(Any(Net{}), Key{4}) == initial_parameters(Net{}, Key{4}));
    CHECK(initial_parameters(Any(Bare{}), Key{4}) == initial_parameters(Bare{}, Key{4}));
    CHECK(initial_parameters(Any(Fused{}), Key{4}) == Vec<float>{7, 7});
    CHECK(initial_parameters(Any(Net{}), Key{4}) != initial_parameters(Net{}, Key{5}));
}

TEST_CASE("any model: steps in one call when the model inside does, for the steps it does") {
    const Data data;
    Fused model;
    model.scale = 0.5f;
    const Any any(model);
    Step<float> plain, heavy;
    heavy.momentum = 0.9;
    CHECK(any.fuses(plain));
    CHECK_FALSE(any.fuses(heavy));
    std::vector<float> by_any{1, 2}, by_model{1, 2};
    CHECK(any.fused_step(by_any, data.batch, plain) == model.fused_step(by_model, data.batch, plain));
    CHECK(by_any == by_model);
    CHECK(by_any != std::vector<float>{1, 2});
    CHECK_FALSE(Any(Bare{}).fuses(plain));
}

TEST_CASE("any model: what the model inside lacks is said when it is used") {
    const Data data;
    const Any any{Bare{}};
    std::vector<float> x{1, 2}, out(7);
    CHECK_THROWS_WITH_AS(any.logits(x, data.batch, out), Contains("no logits"), ConfigError);
    CHECK_THROWS_WITH_AS(any.pullback(x, data.batch, out, x), Contains("no pullback"), ConfigError);
    CHECK_THROWS_WITH_AS(any.feature_width(), Contains("no features"), ConfigError);
    CHECK_THROWS_WITH_AS(any.features(x, data.batch, out), Contains("no features"), ConfigError);
    CHECK_THROWS_WITH_AS(any.fused_step(x, data.batch, {}), Contains("no fused step"), ConfigError);
    CHECK_FALSE(any.fuses({}));
    CHECK(any.forward_flops() == 0);
    CHECK_NOTHROW(any.predict(x, data.batch, out));
    CHECK(out[6] == 1);
}

TEST_CASE("any model: a value; copies and assignment") {
    const Data data;
    Bare twice;
    twice.scale = 2;
    Any a{Bare{}}, b{twice};
    const std::vector<float> x{1, 2};
    const auto gradient = [&](const Any& m) { return written(2, [&](auto out) { m.gradient(x, data.batch, out); }); };
    const Any copy = a;
    a = b;
    CHECK(gradient(a) == std::vector<float>{2, 4});
    CHECK(gradient(copy) == std::vector<float>{1, 2});
    a = Any(Net{});  // another model altogether
    CHECK(a.outputs() == 3);
    CHECK(copy.outputs() == 1);
}

TEST_CASE("any model: holds networks of a single layer too") {
    const Network<float> single(9, Linear{3});
    const Any any(single);
    const Data data;
    const auto w = toy_numbers<float>(30, 1);
    CHECK(written(21, [&](auto out) { any.logits(w, data.batch, out); }) ==
          written(21, [&](auto out) { single.logits(w, data.batch, out); }));
    CHECK(any.feature_width() == 9);  // it reads the input
    CHECK_FALSE(any.aligns());
}

}  // namespace any_model_test
