// SPDX-License-Identifier: BSD-3-Clause
// Evaluation on shifted images, and of several labels.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <tessera/data/normalise.hpp>
#include <tessera/data/shift.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/recipe.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>

namespace evaluate_shift_test {

using namespace tessera;

namespace {

constexpr std::size_t side = 4;
constexpr data::ImageShape shape{side, side};
using Net = nn::Mclr<side * side, 2>;

// Class 1 is a chess board in dim noise, class 0 as bright without it: averaged pixels do not tell them apart.
data::FederatedDataset boards() {
    std::vector<std::uint8_t> pixels;
    std::vector<std::int32_t> labels;
    data::Split split;
    for (std::size_t k = 0; k < 3; ++k) {
        Stream draw(Key{k + 1});
        data::Share share;
        share.key = k;
        for (std::size_t i = 0; i < 60; ++i) {
            (i < 40 ? share.train : share.test).push_back(static_cast<Index>(labels.size()));
            labels.push_back(static_cast<std::int32_t>(draw.below(2)));
            for (std::size_t j = 0; j < side * side; ++j) {
                const std::size_t field = (j / side + j % side) % 2;
                pixels.push_back(static_cast<std::uint8_t>(draw.below(80) + (labels.back() == 1 ? 80 * field : 40)));
            }
        }
        split.clients.push_back(std::move(share));
    }
    return {data::scaled_to_unit(data::Dataset::own(std::move(pixels), std::move(labels), 2)), std::move(split)};
}
std::vector<Index> all_tests(const data::FederatedDataset& data) {
    std::vector<Index> all;
    for (const auto& share : data.split().clients) all.insert(all.end(), share.test.begin(), share.test.end());
    return all;
}
template <class Me>
Federation<Me, Net> trained(const Me& method) {
    Federation<Me, Net> run{{}, boards(), method, {.seed = 2, .batch = 10}};
    run.run(10, sample::Everyone{});
    return run;
}

// Two labels, each the sign of a feature of its own.
struct MarkerRecipe {
    static constexpr nn::Shape in = 2;
    static constexpr auto layers = nn::chain(nn::Linear{2});
};
using Marker = nn::Fixed<MarkerRecipe, float, nn::BinaryCrossEntropy>;
data::FederatedDataset marked_points() {
    std::vector<float> rows;
    std::vector<std::uint8_t> multi_hot;
    data::Split split;
    for (std::size_t k = 0; k < 3; ++k) {
        Stream draw(Key{k + 7});
        data::Share share;
        share.key = k;
        for (std::size_t i = 0; i < 50; ++i) {
            (i < 30 ? share.train : share.test).push_back(static_cast<Index>(rows.size() / 2));
            for (int c = 0; c < 2; ++c) {
                const double x = draw.normal();
                rows.push_back(static_cast<float>(x));
                multi_hot.push_back(x + 0.3 * draw.normal() > 0);
            }
        }
        split.clients.push_back(std::move(share));
    }
    return {data::Dataset::multi_label(std::move(rows), std::move(multi_hot), 2), std::move(split)};
}

}  // namespace

TEST_CASE("on everybody's test images as they are, a named set is the union; shifted, the pattern is lost") {
    const auto run = trained(FedAvgFt<>{.local = {.rate = 0.3}, .tune_epochs = 2});
    const auto tests = all_tests(run.data());
    const auto& pool = run.data().pool();
    std::vector<std::uint8_t> pixels;
    std::vector<std::int32_t> labels;
    for (const Index i : tests) {
        const auto* row = static_cast<const std::uint8_t*>(pool.examples().rows) + i * side * side;
        pixels.insert(pixels.end(), row, row + side * side);
        labels.push_back(pool.label(i));
    }
    const auto same = data::scaled_to_unit(data::Dataset::own(pixels, labels, 2));
    const auto named = evaluate_on_shift<Which::personal>(run, "none", same);
    const auto together = evaluate_on_union<Which::personal>(run);
    CHECK(named.accuracies() == together.accuracies());
    CHECK(named.accuracy(Average::pooled).value > 0.9);

    const auto coarse = data::shifted(pool, shape, {data::Corruption::pixelate, 5}, tests);
    const auto lost = evaluate_on_shift<Which::personal>(run, "pixelate:5", coarse);
    CHECK(lost.counts().size() == 3);
    CHECK(lost.counts()[1].n == tests.size());
    CHECK(lost.accuracy(Average::unweighted).on == report::On::shift("pixelate:5"));
    CHECK(lost.accuracy(Average::unweighted).value < named.accuracy(Average::unweighted).value.get() - 0.1);
}

TEST_CASE("a global model has the same result for every client; personal ones do not; threads change nothing") {
    const auto run = trained(FedAvgFt<>{.local = {.rate = 0.5}, .tune_epochs = 5});
    const auto noisy =
        data::shifted(run.data().pool(), shape, {data::Corruption::contrast, 5}, all_tests(run.data()));
    const auto global = evaluate_on_shift<Which::global>(run, "contrast:5", noisy);
    CHECK(global.stddev() == 0);
    Vec<float> log_p(2 * noisy.size());
    std::vector<Index> all(noisy.size());
    std::iota(all.begin(), all.end(), Index{0});
    const Batch<float> batch(noisy.examples(), all);
    run.setup().model.predict(run.server().w, batch, log_p);
    double right = 0;
    for (std::size_t i = 0; i < all.size(); ++i) right += (log_p[2 * i + 1] > log_p[2 * i]) == (batch.label(i) == 1);
    CHECK(global.counts()[2].correct == right);
    const auto before = run.fingerprint();
    const auto personal = evaluate_on_shift<Which::personal>(run, "contrast:5", noisy);
    bool differ = false;
    for (const auto& count : personal.counts()) differ = differ || count.loss_sum != personal.counts()[0].loss_sum;
    CHECK(differ);
#ifdef _OPENMP
    const auto threads = evaluate_on_shift<Which::personal>(run, "contrast:5", noisy, exec::OpenMp{3});
    for (std::size_t k = 0; k < 3; ++k) CHECK(threads.counts()[k].loss_sum == personal.counts()[k].loss_sum);
#endif
    CHECK(run.fingerprint() == before);
    const auto other = data::Dataset::own(std::vector<float>(3), {0}, 2);
    CHECK_THROWS_WITH_AS(evaluate_on_shift<Which::global>(run, "other", other),
                         doctest::Contains("other has 3 features"), ConfigError);
}

TEST_CASE("several labels: loss, accuracy a label and areas are those of a loop") {
    Federation<FedAvg<>, Marker> run{{}, marked_points(), {.local = {.rate = 0.5}}, {.seed = 2, .batch = 10}};
    run.run(15, sample::Everyone{});
    const auto result = evaluate<Which::global>(run);
    const auto areas = evaluate_auc<Which::global>(run);
    for (Id k = 0; k < 3; ++k) {
        const auto data = run.data()[k];
        const Batch<float> batch(*data.examples, data.test);
        Vec<float> log_p(2 * batch.size());
        run.setup().model.predict(run.server().w, batch, log_p);
        double loss = 0, right = 0, wins[2] = {}, pairs[2] = {};
        for (std::size_t i = 0; i < batch.size(); ++i) {
            for (std::size_t c = 0; c < 2; ++c) {
                const double p = std::exp(static_cast<double>(log_p[2 * i + c]));
                loss -= std::log(batch.in_class(i, c) ? p : 1 - p) / 2;
                right += (p > 0.5) == batch.in_class(i, c) ? 0.5 : 0;
                for (std::size_t j = 0; j < batch.size(); ++j)
                    if (batch.in_class(i, c) && !batch.in_class(j, c)) {
                        wins[c] += log_p[2 * i + c] > log_p[2 * j + c];
                        pairs[c] += 1;
                    }
            }
        }
        CHECK(result.counts()[k].correct == right);
        CHECK(result.counts()[k].loss_sum == doctest::Approx(loss).epsilon(1e-6));  // 1 - p loses digits of p here
        CHECK(areas.values()[k].value == (wins[0] / pairs[0] + wins[1] / pairs[1]) / 2);
    }
    CHECK(areas.mean(Average::unweighted).value > 0.9);  // it has learnt: chance is a half
    const Federation<FedAvg<>, Marker> fresh{{}, marked_points(), {}, {}, Vec<float>(6, 0.0f)};
    CHECK(evaluate_auc<Which::global>(fresh).mean(Average::unweighted).value == 0.5);  // all scores tie
}

TEST_CASE("areas on the union see everybody's examples; one label an example is one class against the rest") {
    Federation<Local<>, Marker> run{{}, marked_points(), {.local = {.rate = 0.5}}, {.seed = 2, .batch = 10}};
    run.run(3, sample::Everyone{});
    const auto together = evaluate_auc_on_union<Which::personal>(run);
    CHECK(together.values().size() == 3);
    CHECK(together.values()[0].n == 60);
    CHECK(evaluate_auc<Which::personal>(run).values()[0].n == 20);
    CHECK(together.mean(Average::pooled).on == report::On::union_of_clients());
    CHECK(together.values()[0].value != together.values()[1].value);

    const auto labelled = trained(FedAvg<>{.local = {.rate = 0.3}});
    const auto areas = evaluate_auc<Which::global>(labelled);
    CHECK(areas.mean(Average::unweighted).value > 0.9);
    CHECK(areas.mean(Average::unweighted).metric == report::Metric::auc);
}

TEST_CASE("an answer that is certain and wrong costs much, but not infinitely much") {
    const auto data = data::Dataset::multi_label(std::vector<float>{0}, {0, 1}, 2);
    const std::vector<Index> one{0};
    const auto certain = [](const Batch<float>&, Out<float> out) { out[0] = 0, out[1] = -0.1f; };
    const auto worth = [](const Batch<float>& b, In<float> log_p, Judgement& to) { judge_as_labelled(b, log_p, to); };
    const auto count = detail::score<float>(0, certain, data.examples(), one, 2, worth);
    CHECK(count.correct == 0.5);  // of two labels one is right
    CHECK(std::isfinite(count.loss_sum));
    CHECK(count.loss_sum > 40);
}

}  // namespace evaluate_shift_test
