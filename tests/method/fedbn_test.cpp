// SPDX-License-Identifier: BSD-3-Clause
// FedBN and FedBABU against what they must be (L-ALT-6, L-BASE-12).
#include <doctest/doctest.h>

#include <utility>

#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedbabu.hpp>
#include <tessera/method/fedbn.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/by_hand.hpp>

namespace fedbn_test {

using namespace tessera;
using support::at_that_rate;
using support::by_hand_rate;
using support::is_by_hand;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};
struct NormedRecipe {
    static constexpr nn::Shape in = Toy::width;
    static constexpr auto layers =
        nn::chain(nn::Linear{6}, nn::GroupNorm{}, nn::LeakyRelu{}, nn::Linear{Toy::classes});
};
using Normed = nn::Fixed<NormedRecipe>;

}  // namespace

TEST_CASE("L-ALT-6, L-BASE-12 FedBN keeps the norms; without any it is FedAvg") {
    const support::ByHand norms{.begin = 54, .end = 66, .together = true};
    CHECK(is_by_hand<Normed>(at_that_rate(FedBn<>{}), norms));
    CHECK_FALSE(is_by_hand<Normed>(at_that_rate(FedBn<>{}), {.begin = 54, .end = 66}));

    const auto same = [](auto model) {
        using M = decltype(model);
        Federation<FedBn<>, M> bn{{}, toy_data(), at_that_rate(FedBn<>{}), usual};
        Federation<FedAvg<>, M> average{{}, toy_data(), {.local = {.rate = static_cast<double>(by_hand_rate)}}, usual};
        for (int r = 0; r < 5; ++r) {
            bn.round(sample::Uniform{4});
            average.round(sample::Uniform{4});
            if (!same_bits(bn.server().w, average.server().w)) return false;
        }
        return true;
    };
    CHECK(same(Net{}));
    CHECK_FALSE(same(Normed{}));
}

TEST_CASE("L-ALT-6, L-BASE-12 FedBABU is FedAlt with a head that stands still; its head keeps every bit") {
    auto alt = at_that_rate(FedAlt<>{});
    alt.order.v.rate = 0;
    alt.weights = Weigh::samples;
    Federation<FedAlt<>, Net> still{{}, toy_data(), alt, usual};
    Federation<FedBabu<>, Net> babu{{}, toy_data(), {.local = {.rate = static_cast<double>(by_hand_rate)}}, usual};
    const auto before = gather(babu.setup().initial, on<scope::Head>(Net{}));
    for (int r = 0; r < 5; ++r) {
        still.round(sample::Uniform{4});
        const auto report = babu.round(sample::Uniform{4});
        CHECK(same_bits(still.server().w, babu.server().w));
        CHECK(report.formula_bytes_down == 4 * 4 * 54);  // the body alone, for four clients
        const auto global = babu.setup().method.global(babu.server(), babu.setup().initial);
        CHECK(same_bits(gather(global, on<scope::Head>(Net{})), before));
        CHECK_FALSE(same_bits(global, babu.setup().initial));
    }
}

TEST_CASE("FedBABU's head, or all of the model, is tuned when served") {
    const auto moved = [](FedBabu<> method) {
        Federation<FedBabu<>, Net> run{{}, toy_data(), method, usual};
        run.run(3, sample::Everyone{});
        const auto before = run.fingerprint();
        const auto global = run.setup().method.global(run.server(), run.setup().initial);
        Workspace<float> workspace;
        const auto own = run.at_client(1, workspace, [&](const auto& client, auto received, auto& space) {
            return client.serve(std::move(received), run.rounds_done(), space).parameters;
        });
        CHECK(run.fingerprint() == before);
        const Coordinates v = on<scope::Head>(Net{}), u = off(scope::Head{}, Net{});
        return std::pair{!same_bits(gather(own, v), gather(global, v)), !same_bits(gather(own, u), gather(global, u))};
    };
    CHECK(moved({.tune_epochs = 2}) == std::pair{true, false});
    CHECK(moved({.tune_epochs = 2, .tune_all = true}) == std::pair{true, true});
    CHECK(moved({.tune_epochs = 0}) == std::pair{false, false});
}

}  // namespace fedbn_test
