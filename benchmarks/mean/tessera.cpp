// SPDX-License-Identifier: BSD-3-Clause
// Ours: fold::Mean over the rows of a cohort.
#include <algorithm>
#include <deque>

#include <tessera/fold/mean.hpp>
#include <tessera/nn/zoo.hpp>

#include "mean/problem.hpp"

namespace {

using namespace tessera;
using AnyModel = nn::Mclr<60, 10>;  // a fold reads only the number type of it

class Ours final : public bench::Averager {
public:
    Ours(const bench::MeanTask& task, kernels::Set set) : set_(set), w_(task.size) {
        for (std::size_t k = 0; k < task.clients; ++k) {
            const Mask* mask = nullptr;
            std::size_t size = task.size;
            if (task.masks) {
                auto& own = masks_.emplace_back();
                own.assign(task.size, Vec<std::uint64_t>(task.masks[k], task.masks[k] + task.size / 64));
                mask = &own;
                size = own.count();
            }
            rows_.push_back({.x = {task.rows[k], size}, .weight = task.weights[k], .mask = mask});
        }
    }
    void load(const float* before) override { w_.assign(before, before + w_.size()); }
    void read(float* mean) const override { std::copy(w_.begin(), w_.end(), mean); }
    void run() override {
        const Arena::Use use(arena_);
        kernels::active() = set_;
        Nothing nothing;
        fold::Mean{}.fold(Context<AnyModel>{}, w_, Rows<float>(rows_), nothing);
    }

private:
    Arena arena_;
    kernels::Set set_;
    Vec<float> w_;
    std::deque<Mask> masks_;
    Vec<Row<float>> rows_;
};

}  // namespace

void add_tessera(bench::MeanCompetitors& all) {
    all.add("tessera", [](const bench::MeanTask& task) -> bench::Averager* {
        return new Ours(task, kernels::choose_set());
    });
    if (kernels::choose_set() > kernels::Set::avx2)  // what CPUs without wider registers get
        all.add("tessera_avx2", [](const bench::MeanTask& task) -> bench::Averager* {
            return new Ours(task, kernels::Set::avx2);
        });
}
