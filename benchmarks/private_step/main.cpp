// SPDX-License-Identifier: BSD-3-Clause
// What privacy costs: steps of DNN 784-100-10 at batch 64 on real Fashion-MNIST rows, through the rules, in turns; those of
// lenet5/ the same of LeNet5, whose ghost norms of convolutions come of two products of every example's patches.
//
//   sgd        rule::Sgd, the fused step
//   keyed      rule::DpSgd on the same batches: ghost norms, one weight gradient, noise by ChaCha8 under the seed
//   poisson    the same on Poisson samples of the same mean size
//   system     the same as keyed, noise by ChaCha20 under a key of the system for each step
//   one_by_one DP-SGD by gradients of single examples, what a model without ghosts pays
//   ledger     one conversion to epsilon over all usual orders
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tessera/core/denormals.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/accountant.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/rule/sgd.hpp>

#include "support/fashion_mnist.hpp"
#include "support/verdict.hpp"

namespace {

using namespace tessera;
using Net = nn::Dnn<784, 100, 10>;
using Same = rule::DpSgd<privacy::Noise, sampling::Epochs>;
using Poisson = rule::DpSgd<privacy::Noise>;
constexpr std::size_t batch = 64, batches = 10;

struct LeNet5 : nn::Network<float> {
    LeNet5() : Network({1, 28, 28}, nn::recipe::lenet5(10)) {}
};

// A network without its ghosts.
template <class N>
struct Plain {
    using Real = float;
    static constexpr Offers offers{};
    N net{};
    Layout layout() const { return net.layout(); }
    std::size_t outputs() const { return net.outputs(); }
    double gradient(In<float> w, const Batch<float>& b, Out<float> out) const { return net.gradient(w, b, out); }
    void predict(In<float> w, const Batch<float>& b, Out<float> out) const { net.predict(w, b, out); }
};

template <class M, class N>  // N: the network of the model
struct Client {
    Arena arena;
    M model{};
    Vec<float> rows;
    std::vector<std::int32_t> labels;
    std::vector<Index> ids;
    Examples examples;
    Workspace<float> workspace;

    Client() {
        const auto data = bench::fashion_mnist();
        const auto& all = data.examples();
        const auto* pixels = static_cast<const std::uint8_t*>(all.rows);
        for (std::size_t i = 0; i < batch * batches * all.width; ++i)
            rows.push_back((static_cast<float>(pixels[i]) - all.shift) * all.scale);
        labels.assign(all.labels, all.labels + batch * batches);
        for (std::size_t i = 0; i < batch * batches; ++i) ids.push_back(static_cast<Index>(i));
        examples = {.size = ids.size(), .width = 784, .rows = rows.data(), .labels = labels.data(), .classes = 10};
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    Context<M> context() {
        return {
            .model = &model, .examples = &examples, .ids = ids, .key = Key{1}, .batch = batch, .workspace = &workspace};
    }
    Vec<float> start() { return initial_parameters(N{}, Key{1}); }

    // Parameters after a pass.
    template <class Q>
    Vec<float> pass(const Q& rule) {
        auto w = start();
        descend(context(), w, context().epochs(1), rule);
        return w;
    }
};

// Steps in turns over the batches of a pass. The answer is checked without noise and clipping, against plain descent.
template <class M, class N = M, class Q>
void steps(const std::string& name, const Q& rule, Q silent, double tolerance) {
    const auto client = std::make_shared<Client<M, N>>();
    const auto error = [=] {
        Client<N, N> reference;
        const auto expected = reference.pass(rule::Sgd{.rate = rule.rate});
        const auto got = client->pass(silent);
        const std::vector<double> wide(expected.begin(), expected.end());
        return bench::distance<float>(std::span<const float>(got), wide);
    };
    bench::enter("private_step/" + name, tolerance, error, [=](benchmark::State& state) {
        const FlushDenormals flush;
        const Arena::Use use(client->arena);
        const auto at = client->context();
        auto w = client->start();
        const auto all = at.epochs(1);
        auto step = walk(at, rule);
        std::size_t i = 0;
        for (auto _ : state) step(w, all[i++ % batches]);
        benchmark::DoNotOptimize(w.data());
    });
}

}  // namespace

int main(int argc, char** argv) {
    constexpr double none = std::numeric_limits<double>::infinity(), rate = 1e-3;
    // Ten steps of float, two orders of sums; a wrong divisor or sign is off by 1e-3.
    constexpr double tolerance = 5e-6;
    // Samples are others than the batches: ten steps of 1e-3 move parameters by less than this, a wrong sign does too,
    // and tests/rule/dp_sgd_test.cpp holds the samples to account.
    constexpr double loose = 5e-2;
    steps<Net>("sgd", rule::Sgd{.rate = rate}, rule::Sgd{.rate = rate}, tolerance);
    const Same silent{.rate = rate, .clip = none, .noise = 0};
    constexpr privacy::Noise keyed{privacy::Source::keyed};
    const Same private_step{.rate = rate, .clip = 1, .noise = 1, .source = keyed};
    steps<Net>("keyed", private_step, silent, tolerance);
    steps<Net>("poisson", Poisson{.rate = rate, .clip = 1, .noise = 1, .source = keyed}, Poisson{.rate = rate, .clip = none, .noise = 0},
               loose);
    steps<Net>("system", Same{.rate = rate, .clip = 1, .noise = 1}, silent, tolerance);
    steps<Plain<Net>, Net>("one_by_one", private_step, silent, tolerance);
    steps<LeNet5>("lenet5/sgd", rule::Sgd{.rate = rate}, rule::Sgd{.rate = rate}, tolerance);
    steps<LeNet5>("lenet5/keyed", private_step, silent, tolerance);
    steps<Plain<LeNet5>, LeNet5>("lenet5/one_by_one", private_step, silent, tolerance);

    const Spent year{0.04, 1.5, 2250};
    const auto epsilon = [=] { return privacy::guarantee(std::span(&year, 1), 1e-5).epsilon; };
    bench::enter("private_step/ledger", 1e-9, [=] { return std::abs(epsilon() - 7.32911117143); },
                 [=](benchmark::State& state) {
                     for (auto _ : state) benchmark::DoNotOptimize(epsilon());
                 });
    return bench::run(argc, argv);
}
