// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/prior/meta_step.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include <tessera/nn/zoo.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>
#include <support/unfused.hpp>

namespace meta_step_test {

using namespace tessera;
using support::Toy;

namespace {

// A small network on one client's data, at made-up parameters.
template <class M>
struct QuadraticVisit {
    using R = real<M>;
    M model{};
    data::FederatedDataset data = support::toy_data();
    Workspace<R> workspace;
    Vec<R> w = numbers(1), v = numbers(2);

    Vec<R> numbers(std::uint64_t seed) const {
        const auto x = support::toy_numbers<R>(dimension(model), seed);
        return Vec<R>(x.begin(), x.end());
    }
    Context<M> context() {
        const auto share = data[0];
        return {.model = &model, .examples = share.examples, .ids = share.train, .workspace = &workspace};
    }
};
template <class R>
using Net = nn::Mclr<Toy::width, Toy::classes, R>;

}  // namespace

TEST_CASE_TEMPLATE("one descent step, fused or not, and no step for a rate of 0", R, float, double) {
    QuadraticVisit<Net<R>> fused;
    QuadraticVisit<support::Unfused<Net<R>>> plain;
    const auto b = fused.context().everything();
    Vec<R> g(fused.w.size());
    fused.model.gradient(fused.w, b, g);
    auto x = fused.w, y = plain.w, expected = fused.w;
    for (std::size_t j = 0; j < g.size(); ++j) expected[j] -= R(0.3) * g[j];
    prior::descend_once(fused.context(), x, b, 0.3);
    prior::descend_once(plain.context(), y, b, 0.3);
    const double rounding = std::is_same_v<R, float> ? 1e-6 : 1e-14;  // fused kernels sum in their own order
    CHECK(support::distance(x, expected) < rounding);
    CHECK(support::distance(y, expected) < rounding);
    CHECK(support::distance(x, fused.w) > 1e-3);
    CHECK(fused.workspace.tally.examples == b.size());
    CHECK(plain.workspace.tally.examples == b.size());
    prior::descend_once(fused.context(), x = fused.w, b, 0);
    CHECK(support::same_bits(x, fused.w));
}

TEST_CASE("the step of the difference grows with w and shrinks with v; a zero v has none") {
    const Vec<double> w{3, 4}, v{0, 2};
    const double u = std::cbrt(std::numeric_limits<double>::epsilon());
    CHECK(std::fabs(prior::difference_step(w, v) - u * 6 / 2) < 1e-20);
    CHECK(prior::difference_step(w, Vec<double>{0, 0}) == 0);
}

TEST_CASE_TEMPLATE("Hessian-vector products: symmetric, and the slope of the gradient", R, float, double) {
    QuadraticVisit<Net<R>> bench;
    const auto at = bench.context();
    const auto b = at.everything();
    const auto times = [&](const Vec<R>& v) {
        Vec<R> out;
        prior::hessian_vector(at, bench.w, b, v, prior::difference_step(bench.w, v), out);
        return out;
    };
    const auto inner = [](const Vec<R>& x, const Vec<R>& y) {
        double sum = 0;
        for (std::size_t j = 0; j < x.size(); ++j) sum += static_cast<double>(x[j]) * static_cast<double>(y[j]);
        return sum;
    };
    const auto u = bench.numbers(3);
    const double uhv = inner(u, times(bench.v)), vhu = inner(bench.v, times(u));
    // The error is of the order of the unit roundoff to the power 2/3, 2e-5 in float and 4e-11 in double, times sums
    // of 36 terms.
    const double tolerance = std::is_same_v<R, float> ? 2e-3 : 1e-8;
    CHECK(std::fabs(uhv - vhu) < tolerance * std::max(1.0, std::fabs(uhv)));
    CHECK(std::fabs(uhv) > 0.01);

    auto bent = bench.v;
    prior::curve_once(at, bench.w, b, 0.5, bent);
    const auto hv = times(bench.v);
    auto expected = bench.v;
    for (std::size_t j = 0; j < expected.size(); ++j) expected[j] -= R(0.5) * hv[j];
    CHECK(support::distance(bent, expected) < (std::is_same_v<R, float> ? 1e-6 : 1e-14));
    bent = bench.v;
    prior::curve_once(at, bench.w, b, 0, bent);
    CHECK(support::same_bits(bent, bench.v));
}

}  // namespace meta_step_test
