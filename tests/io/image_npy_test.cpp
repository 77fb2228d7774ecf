// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/image_npy.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/view.hpp>

#include <support/folder.hpp>

namespace image_npy_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using namespace tessera::support;
using doctest::Contains;

template <class T>
NamedTensor tensor(const std::string& name, std::vector<std::size_t> shape, const std::vector<T>& numbers) {
    return NamedTensor::from<T>(name, std::move(shape), numbers);
}
const NamedTensor two_labels = tensor<std::int64_t>("y", {2}, {1, 0});

template <class T>
std::vector<T> rows_of(const data::Dataset& pool) {
    const auto& view = pool.examples();
    const auto* rows = static_cast<const T*>(view.rows);
    return {rows, rows + view.size * view.width};
}

void refused(const NamedTensor& x, const NamedTensor& y, const char* what, std::size_t classes = 0) {
    CHECK_THROWS_WITH_AS(decode_npy_dataset(x, y, classes), Contains(what), IoError);
}

}  // namespace

TEST_CASE("npy examples: rows, grey images, and colours channel after channel") {
    const auto rows = decode_npy_dataset(tensor<double>("x", {2, 3}, {1, 2, 3, 4, 5, 6.5}), two_labels);
    CHECK(rows_of<float>(rows) == std::vector<float>{1, 2, 3, 4, 5, 6.5});
    CHECK(rows.label(0) == 1);
    CHECK(rows.examples().classes == 2);

    const std::vector<std::uint8_t> pixels{10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42};  // pixel 1: 10 11 12, ...
    const auto grey = decode_npy_dataset(tensor("x", {2, 3, 2}, pixels), two_labels, 10);
    CHECK(grey.examples().storage == Storage::bytes);
    CHECK(grey.examples().width == 6);
    CHECK(grey.examples().classes == 10);
    CHECK(rows_of<std::uint8_t>(grey) == pixels);
    const auto colour = decode_npy_dataset(tensor("x", {2, 1, 2, 3}, pixels), two_labels);
    CHECK(rows_of<std::uint8_t>(colour) == std::vector<std::uint8_t>{10, 20, 11, 21, 12, 22, 30, 40, 31, 41, 32, 42});
    const auto real =
        decode_npy_dataset(tensor<float>("x", {2, 1, 1, 2}, {1, 2, 3, 4}), tensor<float>("y", {2}, {0, 3}));
    CHECK(rows_of<float>(real) == std::vector<float>{1, 2, 3, 4});
    CHECK(real.examples().classes == 4);
}

TEST_CASE("npy examples that do not fit are refused") {
    const auto x = tensor<float>("x.npy", {2, 1}, {1, 2});
    refused(tensor<float>("x.npy", {2}, {1, 2}), two_labels, "x.npy: has the shape (2)");
    refused(tensor<float>("x.npy", {2, 1, 1, 1, 1}, {1, 2}), two_labels, "has the shape (2, 1, 1, 1, 1)");
    refused(tensor<float>("x.npy", {2, 0}, {}), two_labels, "which holds no number");
    refused(tensor<float>("x.npy", {0, 2}, {}), tensor<float>("y", {0}, {}), "which holds no number");
    refused(tensor<float>("x.npy", {3, 1}, {1, 2, 3}), two_labels, "holds 3 examples, for 2 labels");
    refused(tensor<float>("x.npy", {2, 1}, {1, std::numeric_limits<float>::quiet_NaN()}), two_labels,
            "number 1 is not finite");
    refused(tensor<double>("x.npy", {2, 1}, {1, 1e39}), two_labels, "number 1 is not finite");
    refused(x, tensor<std::int64_t>("y.npy", {2, 1}, {0, 1}), "y.npy: has the shape (2, 1)");
    refused(x, tensor<std::int64_t>("y.npy", {2}, {0, -1}), "of example 1 is not a class");
    refused(x, tensor<std::uint64_t>("y.npy", {2}, {0, ~std::uint64_t{0}}), "is not a class");
    refused(x, tensor<float>("y.npy", {2}, {0, 0.5f}), "is not a class");
    refused(x, tensor<float>("y.npy", {2}, {0, std::numeric_limits<float>::quiet_NaN()}), "is not a class");
    refused(x, two_labels, "y: has the label 1, not one of 1 classes", 1);
}

TEST_CASE("npy labels that are no classes are refused before memory is taken for them") {
    const auto x = tensor<float>("x", {2, 1}, {1, 2});
    refused(x, tensor<std::int64_t>("y", {2}, {0, 1000000000}), "y: has the label 1000000000 for 2 examples");
    refused(x, tensor<std::int64_t>("y", {2}, {0, 10000}), "number them without gaps");
    CHECK(decode_npy_dataset(x, tensor<std::int64_t>("y", {2}, {0, 9999})).examples().classes == 10000);
    CHECK(decode_npy_dataset(x, tensor<std::int64_t>("y", {2}, {0, 10000}), 20000).examples().classes == 20000);
}

TEST_CASE("published shifts: one file a shift, severities one after the other") {
    const Folder folder;
    std::vector<std::uint8_t> images;
    for (std::uint8_t i = 0; i < 10; ++i) images.insert(images.end(), {i, i, i, i});
    folder.write("fog.npy", encode_npy(tensor("x", {10, 2, 2}, images)));
    folder.write("snow.npy", encode_npy(tensor("x", {10, 2, 2}, images)));
    folder.write("labels.npy", encode_npy(tensor<std::int64_t>("y", {10}, {0, 1, 0, 1, 0, 1, 0, 1, 0, 2})));
    CHECK(list_shifts(folder.path()) == std::vector<std::string>{"fog", "snow"});
    const auto third = read_shift(folder.path(), "fog", 3);
    CHECK(third.size() == 2);
    CHECK(rows_of<std::uint8_t>(third) == std::vector<std::uint8_t>{4, 4, 4, 4, 5, 5, 5, 5});
    CHECK(read_shift(folder.path(), "fog", 5, 5, 10).label(1) == 2);
    CHECK(read_shift(folder.path(), "fog", 2, 2).size() == 5);

    CHECK_THROWS_WITH_AS(read_shift(folder.path(), "fog", 0), Contains("severity is 0; it must be in 1..5"),
                         ConfigError);
    CHECK_THROWS_WITH_AS(read_shift(folder.path(), "fog", 6), Contains("severity is 6"), ConfigError);
    CHECK_THROWS_WITH_AS(read_shift(folder.path(), "fog", 1, 3), Contains("3 equal parts"), IoError);
    CHECK_THROWS_WITH_AS(read_shift(folder.path(), "rain", 1), Contains("rain.npy"), IoError);
    folder.write("short.npy", encode_npy(tensor("x", {5, 2, 2}, std::vector<std::uint8_t>(20))));
    CHECK_THROWS_WITH_AS(read_shift(folder.path(), "short", 1), Contains("short.npy: has the shape (5, 2, 2) for 10"),
                         IoError);
    CHECK(read_npy_dataset(folder / "fog.npy", folder / "labels.npy").examples().classes == 3);
}

TEST_CASE("frames with what is said in them: labels without a place") {
    const auto frames = tensor<float>("x", {2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    const auto said = decode_npy_transcripts(frames, tensor<std::int64_t>("y", {2, 3}, {4, 1, -1, -7, 2, 2}));
    const auto& e = said.examples();
    CHECK(e.width == 6);
    CHECK(e.size == 2);
    CHECK(e.labels_each == 3);
    CHECK(e.classes == 5);
    CHECK(std::vector<std::int32_t>(e.labels, e.labels + 6) == std::vector<std::int32_t>{4, 1, -1, -7, 2, 2});
    const auto refusal = [&](const NamedTensor& y, const char* what) {
        CHECK_THROWS_WITH_AS(decode_npy_transcripts(frames, y), Contains(what), IoError);
    };
    refusal(tensor<double>("y", {2, 1}, {1, 0.5}), "y: label 0.500000 of example 1 is no whole number");
    refusal(tensor<double>("y", {2, 1}, {1, std::numeric_limits<double>::quiet_NaN()}), "is no whole number");
    refusal(tensor<std::int64_t>("y", {2, 1}, {1, std::int64_t{1} << 40}), "is no whole number");
    refusal(tensor<std::int64_t>("y", {2, 2}, {-1, -1, -1, -1}), "y: has no label at all");
    refusal(tensor<std::int64_t>("y", {2, 1}, {1, 100000}), "number them without gaps");
    refusal(tensor<std::int64_t>("y", {3, 1}, {1, 1, 1}), "holds 2 examples, for 3 labels");
    refusal(tensor<std::int64_t>("y", {2, 1, 1}, {1, 1}), "transcripts are (n) or (n, each)");
}

}  // namespace image_npy_test
