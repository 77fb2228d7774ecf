// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/data/shift.hpp>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

namespace shift_test {

namespace {

using namespace tessera;
using namespace tessera::data;
using doctest::Contains;

std::vector<double> read(const Dataset& pool, Index example = 0) {
    const std::vector<Index> ids{example};
    std::vector<double> out(pool.examples().width);
    Batch<double>(pool.examples(), ids).read(0, out);
    return out;
}
// One image, line by line, in doubles.
std::vector<double> shifted_image(std::vector<double> image, const ImageShape& shape, const Shift& shift) {
    return read(shifted(Dataset::own(std::move(image), {0}, 1), shape, shift));
}
double distance(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
    return std::sqrt(sum);
}
// Images of uniform noise.
Dataset photographs(std::size_t count, std::size_t numbers) {
    std::vector<std::uint8_t> bytes(count * numbers);
    Stream draw(Key{3});
    for (auto& b : bytes) b = static_cast<std::uint8_t>(draw.below(256));
    return Dataset::own(std::move(bytes), std::vector<std::int32_t>(count, 0), 1);
}

}  // namespace

TEST_CASE("brightness and contrast, by hand") {
    CHECK(shifted_image({0, 0.5, 0.95, 1}, {2, 2}, {Corruption::brightness, 2}) == std::vector<double>{0.1, 0.6, 1, 1});
    const auto flat = shifted_image({0, 0.2, 0.4, 0.6}, {2, 2}, {Corruption::contrast, 2});  // mean 0.3, c = 0.5
    const std::vector<double> expected{0.15, 0.25, 0.35, 0.45};
    CHECK(distance(flat, expected) < 1e-15);  // a few roundings
    // Each channel has a mean of its own: a constant one does not change.
    const auto two = shifted_image({0.8, 0.8, 0, 1}, {2, 1, 2}, {Corruption::contrast, 2});
    CHECK(distance(two, {0.8, 0.8, 0.25, 0.75}) < 1e-15);
}

TEST_CASE("blur, by hand: a point becomes the product of two bells, a border repeats, a constant stays") {
    constexpr double c = 0.4;  // severity 1: reaches 2 pixels
    const double one = std::exp(-1 / (2 * c * c)), two = std::exp(-4 / (2 * c * c)), total = 1 + 2 * one + 2 * two;
    std::vector<double> point(25);
    point[12] = 1;
    const auto bell = shifted_image(point, {5, 5}, {Corruption::blur, 1});
    const std::vector<double> w{two / total, one / total, 1 / total, one / total, two / total};
    for (std::size_t y = 0; y < 5; ++y)
        for (std::size_t x = 0; x < 5; ++x) CHECK(std::fabs(bell[5 * y + x] - w[y] * w[x]) < 1e-15);
    // A line of three: what would lie outside is the border pixel.
    const auto line = shifted_image({1, 0, 0}, {3, 1}, {Corruption::blur, 1});
    CHECK(std::fabs(line[0] - (w[0] + w[1] + w[2])) < 1e-15);
    CHECK(std::fabs(line[1] - (w[0] + w[1])) < 1e-15);
    CHECK(std::fabs(line[2] - w[0]) < 1e-15);
    CHECK(distance(shifted_image(std::vector<double>(12, 0.3), {4, 3}, {Corruption::blur, 5}),
                   std::vector<double>(12, 0.3)) < 1e-14);
}

TEST_CASE("pixelate, by hand: 65 % of four columns are two cells") {
    const std::vector<double> image{0, 0.2, 1, 0.6,  //
                                    0.4, 0.2, 0.8, 0.8};
    // Of two lines 65 % are one cell: both lines are averaged together.
    const auto coarse = shifted_image(image, {4, 2}, {Corruption::pixelate, 5});
    CHECK(distance(coarse, {0.2, 0.2, 0.8, 0.8, 0.2, 0.2, 0.8, 0.8}) < 1e-15);
    // 95 % of four columns are three: the first two share one.
    const auto fine = shifted_image({0, 0.2, 1, 0.6}, {4, 1}, {Corruption::pixelate, 1});
    CHECK(distance(fine, {0.1, 0.1, 1, 0.6}) < 1e-15);
}

TEST_CASE("noise has the stated deviation, is keyed by seed and example, and by nothing else") {
    constexpr std::size_t side = 100;
    const std::vector<double> grey(side * side, 0.5);
    const auto noisy = shifted_image(grey, {side, side}, {Corruption::noise, 2});
    double sum = 0, squares = 0;
    for (const double u : noisy) sum += u - 0.5, squares += (u - 0.5) * (u - 0.5);
    constexpr double n = side * side;
    CHECK(std::fabs(sum / n) < 4 * 0.06 / side);                             // four deviations of a mean
    CHECK(std::fabs(std::sqrt(squares / n) - 0.06) < 4 * 0.06 / (side * 1.4));  // and of a deviation

    const auto pool = photographs(4, 12);
    const Shift shift{.kind = Corruption::noise, .severity = 5};
    const std::vector<Index> some{2, 0};
    const auto all = shifted(pool, {4, 3}, shift), two = shifted(pool, {4, 3}, shift, some);
    CHECK(read(two, 0) == read(all, 2));
    CHECK(read(two, 1) == read(all, 0));
    CHECK(read(shifted(pool, {4, 3}, {Corruption::noise, 5, 2})) != read(all));
    const auto same = shifted(Dataset::own(std::vector<double>(8, 0.5), {0, 0}, 1), {4, 1}, shift);
    CHECK(read(same, 0) != read(same, 1));  // another example, another draw
}

TEST_CASE("every corruption goes further with every severity") {
    const auto pool = photographs(20, 3 * 16 * 16);
    for (std::size_t kind = 0; kind < 5; ++kind) {
        double before = 0;
        for (std::size_t severity = 1; severity <= 5; ++severity) {
            const auto worse = shifted(pool, {16, 16, 3}, {static_cast<Corruption>(kind), severity});
            double apart = 0;
            for (Index i = 0; i < 20; ++i) apart += distance(read(worse, i), read(pool, i));
            CHECK(apart > before);
            before = apart;
        }
    }
}

TEST_CASE("bytes stay bytes and keep their reading; floats have the black and white that are said") {
    const auto pool = Dataset::own(std::vector<std::uint8_t>{0, 100, 200, 255}, {0}, 1).normalised(10, 0.5f);
    const auto bright = shifted(pool, {2, 2}, {Corruption::brightness, 3});  // 0.15 * 255 = 38.25
    CHECK(bright.examples().storage == Storage::bytes);
    CHECK(read(bright) == std::vector<double>{14, 64, 114, 122.5});  // (38, 138, 238, 255) less 10, halved

    const auto floats = Dataset::own(std::vector<float>{-1, 0, 1, 0.5f}, {0}, 1);
    const auto brighter = shifted(floats, {2, 2, 1, -1, 1}, {Corruption::brightness, 2});
    CHECK(brighter.examples().storage == Storage::float32);
    CHECK(distance(read(brighter), {-0.8, 0.2, 1, 0.7}) < 1e-6);  // rounded to float
    CHECK_THROWS_WITH_AS(shifted(floats, {2, 2}, {Corruption::brightness, 2}),
                         Contains("is not between black and white"), ConfigError);
}

TEST_CASE("labels, one or several, go with their images") {
    const auto labelled = Dataset::own(std::vector<float>{0, 1, 0.5f}, {2, 0, 1}, 3);
    const std::vector<Index> some{2, 0};
    const auto two = shifted(labelled, {1, 1}, {}, some);
    CHECK(two.size() == 2);
    CHECK(two.label(0) == 1);
    CHECK(two.label(1) == 2);
    const auto marked = Dataset::multi_label(std::vector<float>{0, 1, 0.5f}, {1, 0, 0, 0, 1, 1}, 2);
    const auto part = shifted(marked, {1, 1}, {}, some);
    const std::vector<Index> both{0, 1};
    const Batch<float> batch(part.examples(), both);
    CHECK((batch.in_class(0, 0) && batch.in_class(0, 1) && batch.in_class(1, 0) && !batch.in_class(1, 1)));
    CHECK_THROWS_AS(shifted(Dataset::regression({0}, {1}), {1, 1}, {}), ConfigError);
}

TEST_CASE("shifts are written as NAME:SEVERITY, and what cannot be is refused") {
    CHECK(all_shifts().size() == 25);
    for (const auto& shift : all_shifts(7)) {
        const auto again = Shift::parse(shift.name());
        CHECK(again.kind == shift.kind);
        CHECK(again.severity == shift.severity);
    }
    CHECK(Shift{.kind = Corruption::pixelate, .severity = 4}.name() == "pixelate:4");
    for (const auto* text : {"noise", "fog:1", "", ":1", "noisy:1"})
        CHECK_THROWS_WITH_AS(Shift::parse(text), Contains("a shift is one of noise, blur"), ConfigError);
    for (const auto* text : {"noise:0", "noise:6", "noise:", "noise:1x", "noise:-1"})
        CHECK_THROWS_WITH_AS(Shift::parse(text), Contains("severity from 1 to 5"), ConfigError);
    CHECK_THROWS_WITH_AS(Shift::parse("noise:1.5"), Contains("not '1.5'"), ConfigError);
    const auto pool = photographs(1, 4);
    for (const std::size_t severity : {0u, 6u})
        CHECK_THROWS_AS(shifted(pool, {2, 2}, {Corruption::blur, severity}), ConfigError);
    CHECK_THROWS_WITH_AS(shifted(pool, {3, 2}, {}), Contains("do not fit rows of 4 numbers"), ConfigError);
}

}  // namespace shift_test
