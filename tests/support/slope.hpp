// SPDX-License-Identifier: BSD-3-Clause
// f(w) = mean over examples of <x, w>: the gradient is the mean example, whatever w is.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <tessera/contracts/context.hpp>
#include <tessera/data/dataset.hpp>

namespace tessera::support {

template <class R = double, std::size_t D = 3>
struct Slope {
    using Real = R;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 1> segments{Segment{.name = "w", .shape = {D, 1, 1, 1}}};

    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<R> w, const Batch<R>& batch, Out<R> out) const {
        for (R& g : out) g = 0;
        Vec<R> row(D);
        double loss = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            batch.read(i, row);
            for (std::size_t j = 0; j < D; ++j) {
                out[j] += row[j] / static_cast<R>(batch.size());
                loss += static_cast<double>(row[j] * w[j]) / static_cast<double>(batch.size());
            }
        }
        return loss;
    }
    void predict(In<R> w, const Batch<R>& batch, Out<R> out) const {
        for (std::size_t i = 0; i < batch.size(); ++i) out[i] = w[0];
    }
};

// A place to stand on with one example, which is the gradient.
template <class R, std::size_t D>
class OneSlope {
public:
    explicit OneSlope(std::vector<double> gradient)
        : pool_(data::Dataset::regression(std::move(gradient), std::vector<double>{0})) {}
    OneSlope(const OneSlope&) = delete;
    OneSlope& operator=(const OneSlope&) = delete;

    Context<Slope<R, D>> context(std::size_t round = 0, std::size_t rounds = 1) {
        return {.model = &model_,
                .examples = &pool_.examples(),
                .ids = ids_,
                .round = round,
                .rounds = rounds,
                .workspace = &workspace_};
    }
    const Workspace<R>& workspace() const { return workspace_; }

private:
    Slope<R, D> model_;
    data::Dataset pool_;
    std::array<Index, 1> ids_{0};
    Workspace<R> workspace_;
};

}  // namespace tessera::support
