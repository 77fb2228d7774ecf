// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/tensorboard.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace {
namespace tensorboard_test {

using namespace tessera;

std::uint64_t little(const std::string& bytes, std::size_t at, std::size_t count) {
    std::uint64_t n = 0;
    for (std::size_t i = count; i-- > 0;) n = n << 8 | static_cast<unsigned char>(bytes.at(at + i));
    return n;
}

std::string hex(const std::string& bytes) {
    std::string out;
    for (const char c : bytes)
        for (const int half : {static_cast<unsigned char>(c) >> 4, c & 15}) out += "0123456789abcdef"[half];
    return out;
}

// The events of a file, their lengths held against it.
std::vector<std::string> events(const std::string& file) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < file.size();) {
        const auto length = static_cast<std::size_t>(little(file, at, 8));
        REQUIRE(at + 16 + length <= file.size());
        out.push_back(file.substr(at + 12, length));
        at += 16 + length;
    }
    return out;
}

TEST_CASE("the first record is TensorFlow's own, byte by byte") {
    // Written by the RecordWriter of tensorboard 2.21.
    CHECK(hex(io::tensorboard_header(1.5)) ==
          "1800000000000000a37f4b22" "09000000000000f83f1a0d627261696e2e4576656e743a32" "2a28646c");
}

TEST_CASE("a number has its second, its step and its tag") {
    const auto all = events(io::tensorboard_scalar(1.5, 300, "a/b", 0.25));
    REQUIRE(all.size() == 1);
    // 1: double 1.5; 2: varint 300; 5: 12 bytes {1: 10 bytes {1: "a/b", 2: float 0.25}}
    CHECK(hex(all[0]) == "09000000000000f83f" "10ac02" "2a0c" "0a0a" "0a03612f62" "150000803e");
}

TEST_CASE("a round is one event a number; what is not finite stays out") {
    report::RoundRecord round{.round = 3, .seconds = 2, .bytes_up = 5, .trained = 4};
    round.evaluations.push_back({.model = report::Which::personal,
                                 .when = report::When::after,
                                 .on = report::On::local(),
                                 .split = report::SplitOf::test,
                                 .clients = report::Whom::all,
                                 .pick = report::Pick::last(),
                                 .average = report::Average::pooled,
                                 .metric = report::Metric::accuracy,
                                 .stage = "",
                                 .value = 0.5});
    const auto all = events(io::tensorboard_events(round, 0));
    CHECK(all.size() == 6);  // the training loss is absent
    CHECK(all.back().find("test/personal/accuracy/pooled") != std::string::npos);
    for (const auto& one : all) CHECK(one.find("train/loss") == std::string::npos);
    round.train_loss = 1;
    CHECK(events(io::tensorboard_events(round, 0)).size() == 7);  // the control
    round.evaluations[0].value = std::numeric_limits<double>::quiet_NaN();
    CHECK(events(io::tensorboard_events(round, 0)).size() == 6);
}

}  // namespace tensorboard_test
}  // namespace
