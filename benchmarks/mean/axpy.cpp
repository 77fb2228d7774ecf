// SPDX-License-Identifier: BSD-3-Clause
// The loop everybody writes: for each client, mean += weight * x, vectorised by the compiler.
#include <algorithm>
#include <bit>
#include <vector>

#include "mean/problem.hpp"

namespace {

class Axpy final : public bench::Averager {
public:
    explicit Axpy(const bench::MeanTask& task) : task_(task), w_(task.size), sum_(task.size) {
        for (std::size_t k = 0; k < task.clients; ++k) total_ += task.weights[k];
    }
    void load(const float* before) override { w_.assign(before, before + w_.size()); }
    void read(float* mean) const override { std::copy(w_.begin(), w_.end(), mean); }
    void run() override {
        std::fill(sum_.begin(), sum_.end(), 0.0f);
        for (std::size_t k = 0; k < task_.clients; ++k) {
            const auto a = static_cast<float>(task_.weights[k] / total_);
            if (task_.masks) add_packed(a, task_.rows[k], task_.masks[k]);
            else
                for (std::size_t j = 0; j < sum_.size(); ++j) sum_[j] += a * task_.rows[k][j];
        }
        w_.swap(sum_);
    }

private:
    // w += a (x - w) at the coordinates the client owns: the others are to stay where they are.
    void add_packed(float a, const float* x, const std::uint64_t* mask) {
        for (std::size_t word = 0; word < task_.size / 64; ++word) {
            const std::size_t at = 64 * word;
            for (std::size_t j = at; j < at + 64; ++j) sum_[j] += a * w_[j];
            for (std::uint64_t bits = mask[word]; bits != 0; bits &= bits - 1) {
                const std::size_t j = at + static_cast<std::size_t>(std::countr_zero(bits));
                sum_[j] += a * (*x++ - w_[j]);
            }
        }
    }

    bench::MeanTask task_;
    double total_ = 0;
    std::vector<float> w_, sum_;
};

}  // namespace

BENCH_PEER(all) {
    all.add("axpy", [](const bench::MeanTask& task) -> bench::Averager* { return new Axpy(task); });
}
