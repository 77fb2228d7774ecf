// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/hyp_cluster.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>

namespace hyp_cluster_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};

// Logistic regression on two features whose first model is W and every other one W with its classes exchanged.
struct Mirrored {
    using Real = float;
    static constexpr auto offers = offer::initialize;
    using Plain = nn::Mclr<2, 2>;
    Plain inner{};
    Key first{};

    Layout layout() const { return inner.layout(); }
    std::size_t outputs() const { return 2; }
    double gradient(In<float> w, const Batch<float>& b, Out<float> out) const { return inner.gradient(w, b, out); }
    void predict(In<float> w, const Batch<float>& b, Out<float> out) const { inner.predict(w, b, out); }
    void initialize(Out<float> x, Key key) const {
        constexpr float pattern[] = {0.3f, -0.1f, -0.2f, 0.4f, 0, 0};
        const bool swapped = !(key == first);
        for (std::size_t j = 0; j < 4; ++j) x[j] = pattern[swapped ? (j + 2) % 4 : j];
        x[4] = x[5] = 0;
    }
};
constexpr std::uint64_t seed = 3;
const Mirrored mirrored{.first = Key{seed}(purpose::init)};

// Six clients that see the same kind of points; those of the second group call every class by the other's name.
data::FederatedDataset two_groups(const std::vector<std::size_t>& group_of) {
    std::vector<float> rows;
    std::vector<std::int32_t> labels;
    data::Split split;
    for (std::size_t k = 0; k < group_of.size(); ++k) {
        data::Share share;
        share.key = 10 + k;
        Stream draw(Key{5}(k));
        for (std::size_t i = 0; i < 10 + 5 * (k % 2); ++i) {
            share.train.push_back(static_cast<Index>(labels.size()));
            const double x = draw.normal(), y = draw.normal();
            rows.push_back(static_cast<float>(x));
            rows.push_back(static_cast<float>(y));
            labels.push_back(static_cast<std::int32_t>((x > y) == (group_of[k] == 1)));
        }
        split.clients.push_back(std::move(share));
    }
    return {data::Dataset::own(std::move(rows), std::move(labels), 2), std::move(split)};
}
data::FederatedDataset only(const data::FederatedDataset& all, const std::vector<std::size_t>& members) {
    data::Split split;
    for (const auto k : members) split.clients.push_back(all.split().clients[k]);
    return {all.pool(), std::move(split)};
}
std::uint32_t choice(const auto& run, Id k) {
    Workspace<float> workspace;
    return run.at_client(k, workspace, [&](auto client, auto received, auto& space) {
        return client.visit(std::move(received), run.rounds_done(), space).cluster;
    });
}
}  // namespace

TEST_CASE("L-BASE-5 one cluster is FedAvg, bit for bit, whoever is sampled; two are not") {
    const auto compare = [](std::size_t clusters, auto fold) {
        using Fold = decltype(fold);
        Federation<HypCluster<rule::Sgd, Fold>, Net> run{{}, toy_data(), {.fold = fold, .clusters = clusters}, usual};
        Federation<FedAvg<rule::Sgd, Fold>, Net> average{{}, toy_data(), {.fold = fold}, usual};
        bool same = true;
        for (int r = 0; r < 4; ++r) {
            run.round(sample::Uniform{4});
            average.round(sample::Uniform{4});
            same = same && same_bits(run.server().clusters[0].w, average.server().w);
        }
        return same;
    };
    CHECK(compare(1, fold::Mean{}));
    CHECK(compare(1, fold::ServerMomentum<>{.server_momentum = 0.5}));
    CHECK_FALSE(compare(2, fold::Mean{}));
}

TEST_CASE("L-BASE-5 two groups from mirrored models are two runs of FedAvg, bit for bit") {
    const auto compare = [](const std::vector<std::size_t>& group_of, auto fold) {
        using Fold = decltype(fold);
        const auto all = two_groups(group_of);
        const Settings settings{.seed = seed, .batch = 5};
        Federation<HypCluster<rule::Sgd, Fold>, Mirrored> run{
            mirrored, all, {.local = {.rate = 0.3}, .fold = fold, .epochs = 2}, settings};
        const auto first = run.server().clusters[0].w, second = run.server().clusters[1].w;
        using Average = Federation<FedAvg<rule::Sgd, Fold>, Mirrored>;
        const FedAvg<rule::Sgd, Fold> average{.local = {.rate = 0.3}, .fold = fold, .epochs = 2};
        const std::uint32_t of_zero = choice(run, 0);  // what group 0 finds nearer
        Average zero{mirrored, only(all, {0, 2, 4}), average, settings, of_zero == 0 ? first : second};
        Average one{mirrored, only(all, {1, 3, 5}), average, settings, of_zero == 0 ? second : first};
        for (int r = 0; r < 5; ++r) {
            run.round(sample::Everyone{});
            zero.round(sample::Everyone{});
            one.round(sample::Everyone{});
        }
        return same_bits(run.server().clusters[of_zero].w, zero.server().w) &&
               same_bits(run.server().clusters[1 - of_zero].w, one.server().w);
    };
    CHECK(compare({0, 1, 0, 1, 0, 1}, fold::Mean{}));
    CHECK_FALSE(compare({0, 1, 0, 1, 0, 0}, fold::Mean{}));  // a client of the other group is averaged where it belongs
    // Each cluster has the fold's memory of its own.
    CHECK(compare({0, 1, 0, 1, 0, 1}, fold::ServerMomentum<>{.server_momentum = 0.5}));
}

TEST_CASE("the choice is made before training, on training data, and serving makes the same one") {
    const auto all = two_groups({0, 1, 0, 1});
    Federation<HypCluster<>, Mirrored> run{mirrored, all, {.local = {.rate = 0.3}}, {.seed = seed, .batch = 5}};
    Workspace<float> workspace;
    for (int r = 0; r < 3; ++r) {
        for (Id k = 0; k < 4; ++k) {
            const auto data = all[k];
            double least = HUGE_VAL;
            std::uint32_t best = 9;
            for (std::uint32_t j = 0; j < 2; ++j) {
                Vec<float> ignored(6);
                const double loss = mirrored.gradient(run.server().clusters[j].w,
                                                      Batch<float>(*data.examples, data.train), ignored);
                if (loss < least) least = loss, best = j;
            }
            CHECK(choice(run, k) == best);
            const auto served = run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
                return client.serve(std::move(received), run.rounds_done(), space).parameters;
            });
            CHECK(same_bits(served, run.server().clusters[best].w));
            CHECK_FALSE(same_bits(served, run.server().clusters[1 - best].w));
        }
        CHECK(choice(run, 0) != choice(run, 1));
        run.round(sample::Everyone{});
    }
}

TEST_CASE("a cluster that nobody chose keeps its bits, and only the chosen model is trained") {
    const auto all = two_groups({0, 0, 0});
    Federation<HypCluster<>, Mirrored> run{mirrored, all, {}, {.seed = seed, .batch = 5}};
    const auto chosen = choice(run, 0);
    const auto before = run.server().clusters;
    run.run(3, sample::Everyone{});
    CHECK(same_bits(run.server().clusters[1 - chosen].w, before[1 - chosen].w));
    CHECK_FALSE(same_bits(run.server().clusters[chosen].w, before[chosen].w));
}

TEST_CASE("of models that suit a client equally the first is chosen") {
    Federation<HypCluster<>, Net> run{{}, toy_data(), {.clusters = 3, .spread = 0}, usual};
    const auto before = run.server().clusters;
    for (Id k = 0; k < 6; ++k) CHECK(choice(run, k) == 0);
    run.round(sample::Everyone{});
    CHECK_FALSE(same_bits(run.server().clusters[0].w, before[0].w));
    for (const std::size_t j : {1u, 2u}) CHECK(same_bits(run.server().clusters[j].w, before[j].w));
}

TEST_CASE("the models begin apart by keyed draws: the first at w0, none of them twice, all again with the seed") {
    const auto opened = [](double spread, std::uint64_t with) {
        Federation<HypCluster<>, Net> run{{}, toy_data(), {.clusters = 3, .spread = spread}, {.seed = with}};
        CHECK(same_bits(run.server().clusters[0].w, run.setup().initial));
        return run.server().clusters;
    };
    const auto apart = opened(1, 3), near = opened(0.25, 3), equal = opened(0, 3);
    CHECK(same_bits(apart[1].w, opened(1, 3)[1].w));
    CHECK_FALSE(same_bits(apart[1].w, opened(1, 4)[1].w));
    CHECK_FALSE(same_bits(apart[1].w, apart[2].w));
    CHECK(same_bits(equal[1].w, equal[0].w));
    for (std::size_t j = 0; j < apart[1].w.size(); ++j)  // one rounding each of numbers below 1
        CHECK(std::fabs(4 * (near[1].w[j] - near[0].w[j]) - (apart[1].w[j] - apart[0].w[j])) < 1e-6f);
}

TEST_CASE("K models go down and one comes up") {
    Federation<HypCluster<>, Net> run{{}, toy_data(), {.clusters = 3}, usual};
    const auto report = run.round(sample::Uniform{4});
    constexpr double d = Net::parameters;
    CHECK(report.formula_bytes_down == 4 * 3 * 4 * d);
    CHECK(report.formula_bytes_up == 4 * (4 * d + 8 + 8));  // the model, its weight, its number
}

TEST_CASE("uploads for a cluster that is not there, or of another size, are refused") {
    const HypCluster<> method;
    Federation<HypCluster<>, Net> run{{}, toy_data(), method, usual};
    const auto fits = [&](std::size_t size, double weight, std::uint32_t cluster) {
        return method.admits(run.server(), 0, HypCluster<>::Upload<float>{Vec<float>(size), weight, cluster});
    };
    CHECK(fits(Net::parameters, 1, 1));
    CHECK_FALSE(fits(Net::parameters, 1, 2));
    CHECK_FALSE(fits(Net::parameters - 1, 1, 1));
    CHECK_FALSE(fits(Net::parameters, -1, 1));

    Workspace<float> workspace;
    for (const std::size_t models : {0u, 2u})
        CHECK_THROWS_AS(run.at_client(0, workspace,
                                      [&](auto client, auto, auto& space) {
                                          return client.visit(Vec<Vec<float>>(models, Vec<float>(3)), 0, space);
                                      }),
                        WireError);
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws(HypCluster<>{}) == "");
    CHECK(support::broken_laws(HypCluster<>{.clusters = 3, .steps = 3}) == "");
}

TEST_CASE("wrong settings are refused") {
    using Run = Federation<HypCluster<>, Net>;
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.clusters = 0}}), "clusters must be at least 1", ConfigError);
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.spread = -1}}), doctest::Contains("spread must lie in [0, 1]"),
                         ConfigError);
}

}  // namespace hyp_cluster_test
