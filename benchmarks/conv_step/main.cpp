// SPDX-License-Identifier: BSD-3-Clause
// Steps of convolutional networks on real Fashion-MNIST rows, batch 20: `cnn`, two convolutions of 5 x 5 (32, 64) with
// pools and 1024-512-10 behind them, and `lenet5`. Ten batches are walked in turn.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tessera/contracts/rule.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/nn/conv_zoo.hpp>

#include "support/exchange.hpp"
#include "support/fashion_mnist.hpp"
#include "support/verdict.hpp"

namespace {

using namespace tessera;

constexpr std::size_t batch = 20, batches = 10, checked_steps = 5;
constexpr double rate = 0.01;
// Parameters are below 1 and a step rounds them by 6e-8 at most. Where two numbers of a window, or one and 0, are closer
// than rounding, a slope goes another way and moves its weights by rate / batch times a product of a few hundredths.
constexpr double tolerance = 2e-5;

template <std::size_t First, std::size_t Second, std::size_t Hidden>
struct Recipe {
    static constexpr nn::Shape in = nn::Shape(1, 28, 28);
    static constexpr auto layers =
        nn::chain(nn::Conv2d{.outputs = First, .kernel = 5}, nn::Relu{}, nn::MaxPool2d{},
                  nn::Conv2d{.outputs = Second, .kernel = 5}, nn::Relu{}, nn::MaxPool2d{}, nn::Linear{Hidden},
                  nn::Relu{}, nn::Linear{10});
};
template <std::size_t First, std::size_t Second, std::size_t Hidden>
using Ours = nn::Fixed<Recipe<First, Second, Hidden>>;
// The same, whose products are plain loops.
template <std::size_t First, std::size_t Second, std::size_t Hidden>
struct Plain : nn::Fixed<Recipe<First, Second, Hidden>, double> {
    Plain() : nn::Fixed<Recipe<First, Second, Hidden>, double>(nn::backend_for<double, backend::Reference>()) {}
};

struct Pool {
    Vec<float> rows;
    std::vector<std::int32_t> labels;
    std::vector<Index> ids;

    explicit Pool(const data::Dataset& data) : ids(batch * batches) {
        const auto& all = data.examples();
        const auto* pixels = static_cast<const std::uint8_t*>(all.rows);
        for (std::size_t i = 0; i < batch * batches * all.width; ++i)
            rows.push_back((static_cast<float>(pixels[i]) - all.shift) * all.scale);
        labels.assign(all.labels, all.labels + batch * batches);
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<Index>(i);
    }
};

// One network, as it is and as plain loops.
template <class M, class Reference>
class Steps {
public:
    Steps(const std::string& name, const Pool& pool, const bench::Exchange& out)
        : pool_(&pool), data_(data::Dataset::borrow(pool.rows, pool.labels, 10)),
          start_(initial_parameters(M{}, Key{1})) {
        out.write<float>(name + ".start.f32", start_);
        if (out.wanted()) out.write<double>(name + ".expected.f64", expected());
        bench::enter(name + "/tessera", tolerance, [this] { return error(); },
                     [this](benchmark::State& state) { time(state); })
            ->Unit(benchmark::kMillisecond);
    }

private:
    template <class R>
    Batch<R> at(std::size_t i) const {
        return Batch<R>(data_.examples(), std::span<const Index>(pool_->ids).subspan(i % batches * batch, batch));
    }
    std::vector<double> expected() const {
        const Reference net;
        std::vector<double> w(start_.begin(), start_.end()), slopes(w.size());
        for (std::size_t s = 0; s < checked_steps; ++s) {
            net.gradient(w, at<double>(s), slopes);
            for (std::size_t j = 0; j < w.size(); ++j) w[j] -= rate * slopes[j];
        }
        return w;
    }
    double error() {
        Vec<float> w = start_;
        for (std::size_t s = 0; s < checked_steps; ++s) M{}.fused_step(w, at<float>(s), Step<float>{.rate = rate});
        return bench::distance<float>(w, expected());
    }
    void time(benchmark::State& state) {
        const Arena::Use use(arena_);
        const M net;
        Vec<float> w = start_;
        std::size_t s = 0;
        for (auto _ : state) net.fused_step(w, at<float>(s++), Step<float>{.rate = rate});
        // Forward, both gradients, and no gradient in the pictures.
        const double first = net.graph().nodes[0].spec().flops;
        state.counters["flop"] = static_cast<double>(batch) * (3 * net.forward_flops() - first);
    }

    Arena arena_;
    const Pool* pool_;
    data::Dataset data_;
    Vec<float> start_;
};

}  // namespace

int main(int argc, char** argv) {
    const bench::Exchange out(argc, argv);
    const FlushDenormals flush;
    const Pool pool(bench::fashion_mnist());
    out.write<float>("rows.f32", pool.rows);
    out.write<std::int32_t>("labels.i32", pool.labels);
    Steps<Ours<32, 64, 512>, Plain<32, 64, 512>> cnn("cnn", pool, out);
    Steps<Ours<20, 50, 500>, Plain<20, 50, 500>> lenet5("lenet5", pool, out);
    if (out.wanted()) return 0;
    benchmark::AddCustomContext("kernel_set", std::string(kernels::active_name()));
    return bench::run(argc, argv);
}
