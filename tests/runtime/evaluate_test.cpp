// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <tessera/exec/openmp.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/toy_data.hpp>

namespace evaluate_test {

using namespace tessera;

namespace {

using Net = nn::Mclr<8, 4>;

template <class Me>
Federation<Me, Net> trained(Me method, const support::Toy& toy = {}) {
    Federation<Me, Net> run{Net{}, support::toy_data(toy), method, {.seed = 2, .batch = 5, .rounds = 6}};
    run.run(6, sample::Uniform{3});
    return run;
}

}  // namespace

TEST_CASE("the global accuracy is that of a loop over the test examples") {
    const auto run = trained(FedAvg<>{});
    const auto result = evaluate<Which::global>(run);
    double right = 0, loss = 0, n = 0;
    for (std::size_t k = 0; k < run.size(); ++k) {
        const auto data = run.data()[k];
        Vec<float> out(data.test.size() * 4);
        run.setup().model.predict(run.server().w, Batch<float>(*data.examples, data.test), out);
        for (std::size_t i = 0; i < data.test.size(); ++i) {
            const auto label = static_cast<std::size_t>(data.examples->labels[data.test[i]]);
            std::size_t best = 0;
            for (std::size_t c = 1; c < 4; ++c) best = out[4 * i + c] > out[4 * i + best] ? c : best;
            right += best == label;
            loss -= static_cast<double>(out[4 * i + label]);
            n += 1;
        }
    }
    CHECK(result.accuracy(Average::pooled).value == right / n);
    CHECK(result.loss(Average::pooled).value.get() == doctest::Approx(loss / n).epsilon(1e-12));  // order of additions
    CHECK(right / n > 0.4);  // it has learnt: chance is about a quarter
}

TEST_CASE("L-EV-1: four shares sum to one and give both accuracies back") {
    const auto run = trained(FedAvgFt<>{.local = {.rate = 0.3}, .tune_epochs = 4});
    const auto shares = break_down(run).shares();
    CHECK(shares.both + shares.global_only + shares.personal_only + shares.neither ==
          doctest::Approx(1).epsilon(1e-12));
    CHECK(shares.accuracy_global() ==
          doctest::Approx(evaluate<Which::global>(run).accuracy(Average::unweighted).value.get()).epsilon(1e-12));
    CHECK(shares.accuracy_personal() ==
          doctest::Approx(evaluate<Which::personal>(run).accuracy(Average::unweighted).value.get()).epsilon(1e-12));
    CHECK(shares.personal_only > 0);  // the two models do differ
}

TEST_CASE("what clients of a method without personal models are served is tagged as before training") {
    const auto served = evaluate<Which::personal>(trained(FedAvg<>{})).accuracy(Average::pooled);
    CHECK(served.when == When::before);
    CHECK(evaluate<Which::personal>(trained(FedAvgFt<>{})).accuracy(Average::pooled).when == When::after);
}

TEST_CASE("L-EV-2: equal test sizes make both averages equal; identical models benefit nobody") {
    const auto run = trained(FedAvgFt<>{.tune_epochs = 0});
    const auto global = evaluate<Which::global>(run);
    const auto personal = evaluate<Which::personal>(run);
    CHECK(global.accuracy(Average::pooled).value.get() ==
          doctest::Approx(global.accuracy(Average::unweighted).value.get()).epsilon(1e-12));
    const auto effect = report::compare(global, personal);
    CHECK(effect.benefiting == 0);
    CHECK(effect.harmed == 0);
    CHECK(effect.share_benefiting() == 0);
}

TEST_CASE("L-EV-3: on the union, identical personal models have no spread and the pooled accuracy") {
    const auto run = trained(FedAvgFt<>{.tune_epochs = 0});
    const auto all = evaluate_on_union<Which::personal>(run);
    CHECK(all.stddev() == 0);
    CHECK(all.accuracy(Average::unweighted).value ==
          evaluate<Which::global>(run).accuracy(Average::pooled).value);
    CHECK(all.accuracy(Average::pooled).on == report::On::union_of_clients());

    const auto apart = trained(Local<>{.local = {.rate = 0.3}, .epochs = 5});
    CHECK(evaluate_on_union<Which::personal>(apart).stddev() > 0);
}

TEST_CASE("evaluation changes nothing and does not depend on threads") {
    const auto run = trained(FedAvgFt<>{.tune_epochs = 3});
    const auto before = run.fingerprint();
    const auto serial = evaluate<Which::personal>(run).accuracies();
    CHECK(evaluate<Which::personal>(run, exec::OpenMp{3}).accuracies() == serial);
    CHECK(run.fingerprint() == before);
    CHECK_THROWS_AS(evaluate<Which::personal>(run, exec::OpenMp{0}), ConfigError);
    CHECK_THROWS_AS(evaluate<Which::global>(run, exec::OpenMp{0}), ConfigError);
}

TEST_CASE("splits and clients never seen are evaluated under their own tags") {
    const auto run = trained(FedAvgFt<>{.tune_epochs = 2}, {.unseen = 2});
    const auto unseen = evaluate<Which::personal, SplitOf::test, Whom::unseen>(run);
    CHECK(unseen.counts().size() == 2);
    CHECK(unseen.accuracy(Average::pooled).clients == Whom::unseen);
    const auto train = evaluate<Which::global, SplitOf::train>(run);
    CHECK(train.counts()[1].n == run.data()[1].train.size());
    CHECK(std::isnan((evaluate<Which::global, SplitOf::validation>(run).accuracy(Average::pooled).value.get())));
}

TEST_CASE("numbers that are not finite count as wrong") {
    const auto data = support::toy_data();
    const auto share = data[0];
    const auto nonsense = [](const Batch<float>& b, Out<float> out) {
        for (std::size_t i = 0; i < b.size() * 4; ++i) out[i] = std::nanf("");
    };
    const auto worth = [](const Batch<float>& b, In<float> log_p, Judgement& to) { judge_as_labelled(b, log_p, to); };
    CHECK(detail::score<float>(0, nonsense, *share.examples, share.test, 4, worth).correct == 0);
}

}  // namespace evaluate_test
