// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/fold/server_adaptive.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/bytes.hpp>
#include <tessera/runtime/setup.hpp>

#include <support/bits.hpp>
#include <support/complaint.hpp>
#include <support/slope.hpp>

namespace server_adaptive_test {

using namespace tessera;
using doctest::Approx;
using support::distance;
using support::same_bits;

namespace {
using Any = support::Slope<double, 2>;

// The moves of w, divided by the rate, over D given one by one.
template <class F>
Vec<double> moves(const F& fold, const std::vector<double>& pseudo_gradients) {
    memory_t<F, double> memory{};
    Vec<double> out;
    for (const double d : pseudo_gradients) {
        Vec<double> w{0};  // D is then exact
        const Vec<double> x{d};
        const Row<double> row{x};
        fold_rows(fold, Context<Any>{}, w, Rows<double>(&row, 1), memory);
        out.push_back(w[0] / fold.server_rate);
    }
    return out;
}
}  // namespace

TEST_CASE("Adagrad, Adam and Yogi, by hand") {
    static_assert(LinearFold<fold::ServerAdam<>, Any> && accepts_masks<fold::ServerYogi<>>);
    // b1 = 0: m = D. tau = 1, v0 = 0, D = 2 then 1. 1e-15: a few roundings of numbers near 1.
    CHECK(distance(moves(fold::ServerAdagrad<>{.tau = 1, .v0 = 0}, {2, 1}), {2 / (2 + 1.0), 1 / (std::sqrt(5.0) + 1)}) <
          1e-15);
    CHECK(distance(moves(fold::ServerAdam<>{.b1 = 0, .b2 = 0.75, .tau = 1, .v0 = 0}, {2, 1}),
                   {2 / (1 + 1.0), 1 / (1 + 1.0)}) < 1e-15);  // v = 1, then 0.75 + 0.25
    CHECK(distance(moves(fold::ServerYogi<>{.b1 = 0, .b2 = 0.75, .tau = 1, .v0 = 0}, {4, 2, 1}),
                   {4 / (2 + 1.0), 2 / (2 + 1.0), 1 / (std::sqrt(3.75) + 1)}) < 1e-15);  // v = 4, 4 (= D^2), 4 - 0.25
    CHECK(distance(moves(fold::ServerAdam<>{.b1 = 0.5, .b2 = 0, .tau = 1, .v0 = 0}, {2, 2}), {1 / 3.0, 1.5 / 3.0}) <
          1e-15);  // m = 1, 1.5
}

TEST_CASE("v starts at v0, which is tau squared unless said") {
    CHECK(fold::ServerAdam<>{}.first_v() == doctest::Approx(1e-6));
    fold::ServerAdam<> later;
    later.tau = 0.5;
    CHECK(later.first_v() == 0.25);
    later.v0 = 2;
    CHECK(later.first_v() == 2);
    CHECK(moves(fold::ServerAdagrad<>{.tau = 3}, {4})[0] == Approx(4 / (5 + 3.0)));  // sqrt(9 + 16)
    CHECK(moves(fold::ServerAdagrad<>{.tau = 3, .v0 = 0}, {4})[0] == Approx(4 / (4 + 3.0)));
    CHECK(fold::ServerAdagrad<>{}.b1 == 0);
    CHECK(fold::ServerAdam<>{}.b1 == 0.9);
}

TEST_CASE("bias correction divides by 1 - b^k") {
    const fold::ServerAdam<> torch{.b1 = 0.9, .b2 = 0.999, .tau = 1e-8, .v0 = 0, .bias_corrected = true};
    // A constant D gives m = D and v = D^2 after correction, at every step.
    CHECK(distance(moves(torch, {0.5, 0.5, 0.5, 0.5}), Vec<double>(4, 0.5 / (0.5 + 1e-8))) < 1e-12);
    // Without a v0 it starts at 0 too: the first step has the length of the rate, whatever tau. By hand, with D = 0.5
    // and then 0.1: m = 0.05, 0.055 and v = 2.5e-4, 2.5975e-4, over 1 - b^k.
    const fold::ServerAdam<> usual{.b2 = 0.999, .tau = 1e-3, .bias_corrected = true};
    CHECK(usual.first_v() == 0);
    CHECK(distance(moves(usual, {0.5, 0.1}),
                   {0.5 / (0.5 + 1e-3), 0.055 / 0.19 / (std::sqrt(2.5975e-4 / (1 - 0.999 * 0.999)) + 1e-3)}) < 1e-12);
    CHECK(fold::ServerYogi<>{.bias_corrected = true}.first_v() == 0);
    CHECK(fold::ServerAdagrad<>{.tau = 2, .bias_corrected = true}.first_v() == 4);
    auto without = torch;
    without.bias_corrected = false;
    CHECK(std::fabs(moves(without, {0.5})[0] - 1) > 1);
    // Adagrad's v is a sum and is not corrected.
    CHECK(moves(fold::ServerAdagrad<>{.tau = 1, .v0 = 0, .bias_corrected = true}, {2})[0] == Approx(2.0 / 3));
}

TEST_CASE("two vectors of moments in double and a counter, taken at the first fold") {
    memory_t<fold::ServerAdam<>, double> memory{};
    CHECK(memory.m.empty());
    CHECK(memory.v.empty());
    Vec<double> w{1, 2, 3};
    const Vec<double> x{2, 2, 2};
    const Row<double> row{x};
    for (std::uint64_t k = 1; k <= 3; ++k) {
        fold_rows(fold::ServerAdam<>{}, Context<Any>{}, w, Rows<double>(&row, 1), memory);
        CHECK(memory.steps == k);
    }
    CHECK(memory.m.size() == 3);
    CHECK(memory.v.size() == 3);
    CHECK(wire_size(memory) == 2 * (8 + 3 * 8) + 8);
}

TEST_CASE("masked rows pass through to the inner fold") {
    const fold::ServerAdagrad<> fold{.server_rate = 1, .tau = 1e-3, .v0 = 0};
    memory_t<fold::ServerAdagrad<>, double> memory{};
    Mask mask(2, true);
    mask.set(0, false);
    Vec<double> w{3, 1};
    const Vec<double> packed{2};
    const Row<double> row{packed, 1, &mask};
    fold_rows(fold, Context<Any>{}, w, Rows<double>(&row, 1), memory);
    CHECK(w[0] == 3);  // unchanged means D = 0
    CHECK(w[1] == Approx(1 + 1 / 1.001));
}

TEST_CASE("settings outside their range are refused with the name of the field") {
    const auto complaint = support::complaint<fold::ServerAdam<>>;
    CHECK(complaint({}) == "");
    CHECK(complaint({.v0 = 0}) == "");
    CHECK(complaint({.server_rate = 0}).find("server_rate") == 0);
    CHECK(complaint({.b1 = 1}).find("b1") == 0);
    CHECK(complaint({.b2 = -1}).find("b2") == 0);
    CHECK(complaint({.tau = 0}).find("tau") == 0);
    CHECK(complaint({.v0 = -2}).find("v0") == 0);
    constexpr double infinite = std::numeric_limits<double>::infinity();
    CHECK(complaint({.server_rate = infinite}).find("server_rate") == 0);
    CHECK(complaint({.tau = infinite}).find("tau") == 0);
    CHECK(complaint({.v0 = infinite}).find("v0") == 0);
    CHECK(complaint({.v0 = 1e-6, .bias_corrected = true}).find("v0") == 0);
    CHECK(complaint({.v0 = 0, .bias_corrected = true}) == "");
}

}  // namespace server_adaptive_test
