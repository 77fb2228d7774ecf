// SPDX-License-Identifier: BSD-3-Clause
// Step 3 of docs/tutorial.md: a local rule of one's own, in two methods.
#include <algorithm>
#include <cstdio>
#include <string>

#include <tessera/data/pool.hpp>
#include <tessera/io/csv.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

using namespace tessera;

// [rule]
// Gradient descent whose first steps of a visit are short: step k of `gentle` moves by k/gentle of the rate.
struct GentleSgd {
    static constexpr auto offers = offer::validate;
    double rate = 0.1;
    double gentle = 5;

    template <class R>
    struct Memory {  // one for each walk over batches, made anew
        double steps = 0;
    };

    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& batch, const Terms<real<M>>& terms,
                Memory<real<M>>& memory) const {
        memory.steps += 1;
        const double share = std::min(1.0, memory.steps / gentle);
        return tessera::take_step(at, x, batch, {.terms = terms, .rate = rate * share});
    }
    void validate() const {
        detail::require(gentle >= 1, "gentle must be 1 step or more, not " + std::to_string(gentle));
    }
};
// [/rule]

template <Which W, class Method>
double accuracy(const Method& method) {
    const data::Pool pool = io::read_csv("docs/snippets/gardens.csv", {.label = "water", .client = "garden"}).pool;
    Federation<Method, nn::Network<float>> run{nn::mlp({4, 8, 2}), pool.federated({.seed = 1}), method,
                                           {.seed = 1, .batch = 10}};
    run.run(20, sample::Uniform{.count = 8});
    return 100 * evaluate<W>(run).accuracy(Average::unweighted).value.get();
}

int main() {
    // [use]
    const FedAvg<GentleSgd> shared{.local = {.rate = 0.2, .gentle = 10}, .epochs = 2};
    const Ditto<GentleSgd> own{.local = {.rate = 0.2}, .personal = {.rate = 0.2}, .own_epochs = 2, .lambda = 0.05};
    std::printf("FedAvg %.0f %%, Ditto %.0f %%\n", accuracy<Which::global>(shared), accuracy<Which::personal>(own));
    // [/use]
    try {
        // [wrong]
        accuracy<Which::global>(FedAvg<GentleSgd>{.local = {.gentle = 0}});
        // [/wrong]
    } catch (const ConfigError& error) {
        std::printf("%s\n", error.what());
        return 0;
    }
    return 1;
}
