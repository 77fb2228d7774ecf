// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/network.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/model.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/finite_differences.hpp>
#include <support/kernel_sets.hpp>
#include <support/toy_numbers.hpp>

namespace network_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

struct DeepRecipe {
    static constexpr Shape in = 5;
    static constexpr auto layers =
        chain(Linear{6}, Relu{}, Dropout{}, chain(Linear{4}, LeakyRelu{}), Linear{3});
};
using Deep = Fixed<DeepRecipe, double>;
struct SingleRecipe {
    static constexpr Shape in = 5;
    static constexpr auto layers = Linear{3};
};
using Single = Fixed<SingleRecipe, double>;

template <class M>
std::vector<real<M>> gradient(const M& model, const std::vector<real<M>>& w, const Batch<real<M>>& batch) {
    std::vector<real<M>> out(w.size(), std::numeric_limits<real<M>>::quiet_NaN());
    model.gradient(w, batch, out);
    return out;
}
template <class M>
double loss(const M& model, const std::vector<real<M>>& w, const Batch<real<M>>& batch) {
    std::vector<real<M>> out(w.size());
    return model.gradient(w, batch, out);
}
template <class M>
std::vector<real<M>> logits(const M& model, const std::vector<real<M>>& w, const Batch<real<M>>& batch) {
    std::vector<real<M>> out(batch.size() * model.outputs(), std::numeric_limits<real<M>>::quiet_NaN());
    model.logits(w, batch, out);
    return out;
}
template <class M>
std::vector<real<M>> predictions(const M& model, const std::vector<real<M>>& w, const Batch<real<M>>& batch) {
    std::vector<real<M>> out(batch.size() * model.outputs(), std::numeric_limits<real<M>>::quiet_NaN());
    model.predict(w, batch, out);
    return out;
}
template <class M>
std::vector<real<M>> toy_parameters(const M& model) {
    return toy_numbers<real<M>>(dimension(model), 21);
}

template <class M>
double gradient_error(const M& model, const Batch<double>& batch) {
    const auto w = toy_parameters(model);
    const auto by_parameters = [&](const std::vector<double>& at) { return loss(model, at, batch); };
    return relative_error(gradient(model, w, batch), finite_differences(by_parameters, w));
}

constexpr double tolerance = 1e-6;  // see finite_differences.hpp: the differences themselves are good to about 1e-9

std::vector<std::string> part_names(Layout layout) {
    std::vector<std::string> out;
    for (const auto& s : layout) out.push_back(std::string(s.name.view()) + " " + std::string(name_of(s.part)));
    return out;
}
using Names = std::vector<std::string>;

// What a user writes: where the parameters are, the loss with its gradient, and a prediction.
struct Mine {
    using Real = double;
    [[maybe_unused]] static constexpr Offers offers{};
    static constexpr std::array<Segment, 1> segments{Segment{.name = "w", .shape = {2, 1, 1, 1}, .fan_in = 2}};
    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<double> x, const Batch<double>&, Out<double> out) const {
        out[0] = x[0];
        out[1] = x[1];
        return (x[0] * x[0] + x[1] * x[1]) / 2;
    }
    void predict(In<double>, const Batch<double>&, Out<double> out) const {
        for (double& o : out) o = 0;
    }
};
static_assert(Model<Mine>);
static_assert(!FusedModel<Mine> && !InitializedModel<Mine> && !CountedModel<Mine> && !LogitModel<Mine> &&
              !FeatureModel<Mine>);

// Near-misses: Mine with one thing wrong.
struct Unreal : Mine {
    using Real = int;
    [[maybe_unused]] static constexpr Offers offers{};
};
struct Unplaced : Mine {
    int layout() const { return 0; }
};
struct Lossless : Mine {
    void gradient(In<double>, const Batch<double>&, Out<double>) const {}
};
struct Changing : Mine {
    double gradient(In<double>, const Batch<double>&, Out<double>) { return 0; }  // not const
};
struct Narrow : Mine {
    double gradient(In<float>, const Batch<float>&, Out<float>) const { return 0; }
};
struct Answering : Mine {
    double predict(In<double>, const Batch<double>&, Out<double>) const { return 0; }
};
struct Unique : Mine {
    Unique() = default;
    Unique(const Unique&) = delete;
    Unique& operator=(const Unique&) = delete;
};
struct Nameless {
    Layout layout() const { return {}; }
};
static_assert(!Model<Unreal> && !Model<Unplaced> && !Model<Lossless> && !Model<Changing> && !Model<Narrow>);
static_assert(!Model<Answering> && !Model<Unique> && !Model<Nameless> && !Model<int>);

struct Started : Mine {
    void initialize(Out<double> x, Key) const {
        x[0] = 3;
        x[1] = 4;
    }
};
static_assert(InitializedModel<Started>);

static_assert(Model<Deep> && LogitModel<Deep> && FeatureModel<Deep> && CountedModel<Deep>);
static_assert(!InitializedModel<Deep> && FusedModel<Deep> && FusedModel<Single>);
static_assert(Model<Mclr<5, 3>> && Model<Dnn<5, 4, 3>>);

}  // namespace

TEST_CASE("softmax regression: worked by hand") {
    // One example x = 1, label 0, logits (0, ln 3): probabilities 1/4 and 3/4.
    const Mclr<1, 2, double> model;
    const auto data = data::Dataset::own(std::vector<double>{1}, {0}, 2);
    const auto ids = first_ids(1);
    const Batch<double> batch(data.examples(), ids);
    const std::vector<double> w{0, std::log(3.0), 0, 0};
    CHECK(loss(model, w, batch) == doctest::Approx(std::log(4.0)).epsilon(1e-15));
    const auto g = gradient(model, w, batch);
    const std::vector<double> expected{-0.75, 0.75, -0.75, 0.75};
    CHECK(relative_error(g, expected) < 1e-15);  // a few roundings of 1e-16
    const auto p = predictions(model, w, batch);
    CHECK(p[0] == doctest::Approx(std::log(0.25)).epsilon(1e-15));
    CHECK(p[1] == doctest::Approx(std::log(0.75)).epsilon(1e-15));
    CHECK(logits(model, w, batch) == std::vector<double>{0, std::log(3.0)});

    // A weight multiplies loss and gradient; it does not enter the mean's denominator.
    const std::vector<double> weights{3};
    const Batch<double> weighted(data.examples(), ids, weights);
    CHECK(loss(model, w, weighted) == doctest::Approx(3 * std::log(4.0)).epsilon(1e-15));
    CHECK(gradient(model, w, weighted)[0] == doctest::Approx(-2.25).epsilon(1e-15));
}

TEST_CASE("gradients by differences: models, batches, weights, draws, kernel sets") {
    const auto data = toy_dataset<double>(7, 5, 3);
    const std::vector<Index> ids{0, 1, 2, 3, 4, 5, 6}, some{4, 2, 4};
    const std::vector<double> weights{0.5, 0, 2, 1, 3, 0.25, 1.5};
    const Key draw = Key{3}(purpose::dropout);
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        for (const auto& batch :
             {Batch<double>(data.examples(), ids), Batch<double>(data.examples(), some),
              Batch<double>(data.examples(), ids, weights), Batch<double>(data.examples(), ids, {}, &draw),
              Batch<double>(data.examples(), ids, weights, &draw), Batch<double>(data.examples(), ids).part(2, 1)}) {
            CHECK(gradient_error(Mclr<5, 3, double>{}, batch) < tolerance);
            CHECK(gradient_error(Dnn<5, 4, 3, double>{}, batch) < tolerance);
            CHECK(gradient_error(Deep{}, batch) < tolerance);
            CHECK(gradient_error(Single{}, batch) < tolerance);
        }
    });
}

TEST_CASE("negative control: the gradient of another batch is not this one's") {
    const auto data = toy_dataset<double>(7, 5, 3);
    const auto ids = first_ids(7);
    const std::vector<Index> others{0, 1, 2, 3, 4, 5, 5};
    const Deep model;
    const auto w = toy_parameters(model);
    const Batch<double> batch(data.examples(), ids), other(data.examples(), others);
    const auto differences = finite_differences([&](const auto& at) { return loss(model, at, batch); }, w);
    CHECK(relative_error(gradient(model, w, batch), differences) < tolerance);
    CHECK(relative_error(gradient(model, w, other), differences) > tolerance);
}

TEST_CASE("the gradient of a batch is the mean of the gradients of its examples") {
    const auto data = toy_dataset<double>(7, 5, 3);
    const auto ids = first_ids(7);
    const std::vector<double> weights{0.5, 0, 2, 1, 3, 0.25, 1.5};
    const Deep model;
    const auto w = toy_parameters(model);
    for (const auto& batch : {Batch<double>(data.examples(), ids), Batch<double>(data.examples(), ids, weights)}) {
        std::vector<double> mean(w.size());
        double mean_loss = 0;
        for (std::size_t i = 0; i < 7; ++i) {
            const auto g = gradient(model, w, batch.part(i, 1));
            for (std::size_t j = 0; j < w.size(); ++j) mean[j] += g[j] / 7;
            mean_loss += loss(model, w, batch.part(i, 1)) / 7;
        }
        // Both sides round some twenty times per entry, entries weigh down to a hundredth of the largest: 2e-13.
        CHECK(relative_error(gradient(model, w, batch), mean) < 1e-12);
        CHECK(loss(model, w, batch) == doctest::Approx(mean_loss).epsilon(1e-14));
    }
}

TEST_CASE("predictions are the log-softmax of the logits and sum to one") {
    const auto data = toy_dataset<double>(7, 5, 3);
    const auto ids = first_ids(7);
    const Batch<double> batch(data.examples(), ids);
    const Deep model;
    for (const double size : {1.0, 100.0, 10'000.0}) {  // the last would overflow exp
        CAPTURE(size);
        auto w = toy_parameters(model);
        for (double& v : w) v *= size;
        const auto z = logits(model, w, batch), p = predictions(model, w, batch);
        for (std::size_t i = 0; i < 7; ++i) {
            double sum = 0;
            for (std::size_t c = 0; c < 3; ++c) {
                REQUIRE(std::isfinite(p[3 * i + c]));
                CHECK(p[3 * i + c] <= 0);
                sum += std::exp(p[3 * i + c]);
                // Differences of logits survive; the error is that of numbers as large as the logits.
                CHECK(p[3 * i + c] - p[3 * i] ==
                      doctest::Approx(z[3 * i + c] - z[3 * i]).epsilon(1e-12).scale(std::abs(z[3 * i]) + 1));
            }
            CHECK(sum == doctest::Approx(1).epsilon(1e-12));  // exp of a log good to 1e-16 times its size
        }
    }
}

TEST_CASE("the loss is minus the mean log-probability of the labels") {
    const auto data = toy_dataset<double>(7, 5, 3);
    const auto ids = first_ids(7);
    const Batch<double> batch(data.examples(), ids);
    const Dnn<5, 4, 3, double> model;
    const auto w = toy_parameters(model);
    const auto p = predictions(model, w, batch);
    double expected = 0;
    for (std::size_t i = 0; i < 7; ++i) expected -= p[3 * i + batch.label(i)] / 7;
    CHECK(loss(model, w, batch) == doctest::Approx(expected).epsilon(1e-14));
}

TEST_CASE("pullback is the gradient of <dz, logits>, and the loss goes through it") {
    const auto data = toy_dataset<double>(7, 5, 3);
    const auto ids = first_ids(7);
    const Key draw{5};
    const Deep model;
    const auto w = toy_parameters(model);
    const auto dz = toy_numbers<double>(7 * 3, 8);
    for (const auto& batch : {Batch<double>(data.examples(), ids), Batch<double>(data.examples(), ids, {}, &draw)}) {
        std::vector<double> pulled(w.size(), std::nan(""));
        model.pullback(w, batch, dz, pulled);
        const auto product = [&](const std::vector<double>& at) {
            const auto z = logits(model, at, batch);
            double sum = 0;
            for (std::size_t i = 0; i < z.size(); ++i) sum += dz[i] * z[i];
            return sum;
        };
        CHECK(relative_error(pulled, finite_differences(product, w)) < tolerance);

        auto z = logits(model, w, batch);
        CHECK(SoftmaxCrossEntropy::gradient(batch, Out<double>(z)) == loss(model, w, batch));
        model.pullback(w, batch, z, pulled);
        CHECK(pulled == gradient(model, w, batch));  // the same operations: the same bits
    }
}

TEST_CASE("features are what the last layer reads") {
    const auto data = toy_dataset<double>(7, 5, 3);
    const auto ids = first_ids(7);
    const Batch<double> batch(data.examples(), ids);
    const Deep model;
    REQUIRE(model.feature_width() == 4);
    const auto w = toy_parameters(model);
    std::vector<double> features(7 * 4, std::nan(""));
    model.features(w, batch, features);
    std::vector<double> z(7 * 3);
    backend::Simd::affine(static_cast<const double*>(features.data()), w.data() + 64, w.data() + 76, z.data(), 7, 4, 3);
    CHECK(z == logits(model, w, batch));

    const Mclr<5, 3, double> shallow;  // reads the inputs themselves
    CHECK(shallow.feature_width() == 5);
    std::vector<double> inputs(7 * 5);
    shallow.features(toy_parameters(shallow), batch, inputs);
    const auto expected = batch.inputs();
    CHECK(inputs == std::vector<double>(expected.begin(), expected.end()));

    CHECK(Single{}.feature_width() == 5);  // one layer alone has nothing in front of it
    static_assert(!AlignableModel<Single> && LogitModel<Single>);
}

TEST_CASE("parameter counts are those of the model zoo") {
    static_assert(Mclr<784, 10>::parameters == 7'850 && Mclr<784, 62>::parameters == 48'670);
    static_assert(Mclr<60, 10>::parameters == 610);
    static_assert(Dnn<784, 100, 10>::parameters == 79'510 && Dnn<784, 100, 62>::parameters == 84'762);
    static_assert(Dnn<60, 20, 10>::parameters == 1'430);
    CHECK(dimension(Dnn<60, 20, 10>{}) == 1'430);
    CHECK(Dnn<60, 20, 10>{}.outputs() == 10);
    static_assert(Dnn<60, 20, 10>::inputs == 60);
}

TEST_CASE("the first layer is the input, the last one the head, the rest is body") {
    CHECK(part_names(Dnn<5, 4, 3>{}.layout()) ==
          Names{"0.weight input", "0.bias input", "2.weight head", "2.bias head"});
    CHECK(part_names(Deep{}.layout()) ==
          Names{"0.weight input", "0.bias input", "3.0.weight body", "3.0.bias body", "4.weight head", "4.bias head"});
    // The only layer is the head, whether or not a Sequential holds it.
    CHECK(part_names(Mclr<5, 3>{}.layout()) == Names{"0.weight head", "0.bias head"});
    CHECK(part_names(Single{}.layout()) == Names{"weight head", "bias head"});
    // Nested blocks: the first and last layers inside them.
    const Network<float> blocks(5, chain(chain(Linear{4}, Relu{}, Linear{4}), chain(Linear{3})));
    CHECK(part_names(blocks.layout()) == Names{"0.0.weight input", "0.0.bias input", "0.2.weight body",
                                               "0.2.bias body", "1.0.weight head", "1.0.bias head"});
}

TEST_CASE("operations of a forward pass, by hand") {
    CHECK(Mclr<784, 10>{}.forward_flops() == 2 * 7'840 + 10);
    CHECK(Dnn<784, 100, 10>{}.forward_flops() == (2 * 78'400 + 100) + (2 * 1'000 + 10));
}

TEST_CASE("float agrees with double") {
    using Wide = Dnn<20, 16, 5, double>;
    const auto data = toy_dataset<double>(7, 20, 5);
    const auto ids = first_ids(7);
    const Batch<double> wide_batch(data.examples(), ids);
    const Batch<float> narrow_batch(data.examples(), ids);
    const auto wide_w = toy_parameters(Wide{});
    const std::vector<float> w(wide_w.begin(), wide_w.end());
    const std::vector<double> rounded(w.begin(), w.end());  // the same point for both
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        const auto narrow = gradient(Dnn<20, 16, 5, float>{}, w, narrow_batch);
        // Sums of 20, 16, 5 and 7 terms and a softmax: about 60 roundings of 6e-8, measured against at least a
        // hundredth of the largest entry.
        CHECK(relative_error({narrow.begin(), narrow.end()}, gradient(Wide{}, rounded, wide_batch)) < 60 * 6e-6);
        CHECK(relative_error({narrow.begin(), narrow.end()}, gradient(Wide{}, rounded, wide_batch)) > 0);
        CHECK(loss(Dnn<20, 16, 5, float>{}, w, narrow_batch) ==
              doctest::Approx(loss(Wide{}, rounded, wide_batch)).epsilon(60 * 6e-8));
    });
}

TEST_CASE_TEMPLATE("a network reads every storage alike, bytes through their kernel", R, float, double) {
    std::vector<std::uint8_t> pixels(7 * 19);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
    const auto labels = toy_labels(7, 3, 1);
    const float shift = 72.5f, scale = 0.0125f;
    const auto bytes = data::Dataset::own(pixels, labels, 3).normalised(shift, scale);
    std::vector<R> widened(pixels.size());
    for (std::size_t i = 0; i < pixels.size(); ++i) widened[i] = (R(pixels[i]) - R(shift)) * R(scale);
    const auto numbers = data::Dataset::own(widened, labels, 3);
    const auto ids = first_ids(7);
    const Mclr<19, 3, R> model;
    const auto w = toy_parameters(model);
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        CHECK(gradient(model, w, Batch<R>(bytes.examples(), ids)) ==
              gradient(model, w, Batch<R>(numbers.examples(), ids)));
    });
}

TEST_CASE("dropout acts under a draw and only then") {
    const auto data = toy_dataset<double>(7, 5, 3);
    const auto ids = first_ids(7);
    const Key one{1}, two{2};
    const Deep model;
    const auto w = toy_parameters(model);
    const Batch<double> plain(data.examples(), ids), first(data.examples(), ids, {}, &one),
        second(data.examples(), ids, {}, &two);
    CHECK(logits(model, w, first) == logits(model, w, first));
    CHECK(logits(model, w, first) != logits(model, w, second));
    CHECK(logits(model, w, first) != logits(model, w, plain));
    CHECK(logits(model, w, first.evaluated()) == logits(model, w, plain));
    CHECK(gradient(model, w, first) != gradient(model, w, second));
    const Dnn<5, 4, 3, double> steady;  // no dropout: a draw changes nothing
    CHECK(gradient(steady, toy_parameters(steady), first) == gradient(steady, toy_parameters(steady), plain));
}

TEST_CASE("a row's logits do not depend on the batch around it") {
    const auto data = toy_dataset<float>(20, 33, 3);
    const auto ids = first_ids(20);
    const Dnn<33, 10, 3> model;
    const auto w = toy_parameters(model);
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        const Batch<float> batch(data.examples(), ids);
        const auto all = logits(model, w, batch);
        for (std::size_t i = 0; i < 20; ++i)
            CHECK(logits(model, w, batch.part(i, 1)) == std::vector<float>{all[3 * i], all[3 * i + 1], all[3 * i + 2]});
    });
}

TEST_CASE("a step is not fused when it clips, has a mask, or cuts a layer in two") {
    const Deep model;  // layers 0..36, 36..64, 64..79
    const Mask mask(Deep::parameters, true);
    const auto fuses = [&](const Coordinates& on, double clip = 0, const Mask* active = nullptr) {
        return model.fuses(Step<double>{.terms = {.on = on, .active = active}, .clip = clip});
    };
    CHECK(fuses(Coordinates()));
    CHECK_FALSE(fuses(Coordinates(), 1.0));
    CHECK_FALSE(fuses(Coordinates(), 0, &mask));
    CHECK(fuses(Coordinates::range(36, 64)));
    CHECK_FALSE(fuses(Coordinates::range(36, 63)));
    CHECK_FALSE(fuses(Coordinates::range(35, 64)));
    CHECK(fuses(Coordinates::none()));
    const Single single;
    CHECK(single.fuses(Step<double>{}));
    CHECK_FALSE(single.fuses(Step<double>{.terms = {.on = Coordinates::range(0, 15)}}));  // weights without biases
}

TEST_CASE("an empty batch has no loss and no gradient") {
    const auto data = toy_dataset<double>(7, 5, 3);
    const Batch<double> empty(data.examples(), {});
    const Deep model;
    const auto w = toy_parameters(model);
    CHECK(loss(model, w, empty) == 0);
    CHECK(gradient(model, w, empty) == std::vector<double>(w.size()));
    CHECK(predictions(model, w, empty).empty());
}

TEST_CASE("settings of layers reach the network") {
    const auto net = [](Dropout first) { return Network<double>(400, chain(first, Linear{2})); };
    const auto data = data::Dataset::own(std::vector<double>(400, 1.0), {0}, 2);
    const auto ids = first_ids(1);
    const Key draw{1};
    const Batch<double> batch(data.examples(), ids, {}, &draw);
    const auto dropped = [&](const Network<double>& model) {  // of the 400 numbers that the last layer reads
        std::vector<double> features(400);
        model.features(std::vector<double>(802), batch, features);
        return static_cast<double>(std::count(features.begin(), features.end(), 0.0));
    };
    CHECK(std::abs(dropped(net({.rate = 0.75})) - 300) < 35);    // binomial, deviation 8.7
    CHECK(std::abs(dropped(net({})) - 200) < 40);  // deviation 10
}

TEST_CASE("initial parameters are uniform within 1/sqrt(fan_in), keyed, or the model's own") {
    const Dnn<100, 64, 10, double> model;
    const auto x = initial_parameters(model, Key{1});
    REQUIRE(x.size() == model.parameters);
    for (const auto& s : model.layout()) {
        const double bound = 1 / std::sqrt(static_cast<double>(s.fan_in));
        double largest = 0, square = 0;
        for (std::size_t j = s.offset; j < s.end(); ++j) {
            largest = std::max(largest, std::abs(x[j]));
            square += x[j] * x[j] / static_cast<double>(s.size());
        }
        CHECK(largest <= bound);
        CHECK(largest > 0.7 * bound);  // ten draws all below that: 0.7^10 = 3 %, and it is a fixed draw
        // Variance b^2/3; x^2 has deviation 0.3 b^2, so four standard errors.
        CHECK(std::abs(square - bound * bound / 3) <
              4 * 0.3 * bound * bound / std::sqrt(static_cast<double>(s.size())));
    }
    CHECK(initial_parameters(model, Key{1}) == x);
    CHECK(initial_parameters(model, Key{2}) != x);
    CHECK(initial_parameters(Started{}, Key{1}) == Vec<double>{3, 4});
    CHECK(initial_parameters(Mine{}, Key{1}) != initial_parameters(Started{}, Key{1}));
    struct Zero : Mine {
        Layout layout() const {
            static constexpr std::array<Segment, 1> s{Segment{.name = "w", .shape = {3, 1, 1, 1}, .fan_in = 0}};
            return s;
        }
    };
    CHECK(initial_parameters(Zero{}, Key{1}) == Vec<double>(3));
}

TEST_CASE("a user's model is a model like any other") {
    const auto data = toy_dataset<double>(3, 2, 2);
    const auto ids = first_ids(3);
    const Batch<double> batch(data.examples(), ids);
    CHECK(dimension(Mine{}) == 2);
    CHECK(gradient_error(Mine{}, batch) < tolerance);
    CHECK(on<scope::Named<"w">>(Mine{}).size(2) == 2);
}

}  // namespace network_test
