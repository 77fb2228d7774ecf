// SPDX-License-Identifier: BSD-3-Clause
// Whether the fixed table of sparse layers (nn/sparse_layers.hpp) takes the faster arithmetic: steps of networks on a
// random mask, all layers on the active weights, all on zero-filled ones, and as the table has it. By kernel set, widths,
// batch and density. Biases are whole.
//
//   <kernel set>/<widths>/<batch>/<density>/sparse, dense, table
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/contracts/masking.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/step.hpp>

#include "support/verdict.hpp"

namespace {

using namespace tessera;
using Net = nn::Network<float>;

constexpr std::size_t most = 128;  // examples of a batch
constexpr std::array<std::size_t, 6> batches{1, 4, 8, 20, 40, most};
struct Density {
    const char* name;
    double share;
};
constexpr std::array<Density, 4> densities{{{"0.05", 0.05}, {"0.20", 0.2}, {"0.50", 0.5}, {"0.80", 0.8}}};
constexpr double rate = 1e-3;
// Weights below 1 round by 6e-8; a step moves most of them by 1e-5.
constexpr double tolerance = 1e-7;

class Examples128 {
public:
    explicit Examples128(std::size_t width)
        : rows_(most * width), labels_(most), data_(data::Dataset::borrow(fill(rows_), draw(labels_), 10)) {
        for (std::size_t i = 0; i < most; ++i) ids_.push_back(static_cast<Index>(i));
    }
    Batch<float> first(std::size_t n) const {
        return Batch<float>(data_.examples(), std::span<const Index>(ids_).first(n));
    }
    const Examples& all() const { return data_.examples(); }
    std::span<const Index> ids() const { return ids_; }

private:
    static Vec<float>& fill(Vec<float>& rows) {
        Stream draw(Key{1});
        for (float& x : rows) x = static_cast<float>(draw.normal());
        return rows;
    }
    static std::vector<std::int32_t>& draw(std::vector<std::int32_t>& labels) {
        Stream draw(Key{2});
        for (auto& label : labels) label = static_cast<std::int32_t>(draw.below(10));
        return labels;
    }

    Vec<float> rows_;
    std::vector<std::int32_t> labels_;
    data::Dataset data_;
    std::vector<Index> ids_;
};

Mask random_mask(const Net& net, double share) {
    Mask mask(dimension(net), true);
    Stream draw(Key{3});
    for (const Segment& s : net.layout()) {
        if (s.rank < 2) continue;
        for (std::size_t j = s.offset; j < s.end(); ++j) mask.set(j, draw.uniform() < share);
    }
    return mask;
}

// One network on one mask at one batch size, in one arithmetic.
class Stepper {
public:
    Stepper(const Net& net, const Examples128& data, const Mask& mask, std::size_t batch, Arithmetic how,
            kernels::Set set)
        : set_(set), data_(&data), batch_(batch), objective_(net, mask, batch, how),
          start_(packed(initial_parameters(net, Key{4}), mask)) {
        at_ = {.model = &net, .examples = &data.all(), .ids = data.ids(), .key = Key{5}, .batch = batch,
               .workspace = &space_};
    }
    Vec<float> after_one() {
        Vec<float> x = start_;
        steps(x, [once = true]() mutable { return std::exchange(once, false); });
        return x;
    }
    void time(benchmark::State& state) {
        Vec<float> x = start_;
        steps(x, [&] { return state.KeepRunning(); });
    }

private:
    template <class More>
    void steps(Vec<float>& x, More more) {
        const kernels::Set before = std::exchange(kernels::active(), set_);
        const Arena::Use use(arena_);
        const auto batch = data_->first(batch_);
        const auto at = at_.with(objective_);
        while (more()) take_step(at, x, batch, Step<float>{.rate = rate});
        kernels::active() = before;
    }

    Arena arena_;
    Workspace<float> space_{};
    kernels::Set set_;
    const Examples128* data_;
    std::size_t batch_;
    nn::Sparse<Net> objective_;
    Context<Net> at_{};
    Vec<float> start_;
};

// A network, its data and its masks, which the steppers point at.
struct World {
    std::string name;
    Net net;
    Examples128 data;
    std::vector<std::unique_ptr<Mask>> masks{};

    World(std::string widths, const std::vector<std::size_t>& sizes)
        : name(std::move(widths)), net(nn::mlp(sizes)), data(sizes.front()) {}

    void enter(kernels::Set set) {
        for (const auto& [density, share] : densities) {
            const Mask& mask = *masks.emplace_back(std::make_unique<Mask>(random_mask(net, share)));
            for (const std::size_t batch : batches) {
                const std::string group = std::string(kernels::set_names[static_cast<std::size_t>(set)]) + "/" + name +
                                          "/" + std::to_string(batch) + "/" + density + "/";
                const auto make = [this, &mask, batch, set](Arithmetic how) {
                    return std::make_shared<Stepper>(net, data, mask, batch, how, set);
                };
                const auto other = make(Arithmetic::dense);
                for (const auto& [how, word] : {std::pair{Arithmetic::sparse, "sparse"},
                                                {Arithmetic::dense, "dense"},
                                                {Arithmetic::table, "table"}}) {
                    const auto mine = make(how);
                    bench::enter(group + word, tolerance,
                                 [mine, other] {
                                     const auto a = mine->after_one(), b = other->after_one();
                                     return bench::distance<float>(a, std::vector<double>(b.begin(), b.end()));
                                 },
                                 [mine](benchmark::State& state) { mine->time(state); })
                        ->Unit(benchmark::kMicrosecond)
                        ->MinTime(0.01);  // there are hundreds, and only their order counts
                }
            }
        }
    }
};

}  // namespace

int main(int argc, char** argv) {
    const FlushDenormals flush;
    std::vector<std::unique_ptr<World>> worlds;
    worlds.push_back(std::make_unique<World>("784-10", std::vector<std::size_t>{784, 10}));
    worlds.push_back(std::make_unique<World>("784-100-10", std::vector<std::size_t>{784, 100, 10}));
    worlds.push_back(std::make_unique<World>("784-512-512-10", std::vector<std::size_t>{784, 512, 512, 10}));
    for (const auto set : {kernels::Set::avx512, kernels::Set::avx2, kernels::Set::portable})
        if (kernels::supported(set))
            for (const auto& world : worlds) world->enter(set);
    return bench::run(argc, argv);
}
