// SPDX-License-Identifier: BSD-3-Clause
// A local rule of your own: Adam (Kingma and Ba, ICLR 2015), in every method that has a local rule.
//
// Teaches: the Rule contract, memory that lasts a visit, the terms a method adds to a step.
// Next: 04_custom_method.cpp
#include <tessera/data/synthetic.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/uniform.hpp>

#include <cmath>
#include <cstdio>

using namespace tessera;

struct Adam {
    static constexpr Offers offers{};
    double rate = 0.01, b1 = 0.9, b2 = 0.999, tiny = 1e-8;

    template <class R>
    struct Memory {  // made anew for each walk over batches
        Vec<R> gradient;
        Vec<double> m, v;
        double steps = 0;
    };

    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& batch,
                const Terms<real<M>>& terms, Memory<real<M>>& memory) const {
        auto& [gradient, m, v, steps] = memory;
        gradient.resize(x.size()), m.resize(x.size()), v.resize(x.size());
        const double loss = at.gradient(x, batch, gradient);
        steps += 1;
        const double unbias = std::sqrt(1 - std::pow(b2, steps)) / (1 - std::pow(b1, steps));

        const auto move = [&](std::size_t j) {
            double d = gradient[j];
            if (terms.prox_weight != 0)  // FedProx, Ditto
                d += terms.prox_weight * (x[j] - terms.prox_center[j]);
            if (!terms.linear.empty()) d += terms.linear[j];  // SCAFFOLD, FedDyn
            m[j] = b1 * m[j] + (1 - b1) * d;
            v[j] = b2 * v[j] + (1 - b2) * d * d;
            x[j] -= static_cast<real<M>>(rate * unbias * m[j] / (std::sqrt(v[j]) + tiny));
        };
        terms.on.each(x.size(), [&](Range range) {  // the coordinates that may move, and exist
            for (std::size_t j = range.begin; j < range.end; ++j)
                if (!terms.active || (*terms.active)[j]) move(j);
        });
        return loss;
    }
};

struct Journey {
    double loss, distance;
};

template <class Method>
Journey train(const Method& method) {
    using Net = nn::Dnn<60, 20, 10>;
    const auto clients = data::synthetic({.clients = 20, .seed = 1, .max_examples = 200});
    Federation<Method, Net> federation{Net{}, clients, method, {.seed = 1, .batch = 10}};
    Journey journey{};
    federation.run(15, sample::Uniform{.count = 10}, exec::Serial{},
                   [&](const RoundReport& report) { journey.loss = report.train_loss; });
    const auto &from = federation.setup().initial, &to = federation.server().w;
    for (std::size_t j = 0; j < to.size(); ++j) journey.distance += std::pow(to[j] - from[j], 2);
    return journey;
}

int main() {
    const Journey idle = train(FedAvg<Adam>{.local = {.rate = 0}});
    const Journey adam = train(FedAvg<Adam>{});
    const Journey held = train(FedProx<Adam>{.mu = 10});  // the same rule under a strong pull
    std::printf("loss without training %.3f, with Adam %.3f\n", idle.loss, adam.loss);
    std::printf("squared way: FedAvg %.3f, FedProx %.3f\n", adam.distance, held.distance);
    return adam.loss < 0.7 * idle.loss && held.distance < 0.5 * adam.distance ? 0 : 1;
}
