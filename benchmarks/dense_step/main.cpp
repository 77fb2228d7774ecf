// SPDX-License-Identifier: BSD-3-Clause
// Steps on real Fashion-MNIST rows, batch 20: DNN 784-100-10 and MCLR 784-10. Ten batches are walked in turn, what a
// client of median size has; all rows and weights fit the second-level cache.
#include <memory>
#include <vector>

#include <tessera/core/denormals.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/nn/zoo.hpp>

#include "dense_step/problem.hpp"
#include "dense_step/reference.hpp"
#include "support/exchange.hpp"
#include "support/fashion_mnist.hpp"
#include "support/peers.hpp"
#include "support/verdict.hpp"

void add_tessera(bench::StepCompetitors&);

constexpr bench::Peer peers[]{
#define PEER(name, missing) {name, missing},
#include "peers.inc"
#undef PEER
};

namespace {

constexpr std::size_t batch = 20, batches = 10, checked_steps = 20;
// Parameters are below 1, so a step rounds them by 6e-8 at most, and 20 steps by 1.2e-6; the gradients' own rounding is
// scaled by the rate. A wrong sign, slope or divisor is off by 1e-3 and more: the parameters move by 0.02.
constexpr double tolerance = 5e-6;

// Rows begin at a cache line, for everybody.
struct Pool {
    tessera::Vec<float> rows;
    std::vector<std::uint8_t> bytes;
    std::vector<std::int32_t> labels;
    float shift, scale;

    explicit Pool(const tessera::data::Dataset& data) : shift(data.examples().shift), scale(data.examples().scale) {
        const auto& all = data.examples();
        const auto* pixels = static_cast<const std::uint8_t*>(all.rows);
        bytes.assign(pixels, pixels + batch * batches * all.width);
        labels.assign(all.labels, all.labels + batch * batches);
        for (const auto b : bytes) rows.push_back((static_cast<float>(b) - shift) * scale);
    }
};

class Entered final : public bench::StepCompetitors {
public:
    Entered(std::string problem, const bench::StepTask& task, std::vector<float> start, const bench::Exchange& out)
        : problem_(std::move(problem)), task_(task), start_(std::move(start)), expected_(start_.begin(), start_.end()) {
        for (std::size_t s = 0; s < checked_steps; ++s) bench::reference_step(task_, expected_, s % batches);
        out.write<float>(problem_ + ".start.f32", start_);
        out.write<double>(problem_ + ".expected.f64", expected_);
    }
    void add(const char* name, Make make) override {
        const std::shared_ptr<bench::Stepper> competitor(make(task_));
        const auto error = [this, competitor] {
            competitor->load(start_.data());
            for (std::size_t s = 0; s < checked_steps; ++s) competitor->step(s % batches);
            std::vector<float> answer(start_.size());
            competitor->read(answer.data());
            return bench::distance<float>(answer, expected_);
        };
        bench::enter(problem_ + "/" + name, tolerance, error, [this, competitor](benchmark::State& state) {
            competitor->load(start_.data());
            std::size_t at = 0;
            for (auto _ : state) {
                competitor->step(at);
                at = at + 1 == batches ? 0 : at + 1;
            }
            state.counters["flop"] = task_.flops();
        });
    }

    const std::string& name() const { return problem_; }

private:
    std::string problem_;
    bench::StepTask task_;
    std::vector<float> start_;
    std::vector<double> expected_;
};

template <class M>
std::vector<float> start_of(const M& model) {
    const auto w = tessera::initial_parameters(model, tessera::Key{1});
    return {w.begin(), w.end()};
}

}  // namespace

int main(int argc, char** argv) {
    const bench::Exchange out(argc, argv);
    const tessera::FlushDenormals flush;
    const Pool pool(bench::fashion_mnist());
    out.write<float>("rows.f32", pool.rows);
    out.write<std::int32_t>("labels.i32", pool.labels);

    bench::StepTask task{.inputs = 784, .hidden = 100, .classes = 10, .batch = batch, .batches = batches, .rate = 0.01f,
                         .rows = pool.rows.data(), .bytes = pool.bytes.data(), .shift = pool.shift, .scale = pool.scale,
                         .labels = pool.labels.data()};
    Entered dnn("dnn", task, start_of(tessera::nn::Dnn<784, 100, 10>{}), out);
    task.hidden = 0;
    Entered mclr("mclr", task, start_of(tessera::nn::Mclr<784, 10>{}), out);
    if (out.wanted()) return 0;
    for (Entered* problem : {&dnn, &mclr}) {
        add_tessera(*problem);
        bench::add_peers<bench::StepCompetitors>("dense_step", peers, *problem);
    }
    benchmark::AddCustomContext("kernel_set", std::string(tessera::kernels::active_name()));
    return bench::run(argc, argv);
}
