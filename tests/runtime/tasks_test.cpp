// SPDX-License-Identifier: BSD-3-Clause
// A label a position, real targets, multi-hot labels: trained in a federation and judged by the model's own loss.
#include <tessera/runtime/evaluate.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedem.hpp>
#include <tessera/method/knn_per.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/attention.hpp>
#include <tessera/nn/recurrent.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/class_loss.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/keyed_noise.hpp>

namespace tasks_test {

namespace {

using namespace tessera;
using doctest::Approx;
using doctest::Contains;

// Two clients, `each` examples, the first two thirds to train on.
data::FederatedDataset dealt(data::Dataset pool) {
    data::Split split;
    split.clients.resize(2);
    for (Index i = 0; i < pool.size(); ++i) {
        auto& share = split.clients[i % 2];
        (i < pool.size() * 2 / 3 ? share.train : share.test).push_back(i);
    }
    return {std::move(pool), std::move(split)};
}

constexpr std::size_t letters = 4, steps = 6;
// The next letter is the one after: 0 1 2 3 0 ...; lines have different lengths, and what is behind them no label.
data::FederatedDataset text() {
    std::vector<std::int32_t> words, next;
    Stream draw(Key{4});
    for (int line = 0; line < 60; ++line) {
        const auto begin = static_cast<std::int32_t>(draw.below(letters));
        const std::size_t length = 2 + draw.below(steps - 1);
        for (std::size_t t = 0; t < steps; ++t) {
            words.push_back((begin + static_cast<std::int32_t>(t)) % 4);
            next.push_back(t < length ? (words.back() + 1) % 4 : -1);
        }
    }
    return dealt(data::Dataset::own(words, next, letters, steps));
}
using Words = nn::Network<float>;
Words reader() { return {steps, nn::chain(nn::Embedding{letters, 5}, nn::Lstm{8}, nn::Linear{letters})}; }

// y = 2 x1 - x2 + 1, and half of it.
data::FederatedDataset lines(std::size_t each = 1) {
    std::vector<float> rows;
    std::vector<double> targets;
    Stream draw(Key{5});
    for (int i = 0; i < 120; ++i) {
        const double a = draw.normal(), b = draw.normal();
        rows.push_back(static_cast<float>(a));
        rows.push_back(static_cast<float>(b));
        for (std::size_t k = 1; k <= each; ++k) targets.push_back((2 * a - b + 1) / static_cast<double>(k));
    }
    return dealt(data::Dataset::regression(rows, targets, each));
}
template <class Loss>
nn::Network<float, Loss> line(std::size_t outputs) {
    return {2, nn::chain(nn::Linear{outputs})};
}

}  // namespace

TEST_CASE("a label a position is learnt, and judged label by label") {
    Federation<FedAvg<>, Words> run(reader(), text(), {.local = {.rate = 0.5}}, {.batch = 10});
    const auto before = evaluate<Which::global>(run);
    run.run(30, sample::Everyone{});
    const auto after = evaluate<Which::global>(run);
    CHECK(after.accuracy(Average::pooled).value > 0.95);
    CHECK(before.accuracy(Average::pooled).value < 0.6);
    CHECK(after.loss(Average::pooled).value < before.loss(Average::pooled).value / 3);
    CHECK(std::isnan(after.r2(Average::pooled).value.get()));
    for (Id k = 0; k < 2; ++k) {
        const auto data = run.data()[k];
        const Batch<float> batch(*data.examples, data.test);
        CHECK(after.counts()[k].n == batch.labelled());
        CHECK(batch.labelled() < data.test.size() * steps);
        Vec<float> log_p(batch.size() * steps * letters);
        run.setup().model.predict(run.server().w, batch, log_p);
        double loss = 0;
        for (std::size_t i = 0; i < batch.size(); ++i)
            for (std::size_t t = 0; t < steps; ++t)
                if (const auto label = batch.label(i, t); label >= 0)
                    loss -= static_cast<double>(log_p[(i * steps + t) * letters + static_cast<std::size_t>(label)]);
        CHECK(after.counts()[k].loss_sum == Approx(loss).epsilon(1e-12));
    }
    const auto pieces = break_down(run);
    CHECK(pieces.global().counts()[0].correct == after.counts()[0].correct);
    CHECK(pieces.global().counts()[0].n == after.counts()[0].n);
    const auto classes = class_losses<Which::global>(run);
    std::size_t all = 0;
    for (const std::size_t n : classes[0].n) all += n;
    CHECK(all == after.counts()[0].n);
    CHECK_THROWS_WITH_AS(evaluate_auc<Which::global>(run), Contains("several labels"), ConfigError);
}

TEST_CASE("with privacy of examples, behind a virtual call, and with FedEM too") {
    using Private = FedAvg<rule::DpSgd<support::KeyedNoise>>;
    Federation<Private, nn::AnyModel<float>> run(
        nn::AnyModel<float>(reader()), text(),
        {.local = {.rate = 0.5, .clip = 1, .noise = 0, .sampling_rate = 0.5}}, {.batch = 10});
    run.run(8, sample::Everyone{});
    CHECK(evaluate<Which::global>(run).accuracy(Average::pooled).value > 0.6);
    Federation<FedEm<>, Words> mixed(reader(), text(), {.local = {.rate = 0.5}, .components = 2}, {.batch = 10});
    mixed.run(15, sample::Everyone{});
    CHECK(evaluate<Which::personal>(mixed).accuracy(Average::pooled).value > 0.8);
    Federation<KnnPer<>, Words> refused(reader(), text(), {}, {.batch = 10});
    CHECK_THROWS_WITH_AS(evaluate<Which::personal>(refused), Contains("several labels"), ConfigError);
}

TEST_CASE("a regression reports its own loss and R2, and no accuracy") {
    Federation<FedAvg<>, nn::Network<float, nn::Huber<>>> run(line<nn::Huber<>>(1), lines(), {.local = {.rate = 0.1}},
                                                              {.batch = 10});
    const auto before = evaluate<Which::global>(run);
    run.run(20, sample::Everyone{});
    const auto after = evaluate<Which::global>(run);
    CHECK(after.r2(Average::pooled).value > 0.99);
    CHECK(after.r2(Average::unweighted).value > 0.99);
    CHECK(before.r2(Average::pooled).value < 0.9);
    CHECK(after.r2(Average::pooled).metric == report::Metric::r2);
    CHECK(after.quality(Average::pooled).metric == report::Metric::r2);
    CHECK(std::isnan(after.accuracy(Average::pooled).value.get()));
    CHECK(std::isnan(after.stddev()));
    CHECK(std::isnan(after.quantile(0.5, Average::pooled)));
    CHECK(after.accuracies().empty());
    // Huber's loss, not a squared error.
    double loss = 0, n = 0;
    for (Id k = 0; k < 2; ++k) {
        const auto data = run.data()[k];
        const Batch<float> batch(*data.examples, data.test);
        Vec<float> out(batch.size());
        run.setup().model.predict(run.setup().initial, batch, out);
        for (std::size_t i = 0; i < batch.size(); ++i, ++n) {
            const double miss = std::fabs(static_cast<double>(out[i]) - static_cast<double>(batch.target(i)));
            loss += miss <= 1 ? miss * miss / 2 : miss - 0.5;
        }
    }
    CHECK(before.loss(Average::pooled).value == Approx(loss / n).epsilon(1e-12));
    CHECK_THROWS_WITH_AS(break_down(run), Contains("real targets"), ConfigError);
    const auto together = evaluate_on_union<Which::global>(run);
    CHECK(together.counts()[0].fit.r2() == Approx(after.r2(Average::pooled).value).epsilon(1e-12));
}

TEST_CASE("several targets, and what does not fit, before round one") {
    using Squares = nn::Network<float, nn::SquaredError>;
    Federation<FedAvg<>, Squares> run(line<nn::SquaredError>(2), lines(2), {.local = {.rate = 0.2}}, {.batch = 10});
    run.run(20, sample::Everyone{});
    CHECK(evaluate<Which::global>(run).r2(Average::pooled).value > 0.99);
    using Run = Federation<FedAvg<>, Squares>;
    CHECK_THROWS_WITH_AS(Run(line<nn::SquaredError>(1), lines(2), {}),
                         "nn::SquaredError needs an output for each real target of an example", ConfigError);
    CHECK_THROWS_WITH_AS((Federation<FedAvg<>, Words>({2, nn::chain(nn::Linear{2})}, lines(), {})),
                         Contains("needs one class an example"), ConfigError);
    CHECK_THROWS_WITH_AS((Federation<FedAvg<>, Words>({steps, nn::chain(nn::Linear{4})}, text(), {})),
                         Contains("needs a label for each position"), ConfigError);
}

}  // namespace tasks_test
