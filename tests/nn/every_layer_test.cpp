// SPDX-License-Identifier: BSD-3-Clause
// Masks and routing on every layer there is: one table, the same questions.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/mask/density.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/attention.hpp>
#include <tessera/nn/batch_norm.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/layer_norm.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/recipe.hpp>
#include <tessera/nn/recurrence.hpp>
#include <tessera/nn/recurrent.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/rule/step.hpp>

#include <support/bits.hpp>
#include <support/toy_numbers.hpp>

namespace every_layer_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using support::first_ids;
using support::same_bits;
using support::toy_numbers;

constexpr std::size_t batch = 5, classes = 3, words = 7;

template <class R>
class Data {
public:
    Data(std::size_t width, bool are_words) : pool_(made(width, are_words)), ids_(first_ids(batch)) {}
    Batch<R> training() const { return Batch<R>(pool_.examples(), ids_, {}, &draw_); }
    Batch<R> evaluated() const { return Batch<R>(pool_.examples(), ids_); }

private:
    static data::Dataset made(std::size_t width, bool are_words) {
        auto x = toy_numbers<R>(batch * width, 1);
        for (R& v : x)
            if (are_words) v = std::floor((v + 1) / 2 * static_cast<R>(words));
        return data::Dataset::own(std::move(x), support::toy_labels(batch, classes, 2), classes);
    }
    data::Dataset pool_;
    std::vector<Index> ids_;
    Key draw_{9};
};

template <class R>
Vec<R> numbers(std::size_t n, std::uint64_t seed) {
    const auto x = toy_numbers<R>(n, seed);
    return {x.begin(), x.end()};
}

// On a mask, in each arithmetic: the gradient and the step of zero-filled weights.
void masked(const Network<double>& net, const Batch<double>& b) {
    const Mask mask = mask::drawn(net.layout(), 0.6, mask::Distribution::uniform, Key{3});
    REQUIRE(mask.count() < mask.size());
    auto zeros = numbers<double>(dimension(net), 4);
    for (std::size_t j = 0; j < zeros.size(); ++j)
        if (!mask[j]) zeros[j] = 0;
    Vec<double> dense(zeros.size());
    net.gradient(zeros, b, dense);
    const auto expected = packed(dense, mask);
    Workspace<double> workspace;
    const Context<Network<double>> at{.model = &net, .workspace = &workspace};
    const Step<double> step{.terms = {.active = &mask}, .rate = 0.1, .decay = 0.01};
    auto moved = zeros;
    tessera::take_step(at, moved, b, step);
    for (const auto how : {Arithmetic::sparse, Arithmetic::table, Arithmetic::dense}) {
        const Sparse<Network<double>> sparse(net, mask, batch, how);
        auto x = packed(zeros, mask);
        Vec<double> g(x.size());
        sparse.gradient(x, b, g);
        tessera::take_step(at.with(sparse), x, b, Step<double>{.rate = 0.1, .decay = 0.01});
        const auto after = packed(moved, mask);
        double off = 0, least = 0;
        for (std::size_t j = 0; j < g.size(); ++j) {
            off = std::max({off, std::fabs(g[j] - expected[j]), std::fabs(x[j] - after[j])});
            least = std::max(least, std::fabs(g[j]));
        }
        CHECK(off < 1e-12);  // sums in two orders
        CHECK(least > 1e-6);
    }
}

// Gradients of both branches and of q0 by differences; at q0 = 1 and 0 the branches themselves.
void routed(const Network<double>& net, const Batch<double>& b) {
    const std::size_t blocks = net.routes(MixAt::layer).blocks, d = dimension(net);
    auto g = numbers<double>(d, 5), l = numbers<double>(d, 6);
    auto q0 = toy_numbers<double>(batch * blocks, 7);
    for (double& q : q0) q = 0.5 + 0.4 * q;
    Vec<double> dg(d), dl(d), spare(d);
    std::vector<double> dq(q0.size());
    Given<double> given(q0, blocks, dq);
    net.routed_gradient(g, l, given, b, dg, dl);
    const auto worst = [&](auto& at, const auto& slopes, auto&& counts) {
        double most = 0;
        const std::size_t stride = std::max<std::size_t>(1, at.size() / 40);
        for (std::size_t j = 0; j < at.size(); j += stride) {
            if (!counts(j)) continue;
            double error = 1;
            for (const double by : {1e-5, 1e-6, 1e-7}) {  // a kink may be near
                const double kept = at[j];
                const auto loss = [&](double to) {
                    at[j] = to;
                    Given<double> again(q0, blocks);
                    const double value = net.routed_gradient(g, l, again, b, spare, {});
                    at[j] = kept;
                    return value;
                };
                error = std::min(error, std::fabs((loss(kept + by) - loss(kept - by)) / (2 * by) - slopes[j]));
            }
            most = std::max(most, error);
        }
        return most;
    };
    const auto slope = [&](std::size_t j) {  // running statistics have a step, not a slope
        for (const Segment& s : net.layout())
            if (s.offset <= j && j < s.end()) return s.part != Part::buffer;
        return true;
    };
    CHECK(worst(g, dg, slope) < 1e-7);  // rounding of losses near 1 over 1e-7
    CHECK(worst(l, dl, slope) < 1e-7);
    CHECK(worst(q0, dq, [](std::size_t) { return true; }) < 1e-7);
}

void chosen(const Network<float>& net, const Batch<float>& b) {
    const std::size_t blocks = net.routes(MixAt::layer).blocks;
    const auto g = numbers<float>(dimension(net), 5), l = numbers<float>(dimension(net), 6);
    const auto run = [&](const std::vector<float>& q0, bool hard) {
        std::vector<float> out(batch * net.outputs());
        Given<float> given(q0, blocks);
        if (hard) net.hard_predict(g, l, given, b, out);
        else net.routed_predict(g, l, given, b, out);
        return out;
    };
    const auto plain = [&](const Vec<float>& w) {
        std::vector<float> out(batch * net.outputs());
        net.predict(w, b, out);
        return out;
    };
    const std::vector<float> ones(batch * blocks, 1.0f), zeros(batch * blocks, 0.0f);
    CHECK(run(ones, false) == plain(g));
    CHECK(run(zeros, false) == plain(l));
    CHECK(plain(g) != plain(l));
    auto mixed = toy_numbers<float>(batch * blocks, 8);
    auto choice = mixed;
    for (std::size_t i = 0; i < mixed.size(); ++i) {
        mixed[i] = 0.5f + 0.5f * mixed[i];
        choice[i] = mixed[i] >= 0.5f ? 1.0f : 0.0f;
    }
    const auto hard = run(mixed, true), soft = run(choice, false);
    for (std::size_t i = 0; i < hard.size(); ++i) CHECK(hard[i] == doctest::Approx(soft[i]).epsilon(1e-5));  // other batches
    const auto training = [&](const Vec<float>& w) {
        Vec<float> out(w.size());
        net.gradient(w, b, out);
        return out;
    };
    Vec<float> dg(g.size()), dl(g.size());
    Given<float> given(ones, blocks);
    net.routed_gradient(g, l, given, b, dg, dl);
    CHECK(same_bits(dg, training(g)));
}

template <class L>
void ask(const char* name, const L& layer, Shape in, bool are_words = false) {
    CAPTURE(std::string(name));
    const auto layers = chain(layer, Cut{0, output(in, layer).size()}, Linear{classes});
    const Network<double> net(in, layers);
    const Data<double> data(in.size(), are_words);
    masked(net, data.training());
    routed(net, data.training());
    chosen(Network<float>(in, layers), Data<float>(in.size(), are_words).evaluated());
}

}  // namespace

TEST_CASE("every layer on a mask, and routed softly and by choice") {
    const Shape sequence(4, 6), planes(4, 6, 5);
    ask("Linear", Linear{5}, 6);
    ask("Linear without bias", Linear{5, false}, 6);
    ask("Linear at positions", Linear{5}, sequence);
    ask("Conv2d", Conv2d{.outputs = 3, .kernel = 3, .pad = 1}, planes);
    ask("Conv2d without bias, strided", Conv2d{.outputs = 3, .kernel = 2, .stride = 2, .bias = false}, planes);
    ask("MaxPool2d", MaxPool2d{}, planes);
    ask("MeanPool", MeanPool{}, planes);
    ask("Relu", Relu{}, 6);
    ask("LeakyRelu", LeakyRelu{}, 6);
    ask("Gelu", Gelu{}, 6);
    ask("Dropout", Dropout{0.3}, 6);
    ask("GroupNorm", GroupNorm{2}, planes);
    ask("GroupNorm of pairs", GroupNorm{.affine = Affine::group, .each = 2}, planes);
    ask("LayerNorm", LayerNorm{}, sequence);
    ask("BatchNorm", BatchNorm{}, planes);
    ask("BatchNorm of a vector", BatchNorm{}, 6);
    ask("Lstm", Lstm{3}, sequence);
    ask("Attention", Attention{2}, sequence);
    ask("Embedding", Embedding{words, 4, true}, 6, true);
    ask("recurrence", recurrence(LstmCore{3}, Linear{12}), sequence);
    ask("recurrence of more layers", recurrence(TanhCore{3}, Linear{4}, LayerNorm{}, Linear{3}), sequence);
    ask("residual", residual(chain(Linear{6}, Relu{}, Linear{6})), 6);
    ask("residual planes",
        residual(chain(Conv2d{.outputs = 4, .pad = 1}, BatchNorm{}, Relu{}, Conv2d{.outputs = 4, .pad = 1})), planes);
    ask("bottleneck", bottleneck(2), 6);
    ask("horizontal", horizontal(2, Linear{3}, Linear{2}), 6);
    ask("again", again(3, Linear{6}), 6);
}

TEST_CASE("where there are no weights, a mask that thins weights out is refused") {
    const auto refusal = [](const auto& layers, mask::MaskScope scope) -> std::string {
        try {
            mask::drawn(Network<float>(Shape(4, 6), layers).layout(), 0.5, mask::Distribution::uniform, Key{1}, scope);
        } catch (const ConfigError& e) {
            return e.what();
        }
        return "";
    };
    const std::string said = "this model has no weights to mask: biases, norms and running statistics stay whole";
    CHECK(refusal(chain(LayerNorm{}), mask::MaskScope::weights) == said);
    CHECK(refusal(chain(BatchNorm{}, Relu{}), mask::MaskScope::weights) == said);
    CHECK(refusal(chain(BatchNorm{}, Linear{2}), mask::MaskScope::weights) == "");
    CHECK(refusal(chain(LayerNorm{}), mask::MaskScope::all) == "");  // scale and shift are asked for
}

}  // namespace every_layer_test
