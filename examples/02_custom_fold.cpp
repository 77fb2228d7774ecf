// SPDX-License-Identifier: BSD-3-Clause
// An aggregator of your own: the median of each coordinate, which a few liars cannot move far.
//
// Teaches: the Fold contract, a method that wraps a method, the conformance kit.
// Next: 03_custom_local_rule.cpp
#include <tessera/conformance.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <algorithm>
#include <cstdio>

using namespace tessera;

// A fold moves the server's w, given what came up. Nothing to register, nothing to inherit.
struct Median {
    static constexpr Offers offers{};
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        if (rows.empty()) return;
        Vec<real<M>> column(rows.size());
        const auto middle = column.begin() + static_cast<std::ptrdiff_t>(column.size() / 2);
        for (std::size_t j = 0; j < w.size(); ++j) {
            std::ranges::transform(rows, column.begin(), [j](const auto& row) { return row.x[j]; });
            std::nth_element(column.begin(), middle, column.end());
            w[j] = *middle;
            if (column.size() % 2 == 0)
                w[j] = (w[j] + *std::max_element(column.begin(), middle)) / 2;
        }
    }
};

// FedAvg, where every fifth client sends ten times the opposite of what it learned.
template <class Fold>
struct WithSaboteurs {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    FedAvg<> honest{.local = {.rate = 0.05}, .epochs = 2};
    Fold fold{};
    template <class R>
    using Client = FedAvg<>::Client<R>;

    auto visit(const auto& at, auto w, auto& me) const {
        auto upload = honest.visit(at, w, me);
        if (at.id % 5 == 0)
            for (std::size_t j = 0; j < w.size(); ++j)
                upload.x[j] = w[j] - 10 * (upload.x[j] - w[j]);
        return upload;
    }
};

template <class Fold>
double accuracy_under_attack(const data::FederatedDataset& clients) {
    using Net = nn::Mclr<60, 10>;
    Federation<WithSaboteurs<Fold>, Net> federation{Net{}, clients, {}, {.seed = 1, .batch = 10}};
    federation.run(30, sample::Uniform{.count = 15});
    return evaluate<Which::global>(federation).accuracy(Average::unweighted).value;
}

int main() {
    // First the laws: order, single rows, equal rows, weights ... A median ignores weights: say so.
    conformance::require(conformance::fold<Median>({}, {.weighted = false}));

    const auto clients = data::synthetic({.clients = 30, .seed = 1, .max_examples = 300});
    const double mean = accuracy_under_attack<fold::Mean>(clients);
    const double median = accuracy_under_attack<Median>(clients);
    std::printf("accuracy with six saboteurs among thirty clients: mean %.1f %%, median %.1f %%\n",
                100 * mean, 100 * median);
    return median > mean + 0.1 ? 0 : 1;
}
