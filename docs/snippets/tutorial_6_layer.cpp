// SPDX-License-Identifier: BSD-3-Clause
// Step 6 of docs/tutorial.md: a layer of one's own.
#include <cstdio>

#include <tessera/conformance.hpp>
#include <tessera/data/pool.hpp>
#include <tessera/io/csv.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

using namespace tessera;

// [layer]
// y_j = scale_j x_j: every garden's instruments have a scale of their own. Part::adapter, so that it can stay at home.
struct Calibrate {
    static constexpr Offers offers{};

    constexpr void infer(nn::Spec& s) const {
        s.parameter({.name = "scale", .part = Part::adapter, .shape = {s.in[0].size(), 1, 1, 1}, .value = 1});
        s.out = s.in[0];
        s.backward_reads = nn::Reads::x;  // y may be gone by then
    }
    template <class R>
    void forward(const nn::Pass<R>& p) const {
        for (std::size_t i = 0; i < p.read(); ++i) p.y[i] = p.w[i % p.in().size()] * p.x()[i];
    }
    template <class R>
    void backward(const nn::Pass<R>& p) const {
        for (std::size_t j = 0; p.dw && j < p.in().size(); ++j) p.dw[j] = 0;
        for (std::size_t i = 0; i < p.read(); ++i) {
            if (p.dw) p.dw[i % p.in().size()] += p.dy[i] * p.x()[i];
            if (p.dx()) p.dx()[i] = p.dy[i] * p.w[i % p.in().size()];
        }
    }
};
// [/layer]

int main() {
    const data::Pool pool = io::read_csv("docs/snippets/gardens.csv", {.label = "water", .client = "garden"}).pool;
    // [use]
    conformance::require(conformance::layer(Calibrate{}, 4));
    const nn::Network<float> net(4, nn::chain(Calibrate{}, nn::Linear{8}, nn::LeakyRelu{}, nn::Linear{2}));
    using Method = FedAlt<scope::Adapter>;  // the scales are personal, the rest is shared
    Federation<Method, nn::Network<float>> run{net, pool.federated({.seed = 1}), {}, {.seed = 1, .batch = 10}};
    run.run(20, sample::Uniform{.count = 8});
    std::printf("%.0f %%, scales of the first garden: %.2f %.2f %.2f %.2f\n",
                100 * evaluate<Which::personal>(run).accuracy(Average::unweighted).value.get(),
                double(run.client(0).v[0]), double(run.client(0).v[1]), double(run.client(0).v[2]),
                double(run.client(0).v[3]));
    // [/use]
}
