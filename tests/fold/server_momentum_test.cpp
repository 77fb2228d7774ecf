// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/fold/server_momentum.hpp>

#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/bytes.hpp>
#include <tessera/runtime/setup.hpp>

#include <support/bits.hpp>
#include <support/complaint.hpp>
#include <support/slope.hpp>

namespace server_momentum_test {

using namespace tessera;
using support::distance;
using support::same_bits;

namespace {
template <class R>
using Any = support::Slope<R, 2>;

template <class R, class F>
void step(const F& fold, Vec<R>& w, const Vec<R>& x, memory_t<F, R>& memory) {
    const Row<R> row{x};
    fold_rows(fold, Context<Any<R>>{}, w, Rows<R>(&row, 1), memory);
}
}  // namespace

TEST_CASE("m = beta m + D; w += rate m, by hand") {
    static_assert(LinearFold<fold::ServerMomentum<>, Any<float>> && accepts_masks<fold::ServerMomentum<>>);
    const fold::ServerMomentum<> fold{.server_rate = 0.5, .server_momentum = 0.9};
    memory_t<fold::ServerMomentum<>, double> memory{};
    Vec<double> w{1, 0};
    step<double>(fold, w, {2, -1}, memory);  // D = (1, -1)
    CHECK(distance(w, {1.5, -0.5}) < 1e-15);
    step<double>(fold, w, {1.5, -0.5}, memory);  // D = 0, m = 0.9 (1, -1)
    CHECK(distance(w, {1.95, -0.95}) < 1e-15);
    step<double>(fold, w, {2.95, -0.95}, memory);  // D = (1, 0), m = (1.81, -0.81)
    CHECK(distance(w, {2.855, -1.355}) < 1e-15);
    CHECK(distance(memory.m, {1.81, -0.81}) < 1e-15);
}

TEST_CASE("Nesterov: w += rate (D + beta m)") {
    const auto first = [](bool nesterov) {
        const fold::ServerMomentum<> fold{.server_momentum = 0.5, .nesterov = nesterov};
        memory_t<fold::ServerMomentum<>, double> memory{};
        Vec<double> w{0, 0};
        step<double>(fold, w, {1, 2}, memory);
        step<double>(fold, w, {w[0] + 1, w[1]}, memory);
        return w;
    };
    // m: (1, 2) then (1.5, 1). Plain moves add m; Nesterov adds (1.5, 3), then (1.75, 0.5).
    CHECK(distance(first(false), {2.5, 3}) < 1e-15);
    CHECK(distance(first(true), {3.25, 3.5}) < 1e-15);
}

TEST_CASE_TEMPLATE("beta = 0, rate = 1 is the inner fold, also where w + (x - w) is not x", R, float, double) {
    const Vec<R> w{R(1), R(0.7)}, x{R(1e-20), R(0.1)};
    for (const bool nesterov : {false, true}) {
        const fold::ServerMomentum<> plain{.server_momentum = 0, .nesterov = nesterov};
        memory_t<fold::ServerMomentum<>, R> memory{};
        auto moved = w;
        step<R>(plain, moved, x, memory);
        CHECK(same_bits(moved, x));
    }
    const fold::ServerMomentum<> other{.server_rate = 1, .server_momentum = 1e-9};
    memory_t<fold::ServerMomentum<>, R> memory{};
    auto moved = w;
    step<R>(other, moved, x, memory);
    CHECK_FALSE(same_bits(moved, x));  // the arithmetic itself would lose 1e-20 beside 1
}

TEST_CASE("one vector of moments in double, taken at the first fold") {
    memory_t<fold::ServerMomentum<>, float> memory{};
    CHECK(memory.m.empty());
    Vec<float> w{1, 2};
    step<float>(fold::ServerMomentum<>{}, w, {2, 3}, memory);
    CHECK(memory.m.size() == 2);
    CHECK(wire_size(memory) == 8 + 2 * sizeof(double));
    memory_t<fold::ServerMomentum<fold::ServerMomentum<>>, float> nested{};
    step<float>(fold::ServerMomentum<fold::ServerMomentum<>>{}, w, {2, 3}, nested);
    CHECK(nested.m.size() == 2);
    CHECK(nested.inner.m.size() == 2);
}

TEST_CASE("settings outside their range are refused with the name of the field") {
    const auto complaint = support::complaint<fold::ServerMomentum<>>;
    CHECK(complaint({}) == "");
    CHECK(complaint({.server_momentum = 0}) == "");
    CHECK(complaint({.server_rate = 0}).find("server_rate") == 0);
    CHECK(complaint({.server_rate = std::numeric_limits<double>::infinity()}).find("server_rate") == 0);
    CHECK(complaint({.server_momentum = 1}).find("server_momentum") == 0);
    CHECK(complaint({.server_momentum = -0.1}).find("server_momentum") == 0);
}

}  // namespace server_momentum_test
