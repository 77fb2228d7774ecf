// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/privacy/noise.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <support/bits.hpp>
#include <support/statistics.hpp>

namespace noise_test {

using namespace tessera;
using privacy::Noise;
using privacy::Source;

namespace {

template <class R>
Vec<R> drawn(Source source, std::uint64_t key, std::size_t n) {
    Vec<R> out(n);
    Noise{source}.add(Key{key}, 1, Out<R>(out));
    return out;
}

struct Moments {
    double mean = 0, variance = 0, kurtosis = 0, lag = 0;
};
Moments moments(const Vec<double>& x, double scale = 1) {
    Moments m;
    const auto n = static_cast<double>(x.size());
    for (const double v : x) m.mean += scale * v / n;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double v = scale * x[i];
        m.variance += v * v / n;
        m.kurtosis += v * v * v * v / n;
        if (i > 0) m.lag += v * scale * x[i - 1] / n;
    }
    m.kurtosis -= 3 * m.variance * m.variance;
    return m;
}

}  // namespace

// n = 1e6: the deviation of the variance is sqrt(2/n) = 0.0014. 8 of them are 0.0113, passed by chance once in 1e15, so
// that the system's own numbers can be tested; a deviation of noise 1 % too small is at 14 of them.
TEST_CASE_TEMPLATE("both sources are standard normal, and one per cent less noise is noticed", R, float, double) {
    constexpr std::size_t n = 1'000'000;
    const double root = std::sqrt(static_cast<double>(n));
    for (const Source source : {Source::keyed, Source::system}) {
        const auto x = drawn<R>(source, 5, n);
        const Vec<double> wide(x.begin(), x.end());
        const auto m = moments(wide);
        CHECK(std::fabs(m.mean) < 8 / root);
        CHECK(std::fabs(m.variance - 1) < 0.0113);
        CHECK(std::fabs(m.kurtosis) < 8 * std::sqrt(24.0) / root);
        CHECK(std::fabs(m.lag) < 8 / root);
        CHECK(std::fabs(moments(wide, 0.99).variance - 1) > 0.0113);
        const std::vector<double> some(wide.begin(), wide.begin() + 100'000);
        const auto normal = [](double v) { return std::erfc(-v / std::sqrt(2.0)) / 2; };
        // 2 exp(-2 (4.2)^2) = 1e-15 by chance
        CHECK(support::ks_distance(some, normal) < 4.2 / std::sqrt(1e5));
        double most = 0;
        for (const double v : wide) most = std::max(most, std::fabs(v));
        CHECK(most > 4.2);  // less than that once in 1e11
        CHECK(most < 9.5);  // 64 bits reach no further, nor do 53
    }
}

TEST_CASE("keyed noise is a function of its place; the system's never repeats") {
    using support::same_bits;
    CHECK(same_bits(drawn<float>(Source::keyed, 5, 101), drawn<float>(Source::keyed, 5, 101)));
    CHECK_FALSE(same_bits(drawn<float>(Source::keyed, 5, 101), drawn<float>(Source::keyed, 6, 101)));
    CHECK_FALSE(same_bits(drawn<float>(Source::system, 5, 101), drawn<float>(Source::system, 5, 101)));
    CHECK(Noise{Source::keyed}.sample_key(Key{5}) == Key{5});
    CHECK_FALSE(Noise{Source::system}.sample_key(Key{5}) == Noise{Source::system}.sample_key(Key{5}));
    for (const std::size_t n : {0u, 1u, 2u, 31u, 33u}) CHECK(drawn<double>(Source::system, 1, n).size() == n);
    CHECK(Noise{Source::keyed}.words().find("NOT PRIVATE") != std::string_view::npos);
    CHECK(Noise{Source::system}.words().find("NOT PRIVATE") == std::string_view::npos);
    CHECK_FALSE(Noise{}.replayable());  // whoever says nothing gets what can be released
}

}  // namespace noise_test
