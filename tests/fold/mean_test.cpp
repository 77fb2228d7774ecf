// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/fold/mean.hpp>
#include <tessera/fold/owners_mean.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/server_adaptive.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/random.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/runtime/cohort.hpp>

#include <support/bits.hpp>
#include <support/slope.hpp>

namespace mean_test {

using namespace tessera;
using support::same_bits;

namespace {

template <class R>
using Any = support::Slope<R, 3>;  // a fold does not read the model

template <class R>
Vec<R> folded(Vec<R> w, const std::vector<Row<R>>& rows) {
    Nothing none;
    fold_rows(fold::Mean{}, Context<Any<R>>{}, w, Rows<R>(rows), none);
    return w;
}

// Everything that arrives in a cohort, with storage.
template <class R>
struct Cohort {
    Vec<R> w;
    std::vector<Vec<R>> values;
    std::vector<Mask> masks;
    std::vector<Row<R>> rows;

    Cohort(std::size_t n, std::size_t d, std::uint64_t seed, bool masked) : w(d), values(n), masks(n) {
        Stream draw(Key{seed});
        for (auto& x : w) x = static_cast<R>(draw.normal());
        for (std::size_t k = 0; k < n; ++k) {
            masks[k] = Mask(d);
            for (std::size_t j = 0; j < d; ++j) masks[k].set(j, draw.uniform() < 0.6);
            values[k].resize(masked ? masks[k].count() : d);
            for (auto& x : values[k]) x = static_cast<R>(draw.normal());
        }
        for (std::size_t k = 0; k < n; ++k) {
            const double kind = draw.uniform();
            const double weight = kind < 0.15  ? 0
                                  : kind < 0.5 ? 1 + static_cast<double>(draw.below(50))
                                               : draw.uniform();
            rows.push_back({values[k], weight, masked ? &masks[k] : nullptr});
        }
    }
};

// One by one, or `neighbours` at once, which are then a position of the tree.
template <class R>
Vec<R> streamed(const Cohort<R>& cohort, const std::vector<std::size_t>& order, std::size_t threads = 1,
                std::size_t neighbours = 1) {
    const fold::Mean mean;
    CohortSum<fold::Mean, R> sums;
    sums.begin(order.size());
    const auto arrive = [&](std::size_t position) {
        fold::Mean::Sum<R> sum;
        const std::size_t first = position * neighbours;
        if (neighbours == 1)
            lift_row<Any<R>>(mean, cohort.rows[position], cohort.w, sum);
        else
            lift_rows<Any<R>>(mean, Rows<R>(cohort.rows).subspan(first, std::min(neighbours, cohort.rows.size() - first)),
                              cohort.w, sum);
        sums.arrive(mean, position, std::move(sum));
    };
    if (threads == 1) {
        for (const auto position : order) arrive(position);
    } else {
        std::atomic<std::size_t> next{0};
        std::vector<std::thread> team;
        for (std::size_t t = 0; t < threads; ++t)
            team.emplace_back([&] {
                for (std::size_t i = next++; i < order.size(); i = next++) arrive(order[i]);
            });
        for (auto& thread : team) thread.join();
    }
    Vec<R> w = cohort.w;
    Nothing none;
    finish_sum(mean, Context<Any<R>>{}, w, sums.total(), none);
    return w;
}

template <class R>
Vec<R> one_after_the_other(const Cohort<R>& cohort) {  // another shape of the same sum
    Vec<R> w = cohort.w;
    double total = 0;
    Vec<double> sum(w.size());
    for (const auto& row : cohort.rows) {
        total += row.weight;
        for (std::size_t j = 0; j < w.size(); ++j) sum[j] += row.weight * static_cast<double>(row.x[j]);
    }
    for (std::size_t j = 0; j < w.size(); ++j) w[j] = static_cast<R>(sum[j] / total);
    return w;
}

}  // namespace

TEST_CASE("the mean is what the contract says it is") {
    static_assert(Fold<fold::Mean, Any<float>> && LinearFold<fold::Mean, Any<double>>);
    static_assert(accepts_masks<fold::Mean>);
    static_assert(std::is_same_v<memory_t<fold::Mean, float>, Nothing>, "it remembers nothing");
}

TEST_CASE_TEMPLATE("weighted mean, by hand", R, float, double) {
    const Vec<R> a{2, -1}, b{5, 3};
    // A weight of 1/3 relative to the largest rounds in double: 1e-15. In float the result is exact.
    CHECK(support::distance(folded<R>({1, 1}, {{a, 1}, {b, 3}}), {R(4.25), 2}) < 1e-15);
    CHECK(folded<R>({1, 1}, {{a, 1}, {b, 1}}) == Vec<R>{R(3.5), 1});
    CHECK(folded<R>({1, 1}, {{b, 0.25}}) == b);  // one row, whatever its weight
    CHECK(support::distance(folded<R>({1, 1}, {{a, 3}, {b, 1}}), {R(4.25), 2}) > 0.1);
}

TEST_CASE_TEMPLATE("absent coordinates read \"unchanged\" (V-SPA-1, mean of updates)", R, float, double) {
    Mask first(3, true), second(3, true);
    first.set(2, false);
    second.set(0, false);
    const Vec<R> w{1, 1, 1}, stepped{R(0.9), R(0.9)};  // gradient 1, rate 0.1; packed: active coordinates only
    const auto got = folded<R>(w, {{stepped, 1, &first}, {stepped, 1, &second}});
    const double tolerance = std::is_same_v<R, float> ? 1e-7 : 1e-15;  // one rounding of 0.95
    CHECK(support::distance(got, Vec<R>{R(0.95), R(0.90), R(0.95)}) < tolerance);
    CHECK(support::distance(got, Vec<R>{R(0.9), R(0.9), R(0.9)}) > 0.04);  // not divided by owners

    const Mask nothing(3);
    CHECK(same_bits(folded<R>(w, {{Vec<R>{}, 5, &nothing}}), w));
}

TEST_CASE_TEMPLATE("rows of weight 0 do not count, and nothing at all leaves w", R, float, double) {
    const Vec<R> a{2, -1}, b{5, 3}, w{R(0.1), R(-0.3)};
    CHECK(same_bits(folded<R>(w, {}), w));
    CHECK(same_bits(folded<R>(w, {{a, 0}}), w));
    CHECK(same_bits(folded<R>(w, {{a, 0}, {b, 0}, {a, 0}}), w));
    CHECK(same_bits(folded<R>(w, {{a, 0}, {b, 7}, {a, 0}}), b));
    CHECK_FALSE(same_bits(folded<R>(w, {{a, 1e-3}, {b, 7}, {a, 0}}), b));
}

TEST_CASE("the mean of equal floats is that float, and huge weights do not overflow") {
    Cohort<float> cohort(1, 600, 9, false);
    std::vector<Row<float>> rows;
    for (int n = 1; n <= 33; ++n) {
        rows.push_back({cohort.values[0], 1.0 + n % 7});
        CHECK(same_bits(folded<float>(cohort.w, rows), cohort.values[0]));
    }
    for (auto& row : rows) row.weight *= 1e307;
    CHECK(same_bits(folded<float>(cohort.w, rows), cohort.values[0]));
}

TEST_CASE_TEMPLATE("a common factor of the weights drops out", R, float, double) {
    Cohort<R> cohort(13, 40, 4, false);
    const auto before = folded<R>(cohort.w, cohort.rows);
    auto rows = cohort.rows;
    for (auto& row : rows) row.weight *= 0x1p60;  // exact
    CHECK(same_bits(folded<R>(cohort.w, rows), before));
    for (auto& row : rows) row.weight = row.weight > 0 ? 3 : 0;
    auto ones = rows;
    for (auto& row : ones) row.weight = row.weight > 0 ? 1 : 0;
    CHECK(same_bits(folded<R>(cohort.w, rows), folded<R>(cohort.w, ones)));
    CHECK_FALSE(same_bits(folded<R>(cohort.w, rows), before));
}

TEST_CASE_TEMPLATE("a cohort that streams gives the bits of fold(), in any order, from any number of threads", R, float,
                   double) {
    std::size_t other_shape_differs = 0;
    for (std::size_t n = 1; n <= 33; ++n)
        for (const bool masked : {false, true}) {
            const std::size_t d = n % 4 == 0 ? 1100 : 37;  // several tiles of the batch form, or part of one
            const Cohort<R> cohort(n, d, 100 * n + masked, masked);
            const auto expected = folded<R>(cohort.w, cohort.rows);
            std::vector<std::size_t> order(n);
            std::iota(order.begin(), order.end(), std::size_t{0});
            CHECK(same_bits(streamed(cohort, order), expected));
            std::reverse(order.begin(), order.end());
            CHECK(same_bits(streamed(cohort, order), expected));
            for (std::uint64_t shuffle = 0; shuffle < 4; ++shuffle) {
                Stream(Key{shuffle}).shuffle(std::span<std::size_t>(order));
                CHECK(same_bits(streamed(cohort, order), expected));
            }
            for (const std::size_t threads : {2u, 3u, 7u}) CHECK(same_bits(streamed(cohort, order, threads), expected));
            if (!masked) other_shape_differs += !same_bits(one_after_the_other(cohort), expected);
        }
    // In double the order of additions shows; in float the sums in double hide it in almost every coordinate.
    if (std::is_same_v<R, double>) CHECK(other_shape_differs > 20);
}

TEST_CASE_TEMPLATE("neighbours that are lifted abreast give the bits of those that come one by one", R, float, double) {
    static_assert(lift_width<fold::Mean> == 8 && lift_width<fold::ServerAdam<>> == 8);
    static_assert(lift_width<fold::OwnersMean> == 1 && lift_width<fold::PrivateMean<privacy::Noise>> == 1);
    std::size_t wrong_groups_differ = 0;
    for (std::size_t n = 1; n <= 41; ++n)
        for (const bool masked : {false, true}) {
            const Cohort<R> cohort(n, n % 4 == 0 ? 1100 : 37, 200 * n + masked, masked);
            const auto expected = folded<R>(cohort.w, cohort.rows);
            const auto in_groups_of = [&](std::size_t neighbours, std::size_t threads) {
                std::vector<std::size_t> order((n + neighbours - 1) / neighbours);
                std::iota(order.rbegin(), order.rend(), std::size_t{0});
                return streamed(cohort, order, threads, neighbours);
            };
            for (const std::size_t threads : {1u, 3u})
                CHECK(same_bits(in_groups_of(lift_width<fold::Mean>, threads), expected));
            wrong_groups_differ += !same_bits(in_groups_of(7, 1), expected);  // another tree
        }
    if (std::is_same_v<R, double>) CHECK(wrong_groups_differ > 20);
}

TEST_CASE("positions that stay empty keep their place") {
    const fold::Mean mean;
    const Cohort<double> cohort(11, 50, 3, false);
    for (std::size_t gone = 0; gone < 11; ++gone) {
        auto rows = cohort.rows;
        rows[gone].weight = 0;
        CohortSum<fold::Mean, double> sums;
        sums.begin(11);
        for (std::size_t p = 11; p-- > 0;) {
            fold::Mean::Sum<double> sum;
            if (p != gone) lift_row<Any<double>>(mean, cohort.rows[p], cohort.w, sum);
            sums.arrive(mean, p, std::move(sum));
        }
        auto w = cohort.w;
        Nothing none;
        finish_sum(mean, Context<Any<double>>{}, w, sums.total(), none);
        CHECK(same_bits(w, folded<double>(cohort.w, rows)));
        CHECK(same_bits(w, folded<double>(cohort.w, cohort.rows)) == (cohort.rows[gone].weight == 0));
    }
    CohortSum<fold::Mean, double> nobody;
    nobody.begin(0);
    auto w = cohort.w;
    Nothing none;
    finish_sum(mean, Context<Any<double>>{}, w, nobody.total(), none);
    CHECK(same_bits(w, cohort.w));
}

TEST_CASE("a cohort sum can be used again") {
    const fold::Mean mean;
    CohortSum<fold::Mean, double> sums;
    for (const std::size_t n : {5u, 2u, 9u}) {
        const Cohort<double> cohort(n, 20, n, false);
        sums.begin(n);
        for (std::size_t p = 0; p < n; ++p) {
            fold::Mean::Sum<double> sum;
            lift_row<Any<double>>(mean, cohort.rows[p], cohort.w, sum);
            sums.arrive(mean, p, std::move(sum));
        }
        auto w = cohort.w;
        Nothing none;
        finish_sum(mean, Context<Any<double>>{}, w, sums.total(), none);
        CHECK(same_bits(w, folded<double>(cohort.w, cohort.rows)));
    }
}

TEST_CASE("a crew of any size gives the bits of one") {
    const std::size_t d = (std::size_t{1} << 20) + 77;
    Cohort<float> cohort(9, d, 6, true);
    const auto alone = folded<float>(cohort.w, cohort.rows);
    for (const std::size_t size : {1u, 2u, 3u, 7u}) {
        std::atomic<std::size_t> most{0};
        const auto run = [&](std::size_t pieces, auto&& body) {
            most = pieces;
            std::vector<std::thread> threads;
            for (std::size_t p = 0; p < pieces; ++p) threads.emplace_back([&, p] { body(p); });
            for (auto& thread : threads) thread.join();
        };
        CrewBy crew(size, run);
        const Crew::Use use(&crew);
        auto w = cohort.w;
        Nothing none;
        fold_rows(fold::Mean{}, Context<Any<float>>{}, w, Rows<float>(cohort.rows), none);
        CHECK(same_bits(w, alone));
        CHECK(most == (size > 1 ? 2 : 0));  // 9 million numbers are worth two; one piece needs no crew
    }
}

}  // namespace mean_test
