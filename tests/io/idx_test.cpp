// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/idx.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>
#include <zlib.h>

#include <doctest/doctest.h>

#include <tessera/io/fashion_mnist.hpp>

namespace idx_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using doctest::Contains;
using Bytes8 = std::vector<std::uint8_t>;

Bytes8 idx(std::initializer_list<std::uint32_t> dimensions, const Bytes8& body, std::uint8_t type = 8) {
    Bytes8 bytes{0, 0, type, static_cast<std::uint8_t>(dimensions.size())};
    for (const auto d : dimensions)
        for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(d >> shift));
    bytes.insert(bytes.end(), body.begin(), body.end());
    return bytes;
}

Bytes8 gzip(Bytes8 bytes, const std::string& name = "") {
    z_stream stream{};
    REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    gz_header header{};
    std::string kept = name;
    header.name = reinterpret_cast<Bytef*>(kept.data());
    if (!name.empty()) REQUIRE(deflateSetHeader(&stream, &header) == Z_OK);
    Bytes8 out(deflateBound(&stream, bytes.size()) + name.size() + 64);
    stream.next_in = bytes.data();
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = out.data();
    stream.avail_out = static_cast<uInt>(out.size());
    REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

Bytes8 joined(Bytes8 a, const Bytes8& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

Bytes8 noise(std::size_t n) {
    Stream stream{Key{5}};
    Bytes8 bytes(n);
    for (auto& b : bytes) b = static_cast<std::uint8_t>(stream.below(256));
    return bytes;
}

void refused(const Bytes8& bytes, const char* what) {
    CHECK_THROWS_WITH_AS(decode_idx(bytes, "some.idx"), Contains(what), IoError);
}

class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "tessera-idx-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    std::string write(const std::string& name, const Bytes8& bytes) const {
        write_file_atomically(*this / name, std::as_bytes(std::span(bytes)));
        return *this / name;
    }

private:
    std::string path_;
};

const Bytes8 small = idx({2, 3}, {1, 2, 3, 4, 5, 6});

}  // namespace

TEST_CASE("IDX is read plain and gzipped") {
    const IdxArray expected{{2, 3}, {1, 2, 3, 4, 5, 6}};
    CHECK(decode_idx(small, "x") == expected);
    CHECK(decode_idx(gzip(small), "x") == expected);
    CHECK(decode_idx(gzip(small, "train-images"), "x") == expected);
    CHECK(decode_idx(idx({4}, {9, 8, 7, 6}), "x") == IdxArray{{4}, {9, 8, 7, 6}});
    CHECK(decode_idx(idx({1, 1, 1, 2, 1, 1, 1, 1}, {3, 4}), "x").shape.size() == 8);

    const auto body = noise(300'000);
    const auto large = idx({300, 1000}, body);
    CHECK(decode_idx(large, "x").bytes == body);
    CHECK(decode_idx(gzip(large), "x").bytes == body);

    const Folder folder;
    CHECK(read_idx(folder.write("plain", small)) == expected);
    CHECK(read_idx(folder.write("packed.gz", gzip(small))) == expected);
    CHECK_THROWS_WITH_AS(read_idx(folder / "gone"), Contains((folder / "gone").c_str()), IoError);
}

TEST_CASE("a wrong IDX header is refused with field and offset") {
    refused({}, "the IDX magic at offset 0 is truncated");
    refused({0, 0, 8}, "the IDX magic at offset 0 is truncated");
    refused({1, 8, 0, 0}, "starts with bytes 1 and 8");  // byte-swapped
    refused(idx({2, 3}, {1, 2, 3, 4, 5, 6}, 0x0D), "the type byte at offset 2 is 13");
    refused({0, 0, 8, 0, 1}, "the number of dimensions at offset 3 is 0");
    refused(joined({0, 0, 8, 255}, Bytes8(2000, 1)), "the number of dimensions at offset 3 is 255");
    refused({0, 0, 8, 2, 0, 0, 0, 1, 0, 0}, "dimension 1 at offset 8 is truncated");
    refused(idx({3, 0}, {}), "dimension 1 at offset 8 is zero");
    refused(idx({0, 3}, {}), "dimension 0 at offset 4 is zero");
}

TEST_CASE("dimensions beyond the file are refused before memory is taken") {
    const std::uint32_t most = 0xFFFFFFFF, half = 0x10000;
    refused(idx({most}, {1}), "dimension 0 at offset 4 is 4294967295");
    refused(idx({half, half, half, half}, {1, 2}), "larger than the file can hold");  // the product is 2^64, or 0
    refused(idx({most, most, most}, {1}), "larger than the file can hold");
    refused(idx({2, most}, {1, 2}), "dimension 1 at offset 8 is 4294967295");
    refused(gzip(idx({half, half, half, half}, {1, 2})), "larger than the file can hold");
    refused(gzip(idx({most}, {1})), "larger than the file can hold");
    refused(idx({0x03000000, 0x02000000}, {1, 2, 3, 4, 5, 6}), "larger than the file can hold");  // 3, 2 swapped
}

TEST_CASE("an IDX body that is short or long is refused") {
    refused(idx({2, 3}, {1, 2, 3, 4, 5}), "larger than the file can hold");
    refused(gzip(idx({2, 3}, {1, 2, 3, 4, 5})), "the data end at offset 17, but the dimensions declare bytes up to 18");
    refused(joined(small, {0}), "1 bytes follow the end of the data");
    refused(gzip(joined(small, {0})), "inflate to more bytes than");
}

TEST_CASE("damaged gzip data are refused") {
    const auto good = gzip(small);
    const auto changed = [&](std::size_t from_end, int by) {
        auto bytes = good;
        auto& b = bytes[bytes.size() - from_end];
        b = static_cast<std::uint8_t>(b + by);
        return bytes;
    };
    refused(changed(8, 1), "incorrect data check");
    refused(changed(4, 1), "incorrect length check");
    refused(joined(good, {0}), "1 bytes follow the gzip member");
    refused(joined(good, good), "bytes follow the gzip member");
    refused({0x1F, 0x8B}, "the gzip data end too early, at offset 2");
    auto flags = good;
    flags[3] = 0xE0;
    refused(flags, "unknown header flags set");
    auto method = good;
    method[2] = 7;
    refused(method, "unknown compression method");
    refused(joined({0x1F, 0x8B, 8, 8, 0, 0, 0, 0, 0, 3}, Bytes8(100'000, 'n')), "end too early");  // a name without end
    CHECK(decode_idx(gzip(small, std::string(50'000, 'n')), "x").bytes.size() == 6);
}

TEST_CASE("a gzip bomb is refused, whether or not it says what it holds") {
    const auto silent = gzip(idx({2, 3}, Bytes8(20'000'000)));  // declares 6 bytes
    refused(silent, "inflate to more bytes than");
    const auto frank = gzip(idx({20'000'000}, Bytes8(20'000'000)));  // declares them all, at 1000:1
    refused(frank, "larger than the file can hold");
    CHECK(decode_idx(gzip(idx({60'000}, Bytes8(60'000))), "x").bytes.size() == 60'000);  // a small one is no bomb
}

TEST_CASE("decode_gzip keeps to its cap") {
    const auto body = noise(200'000);
    const auto packed = gzip(body);
    CHECK(decode_gzip(packed, "x", 200'000) == body);
    CHECK(decode_gzip(packed, "x", std::size_t(-1)) == body);
    CHECK_THROWS_WITH_AS(decode_gzip(packed, "x", 199'999), Contains("more bytes than"), IoError);
    CHECK_THROWS_WITH_AS(decode_gzip(packed, "x", 0), Contains("more bytes than"), IoError);
    CHECK(decode_gzip(gzip({}), "x", 0).empty());
    CHECK_THROWS_WITH_AS(decode_gzip({}, "x", 10), Contains("end too early"), IoError);
    CHECK_THROWS_WITH_AS(decode_gzip(body, "x", 10), Contains("incorrect header check"), IoError);
    CHECK_THROWS_AS(decode_gzip(gzip(Bytes8(1'000'000)), "x", 1000), IoError);
}

TEST_CASE("every truncation is refused and every bit flip is refused or harmless") {
    const IdxArray truth = decode_idx(small, "x");
    const auto packed = gzip(small, "name");
    for (const auto* good : {&small, &packed})
        for (std::size_t n = 0; n < good->size(); ++n)
            CHECK_THROWS_AS(decode_idx(std::span(*good).first(n), "x"), IoError);

    const auto flipped = [](Bytes8 bytes, std::size_t bit) -> std::optional<IdxArray> {
        bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
        try {
            return decode_idx(bytes, "x");
        } catch (const IoError&) {
            return std::nullopt;
        }
    };
    for (std::size_t bit = 0; bit < packed.size() * 8; ++bit)  // time, system and name mean nothing here
        CHECK(flipped(packed, bit).value_or(truth) == truth);
    for (std::size_t bit = 0; bit < small.size() * 8; ++bit)  // the header has no harmless bit, the body no checksum
        CHECK(flipped(small, bit).has_value() == (bit / 8 >= 12));
}

TEST_CASE("images and labels make a dataset") {
    const Folder folder;
    const auto images = folder.write("images", idx({3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    const auto labels = folder.write("labels.gz", gzip(idx({3}, {0, 9, 4})));
    const auto pool = read_idx_dataset(images, labels, 10);
    CHECK(pool.size() == 3);
    CHECK(pool.examples().width == 4);
    CHECK(pool.examples().storage == Storage::bytes);
    CHECK(pool.label(1) == 9);
    CHECK(static_cast<const std::uint8_t*>(pool.examples().rows)[4] == 5);

    const auto fails = [](const std::string& i, const std::string& l, const char* what) {
        CHECK_THROWS_WITH_AS(read_idx_dataset(i, l, 10), Contains(what), IoError);
    };
    fails(labels, labels, "images have a count and a size");
    fails(images, images, "the number of dimensions at offset 3 is 3; labels have 1");
    fails(images, folder.write("few", idx({2}, {0, 1})), "is 2 labels, for 3 images");
    fails(images, folder.write("wild", idx({3}, {0, 1, 10})), "label 2 at offset 10 is 10, not one of 10 classes");
    fails(folder / "gone", labels, "gone");
}

TEST_CASE("Fashion-MNIST is found where TESSERA_DATA_DIR says") {
    const Folder folder;
    const char* before = std::getenv("TESSERA_DATA_DIR");
    const std::string kept = before ? before : "";
    ::setenv("TESSERA_DATA_DIR", (folder / "").c_str(), 1);
    const auto elsewhere = find_fashion_mnist();
    CHECK((!elsewhere || elsewhere->find("tessera-idx") == std::string::npos));
    for (const auto* name : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                             "t10k-labels-idx1-ubyte.gz"})
        folder.write(name, small);
    CHECK(find_fashion_mnist() == folder / "");
    CHECK_THROWS_WITH_AS(load_fashion_mnist(folder / ""), Contains("the dimensions are not 60000 x 28 x 28"), IoError);
    CHECK_THROWS_WITH_AS(load_fashion_mnist(folder / "none"), Contains("neither plain nor with .gz"), IoError);
    before ? ::setenv("TESSERA_DATA_DIR", kept.c_str(), 1) : ::unsetenv("TESSERA_DATA_DIR");
}

}  // namespace idx_test
