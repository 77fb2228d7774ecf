// SPDX-License-Identifier: BSD-3-Clause
// A gate of your own. Flow sends each example through the global or the local copy of each block;
// the gate says how much the global one counts. Here one direction in the space of examples
// decides, the same for all blocks, with a threshold for each.
//
// Teaches: a gate, its gradient, how it is compared with the paper's and with fixed policies.
// Next: lab/
#include <tessera/conformance.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/gate/chain.hpp>
#include <tessera/gate/fixed.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <cmath>
#include <cstdio>

using namespace tessera;

// q0_j(x) = 1 / (1 + exp(-<a, x> - b_j)),  psi = (a, b)
struct OneDirection {
    static constexpr Offers offers{};
    Vec<Segment> segments(const Routes& r) const {
        return {{.name = "a", .offset = 0, .shape = {r.inputs, 1, 1, 1}, .fan_in = r.inputs},
                {.name = "b", .offset = r.inputs, .shape = {r.blocks, 1, 1, 1}}};
    }
    template <class R>
    void operator()(const Routes& r, In<R> psi, const Batch<R>& batch, Out<R> q0, Out<R>) const {
        Vec<R> x(r.inputs);
        for (std::size_t i = 0; i < batch.size(); ++i) {
            batch.read(i, x);
            R along = 0;
            for (std::size_t k = 0; k < r.inputs; ++k) along += psi[k] * x[k];
            for (std::size_t j = 0; j < r.blocks; ++j)
                q0[i * r.blocks + j] = 1 / (1 + std::exp(-along - psi[r.inputs + j]));
        }
    }
    template <class R>
    void pull_back(const Routes& r, In<R>, const Batch<R>& batch, In<R> q0, In<R>, In<R> dq0,
                   Out<R> dpsi) const {
        for (R& d : dpsi) d = 0;
        Vec<R> x(r.inputs);
        for (std::size_t i = 0; i < batch.size(); ++i) {
            batch.read(i, x);
            for (std::size_t j = 0; j < r.blocks; ++j) {
                const R q = q0[i * r.blocks + j], dz = dq0[i * r.blocks + j] * q * (1 - q);
                for (std::size_t k = 0; k < r.inputs; ++k) dpsi[k] += dz * x[k];
                dpsi[r.inputs + j] += dz;
            }
        }
    }
};

using Net = nn::Dnn<60, 20, 10>;

template <class Gate>
double personal_accuracy(const char* name, Gate gate) {
    const auto clients =
        data::synthetic({.alpha = 1, .beta = 1, .clients = 20, .seed = 2, .max_examples = 200});
    Flow<Gate> method{.gate = gate, .local_epochs = 3, .joint_epochs = 3};
    method.local.rate = 0.05;
    Federation<Flow<Gate>, Net> run{Net{}, clients, method, {.seed = 1, .batch = 20}};
    run.run(20, sample::Uniform{.count = 10});
    const double global = evaluate<Which::global>(run).accuracy(Average::pooled).value;
    const double personal = evaluate<Which::personal>(run).accuracy(Average::pooled).value;
    std::printf("%-28s global %.3f  personal %.3f\n", name, global, personal);
    return personal;
}

int main() {
    conformance::require(conformance::method(Flow<OneDirection>{}, nn::Dnn<8, 6, 4>{}));
    const double always_global = personal_accuracy("all global", gate::Fixed{.q0 = 1});
    personal_accuracy("the paper's chain", gate::Chain<30>{});
    return personal_accuracy("one direction (this file)", OneDirection{}) > always_global ? 0 : 1;
}
