// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/vector.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/vector.hpp>

#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace vector_test {

namespace {

using namespace tessera;
using namespace tessera::support;

// Around one vector (2 to 16 numbers), two of them, and the four accumulators of `dot`.
const std::vector<std::size_t> sizes{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 13,  15,  16,  17,  19,
                                     31, 32, 33, 35, 47, 48, 49, 63, 64, 65, 67, 127, 128, 129, 1000};

template <class R>
using Numbers = kernels::detail::UpdateNumbers<R>;

// `n` numbers that start `offset` elements off the heap's alignment; nothing behind them is readable.
template <class R>
struct Shifted {
    Shifted(const std::vector<R>& values, std::size_t by) : memory(values.size() + by), offset(by) {
        std::copy(values.begin(), values.end(), memory.begin() + static_cast<std::ptrdiff_t>(by));
    }
    R* data() { return memory.data() + offset; }
    std::vector<R> values() const { return {memory.begin() + static_cast<std::ptrdiff_t>(offset), memory.end()}; }

    std::vector<R> memory;
    std::size_t offset;
};

// Which terms an update has.
struct Terms {
    bool decay, prox_center, linear, velocity;
};

// x and the velocity after one update, by the kernel of the active set, against the plain loop in the wider type.
template <class R>
bool update_agrees(std::size_t n, Terms terms, std::size_t offset, R tampered = 0) {
    using W = Wide<R>;
    const auto x = toy_numbers<R>(n, 1), g = toy_numbers<R>(n, 2), prox_center = toy_numbers<R>(n, 3);
    const auto linear = toy_numbers<R>(n, 4), velocity = toy_numbers<R>(n, 5);
    const R scale = R(0.75);
    const Numbers<R> numbers{
        .rate = R(0.1), .decay = terms.decay ? R(0.01) : R(0), .prox_weight = R(0.3), .momentum = R(0.9)};

    Shifted<R> ux(x, offset), ug(g, offset), ut(prox_center, offset), ua(linear, offset), uv(velocity, offset);
    if (n > 0) ug.data()[n - 1] += tampered;
    kernels::update(ux.data(), ug.data(), terms.prox_center ? ut.data() : nullptr, terms.linear ? ua.data() : nullptr,
                    terms.velocity ? uv.data() : nullptr, n, scale, numbers);

    auto ex = converted<W>(x), ev = converted<W>(velocity);
    const auto eg = converted<W>(g), et = converted<W>(prox_center), ea = converted<W>(linear);
    const Numbers<W> wide{numbers.rate, numbers.decay, numbers.prox_weight, numbers.momentum};
    kernels::reference::update(ex.data(), eg.data(), terms.prox_center ? et.data() : nullptr,
                               terms.linear ? ea.data() : nullptr, terms.velocity ? ev.data() : nullptr, n,
                               static_cast<W>(scale), wide);

    // The same update of the absolute values bounds the terms: |x - prox_center| <= |x| + |prox_center|.
    auto mx = magnitudes(converted<W>(x)), mv = magnitudes(converted<W>(velocity));
    for (std::size_t j = 0; j < n; ++j) {
        W d = scale * std::abs(eg[j]) + wide.decay * mx[j];
        if (terms.prox_center) d += wide.prox_weight * (mx[j] + std::abs(et[j]));
        if (terms.linear) d += std::abs(ea[j]);
        if (terms.velocity) d = mv[j] = wide.momentum * mv[j] + d;
        mx[j] += wide.rate * d;
    }
    // At most twelve operations stand between the inputs and a new x.
    const bool velocity_agrees = terms.velocity ? within(uv.values(), ev, mv, 12) : uv.values() == velocity;
    return velocity_agrees && within(ux.values(), ex, mx, 12);
}

template <class F>
void for_each_terms(F&& check) {
    for (unsigned bits = 0; bits < 16; ++bits)
        check(Terms{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, bits > 7});
}

}  // namespace

TEST_CASE_TEMPLATE("update: worked by hand", R, float, double) {
    // d = 2*1 + 0.5*4 + 0.25*(4 - 8) + 3 = 6;  v = 0.5*2 + 6 = 7;  x = 4 - 0.5*7. All exact in binary.
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t n : {1u, 17u, 64u}) {
            std::vector<R> x(n, 4), g(n, 1), prox_center(n, 8), linear(n, 3), v(n, 2);
            const Numbers<R> numbers{.rate = R(0.5), .decay = R(0.5), .prox_weight = R(0.25), .momentum = R(0.5)};
            kernels::update(x.data(), g.data(), prox_center.data(), linear.data(), v.data(), n, R(2), numbers);
            CHECK(v == std::vector<R>(n, 7));
            CHECK(x == std::vector<R>(n, R(0.5)));
        }
    });
}

TEST_CASE_TEMPLATE("update: every set and every choice of terms agrees with the plain loop", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for_each_terms([](Terms terms) {
            for (const auto n : sizes)
                for (const std::size_t offset : {0u, 1u}) {
                    CAPTURE(n);
                    CAPTURE(offset);
                    REQUIRE(update_agrees<R>(n, terms, offset));
                }
        });
        CHECK_FALSE(update_agrees<R>(35, {true, true, true, true}, 1, R(1e-3)));  // one gradient off by a thousandth
    });
}

TEST_CASE_TEMPLATE("update: a cut into ranges gives the bits of the whole", R, float, double) {
    // Scopes update a vector range by range; a coordinate must not notice where its range begins.
    const std::size_t n = 131;
    const auto x = toy_numbers<R>(n, 1), g = toy_numbers<R>(n, 2), prox_center = toy_numbers<R>(n, 3);
    const auto linear = toy_numbers<R>(n, 4), velocity = toy_numbers<R>(n, 5);
    const Numbers<R> numbers{.rate = R(0.1), .decay = R(0.01), .prox_weight = R(0.3), .momentum = R(0.9)};
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        for_each_terms([&](Terms terms) {
            const auto run = [&](std::size_t cut) {
                auto y = x;
                auto v = velocity;
                auto own = numbers;
                if (!terms.decay) own.decay = 0;
                for (const auto& [begin, end] : {std::pair{std::size_t{0}, cut}, std::pair{cut, n}})
                    kernels::update(y.data() + begin, g.data() + begin,
                                    terms.prox_center ? prox_center.data() + begin : nullptr,
                                    terms.linear ? linear.data() + begin : nullptr,
                                    terms.velocity ? v.data() + begin : nullptr, end - begin, R(0.75), own);
                y.insert(y.end(), v.begin(), v.end());
                return y;
            };
            const auto whole = run(0);
            for (std::size_t cut = 1; cut < n; ++cut) {
                CAPTURE(cut);
                CHECK(std::memcmp(run(cut).data(), whole.data(), 2 * n * sizeof(R)) == 0);
            }
        });
    });
}

TEST_CASE_TEMPLATE("axpy: every set agrees with the plain loop", R, float, double) {
    using W = Wide<R>;
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        std::vector<R> y{1, 2, 3};
        const std::vector<R> x{4, 5, 6};
        kernels::axpy(R(-2), x.data(), y.data(), 3);
        CHECK(y == std::vector<R>{-7, -8, -9});

        for (const auto n : sizes)
            for (const std::size_t offset : {0u, 1u, 3u}) {
                CAPTURE(n);
                CAPTURE(offset);
                const auto from = toy_numbers<R>(n, 1), to = toy_numbers<R>(n, 2);
                Shifted<R> ux(from, offset), uy(to, offset);
                kernels::axpy(R(0.3), ux.data(), uy.data(), n);
                auto exact = converted<W>(to), terms = magnitudes(exact);
                const auto wx = converted<W>(from), ax = magnitudes(wx);
                kernels::reference::axpy(static_cast<W>(R(0.3)), wx.data(), exact.data(), n);
                kernels::reference::axpy(static_cast<W>(R(0.3)), ax.data(), terms.data(), n);
                REQUIRE(within(uy.values(), exact, terms, 3));  // a product, a sum, and the oracle's own
                if (n > 0) {
                    uy.data()[n / 2] += R(1e-3);
                    REQUIRE_FALSE(within(uy.values(), exact, terms, 3));
                }
            }
    });
}

TEST_CASE_TEMPLATE("dot: every set agrees with the plain loop, in double whatever the type", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        const std::vector<R> a{1, 2, 3}, b{4, -5, 6};
        double worked = 0;
        kernels::dot(a.data(), b.data(), 3, &worked);
        CHECK(worked == 12);

        for (const auto n : sizes)
            for (const std::size_t offset : {0u, 1u, 3u}) {
                CAPTURE(n);
                CAPTURE(offset);
                const auto x = toy_numbers<R>(n, 1), y = toy_numbers<R>(n, 2);
                Shifted<R> ux(x, offset), uy(y, offset);
                std::vector<double> got{std::numeric_limits<double>::quiet_NaN()};
                kernels::dot(ux.data(), uy.data(), n, got.data());
                std::vector<long double> exact(1), terms(1);
                kernels::reference::dot(x.data(), y.data(), n, exact.data());
                const auto ax = magnitudes(x), ay = magnitudes(y);
                kernels::reference::dot(ax.data(), ay.data(), n, terms.data());
                // Roundings of double also for float: n products, n additions.
                REQUIRE(within(got, exact, terms, n + 1));
                if (n > 0) {
                    got[0] += 1e-3 * static_cast<double>(terms[0]);
                    REQUIRE_FALSE(within(got, exact, terms, n + 1));
                }
            }
    });
}

TEST_CASE("dot: what float would lose, double keeps") {
    // 2^24 + 1 - 2^24 is 0 in float.
    const std::vector<float> x{16777216.0f, 1.0f, -16777216.0f}, one(3, 1.0f);
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        double result = 0;
        kernels::dot(x.data(), one.data(), x.size(), &result);
        CHECK(result == 1);
    });
}

TEST_CASE_TEMPLATE("norm, distance and sum: every set agrees with the plain loop", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        const std::vector<R> a{1, 2, -3}, b{4, -1, 0};
        double worked = 0;
        kernels::squared_norm(a.data(), 3, &worked);
        CHECK(worked == 14);
        kernels::squared_distance(a.data(), 0.5, b.data(), 3, &worked);  // (-1, 2.5, -3)
        CHECK(worked == 16.25);
        kernels::sum(a.data(), 3, &worked);
        CHECK(worked == 0);

        for (const auto n : sizes)
            for (const std::size_t offset : {0u, 1u, 3u}) {
                CAPTURE(n);
                CAPTURE(offset);
                const auto x = toy_numbers<R>(n, 1), y = toy_numbers<R>(n, 2);
                const auto ax = magnitudes(x), ay = magnitudes(y);
                Shifted<R> ux(x, offset), uy(y, offset);
                std::vector<double> got(3, std::numeric_limits<double>::quiet_NaN());
                kernels::squared_norm(ux.data(), n, &got[0]);
                kernels::squared_distance(ux.data(), 0.3, uy.data(), n, &got[1]);
                kernels::sum(ux.data(), n, &got[2]);
                std::vector<long double> exact(3), terms(3);
                kernels::reference::squared_norm(x.data(), n, &exact[0]);
                kernels::reference::squared_distance(x.data(), 0.3, y.data(), n, &exact[1]);
                kernels::reference::sum(x.data(), n, &exact[2]);
                kernels::reference::squared_norm(ax.data(), n, &terms[0]);
                kernels::reference::squared_distance(ax.data(), -0.3, ay.data(), n, &terms[1]);
                kernels::reference::sum(ax.data(), n, &terms[2]);
                // n additions, and at most five roundings a term: a product, a difference twice in the square, a square
                REQUIRE(within(got, exact, terms, n + 5));
                for (std::size_t i = 0; i < 3 && n > 0; ++i) {
                    auto off = got;
                    off[i] += 1e-3 * static_cast<double>(terms[i]);
                    REQUIRE_FALSE(within(off, exact, terms, n + 5));
                }
            }
    });
}

TEST_CASE_TEMPLATE("blend, pulled and shrink: every set agrees with the plain loop", R, float, double) {
    using W = Wide<R>;
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        const std::vector<R> one{4, 5, 6}, other{1, 2, 3};
        std::vector<R> y{1, 2, 3};
        kernels::blend(R(0.5), one.data(), R(2), y.data(), 3);
        CHECK(y == std::vector<R>{4, R(6.5), 9});
        kernels::pulled(R(2), one.data(), other.data(), y.data(), 3);
        CHECK(y == std::vector<R>{-2, R(0.5), 3});
        kernels::shrink(R(3), y.data(), 3);
        CHECK(y == std::vector<R>{R(-0.5), R(0.125), R(0.75)});

        for (const auto n : sizes)
            for (const std::size_t offset : {0u, 1u, 3u}) {
                CAPTURE(n);
                CAPTURE(offset);
                const auto x = toy_numbers<R>(n, 1), t = toy_numbers<R>(n, 2), w = toy_numbers<R>(n, 3);
                const auto wx = converted<W>(x), wt = converted<W>(t);
                const auto ax = magnitudes(wx), at = magnitudes(wt);
                const R a = R(0.3), b = R(-0.9);
                Shifted<R> ux(x, offset), ut(t, offset), uw(w, offset);
                auto exact = converted<W>(w), terms = magnitudes(exact);

                kernels::blend(a, ux.data(), b, uw.data(), n);
                kernels::reference::blend(W(a), wx.data(), W(b), exact.data(), n);
                kernels::reference::blend(W(a), ax.data(), W(-b), terms.data(), n);
                REQUIRE(within(uw.values(), exact, terms, 4));  // two products and a sum, and the oracle's own

                // What was rounded counts as given from here on.
                exact = converted<W>(uw.values());
                terms = magnitudes(exact);
                kernels::pulled(a, ux.data(), ut.data(), uw.data(), n);
                kernels::reference::pulled(W(a), wx.data(), wt.data(), exact.data(), n);
                for (std::size_t j = 0; j < n; ++j) terms[j] += a * (ax[j] + at[j]);
                REQUIRE(within(uw.values(), exact, terms, 4));

                exact = converted<W>(uw.values());
                terms = magnitudes(exact);
                kernels::shrink(R(0.7), uw.data(), n);
                kernels::reference::shrink(W(R(0.7)), exact.data(), n);
                REQUIRE(within(uw.values(), exact, terms, 4));  // 1 + t, its inverse, the product
                if (n > 0) {
                    uw.data()[n - 1] += R(1e-3);
                    REQUIRE_FALSE(within(uw.values(), exact, terms, 4));
                }
            }
    });
}

TEST_CASE_TEMPLATE("soft_threshold: every set agrees with the plain loop, bit for bit", R, float, double) {
    const R nan = std::numeric_limits<R>::quiet_NaN(), infinity = std::numeric_limits<R>::infinity();
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        std::vector<R> few{3, R(-0.5), -2, 1, nan, -infinity, 0};
        kernels::soft_threshold(R(1), few.data(), few.size());
        CHECK(few[0] == 2);
        CHECK(few[1] == 0);
        CHECK(few[2] == -1);
        CHECK(few[3] == 0);
        CHECK(std::isnan(few[4]));
        CHECK(few[5] == -infinity);
        CHECK(few[6] == 0);
        for (const auto n : sizes)
            for (const std::size_t offset : {0u, 1u}) {
                CAPTURE(n);
                const auto x = toy_numbers<R>(n, 1);
                Shifted<R> ux(x, offset);
                kernels::soft_threshold(R(0.4), ux.data(), n);
                auto expected = x;
                kernels::reference::soft_threshold(R(0.4), expected.data(), n);
                REQUIRE(ux.values() == expected);
                if (n > 3) REQUIRE(ux.values() != x);
            }
    });
}

TEST_CASE_TEMPLATE("widen_bytes: every set agrees with the plain loop on all bytes", R, float, double) {
    using W = Wide<R>;
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        const std::vector<std::uint8_t> some{0, 1, 100, 255};
        std::vector<R> worked(4);
        kernels::widen_bytes(some.data(), worked.data(), 4, R(100), R(0.5));
        CHECK(worked == std::vector<R>{-50, R(-49.5), 0, R(77.5)});

        for (auto n : sizes)
            for (const std::size_t offset : {0u, 1u, 3u}) {
                CAPTURE(n);
                CAPTURE(offset);
                std::vector<std::uint8_t> bytes(n);
                for (std::size_t j = 0; j < n; ++j) bytes[j] = static_cast<std::uint8_t>(j * 37);  // all 256 by 256
                Shifted<std::uint8_t> in(bytes, offset);
                Shifted<R> out(std::vector<R>(n, std::numeric_limits<R>::quiet_NaN()), offset);
                const R shift = R(72.94), scale = R(1 / 90.02);
                kernels::widen_bytes(in.data(), out.data(), n, shift, scale);
                std::vector<W> exact(n), terms(n);
                kernels::reference::widen_bytes(bytes.data(), exact.data(), n, static_cast<W>(shift),
                                                static_cast<W>(scale));
                kernels::reference::widen_bytes(bytes.data(), terms.data(), n, -static_cast<W>(shift),
                                                static_cast<W>(scale));
                REQUIRE(within(out.values(), exact, terms, 4));  // a difference, a product, fused or not
                if (n > 0) {
                    out.data()[n - 1] += R(1e-3);
                    REQUIRE_FALSE(within(out.values(), exact, terms, 4));
                }
            }
    });
}

TEST_CASE_TEMPLATE("flat kernels: nothing is touched where there is nothing", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        R* nowhere = nullptr;
        const R* none = nullptr;
        kernels::update(nowhere, none, none, none, nowhere, 0, R(1), Numbers<R>{1, 1, 1, 1});
        kernels::axpy(R(1), none, nowhere, 0);
        kernels::blend(R(1), none, R(1), nowhere, 0);
        kernels::pulled(R(1), none, none, nowhere, 0);
        kernels::soft_threshold(R(1), nowhere, 0);
        kernels::shrink(R(1), nowhere, 0);
        kernels::widen_bytes(nullptr, nowhere, 0, R(0), R(1));
        double result = 7;
        kernels::dot(none, none, 0, &result);
        CHECK(result == 0);
        kernels::squared_norm(none, 0, &(result = 7));
        CHECK(result == 0);
        kernels::squared_distance(none, 1, none, 0, &(result = 7));
        CHECK(result == 0);
        kernels::sum(none, 0, &(result = 7));
        CHECK(result == 0);
    });
}

}  // namespace vector_test
