// SPDX-License-Identifier: BSD-3-Clause
// Steps of SGD of image networks on 3 x 32 x 32 numbers: ResNet-18 and VGG11 with group norms, batch 32, and the convnet
// of 5 x 5 (32, 64, 512), batch 32 and 64. Two batches are walked in turn. Answers are held on four examples: the gradient
// against the same network's in double, whose products are direct.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tessera/contracts/rule.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/resnet_zoo.hpp>

#include "support/exchange.hpp"
#include "support/verdict.hpp"

namespace {

using namespace tessera;

constexpr std::size_t most = 64, batches = 2, checked = 4;
constexpr double rate = 0.01;
// Of the largest slope. Networks of twenty layers in float are within a few 1e-6 of it; where a number and 0 are closer
// than rounding, a ReLU goes another way and moves slopes by some 1e-5 of it.
constexpr double tolerance = 2e-4;
const nn::Shape in(3, 32, 32);

struct Pool {
    Vec<float> rows;
    std::vector<std::int32_t> labels;
    std::vector<Index> ids;

    Pool() : rows(most * batches * in.size()), labels(most * batches), ids(most * batches) {
        Stream draw(Key{7});
        for (float& v : rows) v = static_cast<float>(draw.normal());
        for (std::size_t i = 0; i < ids.size(); ++i) {
            labels[i] = static_cast<std::int32_t>(draw.below(10));
            ids[i] = static_cast<Index>(i);
        }
    }
};

class Steps {
public:
    template <class L>
    Steps(const std::string& name, std::size_t batch, const L& layers, const Pool& pool, const bench::Exchange& out)
        : pool_(&pool),
          batch_(batch),
          data_(data::Dataset::borrow(pool.rows, pool.labels, 10)),
          net_(in, layers),
          exact_(in, layers),
          start_(initial_parameters(net_, Key{1})) {
        out.write<float>(name + ".start.f32", start_);
        if (out.wanted()) out.write<double>(name + ".expected.f64", expected());
        bench::enter(name + "/tessera", tolerance, [this] { return error(); },
                     [this](benchmark::State& state) { time(state); })
            ->Unit(benchmark::kMillisecond);
    }

private:
    template <class R>
    Batch<R> at(std::size_t i, std::size_t n) const {
        return Batch<R>(data_.examples(), std::span<const Index>(pool_->ids).subspan(i % batches * n, n));
    }
    // Slopes of the first four examples, the largest being 1.
    std::vector<double> expected() const {
        const Vec<double> w(start_.begin(), start_.end());
        Vec<double> slopes(w.size());
        exact_.gradient(w, at<double>(0, checked), slopes);
        const double top = largest(slopes);
        for (double& v : slopes) v /= top;
        return {slopes.begin(), slopes.end()};
    }
    double error() const {
        Vec<float> slopes(start_.size());
        net_.gradient(start_, at<float>(0, checked), slopes);
        const double top = largest(slopes);
        for (float& v : slopes) v = static_cast<float>(v / top);
        return bench::distance<float>(slopes, expected());
    }
    template <class R>
    static double largest(const Vec<R>& all) {
        double top = 0;
        for (const R v : all) top = std::max(top, std::abs(static_cast<double>(v)));
        return top;
    }
    void time(benchmark::State& state) {
        const Arena::Use use(arena_);
        Vec<float> w = start_;
        std::size_t s = 0;
        for (auto _ : state) net_.fused_step(w, at<float>(s++, batch_), Step<float>{.rate = rate});
        // Forward, both gradients, and no gradient in the pictures.
        state.counters["flop"] = static_cast<double>(batch_) * (3 * net_.forward_flops() - net_.graph().nodes[0].spec().flops);
        state.counters["room"] = static_cast<double>(net_.room(batch_) * sizeof(float));
    }

    Arena arena_;
    const Pool* pool_;
    std::size_t batch_;
    data::Dataset data_;
    nn::Network<float> net_;
    nn::Network<double> exact_;
    Vec<float> start_;
};

}  // namespace

int main(int argc, char** argv) {
    const bench::Exchange out(argc, argv);
    const FlushDenormals flush;
    const Pool pool;
    out.write<float>("rows.f32", pool.rows);
    out.write<std::int32_t>("labels.i32", pool.labels);
    Steps resnet("resnet18", 32, nn::recipe::resnet18(10), pool, out);
    Steps vgg("vgg11", 32, nn::recipe::vgg11(10), pool, out);
    Steps cnn("cifar_cnn_32", 32, nn::recipe::cifar_cnn(10), pool, out);
    Steps wide("cifar_cnn_64", 64, nn::recipe::cifar_cnn(10), pool, out);
    if (out.wanted()) return 0;
    benchmark::AddCustomContext("kernel_set", std::string(kernels::active_name()));
    return bench::run(argc, argv);
}
