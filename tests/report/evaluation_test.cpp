// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/evaluation.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/report/record.hpp>

namespace evaluation_test {

using namespace tessera::report;
using doctest::Approx;
using tessera::ConfigError;
using tessera::Id;

namespace {

using Global = PerClient<Which::global, When::before, SplitOf::test, Whom::all>;
using Personal = PerClient<Which::personal, When::after, SplitOf::test, Whom::all>;
using Both = Breakdown<When::before, When::after, SplitOf::test, Whom::all>;

template <class Result>
Result result(std::vector<ClientCount> counts) {
    return {On::local(), Pick::last(), "", std::move(counts)};
}

// A result without its tag does not compile; what compiles with all tags must not compile with one fewer.
template <class E>
concept AllTags = requires {
    E{.model = Which::global,
      .when = When::before,
      .on = On::local(),
      .split = SplitOf::test,
      .clients = Whom::all,
      .pick = Pick::last(),
      .average = Average::pooled,
      .metric = Metric::loss,
      .stage = "",
      .value = 1.0};
};
template <class E>
concept WithoutModel = requires {
    E{.when = When::before,
      .on = On::local(),
      .split = SplitOf::test,
      .clients = Whom::all,
      .pick = Pick::last(),
      .average = Average::pooled,
      .metric = Metric::loss,
      .stage = "",
      .value = 1.0};
};
template <class E>
concept WithoutWhen = requires {
    E{.model = Which::global,
      .on = On::local(),
      .split = SplitOf::test,
      .clients = Whom::all,
      .pick = Pick::last(),
      .average = Average::pooled,
      .metric = Metric::loss,
      .stage = "",
      .value = 1.0};
};
template <class E>
concept WithoutOn = requires {
    E{.model = Which::global,
      .when = When::before,
      .split = SplitOf::test,
      .clients = Whom::all,
      .pick = Pick::last(),
      .average = Average::pooled,
      .metric = Metric::loss,
      .stage = "",
      .value = 1.0};
};
template <class E>
concept WithoutPick = requires {
    E{.model = Which::global,
      .when = When::before,
      .on = On::local(),
      .split = SplitOf::test,
      .clients = Whom::all,
      .average = Average::pooled,
      .metric = Metric::loss,
      .stage = "",
      .value = 1.0};
};
template <class E>
concept WithoutAverage = requires {
    E{.model = Which::global,
      .when = When::before,
      .on = On::local(),
      .split = SplitOf::test,
      .clients = Whom::all,
      .pick = Pick::last(),
      .metric = Metric::loss,
      .stage = "",
      .value = 1.0};
};
template <class E>
concept WithoutValue = requires {
    E{.model = Which::global,
      .when = When::before,
      .on = On::local(),
      .split = SplitOf::test,
      .clients = Whom::all,
      .pick = Pick::last(),
      .average = Average::pooled,
      .metric = Metric::loss,
      .stage = ""};
};
static_assert(AllTags<Evaluation>);
static_assert(!WithoutModel<Evaluation> && !WithoutWhen<Evaluation> && !WithoutOn<Evaluation>);
static_assert(!WithoutPick<Evaluation> && !WithoutAverage<Evaluation> && !WithoutValue<Evaluation>);
static_assert(!std::is_default_constructible_v<Evaluation>);
static_assert(!std::is_constructible_v<Evaluation, double>);

template <class A, class B>
concept Comparable = requires(const A& a, const B& b) { compare(a, b); };
static_assert(Comparable<Global, Personal>);
static_assert(!Comparable<Personal, Global>, "wrong order");
static_assert(!Comparable<Global, Global> && !Comparable<Personal, Personal>);
static_assert(!Comparable<Global, PerClient<Which::personal, When::after, SplitOf::train, Whom::all>>, "other split");
static_assert(!Comparable<Global, PerClient<Which::personal, When::after, SplitOf::test, Whom::sampled>>, "others");

}  // namespace

TEST_CASE("the type's tags and the constructor's stand in every evaluation") {
    const PerClient<Which::personal, When::before, SplitOf::validation, Whom::unseen> some(
        On::shift("noise"), Pick::mean_last(5), "tune", {{.client = 3, .correct = 1, .loss_sum = 2, .n = 4}});
    const Evaluation e = some.loss(Average::pooled);
    CHECK(e.model == Which::personal);
    CHECK(e.when == When::before);
    CHECK(e.split == SplitOf::validation);
    CHECK(e.clients == Whom::unseen);
    CHECK(e.on.word() == "shift:noise");
    CHECK(e.pick.word() == "mean_last:5");
    CHECK(e.average == Average::pooled);
    CHECK(e.metric == Metric::loss);
    CHECK(e.stage == "tune");
    CHECK(e.value == 0.5);
    CHECK(in_words(e) ==
          "personal model, before local training, noise shift, validation data, clients unseen in training, "
          "mean of the last 5 evaluated rounds, pooled over examples, stage tune");
    auto single = e;
    single.pick = Pick::mean_last(1);
    CHECK(in_words(single).find(", last round, ") != std::string::npos);
}

TEST_CASE("every tag reads back from its word, and nothing else does") {
    CHECK(parse<Which>("personal") == Which::personal);
    CHECK(parse<SplitOf>("validation") == SplitOf::validation);
    CHECK(parse<Metric>(word(Metric::auc)) == Metric::auc);
    CHECK_THROWS_AS(parse<Whom>("everyone"), ConfigError);
    CHECK(On::parse("union") == On::union_of_clients());
    CHECK(On::parse("shift:a b") == On::shift("a b"));
    CHECK_THROWS_AS(On::parse("shift:"), ConfigError);
    CHECK_THROWS_AS(On::parse("elsewhere"), ConfigError);
    for (const auto& pick : {Pick::last(), Pick::best_validation(), Pick::mean_last(12)})
        CHECK(Pick::parse(pick.word()) == pick);
    for (const char* text : {"best_test", "mean_last:", "mean_last:0", "mean_last:-1", "mean_last:3x"})
        CHECK_THROWS_AS(Pick::parse(text), ConfigError);
}

TEST_CASE("averages by hand") {
    const auto some = result<Global>({{0, 1, 8, 2}, {1, 9, 5, 10}});
    CHECK(some.accuracy(Average::unweighted).value == Approx((0.5 + 0.9) / 2));
    CHECK(some.accuracy(Average::pooled).value == Approx(10.0 / 12));
    CHECK(some.loss(Average::unweighted).value == Approx((4 + 0.5) / 2));
    CHECK(some.loss(Average::pooled).value == Approx(13.0 / 12));
    CHECK(some.stddev() == Approx(0.2));  // divides by N, not N - 1
}

TEST_CASE("order of arrival does not change a bit") {
    std::vector<ClientCount> counts;
    for (Id k = 0; k < 50; ++k) counts.push_back({k, static_cast<double>(k % 7), 0.1 * k, 7 + k % 5});
    const auto forward = result<Global>(counts);
    const auto backward = result<Global>({counts.rbegin(), counts.rend()});
    for (const Average how : {Average::unweighted, Average::pooled}) {
        CHECK(forward.accuracy(how).value == backward.accuracy(how).value);
        CHECK(forward.loss(how).value == backward.loss(how).value);
    }
    CHECK(forward.stddev() == backward.stddev());
}

TEST_CASE("clients without examples are skipped, and nobody at all is absent") {
    const auto some = result<Global>({{0, 0, 0, 0}, {1, 3, 1, 4}, {2, 0, 0, 0}});
    CHECK(some.counts().size() == 1);
    CHECK(some.accuracy(Average::unweighted).value == 0.75);
    CHECK(some.accuracies() == std::vector<double>{0.75});
    CHECK(some.stddev() == 0);

    const auto none = result<Global>({{0, 0, 0, 0}});
    for (const Average how : {Average::unweighted, Average::pooled}) {
        CHECK(std::isnan(none.accuracy(how).value));
        CHECK(std::isnan(none.quantile(0.5, how)));
    }
    CHECK(std::isnan(none.stddev()));
    CHECK(std::isnan(compare(none, result<Personal>({})).share_benefiting()));
}

TEST_CASE("counts that cannot be are refused") {
    CHECK_THROWS_AS(result<Global>({{0, 5, 0, 4}}), ConfigError);
    CHECK_THROWS_AS(result<Global>({{0, -1, 0, 4}}), ConfigError);
    CHECK_THROWS_AS(result<Global>({{0, absent, 0, 4}}), ConfigError);
    CHECK_THROWS_AS(result<Global>({{7, 1, 0, 4}, {7, 1, 0, 4}}), ConfigError);
}

TEST_CASE("quantiles by hand") {
    // Accuracies 0.0 0.2 0.5 1.0 with 10, 5, 4, 1 examples.
    const auto some = result<Global>({{0, 2, 0, 4}, {1, 0, 0, 10}, {2, 1, 0, 1}, {3, 1, 0, 5}});
    CHECK(some.quantile(0.0, Average::unweighted) == 0.0);
    CHECK(some.quantile(0.25, Average::unweighted) == 0.0);  // one of four reaches a quarter
    CHECK(some.quantile(0.26, Average::unweighted) == 0.2);
    CHECK(some.quantile(0.50, Average::unweighted) == 0.2);
    CHECK(some.quantile(0.75, Average::unweighted) == 0.5);
    CHECK(some.quantile(0.99, Average::unweighted) == 1.0);
    CHECK(some.quantile(0.50, Average::pooled) == 0.0);  // 10 of 20
    CHECK(some.quantile(0.75, Average::pooled) == 0.2);  // 15 of 20
    CHECK(some.quantile(0.95, Average::pooled) == 0.5);  // 19 of 20
    CHECK(some.quantile(0.99, Average::pooled) == 1.0);
    CHECK_THROWS_AS(some.quantile(1.5, Average::pooled), ConfigError);
}

TEST_CASE("a quantile counts clients, not rounding errors") {
    std::vector<Weighted> hundred;
    for (int k = 1; k <= 100; ++k) hundred.push_back({static_cast<double>(k), 1});
    for (int k = 1; k <= 100; ++k) CHECK(quantile(hundred, k / 100.0) == k);
}

TEST_CASE("L-EV-1: four shares sum to one and give back both accuracies") {
    std::vector<BreakdownCount> counts;
    for (Id k = 0; k < 23; ++k) counts.push_back({k, k % 5U, (k * 3U) % 4U, (k * 7U) % 6U, 1 + k % 3U});
    counts.push_back({.client = 23});  // no examples: counts nowhere
    const Both both(On::local(), Pick::last(), "", counts);
    const Shares shares = both.shares();
    CHECK(shares.both + shares.global_only + shares.personal_only + shares.neither == Approx(1).epsilon(1e-14));
    CHECK(shares.accuracy_global() == Approx(both.global().accuracy(Average::unweighted).value).epsilon(1e-14));
    CHECK(shares.accuracy_personal() == Approx(both.personal().accuracy(Average::unweighted).value).epsilon(1e-14));
    CHECK(std::isnan(both.global().loss(Average::pooled).value));

    const Effect effect = both.effect();
    REQUIRE(effect.shares);
    CHECK(effect.deltas.size() == 23);
    double sum = 0;
    for (const auto& delta : effect.deltas) sum += delta.value;
    CHECK(sum / 23 == Approx(shares.accuracy_personal() - shares.accuracy_global()));
}

TEST_CASE("examples fall into the four kinds") {
    const std::vector<std::uint8_t> global{1, 1, 0, 0, 1}, personal{1, 0, 1, 0, 1};
    const auto count = break_down(4, global, personal);
    CHECK(count.client == 4);
    CHECK(count.both == 2);
    CHECK(count.global_only == 1);
    CHECK(count.personal_only == 1);
    CHECK(count.neither == 1);
    CHECK(count.n() == 5);
    CHECK_THROWS_AS(break_down(4, global, std::vector<std::uint8_t>{1}), ConfigError);
}

TEST_CASE("L-EV-2: equal sizes make both averages agree; equal models benefit nobody") {
    std::vector<ClientCount> counts;
    for (Id k = 0; k < 31; ++k) counts.push_back({k, static_cast<double>((k * 11) % 38), 0.5 * k, 37});
    const auto global = result<Global>(counts);
    CHECK(global.accuracy(Average::unweighted).value == Approx(global.accuracy(Average::pooled).value).epsilon(1e-14));
    CHECK(global.loss(Average::unweighted).value == Approx(global.loss(Average::pooled).value).epsilon(1e-14));
    for (const double q : quantile_levels)
        CHECK(global.quantile(q, Average::unweighted) == global.quantile(q, Average::pooled));

    const Effect effect = compare(global, result<Personal>(counts));
    CHECK(effect.benefiting == 0);
    CHECK(effect.harmed == 0);
    CHECK(effect.share_benefiting() == 0);
    for (const auto& delta : effect.deltas) CHECK(delta.value == 0);
}

TEST_CASE("L-EV-3: one model on the union has no spread and equals the pooled accuracy, exactly") {
    std::vector<ClientCount> counts;
    for (Id k = 0; k < 97; ++k) counts.push_back({k, 1234, 77.7, 3001});
    const Personal same(On::union_of_clients(), Pick::last(), "", counts);
    CHECK(same.stddev() == 0);
    CHECK(same.accuracy(Average::unweighted).value == same.accuracy(Average::pooled).value);
    CHECK(same.accuracy(Average::pooled).value == 1234.0 / 3001);
}

TEST_CASE("who benefits and who is harmed") {
    const auto global = result<Global>({{0, 5, 0, 10}, {1, 5, 0, 10}, {2, 5, 0, 10}, {3, 0, 0, 0}});
    const auto personal = result<Personal>({{2, 4, 0, 10}, {0, 8, 0, 10}, {1, 5, 0, 10}});
    const Effect effect = compare(global, personal);
    CHECK(effect.benefiting == 1);
    CHECK(effect.harmed == 1);
    CHECK(effect.share_benefiting() == Approx(1.0 / 3));
    CHECK(effect.deltas[0].value == Approx(0.3));
    CHECK(effect.deltas[1].value == 0);
    CHECK(effect.deltas[2].value == Approx(-0.1));
    CHECK_FALSE(effect.shares);
}

TEST_CASE("results on different ground are not compared") {
    const auto global = result<Global>({{0, 5, 0, 10}});
    CHECK_THROWS_AS(compare(global, result<Personal>({{1, 5, 0, 10}})), ConfigError);
    CHECK_THROWS_AS(compare(global, result<Personal>({{0, 5, 0, 11}})), ConfigError);
    CHECK_THROWS_AS(compare(global, result<Personal>({})), ConfigError);
    CHECK_THROWS_AS(compare(global, Personal(On::union_of_clients(), Pick::last(), "", {{0, 5, 0, 10}})), ConfigError);
}

TEST_CASE("rows of clients are filled from typed results") {
    std::vector<ClientRecord> rows{{.id = 2, .n_train = 9}};
    fill(rows, result<Global>({{2, 5, 20, 10}, {1, 1, 1, 4}}));
    fill(rows, result<Personal>({{2, 8, 5, 10}}));
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].id == 1);
    CHECK(rows[0].accuracy_global == 0.25);
    CHECK(std::isnan(rows[0].gain()));
    CHECK(rows[1].n_train == 9);
    CHECK(rows[1].n_test == 10);
    CHECK(rows[1].loss_global == 2);
    CHECK(rows[1].gain() == Approx(0.3));
    CHECK_THROWS_AS(fill(rows, Personal(On::union_of_clients(), Pick::last(), "", {})), ConfigError);
}

}  // namespace evaluation_test
