// SPDX-License-Identifier: BSD-3-Clause
// A split of your own: which parameters travel and which stay is a predicate on the model's
// segments. Here every bias and the last layer stay; a second split knows what a device can hold.
//
// Teaches: scopes, and partial personalization (FedAlt, FedSim) on any of them.
#include <tessera/data/synthetic.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <cstdio>

using namespace tessera;

using Net = nn::Dnn<60, 20, 10>;

// Known when compiling: a network in which it finds nothing does not compile.
struct BiasesAndHead {
    static constexpr Offers offers{};
    static constexpr bool selects(const Segment& s) {
        return s.part == Part::head || s.name.view().ends_with(".bias");
    }
};

// A choice with a setting: the smallest segments, as long as they fit on a device.
struct Fits {
    static constexpr Offers offers{};
    std::size_t numbers = 64;
    bool selects(const Segment& s) const { return s.size() <= numbers; }
};

template <class Method>
double accuracy(const char* name, const Method& method, const data::FederatedDataset& clients) {
    Federation<Method, Net> run{{}, clients, method, {.seed = 1, .batch = 10, .rounds = 60}};
    double bytes = 0;
    run.run(60, sample::Uniform{.count = 10}, exec::Serial{},
            [&](const RoundReport& round) { bytes += round.formula_bytes_up; });
    const auto right = evaluate<Which::personal>(run).accuracy(Average::unweighted).value.get();
    std::printf("%-24s accuracy %.3f, %6.0f bytes up per visit\n", name, right, bytes / 600);
    return right;
}

int main() {
    const auto clients =
        data::synthetic({.alpha = 1, .beta = 1, .clients = 30, .seed = 3, .max_examples = 200});
    const rule::Sgd sgd{.rate = 0.05};
    const double common = accuracy("everything shared", FedAvg<>{.local = sgd}, clients);

    FedAlt<BiasesAndHead> split;
    split.order.v = split.order.u = sgd;
    const double biases = accuracy("biases and head stay", split, clients);

    FedAlt<Fits> small{.own = {.numbers = 20}};
    small.order.v = small.order.u = sgd;
    const double fits = accuracy("at most 20 numbers stay", small, clients);

    // A split that was typed by somebody: words are checked at once, the model before round one.
    FedAlt<scope::Chosen> typed{.own = "output+named:0.bias"};
    typed.order.v = typed.order.u = sgd;
    const double same = accuracy("the first one, typed", typed, clients);
    try {
        Federation<FedAlt<scope::Chosen>, Net> wrong{{}, clients, {.own = "adapter"}};
        return 1;
    } catch (const ConfigError& error) {
        std::printf("%s\n", error.what());
    }
    return biases > common && fits > common && same == biases ? 0 : 1;
}
