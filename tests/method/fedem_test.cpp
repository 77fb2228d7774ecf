// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/fedem.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>

namespace fedem_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};

// Clients of the second half call every class by the next one's name.
data::FederatedDataset two_tongues() {
    const auto all = toy_data({.clients = 6, .train = 40});
    const auto& e = all.pool().examples();
    std::vector<float> rows(static_cast<const float*>(e.rows), static_cast<const float*>(e.rows) + e.size * e.width);
    std::vector<std::int32_t> labels(e.labels, e.labels + e.size);
    for (std::size_t k = 3; k < 6; ++k)
        for (const auto* part : {&all.split().clients[k].train, &all.split().clients[k].test})
            for (const Index i : *part)
                labels[i] = (labels[i] + 1) % static_cast<std::int32_t>(Toy::classes);
    return {data::Dataset::own(std::move(rows), std::move(labels), Toy::classes), all.split()};
}
}  // namespace

TEST_CASE("L-BASE-6 one component is FedAvg, bit for bit, with any fold") {
    const auto check = [](const auto& fold) {
        using Fold = std::remove_cvref_t<decltype(fold)>;
        Federation<FedEm<rule::Sgd, Fold>, Net> em{{}, toy_data(), {.fold = fold, .components = 1, .epochs = 2}, usual};
        Federation<FedAvg<rule::Sgd, Fold>, Net> avg{{}, toy_data(), {.fold = fold, .epochs = 2}, usual};
        Federation<FedEm<rule::Sgd, Fold>, Net> two{{}, toy_data(), {.fold = fold, .components = 2, .epochs = 2}, usual};
        for (int r = 0; r < 4; ++r) {
            em.round(sample::Uniform{4}), avg.round(sample::Uniform{4}), two.round(sample::Uniform{4});
            CHECK(same_bits(em.server().components[0].w, avg.server().w));
        }
        CHECK_FALSE(same_bits(two.server().components[0].w, avg.server().w));
        Workspace<float> space;
        const auto data = em.data()[0];
        const Batch<float> b(*data.examples, data.test);
        Vec<float> got(b.size() * Toy::classes), plain(got.size());
        em.at_client(0, space, [&](const auto& client, auto received, auto& workspace) {
            client.serve(std::move(received), 4, workspace)(b, got);
        });
        Net{}.predict(avg.server().w, b, plain);
        CHECK(same_bits(got, plain));
    };
    check(fold::Mean{});
    check(fold::ServerMomentum<>{});
}

TEST_CASE("L-BASE-6 components that begin equal stay equal, and shares uniform") {
    Federation<FedEm<>, Net> run{{}, toy_data(), {.components = 4, .spread = 0}, usual};
    run.run(4, sample::Uniform{4});
    for (std::size_t m = 1; m < 4; ++m)
        CHECK(same_bits(run.server().components[m].w, run.server().components[0].w));
    for (Id k = 0; k < run.size(); ++k)
        for (const double share : run.client(k).pi) CHECK(share == 0.25);
    Federation<FedEm<>, Net> apart{{}, toy_data(), {.components = 4}, usual};
    apart.run(4, sample::Everyone{});
    CHECK_FALSE(same_bits(apart.server().components[1].w, apart.server().components[0].w));
    CHECK(apart.client(0).pi[0] != 0.25);
}

TEST_CASE("one E-step by hand: answers weigh the shares, and pi is their mean") {
    const auto data = toy_data({.clients = 1, .train = 7});
    const Setup<FedEm<>, Net> setup(Net{}, {.components = 2}, usual);
    Workspace<float> space;
    const auto at = setup.context(data[0], 0, 0, space);
    const Vec<Vec<float>> models{initial_parameters(Net{}, Key{1}), initial_parameters(Net{}, Key{2})};
    const auto all = detail::explained(at, models, Vec<double>{0.25, 0.75});
    double mean = 0;
    for (std::size_t i = 0; i < 7; ++i) {
        const Index id = at.ids[i];
        const Batch<float> one(*at.examples, at.ids.subspan(i, 1));
        double p[2];
        for (std::size_t m = 0; m < 2; ++m) {
            Vec<float> out(Toy::classes);
            Net{}.predict(models[m], one, out);
            p[m] = (m == 0 ? 0.25 : 0.75) * std::exp(static_cast<double>(out[one.label(0)]));
        }
        CHECK(std::fabs(static_cast<double>(all.by[0][id]) - p[0] / (p[0] + p[1])) < 1e-6);  // kept as float
        CHECK(std::fabs(static_cast<double>(all.by[0][id] + all.by[1][id]) - 1) < 1e-6);
        mean += p[0] / (p[0] + p[1]) / 7;
    }
    CHECK(std::fabs(all.pi[0] - mean) < 1e-12);
    CHECK(std::fabs(all.pi[0] + all.pi[1] - 1) < 1e-12);
}

TEST_CASE("two tongues: components part, each client is one of them, and FedAvg is nobody") {
    const auto data = two_tongues();
    Federation<FedEm<>, Net> em{{}, data, {.local = {.rate = 0.3}, .components = 2, .epochs = 2}, usual};
    Federation<FedAvg<>, Net> avg{{}, data, {.local = {.rate = 0.3}, .epochs = 2}, usual};
    em.run(60, sample::Everyone{});
    avg.run(60, sample::Everyone{});
    const std::size_t mine = em.client(0).pi[0] > 0.5 ? 0 : 1;
    for (Id k = 0; k < 6; ++k) CHECK(em.client(k).pi[k < 3 ? mine : 1 - mine] > 0.8);
    const double mixed = evaluate<Which::personal>(em).accuracy(Average::unweighted).value.get();
    const double common = evaluate<Which::global>(avg).accuracy(Average::unweighted).value.get();
    CHECK(mixed > common + 0.2);
}

TEST_CASE("a client who never came is the mixture that explains its examples") {
    Federation<FedEm<>, Net> run{{}, toy_data({.unseen = 1}), {}, usual};
    run.run(3, sample::Everyone{});
    const auto counts = evaluate<Which::personal, SplitOf::test, Whom::unseen>(run).counts();
    CHECK(counts.size() == 1);
    CHECK(std::isfinite(counts[0].loss_sum));
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    // Shares move with the answers, whatever the rate.
    CHECK(support::broken_laws(FedEm<>{}, {.rate_zero_serves = false}) == "");
    CHECK(support::broken_laws(FedEm<>{.components = 1}) == "");
    CHECK(support::broken_laws(FedEm<>{.components = 2, .steps = 3}, {.rate_zero_serves = false}) == "");
}

TEST_CASE("wrong settings, downloads and uploads are refused") {
    using Run = Federation<FedEm<>, Net>;
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.components = 0}}), "components must be at least 1", ConfigError);
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.spread = 2}}), doctest::Contains("spread must lie in [0, 1]"),
                         ConfigError);
    const Run run{{}, toy_data(), {.components = 2}, usual};
    const auto fits = [&](std::vector<std::size_t> sizes, double weight) {
        FedEm<>::Upload<float> up{{}, weight};
        for (const auto size : sizes) up.models.push_back(Vec<float>(size));
        return FedEm<>{}.admits(run.server(), 0, up);
    };
    const std::size_t d = Net::parameters;
    CHECK(fits({d, d}, 1));
    CHECK_FALSE(fits({d, d - 1}, 1));
    CHECK_FALSE(fits({d}, 1));
    CHECK_FALSE(fits({d, d, d}, 1));
    CHECK_FALSE(fits({d, d}, -1));
}

}  // namespace fedem_test
