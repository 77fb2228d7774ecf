// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/recurrent.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace kernel_recurrent_test {

namespace {

using namespace tessera;
using namespace tessera::support;

// A step over `rows` examples that lie with a gap between them, forward and back.
template <class R>
struct Step {
    std::size_t rows, hidden;
    kernels::LstmStep<R> s{rows, hidden, 4 * hidden + 3, hidden + 2};
    std::vector<R> gates, more, before, cells, shown, dshown, back, dcells, dgates;

    Step(std::size_t r, std::size_t h, bool earlier, double spread, bool plain)
        : rows(r),
          hidden(h),
          gates(scaled(r * s.gates_apart, 1, spread)),
          more(scaled(r * 4 * h, 2, spread)),
          before(scaled(r * s.apart, 3, 1)),
          cells(r * s.apart),
          shown(r * s.apart),
          dshown(scaled(r * s.apart, 4, 1)),
          back(scaled(r * h, 5, 1)),
          dcells(scaled(r * h, 6, 1)),
          dgates(r * s.gates_apart) {
        const R *last = earlier ? before.data() : nullptr, *own = earlier ? more.data() : nullptr;
        const R* from = earlier ? back.data() : nullptr;
        if (plain) {
            kernels::reference::lstm_step(gates.data(), own, last, cells.data(), shown.data(), s);
            kernels::reference::lstm_step_back<R>(gates.data(), last, cells.data(), dshown.data(), from, dcells.data(),
                                                  dgates.data(), s);
        } else {
            kernels::lstm_step(gates.data(), own, last, cells.data(), shown.data(), s);
            kernels::lstm_step_back(gates.data(), last, cells.data(), dshown.data(), from, dcells.data(), dgates.data(),
                                    s);
        }
    }
    static std::vector<R> scaled(std::size_t n, std::uint64_t seed, double by) {
        const auto narrow = toy_numbers<float>(n, seed);  // of one set, so that both read the same numbers
        std::vector<R> v(narrow.begin(), narrow.end());
        for (R& x : v) x *= static_cast<R>(by);
        return v;
    }
    std::vector<const std::vector<R>*> all() const { return {&gates, &cells, &shown, &dcells, &dgates}; }
};

double worst(const Step<float>& a, const Step<double>& b) {
    double most = 0;
    for (std::size_t k = 0; k < a.all().size(); ++k)
        for (std::size_t i = 0; i < a.all()[k]->size(); ++i)
            most = std::max(most, std::abs(static_cast<double>((*a.all()[k])[i]) - (*b.all()[k])[i]));
    return most;
}

}  // namespace

TEST_CASE("a step of an LSTM is the plain loop's, in every set, whatever the width") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t rows : {1u, 3u})
            for (const std::size_t hidden : {1u, 2u, 5u, 8u, 15u, 16u, 17u, 33u})
                for (const bool earlier : {false, true})
                    for (const double spread : {0.1, 1.0, 8.0, 64.0}) {
                        CAPTURE(hidden); CAPTURE(earlier); CAPTURE(spread);
                        const Step<float> got(rows, hidden, earlier, spread, false);
                        // What the gates read is rounded once, to 2^-24 of 128 at most, where their slopes are 0; the
                        // rest is below 10 in size and goes through 20 roundings.
                        CHECK(worst(got, Step<double>(rows, hidden, earlier, spread, true)) < 1e-5);
                        CHECK(worst(got, Step<double>(rows, hidden, earlier, 1.01 * spread, true)) > 1e-5);
                    }
    });
}

TEST_CASE("the logistic function and tanh keep their digits, near 0 and far away") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        std::vector<float> x;
        for (int i = -1200; i <= 1200; ++i) x.push_back(static_cast<float>(i) * 0.1f);
        for (int i = -60; i <= 0; ++i) x.push_back(std::ldexp(1.0f, i)), x.push_back(-std::ldexp(0.77f, i));
        const std::size_t n = x.size();
        std::vector<float> gates(4 * n), cells(n), shown(n);
        for (std::size_t k = 0; k < 4; ++k)
            std::copy(x.begin(), x.end(), gates.begin() + static_cast<std::ptrdiff_t>(k * n));
        kernels::lstm_step(gates.data(), nullptr, nullptr, cells.data(), shown.data(), {1, n, 4 * n, n});
        double sigmoid = 0, tangent = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const double v = static_cast<double>(x[i]), s = 1 / (1 + std::exp(-v));
            if (v >= -87) sigmoid = std::max(sigmoid, std::abs(static_cast<double>(gates[i]) - s) / s);
            else CHECK(gates[i] <= 1.2e-38f);
            if (v != 0) tangent = std::max(tangent, std::abs(static_cast<double>(gates[2 * n + i]) / std::tanh(v) - 1));
        }
        CHECK(
            sigmoid <
            4e-7);  // the exponential has 2 units in the last place, of 1.2e-7 at most, and three roundings come after
        CHECK(tangent < 4e-7);
        CHECK(sigmoid > 1e-9);  // floats were looked at
        std::vector<float> bad(4, std::numeric_limits<float>::quiet_NaN());
        kernels::lstm_step(bad.data(), nullptr, nullptr, cells.data(), shown.data(), {1, 1, 4, 1});
        CHECK(std::isnan(bad[0]));
        CHECK(std::isnan(shown[0]));
    });
}

TEST_CASE("a row of an LSTM's step has the bits it has alone") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        const Step<float> all(3, 21, true, 1, false);
        Step<float> one(3, 21, true, 1, false);
        const auto x = Step<float>::scaled(3 * all.s.gates_apart, 1, 1);
        const std::size_t row = 2;
        std::vector<float> gates(x.begin() + static_cast<std::ptrdiff_t>(row * all.s.gates_apart), x.end()), cells(23),
            shown(23);
        kernels::lstm_step(gates.data(), one.more.data() + row * 84, one.before.data() + row * 23, cells.data(),
                           shown.data(), {1, 21, 84, 21});
        for (std::size_t j = 0; j < 21; ++j) {
            CHECK(cells[j] == all.cells[row * 23 + j]);
            CHECK(shown[j] == all.shown[row * 23 + j]);
        }
    });
}

}  // namespace kernel_recurrent_test
