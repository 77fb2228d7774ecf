// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/safetensors.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <doctest/doctest.h>

namespace safetensors_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using doctest::Contains;

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

std::string with_length(std::uint64_t length, const std::string& rest) {
    std::string file;
    for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> 8 * i);
    return file + rest;
}
std::string file_of(const std::string& header, const std::string& numbers = "") {
    return with_length(header.size(), header + numbers);
}

Safetensors decoded(const std::string& file) { return decode_safetensors(bytes_of(file), "m"); }

template <class R>
NamedTensor tensor(const std::string& name, std::vector<std::size_t> shape, const std::vector<R>& numbers) {
    return NamedTensor::from<R>(name, std::move(shape), numbers);
}

void refused(const std::string& file, const char* sentence) {
    CAPTURE(file);
    CHECK_THROWS_WITH_AS(decoded(file), Contains(sentence), IoError);
}

const std::string two_floats("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);  // 1 and -2
const std::string entry = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

}  // namespace

TEST_CASE("safetensors: a hand-made file") {
    const auto file = decoded(file_of(
        R"({ "__metadata__" : {"format":"pt", "a":"\u00e9\ud83d\ude00\n\"\/"},)"
        "\n\t"
        R"("layer.weight":{"data_offsets":[0,8],"shape":[1, 2],"dtype":"F32"}}   )",
        two_floats));
    REQUIRE(file.tensors.size() == 1);
    CHECK(file.tensors[0] == tensor<float>("layer.weight", {1, 2}, {1, -2}));
    CHECK(file.metadata == Metadata{{"format", "pt"}, {"a", "\xC3\xA9\xF0\x9F\x98\x80\n\"/"}});
}

TEST_CASE("safetensors: what we write, byte by byte") {
    const std::vector<NamedTensor> tensors{tensor<float>("w", {2}, {1, -2})};
    const std::string header = R"({"__metadata__":{"k":"v\u000a"},"w":)" + entry + "}";
    REQUIRE(header.size() % 8 == 5);
    CHECK(encode_safetensors(tensors, {{"k", "v\n"}}) == bytes_of(file_of(header + "   ", two_floats)));
    CHECK(encode_safetensors({}) == bytes_of(file_of("{}      ")));
}

TEST_CASE("safetensors: order is kept although wide numbers are laid out first") {
    const std::vector<NamedTensor> tensors{
        tensor<std::uint8_t>("bytes", {3}, {1, 2, 3}), tensor<double>("wide", {2, 1}, {0.5, -1e300}),
        tensor<std::int32_t>("", {}, {-7}),            tensor<float>("empty", {4, 0}, {}),
        tensor<std::int64_t>("qu\"ote\\\x01", {1}, {std::int64_t{1} << 62})};
    const Metadata metadata{{"rounds", "12"}, {"größe", std::string("nul\0inside", 10)}};
    const auto file = encode_safetensors(tensors, metadata);
    CHECK(decode_safetensors(file, "m") == Safetensors{tensors, metadata});
    const std::string text(reinterpret_cast<const char*>(file.data()), file.size());
    CHECK(text.find(R"("wide":{"dtype":"F64","shape":[2,1],"data_offsets":[0,16]})") != std::string::npos);
    CHECK(text.find(R"("bytes":{"dtype":"U8","shape":[3],"data_offsets":[28,31]})") != std::string::npos);
}

TEST_CASE("safetensors: tensors may come in any order and be empty anywhere") {
    const auto file = decoded(file_of(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                                      R"("none":{"dtype":"F64","shape":[0],"data_offsets":[1,1]},)"
                                      R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                                      "xyz"));
    REQUIRE(file.tensors.size() == 3);
    CHECK(file.tensors[0] == tensor<std::uint8_t>("b", {2}, {'y', 'z'}));
    CHECK(file.tensors[2] == tensor<std::uint8_t>("a", {}, {'x'}));
    CHECK(decoded(file_of("{}")).tensors.empty());
}

TEST_CASE("safetensors: the length of the header") {
    refused("", "shorter than 8 bytes");
    refused("1234567", "shorter than 8 bytes");
    refused(with_length(3, "{}"), "header of 3 bytes");
    refused(with_length(0, "{}"), "no '{'");
    refused(with_length(0xFFFFFFFFFFFFFFFFu, "{}"), "exceeds");
    refused(with_length(0xFFFFFFFFFFFFFFF8u, "{}"), "exceeds");
    std::string large(100'000'001, ' ');
    large[0] = '{', large[1] = '}';
    refused(file_of(large), "100 MB");
}

TEST_CASE("safetensors: headers that are not the JSON they should be") {
    const auto in_header = [](const std::string& header, const char* sentence) {
        refused(file_of(header, two_floats), sentence);
    };
    in_header(" {}", "no '{'");
    in_header("[]", "no '{'");
    in_header("{", "no '\"'");
    in_header("{}}", "behind the header");
    in_header("{,}", "no '\"'");
    in_header(R"({"w":)" + entry + ",}", "no '\"'");
    in_header(R"({"w" )" + entry + "}", "no ':'");
    in_header(R"({"w":)" + entry, "no '}'");
    in_header(R"({'w':)" + entry + "}", "no '\"'");
    in_header(R"({"w":)" + entry + R"(,"w":)" + entry + "}", "repeated key 'w'");
    in_header(R"({"w":)" + entry + R"(,"\u0077":)" + entry + "}", "repeated key 'w'");
    in_header(R"({"__metadata__":{},"__metadata__":{}})", "repeated key '__metadata__'");
    in_header(R"({"__metadata__":{"a":"b","a":"b"}})", "repeated key 'a'");
    in_header(R"({"__metadata__":{"a":1}})", "no '\"'");
    in_header(R"({"__metadata__":null})", "no '{'");
    in_header(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "unknown or repeated key 'x'");
    in_header(R"({"w":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "repeated key 'dtype'");
    in_header(R"({"w":{"dtype":"F32","shape":[2]}})", "without dtype, shape or data_offsets");
    in_header(R"({"w":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})", "'BF16'");
    for (const char* shape : {"[2.0]", "[2e0]", "[+2]", "[\"2\"]", "[2,]", "[,2]", "[2", "2", "[[2]]", "[02]", "[00]",
                              "[-2]", "[99999999999999999999]"})
        CHECK_THROWS_AS(
            decoded(file_of(R"({"w":{"dtype":"F32","shape":)" + std::string(shape) + R"(,"data_offsets":[0,8]}})",
                            two_floats)),
            IoError);
    const std::string deep(100'000, '[');
    in_header(R"({"w":{"dtype":"F32","shape":)" + deep, "no number");
    in_header(R"({"w":)" + std::string(100'000, '{'), "no '\"'");
    std::string many = "[1";
    for (int i = 0; i < 64; ++i) many += ",1";
    in_header(R"({"w":{"dtype":"F32","shape":)" + many + R"(],"data_offsets":[0,4]}})", "more than 64");
}

TEST_CASE("safetensors: text that is not text") {
    const auto in_text = [](const std::string& text, const char* sentence) {
        refused(file_of("{\"__metadata__\":{\"k\":\"" + text + "\"}}"), sentence);
    };
    in_text("\n", "control character");
    in_text(std::string(1, '\0'), "control character");
    in_text("\\x", "unknown escape");
    in_text("\\u12G4", "hexadecimal");
    in_text("\\ud800", "half a surrogate");
    in_text("\\ud800\\u0041", "half a surrogate");
    in_text("\\udc00", "half a surrogate");
    for (const char* bad : {"\xFF", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC3", "\x80",
                            "\xF0\x8F\xBF\xBF", "\xE2\x82"})
        in_text(bad, "not UTF-8");
    CHECK_THROWS_AS(encode_safetensors(std::vector{tensor<float>("\xFF", {0}, {})}), IoError);
    CHECK_THROWS_AS(encode_safetensors({}, {{"k", "\xC3"}}), IoError);
}

TEST_CASE("safetensors: offsets tile the numbers exactly") {
    const auto pair_of = [](const char* a, const char* b) {
        return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(a) +
               R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
    };
    CHECK(decoded(file_of(pair_of("[4,8]", "[0,4]"), two_floats)).tensors.size() == 2);
    refused(file_of(pair_of("[0,4]", "[0,4]"), two_floats), "overlap");
    refused(file_of(pair_of("[0,4]", "[3,7]"), two_floats), "overlap");
    refused(file_of(pair_of("[0,4]", "[5,9]"), two_floats + "x"), "gap");
    refused(file_of(pair_of("[1,5]", "[5,9]"), two_floats + "x"), "gap");
    refused(file_of(pair_of("[0,4]", "[4,8]"), two_floats + "x"), "announces 8 bytes of numbers, but holds 9");
    refused(file_of(pair_of("[0,4]", "[4,8]"), "short"), "announces 8 bytes of numbers, but holds 5");
    refused(file_of(pair_of("[0,4]", "[8,4]"), two_floats), "no extent");
    refused(file_of(pair_of("[0,4]", "[4]"), two_floats), "no extent");
    refused(file_of(pair_of("[0,4]", "[4,9]"), two_floats), "do not fit the shape (4)");
    refused(file_of(pair_of("[0,4]", "[9223372036854775803,9223372036854775807]"), two_floats), "gap");
    for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775807,2]", "[4611686018427387904,4,0]"})
        refused(file_of(R"({"a":{"dtype":"F32","shape":)" + std::string(shape) + R"(,"data_offsets":[0,0]}})"),
                "do not fit the shape");
}

TEST_CASE("safetensors: names the writer refuses") {
    const auto one = tensor<float>("w", {0}, {});
    CHECK_THROWS_WITH_AS(encode_safetensors(std::vector{one, one}), Contains("names two tensors"), IoError);
    CHECK_THROWS_AS(encode_safetensors(std::vector{tensor<float>("__metadata__", {0}, {})}), IoError);
    CHECK_THROWS_AS(encode_safetensors(std::vector{NamedTensor{"w", {1}, Dtype::float32, {}}}), IoError);
}

TEST_CASE("safetensors: every truncation and every flipped byte is a valid file or an IoError") {
    const std::vector<NamedTensor> tensors{tensor<std::uint8_t>("a", {2, 1}, {1, 2}), tensor<float>("b", {}, {1.5f})};
    const auto file = encode_safetensors(tensors, {{"k", "v\n"}});
    for (std::size_t size = 0; size < file.size(); ++size)
        REQUIRE_THROWS_AS(decode_safetensors(std::span(file).first(size), "m"), IoError);
    for (std::size_t at = 0; at < file.size(); ++at)
        for (unsigned mask = 1; mask < 256; ++mask) {
            auto flipped = file;
            flipped[at] ^= static_cast<std::byte>(mask);
            try {
                const auto got = decode_safetensors(flipped, "m");
                REQUIRE(decode_safetensors(encode_safetensors(got.tensors, got.metadata), "m") == got);
            } catch (const IoError& error) {
                REQUIRE(error.path == "m");
            }
        }
}

TEST_CASE("safetensors: files") {
    const std::string path = "/tmp/tessera_" + std::to_string(::getpid()) + ".safetensors";
    const Safetensors model{{tensor<float>("w", {2}, {1, -2})}, {{"round", "3"}}};
    write_safetensors(path, model.tensors, model.metadata);
    CHECK(read_safetensors(path) == model);
    remove_file(path);
    CHECK_THROWS_WITH_AS(read_safetensors(path), Contains(path.c_str()), IoError);
}

}  // namespace safetensors_test
