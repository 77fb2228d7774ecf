// SPDX-License-Identifier: BSD-3-Clause
// The tile kernels on a tile unit in software, which every machine has; on the processor's own where it has one.
#include <tessera/kernels/amx.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/dense.hpp>
#include <tessera/kernels/reference/tiles.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/bits.hpp>
#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace amx_test {

namespace {

using namespace tessera;
using namespace tessera::support;
using kernels::reference::Tiles;

struct Shape {
    std::size_t batch, in, out;
};

// Around one and two tiles of examples, inputs and outputs, and around a block of 32.
template <class F>
void for_each_shape(F&& check) {
    for (const std::size_t batch : {1u, 15u, 16u, 17u, 31u, 32u, 33u, 65u})
        for (const std::size_t in : {1u, 15u, 16u, 17u, 31u, 32u, 33u, 65u})
            for (const std::size_t out : {1u, 15u, 16u, 17u, 31u, 33u, 50u}) check(Shape{batch, in, out});
    for (const Shape s : {Shape{512, 40, 20}, Shape{20, 784, 10}, Shape{3, 0, 5}, Shape{3, 5, 0}}) check(s);
}

// Bytes in a shuffled order with a repetition, and what they mean in double.
struct Bytes {
    std::vector<std::uint8_t> pixels;
    std::vector<Index> ids;
    kernels::ByteRows rows;
    std::vector<double> exact, magnitude;  // of byte - shift, tiles see the two apart

    Bytes(Shape s, float shift, float scale) : pixels(s.batch * s.in), ids(s.batch) {
        Stream draw(Key{s.batch * 1000 + s.in});
        for (auto& p : pixels) p = static_cast<std::uint8_t>(draw.below(256));
        for (auto& id : ids) id = static_cast<Index>(draw.below(s.batch));
        rows = {pixels.data(), ids.data(), shift, scale};
        for (std::size_t b = 0; b < s.batch; ++b)
            for (std::size_t i = 0; i < s.in; ++i) {
                const double byte = pixels[ids[b] * s.in + i];
                exact.push_back((byte - static_cast<double>(shift)) * static_cast<double>(scale));
                magnitude.push_back((byte + static_cast<double>(shift)) * static_cast<double>(scale));
            }
    }
};

// Back, a tile product rounds 16 times per half of a pair, then twice; a sum takes three of them per block of 32. Before and
// after that: bytes, shift, scale, bias, rate, pull. Terms of a number add up to at most 1.02 of its magnitude. Forward only
// weights are rounded, by half a unit or 2^-22 of their row's largest, which is four times a float's rounding.
std::size_t roundings(std::size_t depth) { return 3 * ((depth + 31) / 32) + 32; }

bool affine_agrees(Shape s, float shift, float tampered = 0) {
    const Bytes x(s, shift, 1 / 90.0f);
    auto w = toy_numbers<float>(s.out * s.in + s.out, 2);
    const auto exact_w = converted<double>(w), terms_w = magnitudes(exact_w);
    w[0] += tampered;
    std::vector<float> y(s.batch * s.out + 1, 9);
    Tiles unit;
    kernels::tiles::affine(unit, x.rows, w.data(), w.data() + s.out * s.in, y.data(), s.batch, s.in, s.out);
    if (unit.configured() || y.back() != 9) return false;
    y.pop_back();
    std::vector<double> exact(y.size()), terms(y.size());
    kernels::reference::affine(x.exact.data(), exact_w.data(), exact_w.data() + s.out * s.in, exact.data(), s.batch,
                               s.in, s.out);
    kernels::reference::affine(x.magnitude.data(), terms_w.data(), terms_w.data() + s.out * s.in, terms.data(), s.batch,
                               s.in, s.out);
    return within(y, exact, terms, roundings(s.in));
}

template <std::size_t Terms>
void update_in_tiles(const float* dy, const kernels::ByteRows& x, float* w, Shape s,
                     const kernels::UpdateVectors<float>& reads, const kernels::UpdateNumbers<float>& numbers) {
    Vec<float> slopes(s.out);
    kernels::bias_gradient(dy, slopes.data(), s.batch, s.out);
    Tiles unit;
    kernels::tiles::update<Terms>(unit, dy, slopes.data(), x, w, reads.prox_center, s.batch, s.in, s.out, numbers.rate,
                                  numbers.prox_weight);
    kernels::update(w + s.out * s.in, slopes.data(), reads.at(s.out * s.in).prox_center, nullptr, nullptr, s.out, 1.0f,
                    numbers);
}

bool update_agrees(Shape s, float shift, bool pulled, float tampered = 0) {
    const Bytes x(s, shift, 1 / 90.0f);
    const std::size_t n = s.out * s.in + s.out;
    const auto dy = toy_numbers<float>(s.batch * s.out, 3), prox_center = toy_numbers<float>(n, 4);
    auto w = toy_numbers<float>(n, 5);
    auto exact = converted<double>(w), terms = magnitudes(exact);
    if (n > 0) w[0] += tampered;
    const kernels::UpdateNumbers<float> numbers{.rate = 0.1f, .decay = 0, .prox_weight = 0.3f, .momentum = 0};
    update_in_tiles<3>(dy.data(), x.rows, w.data(), s, {pulled ? prox_center.data() : nullptr, nullptr, nullptr},
                       numbers);

    const auto wide_dy = converted<double>(dy), wide_toward = converted<double>(prox_center);
    const kernels::UpdateNumbers<double> wide{numbers.rate, 0, numbers.prox_weight, 0};
    const kernels::UpdateVectors<double> wide_reads{pulled ? wide_toward.data() : nullptr, nullptr, nullptr};
    kernels::reference::affine_update(wide_dy.data(), x.exact.data(), exact.data(), s.batch, s.in, s.out, wide_reads,
                                      wide);
    const auto size_dy = magnitudes(wide_dy);
    std::vector<double> slope(n);
    kernels::reference::affine_weight_gradient(size_dy.data(), x.magnitude.data(), slope.data(),
                                               slope.data() + s.out * s.in, s.batch, s.in, s.out);
    for (std::size_t j = 0; j < n; ++j)
        terms[j] += wide.rate * (slope[j] + (pulled ? wide.prox_weight * (terms[j] + std::abs(wide_toward[j])) : 0));
    return within(w, exact, terms, roundings(s.batch) + s.batch);  // the slopes' sum goes over the batch
}

// The tile kernels on the software unit, as a layer's backend; slopes have so many terms.
template <std::size_t Terms>
struct SoftwareTiles : backend::Simd {
    using Simd::affine;
    using Simd::affine_update;
    static void affine(const kernels::ByteRows& x, const float* w, const float* bias, float* y, std::size_t batch,
                       std::size_t in, std::size_t out) {
        Tiles unit;
        kernels::tiles::affine(unit, x, w, bias, y, batch, in, out);
        products += unit.products();
    }
    static void affine_update(const float* dy, const kernels::ByteRows& x, float* w, std::size_t batch, std::size_t in,
                              std::size_t out, const kernels::UpdateVectors<float>& reads,
                              const kernels::UpdateNumbers<float>& numbers) {
        update_in_tiles<Terms>(dy, x, w, {batch, in, out}, reads, numbers);
    }
    static inline std::size_t products = 0;
};

template <class R, class Backend>
struct Net : nn::Dnn<784, 100, 10, R> {
    Net() : nn::Dnn<784, 100, 10, R>(nn::backend_for<R, Backend>()) {}
};

// While alive, `set` is active; kernels other than tiles run as avx512 under amx.
class Active {
public:
    explicit Active(kernels::Set set) : before_(kernels::active()) { kernels::active() = set; }
    Active(const Active&) = delete;
    Active& operator=(const Active&) = delete;
    ~Active() { kernels::active() = before_; }

private:
    kernels::Set before_;
};

// Half of the pixels dark, the others of any grey, standardised as Fashion-MNIST is.
data::Dataset pictures(std::uint64_t seed) {
    Stream draw(Key{seed});
    std::vector<std::uint8_t> pixels(100 * 784);
    for (auto& p : pixels) p = draw.uniform() < 0.5 ? 0 : static_cast<std::uint8_t>(draw.below(256));
    return data::Dataset::own(std::move(pixels), toy_labels(100, 10, seed + 1), 10).normalised(72.97f, 1 / 90.0011f);
}

// Five steps of batch 20.
template <class M>
Vec<real<M>> trained(const data::Dataset& data, const Vec<float>& from, double rate, double prox_weight) {
    using R = real<M>;
    const M model;
    Vec<R> w(from.begin(), from.end());
    const Vec<R> anchor(w.size());
    for (std::size_t t = 0; t < 5; ++t) {
        std::vector<Index> ids(20);
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<Index>(t * 20 + i);
        Step<R> step{.rate = rate};
        if (prox_weight > 0) step.terms = {.prox_center = anchor, .prox_weight = prox_weight};
        model.fused_step(w, Batch<R>(data.examples(), ids), step);
    }
    return w;
}

struct Offset {
    double largest = 0, typical = 0;
};
Offset offset(const Vec<float>& w, const Vec<double>& exact) {
    Offset e;
    for (std::size_t j = 0; j < w.size(); ++j) {
        const double d = std::abs(static_cast<double>(w[j]) - exact[j]);
        e.largest = std::max(e.largest, d);
        e.typical += d * d;
    }
    e.typical = std::sqrt(e.typical / static_cast<double>(w.size()));
    return e;
}

// Both errors are those of storing weights in float five times: weights of the second layer are below 1/8, and half a
// unit in the last place of those is 2^-28. Which of two neighbours a number falls on is luck of at most that; of a
// mean over 79,510 of them it is 1/sqrt(79,510) < 1 %. Without a pull, tiles of w round the first layer twice a step, and
// what slopes of two terms lose is less than a third rounding: sqrt(3). With one, weights shrink by a fifth a step, and a
// sixth of the error is the forward pass, which sees 22 bits of them.
bool no_larger(Offset tiles, Offset fp32, bool pulled) {
    return tiles.largest <= fp32.largest + std::ldexp(1.0, -28) && tiles.typical <= (pulled ? 1.17 : 1.74) * fp32.typical;
}

}  // namespace

TEST_CASE("software tiles: TDPBF16PS adds first and second elements of pairs apart, and rounds each sum") {
    kernels::tiles::Shapes shapes;
    kernels::tiles::shape(shapes, 1, 2);
    Tiles unit;
    unit.configure(shapes);
    const auto bf16 = [](float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); };
    const auto product = [&](std::array<float, 4> left, std::array<float, 4> right, float start) {
        std::uint16_t a[4], b[64] = {};
        float c[16] = {start};
        for (std::size_t i = 0; i < 4; ++i) a[i] = bf16(left[i]);
        for (std::size_t i = 0; i < 4; ++i) b[i / 2 * 32 + i % 2] = bf16(right[i]);
        unit.load<3>(a, 64);
        unit.load<6>(b, 64);
        unit.load<0>(c, 64);
        unit.multiply<0, 3, 6>();
        unit.store<0>(c, 64);
        return c[0];
    };
    CHECK(product({1, 2, 3, 4}, {5, 6, 7, 8}, 100) == 170);
    const float big = 0x1p24f;  // 2^24 + 1 is no float: each half on its own keeps or loses the 1
    CHECK(product({big, 1, 1, 1}, {1, 1, 1, 1}, 0) == big + 2);
    CHECK(product({big, 1, -big, 1}, {1, 1, 1, 1}, 0) == 2);
    CHECK(product({1, 1, 1, 1}, {1, 0, 0, 0}, big) == big);
    CHECK(product({0x1p-100f, 0, 0, 0}, {0x1p-30f, 0, 0, 0}, 0) == 0);              // 2^-130 is flushed
    CHECK(product({0x1p-130f, 0, 0, 0}, {0x1p100f, 0, 0, 0}, 0x1p-140f) == 0);      // and denormals read as 0
    CHECK(product({1, 1, 1, 1}, {HUGE_VALF, 0, 0, 0}, 0) == HUGE_VALF);
}

TEST_CASE("software tiles: TDPBUUD multiplies bytes without sign") {
    kernels::tiles::Shapes shapes;
    kernels::tiles::shape_of_bytes(shapes);
    Tiles unit;
    unit.configure(shapes);
    std::uint8_t a[16][64] = {{255, 1, 0, 200, 3}, {1}}, b[16][64] = {};
    std::int32_t c[16][16] = {{-7, 5}};
    b[0][0] = 255, b[0][1] = 2, b[0][2] = 9, b[0][3] = 4, b[1][0] = 10;  // of the first column
    b[0][4] = 1, b[15][63] = 255;                                        // of the second, and of the last
    unit.load<6>(a, 64);
    unit.load<7>(b, 64);
    unit.load<0>(c, 64);
    unit.multiply_bytes<0, 6, 7>();
    unit.store<0>(c, 64);
    CHECK(c[0][0] == -7 + 255 * 255 + 1 * 2 + 200 * 4 + 3 * 10);
    CHECK(c[0][1] == 5 + 255);
    CHECK(c[1][0] == 255);
    CHECK(c[0][15] == 0);
    CHECK(unit.products() == 1);
}

TEST_CASE("software tiles: shapes that the processor would refuse are faults") {
    Tiles unit;
    CHECK_THROWS_AS(unit.zero<0>(), std::logic_error);  // not configured
    kernels::tiles::Shapes good;
    kernels::tiles::shape(good, 16, 11);
    auto bad = good;
    bad.rows[2] = 4;
    CHECK_NOTHROW(unit.configure(bad));
    CHECK_NOTHROW(unit.multiply<0, 4, 6>());
    CHECK_THROWS_AS((unit.multiply<2, 4, 6>()), std::logic_error);  // 4 rows of sums, 16 of factors
    bad = good;
    bad.rows[5] = 0;
    CHECK_THROWS_AS(unit.configure(bad), std::logic_error);  // bytes without rows
    bad = good;
    bad.row_bytes[6] = 65;
    CHECK_THROWS_AS(unit.configure(bad), std::logic_error);
    unit.release();
    CHECK_THROWS_AS(unit.zero<0>(), std::logic_error);
}

// What a layer of these weights answers examples each of which is 1 in one input, [input][output], on software tiles.
std::vector<float> weights_seen(const std::vector<float>& w, std::size_t in, std::size_t out) {
    std::vector<std::uint8_t> pixels(in * in, 0);
    std::vector<Index> ids(in);
    for (std::size_t i = 0; i < in; ++i) {
        pixels[i * in + i] = 1;
        ids[i] = static_cast<Index>(i);
    }
    std::vector<float> y(in * out);
    Tiles unit;
    kernels::tiles::affine(unit, {pixels.data(), ids.data(), 0, 1}, w.data(), nullptr, y.data(), in, in, out);
    return y;
}

// How far weights that a layer sees may be from those it has: half a unit, a quarter each for rounding the product (where
// it is not fused) and the answer, an eighth for the inverse. A unit is 2^-22 of the row's largest and 1 % more; in rows of
// more than four registers, of which some are looked at, twice the largest of those.
double largest_of(const std::vector<float>& w, std::size_t in, std::size_t o) {
    float largest = 0;
    for (std::size_t i = 0; i < in; ++i) largest = std::max(largest, std::abs(w[o * in + i]));
    return static_cast<double>(largest);
}
double farthest(const std::vector<float>& w, const std::vector<float>& seen, std::size_t in, std::size_t o) {
    const std::size_t out = w.size() / in;
    double most = 0;
    for (std::size_t i = 0; i < in; ++i)
        most = std::max(most, std::abs(static_cast<double>(seen[i * out + o]) - static_cast<double>(w[o * in + i])));
    return most / (0x1p-22 * largest_of(w, in, o));
}
constexpr double of_all = 1.125 * 1.01, of_some = 1.125 * 2;

TEST_CASE("tiles: weights are multiples of a unit, 2^-22 of their row's largest") {
    const std::size_t in = 70, out = 20;
    auto w = toy_numbers<float>(out * in, 1);
    for (std::size_t o = 0; o < out; ++o)
        for (std::size_t i = 0; i < in; ++i) w[o * in + i] = std::ldexp(w[o * in + i], 3 * static_cast<int>(o) - 30);
    const auto seen = weights_seen(w, in, out);
    for (std::size_t o = 0; o < out; ++o) {
        CHECK(farthest(w, seen, in, o) <= of_all);
        CHECK(farthest(w, seen, in, o) > of_all / 4);  // no finer than that
    }
}

TEST_CASE("tiles: digits hold the largest weight of a row, however close it is to a power of two") {
    const std::size_t in = 3;
    for (const float sign : {1.0f, -1.0f})
        for (std::uint32_t below = 0; below < 0x21000; below += 1301) {
            const float largest = sign * std::bit_cast<float>(std::uint32_t{0x3f000000} - below);
            const std::vector<float> w{0.125f, largest, -0.25f};
            CHECK(farthest(w, weights_seen(w, in, 1), in, 0) <= of_all);
        }
}

TEST_CASE("tiles: a weight that is larger than some of its row let expect is seen like the others") {
    const std::size_t in = 16 * 13, out = 50, at = 16 + 5;  // registers 0, 3, 6, 9 and 12 are looked at
    auto w = toy_numbers<float>(out * in, 1);
    const auto expected = [&](std::size_t o) {
        float most = 0;
        for (std::size_t i = 0; i < in; ++i)
            if (i / 16 % 3 == 0) most = std::max(most, std::abs(w[o * in + i]));
        return most;
    };
    const auto seen = weights_seen(w, in, out);
    bool coarser = false;
    for (std::size_t o = 0; o < out; ++o) {
        CHECK(farthest(w, seen, in, o) <= of_some);
        coarser |= farthest(w, seen, in, o) > of_all;
    }
    CHECK(coarser);

    for (const float times : {1.9f, 2.1f, -2.1f, 5.0f, -5.0f, 40.0f, -1000.0f, 1e30f}) {
        CAPTURE(times);
        auto larger = w;
        larger[20 * in + at] = times * expected(20);  // in the second 16 rows
        const auto all = weights_seen(larger, in, out);
        for (std::size_t o = 0; o < out; ++o) {
            CAPTURE(o);
            if (o < 16 || std::abs(times) < 2) CHECK(farthest(larger, all, in, o) <= of_some);
            else CHECK(farthest(larger, all, in, o) <= of_all);  // from there on all weights are looked at
        }
    }
}

TEST_CASE("tiles: a row with a weight that is no number answers so, and no other row does") {
    for (const std::size_t in : {70u, 208u}) {  // of the longer rows some weights are looked at
        const std::size_t out = 20;
        for (const float bad : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF})
            for (const std::size_t at : {0u, 33u, 69u}) {
                auto w = toy_numbers<float>(out * in, 1);
                w[17 * in + at] = bad;
                const auto y = weights_seen(w, in, out);
                for (std::size_t j = 0; j < y.size(); ++j)
                    if (j % out == 17) CHECK(std::isnan(y[j]));
                for (std::size_t o = 0; o < out; ++o)
                    if (o != 17) CHECK(farthest(w, y, in, o) <= of_some);
            }
        auto w = toy_numbers<float>(out * in, 1);
        w[17 * in + 33] = std::ldexp(1.0f, 127);
        CHECK(farthest(w, weights_seen(w, in, out), in, 17) <= of_all);
        std::vector<float> none(out * in, 0.0f);
        CHECK(weights_seen(none, in, out) == std::vector<float>(in * out, 0.0f));
        none[5 * in + 3] = std::ldexp(1.0f, -122);  // below any unit there is
        CHECK(weights_seen(none, in, out) == std::vector<float>(in * out, 0.0f));
    }
}

// One update with slopes so small that tiles of w take two terms; the largest error in last places of `largest`.
template <std::size_t Terms>
double places_off(Shape s, std::vector<float> w, float largest, float rate) {
    const Bytes x(s, 72.97f, 1 / 90.0f);
    const auto dy = toy_numbers<float>(s.batch * s.out, 3);
    auto exact = converted<double>(w);
    update_in_tiles<Terms>(dy.data(), x.rows, w.data(), s, {},
                           {.rate = rate, .decay = 0, .prox_weight = 0, .momentum = 0});
    const auto wide_dy = converted<double>(dy);
    kernels::reference::affine_update(wide_dy.data(), x.exact.data(), exact.data(), s.batch, s.in, s.out,
                                      kernels::UpdateVectors<double>{}, kernels::UpdateNumbers<double>{rate, 0, 0, 0});
    double most = 0;
    for (std::size_t j = 0; j < s.out * s.in; ++j) most = std::max(most, std::abs(static_cast<double>(w[j]) - exact[j]));
    return most / std::ldexp(1.0, std::ilogb(largest) - 23);
}

TEST_CASE("tiles: small slopes go in two terms, and what they lose is less than rounding the largest weights") {
    // Slopes have up to rate / 90 a byte, and 256 places of a weight just below 1 are 1.5e-5. Each loses at most 2^-10 of a
    // place a byte, of either sign: 0.4 places is usual for 21 of them. Five times that, and w is rounded twice.
    for (const Shape s : {Shape{20, 784, 20}, Shape{20, 40, 17}, Shape{1, 16, 16}, Shape{30, 33, 5}}) {
        CAPTURE(s.in);
        const auto w = toy_numbers<float>(s.out * s.in + s.out, 5);
        for (const float rate : {1e-6f, 1e-4f, 1e-3f}) {
            CAPTURE(rate);
            CHECK(places_off<3>(s, w, 0.99f, rate) <= 3);
        }
        CHECK(places_off<1>(s, w, 0.99f, 1e-3f) > 100);
    }
}

TEST_CASE("tiles: beside a huge weight small ones still move by slopes of 14 bits") {
    const Shape s{20, 64, 16};
    auto w = toy_numbers<float>(s.out * s.in + s.out, 5);
    for (std::size_t j = 0; j < s.out * s.in; ++j) w[j] = 0;
    for (std::size_t o = 0; o < s.out; ++o) w[o * s.in + o] = 1e6f;
    const Bytes x(s, 72.97f, 1 / 90.0f);
    const auto dy = toy_numbers<float>(s.batch * s.out, 3);
    auto exact = converted<double>(w);
    update_in_tiles<3>(dy.data(), x.rows, w.data(), s, {},
                       {.rate = 1e-3f, .decay = 0, .prox_weight = 0, .momentum = 0});
    const auto wide_dy = converted<double>(dy);
    kernels::reference::affine_update(wide_dy.data(), x.exact.data(), exact.data(), s.batch, s.in, s.out,
                                      kernels::UpdateVectors<double>{}, kernels::UpdateNumbers<double>{1e-3, 0, 0, 0});
    double off = 0, moved = 0;
    for (std::size_t j = 0; j < s.out * s.in; ++j)
        if (j % s.in != j / s.in) {
            off = std::max(off, std::abs(static_cast<double>(w[j]) - exact[j]));
            moved = std::max(moved, std::abs(exact[j]));
        }
    CHECK(off < moved * 0x1p-14);
}

TEST_CASE("tiles: forward and update agree with the plain loops around every tile") {
    for_each_shape([](Shape s) {
        CAPTURE(s.batch);
        CAPTURE(s.in);
        CAPTURE(s.out);
        const float shift = (s.batch + s.in + s.out) % 2 == 0 ? 72.97f : 128.0f;  // with and without the extra example
        if (s.out > 0 && s.in > 0) REQUIRE(affine_agrees(s, shift));
        REQUIRE(update_agrees(s, shift, false));
        REQUIRE(update_agrees(s, shift, true));
    });
    for (const float shift : {0.0f, 0.4f, 254.6f, 255.0f}) {
        CHECK(affine_agrees({20, 65, 17}, shift));
        CHECK(update_agrees({20, 65, 17}, shift, true));
    }
}

TEST_CASE("tiles: the bound notices one weight that is off by a thousandth") {
    CHECK_FALSE(affine_agrees({17, 33, 17}, 72.97f, 1e-3f));
    CHECK_FALSE(update_agrees({17, 33, 17}, 72.97f, false, 1e-3f));
    CHECK_FALSE(update_agrees({33, 17, 5}, 128.0f, true, 1e-3f));
}

TEST_CASE("tiles: five training steps err no more than in fp32, with fewer terms they do") {
    if (!kernels::supported(kernels::Set::avx512)) return;  // what is not in tiles runs as avx512
    for (const double rate : {0.01, 0.05, 0.1})
        for (const double prox_weight : {0.0, 2.0}) {
            CAPTURE(rate);
            CAPTURE(prox_weight);
            const auto data = pictures(7);
            const auto start = initial_parameters(Net<float, backend::Simd>{}, Key{7});
            const auto exact = trained<Net<double, backend::Simd>>(data, start, rate, prox_weight);
            const auto of = [&]<class Backend>(kernels::Set set, Backend) {
                const Active active(set);
                return offset(trained<Net<float, Backend>>(data, start, rate, prox_weight), exact);
            };
            const Offset fp32 = of(kernels::Set::avx512, backend::Simd{});
            SoftwareTiles<3>::products = 0;
            const Offset three = of(kernels::Set::amx, SoftwareTiles<3>{});
            CHECK(SoftwareTiles<3>::products > 0);  // the network did hand over bytes
            CAPTURE(fp32.largest);
            CAPTURE(fp32.typical);
            CAPTURE(three.largest);
            CAPTURE(three.typical);
            CHECK(no_larger(three, fp32, prox_weight > 0));
            if (kernels::supported(kernels::Set::amx))
                CHECK(no_larger(of(kernels::Set::amx, backend::Simd{}), fp32, prox_weight > 0));
            CHECK_FALSE(no_larger(of(kernels::Set::amx, SoftwareTiles<1>{}), fp32, prox_weight > 0));
            if (rate > 0.01 || prox_weight > 0)  // else two terms are what most slopes have
                CHECK_FALSE(no_larger(of(kernels::Set::amx, SoftwareTiles<2>{}), fp32, prox_weight > 0));
        }
}

TEST_CASE("tiles: gradients, other inputs and other sets are not theirs") {
    if (!kernels::supported(kernels::Set::avx512)) return;
    using M = Net<float, SoftwareTiles<3>>;
    const M model;
    const auto bytes = pictures(3);
    const auto ids = first_ids(20);
    const auto start = initial_parameters(model, Key{3});
    const auto stepped = [&](const data::Dataset& data, kernels::Set set) {
        const Active active(set);
        auto w = start;
        SoftwareTiles<3>::products = 0;
        model.fused_step(w, Batch<float>(data.examples(), ids), {.rate = 0.05});
        return w;
    };
    const auto by_tiles = stepped(bytes, kernels::Set::amx);
    CHECK(SoftwareTiles<3>::products > 0);
    const auto by_avx512 = stepped(bytes, kernels::Set::avx512);
    CHECK(SoftwareTiles<3>::products == 0);
    CHECK_FALSE(same_bits(by_tiles, by_avx512));

    for (const float shift : {-1.0f, 255.5f, std::nanf("")}) {
        const auto far = bytes.normalised(shift, 1.0f);
        const auto w = stepped(far, kernels::Set::amx);
        CHECK(SoftwareTiles<3>::products == 0);
        CHECK(same_bits(w, stepped(far, kernels::Set::avx512)));
    }
    const auto floats = toy_dataset<float>(20, 784, 10);
    CHECK(same_bits(stepped(floats, kernels::Set::amx), stepped(floats, kernels::Set::avx512)));

    // A gradient of its own sums in fp32, over the forward pass of the tiles.
    const Batch<float> batch(bytes.examples(), ids);
    Vec<float> g(start.size()), h(start.size());
    {
        const Active active(kernels::Set::amx);
        model.gradient(start, batch, g);
    }
    model.gradient(start, batch, h);
    CHECK(distance(g, h) < 1e-5);  // forward passes are 1e-6 apart, and slopes are of size 0.1
}

TEST_CASE("tiles: a first layer of few outputs is not theirs") {
    if (!kernels::supported(kernels::Set::avx512)) return;
    const auto bytes = pictures(3);
    const auto ids = first_ids(20);
    const auto stepped = [&](const auto& model, kernels::Set set) {
        const Active active(set);
        auto w = initial_parameters(model, Key{3});
        model.fused_step(w, Batch<float>(bytes.examples(), ids), {.rate = 0.05});
        return w;
    };
    const auto alike = [&](const auto& model) {
        return same_bits(stepped(model, kernels::Set::amx), stepped(model, kernels::Set::avx512));
    };
    CHECK(alike(nn::Mclr<784, 10>{}));
    CHECK(alike(nn::mlp({784, 10})));
    if (!kernels::supported(kernels::Set::amx)) return;
    CHECK_FALSE(alike(nn::Dnn<784, 100, 10>{}));
    CHECK_FALSE(alike(nn::mlp({784, 100, 10})));
}

TEST_CASE("bytes: in every other set, and for terms that tiles do not have, they are widened first") {
    const Shape s{7, 35, 5};
    const Bytes x(s, 72.97f, 1 / 90.0f);
    const std::size_t n = s.out * s.in + s.out;
    const auto w = toy_numbers<float>(n, 1), dy = toy_numbers<float>(s.batch * s.out, 2);
    const kernels::UpdateNumbers<float> numbers{0.1f, 0.01f, 0.3f, 0.9f};
    const auto check = [&](bool forward) {
        const kernels::Widened numbers_of(x.rows, s.batch, s.in);
        std::vector<float> y(s.batch * s.out), y2(y), dw(n), dw2(n), u(w), u2(w), v(n), v2(n);
        if (forward) {
            kernels::affine(x.rows, w.data(), w.data() + s.out * s.in, y.data(), s.batch, s.in, s.out);
            kernels::affine(numbers_of.data(), w.data(), w.data() + s.out * s.in, y2.data(), s.batch, s.in, s.out);
            CHECK(y == y2);
        }
        kernels::affine_weight_gradient(dy.data(), x.rows, dw.data(), dw.data() + s.out * s.in, s.batch, s.in, s.out);
        kernels::affine_weight_gradient(dy.data(), numbers_of.data(), dw2.data(), dw2.data() + s.out * s.in, s.batch,
                                        s.in, s.out);
        CHECK(dw == dw2);
        kernels::affine_update(dy.data(), x.rows, u.data(), s.batch, s.in, s.out, {nullptr, nullptr, v.data()},
                               numbers);
        kernels::affine_update(dy.data(), numbers_of.data(), u2.data(), s.batch, s.in, s.out,
                               {nullptr, nullptr, v2.data()}, numbers);
        CHECK(u == u2);
        CHECK(v == v2);
        CHECK(u != w);
    };
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        CHECK(kernels::tiles_read(72.97f, 784) == (set == "amx"));
        CHECK(kernels::tiles_read(72.97f, kernels::widest_bytes) == (set == "amx"));
        CHECK_FALSE(kernels::tiles_read(72.97f, kernels::widest_bytes + 1));
        check(set != "amx");
    });
    if (kernels::supported(kernels::Set::avx512)) {
        const Active active(kernels::Set::amx);
        check(false);
    }
}

TEST_CASE("tiles: the widest row of the largest bytes does not overflow") {
    const auto error = [](std::size_t in, float weight) {  // relative, with digits that all lie on one side
        const std::vector<std::uint8_t> bytes(in, 255);
        const Index first = 0;
        std::vector<float> w(in, weight), bias{0}, y{0};
        w[0] = 1;
        Tiles unit;
        kernels::tiles::affine(unit, {bytes.data(), &first, 0, 1}, w.data(), bias.data(), y.data(), 1, in, 1);
        const double exact = 255 * (1 + static_cast<double>(in - 1) * static_cast<double>(weight));
        return std::fabs(static_cast<double>(y[0]) - exact) / std::fabs(exact);
    };
    for (const float weight : {0.99f, 0.5f, -0.00766f, -0.99f}) {
        CAPTURE(weight);
        CHECK(error(kernels::widest_bytes, weight) < 2e-5);  // a weight is rounded to 2^-22 of the largest, or of twice
    }
    CHECK(error(150'528, -0.00766f) > 0.1);  // three times 224 x 224 would
}

TEST_CASE("tiles: the processor's agree with those in software") {
    if (!kernels::supported(kernels::Set::amx)) return;
    const Active active(kernels::Set::amx);
    for_each_shape([](Shape s) {
        CAPTURE(s.batch);
        CAPTURE(s.in);
        CAPTURE(s.out);
        const Bytes x(s, 72.97f, 1 / 90.0f);
        const std::size_t n = s.out * s.in + s.out;
        const auto w = toy_numbers<float>(n, 1), dy = toy_numbers<float>(s.batch * s.out, 2);
        std::vector<float> y(s.batch * s.out), y2(y), u(w), u2(w);
        Tiles unit;
        if (s.in > 0)
            kernels::tiles::affine(unit, x.rows, w.data(), w.data() + s.out * s.in, y.data(), s.batch, s.in, s.out);
        else kernels::reference::affine<float>(nullptr, w.data(), w.data(), y.data(), s.batch, 0, s.out);
        kernels::affine(x.rows, w.data(), w.data() + s.out * s.in, y2.data(), s.batch, s.in, s.out);
        for (const float rate : {0.1f, 1e-3f}) {  // with three terms, and with two
            update_in_tiles<3>(dy.data(), x.rows, u.data(), s, {}, {rate, 0, 0, 0});
            kernels::affine_update(dy.data(), x.rows, u2.data(), s.batch, s.in, s.out, {}, {rate, 0, 0, 0});
        }
        // Tiles give the same bits; around them one of the two may fuse a multiplication with an addition. Then a weight may be
        // seen as the unit next to it, 2^-21 of the largest; of up to 784 of them that adds up to less than 1e-5.
        const auto most = [](const std::vector<float>& a, const std::vector<float>& b) {
            float d = 0;
            for (std::size_t j = 0; j < a.size(); ++j) d = std::max(d, std::abs(a[j] - b[j]) / (1 + std::abs(b[j])));
            return d;
        };
        CHECK(most(y2, y) < 1e-5f);
        CHECK(most(u2, u) < 1e-6f);
    });
}

TEST_CASE("kernel set amx: never chosen by itself, refused by name where the machine has no tiles") {
    constexpr const char* name = "TESSERA_KERNELS";
    const char* before = std::getenv(name);
    const std::optional<std::string> kept = before ? std::optional<std::string>(before) : std::nullopt;
    unsetenv(name);
    CHECK(kernels::choose_set() != kernels::Set::amx);
    setenv(name, "amx", 1);
    if (kernels::supported(kernels::Set::amx)) {
        CHECK(kernels::choose_set() == kernels::Set::amx);
    } else {
        CHECK_THROWS_WITH_AS(kernels::choose_set(),
                             "TESSERA_KERNELS=amx: this CPU does not have the instructions of that kernel set",
                             ConfigError);
    }
    setenv(name, "AMX", 1);
    CHECK_THROWS_WITH_AS(kernels::choose_set(), doctest::Contains("portable, avx2, avx512 and amx"), ConfigError);
    if (kept) setenv(name, kept->c_str(), 1);
    else unsetenv(name);
}

}  // namespace amx_test
