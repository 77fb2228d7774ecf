// SPDX-License-Identifier: BSD-3-Clause
// Whole rounds through Federation, as a user runs them: planning, downloads, visits, aggregation, state hash.
//
//   fedavg/<model>/t<threads>   20 of 100 clients, 20 batches of 20 each
//   ditto/<model>/t<threads>    the same clients, 20 more batches for the personal model
//   pfedme/<model>/t<threads>   100 clients train, 20 are merged; 20 batches, 5 proximal steps on each
//   evaluate/<model>/t<threads> the server's model on every client's test data
//   tiny/mclr/t<threads>        20,000 clients of 20 examples with data of their own; one step each
//
// Fashion-MNIST in the split of the pFedBreD presets: two labels a client, sizes log-normal. Each benchmark counts heap
// allocations of a round in which every client has been seen before.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tessera/data/partition.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/pfedme.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include "round/recorder.hpp"
#include "support/allocations.hpp"
#include "support/exchange.hpp"
#include "support/fashion_mnist.hpp"
#include "support/verdict.hpp"

namespace {

using namespace tessera;
using Mclr = nn::Mclr<784, 10>;
using Dnn = nn::Dnn<784, 100, 10>;

// Parameters are below 1 and a step rounds them by 6e-8 at most; a visit has 100 steps. A wrong batch, rate or weight
// moves some of them by 1e-3.
constexpr double tolerance = 1e-5;
constexpr std::size_t checked_clients = 3;  // of the round that is compared with plain loops in double
constexpr Settings settings{.seed = 1, .batch = 20, .rounds = 1000};

struct World {
    data::Dataset pool = bench::fashion_mnist();
    data::FederatedDataset clients{pool, data::partition_by_name("lognormal:2", pool,
                                                                 {.clients = 100,
                                                                  .seed = 1,
                                                                  .train_size = io::fashion_mnist_train_size})};
};

FedAvg<> fedavg() { return {.local = {.rate = 0.01}, .steps = 20}; }
Ditto<> ditto() {
    return {.local = {.rate = 0.01}, .personal = {.rate = 0.01}, .steps = 20, .own_steps = 20, .lambda = 1};
}
template <class M>
PFedMe<> pfedme() {
    return {.local = {.rate = 0.01}, .alpha_m = 0.01, .lambda = std::is_same_v<M, Mclr> ? 15.0 : 30.0, .steps = 20,
            .inner_steps = 5};
}

// A round of a few clients, by M and by its reference; the reference notes its batches.
template <class Reference, class M, class Me>
struct Check {
    bench::Walked walked;
    std::vector<double> expected;
    double error;

    Check(const data::FederatedDataset& clients, const Me& method) {
        Federation ours(M{}, clients, method, settings);
        Federation reference(bench::Recorder<Reference>{{}, &walked}, clients, method, settings);
        const sample::Uniform few{.count = checked_clients};
        ours.round(few);
        reference.round(few);
        expected.assign(reference.server().w.begin(), reference.server().w.end());
        error = bench::distance<float>(std::span<const float>(ours.server().w), expected);
        if constexpr (requires { ours.client(0).v; })  // personal models too
            for (Id k = 0; k < ours.size(); ++k) {
                const auto mine = ours.client(k).v;
                const auto theirs = reference.client(k).v;
                const std::vector<double> wide(theirs.begin(), theirs.end());
                error = std::max(error, bench::distance<float>(std::span<const float>(mine), wide));
            }
    }
};

template <class Use>
void by_threads(std::size_t threads, Use&& use) {
    if (threads == 1) use(exec::Serial{});
    else use(exec::OpenMp{.threads = threads});
}

// A federation and what its first warm round took from the heap.
template <class M, class Me>
struct Warm {
    std::unique_ptr<Federation<Me, M>> run;
    double allocations = 0, clients = 0;
};

// Everybody has been seen after one round of all and one of the sampler's; the third is watched, the rest are timed.
template <class M, class Me, class Sampler>
void time_rounds(benchmark::State& state, Warm<M, Me>& warm, const data::FederatedDataset& clients, const Me& method,
                 const Sampler& sampler, std::size_t threads) {
    by_threads(threads, [&](const auto& executor) {
        if (!warm.run) {
            warm.run = std::make_unique<Federation<Me, M>>(M{}, clients, method, settings);
            warm.run->round(sample::Everyone{}, executor);
            warm.run->round(sampler, executor);
            const std::size_t before = bench::allocations;
            const auto watched = warm.run->round(sampler, executor);
            warm.allocations = static_cast<double>(bench::allocations - before);
            warm.clients = static_cast<double>(watched.trained);
        }
        std::size_t diverged = 0;
        for (auto _ : state) diverged += warm.run->round(sampler, executor).diverged;
        state.counters["allocations"] = warm.allocations;
        state.counters["clients"] = warm.clients;
        if (diverged > 0) state.SkipWithError("wrong answer: a client diverged");
    });
}

template <class Reference, class M, class Me, class Sampler>
void add_rounds(const World& world, const std::string& name, const Me& method, const Sampler& sampler) {
    const auto error = std::make_shared<double>(-1);  // checked once for all thread counts, which give the same bits
    for (const std::size_t threads : {1u, 2u}) {
        const auto warm = std::make_shared<Warm<M, Me>>();
        const auto check = [&world, method, error] {
            if (*error < 0) *error = Check<Reference, M, Me>(world.clients, method).error;
            return *error;
        };
        bench::enter(name + "/t" + std::to_string(threads), tolerance, check,
                     [&world, method, sampler, warm, threads](benchmark::State& state) {
                         time_rounds(state, *warm, world.clients, method, sampler, threads);
                     })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
    }
}

template <class Reference, class M>
void add_evaluation(const World& world, const std::string& name) {
    const auto correct = [](const auto& run) {
        double all = 0;
        const auto result = evaluate<Which::global>(run);
        for (const auto& client : result.counts()) all += client.correct;
        return all;
    };
    const auto run = std::make_shared<std::unique_ptr<Federation<FedAvg<>, M>>>();
    const auto trained = [&world, run]() -> Federation<FedAvg<>, M>& {
        if (!*run) {
            *run = std::make_unique<Federation<FedAvg<>, M>>(M{}, world.clients, fedavg(), settings);
            (*run)->round(sample::Uniform{.count = 20});
        }
        return **run;
    };
    const auto error = std::make_shared<double>(-1);
    for (const std::size_t threads : {1u, 2u}) {
        // Share of the test examples; rounding may turn an example that lies on the border of two classes.
        const auto check = [&world, trained, correct, error] {
            if (*error >= 0) return *error;
            auto& ours = trained();
            const Federation reference(Reference{}, world.clients, fedavg(), settings,
                                       Vec<double>(ours.server().w.begin(), ours.server().w.end()));
            return *error = std::abs(correct(ours) - correct(reference)) / 10000;
        };
        bench::enter(name + "/t" + std::to_string(threads), 5e-4, check,
                     [trained, threads](benchmark::State& state) {
                         auto& ours = trained();
                         by_threads(threads, [&](const auto& executor) {
                             for (auto _ : state) benchmark::DoNotOptimize(evaluate<Which::global>(ours, executor));
                         });
                         double examples = 0;
                         for (std::size_t k = 0; k < ours.size(); ++k)
                             examples += static_cast<double>(ours.data()[k].test.size());
                         state.counters["examples"] = examples;
                     })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
    }
}

// 20,000 clients with 20 examples each, at addresses of their own: 314 MB of pixels.
data::FederatedDataset tiny_clients(const data::Dataset& pool) {
    constexpr std::size_t clients = 20000, each = 20;
    const auto& all = pool.examples();
    const auto* pixels = static_cast<const std::uint8_t*>(all.rows);
    std::vector<std::uint8_t> rows(clients * each * all.width);
    std::vector<std::int32_t> labels(clients * each);
    data::Split split;
    split.clients.resize(clients);
    for (std::size_t i = 0; i < labels.size(); ++i) {
        const std::size_t from = i * 7919 % io::fashion_mnist_train_size;
        std::copy_n(pixels + from * all.width, all.width, rows.data() + i * all.width);
        labels[i] = all.labels[from];
        split.clients[i / each].train.push_back(static_cast<Index>(i));
        split.clients[i / each].key = i / each;
    }
    const auto own = data::Dataset::own(std::move(rows), std::move(labels), 10);
    return {own.normalised(all.shift, all.scale), std::move(split)};
}

void add_tiny(const World& world) {
    const FedAvg<> method{.local = {.rate = 0.01}, .steps = 1};
    const auto clients = std::make_shared<std::unique_ptr<data::FederatedDataset>>();
    const auto error = std::make_shared<double>(-1);
    const auto everybody = [&world, clients]() -> const data::FederatedDataset& {
        if (!*clients) *clients = std::make_unique<data::FederatedDataset>(tiny_clients(world.pool));
        return **clients;
    };
    for (const std::size_t threads : {1u, 2u}) {
        const auto warm = std::make_shared<Warm<Mclr, FedAvg<>>>();
        const auto check = [everybody, method, error] {
            if (*error < 0) *error = Check<bench::ReferenceMclr, Mclr, FedAvg<>>(everybody(), method).error;
            return *error;
        };
        bench::enter("tiny/mclr/t" + std::to_string(threads), tolerance, check,
                     [everybody, method, warm, threads](benchmark::State& state) {
                         time_rounds(state, *warm, everybody(), method, sample::Everyone{}, threads);
                     })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
    }
}

// The split, and for each round that is checked its start, its batches and its end.
template <class Reference, class M, class Me>
void export_round(const bench::Exchange& out, const World& world, const std::string& name, const Me& method) {
    const Check<Reference, M, Me> check(world.clients, method);
    const auto start = initial_parameters(M{}, Key{settings.seed}(purpose::init));
    out.write<float>(name + ".start.f32", start);
    out.write<double>(name + ".expected.f64", check.expected);
    out.write<Index>(name + ".batches.i32", check.walked.ids);
    out.write<std::int32_t>(name + ".batch_sizes.i32", check.walked.sizes);
}

void export_world(const bench::Exchange& out, const World& world) {
    const auto& all = world.pool.examples();
    out.write<std::uint8_t>("pixels.u8", {static_cast<const std::uint8_t*>(all.rows), all.size * all.width});
    out.write<std::int32_t>("labels.i32", {all.labels, all.size});
    const float reading[]{all.shift, all.scale};
    out.write<float>("shift_scale.f32", reading);
    std::vector<Index> train, test;
    std::vector<std::int32_t> train_sizes, test_sizes;
    for (const auto& share : world.clients.split().clients) {
        train.insert(train.end(), share.train.begin(), share.train.end());
        test.insert(test.end(), share.test.begin(), share.test.end());
        train_sizes.push_back(static_cast<std::int32_t>(share.train.size()));
        test_sizes.push_back(static_cast<std::int32_t>(share.test.size()));
    }
    out.write<Index>("train.i32", train);
    out.write<Index>("test.i32", test);
    out.write<std::int32_t>("train_sizes.i32", train_sizes);
    out.write<std::int32_t>("test_sizes.i32", test_sizes);
    export_round<bench::ReferenceMclr, Mclr>(out, world, "fedavg.mclr", fedavg());
    export_round<bench::ReferenceDnn, Dnn>(out, world, "fedavg.dnn", fedavg());
    export_round<bench::ReferenceMclr, Mclr>(out, world, "pfedme.mclr", pfedme<Mclr>());
    export_round<bench::ReferenceDnn, Dnn>(out, world, "pfedme.dnn", pfedme<Dnn>());
}

}  // namespace

int main(int argc, char** argv) {
    const bench::Exchange out(argc, argv);
    const World world;
    if (out.wanted()) {
        export_world(out, world);
        return 0;
    }
    const sample::Uniform twenty{.count = 20}, all_train{.count = 20, .everyone_trains = true};
    add_rounds<bench::ReferenceMclr, Mclr>(world, "fedavg/mclr", fedavg(), twenty);
    add_rounds<bench::ReferenceDnn, Dnn>(world, "fedavg/dnn", fedavg(), twenty);
    add_rounds<bench::ReferenceMclr, Mclr>(world, "ditto/mclr", ditto(), twenty);
    add_rounds<bench::ReferenceDnn, Dnn>(world, "ditto/dnn", ditto(), twenty);
    add_rounds<bench::ReferenceMclr, Mclr>(world, "pfedme/mclr", pfedme<Mclr>(), all_train);
    add_rounds<bench::ReferenceDnn, Dnn>(world, "pfedme/dnn", pfedme<Dnn>(), all_train);
    add_evaluation<bench::ReferenceMclr, Mclr>(world, "evaluate/mclr");
    add_evaluation<bench::ReferenceDnn, Dnn>(world, "evaluate/dnn");
    add_tiny(world);
    benchmark::AddCustomContext("kernel_set", std::string(kernels::active_name()));
    return bench::run(argc, argv);
}
