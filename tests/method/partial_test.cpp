// SPDX-License-Identifier: BSD-3-Clause
// Partial personalization on objectives of two numbers, where every step can be written down.
#include <tessera/method/partial.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedsim.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/coupled.hpp>
#include <support/quadratic.hpp>

namespace partial_test {

using namespace tessera;
using support::Coupled;
using support::distance;
using support::same_bits;

namespace {

using Clients = std::vector<std::vector<support::Parabola>>;
using Numbers = Vec<double>;
constexpr Settings whole_batch{.seed = 3, .batch = 0, .rounds = 10};

// (v, u) of client 0 after each of `rounds` rounds, from u = v = 0.
template <class Me, class M = Coupled>
Numbers path(const Me& method, const Clients& clients, int rounds, Settings settings = whole_batch, M model = {}) {
    Federation<Me, M> run{model, support::quadratic_data(clients), method, settings, Numbers{0, 0}};
    Numbers all;
    for (int r = 0; r < rounds; ++r) {
        run.round(sample::Everyone{});
        all.push_back(run.client(0).v[0]);
        all.push_back(run.server().w[0]);
    }
    return all;
}
template <class Method>
Method with_rates(double v, double u) {
    Method method;
    method.order.v.rate = v;
    method.order.u.rate = u;
    return method;
}

// The next `count` clients in turn, the first ones again after the last.
struct InTurn {
    static constexpr Offers offers{};
    std::size_t count;
    Plan plan(Key, std::size_t round, std::span<const Candidate> all) const {
        Plan seats;
        for (std::size_t i = 0; i < count; ++i) seats.push_back({all[(round * count + i) % all.size()].client});
        return seats;
    }
};

}  // namespace

TEST_CASE("V-ALT-1 one full-batch step per phase on 1/2 (u + v - 1)^2") {
    const Clients one{{{1, 1}}};
    CHECK(path(with_rates<FedAlt<>>(1, 1), one, 1) == Numbers{1, 0});
    CHECK(path(with_rates<FedAlt<>>(0.5, 0.5), one, 1) == Numbers{0.5, 0.25});
    CHECK(path(with_rates<FedAlt<>>(0.25, 0.25), one, 1) == Numbers{0.25, 0.1875});
    CHECK(path(with_rates<FedSim<>>(1, 1), one, 4) == Numbers{1, 1, 0, 0, 1, 1, 0, 0});  // period 2
    CHECK(path(with_rates<FedSim<>>(0.5, 0.5), one, 1) == Numbers{0.5, 0.5});
    CHECK(path(with_rates<FedSim<>>(0.25, 0.25), one, 1) == Numbers{0.25, 0.25});
}

TEST_CASE("V-ALT-2 two clients") {
    auto method = with_rates<FedAlt<>>(0.5, 0.5);
    method.weights = Weigh::uniform;
    Federation<FedAlt<>, Coupled> run{
        {}, support::quadratic_data({{{1, 0}}, {{1, 2}}}), method, whole_batch, Numbers{0, 0}};
    run.round(sample::Everyone{});
    CHECK(run.client(0).v == Numbers{0});
    CHECK(run.client(1).v == Numbers{1});
    CHECK(run.server().w == Numbers{0.25});
}

TEST_CASE("weights count batches unless told otherwise") {
    const auto server = [](Weigh weights) {
        auto method = with_rates<FedAlt<>>(0, 0.5);
        method.weights = weights;
        // Five examples in batches of two: three batches beside one. c = 0 leaves client 0 where it is.
        Federation<FedAlt<>, Coupled> run{{},
                                          support::quadratic_data({Clients::value_type(5, {1, 0}), {{1, 2}}}),
                                          method,
                                          {.batch = 2},
                                          Numbers{0, 0}};
        run.round(sample::Everyone{});
        return run.server().w[0];
    };
    CHECK(FedAlt<>{}.weights == Weigh::batches);
    CHECK(server(Weigh::batches) == doctest::Approx(1.0 / 4).epsilon(1e-15));
    CHECK(server(Weigh::samples) == doctest::Approx(1.0 / 6).epsilon(1e-15));
    CHECK(server(Weigh::uniform) == doctest::Approx(1.0 / 2).epsilon(1e-15));
}

TEST_CASE("L-ALT-5 an objective that is a sum over the blocks: FedAlt is FedSim") {
    const Clients clients{{{1, 1}, {2, 0}}, {{0.5, -1}}, {{3, 2}, {1, 1}, {1, 0}}};
    const auto both = [&](auto model, Settings settings) {
        const auto alt = path(with_rates<FedAlt<>>(0.3, 0.2), clients, 8, settings, model);
        const auto sim = path(with_rates<FedSim<>>(0.3, 0.2), clients, 8, settings, model);
        return same_bits(alt, sim);
    };
    CHECK(both(support::Separable{}, whole_batch));
    CHECK_FALSE(both(Coupled{}, whole_batch));
    CHECK_FALSE(both(support::Separable{}, {.seed = 3, .batch = 1}));  // the v-phase reads other batches
}

TEST_CASE("L-ALT-7 how the residual of a coupled quadratic shrinks") {
    for (const auto& [v, u] : {std::pair{0.5, 0.25}, {1.0, 0.5}, {0.3, 0.7}, {1.5, 0.1}}) {
        const auto alt = path(with_rates<FedAlt<>>(v, u), {{{1, 4}}}, 6),
                   sim = path(with_rates<FedSim<>>(v, u), {{{1, 4}}}, 6);
        double expected_alt = -4, expected_sim = -4;
        for (std::size_t r = 0; r < 6; ++r) {
            expected_alt *= (1 - u) * (1 - v);
            expected_sim *= 1 - u - v;
            // Sums near 4 in double: 1e-13 is some hundred roundings.
            CHECK(alt[2 * r] + alt[2 * r + 1] - 4 == doctest::Approx(expected_alt).scale(1).epsilon(1e-13));
            CHECK(sim[2 * r] + sim[2 * r + 1] - 4 == doctest::Approx(expected_sim).scale(1).epsilon(1e-13));
        }
    }
}

TEST_CASE("L-ALT-8 full personalization as a split is mean-regularised multi-task learning") {
    const double lambda = 0.5, eta = 0.1;
    const Clients clients{{{1, 0}}, {{2, 3}}, {{0.5, -4}}};
    const auto gap = [&](double rate_u) {
        auto method = with_rates<FedAlt<>>(eta, rate_u);
        Federation<FedAlt<>, support::Full> run{
            {.slope = {lambda}}, support::quadratic_data(clients), method, whole_batch, Numbers{0, 0}};
        Numbers v{0, 0, 0};
        double mean = 0, most = 0;
        for (int r = 0; r < 10; ++r) {
            run.round(sample::Everyone{});
            for (std::size_t k = 0; k < 3; ++k) {
                const auto [a, c] = clients[k][0];
                v[k] -= eta * (a * (v[k] - c) + lambda * (v[k] - mean));
                most = std::max(most, std::abs(run.client(static_cast<Id>(k)).v[0] - v[k]));
            }
            mean = (v[0] + v[1] + v[2]) / 3;
            most = std::max(most, std::abs(run.server().w[0] - mean));
        }
        return most;
    };
    CHECK(gap(1 / lambda) < 1e-12);  // two orders of adding three numbers
    CHECK(gap(0.5 / lambda) > 1e-3);
}

TEST_CASE("L-ALT-9 without state the run is the same as long as nobody comes twice") {
    const Clients clients{{{1, 1}}, {{1, 2}}, {{1, 3}}, {{1, 4}}};
    const auto run = [&](bool stateless, std::size_t rounds, std::size_t cohort) {
        Federation<FedAlt<>, Coupled> fed{{},
                                          support::quadratic_data(clients),
                                          with_rates<FedAlt<>>(0.5, 0.5),
                                          {.seed = 3, .batch = 0, .rounds = 4, .stateless = stateless},
                                          Numbers{0.25, 0.5}};
        fed.run(rounds, InTurn{cohort});
        return fed;
    };
    const auto kept = run(false, 1, 4), forgot = run(true, 1, 4);
    CHECK(same_bits(kept.server().w, forgot.server().w));
    const auto kept_long = run(false, 4, 1), forgot_long = run(true, 4, 1);  // four rounds, another client in each
    CHECK(same_bits(kept_long.server().w, forgot_long.server().w));
    for (Id k = 0; k < 4; ++k) CHECK(kept_long.client(k).v.size() == 1);
    CHECK_FALSE(same_bits(run(false, 5, 1).server().w, run(true, 5, 1).server().w));  // the first comes again
    CHECK(kept.client(2).v.size() == 1);
    CHECK(forgot.client(2).v.empty());
    CHECK_FALSE(same_bits(run(false, 2, 4).server().w, run(true, 2, 4).server().w));
}

TEST_CASE("L-ALT-12 the linear schedule: round 0 does nothing, round aT is at full rate, round T does nothing") {
    const Clients clients{{{1, 1}}, {{1, 2}}};
    auto method = with_rates<FedAlt<>>(0.5, 0.25), constant = method;
    method.order.v.schedule.decay = method.order.u.schedule.decay = rule::Decay::linear;  // warm_up 0.1 of 10 rounds
    using Fed = Federation<FedAlt<>, Coupled>;
    const auto data = support::quadratic_data(clients);
    Fed linear{{}, data, method, whole_batch, Numbers{0.25, 0.5}},
        full{{}, data, constant, whole_batch, Numbers{0.25, 0.5}};
    const auto copy = [&] {
        Bytes bytes;
        linear.save(bytes);
        Reader in(bytes);
        full.restore(in);
    };
    const auto state = [](const Fed& run) {
        return Numbers{run.server().w[0], run.client(0).v[0], run.client(1).v[0]};
    };
    linear.round(sample::Everyone{});
    CHECK(state(linear) == Numbers{0.25, 0.5, 0.5});
    copy();
    linear.round(sample::Everyone{});
    full.round(sample::Everyone{});
    CHECK(linear.fingerprint() == full.fingerprint());
    copy();
    linear.round(sample::Everyone{});
    full.round(sample::Everyone{});
    CHECK(linear.fingerprint() != full.fingerprint());  // past the peak
    linear.run(7, sample::Everyone{});
    const auto last = state(linear);
    linear.round(sample::Everyone{});
    CHECK(linear.rounds_done() == 11);
    CHECK(state(linear) == last);
}

TEST_CASE("the penalty holds v back without the factor 1/2, and a wrong one is refused") {
    auto method = with_rates<FedAlt<>>(0.5, 0);
    method.order.penalty.strength = 0.25;
    // v -= 0.5 (v - 4 + 0.5 v), from 0
    CHECK(path(method, {{{1, 4}}}, 3) == Numbers{2, 0, 2.5, 0, 2.625, 0});
    method.order.penalty.strength = -1;
    CHECK_THROWS_AS(path(method, {{{1, 4}}}, 1), ConfigError);
}

}  // namespace partial_test
