// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/fold/owners_mean.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/core/random.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/runtime/cohort.hpp>

#include <support/bits.hpp>
#include <support/slope.hpp>

namespace owners_mean_test {

using namespace tessera;
using support::same_bits;

namespace {

template <class R>
using Any = support::Slope<R, 3>;  // a fold does not read the model

template <class Fold, class R>
Vec<R> folded(Vec<R> w, const std::vector<Row<R>>& rows) {
    memory_t<Fold, R> none{};
    fold_rows(Fold{}, Context<Any<R>>{}, w, Rows<R>(rows), none);
    return w;
}

// Random packed rows with random weights, some of them 0.
template <class R>
struct Cohort {
    Vec<R> w;
    std::vector<Vec<R>> values;
    std::vector<Mask> masks;
    std::vector<Row<R>> rows;

    Cohort(std::size_t n, std::size_t d, double density, bool equal = false) : w(d), values(n), masks(n) {
        Stream draw(Key{n * 1000 + d});
        for (auto& x : w) x = static_cast<R>(draw.normal());
        for (std::size_t k = 0; k < n; ++k) {
            masks[k] = Mask(d);
            for (std::size_t j = 0; j < d; ++j) masks[k].set(j, draw.uniform() < density);
            values[k].resize(masks[k].count());
            for (auto& x : values[k]) x = static_cast<R>(draw.normal());
            const auto weight = static_cast<double>(draw.below(4));
            rows.push_back({values[k], equal ? 1 : weight, &masks[k]});
        }
    }
};

// Coordinate by coordinate, as the formula is written.
template <class R>
Vec<R> by_formula(const Cohort<R>& c) {
    Vec<R> out = c.w;
    std::vector<std::size_t> next(c.rows.size());
    for (std::size_t j = 0; j < out.size(); ++j) {
        double sum = 0, total = 0;
        for (std::size_t k = 0; k < c.rows.size(); ++k)
            if (c.masks[k][j]) {
                sum += c.rows[k].weight * static_cast<double>(c.values[k][next[k]++]);
                total += c.rows[k].weight;
            }
        if (total > 0) out[j] = static_cast<R>(sum / total);
    }
    return out;
}

template <class R>
Vec<R> streamed(const Cohort<R>& c, bool backwards) {
    const fold::OwnersMean fold;
    CohortSum<fold::OwnersMean, R> sums;
    sums.begin(c.rows.size());
    for (std::size_t i = 0; i < c.rows.size(); ++i) {
        const std::size_t position = backwards ? c.rows.size() - 1 - i : i;
        fold::OwnersMean::Sum<R> sum;
        lift_row<Any<R>>(fold, c.rows[position], c.w, sum);
        sums.arrive(fold, position, std::move(sum));
    }
    Vec<R> w = c.w;
    Nothing none;
    finish_sum(fold, Context<Any<R>>{}, w, sums.total(), none);
    return w;
}

Mask bits(std::initializer_list<int> all) {
    Mask mask(all.size());
    std::size_t j = 0;
    for (const int bit : all) mask.set(j++, bit != 0);
    return mask;
}

}  // namespace

TEST_CASE("V-SPA-1 updates are averaged over all, or over owners") {
    const Vec<double> w{1, 1, 1}, moved{0.9, 0.9};
    const Mask first = bits({1, 1, 0}), second = bits({0, 1, 1});
    const std::vector<Row<double>> rows{{moved, 1, &first}, {moved, 1, &second}};
    // Two halves of numbers near 1: a rounding or two.
    CHECK(support::distance(folded<fold::Mean>(w, rows), {0.95, 0.90, 0.95}) < 1e-15);
    CHECK(support::distance(folded<fold::OwnersMean>(w, rows), {0.9, 0.9, 0.9}) < 1e-15);
}

TEST_CASE("L-SPA-8 disjoint owners: each move whole, against a share of it") {
    constexpr std::size_t owners = 4, d = 1000;
    Vec<double> w(d, 1.0);
    std::vector<Mask> masks(owners, Mask(d));
    for (std::size_t j = 0; j < d; ++j) masks[j % owners].set(j, true);
    std::vector<Vec<double>> values(owners, Vec<double>(d / owners, 3.0));
    std::vector<Row<double>> rows;
    for (std::size_t k = 0; k < owners; ++k) rows.push_back({values[k], 1, &masks[k]});
    CHECK(folded<fold::OwnersMean>(w, rows) == Vec<double>(d, 3.0));
    CHECK(folded<fold::Mean>(w, rows) == Vec<double>(d, 1.0 + 2.0 / owners));
}

TEST_CASE("the fold is its formula, and a coordinate of nobody stays") {
    for (const std::size_t n : {1u, 2u, 3u, 5u, 8u, 13u})
        for (const std::size_t d : {1u, 63u, 64u, 511u, 512u, 513u, 1500u}) {
            const Cohort<double> c(n, d, 0.4);
            // Sums of up to 13 numbers of size 1 in another order.
            CHECK(support::distance(folded<fold::OwnersMean>(c.w, c.rows), by_formula(c)) < 1e-14);
            const Cohort<float> f(n, d, 0.4);
            CHECK(support::distance(folded<fold::OwnersMean>(f.w, f.rows), by_formula(f)) < 2e-7);  // a float rounding
        }
    const Cohort<float> c(3, 700, 0.3);
    const auto w = folded<fold::OwnersMean>(c.w, c.rows);
    std::size_t nobody = 0, stayed = 0;
    for (std::size_t j = 0; j < w.size(); ++j) {
        bool owned = false;
        for (std::size_t k = 0; k < 3; ++k) owned = owned || (c.masks[k][j] && c.rows[k].weight > 0);
        nobody += !owned;
        stayed += w[j] == c.w[j];
    }
    CHECK(nobody > 100);
    CHECK(stayed == nobody);
}

TEST_CASE("a streamed cohort has the bits of a kept one, whatever arrives first") {
    for (std::size_t n = 1; n <= 9; ++n) {
        const Cohort<float> c(n, 1100, 0.5);
        const auto kept = folded<fold::OwnersMean>(c.w, c.rows);
        CHECK(same_bits(streamed(c, false), kept));
        CHECK(same_bits(streamed(c, true), kept));
    }
}

TEST_CASE("rows without masks, and full masks, are averaged as by Mean, bit for bit") {
    for (const bool equal : {true, false}) {
        const Cohort<float> c(7, 1300, 1.1, equal);
        auto dense = c.rows;
        for (auto& row : dense) row.mask = nullptr;
        const auto mean = folded<fold::Mean>(c.w, dense);
        CHECK(same_bits(folded<fold::OwnersMean>(c.w, dense), mean));
        CHECK(same_bits(folded<fold::OwnersMean>(c.w, c.rows), mean));
    }
    const Cohort<float> sparse(7, 1300, 0.5);
    CHECK_FALSE(same_bits(folded<fold::OwnersMean>(sparse.w, sparse.rows), folded<fold::Mean>(sparse.w, sparse.rows)));
}

TEST_CASE("nothing to average leaves w as it was") {
    Cohort<float> c(4, 600, 0.5);
    CHECK(same_bits(folded<fold::OwnersMean>(c.w, {}), c.w));
    for (auto& row : c.rows) row.weight = 0;
    CHECK(same_bits(folded<fold::OwnersMean>(c.w, c.rows), c.w));
}

TEST_CASE("it says that it takes masks, also inside a decorator, and its sums stream there") {
    CHECK(accepts_masks<fold::OwnersMean>);
    CHECK(accepts_masks<fold::Relax<fold::OwnersMean>>);
    CHECK(LinearFold<fold::Relax<fold::OwnersMean>, Any<float>>);
    const Cohort<double> c(4, 600, 0.5);
    CHECK(folded<fold::Relax<fold::OwnersMean>>(c.w, c.rows) == folded<fold::OwnersMean>(c.w, c.rows));
}

TEST_CASE("a fold like any other, but for absent coordinates") {
    CHECK(conformance::fold(fold::OwnersMean{}, {.absent_reads_unchanged = false}).empty());
    CHECK_FALSE(conformance::fold(fold::OwnersMean{}).empty());
}

}  // namespace owners_mean_test
