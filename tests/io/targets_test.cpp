// SPDX-License-Identifier: BSD-3-Clause
// Files with real targets, or with several classes an example.
#include <tessera/io/csv.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/io/image_npy.hpp>

namespace targets_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using doctest::Contains;

template <class T>
NamedTensor tensor(const std::string& name, std::vector<std::size_t> shape, const std::vector<T>& numbers) {
    return NamedTensor::from<T>(name, std::move(shape), numbers);
}
const NamedTensor three_rows = tensor<float>("x", {3, 2}, {1, 2, 3, 4, 5, 6});

const std::string table = "rooms,price,area,town,tax\n3,10.5,70,b,0.25\n4,-2e3,90,a,1\n";
CsvTable decoded(std::vector<std::string> targets, std::string label = "") {
    return decode_csv(table, {.label = std::move(label), .client = "town", .targets = std::move(targets)}, "t");
}

}  // namespace

TEST_CASE("columns of a table as real targets, in the order of the table") {
    const auto one = decoded({"price"});
    CHECK(one.features == std::vector<std::string>{"rooms", "area", "tax"});
    CHECK(one.classes.empty());
    const auto& e = one.pool.examples.examples();
    CHECK(e.targets_each == 1);
    CHECK(e.targets[0] == 10.5);
    CHECK(e.targets[1] == -2000);
    CHECK(e.labels == nullptr);
    CHECK(one.pool.clients == std::vector<std::string>{"a", "b"});
    const auto two = decoded({"tax", "price"});
    CHECK(two.pool.examples.examples().targets_each == 2);
    CHECK(two.pool.examples.examples().targets[0] == 10.5);
    CHECK(two.pool.examples.examples().targets[1] == 0.25);
    CHECK(two.features == std::vector<std::string>{"rooms", "area"});
    CHECK_THROWS_WITH_AS(decoded({"cost"}), Contains("no column 'cost', which is asked for as a target"), IoError);
    CHECK_THROWS_WITH_AS(decoded({"price"}, "tax"), "io::read_csv: a table has a label or real targets, not both",
                         ConfigError);
    CHECK_THROWS_WITH_AS(decode_csv("a,y\n1,high\n", {.label = "", .targets = {"y"}}, "t"),
                         Contains("'high' is not a number that a target can be"), IoError);
    CHECK_THROWS_AS(decode_csv("a,y\n", {.label = "", .targets = {"y"}}, "t"), IoError);
}

TEST_CASE("arrays of 0 and 1 as multi-hot labels, others as targets") {
    const auto labels = decode_npy_multi_hot(three_rows, tensor<std::uint8_t>("y", {3, 2}, {0, 1, 1, 1, 0, 0}));
    CHECK(labels.size() == 3);
    CHECK(labels.examples().classes == 2);
    CHECK(labels.examples().multi_hot[1] == 1);
    CHECK(labels.examples().multi_hot[4] == 0);
    CHECK(decode_npy_multi_hot(three_rows, tensor<double>("y", {3}, {0, 1, 1})).examples().classes == 1);
    CHECK_THROWS_WITH_AS(decode_npy_multi_hot(three_rows, tensor<float>("y", {3, 1}, {0, 1, 0.5f})),
                         Contains("of example 2 is neither 0 nor 1"), IoError);
    CHECK_THROWS_WITH_AS(decode_npy_multi_hot(three_rows, tensor<float>("y", {2, 1}, {0, 1})),
                         Contains("holds 3 examples, for 2 labels"), IoError);
    const auto targets = decode_npy_targets(three_rows, tensor<float>("y", {3, 2}, {0.5f, 1, 2, 3, 4, 5}));
    CHECK(targets.examples().targets_each == 2);
    CHECK(targets.examples().targets[0] == 0.5);
    CHECK(decode_npy_targets(three_rows, tensor<std::int64_t>("y", {3}, {7, 8, 9})).examples().targets[2] == 9);
    const double infinite = std::numeric_limits<double>::infinity();
    CHECK_THROWS_WITH_AS(decode_npy_targets(three_rows, tensor<double>("y", {3}, {1, infinite, 2})),
                         Contains("a target of example 1 is not a finite number"), IoError);
    CHECK_THROWS_WITH_AS(decode_npy_targets(three_rows, tensor<double>("y", {1, 3, 1}, {1, 2, 3})),
                         Contains("targets are (n) or (n, each)"), IoError);
}

}  // namespace targets_test
