// SPDX-License-Identifier: BSD-3-Clause
// A label a position, several targets: what losses cost, and what networks make of them.
#include <tessera/nn/loss.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/nn/any_loss.hpp>
#include <tessera/nn/attention.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/recurrent.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/finite_differences.hpp>
#include <support/toy_numbers.hpp>

namespace task_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using support::toy_numbers;

const conformance::Complaints none;
const std::vector<Index> three{0, 1, 2};

// Three examples of four positions, of which 3, 1 and 0 have a label.
const std::vector<std::int32_t> some{2, -1, 0, 1, -1, -1, 1, -1, -1, -1, -7, -1};
data::Dataset sequences(std::size_t width = 4) {
    return data::Dataset::own(toy_numbers<double>(3 * width, 5), some, 3, 4);
}
double log_p(const std::vector<double>& z, std::size_t row, std::size_t c) {
    double sum = 0;
    for (std::size_t j = 0; j < 3; ++j) sum += std::exp(z[row * 3 + j]);
    return z[row * 3 + c] - std::log(sum);
}

// The loss of one label an example, as it stood before there were several.
template <class R>
double one_label(const Batch<R>& batch, Out<R> z) {
    const std::size_t rows = batch.size(), classes = z.size() / rows;
    const R share = R(1) / static_cast<R>(rows);
    Scratch<R> chosen(rows), top(rows), sum(rows);
    for (std::size_t i = 0; i < rows; ++i) chosen[i] = z[i * classes + batch.label(i)];
    kernels::softmax_rows(z.data(), rows, classes, top.data(), sum.data(), nullptr);
    double loss = 0;
    for (std::size_t i = 0; i < rows; ++i) {
        const R scale = batch.weight(i) * share, part = scale / sum[i];
        loss += static_cast<double>(scale) *
                (std::log(static_cast<double>(sum[i])) - static_cast<double>(chosen[i] - top[i]));
        R* row = z.data() + i * classes;
        for (std::size_t c = 0; c < classes; ++c) row[c] *= part;
        row[batch.label(i)] -= scale;
    }
    return loss;
}
template <class R>
void keeps_its_bits() {
    std::vector<std::int32_t> labels;
    for (std::int32_t i = 0; i < 37; ++i) labels.push_back(i * i % 10);
    const auto data = data::Dataset::own(std::vector<R>(37), labels, 10);
    std::vector<Index> ids;
    for (Index i = 0; i < 37; ++i) ids.push_back((i * 5) % 37);
    const auto weights = toy_numbers<R>(37, 2);
    for (const bool weighted : {false, true})
        for (const bool alone : {false, true}) {
            const Batch<R> batch(data.examples(), ids, weighted ? In<R>(weights) : In<R>{});
            auto a = toy_numbers<R>(370, 3), b = a;
            CHECK(one_label(batch, Out<R>(a)) == SoftmaxCrossEntropy::gradient(batch, Out<R>(b), {1, alone}));
            CHECK(a == b);
        }
}

}  // namespace

TEST_CASE("one label an example costs what it did, bit for bit") {
    keeps_its_bits<float>();
    keeps_its_bits<double>();
}

TEST_CASE("several labels: the mean over those that are there, by hand and by differences") {
    const auto data = sequences();
    const std::vector<double> weights{2, 0.5, 3};
    const Batch<double> batch(data.examples(), three), weighted(data.examples(), three, weights);
    CHECK(batch.label(0, 0) == 2);
    CHECK(batch.label(2, 2) < 0);
    CHECK(batch.labelled() == 4);
    const auto z = toy_numbers<double>(36, 4);
    const double first = -log_p(z, 0, 2) - log_p(z, 2, 0) - log_p(z, 3, 1), second = -log_p(z, 6, 1);
    const auto value = [&](const Batch<double>& b, std::vector<double> at, bool alone = false) {
        return SoftmaxCrossEntropy::gradient<double>(b, at, {4, alone});
    };
    CHECK(value(batch, z) == doctest::Approx((first + second) / 4).epsilon(1e-14));
    CHECK(value(weighted, z) == doctest::Approx((2 * first + 0.5 * second) / 4).epsilon(1e-14));
    // Each example by itself: its own mean, whoever else is there.
    CHECK(value(batch, z, true) == doctest::Approx((first / 3 + second) / 3).epsilon(1e-14));
    for (const bool alone : {false, true}) {
        auto slope = z;
        SoftmaxCrossEntropy::gradient<double>(weighted, slope, {4, alone});
        CHECK(support::relative_error(
                  slope, support::finite_differences([&](auto at) { return value(weighted, at, alone); }, z)) < 1e-8);
        for (const std::size_t row : {1u, 4u, 5u, 7u, 8u, 9u, 10u, 11u})
            for (std::size_t c = 0; c < 3; ++c) CHECK(slope[row * 3 + c] == 0);
    }
}

TEST_CASE("a position without a label costs nothing, not even where its outputs are no numbers") {
    const auto data = sequences();
    const Batch<double> batch(data.examples(), three);
    auto z = toy_numbers<double>(36, 4);
    auto plain = z, broken = z;
    const double loss = SoftmaxCrossEntropy::gradient<double>(batch, plain, {4});
    broken[3] = std::numeric_limits<double>::infinity();
    broken[24] = std::nan("");
    CHECK(SoftmaxCrossEntropy::gradient<double>(batch, broken, {4}) == loss);
    CHECK(plain == broken);
    const std::vector<Index> last{2};
    auto nothing = std::vector<double>(z.begin() + 24, z.end());
    CHECK(SoftmaxCrossEntropy::gradient<double>(Batch<double>(data.examples(), last), nothing, {4}) == 0);
    CHECK(nothing == std::vector<double>(12));
}

TEST_CASE("judged: every label that is there counts once") {
    const auto data = sequences();
    const Batch<double> batch(data.examples(), three);
    auto z = toy_numbers<double>(36, 4);
    z[0] = z[1] = 0, z[2] = 1;       // label 2: right
    z[6] = 1, z[7] = 1, z[8] = 0;    // label 0: a tie goes to the lowest
    z[9] = 3, z[10] = 2, z[11] = 1;  // label 1: wrong
    z[18] = z[19] = z[20] = 0;       // label 1: a tie, wrong
    const auto raw = z;
    SoftmaxCrossEntropy::predict<double>(z, 12, {4});
    for (std::size_t row = 0; row < 12; ++row)
        for (std::size_t c = 0; c < 3; ++c) CHECK(z[row * 3 + c] == doctest::Approx(log_p(raw, row, c)).epsilon(1e-14));
    std::vector<std::uint8_t> right;
    Judgement all{.each = &right};
    SoftmaxCrossEntropy::judge<double>(batch, z, all);
    CHECK(all.counted == 4);
    CHECK(all.right == 2);
    CHECK(right == std::vector<std::uint8_t>{1, 1, 0, 0});
    auto slope = raw;
    CHECK(all.loss / 4 == doctest::Approx(SoftmaxCrossEntropy::gradient<double>(batch, slope, {4})).epsilon(1e-14));
}

TEST_CASE("networks with a label a position: differences, fused steps, masks, clipped sums") {
    std::vector<float> words;
    Stream draw(Key{3});
    for (int i = 0; i < 3 * 4; ++i) words.push_back(static_cast<float>(draw.below(6)));
    const auto data = data::Dataset::own(words, some, 3, 4);
    const Batch<double> batch(data.examples(), three);
    const Network<double> lstm(4, chain(Embedding{6, 3, true}, Lstm{4}, Linear{3}));
    const Network<double> attention(4, chain(Embedding{6, 4, true}, residual(Attention{2}), Linear{3}));
    for (const auto& net : {lstm, attention}) {
        CHECK(net.positions() == 4);
        CHECK(conformance::check_gradients(net, batch) == none);
        const auto x = initial_parameters(net, Key{1});
        Vec<double> ghost(x.size()), slow(x.size()), mean(x.size());
        for (const double norm : {0.2, 1e9}) {
            net.clipped_sum(x, batch, {.norm = norm}, ghost);
            clipped_sum_one_by_one(net, In<double>(x), batch, {.norm = norm}, Out<double>(slow));
            CHECK(conformance::detail::distance(ghost, slow) < 1e-12);
        }
        // Without clipping the sum is that of the examples' own means, not the mean over all labels.
        net.gradient(x, batch, mean);
        for (double& g : mean) g *= 3;
        CHECK(conformance::detail::distance(ghost, mean) > 1e-3);
        // An example without labels moves nothing.
        const std::vector<Index> last{2}, two{0, 1};
        net.clipped_sum(x, Batch<double>(data.examples(), last), {.norm = 0.2}, slow);
        CHECK(slow == Vec<double>(x.size()));
        net.clipped_sum(x, Batch<double>(data.examples(), two), {.norm = 1e9}, slow);
        CHECK(conformance::detail::distance(ghost, slow) < 1e-12);
    }
    const Network<double> by_hand(Shape(4, 3), chain(Linear{3}));
    CHECK(by_hand.positions() == 4);
}

TEST_CASE("several targets: the mean over them, by hand and by differences, in both losses") {
    const auto data = data::Dataset::regression(std::vector<double>{0, 0}, {1, 2, 3, 4, 5, 6}, 3);
    const std::vector<Index> both{1, 0};
    const std::vector<double> weights{2, 1}, z{4.5, 5, 2, 1, 1, 3.25};  // misses 0.5, 0, -4, then 0, -1, 0.25
    const Batch<double> batch(data.examples(), both, weights);
    CHECK(batch.target(0, 2) == 6);
    auto slope = z;
    const double squares = ((0.125 + 0 + 8) / 3 + 2 * (0 + 0.5 + 0.03125) / 3) / 2;
    CHECK(SquaredError::gradient<double>(batch, slope) == doctest::Approx(squares).epsilon(1e-14));
    CHECK(support::relative_error(slope, support::finite_differences(
                                             [&](std::vector<double> at) {
                                                 return SquaredError::gradient<double>(batch, at);
                                             },
                                             z)) < 1e-8);
    slope = z;
    const double linear = ((0.125 + 0 + 3.5) / 3 + 2 * (0 + 0.5 + 0.03125) / 3) / 2;
    CHECK(Huber<>::gradient<double>(batch, slope) == doctest::Approx(linear).epsilon(1e-14));
    CHECK(slope[2] == doctest::Approx(-1.0 / 6).epsilon(1e-14));
    std::vector<float> narrow(z.begin(), z.end());
    const std::vector<float> weights_f{2, 1};
    CHECK(SquaredError::gradient<float>(Batch<float>(data.examples(), both, weights_f), narrow) ==
          doctest::Approx(squares).epsilon(1e-14));  // sums are in double, and these numbers are exact in float
    const Network<double, Huber<>> net(1, recipe::dnn(4, 3));
    CHECK(conformance::check_gradients(net, batch) == none);
}

TEST_CASE("R2 is that of its definition, of parts that are put together as of all at once") {
    const std::vector<double> targets{1e6 + 1, 1e6 + 2, 1e6 + 4, 1e6 + 9}, said{1e6 + 1.5, 1e6 + 2, 1e6 + 3, 1e6 + 9};
    Fit all, first, second;
    for (std::size_t i = 0; i < 4; ++i) {
        all.add(0, targets[i], said[i]);
        (i < 1 ? first : second).add(0, targets[i], said[i]);
    }
    const double r2 = 1 - 1.25 / 38;  // mean 4: 9 + 4 + 0 + 25
    CHECK(all.r2() == doctest::Approx(r2).epsilon(1e-9));  // 1e6 leaves ten digits
    first.add(second);
    CHECK(first.r2() == doctest::Approx(r2).epsilon(1e-9));
    CHECK(first.examples == 4);
    CHECK(std::isnan(Fit{}.r2()));
    const auto data = data::Dataset::regression(std::vector<double>{0, 0}, {1, 10, 3, 30}, 2);
    const std::vector<Index> both{0, 1};
    Judgement of;
    Huber<>::judge<double>(Batch<double>(data.examples(), both), std::vector<double>{1, 12, 3.5, 30}, of);
    CHECK(of.loss == doctest::Approx((0 + 1.5) / 2 + (0.125 + 0) / 2).epsilon(1e-14));
    CHECK(of.fit.r2() == doctest::Approx(1 - (4 + 0.25) / (2 + 200)).epsilon(1e-14));
    CHECK(of.counted == 2);
    CHECK(of.right == 0);
}

TEST_CASE("words in bytes, in whole numbers and as numbers: the same bits, whoever reads them") {
    constexpr std::size_t words = 6, steps = 4;
    std::vector<std::int32_t> whole;
    Stream draw(Key{3});
    for (std::size_t i = 0; i < 3 * steps; ++i) whole.push_back(static_cast<std::int32_t>(draw.below(words)));
    const auto as_numbers = data::Dataset::own(std::vector<float>(whole.begin(), whole.end()), some, 3, 4);
    const auto as_bytes = data::Dataset::own(std::vector<std::uint8_t>(whole.begin(), whole.end()), some, 3, 4);
    const auto as_whole = data::Dataset::own(whole, some, 3, 4);
    const Network<float> net(steps, chain(Embedding{words, 3, true}, Lstm{4}, Linear{3}));
    const auto x = initial_parameters(net, Key{1});
    const std::vector<Index> order{2, 0, 1};
    const auto all_of = [&](const data::Dataset& data) {
        net.accepts(data.examples(), true);
        const Batch<float> batch(data.examples(), order);
        Vec<float> g(x.size()), sum(x.size()), log_p(3 * steps * 3), stepped = x;
        net.gradient(x, batch, g);
        net.clipped_sum(x, batch, {.norm = 0.2}, sum);
        net.predict(x, batch, log_p);
        net.fused_step(stepped, batch, {.rate = 0.1});
        Mask mask(x.size(), true);
        for (std::size_t j = 0; j < x.size(); j += 3) mask.set(j, false);
        const Sparse<Network<float>> sparse(net, mask, 3, Arithmetic::sparse);
        Vec<float> packed;
        for (std::size_t j = 0; j < x.size(); ++j)
            if (mask[j]) packed.push_back(x[j]);
        Vec<float> active(packed.size());
        sparse.gradient(packed, batch, active);
        for (const auto& more : {sum, log_p, stepped, active}) g.insert(g.end(), more.begin(), more.end());
        return g;
    };
    const auto numbers = all_of(as_numbers);
    CHECK(all_of(as_bytes) == numbers);
    CHECK(all_of(as_whole) == numbers);
    const Network<double> wide(steps, chain(Embedding{words, 3}, Lstm{4}, Linear{3}));
    CHECK(conformance::check_gradients(wide, Batch<double>(as_whole.examples(), order)) == none);
    CHECK(conformance::check_gradients(wide, Batch<double>(as_bytes.examples(), order)) == none);
}

TEST_CASE("words that are not there are found before round one, and named") {
    const Network<float> net(2, chain(Embedding{5, 3}, Lstm{4}, Cut{4, 4}, Linear{2}));
    const auto refuses = [&](const data::Dataset& data, const char* sentence) {
        CHECK_THROWS_WITH_AS(net.accepts(data.examples(), true), sentence, ConfigError);
    };
    CHECK_NOTHROW(net.accepts(data::Dataset::own(std::vector<std::int32_t>{0, 4, 3, 2}, {0, 1}, 2).examples(), true));
    const auto five = "nn: example 1 holds 5, which is no word: the model knows 5, named from 0";
    refuses(data::Dataset::own(std::vector<std::int32_t>{0, 4, 3, 5}, {0, 1}, 2), five);
    refuses(data::Dataset::own(std::vector<std::uint8_t>{0, 4, 3, 5}, {0, 1}, 2), five);
    refuses(data::Dataset::own(std::vector<float>{0, 4, 3, 5}, {0, 1}, 2),
            "nn: example 1 holds 5.000000, which is no word: the model knows 5, named from 0");
    refuses(data::Dataset::own(std::vector<std::int32_t>{-1, 4, 3, 0}, {0, 1}, 2),
            "nn: example 0 holds -1, which is no word: the model knows 5, named from 0");
    refuses(data::Dataset::own(std::vector<double>{0, 0.5, 3, 0}, {0, 1}, 2),
            "nn: example 0 holds 0.500000, which is no word: the model knows 5, named from 0");
    refuses(data::Dataset::own(std::vector<std::uint8_t>{0, 4, 3, 2}, {0, 1}, 2).normalised(0, 0.5f),
            "nn: bytes that name words must be read as they are, and these are normalised");
    // Where nobody looked before, the layer does.
    const auto wrong = data::Dataset::own(std::vector<std::int32_t>{0, 4, 3, 5}, {0, 1}, 2);
    const std::vector<Index> both{0, 1};
    Vec<float> out(dimension(net));
    const auto x = initial_parameters(net, Key{1});
    CHECK_THROWS_WITH_AS(net.gradient(x, Batch<float>(wrong.examples(), both), out),
                         "nn::Embedding: an example holds a word that is not there", ConfigError);
}

TEST_CASE("a loss chosen at run time has the bits of that loss") {
    const auto same = [](const auto& data, LossOf kind, auto loss, std::size_t outputs, std::size_t rows) {
        using Loss = decltype(loss);
        const std::vector<Index> all{1, 0};
        const Batch<float> batch(data.examples(), all);
        const auto layers = chain(Linear{4}, Relu{}, Linear{outputs});
        const Shape in = rows > 1 ? Shape(rows, 3) : Shape(3);
        const Network<float, Loss> fixed(in, layers);
        const Network<float, AnyLoss> chosen(in, layers, AnyLoss{kind});
        CHECK(chosen.objective().speaks_logarithms() == Loss::speaks_logarithms());
        chosen.accepts(data.examples(), true);
        const auto x = initial_parameters(fixed, Key{2});
        Vec<float> a(x.size()), b(x.size()), p(2 * outputs * rows), q(p.size());
        CHECK(fixed.gradient(x, batch, a) == chosen.gradient(x, batch, b));
        CHECK(a == b);
        fixed.predict(x, batch, p);
        chosen.predict(x, batch, q);
        CHECK(p == q);
        Judgement one, other;
        fixed.judge(batch, p, one);
        chosen.judge(batch, q, other);
        CHECK(one.loss == other.loss);
        CHECK(one.right == other.right);
        CHECK(one.fit.missed == other.fit.missed);
        CHECK(one.edits == other.edits);
        CHECK(one.meant == other.meant);
        return AnyLoss::fitting(data.examples()).kind == kind;
    };
    const auto rows = toy_numbers<float>(6, 3), sequences = toy_numbers<float>(12, 4);
    CHECK(same(data::Dataset::own(rows, {0, 1}, 2), LossOf::softmax, SoftmaxCrossEntropy{}, 2, 1));
    CHECK(same(data::Dataset::own(sequences, {0, 1, -1, 1}, 2, 2), LossOf::softmax, SoftmaxCrossEntropy{}, 2, 2));
    CHECK(same(data::Dataset::multi_label(rows, {0, 1, 1, 1, 0, 0}, 3), LossOf::binary, BinaryCrossEntropy{}, 3, 1));
    CHECK(same(data::Dataset::regression(rows, {3, 4, 5, 6}, 2), LossOf::squared, SquaredError{}, 2, 1));
    CHECK(!same(data::Dataset::regression(rows, {3, 4, 5, 6}, 2), LossOf::huber, Huber<>{}, 2, 1));
    CHECK(!same(data::Dataset::own(sequences, {1, -1, -1, -1}, 2, 2), LossOf::ctc, Ctc{}, 2, 2));
}

TEST_CASE("tasks that do not fit are refused in a sentence, before and in the first pass") {
    const auto data = sequences(), plain = data::Dataset::own(std::vector<double>(12), {0, 1, 2}, 3);
    const Network<double> flat(4, chain(Linear{3})), positions(Shape(4, 1), chain(Linear{3}));
    CHECK_NOTHROW(positions.accepts(data.examples(), true));
    CHECK_NOTHROW(flat.accepts(plain.examples(), true));
    const auto labels = "nn::SoftmaxCrossEntropy needs a label for each position; the examples have 4, the network 1";
    CHECK_THROWS_WITH_AS(flat.accepts(data.examples(), true), labels, ConfigError);
    CHECK_NOTHROW(flat.accepts(data.examples(), false));  // their rows alone
    CHECK_THROWS_WITH_AS(positions.accepts(plain.examples(), true),
                         "nn::SoftmaxCrossEntropy needs a label for each position; the examples have 1, the network 4",
                         ConfigError);
    Vec<double> out(dimension(flat));
    const auto x = initial_parameters(flat, Key{1});
    CHECK_THROWS_WITH_AS(flat.gradient(x, Batch<double>(data.examples(), three), out), labels, ConfigError);
    const auto wide = data::Dataset::own(std::vector<double>(9), {0, 1, 2}, 3);
    CHECK_THROWS_WITH_AS(flat.accepts(wide.examples(), false),
                         "examples have 3 numbers, the model reads 4", ConfigError);
    const Network<double, SquaredError> two(4, chain(Linear{2}));
    const auto targets = data::Dataset::regression(std::vector<double>(12), {1, 2, 3});
    CHECK_THROWS_WITH_AS(two.accepts(targets.examples(), true),
                         "nn::SquaredError needs an output for each real target of an example", ConfigError);
    CHECK_THROWS_AS(two.accepts(plain.examples(), true), ConfigError);
}

}  // namespace task_test
