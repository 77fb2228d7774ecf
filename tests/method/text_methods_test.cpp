// SPDX-License-Identifier: BSD-3-Clause
// Methods on text, from texts to figures: limits, threads, wire and restarts bit for bit, for LSTMs and a transformer.
#include <tessera/nn/text_zoo.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/scope.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/gate/fixed.hpp>
#include <tessera/gate/states.hpp>
#include <tessera/io/sequences.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/privacy_statement.hpp>
#include <tessera/method/private.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/record.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/checkpoint.hpp>
#include <support/keyed_noise.hpp>

namespace text_methods_test {

namespace {

using namespace tessera;
using doctest::Approx;
using support::same_bits;

constexpr std::size_t steps = 6;
constexpr Settings usual{.seed = 3, .batch = 4, .rounds = 8};
const rule::Sgd lively{.rate = 0.3, .momentum = 0.5, .weight_decay = 0.01, .clip = 2};

// Four people with habits of their own; the vocabulary is short of a letter.
data::Pool speech() {
    std::vector<io::ClientText> people;
    for (const std::string habit : {"abcabd", "aabbcc", "dcbadc", "abacad"}) {
        io::ClientText one{"says " + habit, {}};
        for (std::size_t i = 0; i < 9; ++i) one.texts.push_back(habit.substr(i % 3) + habit + habit.substr(0, i % 5));
        people.push_back(one);
    }
    const auto halves = io::split_by_time(io::joined(people), 0.8, io::TextUnit::characters);
    return io::sequence_pool(halves, io::vocabulary_of(halves.train, {.most = 4}), {.length = steps});
}
const data::Pool& pool() {
    static const data::Pool one = speech();
    return one;
}
std::size_t words() { return pool().examples.examples().classes; }

using Net = nn::Network<float>;
Net lstm() { return {steps, nn::recipe::char_lstm(words(), 7, 4)}; }
Net cells() { return {steps, nn::recipe::flow_shakespeare(words(), 5, 4)}; }
Net transformer() {
    return {steps, nn::recipe::Transformer{
                       .words = words(), .width = 8, .heads = 2, .inner = 10, .blocks = 2, .rank = 3, .dropout = 0.1}};
}
std::vector<Net> nets() { return {lstm(), cells(), transformer()}; }

template <class Me>
Federation<Me, Net> run_of(const Net& net, const Me& method) {
    return {net, pool().federated({.seed = 1}), method, usual};
}
using Alt = FedAlt<scope::Chosen>;
Alt alt(const char* own) {
    Alt method{.own = own, .weights = Weigh::samples};
    method.order.v = method.order.u = lively;
    return method;
}

Flow<gate::States> by_states() {
    return {.gate = {.first = 6, .second = 4, .third = 0}, .local = lively, .routing = {.gamma = 0.01}};
}

template <class A, class B>
bool same_server(A a, B b) {
    for (int r = 0; r < 3; ++r) {
        a.round(sample::Uniform{3});
        b.round(sample::Uniform{3});
        if (!same_bits(a.server().w, b.server().w)) return false;
    }
    return true;
}
// After four rounds.
template <class Me, class E>
std::string hash_of(const Net& net, const Me& method, const E& executor, bool wire = false, bool restarted = false) {
    auto run = run_of(net, method);
    run.over_the_wire(wire);
    for (int r = 0; r < 2; ++r) run.round(sample::Uniform{3}, executor);
    auto other = run_of(net, method);
    if (restarted) support::restore(other, support::saved(run));
    auto& goes_on = restarted ? other : run;
    for (int r = 0; r < 2; ++r) goes_on.round(sample::Uniform{3}, executor);
    return goes_on.fingerprint().hex();
}

}  // namespace

TEST_CASE("FedAlt with nothing personal is FedAvg on sequences") {
    for (const auto& net : nets()) {
        const FedAvg<> average{.local = lively};
        CHECK(same_server(run_of(net, average), run_of(net, alt("none"))));
        CHECK_FALSE(same_server(run_of(net, average), run_of(net, FedAvg<>{.local = {.rate = 0.2}})));
    }
}

TEST_CASE("Flow with q0 = 1 is FedAvg on sequences, also cell by cell") {
    for (const auto& net : nets()) {
        const FedAvg<> average{.local = lively};
        Flow<gate::Fixed> flow{.local = lively};
        flow.halves.split = SplitBy::none;
        const auto same = [&](double q0) {
            flow.gate.q0 = q0;
            auto a = run_of(net, average);
            auto b = run_of(net, flow);
            for (int r = 0; r < 2; ++r) {
                a.round(sample::Uniform{3});
                b.round(sample::Uniform{3});
                // (w_g, psi): a fixed gate has no psi.
                if (!same_bits(a.server().w, b.server().w))
                    return false;
            }
            return true;
        };
        CHECK(same(1));
        CHECK_FALSE(same(0.9));
    }
}

TEST_CASE("the state is the same for any number of threads, over the wire, and after a restart") {
    const auto laws = [](const Net& net, const auto& method) {
        const auto one = hash_of(net, method, exec::Serial{});
        for (const std::size_t threads : {1u, 2u, 3u}) CHECK(hash_of(net, method, exec::OpenMp{threads}) == one);
        CHECK(hash_of(net, method, exec::Serial{}, true) == one);
        CHECK(hash_of(net, method, exec::Serial{}, false, true) == one);
        auto other = usual;
        other.seed = 4;
        Federation<std::remove_cvref_t<decltype(method)>, Net> changed{net, pool().federated({.seed = 1}), method, other};
        for (int r = 0; r < 4; ++r) changed.round(sample::Uniform{3});
        CHECK(changed.fingerprint().hex() != one);
    };
    laws(lstm(), alt("head"));
    laws(transformer(), alt("adapter"));
    laws(cells(), by_states());
}

TEST_CASE("density 1 is dense on sequences, bit for bit") {
    using Sparse = FedSpa<mask::RandomStatic>;
    for (const auto& net : nets()) {
        const FedAvg<> average{.local = lively, .weights = Weigh::uniform};
        CHECK(same_server(run_of(net, average), run_of(net, Sparse{.masking = {.density = 1}, .local = lively})));
        CHECK_FALSE(same_server(run_of(net, average), run_of(net, Sparse{.masking = {.density = 0.5}, .local = lively})));
    }
}

TEST_CASE("a router that reads states, cell by cell: w_g by its own loss is FedAvg's; by the routed loss it is not") {
    const auto same = [](nn::GlobalLoss loss) {
        auto flow = by_states();
        flow.halves.split = SplitBy::none;
        flow.routing.global_loss = loss;
        auto a = run_of(cells(), FedAvg<>{.local = lively});
        auto b = run_of(cells(), flow);
        for (int r = 0; r < 2; ++r) {
            a.round(sample::Uniform{3});
            b.round(sample::Uniform{3});
        }
        const auto& all = b.server().w;
        return same_bits(a.server().w, Vec<float>(all.begin(), all.begin() + std::ssize(a.server().w)));
    };
    CHECK(same(nn::GlobalLoss::global));
    CHECK_FALSE(same(nn::GlobalLoss::personalized));
    CHECK_THROWS_AS(run_of(transformer(), by_states()), ConfigError);  // it has more blocks than exits
}

TEST_CASE("privacy on sequences: how far one sequence, or one client, can move a model is bounded by the clip") {
    const auto moved = [](const Net& net, const auto& method) {
        auto run = run_of(net, method);
        const auto before = run.server().w;
        run.round(sample::Uniform{3});
        double sum = 0;
        for (std::size_t j = 0; j < before.size(); ++j) sum += std::pow(run.server().w[j] - before[j], 2);
        return std::sqrt(sum);
    };
    std::size_t most = 0;
    for (std::size_t k = 0; k < 4; ++k) most = std::max(most, pool().federated({.seed = 1})[k].train.size());
    for (const auto& net : nets()) {
        // One step: the clipped gradients of all examples at most, over the batch that is expected.
        const auto by_sequence = [&](double clip) {
            using Noisy = rule::DpSgd<support::KeyedNoise>;
            return moved(net, Private<FedAvg<Noisy>>{
                                  .inner = {.local = {.rate = 0.5, .clip = clip, .noise = 0}, .steps = 1}});
        };
        CHECK(by_sequence(0.01) <= 0.5 * 0.01 * static_cast<double>(most) / 4 * 1.0001);  // rounding of floats
        CHECK(by_sequence(10) > 0.5 * 0.01 * static_cast<double>(most) / 4);
        const auto by_client = [&](double clip) {
            using Hidden = fold::PrivateMean<support::KeyedNoise>;
            return moved(net, FedAvg<rule::Sgd, Hidden>{
                                  .local = lively, .fold = {.clip = clip, .noise = 0, .clients = 3}});
        };
        CHECK(by_client(0.01) <= 0.01 * 1.0001);
        CHECK(by_client(10) > 0.01);
    }
}

// Those clients alone.
struct These {
    static constexpr Offers offers{};
    std::vector<Id> clients;
    Plan plan(Key, std::size_t, std::span<const Candidate>) const {
        Plan all;
        for (const Id k : clients) all.push_back({k, true});
        return all;
    }
};

TEST_CASE("a client's whole update is clipped as by hand: embedding, LSTM and attention") {
    using Hidden = FedAvg<rule::Sgd, fold::PrivateMean<support::KeyedNoise>>;
    const auto update = [](const Net& net, double clip, double clients, const These& who) {
        auto run = run_of(net, Hidden{.local = lively, .fold = {.clip = clip, .noise = 0, .clients = clients}});
        std::vector<double> before(run.server().w.begin(), run.server().w.end());
        run.round(who);
        for (std::size_t j = 0; j < before.size(); ++j) before[j] = static_cast<double>(run.server().w[j]) - before[j];
        return before;
    };
    for (const auto& net : nets()) {
        std::vector<std::vector<double>> own;
        std::vector<double> lengths;
        for (Id k = 0; k < 3; ++k) {
            own.push_back(update(net, 1e9, 1, {{k}}));  // nothing is cut
            double squared = 0;
            for (const double u : own.back()) squared += u * u;
            lengths.push_back(std::sqrt(squared));
        }
        auto sorted = lengths;
        std::sort(sorted.begin(), sorted.end());
        const double clip = (sorted[0] + sorted[1]) / 2;  // two of three are cut
        const auto got = update(net, clip, 3, {{0, 1, 2}});
        double off = 0, off_uncut = 0;
        for (std::size_t j = 0; j < got.size(); ++j) {
            double sum = 0, uncut = 0;
            for (std::size_t k = 0; k < 3; ++k) {
                sum += own[k][j] * std::min(1.0, clip / lengths[k]) / 3;
                uncut += own[k][j] / 3;
            }
            off = std::max(off, std::abs(got[j] - sum));
            off_uncut = std::max(off_uncut, std::abs(got[j] - uncut));
        }
        CHECK(off < 1e-6);  // parameters are below 4: a rounding of float is 2.4e-7
        CHECK(off_uncut > 1e-5);
    }
}

TEST_CASE("what hides whole clients says so: the server's ledger, the same for all, at the fold's delta") {
    using Hidden = FedAvg<rule::Sgd, fold::PrivateMean<support::KeyedNoise>>;
    auto run = run_of(lstm(), Hidden{.fold = {.clip = 0.5, .noise = 2, .clients = 3, .delta = 1e-3}});
    run.round(sample::Uniform{3});
    const auto once = privacy_statement(run);
    run.round(sample::Uniform{3});
    const auto twice = privacy_statement(run);
    CHECK(once.of_clients);
    CHECK(once.delta == 1e-3);
    CHECK(once.epsilon == std::vector<double>(run.size(), once.epsilon.at(0)));
    const std::vector<Spent> by_hand{{1, 1, 2}};  // a fixed number: half the noise, on everybody
    CHECK(twice.epsilon.at(3) == Approx(privacy::guarantee(by_hand, 1e-3).epsilon));
    CHECK(twice.epsilon.at(3) > once.epsilon.at(3));
    CHECK(report::analysis::privacy_table(twice).title == "Differential privacy of whole clients");
    CHECK_THROWS_AS(run_of(lstm(), Hidden{.fold = {.clients = 3, .delta = 0}}), ConfigError);
}

TEST_CASE("accuracy of words leaves out the marks of a vocabulary; perplexity is the exponential of the loss") {
    // Two words, so 0 is padding, 3 unknown and 5 an end.
    const auto pool = data::Dataset::own(std::vector<std::int32_t>(6), std::vector<std::int32_t>{1, 3, -1, 2, 5, 1}, 6, 3);
    const std::vector<Index> both{0, 1};
    std::vector<double> says(2 * 3 * 6, std::log(0.1));
    for (const std::size_t at : {0u * 6 + 1, 1u * 6 + 3, 2u * 6 + 4, 3u * 6 + 1, 4u * 6 + 5, 5u * 6 + 1}) says[at] = std::log(0.5);
    const auto judged = [&](const data::Dataset& examples) {
        Judgement to;
        judge_classes(Batch<double>(examples.examples(), both), In<double>(says), to);
        return to;
    };
    const auto plain = judged(pool), text = judged(pool.of_words(2));
    CHECK(plain.counted == 5);
    CHECK(plain.right == 4);
    CHECK(plain.words == 0);
    CHECK(text.right == 4);
    CHECK(text.words == 3);  // 1, 2, 1
    CHECK(text.right_words == 2);
    CHECK_THROWS_AS(pool.of_words(6), ConfigError);

    using report::Average;
    const report::PerClient<Which::global, When::before, SplitOf::test, Whom::all> result(
        report::On::local(), report::Pick::last(), "",
        {{.client = 0, .correct = 2, .loss_sum = 4, .n = 4, .correct_words = 1, .words = 2},
         {.client = 1, .correct = 1, .loss_sum = 4, .n = 1, .correct_words = 0, .words = 0}});
    CHECK(result.perplexity(Average::pooled).value == Approx(std::exp(8.0 / 5)));
    CHECK(result.perplexity(Average::unweighted).value == Approx((std::exp(1.0) + std::exp(4.0)) / 2));
    CHECK(result.in_vocabulary(Average::pooled).value == 0.5);
    CHECK(result.in_vocabulary(Average::unweighted).value == 0.5);  // who has no word does not count
    CHECK(report::parse<report::Metric>("in_vocabulary") == result.in_vocabulary(Average::pooled).metric.get());
}

TEST_CASE("a federation learns to spell, and says how well in words") {
    auto run = run_of(lstm(), FedAvg<>{.local = {.rate = 0.5}, .epochs = 5});
    const auto before = evaluate<Which::global>(run);
    for (int r = 0; r < 8; ++r) run.round(sample::Uniform{4});
    const auto after = evaluate<Which::global>(run);
    using report::Average;
    CHECK(after.perplexity(Average::pooled).value.get() < before.perplexity(Average::pooled).value.get());
    CHECK(after.in_vocabulary(Average::pooled).value.get() > before.in_vocabulary(Average::pooled).value.get());
    std::size_t labels = 0, all = 0;
    for (const auto& count : after.counts()) labels += count.n, all += count.words;
    CHECK(all > 0);
    CHECK(all < labels);  // some are unknown

    report::RunRecord record;
    report::fill(record.per_client, after);
    CHECK(std::isfinite(record.per_client[0].in_vocabulary_global));
    const auto text = report::to_json(record);
    CHECK(text.find("\"in_vocabulary_global\"") != std::string::npos);
    CHECK(text.find("\"in_vocabulary_personal\"") == std::string::npos);
}

}  // namespace text_methods_test
