// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/rule/dp_sgd.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/data/dataset.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/sgd.hpp>

#include <support/bits.hpp>
#include <support/keyed_noise.hpp>
#include <support/slope.hpp>

namespace dp_sgd_test {

using namespace tessera;
using support::distance;
using support::same_bits;
using support::Slope;

namespace {

using Private = rule::DpSgd<support::KeyedNoise>;
using Shuffled = rule::DpSgd<support::KeyedNoise, sampling::Epochs>;
constexpr double infinity = std::numeric_limits<double>::infinity();

// One client with rows of D numbers, each the gradient of its example.
template <class M, class R = real<M>>
class Place {
public:
    Place(std::vector<R> rows, std::size_t n, std::size_t batch)
        : pool_(data::Dataset::own(std::move(rows), std::vector<std::int32_t>(n), 4)), ids_(n), batch_(batch) {
        for (std::size_t i = 0; i < n; ++i) ids_[i] = static_cast<Index>(i);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    Context<M> context(std::uint64_t key = 3, std::size_t round = 0) {
        return {.model = &model_, .examples = &pool_.examples(), .ids = ids_, .key = Key{key}, .batch = batch_,
                .round = round, .workspace = &workspace};
    }
    Workspace<R> workspace;

private:
    M model_;
    data::Dataset pool_;
    std::vector<Index> ids_;
    std::size_t batch_;
};

// The gradient of an example is its row.
template <std::size_t d>
struct RowGradient {
    using Real = float;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 1> segments{Segment{.name = "w", .shape = {d, 1, 1, 1}}};
    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<float>, const Batch<float>& b, Out<float> out) const {
        std::copy_n(b.row(0), d, out.begin());
        return 0;
    }
    void predict(In<float>, const Batch<float>&, Out<float>) const {}
};

template <class R>
std::vector<R> some_rows(std::size_t n, std::size_t width, double scale = 1) {
    Stream draw(Key{21});
    std::vector<R> rows(n * width);
    for (auto& v : rows) v = static_cast<R>(scale * draw.normal());
    return rows;
}

template <class M, class Q>
Vec<real<M>> walked(Context<M> at, const Q& rule, Vec<real<M>> x, std::size_t epochs,
                    const Terms<real<M>>& terms = {}) {
    descend(at, x, at.epochs(epochs), rule, terms);
    return x;
}

}  // namespace

TEST_CASE_TEMPLATE("L-ADA-11: no noise, no clipping, all examples: the plain step on all data", R, float, double) {
    using Net = nn::Dnn<8, 7, 4, R>;
    Place<Net> place(some_rows<R>(30, 8), 30, 0);
    Vec<R> x(Net::parameters);
    Stream draw(Key{1});
    for (auto& v : x) v = static_cast<R>(0.3 * draw.normal());
    Vec<R> prox_center(x.size(), R(0.1)), linear(x.size(), R(0.01));
    const Terms<R> terms{.prox_center = prox_center, .prox_weight = 0.7, .linear = linear};
    const rule::Sgd plain{.rate = 0.2, .momentum = 0.5, .weight_decay = 0.1};
    const Private priv{
        .rate = 0.2, .clip = infinity, .noise = 0, .sampling_rate = 1, .momentum = 0.5, .weight_decay = 0.1};
    const Shuffled shuffled{.rate = 0.2, .clip = infinity, .noise = 0, .momentum = 0.5, .weight_decay = 0.1};
    priv.validate();
    const auto expected = walked(place.context(), plain, x, 5, terms);
    const double rounding = sizeof(R) == 4 ? 2e-6 : 1e-14;  // five steps; a mean against a sum and a division
    CHECK(distance(walked(place.context(), priv, x, 5, terms), expected) < rounding);
    CHECK(distance(walked(place.context(), shuffled, x, 5, terms), expected) < rounding);
    // Each of the three matters
    auto other = priv;
    other.noise = 0.01, other.clip = 1;
    CHECK(distance(walked(place.context(), other, x, 5, terms), expected) > 1e-4);
    other = priv;
    other.clip = 0.5;
    CHECK(distance(walked(place.context(), other, x, 5, terms), expected) > 1e-4);
    other = priv;
    other.sampling_rate = 0.5;
    CHECK(distance(walked(place.context(), other, x, 5, terms), expected) > 1e-4);
}

// n = 1e6 numbers: the deviation of a variance is sqrt(2/n) = 0.0014 of it. The bound of 0.005 is 3.5 of them and the
// stream is fixed; noise that is 1 % too small lies at 14 of them and is always seen.
TEST_CASE("L-ADA-11: the variance of a step is (rate noise clip / B)^2, whatever came") {
    constexpr std::size_t d = 1000, steps = 1000;
    using M = Slope<float, d>;
    Place<M> place(std::vector<float>(10 * d), 10, 2);  // ten examples without any gradient, five batches of two
    const auto variance = [&](const Private& rule) {
        const auto at = place.context();
        auto step = walk(at, rule);
        double squares = 0;
        const auto batches = at.epochs(steps / 5);
        for (const auto b : batches) {
            Vec<float> x(d);
            step(x, b);
            for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
        }
        return squares / static_cast<double>(d * batches.size());
    };
    const auto relative = [&](const Private& rule, double noise) {
        return std::fabs(variance(rule) / std::pow(rule.rate * noise * rule.clip / 2, 2) - 1);
    };
    const Private rule{.rate = 0.3, .clip = 2.5, .noise = 1.1};
    CHECK(relative(rule, 1.1) < 0.005);
    CHECK(relative({.rate = 0.3, .clip = 2.5, .noise = 1.1 * 0.99}, 1.1) > 0.005);
    CHECK(relative({.rate = 0.3, .clip = 5, .noise = 0.55}, 0.55) < 0.005);
}

// 1e6 gradients with entries of 1e-45 to 3e38, subnormal, and now and then NaN or infinite, one example at a time.
TEST_CASE("no example contributes more than the norm, whatever it is") {
    constexpr std::size_t n = 1'000'000, d = 3;
    Stream draw(Key{13});
    std::vector<float> rows(n * d);
    for (auto& v : rows) {
        const auto word = draw.word();
        const float sign = word & 1 ? -1.0f : 1.0f;
        if (word >> 1 & 1) v = sign * std::exp2(static_cast<float>(word >> 8 & 0xFF) - 128.0f);
        else if ((word >> 8 & 0xFF) == 0) v = sign * std::numeric_limits<float>::infinity();
        else if ((word >> 8 & 0xFF) == 1) v = std::numeric_limits<float>::quiet_NaN();
        else if ((word >> 8 & 0xFF) == 2) v = sign * std::numeric_limits<float>::denorm_min();
        else if ((word >> 8 & 0xFF) == 3) v = sign * std::numeric_limits<float>::max();
        else v = sign * static_cast<float>(word >> 16) * 1e-4f;
    }
    const auto pool = data::Dataset::own(std::move(rows), std::vector<std::int32_t>(n), 1);
    const Clip<float> clip{.norm = 0.7};
    Vec<float> x(d), out(d);
    double most = 0;
    std::size_t at_norm = 0, nothing = 0;
    for (Index i = 0; i < n; ++i) {
        const Batch<float> one(pool.examples(), std::span(&i, 1));
        clipped_sum(RowGradient<d>{}, In<float>(x), one, clip, Out<float>(out));
        double squared = 0;
        for (const float g : out) squared += static_cast<double>(g) * static_cast<double>(g);
        const double length = std::sqrt(squared);
        REQUIRE(std::isfinite(length));
        most = std::max(most, length);
        at_norm += length > 0.999 * clip.norm;
        nothing += length == 0;
    }
    CHECK(most <= clip.norm);
    CHECK(most > clip.norm * (1 - 0x1p-19));  // and nothing is given away
    CHECK(at_norm > n / 2);
    CHECK(nothing > n / 200);  // 1.2 % of the rows are not finite
}

TEST_CASE("the factor is exactly one within the norm, and a hair less than asked outside") {
    const Clip<float> clip{.norm = 2};
    CHECK(clip.factor(0) == 1);
    CHECK(clip.factor(3.9) == 1);
    CHECK(clip.factor(16) == 0.5 * (1 - 0x1p-20));
    CHECK(clip.factor(infinity) == 0);
    CHECK(clip.factor(std::numeric_limits<double>::quiet_NaN()) == 0);
    CHECK(Clip<float>{}.factor(1e300) == 1);
}

TEST_CASE("samples are Poisson: sizes vary, examples are alike and independent, the divisor is fixed") {
    constexpr std::size_t n = 50, steps = 4000;
    Place<Slope<double, 1>> place(std::vector<double>(n, 1), n, 10);
    const auto at = place.context();
    const auto batches = at.poisson(0.2, steps, Key{4});
    REQUIRE(batches.size() == steps);
    std::vector<double> seen(n);
    double sizes = 0, squares = 0, together = 0;
    for (const auto b : batches) {
        const auto size = static_cast<double>(b.size());
        sizes += size;
        squares += size * size;
        bool zero = false, one = false;
        for (const Index i : b.ids()) {
            seen[i] += 1;
            zero = zero || i == 0;
            one = one || i == 1;
        }
        together += zero && one;
    }
    // Binomial(50, 0.2): mean 10, variance 8. Bounds are four deviations of the estimates; the stream is fixed.
    const double mean = sizes / steps;
    CHECK(std::fabs(mean - 10) < 4 * std::sqrt(8.0 / steps));
    CHECK(std::fabs(squares / steps - mean * mean - 8) < 4 * 8 * std::sqrt(2.0 / steps));
    for (const double times : seen) CHECK(std::fabs(times - 800) < 4 * std::sqrt(4000 * 0.2 * 0.8));
    CHECK(std::fabs(together - 160) < 4 * std::sqrt(4000 * 0.04 * 0.96));
    CHECK(at.poisson(0, 3, Key{4})[2].size() == 0);
    CHECK(at.poisson(1, 1, Key{4})[0].size() == n);

    // A step moves by |S| / (q n): shuffled batches of ten always by one, samples by one on average.
    double sum = 0, spread = 0;
    auto step = walk(at, Private{.rate = 1, .clip = 1, .noise = 0});
    for (const auto b : at.epochs(200)) {
        Vec<double> x(1);
        step(x, b);
        sum -= x[0] / 1000;
        spread += x[0] * x[0] / 1000;
    }
    CHECK(std::fabs(sum - 1) < 4 * std::sqrt(0.08 / 1000));
    CHECK(std::fabs(spread - sum * sum - 0.08) < 0.02);
    Vec<double> x(1);
    auto shuffled = walk(at, Shuffled{.rate = 1, .clip = 1.01, .noise = 0});
    for (const auto b : at.epochs(2)) shuffled(x, b);
    CHECK(std::fabs(x[0] + 10) < 1e-12);
}

TEST_CASE("an empty sample is a step like any other: noise, decay and pull act, and it is paid for") {
    Place<Slope<double, 4>> place(some_rows<double>(8, 4), 8, 1);
    const auto at = place.context();
    const Private rule{.rate = 0.5, .clip = 1, .noise = 2, .sampling_rate = 1e-12};
    const auto b = at.epochs(1)[0];
    Vec<double> x{1, 1, 1, 1}, prox_center{3, 3, 3, 3};
    auto step = walk(at, rule, {.prox_center = prox_center, .prox_weight = 0});
    step(x, b);
    REQUIRE(place.workspace.spent.size() == 1);
    CHECK(place.workspace.spent[0].steps == 1);
    CHECK(place.workspace.spent[0].rate == 1e-12);
    for (const double v : x) CHECK(v != 1);
}

TEST_CASE("what reads no data comes after clip and noise") {
    Place<Slope<double, 2>> place({1e6, 0}, 1, 0);
    const Vec<double> prox_center{-10, 20};
    // A gradient of 1e6 is cut to 0.5 (1 - 2^-20), and the pull of 2 * (0 - prox_center) is not cut at all.
    const Terms<double> terms{.prox_center = prox_center, .prox_weight = 2};
    const auto x = walked(place.context(), Private{.rate = 1, .clip = 0.5, .noise = 0}, Vec<double>{0, 0}, 1, terms);
    CHECK(distance(x, {-0.5 * (1 - 0x1p-20) - 20, 40}) < 1e-12);
    // x = 3 decays by 0.1 * 3
    const auto decayed =
        walked(place.context(), Private{.rate = 1, .clip = 0.5, .noise = 0, .weight_decay = 0.1}, Vec<double>{3, 3}, 1);
    CHECK(distance(decayed, {3 - 0.5 * (1 - 0x1p-20) - 0.3, 3 - 0.3}) < 1e-12);
}

TEST_CASE("the sampler decides the price: Poisson by the step, passes by the pass and twice the norm") {
    Place<Slope<double, 2>> place(some_rows<double>(20, 2), 20, 6);  // four batches a pass, the last of two
    walked(place.context(), Private{.noise = 1.5}, Vec<double>(2), 3);
    REQUIRE(place.workspace.spent.size() == 1);
    CHECK(place.workspace.spent[0].rate == 6 / 20.0);
    CHECK(place.workspace.spent[0].noise == 1.5);
    CHECK(place.workspace.spent[0].steps == 12);
    place.workspace.spent.clear();
    walked(place.context(), Shuffled{.noise = 1.5}, Vec<double>(2), 3);
    REQUIRE(place.workspace.spent.size() == 1);
    CHECK(place.workspace.spent[0].rate == 1);
    CHECK(place.workspace.spent[0].noise == 0.75);
    CHECK(place.workspace.spent[0].steps == 3);
}

TEST_CASE("frozen coordinates stay, get no noise and do not count; noise is replayed from the seed and never reused") {
    Place<Slope<double, 6>> place(some_rows<double>(12, 6), 12, 3);
    Coordinates some = Coordinates::range(0, 2);
    some.add({4, 5});
    const Private rule{.rate = 0.1, .clip = 1, .noise = 1};
    const Vec<double> origin(6, 1);
    place.workspace.tally = {};
    const auto x = walked(place.context(), rule, origin, 2, {.on = some});
    for (const std::size_t j : {2u, 3u, 5u}) CHECK(x[j] == 1);
    for (const std::size_t j : {0u, 1u, 4u}) CHECK(x[j] != 1);
    place.workspace.tally = {};
    CHECK(same_bits(x, walked(place.context(), rule, origin, 2, {.on = some})));
    CHECK_FALSE(
        same_bits(x, walked(place.context(), rule, origin, 2, {.on = some})));  // the visit goes on: other noise
    place.workspace.tally = {};
    CHECK_FALSE(same_bits(x, walked(place.context(4), rule, origin, 2, {.on = some})));
    place.workspace.tally = {};
    CHECK_FALSE(same_bits(x, walked(place.context(3, 1), rule, origin, 2, {.on = some})));
    auto secret = rule;
    secret.source.source = privacy::Source::system;
    place.workspace.tally = {};
    const auto once = walked(place.context(), secret, origin, 2);
    place.workspace.tally = {};
    CHECK_FALSE(same_bits(once, walked(place.context(), secret, origin, 2)));
}

TEST_CASE("the ranges of a scope get noise of their own") {
    Place<Slope<double, 6>> place(std::vector<double>(12 * 6), 12, 3);  // no gradient: a step is its noise
    Coordinates two = Coordinates::range(0, 2);
    two.add({4, 6});
    const auto x = walked(place.context(), Private{.rate = 0.1, .clip = 1, .noise = 1}, Vec<double>(6), 1, {.on = two});
    CHECK(x[0] != 0);
    CHECK(x[0] != x[4]);
    CHECK(x[1] != x[5]);
}

TEST_CASE("settings that cannot be are refused") {
    const auto refused = [](const Private& rule) {
        try {
            rule.validate();
            return std::string();
        } catch (const ConfigError& error) {
            return std::string(error.what());
        }
    };
    CHECK(refused({}).empty());
    CHECK(refused({.clip = 0}) == "clip must be a positive norm, not 0.000000");
    CHECK(refused({.clip = infinity, .noise = 1}) == "noise has the size of clip: give clip a norm, or set noise to 0");
    CHECK(refused({.clip = infinity, .noise = 0}).empty());
    CHECK_FALSE(refused({.noise = -1}).empty());
    CHECK_FALSE(refused({.sampling_rate = 1.5}).empty());
    CHECK_FALSE(refused({.momentum = 1}).empty());
    CHECK_FALSE(refused({.rate = -1}).empty());
    CHECK_FALSE(refused({.weight_decay = -1}).empty());
    CHECK_FALSE(refused({.weight_decay = infinity}).empty());
}

}  // namespace dp_sgd_test
