// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/moments.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/moments.hpp>

#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace moments_test {

namespace {

using namespace tessera;
using namespace tessera::support;
using kernels::MomentNumbers;
using kernels::SecondMoment;
using kernels::reference::Second;

const std::vector<std::size_t> sizes{0,  1,  2,  3,  4,  5,  7,  8,  9,  15,  16,  17,
                                     31, 32, 33, 47, 63, 64, 65, 67, 100, 129, 1000};
const std::vector<SecondMoment> kinds{SecondMoment::adagrad, SecondMoment::adam, SecondMoment::yogi};

// Numbers one element off any vector's alignment, with nothing readable behind them under AddressSanitizer.
template <class R>
class Unaligned {
public:
    explicit Unaligned(const std::vector<R>& values) : memory_(values.size() + 1) {
        std::copy(values.begin(), values.end(), memory_.begin() + 1);
    }
    R* data() { return memory_.data() + 1; }
    std::vector<R> values() const { return {memory_.begin() + 1, memory_.end()}; }

private:
    std::vector<R> memory_;
};

// Second moments are not negative; near 0 the division magnifies roundings, which other tests look at by hand.
template <class R>
std::vector<R> toy_squares(std::size_t n, std::uint64_t seed) {
    auto v = toy_numbers<R>(n, seed);
    for (auto& x : v) x = R(0.5) + x * x;
    return v;
}

// One step of a client, by the kernel of the active set, against the plain loop in the wider type.
template <class R>
bool adam_agrees(std::size_t n, bool with_pull, bool with_also, R tampered = 0) {
    using W = Wide<R>;
    const auto x = toy_numbers<R>(n, 1), g = toy_numbers<R>(n, 2), prox_center = toy_numbers<R>(n, 3);
    const auto linear = toy_numbers<R>(n, 4), m = toy_numbers<R>(n, 5), v = toy_squares<R>(n, 6);
    const MomentNumbers<R> s{R(0.1), R(0.9), R(0.99), R(1e-3), R(1.25), R(1.5)};
    const R prox_weight = R(0.3);
    Unaligned<R> ux(x), ug(g), ut(prox_center), ua(linear), um(m), uv(v);
    if (n > 0) ug.data()[n - 1] += tampered;
    kernels::adam(ux.data(), ug.data(), with_pull ? ut.data() : nullptr, prox_weight, with_also ? ua.data() : nullptr,
                  um.data(), uv.data(), n, &s);

    auto ex = converted<W>(x), em = converted<W>(m), ev = converted<W>(v);
    const auto eg = converted<W>(g), et = converted<W>(prox_center), ea = converted<W>(linear);
    kernels::reference::adam(ex.data(), eg.data(), with_pull ? et.data() : nullptr, static_cast<W>(prox_weight),
                             with_also ? ea.data() : nullptr, em.data(), ev.data(), n, s);

    // Absolute terms: the direction, the moments, and the step with what errors of v add to it.
    auto tx = magnitudes(converted<W>(x)), tm = magnitudes(converted<W>(m)), tv = converted<W>(v);
    for (std::size_t j = 0; j < n; ++j) {
        W d = std::abs(eg[j]);
        if (with_pull) d += prox_weight * (tx[j] + std::abs(et[j]));
        if (with_also) d += std::abs(ea[j]);
        tm[j] = s.b1 * tm[j] + (1 - W(s.b1)) * d;
        tv[j] = s.b2 * tv[j] + (1 - W(s.b2)) * d * d;
        tx[j] += s.rate * tm[j] * s.unbias_m / (std::sqrt(ev[j] * s.unbias_v) + s.floor) * (1 + tv[j] / ev[j]);
    }
    // d takes four operations, m three more, v six more (d twice), the step seven more; doubled for 1 - b.
    return within(um.values(), em, tm, 14) && within(uv.values(), ev, tv, 28) && within(ux.values(), ex, tx, 40);
}

// One step of the server.
template <class R>
bool adapt_agrees(std::size_t n, SecondMoment kind, R tampered = 0) {
    const auto w = toy_numbers<R>(n, 1), to = toy_numbers<R>(n, 2);
    const auto m = toy_numbers<double>(n, 3), v = toy_squares<double>(n, 4);
    const MomentNumbers<double> s{0.1, 0.9, 0.99, 1e-3, 1.25, 1.5};
    Unaligned<R> uw(w), ut(to);
    Unaligned<double> um(m), uv(v);
    if (n > 0) ut.data()[n - 1] += tampered;
    kernels::adapt_toward(uw.data(), ut.data(), um.data(), uv.data(), n, kind, &s);

    using L = long double;
    auto ew = converted<L>(w), em = converted<L>(m), ev = converted<L>(v);
    const auto et = converted<L>(to);
    kernels::reference::adapt_toward(ew.data(), et.data(), em.data(), ev.data(), n, static_cast<Second>(kind), s);

    auto tm = magnitudes(converted<L>(m)), tv = converted<L>(v);
    std::vector<Wide<R>> tw(n);
    for (std::size_t j = 0; j < n; ++j) {
        const L d = std::abs(et[j]) + std::abs(static_cast<L>(w[j]));
        tm[j] = s.b1 * tm[j] + (1 - L(s.b1)) * d;
        tv[j] += d * d;
        tw[j] = static_cast<Wide<R>>(std::abs(static_cast<L>(w[j])) + s.rate * tm[j] * s.unbias_m /
                                     (std::sqrt(ev[j] * s.unbias_v) + s.floor) * (1 + tv[j] / ev[j]));
    }
    // As above, all of it in double; the last rounding is to R.
    return within(um.values(), em, tm, 14) && within(uv.values(), ev, tv, 28) &&
           within(uw.values(), converted<Wide<R>>(ew), tw, std::is_same_v<R, float> ? 2 : 40);
}

}  // namespace

TEST_CASE_TEMPLATE("moments: worked by hand", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t n : {1u, 17u, 64u}) {
            // m = 0.5*2 + 0.5*4 = 3, v = 0.75*4 + 0.25*16 = 7, then (3*2) / (sqrt(7*7) + 1); d = 3 + 0.5*(4-4) + 1.
            std::vector<R> x(n, 4), g(n, 3), prox_center(n, 4), linear(n, 1), m(n, 2), v(n, 4);
            const MomentNumbers<R> s{R(2), R(0.5), R(0.75), R(1), R(2), R(7)};
            kernels::adam(x.data(), g.data(), prox_center.data(), R(0.5), linear.data(), m.data(), v.data(), n, &s);
            CHECK(m == std::vector<R>(n, 3));
            CHECK(v == std::vector<R>(n, 7));
            CHECK(x == std::vector<R>(n, R(2.5)));

            // D = 6 - 2 = 4. Adagrad: 9 + 16 = 25. Yogi: 9 < 16, so 9 + 0.25*16 = 13; 16 stays; 25 > 16, so 21.
            const MomentNumbers<double> numbers{3, 0.5, 0.75, 1};
            std::vector<R> w(n, 2), to(n, 6);
            std::vector<double> first(n, 0), second(n, 9);
            kernels::adapt_toward(w.data(), to.data(), first.data(), second.data(), n, SecondMoment::adagrad, &numbers);
            CHECK(first == std::vector<double>(n, 2));
            CHECK(second == std::vector<double>(n, 25));
            CHECK(w == std::vector<R>(n, 3));  // 2 + 3 * 2 / (5 + 1)
            for (const auto& [from, into] : {std::pair{9.0, 13.0}, std::pair{16.0, 16.0}, std::pair{25.0, 21.0}}) {
                std::vector<R> at(n, 2);
                std::vector<double> a(n, 0), b(n, from);
                kernels::adapt_toward(at.data(), to.data(), a.data(), b.data(), n, SecondMoment::yogi, &numbers);
                CHECK(b == std::vector<double>(n, into));
            }
        }
    });
}

TEST_CASE_TEMPLATE("adam: every set and every choice of terms agrees with the plain loop", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const auto n : sizes)
            for (const bool prox_weight : {false, true})
                for (const bool linear : {false, true}) {
                    CAPTURE(n);
                    REQUIRE(adam_agrees<R>(n, prox_weight, linear));
                }
        CHECK_FALSE(adam_agrees<R>(33, true, true, R(1e-3)));  // one gradient off by a thousandth
    });
}

TEST_CASE_TEMPLATE("adapt_toward: every set and every kind agrees with the plain loop", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const auto kind : kinds) {
            for (const auto n : sizes) {
                CAPTURE(n);
                REQUIRE(adapt_agrees<R>(n, kind));
            }
            CHECK_FALSE(adapt_agrees<R>(33, kind, R(1e-3)));
        }
    });
}

TEST_CASE_TEMPLATE("moments: a cut into ranges gives the bits of the whole", R, float, double) {
    // Scopes and masks step range by range; a coordinate must not notice where its range begins.
    const std::size_t n = 131;
    const auto g = toy_numbers<R>(n, 2), prox_center = toy_numbers<R>(n, 3), linear = toy_numbers<R>(n, 4);
    const MomentNumbers<R> s{R(0.1), R(0.9), R(0.99), R(1e-3), R(1.25), R(1.5)};
    const MomentNumbers<double> wide{0.1, 0.9, 0.99, 1e-3, 1.25, 1.5};
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        const auto adam = [&](std::size_t cut) {
            auto x = toy_numbers<R>(n, 1), m = toy_numbers<R>(n, 5), v = toy_squares<R>(n, 6);
            for (const auto& [a, b] : {std::pair{std::size_t{0}, cut}, std::pair{cut, n}})
                kernels::adam(x.data() + a, g.data() + a, prox_center.data() + a, R(0.3), linear.data() + a,
                              m.data() + a, v.data() + a, b - a, &s);
            x.insert(x.end(), m.begin(), m.end());
            x.insert(x.end(), v.begin(), v.end());
            return x;
        };
        const auto adapt = [&](SecondMoment kind, std::size_t cut) {
            auto w = toy_numbers<R>(n, 1);
            auto m = toy_numbers<double>(n, 5), v = toy_squares<double>(n, 6);
            for (const auto& [a, b] : {std::pair{std::size_t{0}, cut}, std::pair{cut, n}})
                kernels::adapt_toward(w.data() + a, g.data() + a, m.data() + a, v.data() + a, b - a, kind, &wide);
            m.insert(m.end(), v.begin(), v.end());
            m.insert(m.end(), w.begin(), w.end());
            return m;
        };
        const auto same = [](const auto& a, const auto& b) {
            return std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
        };
        for (std::size_t cut = 1; cut < n; ++cut) {
            CAPTURE(cut);
            CHECK(same(adam(cut), adam(0)));
            for (const auto kind : kinds) CHECK(same(adapt(kind, cut), adapt(kind, 0)));
        }
        CHECK_FALSE(same(adapt(SecondMoment::adam, 0), adapt(SecondMoment::yogi, 0)));
    });
}

}  // namespace moments_test
