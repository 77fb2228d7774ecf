// SPDX-License-Identifier: BSD-3-Clause
// f(w) = mean over examples of a/2 |w - c|^2, a = the example's first feature, c = its target: a model that a
// user would write, with fixed points that can be written down.
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <tessera/contracts/model.hpp>
#include <tessera/data/dataset.hpp>

namespace tessera::support {

template <class R = double, std::size_t D = 1>
struct Quadratic {
    using Real = R;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 1> segments{Segment{.name = "w", .shape = {D, 1, 1, 1}}};

    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<R> w, const Batch<R>& batch, Out<R> out) const {
        for (R& g : out) g = 0;
        Vec<R> row(batch.width());
        const R share = R(1) / static_cast<R>(batch.size());
        double loss = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            batch.read(i, row);
            const R a = row[0] * batch.weight(i) * share, c = batch.target(i);
            for (std::size_t j = 0; j < w.size(); ++j) {
                out[j] += a * (w[j] - c);
                loss += static_cast<double>(a * (w[j] - c) * (w[j] - c)) / 2;
            }
        }
        return loss;
    }
    void predict(In<R> w, const Batch<R>& batch, Out<R> out) const {
        for (std::size_t i = 0; i < batch.size(); ++i) out[i] = w[0];
    }
};

struct Parabola {
    double a = 1, c = 0;
};

// One client per list of examples; key k + 1.
inline data::FederatedDataset quadratic_data(const std::vector<std::vector<Parabola>>& clients) {
    std::vector<double> rows, targets;
    data::Split split;
    for (const auto& examples : clients) {
        data::Share share;
        share.key = split.clients.size() + 1;
        for (const auto& [a, c] : examples) {
            share.train.push_back(static_cast<Index>(targets.size()));
            rows.push_back(a);
            targets.push_back(c);
        }
        split.clients.push_back(std::move(share));
    }
    return {data::Dataset::regression(std::move(rows), std::move(targets)), std::move(split)};
}

}  // namespace tessera::support
