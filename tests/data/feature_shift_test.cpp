// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/data/partition/feature_shift.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/data/partition.hpp>

#include <support/toy_numbers.hpp>

namespace feature_shift_test {

namespace {

using namespace tessera;
using namespace tessera::data;
using namespace tessera::support;
using doctest::Contains;
using Numbers = std::vector<float>;

constexpr std::size_t examples = 120, side = 5, width = side * side;

const Dataset& pool() {
    static const Dataset made = toy_dataset<float>(examples, width, 3);
    return made;
}
FederatedDataset dealt(const std::string& name = "iid", const PartitionSettings& more = {}) {
    PartitionSettings settings = more;
    settings.clients = 12;
    settings.train_size = 90;
    return {pool(), partition_by_name(name, pool(), settings)};
}

Numbers row(const Dataset& from, std::size_t i) {
    Numbers out(from.examples().width);
    const auto id = static_cast<Index>(i);
    Batch<float>(from.examples(), {&id, 1}).read(0, out);
    return out;
}

// The image a quarter turn further: what stood at (y, x) comes to (x, side - 1 - y) or the like, so four are none.
Numbers quarter(const Numbers& image) {
    Numbers out(image.size());
    for (std::size_t y = 0; y < side; ++y)
        for (std::size_t x = 0; x < side; ++x) out[y * side + x] = image[x * side + (side - 1 - y)];
    return out;
}

// Each client's view of each of its examples, beside the example itself.
template <class F>
void for_each_view(const FederatedDataset& before, const FederatedDataset& after, F&& f) {
    const auto& from = before.split();
    const auto& to = after.split();
    REQUIRE(from.clients.size() == to.clients.size());
    for (std::size_t k = 0; k < from.clients.size(); ++k)
        for (const auto part : {&Share::train, &Share::validation, &Share::test}) {
            const auto &then = from.clients[k].*part, &now = to.clients[k].*part;
            REQUIRE(then.size() == now.size());
            for (std::size_t i = 0; i < then.size(); ++i) {
                CHECK(after.pool().label(now[i]) == before.pool().label(then[i]));
                f(k, row(before.pool(), then[i]), row(after.pool(), now[i]));
            }
        }
}

}  // namespace

TEST_CASE("groups of quarter turns are exact, and one to a client") {
    const auto before = dealt("iid", {.validation = 0.2, .unseen = 2});
    const auto after = FeatureShift{.most = 360, .groups = 4}(before);
    CHECK(after.unseen() == 2);
    std::vector<std::set<std::size_t>> turns(before.size());
    for_each_view(before, after, [&](std::size_t k, Numbers then, const Numbers& now) {
        std::size_t turned = 0;
        for (; turned < 4 && then != now; ++turned) then = quarter(then);
        REQUIRE(turned < 4);
        turns[k].insert(turned);
    });
    std::set<std::size_t> kinds;
    for (const auto& of_client : turns) {
        REQUIRE(of_client.size() == 1);
        kinds.insert(*of_client.begin());
    }
    CHECK(kinds.size() > 1);  // ten clients at one of four angles: all alike once in 4^9
}

TEST_CASE("a turn by no degrees, no noise and no contrast change nothing") {
    const auto before = dealt();
    for (const auto& shift : {FeatureShift{.most = 0}, FeatureShift{.kind = Feature::noise, .most = 0}})
        for_each_view(before, shift(before),
                      [](std::size_t, const Numbers& then, const Numbers& now) { CHECK(then == now); });
    std::size_t moved = 0;
    for_each_view(before, FeatureShift{.most = 45}(before),
                  [&](std::size_t, const Numbers& then, const Numbers& now) { moved += then != now ? 1u : 0u; });
    CHECK(moved == examples);  // every example has one owner here
}

TEST_CASE("noise is the client's own, and the same whenever it is read") {
    const auto before = dealt();
    const FeatureShift shift{.kind = Feature::noise, .most = 2};
    const auto after = shift(before), again = shift(before);
    double square = 0, expected = 0;
    for_each_view(before, after, [&](std::size_t k, const Numbers& then, const Numbers& now) {
        const double deviation = 2 * shift.position(before.split().clients[k].key);
        expected += deviation * deviation * width;
        for (std::size_t j = 0; j < width; ++j) square += std::pow(static_cast<double>(now[j] - then[j]), 2);
    });
    // 3000 squares of normals scatter by about sqrt(2/3000) = 2.6 % of their sum, more where few clients dominate.
    CHECK(square == doctest::Approx(expected).epsilon(0.12));
    for (std::size_t i = 0; i < after.pool().size(); ++i) CHECK(row(after.pool(), i) == row(again.pool(), i));
    CHECK(row(after.pool(), 0) == row(after.pool(), 0));
}

TEST_CASE("contrast keeps the mean and stretches the rest") {
    const auto before = dealt();
    const FeatureShift shift{.kind = Feature::contrast, .most = 3};
    for_each_view(before, shift(before), [&](std::size_t k, const Numbers& then, const Numbers& now) {
        const double factor = std::pow(3.0, 2 * shift.position(before.split().clients[k].key) - 1);
        CHECK((factor >= 1 / 3.0 && factor <= 3));
        // float rows: about 25 roundings of 6e-8 in differences of size 1
        CHECK(static_cast<double>(now[3] - now[7]) ==
              doctest::Approx(factor * static_cast<double>(then[3] - then[7])).epsilon(1e-5));
    });
}

TEST_CASE("a client sees the same whoever else is there, and clients that share a test example see their own") {
    const auto before = dealt("shards:2");
    const FeatureShift shift{.most = 90};
    const auto after = shift(before);
    Split fewer = before.split();
    const auto kept = fewer.clients[3];
    fewer.clients = {kept};
    const auto alone = shift(FederatedDataset(pool(), fewer));
    for (std::size_t i = 0; i < kept.train.size(); ++i)
        CHECK(row(alone.pool(), alone[0].train[i]) == row(after.pool(), after[3].train[i]));

    std::size_t shared = 0, different = 0;
    for (std::size_t i = 0; i < before[0].test.size(); ++i)
        for (std::size_t k = 1; k < before.size(); ++k)
            for (std::size_t j = 0; j < before[k].test.size(); ++j)
                if (before[0].test[i] == before[k].test[j]) {
                    ++shared;
                    different += row(after.pool(), after[0].test[i]) != row(after.pool(), after[k].test[j]) ? 1u : 0u;
                }
    REQUIRE(shared > 0);
    CHECK(different == shared);
}

TEST_CASE("three channels turn together") {
    const auto colours = toy_dataset<float>(2, 3 * width, 2);
    const FederatedDataset one(colours, {.clients = {{.train = {0, 1}, .key = 9}}});
    const FeatureShift shift{.most = 360, .groups = 4};
    const auto seen = shift(one);
    const auto turns = static_cast<std::size_t>(4 * shift.position(9));
    const Numbers then = row(colours, 1), now = row(seen.pool(), seen[0].train[1]);
    for (std::size_t c = 0; c < 3; ++c) {
        const auto channel = [&](const Numbers& all) {
            return Numbers(all.begin() + static_cast<std::ptrdiff_t>(c * width),
                           all.begin() + static_cast<std::ptrdiff_t>((c + 1) * width));
        };
        std::vector<Numbers> possible{channel(then)};
        for (std::size_t i = 0; i < 3; ++i) possible.push_back(quarter(possible.back()));
        CHECK(std::find(possible.begin(), possible.end(), channel(now)) - possible.begin() ==
              static_cast<std::ptrdiff_t>(turns));
    }
    CHECK(square_images(784).width == 28);
    CHECK(square_images(3072).channels == 3);
    CHECK(square_images(60).size() == 0);
}

TEST_CASE("feature shifts by name, alone and behind a partition") {
    const PartitionSettings settings{.clients = 6, .seed = 3, .train_size = 90};
    const auto same_shares = [](const Split& a, const Split& b) {
        return std::equal(a.clients.begin(), a.clients.end(), b.clients.begin(), b.clients.end(),
                          [](const Share& x, const Share& y) { return x.train == y.train && x.test == y.test; });
    };
    CHECK(same_shares(partition_by_name("rotation:45", pool(), settings), Iid{}(pool(), settings)));
    CHECK(same_shares(partition_by_name("dirichlet:0.3+rotations:4+noise:0.5", pool(), settings),
                      Dirichlet{.alpha = 0.3}(pool(), settings)));
    const auto both = feature_shifts("dirichlet:0.3+rotations:4+noise:0.5");
    REQUIRE(both.size() == 2);
    CHECK(both[0].groups == 4);
    CHECK(both[0].most == 360);
    CHECK(both[1].kind == Feature::noise);
    CHECK(both[1].most == 0.5);
    CHECK(feature_shifts("contrast:2").front().kind == Feature::contrast);
    CHECK(feature_shifts("dirichlet:0.3").empty());

    const FederatedDataset plain(pool(), partition_by_name("iid", pool(), settings));
    CHECK(row(seen_by_name("iid", plain).pool(), 5) == row(pool(), 5));
    const auto twice = seen_by_name("rotations:4+noise:0.5", plain);
    const auto by_hand = both[1](both[0](plain));
    CHECK(row(twice.pool(), 7) == row(by_hand.pool(), 7));
    CHECK(row(twice.pool(), 7) != row(both[0](plain).pool(), 7));

    for (const auto* wrong : {"iid+", "iid+shards:2", "rotation:45+iid", "rotation", "noise:-1", "rotation:400",
                              "contrast:0.5", "rotations:0", "rotation:fast"})
        CHECK_THROWS_AS(partition_by_name(wrong, pool(), settings), ConfigError);
    const auto flat = toy_dataset<float>(120, 60, 3);
    const FederatedDataset rows(flat, partition_by_name("iid", flat, settings));
    CHECK_THROWS_WITH_AS(seen_by_name("rotation:45", rows), Contains("rows of 60 numbers are not square images"),
                         ConfigError);
    CHECK_NOTHROW(seen_by_name("noise:1", rows));
    const auto targets = Dataset::regression({1, 2}, {1, 2});
    CHECK_THROWS_WITH_AS(FeatureShift{.kind = Feature::noise}(FederatedDataset(targets, {})),
                         Contains("no class labels"), ConfigError);
}

}  // namespace feature_shift_test
