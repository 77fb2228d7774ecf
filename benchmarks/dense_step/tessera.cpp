// SPDX-License-Identifier: BSD-3-Clause
// Ours, through the model's public `step`: the fused path that rules take.
#include <vector>

#include <tessera/nn/zoo.hpp>

#include "dense_step/problem.hpp"

namespace {

using namespace tessera;

template <class M>
class Ours : public bench::Stepper {
public:
    Ours(const bench::StepTask& task, Storage storage, kernels::Set set)
        : set_(set),
          batch_(task.batch),
          examples_{.size = task.batch * task.batches,
                    .width = task.inputs,
                    .storage = storage,
                    .rows = storage == Storage::bytes ? static_cast<const void*>(task.bytes) : task.rows,
                    .shift = task.shift,
                    .scale = task.scale,
                    .labels = task.labels,
                    .classes = task.classes},
          rule_{.rate = static_cast<double>(task.rate)},
          w_(task.parameters()) {
        for (std::size_t i = 0; i < examples_.size; ++i) ids_.push_back(static_cast<Index>(i));
    }
    void load(const float* p) override { w_.assign(p, p + w_.size()); }
    void read(float* p) const override { std::copy(w_.begin(), w_.end(), p); }
    void step(std::size_t i) override {
        const Arena::Use use(arena_);
        kernels::active() = set_;
        const Batch<float> batch(examples_, std::span<const Index>(ids_).subspan(i * batch_, batch_));
        model_.fused_step(w_, batch, rule_);
    }

private:
    Arena arena_;
    kernels::Set set_;
    std::size_t batch_;
    Examples examples_;
    Step<float> rule_;
    std::vector<Index> ids_;
    Vec<float> w_;
    M model_{};
};

bench::Stepper* make(const bench::StepTask& task, Storage storage, kernels::Set set) {
    if (task.hidden == 0) return new Ours<nn::Mclr<784, 10>>(task, storage, set);
    return new Ours<nn::Dnn<784, 100, 10>>(task, storage, set);
}

}  // namespace

void add_tessera(bench::StepCompetitors& all) {
    using enum kernels::Set;
    using Task = const bench::StepTask&;
    all.add("tessera", [](Task task) { return make(task, Storage::float32, kernels::choose_set()); });
    all.add("tessera_bytes", [](Task task) { return make(task, Storage::bytes, kernels::choose_set()); });
    if (kernels::choose_set() > avx2)  // what CPUs without wider registers get
        all.add("tessera_avx2", [](Task task) { return make(task, Storage::float32, avx2); });
    if (kernels::supported(amx)) all.add("tessera_amx", [](Task task) { return make(task, Storage::bytes, amx); });
}
