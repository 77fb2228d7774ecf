// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/fold/relax.hpp>

#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/bytes.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/runtime/cohort.hpp>
#include <tessera/runtime/setup.hpp>

#include <support/bits.hpp>
#include <support/slope.hpp>

namespace relax_test {

using namespace tessera;
using support::same_bits;

namespace {
template <class R>
using Any = support::Slope<R, 1>;

template <class R, class F>
Vec<R> folded(const F& fold, Vec<R> w, const std::vector<Row<R>>& rows) {
    memory_t<F, R> memory{};
    fold_rows(fold, Context<Any<R>>{}, w, Rows<R>(rows), memory);
    return w;
}
}  // namespace

TEST_CASE_TEMPLATE("beta mixing (V-BRED-2)", R, float, double) {
    static_assert(LinearFold<fold::Relax<>, Any<R>> && accepts_masks<fold::Relax<>>);
    const Vec<R> a{2}, b{5};
    const std::vector<Row<R>> rows{{a, 1}, {b, 3}};
    // A weight of 1/3 relative to the largest rounds in double: 1e-15 relative. In float the results are exact.
    CHECK(folded<R>(fold::Relax<>{.beta = 0}, {1}, rows)[0] == 1);
    CHECK(support::distance(folded<R>(fold::Relax<>{.beta = 1}, {1}, rows), {R(4.25)}) < 1e-15);
    CHECK(support::distance(folded<R>(fold::Relax<>{.beta = 2}, {1}, rows), {R(7.5)}) < 1e-15);
    CHECK(support::distance(folded<R>(fold::Relax<>{.beta = 0.5}, {1}, rows), {R(2.625)}) < 1e-15);
}

TEST_CASE_TEMPLATE("beta = 1 is the inner fold and beta = 0 is no fold, bit for bit", R, float, double) {
    const Vec<R> w{R(1.1)}, x{R(1e-11)}, y{R(0.3)};
    const std::vector<Row<R>> rows{{x, 2}, {y, 1e-9}};
    CHECK(same_bits(folded<R>(fold::Relax<>{.beta = 1}, w, rows), folded<R>(fold::Mean{}, w, rows)));
    CHECK(same_bits(folded<R>(fold::Relax<>{.beta = 0}, w, rows), w));
    CHECK_FALSE(same_bits(folded<R>(fold::Relax<>{.beta = 0.999}, w, rows), folded<R>(fold::Mean{}, w, rows)));
}

TEST_CASE("it streams as its inner fold does") {
    const fold::Relax<fold::Relax<>> fold{.beta = 2, .inner = {.beta = 0.3}};
    const Vec<double> a{2.1}, b{5.7}, c{-1.3};
    const std::vector<Row<double>> rows{{a, 1}, {b, 3}, {c, 0.7}};
    CohortSum<fold::Relax<fold::Relax<>>, double> sums;
    sums.begin(3);
    const Vec<double> w{1};
    for (const std::size_t p : {2u, 0u, 1u}) {
        fold::Mean::Sum<double> sum;
        lift_row<Any<double>>(fold, rows[p], w, sum);
        sums.arrive(fold, p, std::move(sum));
    }
    auto got = w;
    memory_t<fold::Relax<fold::Relax<>>, double> memory{};
    finish_sum(fold, Context<Any<double>>{}, got, sums.total(), memory);
    CHECK(same_bits(got, folded<double>(fold, w, rows)));
    CHECK_FALSE(same_bits(got, folded<double>(fold::Relax<>{.beta = 2}, w, rows)));
}

TEST_CASE("decorators nest, and the order matters") {
    // One row at D = 2 above w = 0. Adagrad with tau = 1 moves by D / (|D| + 1).
    const auto moved = [](const auto& fold) {
        const Vec<double> x{2};
        return folded<double>(fold, {0}, {{x}})[0];
    };
    const fold::ServerAdagrad<> adagrad{.server_rate = 1, .tau = 1, .v0 = 0};
    CHECK(moved(adagrad) == doctest::Approx(2.0 / 3));
    CHECK(moved(fold::Relax<fold::ServerAdagrad<>>{.beta = 2, .inner = adagrad}) == doctest::Approx(4.0 / 3));
    CHECK(moved(fold::ServerAdagrad<fold::Relax<>>{.server_rate = 1, .tau = 1, .v0 = 0, .inner = {.beta = 2}}) ==
          doctest::Approx(4.0 / 5));
    CHECK(moved(fold::Relax<fold::ServerAdagrad<fold::Relax<>>>{
              .beta = 0.5, .inner = {.server_rate = 1, .tau = 1, .v0 = 0, .inner = {.beta = 2}}}) ==
          doctest::Approx(2.0 / 5));
}

TEST_CASE("memory is what its inner fold keeps") {
    CHECK(wire_size(memory_t<fold::Relax<>, float>{}) == 0);
    memory_t<fold::Relax<fold::ServerMomentum<>>, float> memory{};
    Vec<float> w(5);
    const Vec<float> x(5, 1.0f);
    const Row<float> row{x};
    fold_rows(fold::Relax<fold::ServerMomentum<>>{.beta = 0.5}, Context<Any<float>>{}, w, Rows<float>(&row, 1), memory);
    CHECK(memory.inner.m.size() == 5);
}

TEST_CASE("a beta that is no number is refused, also deep inside") {
    fold::ServerMomentum<fold::Relax<>> fold;
    CHECK_NOTHROW(detail::validate_all(fold));
    fold.inner.beta = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_AS(detail::validate_all(fold), ConfigError);
}

}  // namespace relax_test
