// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/data/dataset.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/data/normalise.hpp>
#include <tessera/data/partition/fault.hpp>

namespace dataset_test {

namespace {

using namespace tessera;
using namespace tessera::data;
using doctest::Contains;

std::vector<double> read(const Dataset& pool, Index example) {
    const std::vector<Index> ids{example};
    std::vector<double> out(pool.examples().width);
    Batch<double>(pool.examples(), ids).read(0, out);
    return out;
}

}  // namespace

TEST_CASE("a dataset is read alike however it is stored") {
    const std::vector<float> floats{1, 2, 3, 4, 5, 6};
    const std::vector<double> doubles(floats.begin(), floats.end());
    const std::vector<std::uint8_t> bytes(floats.begin(), floats.end());
    const std::vector<std::int32_t> labels{0, 2};
    const auto callback = [&](std::size_t i, std::span<float> out) {
        for (std::size_t j = 0; j < 3; ++j) out[j] = floats[3 * i + j];
    };
    for (const auto& pool :
         {Dataset::borrow(floats, labels, 3), Dataset::borrow(doubles, labels, 3), Dataset::borrow(bytes, labels, 3),
          Dataset::own(floats, labels, 3), Dataset::own(doubles, labels, 3), Dataset::own(bytes, labels, 3),
          Dataset::from(callback, 3, labels, 3)}) {
        CHECK(pool.size() == 2);
        CHECK(pool.examples().width == 3);
        CHECK(pool.label(1) == 2);
        CHECK(read(pool, 1) == std::vector<double>{4, 5, 6});
    }
}

TEST_CASE("a borrowed dataset is a view, an owned one survives its source") {
    std::vector<float> rows{1, 2};
    const std::vector<std::int32_t> labels{0, 0};
    const auto borrowed = Dataset::borrow(std::span<const float>(rows), labels, 1);
    const auto owned = Dataset::own(rows, labels, 1);
    const auto copy = owned;
    rows[1] = 7;
    CHECK(read(borrowed, 1)[0] == 7);
    CHECK(read(owned, 1)[0] == 2);
    CHECK(copy.examples().rows == owned.examples().rows);
}

TEST_CASE("datasets that do not fit are refused") {
    const std::vector<float> rows(6);
    CHECK_THROWS_WITH_AS(Dataset::own(rows, {0, 0, 0, 0}, 1), Contains("6 numbers cannot be cut into 4 rows"),
                         ConfigError);
    CHECK_THROWS_WITH_AS(Dataset::own(rows, {}, 1), Contains("into 0 rows"), ConfigError);
    CHECK_THROWS_WITH_AS(Dataset::own(rows, {0, 3}, 3), Contains("label 3 of example 1"), ConfigError);
    CHECK_THROWS_WITH_AS(Dataset::own(rows, {-1, 0}, 3), Contains("label -1 of example 0"), ConfigError);
    CHECK_THROWS_WITH_AS(Dataset::regression({1, 2, 3}, {1, 2}), Contains("3 numbers"), ConfigError);
}

TEST_CASE("a regression dataset has targets and no labels") {
    const auto pool = Dataset::regression({1, 2, 3, 4}, {0.5, -0.5});
    CHECK(pool.examples().labels == nullptr);
    const std::vector<Index> ids{1};
    CHECK(Batch<double>(pool.examples(), ids).target(0) == -0.5);
    CHECK(read(pool, 1) == std::vector<double>{3, 4});
}

TEST_CASE("a federated dataset views the shares of its pool") {
    Split split;
    split.clients = {Share{.train = {0, 2}, .validation = {1}, .test = {3}, .key = 11}, Share{.train = {4}, .key = 12}};
    split.unseen = {Share{.test = {5}, .key = 13}};
    const FederatedDataset data(Dataset::own(std::vector<float>(6), std::vector<std::int32_t>(6), 1), split);
    const auto copy = data;
    CHECK(data.size() == 2);
    CHECK(data.unseen() == 1);
    CHECK(data[0].train[1] == 2);
    CHECK(data[0].validation[0] == 1);
    CHECK(data[0].test.size() == 1);
    CHECK(data[1].key == 12);
    CHECK(data.unseen(0).test[0] == 5);
    CHECK(copy[0].train.data() == data[0].train.data());
    CHECK(data[1].examples == &data.pool().examples());
}

TEST_CASE("a share without a key is named by its number; two clients never have one key") {
    const auto pool = Dataset::own(std::vector<float>(6), std::vector<std::int32_t>(6), 1);
    Split split;
    split.clients = {Share{.train = {0}}, Share{.train = {1}}, Share{.train = {2}, .key = 11}};
    split.unseen = {Share{.test = {3}}};
    const FederatedDataset data(pool, split), again(pool, split);
    std::set<std::uint64_t> keys{data.unseen(0).key};
    for (std::size_t k = 0; k < 3; ++k) {
        keys.insert(data[k].key);
        CHECK(data[k].key == again[k].key);
        CHECK(data[k].key == data.split().clients[k].key);
    }
    CHECK(keys.size() == 4);
    CHECK(data[2].key == 11);
    CHECK_FALSE(keys.contains(0));  // so that a client keeps its key wherever it is put next
    Split turned = data.split();
    std::ranges::reverse(turned.clients);
    CHECK(FederatedDataset(pool, turned)[2].key == data[0].key);

    split.unseen[0].key = 11;
    CHECK_THROWS_WITH_AS(FederatedDataset(pool, split),
                         "client 2 and unseen client 0 have the same key 11; give each its own, or none", ConfigError);
    CHECK(fault_in(split, 6, Tests::disjoint).value_or("").ends_with("give each its own, or none"));
    split.unseen[0].key = 12;
    CHECK_NOTHROW(FederatedDataset(pool, split));
    CHECK_FALSE(fault_in(split, 6, Tests::disjoint));
}

TEST_CASE("an index outside the pool is refused, whoever holds it") {
    const auto pool = Dataset::own(std::vector<float>(6), std::vector<std::int32_t>(6), 1);
    const auto refusal = [&](Split split) -> std::string {
        try {
            const FederatedDataset data(pool, std::move(split));
        } catch (const ConfigError& e) {
            return e.what();
        }
        return "";
    };
    CHECK(refusal({.clients = {{.train = {5}, .validation = {4}, .test = {3}}}, .server = {2}}) == "");
    CHECK(refusal({.clients = {{.train = {0}}, {.train = {1, 6, 2}}}}) ==
          "client 1 holds example 6, but the pool has 6");
    CHECK(refusal({.clients = {{.validation = {7}}}}) == "client 0 holds example 7, but the pool has 6");
    CHECK(refusal({.clients = {{.test = {100000}}}}) == "client 0 holds example 100000, but the pool has 6");
    CHECK(refusal({.unseen = {{.test = {6}}}}) == "unseen client 0 holds example 6, but the pool has 6");
    CHECK(refusal({.server = {6}}) == "the server holds example 6, but the pool has 6");
}

TEST_CASE("standardised subtracts the mean and divides by the deviation and a thousandth") {
    const auto pool = Dataset::own(std::vector<std::uint8_t>{2, 4, 4, 4, 5, 5, 7, 9}, {0, 0}, 1);  // mean 5, std 2
    const auto read_back = read(standardised(pool), 1);
    const std::vector<double> expected{0, 0, 2 / 2.001, 4 / 2.001};
    for (std::size_t j = 0; j < 4; ++j) CHECK(read_back[j] == doctest::Approx(expected[j]).epsilon(1e-6));
    CHECK(read(pool, 0)[0] == 2);  // the original reads as before

    const auto flat = Dataset::own(std::vector<std::uint8_t>(8, 200), {0, 0}, 1);
    CHECK(read(standardised(flat), 0)[0] == 0);

    // 10^6 pixels of 0 and 255: mean and deviation 127.5, with nothing lost in the sums.
    std::vector<std::uint8_t> extremes(1'000'000);
    for (std::size_t i = 0; i < extremes.size(); i += 2) extremes[i] = 255;
    const auto view = standardised(Dataset::own(extremes, std::vector<std::int32_t>(1000), 1)).examples();
    CHECK(view.shift == 127.5f);
    CHECK(view.scale == static_cast<float>(1 / 127.501));
}

TEST_CASE("scaled_to_unit reads 0..255 as 0..1") {
    const auto pool = Dataset::own(std::vector<std::uint8_t>{0, 51, 255}, {0}, 1);
    const auto unit = read(scaled_to_unit(pool), 0);
    CHECK(unit[0] == 0);
    CHECK(unit[1] == doctest::Approx(0.2));
    CHECK(unit[2] == doctest::Approx(1));
}

TEST_CASE("only bytes are normalised while they are read") {
    const auto pool = Dataset::own(std::vector<float>{1, 2}, {0}, 1);
    CHECK_THROWS_WITH_AS(standardised(pool), Contains("does not hold bytes"), ConfigError);
    CHECK_THROWS_WITH_AS(scaled_to_unit(pool), Contains("does not hold bytes"), ConfigError);
}

TEST_CASE("several labels an example are multi-hot, row by row, in every storage") {
    const std::vector<std::uint8_t> multi_hot{1, 0, 1, 0, 0, 0};
    const std::vector<Index> ids{1, 0};
    for (const auto& pool : {Dataset::multi_label(std::vector<float>{1, 2}, multi_hot, 3),
                             Dataset::multi_label(std::vector<double>{1, 2}, multi_hot, 3),
                             Dataset::multi_label(std::vector<std::uint8_t>{1, 2}, multi_hot, 3)}) {
        CHECK(pool.size() == 2);
        CHECK(pool.examples().labels == nullptr);
        CHECK(read(pool, 1) == std::vector<double>{2});
        const Batch<double> batch(pool.examples(), ids);
        CHECK((batch.in_class(1, 0) && !batch.in_class(1, 1) && batch.in_class(1, 2)));
        CHECK_FALSE((batch.in_class(0, 0) || batch.in_class(0, 1) || batch.in_class(0, 2)));
    }
    CHECK_THROWS_WITH_AS(Dataset::multi_label(std::vector<float>{1, 2}, multi_hot, 4), Contains("6 multi-hot labels are not 4"),
                         ConfigError);
    CHECK_THROWS_WITH_AS(Dataset::multi_label(std::vector<float>{1, 2}, {1, 2}, 1), Contains("must be 1 or 0"),
                         ConfigError);
    CHECK_THROWS_AS(Dataset::multi_label(std::vector<float>{1, 2, 3}, {1, 0}, 1), ConfigError);
}

}  // namespace dataset_test
