// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/data/transform.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/data/partition/feature_shift.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace transform_test {

namespace {

using namespace tessera;
using namespace tessera::data;
using namespace tessera::support;
using doctest::Contains;
using Numbers = std::vector<float>;

Numbers row(const Dataset& from, std::size_t i) {
    Numbers out(from.examples().width);
    const auto id = static_cast<Index>(i);
    Batch<float>(from.examples(), {&id, 1}).read(0, out);
    return out;
}

}  // namespace

TEST_CASE("standardised by feature: worked by hand, over the named examples only") {
    const auto pool = Dataset::own(std::vector<float>{1, 7, 3, 7, 100, 8}, {0, 1, 1}, 2);
    const std::vector<Index> train{0, 1};
    const auto read = standardised_by_feature(pool, train);
    // feature 0: mean 2, deviation 1; feature 1: mean 7, deviation 0
    CHECK(row(read, 0)[0] == doctest::Approx(-1 / 1.001).epsilon(1e-6));  // float
    CHECK(row(read, 1)[0] == doctest::Approx(1 / 1.001).epsilon(1e-6));
    CHECK(row(read, 1)[1] == 0);
    CHECK(row(read, 2)[0] == doctest::Approx(98 / 1.001).epsilon(1e-6));
    CHECK(row(read, 2)[1] == doctest::Approx(1 / 0.001).epsilon(1e-4));
    CHECK(read.label(2) == 1);
    CHECK(row(read, 0) != row(standardised_by_feature(pool, std::vector<Index>{0, 1, 2}), 0));
    CHECK_THROWS_WITH_AS(standardised_by_feature(pool, std::vector<Index>{}), Contains("no example is named"), ConfigError);
    CHECK_THROWS_WITH_AS(standardised_by_feature(pool, std::vector<Index>{3}), Contains("example 3 is not"),
                         ConfigError);

    const auto bytes = Dataset::own(std::vector<std::uint8_t>{1, 7, 3, 7, 100, 8}, {0, 1, 1}, 2);
    CHECK(row(standardised_by_feature(bytes, train), 2) == row(read, 2));
}

TEST_CASE("real targets are scaled by the named examples alone, by hand") {
    const auto pool = Dataset::regression(std::vector<float>{1, 2, 3}, {10, 5, 30, 5, 1000, 6}, 2);
    const auto by = target_scale(pool, std::vector<Index>{0, 1});
    CHECK(by.shift == std::vector<double>{20, 5});
    CHECK(by.scale == std::vector<double>{0.1, 1});  // the second never changes, and is only moved
    const auto scaled = standardised_targets(pool, by);
    const auto& e = scaled.examples();
    CHECK(std::vector<double>(e.targets, e.targets + 6) == std::vector<double>{-1, 0, 1, 0, 98, 1});
    CHECK(row(scaled, 2) == Numbers{3});
    CHECK(scaled.fingerprint() != pool.fingerprint());
    CHECK(std::vector<double>(pool.examples().targets, pool.examples().targets + 2) == std::vector<double>{10, 5});
    CHECK_THROWS_WITH_AS(target_scale(pool, std::vector<Index>{}), Contains("no example"), ConfigError);
    CHECK_THROWS_WITH_AS(target_scale(pool, std::vector<Index>{3}), Contains("example 3 is not"), ConfigError);
    CHECK_THROWS_WITH_AS(target_scale(Dataset::own(Numbers{1, 2}, {0, 1}, 2), std::vector<Index>{0}),
                         Contains("no real targets"), ConfigError);
    CHECK_THROWS_WITH_AS(pool.with_targets({1, 2}), Contains("one target for each"), ConfigError);
}

TEST_CASE("standardised each: mean 0 and deviation 1, example by example") {
    const auto pool = toy_dataset<float>(6, 40, 2);
    const auto read = standardised_each(pool);
    for (std::size_t i = 0; i < 6; ++i) {
        const Numbers x = row(read, i);
        double sum = 0, square = 0;
        for (const float v : x)
            sum += static_cast<double>(v), square += static_cast<double>(v) * static_cast<double>(v);
        CHECK(std::abs(sum / 40) < 1e-6);  // forty floats of size 1
        CHECK(std::sqrt(square / 40) ==
              doctest::Approx(1).epsilon(0.005));  // the 0.001 beside a deviation of about 0.6
    }
    const auto scaled = Dataset::own(std::vector<float>(3, 5.0f), {0}, 1);
    CHECK(row(standardised_each(scaled), 0) == Numbers(3, 0.0f));
}

TEST_CASE("one-hot rows") {
    const auto ids = Dataset::own(std::vector<float>{0, 2, 1, 3, -1, 0.5f}, {0, 1, 1}, 2);
    const auto read = one_hot(ids, 3);
    CHECK(read.examples().width == 6);
    CHECK(row(read, 0) == Numbers{1, 0, 0, 0, 0, 1});
    CHECK(row(read, 1) == Numbers{0, 1, 0, 0, 0, 0});  // 3 is no symbol
    CHECK(row(read, 2) == Numbers(6, 0.0f));
    CHECK_THROWS_WITH_AS(one_hot(ids, 0), Contains("symbols is 0"), ConfigError);
}

TEST_CASE("augmented copies are flips and moves of the image, and of training images only") {
    constexpr std::size_t width = 4, height = 3;
    std::vector<std::uint8_t> pixels(2 * width * height);
    std::iota(pixels.begin(), pixels.end(), std::uint8_t{1});  // 0 is black
    const auto pool = Dataset::own(pixels, {0, 1}, 2).normalised(10, 0.5f);
    const FederatedDataset before(pool, {.clients = {{.train = {0}, .test = {1}, .key = 1}}});
    const Augment augment{.shape = {.width = width, .height = height}, .padding = 1, .copies = 50, .seed = 3};
    const auto after = augment(before);
    REQUIRE(after[0].train.size() == 51);
    CHECK(after.split().clients[0].test == std::vector<Index>{1});
    CHECK(after.pool().size() == 2 * 51);
    CHECK(row(after.pool(), 0) == row(pool, 0));
    CHECK(row(after.pool(), 1) == row(pool, 1));

    std::set<Numbers> possible, seen;
    for (const bool mirrored : {false, true})
        for (int down = -1; down <= 1; ++down)
            for (int right = -1; right <= 1; ++right) {
                Numbers image;
                for (int y = 0; y < 3; ++y)
                    for (int x = 0; x < 4; ++x) {
                        const int from_y = y + down, from_x = mirrored ? 3 - (x + right) : x + right;
                        const bool inside = from_y >= 0 && from_y < 3 && from_x >= 0 && from_x < 4;
                        const int byte = inside ? pixels[static_cast<std::size_t>(from_y * 4 + from_x)] : 0;
                        image.push_back((static_cast<float>(byte) - 10) * 0.5f);
                    }
                possible.insert(image);
            }
    REQUIRE(possible.size() == 18);
    for (const Index i : after[0].train) {
        const Numbers image = row(after.pool(), i);
        CHECK(possible.count(image) == 1);
        CHECK(image == row(after.pool(), i));  // the same whenever it is read
        CHECK(after.pool().label(i) == 0);
        seen.insert(image);
    }
    CHECK(seen.size() >
          10);  // 51 draws of 18 kinds miss one with probability (17/18)^51 = 5 %, so eight are never missed
    auto other = augment;
    other.seed = 4;
    const auto elsewhere = other(before);
    CHECK(std::any_of(after[0].train.begin(), after[0].train.end(),
                      [&](Index i) { return row(after.pool(), i) != row(elsewhere.pool(), i); }));

    const auto still =
        Augment{.shape = {.width = width, .height = height}, .flip = false, .padding = 1, .copies = 60}(before);
    std::set<Numbers> moved;
    for (const Index i : still[0].train) moved.insert(row(still.pool(), i));
    CHECK(moved.size() <= 9);
}

TEST_CASE("augmentation that cannot be is refused") {
    const FederatedDataset clients(toy_dataset<float>(4, 12, 2), {.clients = {{.train = {0}, .key = 1}}});
    const ImageShape shape{.width = 4, .height = 3};
    CHECK_THROWS_WITH_AS(Augment{}(clients), Contains("shape must say"), ConfigError);
    CHECK_THROWS_WITH_AS((Augment{.shape = {.width = 4, .height = 4}, .padding = 1}(clients)), Contains("do not fit"),
                         ConfigError);
    CHECK_THROWS_WITH_AS((Augment{.shape = shape, .padding = 3}(clients)), Contains("whole images away"), ConfigError);
    CHECK_THROWS_WITH_AS((Augment{.shape = shape, .padding = 1, .copies = 0}(clients)), Contains("copies is 0"),
                         ConfigError);
    for (const std::size_t copies : {std::size_t{1} << 30, std::numeric_limits<std::size_t>::max()})
        CHECK_THROWS_WITH_AS((Augment{.shape = shape, .padding = 1, .copies = copies}(clients)),
                             Contains("of 4 examples at most 1073741822 have a number"), ConfigError);
    CHECK_THROWS_WITH_AS((Augment{.shape = shape, .flip = false, .padding = 0}(clients)), Contains("no different"),
                         ConfigError);
}

TEST_CASE("a federation runs on a reading, with the bits of the same numbers written out") {
    const auto people = toy_data();
    const auto read = standardised_each(people.pool());
    std::vector<float> rows;
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < read.size(); ++i) {
        const Numbers x = row(read, i);
        rows.insert(rows.end(), x.begin(), x.end());
        labels.push_back(read.label(i));
    }
    const auto end_of = [&](const Dataset& pool) {
        Federation<FedAvg<>, nn::Mclr<Toy::width, Toy::classes>> run{
            {}, FederatedDataset(pool, people.split()), {.local = {.rate = 0.05}}, {.batch = 5}};
        run.run(3, sample::Everyone{});
        return run.fingerprint().hex();
    };
    CHECK(end_of(read) == end_of(Dataset::own(rows, labels, Toy::classes)));
    CHECK(end_of(read) != end_of(people.pool()));
}

TEST_CASE("a reading is told from its source, from another reading and from one of other numbers, and makes no row") {
    const std::vector<std::uint8_t> pixels{1, 7, 3, 7, 100, 8, 9, 12};
    auto others = pixels;
    others[5] += 1;
    const std::vector<std::int32_t> labels{0, 1};
    const auto pool = Dataset::own(pixels, labels, 2), twin = Dataset::own(pixels, labels, 2),
               other = Dataset::own(others, labels, 2);
    const FederatedDataset one(pool, {.clients = {{.train = {0, 1}}}}), two(other, {.clients = {{.train = {0, 1}}}});
    const std::vector<Index> first{0}, both{0, 1};
    const ImageShape shape{.width = 2, .height = 2};
    const Augment flips{.shape = shape, .padding = 0}, moves{.shape = shape, .padding = 1};
    const FeatureShift noise{.kind = Feature::noise, .most = 1}, less{.kind = Feature::noise, .most = 0.5};
    std::set<std::string> seen;
    const std::vector<Dataset> all{pool, other, pool.normalised(1, 1),
                                   standardised_each(pool), standardised_each(other), standardised_by_feature(pool, first), standardised_by_feature(pool, both),
                                   one_hot(pool, 3), one_hot(pool, 4), flips(one).pool(), moves(one).pool(),
                                   flips(two).pool(), noise(one).pool(), less(one).pool(), noise(two).pool()};
    for (const auto& each : all) seen.insert(each.fingerprint().hex());
    CHECK(seen.size() == all.size());
    CHECK(twin.fingerprint() == pool.fingerprint());  // the controls: equal in another place
    CHECK(standardised_each(twin).fingerprint() == standardised_each(pool).fingerprint());
    CHECK(flips(FederatedDataset(twin, one.split())).pool().fingerprint() == flips(one).pool().fingerprint());

    static std::size_t made = 0;
    made = 0;
    const auto counted = Dataset::from([](std::size_t, std::span<float> out) { out[0] = 1, ++made; }, 1, labels, 2);
    const auto each = standardised_each(counted), again = standardised_each(each);
    again.fingerprint(), each.fingerprint(), again.fingerprint();
    CHECK(made == labels.size());  // the source is read once, the readings of it never
}

}  // namespace transform_test
