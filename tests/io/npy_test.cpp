// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/npy.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <doctest/doctest.h>

namespace npy_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using doctest::Contains;

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string little(std::uint64_t value, std::size_t size) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(value >> 8 * i);
    return text;
}

std::string version_1(const std::string& header, const std::string& body) {
    return "\x93NUMPY\x01" + std::string(1, '\0') + little(header.size(), 2) + header + body;
}
std::string version_2(const std::string& header, const std::string& body) {
    return "\x93NUMPY\x02" + std::string(1, '\0') + little(header.size(), 4) + header + body;
}
std::string header_of(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
    return "{'descr': " + descr + ", 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

NamedTensor decoded(const std::string& file) { return decode_npy(bytes_of(file), "w"); }

// 1.0f and -2.0f
const std::string two_floats("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);

}  // namespace

TEST_CASE("npy: a hand-made file of either version") {
    for (const auto& file : {version_1(header_of("'<f4'", "(2,)"), two_floats),
                             version_2(header_of("'<f4'", "(2,)"), two_floats)}) {
        const NamedTensor tensor = decoded(file);
        CHECK(tensor.name == "w");
        CHECK(tensor.dtype == Dtype::float32);
        CHECK(tensor.shape == std::vector<std::size_t>{2});
        CHECK(tensor.as<float>() == std::vector<float>{1.0f, -2.0f});
    }
}

TEST_CASE("npy: what we write, byte by byte") {
    const std::vector<float> numbers{1.0f, -2.0f};
    const auto file = encode_npy(NamedTensor::from<float>("w", {1, 2}, numbers));
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
    header += std::string(118 - 1 - header.size(), ' ') + "\n";
    CHECK(text_of(file) == version_1(header, two_floats));
}

TEST_CASE("npy: numbers start at a multiple of 64, whatever the length of the shape") {
    std::vector<std::size_t> shape;
    for (std::size_t n = 0; n <= 64; ++n, shape.push_back(1)) {
        const std::vector<double> one{0.5};
        const auto tensor = NamedTensor::from<double>("w", shape, one);
        const auto file = encode_npy(tensor);
        REQUIRE((file.size() - 8) % 64 == 0);
        REQUIRE(decode_npy(file, "w") == tensor);
    }
    CHECK_THROWS_WITH_AS(encode_npy({"w", shape, Dtype::uint8, {std::byte{1}}}), Contains("64 dimensions"), IoError);
}

TEST_CASE_TEMPLATE("npy: round trip of every kind of number", R, float, double, std::int8_t, std::int16_t, std::int32_t,
                   std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t) {
    using Limits = std::numeric_limits<R>;
    const std::vector<R> numbers{Limits::lowest(), R{0}, Limits::max(), R{1}, Limits::denorm_min(), R{7}};
    const auto tensor = NamedTensor::from<R>("w", {3, 2}, numbers);
    const auto again = decode_npy(encode_npy(tensor), "w");
    CHECK(again == tensor);
    CHECK(again.template as<R>() == numbers);
}

TEST_CASE("npy: NaN payloads, scalars and empty arrays survive") {
    const std::vector<std::uint32_t> bits{0x7FC12345u};
    NamedTensor nan = NamedTensor::from<std::uint32_t>("w", {}, bits);
    nan.dtype = Dtype::float32;
    CHECK(decode_npy(encode_npy(nan), "w") == nan);
    const auto empty = NamedTensor::from<float>("w", {0, 5}, {});
    CHECK(decode_npy(encode_npy(empty), "w") == empty);
    CHECK(empty.as<float>().empty());
}

TEST_CASE("npy: other ways to write the header that Python reads too") {
    for (const char* header :
         {"{\"shape\": (2,), \"fortran_order\": False, \"descr\": \"<f4\"}", "{'descr':'<f4','fortran_order':False,"
          "'shape':(2,)}      \n", " { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2 , ) , } \n"})
        CHECK(decoded(version_1(header, two_floats)).size() == 2);
    CHECK(decoded(version_1(header_of("'<u1'", "(8,)"), two_floats)).dtype == Dtype::uint8);
    CHECK(decoded(version_1(header_of("'<f4'", "(2,1,)"), two_floats)).shape == std::vector<std::size_t>{2, 1});
}

TEST_CASE("npy: refused, and why") {
    const auto refused = [](const std::string& file, const char* sentence) {
        CAPTURE(sentence);
        CHECK_THROWS_WITH_AS(decoded(file), Contains(sentence), IoError);
    };
    const auto with_header = [&](const std::string& header, const char* sentence) {
        refused(version_1(header, two_floats), sentence);
    };
    refused("", "not an npy file");
    refused("PK\x03\x04 something else", "not an npy file");
    refused(std::string("\x93NUMPY\x03\x00\x00\x00\x00\x00", 12), "npy version 3.0");
    refused(std::string("\x93NUMPY\x01\x01\x00\x00\x00\x00", 12), "npy version 1.1");
    with_header(header_of("'<f4'", "(1, 2)", "True"), "Fortran order");
    with_header(header_of("'>f4'", "(2,)"), "big-endian");
    with_header(header_of("'|O'", "(2,)"), "Python objects");
    with_header(header_of("[('a', '<f4')]", "(2,)"), "structs");
    with_header(header_of("'<f2'", "(4,)"), "'<f2'");
    with_header(header_of("'<c8'", "(1,)"), "'<c8'");
    with_header(header_of("'|b1'", "(8,)"), "'|b1'");
    with_header(header_of("''", "(2,)"), "not float32");
    with_header(header_of("'<f4'", "(-2,)"), "negative");
    with_header(header_of("'<f4'", "(2)"), "no comma");
    with_header(header_of("'<f4'", "(02,)"), "leading zero");
    with_header(header_of("'<f4'", "(3,)"), "announces the shape (3)");
    with_header(header_of("'<f4'", "(1,)"), "announces the shape (1)");
    with_header(header_of("'<f4'", "(2,)") + "import os", "behind the dictionary");
    with_header("{'descr': '<f4', 'shape': (2,), }", "no 'descr', 'fortran_order' or 'shape'");
    with_header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "repeated key 'descr'");
    with_header("{'evil': '<f4', 'fortran_order': False, 'shape': (2,)}", "unknown");
    with_header("__import__('os').system('true')", "no '{'");
}

TEST_CASE("npy: the sizes that broke other readers") {
    const auto refused = [](const std::string& file, const char* sentence) {
        CAPTURE(sentence);
        CHECK_THROWS_WITH_AS(decoded(file), Contains(sentence), IoError);
    };
    const std::string header = header_of("'<f4'", "(2,)");
    refused("\x93NUMPY\x02" + std::string(1, '\0') + little(0xFFFFFFF0u, 4) + header, "header of 4294967280 bytes");
    refused("\x93NUMPY\x01" + std::string(1, '\0') + little(0xFFFF, 2) + header, "header of 65535 bytes");
    refused("\x93NUMPY\x01" + std::string(1, '\0') + little(header.size() + 1, 2) + header, "announces");
    for (const char* shape : {"(4294967296, 4294967296)", "(9223372036854775807, 2)", "(4611686018427387904,)",
                              "(65536, 65536, 65536, 65536)", "(2, 4611686018427387905)"})
        refused(version_1(header_of("'<f4'", shape), two_floats), "announces the shape");
    for (const char* shape : {"(18446744073709551616,)", "(99999999999999999999999999999999,)"})
        refused(version_1(header_of("'<f4'", shape), two_floats), "too large");
    std::string many = "(";
    for (int i = 0; i < 65; ++i) many += "1, ";
    refused(version_1(header_of("'<f4'", many + ")"), two_floats), "more than 64");
}

TEST_CASE("npy: every truncation and every flipped byte is a valid array or an IoError") {
    const std::vector<std::int16_t> numbers{1, -2, 300, 4, 5, 6};
    const auto file = encode_npy(NamedTensor::from<std::int16_t>("w", {2, 3}, numbers));
    for (std::size_t size = 0; size < file.size(); ++size)
        REQUIRE_THROWS_AS(decode_npy(std::span(file).first(size), "w"), IoError);
    for (std::size_t at = 0; at < file.size(); ++at)
        for (unsigned mask = 1; mask < 256; ++mask) {
            auto flipped = file;
            flipped[at] ^= static_cast<std::byte>(mask);
            try {
                const auto tensor = decode_npy(flipped, "w");
                REQUIRE_NOTHROW(tensor.check());
                REQUIRE(decode_npy(encode_npy(tensor), "w") == tensor);
            } catch (const IoError& error) {
                REQUIRE(error.path == "w");
            }
        }
}

TEST_CASE("npy: files") {
    const std::string path = "/tmp/tessera npy " + std::to_string(::getpid()) + ".npy";
    const std::vector<float> numbers{1, 2, 3};
    const auto tensor = NamedTensor::from<float>("tessera npy " + std::to_string(::getpid()), {3}, numbers);
    write_npy(path, tensor);
    CHECK(read_npy(path) == tensor);
    remove_file(path);
    CHECK_THROWS_WITH_AS(read_npy(path), Contains(path.c_str()), IoError);
}

TEST_CASE("tensor: asking for the wrong thing is answered with a sentence") {
    const std::vector<float> numbers{1, 2, 3};
    const auto tensor = NamedTensor::from<float>("layer", {3}, numbers);
    CHECK_THROWS_WITH_AS(tensor.as<double>(), "layer: holds float32, not float64 as asked for", IoError);
    std::vector<float> four(4);
    CHECK_THROWS_WITH_AS(tensor.copy_to(std::span(four)), "layer: holds 3 numbers, not 4 as asked for", IoError);
    CHECK_THROWS_WITH_AS(NamedTensor::from<float>("layer", {2, 2}, numbers), Contains("float32 tensor of shape (2, 2)"),
                         IoError);
    const NamedTensor torn{"layer", {1}, Dtype::float32, {std::byte{1}}};
    CHECK_THROWS_AS(torn.as<float>(), IoError);
    CHECK_THROWS_AS(encode_npy(torn), IoError);
}

}  // namespace npy_test
