// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/sub_fedavg.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <vector>

#include <tessera/method/fedavg.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>

namespace sub_fedavg_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Dnn<Toy::width, 10, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};
// Prunes at every visit while anything may be pruned.
constexpr Pruning eager{.prune_rate = 0.2, .distance = 0, .target = 0.5, .accuracy = 0};

Federation<SubFedAvg<>, Net> federation(const SubFedAvg<>& method) { return {{}, toy_data(), method, usual}; }

double density(const Federation<SubFedAvg<>, Net>& run, Id k) {
    return static_cast<double>(run.server().mask(k).count()) / Net::parameters;
}
bool prunes(std::size_t epochs) {
    auto run = federation({.epochs = epochs, .pruning = eager});
    run.run(2, sample::Everyone{});
    bool any = false;
    for (Id k = 0; k < 6; ++k) any = any || density(run, k) < 1;
    return any;
}

}  // namespace

TEST_CASE("L-SPA-11 with a prune rate of 0 it is FedAvg with uniform weights, bit for bit") {
    auto still = federation({.epochs = 2, .pruning = {.prune_rate = 0, .distance = 0, .accuracy = 0}});
    auto prunes = federation({.epochs = 2, .pruning = eager});
    Federation<FedAvg<>, Net> avg{{}, toy_data(), {.epochs = 2, .weights = Weigh::uniform}, usual};
    for (int r = 0; r < 4; ++r) {
        still.round(sample::Uniform{4});
        prunes.round(sample::Uniform{4});
        avg.round(sample::Uniform{4});
        CHECK(same_bits(still.server().w, avg.server().w));
        CHECK(density(still, 0) == 1);
        CHECK_FALSE(same_bits(prunes.server().w, avg.server().w));
    }
}

TEST_CASE("the smallest weights go, tensor by tensor; biases stay; ties and shares by hand") {
    using detail::pruned;
    const std::array<Segment, 3> layout{Segment{.name = "w", .shape = {2, 3, 1, 1}, .rank = 2},
                                        Segment{.name = "b", .offset = 6, .shape = {2, 1, 1, 1}},
                                        Segment{.name = "v", .offset = 8, .shape = {2, 1, 1, 1}, .rank = 2}};
    const Vec<double> x{5, -1, 4, 2, -3, 2, 0, 0, 7, 8};
    Mask expected(10, true);
    CHECK(pruned<double>(layout, x, expected, 0) == expected);
    expected.set(1, false);  // ceil(0.2 * 5) = 1 of six
    expected.set(8, false);  // ceil(0.2 * 1) = 1 of two
    CHECK(pruned<double>(layout, x, Mask(10, true), 0.2) == expected);
    expected.set(3, false);  // ceil(0.4 * 5) = 2: of two equal ones the first
    CHECK(pruned<double>(layout, x, Mask(10, true), 0.4) == expected);
    // On the next visit only the active ones compete.
    CHECK(pruned<double>(layout, packed(x, expected), expected, 0.3).count() == expected.count() - 1);
    CHECK(detail::mask_distance(layout, Mask(10, true), expected) == (2.0 / 6 + 1.0 / 2) / 2);
}

TEST_CASE("convolutions lose whole filters if asked to, other tensors single weights") {
    using detail::pruned;
    const std::array<Segment, 3> layout{Segment{.name = "c", .shape = {4, 1, 1, 2}, .rank = 4},
                                        Segment{.name = "b", .offset = 8, .shape = {4, 1, 1, 1}},
                                        Segment{.name = "w", .offset = 12, .shape = {1, 4, 1, 1}, .rank = 2}};
    // Sums of magnitudes: 6, 3, 9, 3.
    const Vec<double> x{5, -1, 3, 0, -4, 5, 2, -1, 0, 0, 0, 0, 4, 3, 2, 1};
    Mask full(16, true), expected = full;
    for (const std::size_t j : {2u, 3u, 15u}) expected.set(j, false);  // ceil(0.3 * 3) = 1; of two equal ones the first
    CHECK(pruned<double>(layout, x, full, 0.3, true) == expected);
    for (const std::size_t j : {6u, 7u, 14u}) expected.set(j, false);  // ceil(0.5 * 3) = 2
    CHECK(pruned<double>(layout, x, full, 0.5, true) == expected);
    CHECK(pruned<double>(layout, x, full, 0.3) != pruned<double>(layout, x, full, 0.3, true));  // weights one by one

    // Packed by a mask that lost a filter and half of another, whose sum counts what is left: 5, -, 9, 1.
    Mask some = full;
    for (const std::size_t j : {1u, 2u, 3u, 6u}) some.set(j, false);
    const Vec<double> packed{5, -4, 5, -1, 0, 0, 0, 0, 4, 3, 2, 1};
    auto fewer = some;
    for (const std::size_t j : {7u, 15u}) fewer.set(j, false);
    CHECK(pruned<double>(layout, packed, some, 0.3, true) == fewer);
    CHECK(pruned<double>(layout, x, full, 0.999, true).count() == 2 + 4 + 1);  // never all of a tensor
}

TEST_CASE("clients prune filters of a network with convolutions, which then are gone whole") {
    constexpr std::size_t half = Toy::width / 2;  // pictures of two rows, filters of 2 x 2
    static_assert(2 * half == Toy::width);
    const nn::Network<float> conv(
        nn::Shape(1, 2, half), nn::chain(nn::Conv2d{.outputs = 6, .kernel = 2}, nn::Relu{}, nn::Linear{Toy::classes}));
    auto pruning = eager;
    pruning.channels = true;
    Federation<SubFedAvg<>, nn::Network<float>> run{conv, toy_data(), {.epochs = 2, .pruning = pruning}, usual};
    run.run(4, sample::Everyone{});
    std::size_t gone = 0;
    for (Id k = 0; k < 6; ++k)
        for (std::size_t o = 0; o < 6; ++o) {
            const Mask mask = run.server().mask(k);
            for (std::size_t j = 1; j < 4; ++j) CHECK(mask[4 * o + j] == mask[4 * o]);
            gone += !mask[4 * o];
        }
    CHECK(gone > 0);
    CHECK(gone < 36);
}

TEST_CASE("by hand: all three conditions must hold") {
    using Model = nn::Mclr<3, 2, double>;
    const Model model;
    // The second example is told from the first class by the smallest weight: half of them are right without it.
    const auto pool = data::Dataset::own(std::vector<double>{1, 0, 0, 0, 1, 0}, {0, 1}, 2);
    const std::vector<Index> ids{0, 1};
    const Context<Model> at{.model = &model, .examples = &pool.examples(), .ids = ids};
    Mask seven(8, true);  // of eight: a density of 0.875
    seven.set(2, false);
    const nn::Sparse sparse(model, seven, ids.size());
    const Vec<double> last{2, 0.5, 1, 0.4, 0.9, 0, 0.2};
    const Vec<double> first{2, 0.3, 1, 0.4, 0.9, 0, 0.2};  // another would go: 2 of 6 weights differ
    const auto prunes = [&](double distance, double target, double accuracy) {
        const Pruning pruning{.prune_rate = 0.2, .distance = distance, .target = target, .accuracy = accuracy};
        return pruning.next(at, sparse, first, last, seven) != seven;
    };
    CHECK(prunes(0.3, 0.8, 0.4));
    CHECK_FALSE(prunes(0.4, 0.8, 0.4));
    CHECK_FALSE(prunes(0.3, 0.9, 0.4));
    CHECK_FALSE(prunes(0.3, 0.8, 0.75));
}

TEST_CASE("with one epoch the two candidates are one, and nothing is pruned") {
    CHECK(prunes(2));
    CHECK_FALSE(prunes(1));
}

TEST_CASE("clients prune until the target is reached, and not further") {
    auto run = federation({.epochs = 2, .pruning = eager});
    std::vector<double> before(6, 1);
    for (int r = 0; r < 8; ++r) {
        run.round(sample::Everyone{});
        for (Id k = 0; k < 6; ++k) {
            CHECK(density(run, k) <= before[k]);
            if (before[k] <= 0.5) CHECK(density(run, k) == before[k]);
            before[k] = density(run, k);
            const auto layout = Layout(run.setup().model.layout());
            for (const auto& s : layout)
                if (!detail::prunable(s)) CHECK(count_in(run.server().mask(k), range_of(s)) == s.size());
        }
    }
    for (Id k = 0; k < 6; ++k) {
        CHECK(before[k] <= 0.55);  // a last step takes at most a fifth, from more than a half
        CHECK(before[k] > 0.35);
    }
}

TEST_CASE("D-SPA-6 owners by the mask after pruning, or before it") {
    auto fresh = federation({.epochs = 2, .pruning = eager});
    auto old = federation({.epochs = 2, .pruning = eager, .old_owners = true});
    fresh.round(sample::Everyone{});
    old.round(sample::Everyone{});
    std::size_t nobody = 0, zero = 0;
    for (std::size_t j = 0; j < Net::parameters; ++j) {
        bool owned = false;
        for (Id k = 0; k < 6; ++k) owned = owned || fresh.server().mask(k)[j];
        if (owned) continue;
        ++nobody;
        CHECK(fresh.server().w[j] == fresh.setup().initial[j]);  // nobody's: as it was
        zero += old.server().w[j] == 0;                          // the old owners all sent a zero
    }
    CHECK(nobody > 0);
    CHECK(zero == nobody);
}

TEST_CASE("what travels is the current density, both ways") {
    auto run = federation({.epochs = 2, .pruning = eager});
    run.run(3, sample::Everyone{});
    double expected = 0;
    for (Id k = 0; k < 6; ++k) expected += 4.0 * static_cast<double>(run.server().mask(k).count()) + 8;
    CHECK(run.round(sample::Everyone{}).formula_bytes_down == expected);
    CHECK(expected < 6 * (4.0 * Net::parameters + 8));
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled") {
    CHECK(support::broken_laws<SubFedAvg<>, Net>({.epochs = 2, .pruning = eager}) == "");
    CHECK(support::broken_laws<SubFedAvg<>, Net>({.epochs = 2, .pruning = eager, .old_owners = true},
                                                  {.rate_zero_stays = false}) == "");  // zeros are averaged in
}

TEST_CASE("wrong settings are refused") {
    CHECK_THROWS_WITH_AS(federation({.pruning = {.prune_rate = 1}}), "prune_rate must lie in [0, 1), not 1.000000",
                         ConfigError);
    CHECK_THROWS_AS(federation({.pruning = {.target = 1.5}}), ConfigError);
}

}  // namespace sub_fedavg_test
