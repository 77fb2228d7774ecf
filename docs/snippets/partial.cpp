// SPDX-License-Identifier: BSD-3-Clause
// Regions of this file are quoted in the documentation: splits, orders, the three steps of partial personalization.
#include <cstdio>
#include <utility>

#include <tessera/data/synthetic.hpp>
#include <tessera/method/fallback.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/additive.hpp>
#include <tessera/nn/recipe.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

namespace {

int failures = 0;
void expect(const char* what, bool holds) {
    if (!holds) std::printf("failed: %s\n", what), ++failures;
}
using Net = nn::Dnn<60, 20, 10>;

// [order]
// FedAlt the other way round: u first with v fixed, then v with the new u fixed.
template <class Local>
struct SharedFirst {
    static constexpr Offers offers{};
    Local v{}, u{};
    std::size_t epochs = 1;

    void operator()(const auto& at, auto& w, const Coordinates& own, const Coordinates& common) const {
        descend(at, w, at.epochs(epochs, Pass::shared), u, {.on = common});
        descend(at, w, at.epochs(epochs, Pass::own), v, {.on = own});
    }
};
// [/order]

// [models]
// 50 numbers of an example are common, 10 are private: what reads those stays at home.
struct PrivateRecipe {
    static constexpr nn::Shape in = 60;
    static constexpr auto layers =
        nn::chain(nn::horizontal(50, nn::Linear{16}, nn::Linear{4}), nn::LeakyRelu{}, nn::Linear{10});
};
using Private = nn::Fixed<PrivateRecipe>;
// A large shared and a small personal model that answer together.
using Pair = nn::Additive<nn::Dnn<60, 20, 10>, nn::Mclr<60, 10>>;
// [/models]

}  // namespace

int main() {
    const auto clients = data::synthetic({.alpha = 0.5, .beta = 0.5, .clients = 8, .seed = 3, .max_examples = 60});
    const Settings settings{.seed = 1, .batch = 10, .rounds = 3};

    // [order_use]
    FedAlt<scope::Head> alt;                        // v = the head
    alt.order.v = {.rate = 0.1};                    // gamma_v
    alt.order.u = {.rate = 0.05, .clip = 1};        // gamma_u
    alt.order.epochs_v = 2;
    alt.order.penalty = {.strength = 0.01, .anchor = order::Anchor::initial};

    Partial<scope::Chosen, SharedFirst<rule::Sgd>> mine{.own = "input+output"};
    // [/order_use]
    Federation<decltype(mine), Net> with_mine{{}, clients, mine, settings};
    with_mine.run(2, sample::Everyone{});
    expect("the shared part is what lies between", with_mine.server().w.empty());

    // [order_test]
    Federation<FedAvg<>, Net> average{{}, clients, {.local = {.rate = 0.1}}, settings};
    Partial<scope::None, SharedFirst<rule::Sgd>> nobody{.weights = Weigh::samples};
    Federation<decltype(nobody), Net> empty{{}, clients, nobody, settings};
    average.run(2, sample::Everyone{});
    empty.run(2, sample::Everyone{});
    const bool is_fedavg = average.server().w == empty.server().w;  // no personal part: FedAvg, bit for bit
    // [/order_test]
    expect("without a personal part it is FedAvg", is_fedavg);

    // [pipeline]
    Federation<FedAvg<>, Net> a{{}, clients, {.local = {.rate = 0.05}}, settings};
    a.run(3, sample::Everyone{});                                              // (a) a common model
    alt.tune_epochs = 5;                                                       // (c) when served, on v alone
    alt.tune = {.rate = 0.01};
    Federation<FedAlt<>, Net> b{{}, clients, alt, settings, a.server().w};     // (b) from (a)'s u and v
    b.run(3, sample::Everyone{});
    const auto personal = evaluate<Which::personal>(b).accuracy(Average::pooled);
    // [/pipeline]
    expect("the pipeline learns", personal.value.get() > 0.2);

    // [fallback]
    const Fallback<FedAlt<>> careful{.inner = alt, .share = 0.2};
    Federation<Fallback<FedAlt<>>, Net> safe{{}, clients, careful, settings, a.server().w};
    safe.run(3, sample::Everyone{});
    // [/fallback]
    expect("it still learns", evaluate<Which::personal>(safe).accuracy(Average::pooled).value.get() > 0.2);

    expect("adapters are found", on<scope::Adapter>(Private{}).size(0) == 44 && on<scope::Adapter>(Pair{}).size(0) == 611);
    std::printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
