// SPDX-License-Identifier: BSD-3-Clause
// Steps of networks on made-up text, batch 16, a label at every position. Ten batches are walked in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/contracts/rule.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/nn/network.hpp>

#include "support/exchange.hpp"
#include "support/verdict.hpp"

namespace bench {

class TextSteps {
    static constexpr std::size_t batch = 16, batches = 10;
    static constexpr double rate = 0.1;

public:
    // `checked` steps are compared with the same network in double whose products are plain loops; of the answer every
    // `every`-th parameter.
    template <class Layers>
    TextSteps(const std::string& name, std::size_t words, std::size_t positions, const Layers& layers,
              std::size_t checked, double tolerance, const Exchange& out)
        : data_(made(words, positions, name, out)),
          checked_(checked),
          net_(positions, layers),
          start_(tessera::initial_parameters(net_, tessera::Key{1})) {
        for (std::size_t i = 0; i < batch * batches; ++i) ids_.push_back(static_cast<tessera::Index>(i));
        out.write<float>(name + ".start.f32", start_);
        const auto expected = [this, positions, layers] {
            return trained(tessera::nn::Network<double>(
                positions, layers, tessera::nn::backend_for<double, tessera::backend::Reference>()));
        };
        if (out.wanted()) out.write<double>(name + ".expected.f64", expected());
        enter(
            name + "/tessera", tolerance,
            [this, expected] {
                const auto answer = trained(net_);
                return distance<float>(std::vector<float>(answer.begin(), answer.end()), expected());
            },
            [this](benchmark::State& state) { time(state); })
            ->Unit(benchmark::kMillisecond);
    }

private:
    static tessera::data::Dataset made(std::size_t words, std::size_t positions, const std::string& name,
                                       const Exchange& out) {
        tessera::Stream draw(tessera::Key{9});
        std::vector<std::int32_t> text, next;
        for (std::size_t i = 0; i < batch * batches * positions; ++i) {
            text.push_back(static_cast<std::int32_t>(draw.below(words)));
            next.push_back(static_cast<std::int32_t>(draw.below(words)));
        }
        out.write<std::int32_t>(name + ".text.i32", text);
        out.write<std::int32_t>(name + ".next.i32", next);
        return tessera::data::Dataset::own(std::move(text), std::move(next), words, positions);
    }
    template <class R>
    tessera::Batch<R> at(std::size_t i) const {
        return tessera::Batch<R>(data_.examples(),
                                 std::span<const tessera::Index>(ids_).subspan(i % batches * batch, batch));
    }
    template <class R>
    std::vector<double> trained(const tessera::nn::Network<R>& net) const {
        tessera::Vec<R> w(start_.begin(), start_.end());
        for (std::size_t s = 0; s < checked_; ++s) net.fused_step(w, at<R>(s), tessera::Step<R>{.rate = rate});
        return {w.begin(), w.end()};
    }
    void time(benchmark::State& state) {
        const tessera::Arena::Use use(arena_);
        tessera::Vec<float> w = start_;
        std::size_t s = 0;
        for (auto _ : state) net_.fused_step(w, at<float>(s++), tessera::Step<float>{.rate = rate});
        state.counters["flop"] = static_cast<double>(batch) * 3 * net_.forward_flops();
    }

    tessera::Arena arena_;
    tessera::data::Dataset data_;
    std::size_t checked_;
    tessera::nn::Network<float> net_;
    tessera::Vec<float> start_;
    std::vector<tessera::Index> ids_;
};

}  // namespace bench
