// SPDX-License-Identifier: BSD-3-Clause
// Datasets that are read where they lie in their files hold what those hold that were copied.
#include <tessera/io/mapped.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/io/cifar.hpp>
#include <tessera/io/idx.hpp>
#include <tessera/io/image_npy.hpp>

#include <support/folder.hpp>

namespace mapped_test {

using namespace tessera;

namespace {

std::vector<std::byte> bytes_of(const std::vector<int>& numbers) {
    std::vector<std::byte> out;
    for (const int n : numbers) out.push_back(static_cast<std::byte>(n));
    return out;
}
bool same(const data::Dataset& a, const data::Dataset& b) { return a.fingerprint() == b.fingerprint(); }

template <class T>
io::NamedTensor tensor(io::Dtype dtype, std::vector<std::size_t> shape, const std::vector<T>& numbers) {
    io::NamedTensor t;
    t.dtype = dtype;
    t.shape = std::move(shape);
    const auto raw = std::as_bytes(std::span(numbers));
    t.bytes.assign(raw.begin(), raw.end());
    return t;
}

}  // namespace

TEST_CASE("a file as memory, or a sentence") {
    const support::Folder folder;
    const auto path = folder.write("some", "abc");
    const auto file = io::map_file(path);
    CHECK(file->bytes().size() == 3);
    CHECK(file->bytes()[2] == std::byte{'c'});
    CHECK_THROWS_AS(io::map_file(folder / "none"), IoError);
    CHECK_THROWS_AS(io::map_file(folder.path()), IoError);
    CHECK_THROWS_WITH_AS(io::map_file(folder.write("empty", "")), (folder / "empty: is empty").c_str(), IoError);
}

TEST_CASE("IDX: the same data, the same refusals") {
    const support::Folder folder;
    const std::vector<int> head{0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3};
    auto whole = head;
    for (const int pixel : {1, 2, 3, 254, 255, 0}) whole.push_back(pixel);
    const auto images = folder.write("images", bytes_of(whole));
    const auto labels = folder.write("labels", bytes_of({0, 0, 8, 1, 0, 0, 0, 2, 1, 0}));
    CHECK(same(io::map_idx_dataset(images, labels, 2), io::read_idx_dataset(images, labels, 2)));
    for (std::size_t n = 0; n < whole.size(); ++n) {
        const auto cut = folder.write("cut", bytes_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)}));
        CHECK_THROWS_AS(io::map_idx_dataset(cut, labels, 2), IoError);
    }
    whole.push_back(9);
    CHECK_THROWS_AS(io::map_idx_dataset(folder.write("long", bytes_of(whole)), labels, 2), IoError);
    CHECK_THROWS_AS(io::map_idx_dataset(images, labels, 1), IoError);
    CHECK_THROWS_AS(io::map_idx_dataset(folder.write("gz", bytes_of({0x1F, 0x8B, 8})), labels, 2), IoError);
}

TEST_CASE("npy: bytes and floats where they lie; what must be moved is refused") {
    const support::Folder folder;
    const auto file = [&](const std::string& name, const io::NamedTensor& t) {
        io::write_npy(folder / name, t);
        return folder / name;
    };
    const auto labels = file("y.npy", tensor<std::int64_t>(io::Dtype::int64, {2}, {1, 0}));
    const auto floats = file("x.npy", tensor<float>(io::Dtype::float32, {2, 2}, {1, 2, 3, 4.5f}));
    const auto pixels = file("b.npy", tensor<std::uint8_t>(io::Dtype::uint8, {2, 1, 2, 1}, {1, 2, 3, 255}));
    for (const auto& x : {floats, pixels})
        CHECK(same(io::map_npy_dataset(x, labels), io::decode_npy_dataset(io::read_npy(x), io::read_npy(labels))));
    CHECK(io::map_npy_dataset(file("d.npy", tensor<double>(io::Dtype::float64, {2, 1}, {1, 2})), labels).size() == 2);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    CHECK_THROWS_AS(io::map_npy_dataset(file("n.npy", tensor<float>(io::Dtype::float32, {2, 1}, {1, nan})), labels),
                    IoError);
    CHECK_THROWS_AS(
        io::map_npy_dataset(file("c.npy", tensor<float>(io::Dtype::float32, {2, 1, 1, 2}, {1, 2, 3, 4})), labels),
        IoError);
    CHECK_THROWS_AS(io::map_npy_dataset(file("i.npy", tensor<std::int64_t>(io::Dtype::int64, {2, 1}, {1, 2})), labels),
                    IoError);
    CHECK_THROWS_AS(io::map_npy_dataset(file("m.npy", tensor<float>(io::Dtype::float32, {1, 1}, {1})), labels),
                    IoError);
    CHECK_THROWS_AS(io::map_npy_dataset(floats, labels, 1), IoError);
}

TEST_CASE("CIFAR: several files, each image read as its normalised bytes would be") {
    const support::Folder folder;
    const auto batch = [&](const std::string& name, const std::vector<int>& labels) {
        std::vector<int> all;
        for (const int label : labels) {
            all.push_back(label);
            for (std::size_t p = 0; p < io::cifar_pixels; ++p) all.push_back((static_cast<int>(p) * 7 + label) % 256);
        }
        return folder.write(name, bytes_of(all));
    };
    const std::vector<std::string> train{batch("a", {3, 9}), batch("b", {0})}, test{batch("c", {5})};
    const auto mapped = io::map_cifar(io::Cifar::ten, train, test, 128, 0.5f);
    const auto read = io::read_cifar(io::Cifar::ten, train, test);
    CHECK(mapped.train_size == 3);
    REQUIRE(mapped.examples.size() == 4);
    const auto& e = mapped.examples.examples();
    const auto* bytes = static_cast<const std::uint8_t*>(read.examples.examples().rows);
    std::vector<float> row(io::cifar_pixels);
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(mapped.examples.label(i) == read.examples.label(i));
        e.fetch(e.rows, i, row.data());
        std::size_t right = 0;
        for (std::size_t p = 0; p < row.size(); ++p)
            right += row[p] == (static_cast<float>(bytes[i * row.size() + p]) - 128) * 0.5f;
        CHECK(right == row.size());
    }
    const std::vector<std::string> wrong{batch("d", {10})};
    CHECK_THROWS_AS(io::map_cifar(io::Cifar::ten, wrong, test), IoError);
    CHECK_THROWS_AS(io::map_cifar(io::Cifar::ten, {}, test), ConfigError);
}

}  // namespace mapped_test
