// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/fold/private_mean.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/runtime/cohort.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/poisson.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/keyed_noise.hpp>
#include <support/scalar_net.hpp>
#include <support/slope.hpp>

namespace private_mean_test {

using namespace tessera;
using support::same_bits;

namespace {
using Hidden = fold::PrivateMean<support::KeyedNoise>;
template <class R>
using Any = support::Slope<R, 1>;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double hair = 1 - 0x1p-20;

template <class R, class F>
Vec<R> folded(const F& fold, Vec<R> w, const std::vector<Row<R>>& rows, std::size_t round = 0) {
    memory_t<F, R> memory{};
    fold_rows(fold, Context<Any<R>>{.round = round}, w, Rows<R>(rows), memory);
    return w;
}
}  // namespace

// Somebody's own sampler, which does not say how it draws: the worst is assumed.
struct Unsaid {
    static constexpr Offers offers{};
    Plan plan(Key, std::size_t, std::span<const Candidate> all) const { return {{all[0].client, true}}; }
};

TEST_CASE_TEMPLATE("by hand: each update is cut to the norm, the sum is divided by a fixed number", R, float, double) {
    static_assert(LinearFold<Hidden, Any<R>> && accepts_masks<Hidden>);
    const Vec<R> w{1, 1}, far{4, 5}, near{R(1.3), R(1.4)};  // updates (3, 4) and (0.3, 0.4)
    const Hidden fold{.clip = 1, .noise = 0, .clients = 2};
    const double cut = hair / 2;
    const double rounding = sizeof(R) == 4 ? 1e-7 : 1e-15;
    CHECK(support::distance(folded<R>(fold, w, {{far}, {near}}),
                            {static_cast<R>(1 + 0.6 * cut + 0.15), static_cast<R>(1 + 0.8 * cut + 0.2)}) < rounding);
    // One that came alone is divided by two all the same, and its claim of a weight is not heard.
    const auto alone = folded<R>(fold, w, {{near}});
    CHECK(support::distance(alone, {R(1.15), R(1.2)}) < rounding);
    CHECK(same_bits(folded<R>(fold, w, {{near, 1000}}), alone));
    CHECK_FALSE(same_bits(folded<R>(fold::Mean{}, w, {{near}}), alone));
    // No limit, no noise, as many as came: the mean.
    const Hidden mean{.clip = infinity, .noise = 0, .clients = 2};
    CHECK(support::distance(folded<R>(mean, w, {{far}, {near}}), folded<R>(fold::Mean{}, w, {{far}, {near}})) < 4e-7);
}

TEST_CASE("no client moves the sum by more than the norm, whatever it sends") {
    constexpr std::size_t d = 40;
    Stream draw(Key{6});
    const Hidden fold{.clip = 0.25, .noise = 0, .clients = 1};
    const Vec<float> origin(d);
    double most = 0;
    for (int i = 0; i < 5000; ++i) {
        Vec<float> x(d);
        for (auto& v : x) {
            const double u = draw.uniform();
            v = u < 0.0005   ? std::numeric_limits<float>::quiet_NaN()
                : u < 0.001 ? -std::numeric_limits<float>::infinity()
                            : static_cast<float>((draw.uniform() - 0.5) * std::pow(10.0, -44 + 82 * draw.uniform()));
        }
        double squared = 0;
        for (const float v : folded<float>(fold, origin, {{x}}))
            squared += static_cast<double>(v) * static_cast<double>(v);
        REQUIRE(std::isfinite(squared));
        most = std::max(most, std::sqrt(squared));
    }
    CHECK(most <= 0.25);
    CHECK(most > 0.2499);
}

// n = 2e5: the deviation of a variance is sqrt(2/n) = 0.0032 of it; the bound is 4 of them, 1 % less noise is at 6.3.
TEST_CASE("noise has the deviation noise * clip / clients, is keyed by round, and comes to an empty round too") {
    constexpr std::size_t n = 200'000;
    const auto variance = [&](double noise) {
        double squares = 0;
        for (const double v : folded<double>(Hidden{.clip = 3, .noise = noise, .clients = 10}, Vec<double>(n), {}))
            squares += v * v;
        return squares / static_cast<double>(n);
    };
    const double expected = std::pow(1.5 * 3 / 10, 2);
    CHECK(std::fabs(variance(1.5) / expected - 1) < 0.0127);
    CHECK(std::fabs(variance(1.5 * 0.99) / expected - 1) > 0.0127);
    const Hidden fold{.clip = 1, .noise = 1, .clients = 3};
    const Vec<double> w(5), x(5, 1);
    CHECK(same_bits(folded<double>(fold, w, {{x}}), folded<double>(fold, w, {{x}})));
    CHECK_FALSE(same_bits(folded<double>(fold, w, {{x}}, 0), folded<double>(fold, w, {{x}}, 1)));
}

TEST_CASE("it streams along the tree of a cohort, bit for bit, and keeps its ledger") {
    const Hidden fold{.clip = 0.7, .noise = 0.5, .clients = 5};
    Stream draw(Key{8});
    std::vector<Vec<float>> updates(7, Vec<float>(33));
    for (auto& u : updates)
        for (auto& v : u) v = static_cast<float>(draw.normal());
    std::vector<Row<float>> rows;
    for (const auto& u : updates) rows.push_back({u});
    const Vec<float> before(33, 0.1f);
    CohortSum<Hidden, float> sums;
    sums.begin(rows.size());
    for (const std::size_t p : {4u, 0u, 6u, 2u, 1u, 5u, 3u}) {
        sum_t<Hidden, float> sum;
        lift_row<Any<float>>(fold, rows[p], before, sum);
        sums.arrive(fold, p, std::move(sum));
    }
    auto w = before;
    memory_t<Hidden, float> memory{};
    finish_sum(fold, Context<Any<float>>{.participation = {true, 0.1}}, w, sums.total(), memory);
    CHECK(same_bits(w, folded<float>(fold, before, rows)));
    REQUIRE(memory.ledger.size() == 1);
    CHECK(memory.ledger[0].rate == 0.1);
    CHECK(memory.ledger[0].noise == 0.5);
    CHECK(memory.ledger[0].steps == 1);
}

TEST_CASE("with a mask, what a client has not is not moved by it; server optimizers go around") {
    Mask mask(3, true);
    mask.set(1, false);
    const Vec<double> w{1, 2, 3}, packed{4, 7};
    CHECK(support::distance(folded<double>(Hidden{.clip = 100, .noise = 0, .clients = 1}, w, {{packed, 1, &mask}}),
                            {4, 2, 7}) < 1e-15);
    const fold::ServerMomentum<Hidden> around{.server_rate = 2, .server_momentum = 0,
                                             .inner = {.clip = 100, .noise = 0, .clients = 1}};
    const Vec<double> x{2, 2, 2};
    CHECK(support::distance(folded<double>(around, w, {{x}}), {3, 2, 1}) < 1e-14);
}

TEST_CASE("settings that cannot be are refused") {
    CHECK_THROWS_WITH_AS(Hidden{}.validate(),
                         "clients must be the number of uploads that a round is expected to bring; it divides the sum, "
                         "whoever comes",
                         ConfigError);
    CHECK_NOTHROW(Hidden{.clients = 4}.validate());
    CHECK_THROWS_AS((Hidden{.clip = 0, .clients = 4}.validate()), ConfigError);
    CHECK_THROWS_AS((Hidden{.clip = infinity, .clients = 4}.validate()), ConfigError);
    CHECK_THROWS_AS((Hidden{.noise = -1, .clients = 4}.validate()), ConfigError);
}

namespace {
using Scalar = support::ScalarNet<1>::type;
template <class Noise = support::KeyedNoise>
using Method = FedAvg<rule::Sgd, fold::PrivateMean<Noise>>;
template <class Noise = support::KeyedNoise>
using Run = Federation<Method<Noise>, Scalar>;

// One number a client, its target.
data::FederatedDataset targets(const std::vector<double>& all, std::uint64_t first_key = 11) {
    data::Split split;
    for (std::size_t k = 0; k < all.size(); ++k) {
        data::Share share;
        share.key = first_key + k;
        share.train = share.test = {static_cast<Index>(k)};
        split.clients.push_back(std::move(share));
    }
    return {data::Dataset::regression(std::vector<double>(all.size(), 1.0), std::vector<double>(all)),
            std::move(split)};
}
}  // namespace

TEST_CASE("in a cohort of fixed size another takes the seat: the sum moves by two norms, and two are paid for") {
    const auto after = [](const data::FederatedDataset& clients, std::uint64_t seed) {
        Run<> run{{}, clients, {.local = {.rate = 1}, .fold = {.clip = 1, .noise = 0, .clients = 1}},
                  {.seed = seed, .batch = 0}, Vec<double>{0.0}};
        run.round(sample::Uniform{1});
        return run.server().w[0];
    };
    double most = 0;
    for (std::uint64_t seed = 1; seed < 20; ++seed)
        most = std::max(most, std::fabs(after(targets({1000, -1000, -1000}), seed) -
                                        after(targets({-1000, -1000}, 12), seed)));
    CHECK(most == doctest::Approx(2 * hair).epsilon(1e-9));
    const auto ledger = [](const auto& sampler) {
        Run<> run{{}, targets({1, 2, 3, 4}), {.fold = {.clip = 1, .noise = 3, .clients = 2}}, {}, Vec<double>{0.0}};
        run.round(sampler);
        REQUIRE(run.server().fold.ledger.size() == 1);
        return run.server().fold.ledger[0];
    };
    const auto is = [](const Spent& s, double rate, double noise) {
        return s.rate == rate && s.noise == noise && s.steps == 1;
    };
    CHECK(is(ledger(sample::Uniform{2}), 1, 1.5));
    CHECK(is(ledger(sample::Everyone{}), 1, 3));
    CHECK(is(ledger(sample::Poisson{0.25}), 0.25, 3));
    CHECK(is(ledger(Unsaid{}), 1, 1.5));
}

TEST_CASE("with noise of the system the seed does not tell who was drawn") {
    const auto who = []<class Noise>(Noise, const auto& sampler) {
        const std::vector<double> all(40, 1000.0);
        std::vector<std::size_t> seats;
        Run<Noise> run{{}, targets(all), {.local = {.rate = 1}, .fold = {.clip = 1, .noise = 0, .clients = 1}}, {},
                       Vec<double>{0.0}};
        for (int r = 0; r < 12; ++r) seats.push_back(run.round(sampler).outcome.merged);
        return seats;
    };
    const sample::Poisson half{0.5};
    CHECK(who(support::KeyedNoise{}, half) == who(support::KeyedNoise{}, half));
    // Twelve binomial numbers of variance 10 agree with chance 0.09^12 = 3e-13.
    CHECK(who(privacy::Noise{}, half) != who(privacy::Noise{}, half));
    CHECK(who(privacy::Noise{}, half) != who(support::KeyedNoise{}, half));
    // Where everybody comes there is nothing to hide.
    CHECK(who(privacy::Noise{}, sample::Everyone{}) == std::vector<std::size_t>(12, 40));
}

TEST_CASE("a round in which nothing that came was any good has its noise and its price like any other") {
    const auto round = [](double rate, double quorum) {
        Run<> run{{}, targets({1e300, 1e300}), {.local = {.rate = rate}, .fold = {.clip = 1, .noise = 1, .clients = 1}},
                  {.batch = 0, .quorum = quorum}, Vec<double>{0.0}};
        const auto report = run.round(sample::Everyone{});
        REQUIRE(report.outcome.rejected() == (rate > 1 ? 2 : 0));
        CHECK(report.outcome.counted);
        CHECK(run.server().w[0] != 0);
        CHECK(run.server().fold.ledger.size() == 1);
    };
    for (const double quorum : {0.0, 1.0}) {
        round(1e200, quorum);
        round(1, quorum);
    }
    // One client does not fill the quorum of six.
    using Me = FedAvg<rule::Sgd, Hidden>;
    const Setup<Me, Scalar> setup{{}, Me{.fold = {.clip = 1, .noise = 1, .clients = 6}}, {.quorum = 1}, Vec<double>{0.0}};
    Server<Me, Scalar> server(setup, 6);
    Plan plan;
    for (Id k = 0; k < 6; ++k) plan.push_back({k, true});
    server.open_round(plan);
    CHECK(server.accept(0, {Vec<double>{std::nan("")}, 1}) == Verdict::not_finite);
    for (int again = 0; again < 5; ++again) CHECK(server.accept(0, {Vec<double>{std::nan("")}, 1}) == Verdict::duplicate);
    CHECK_FALSE(server.close_round().counted);
    // A fold that hides nobody leaves such a round alone.
    Federation<FedAvg<>, Scalar> plain{{}, targets({1e300}), {.local = {.rate = 1e200}}, {.batch = 0}, Vec<double>{0.0}};
    CHECK_FALSE(plain.round(sample::Everyone{}).outcome.counted);
}

}  // namespace private_mean_test
