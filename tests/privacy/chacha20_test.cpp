// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/privacy/chacha20.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace chacha20_test {

using namespace tessera;
using privacy::ChaCha20;

namespace {

ChaCha20::Key key_of(std::uint8_t first, std::uint8_t step) {
    ChaCha20::Key key{};
    for (std::uint32_t i = 0; i < 32; ++i)
        key[i / 4] |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(first + step * i)) << 8 * (i % 4);
    return key;
}

std::vector<std::uint8_t> bytes(const ChaCha20::Block& block) {
    std::vector<std::uint8_t> out;
    for (const auto word : block)
        for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::uint8_t>(word >> shift));
    return out;
}

// "10 f1 e7" to bytes
std::vector<std::uint8_t> hex(const std::string& text) {
    std::vector<std::uint8_t> out;
    for (std::size_t i = 0; i + 1 < text.size(); i += 3)
        out.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
    return out;
}

}  // namespace

TEST_CASE("RFC 8439, 2.3.2: the block function") {
    ChaCha20 words(key_of(0, 1), {0x09000000, 0x4a000000, 0}, 1);
    const ChaCha20::Block expected{0xe4e7f110, 0x15593bd1, 0x1fdd0f50, 0xc47120a3, 0xc7f4d1c7, 0x0368c033,
                                   0x9aaa2204, 0x4e6cd4c3, 0x466482d2, 0x09aa9f07, 0x05d7c214, 0xa2028bd9,
                                   0xd19c12b5, 0xb94e16de, 0xe883d0cb, 0x4e3c50a2};
    CHECK(words.next()[0] == expected);
}

TEST_CASE("RFC 8439, 2.4.2: two blocks of key stream, through the message they hide") {
    const std::string message =
        "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would "
        "be it.";
    const auto expected = hex(
        "6e 2e 35 9a 25 68 f9 80 41 ba 07 28 dd 0d 69 81 e9 7e 7a ec 1d 43 60 c2 0a 27 af cc fd 9f ae 0b "
        "f9 1b 65 c5 52 47 33 ab 8f 59 3d ab cd 62 b3 57 16 39 d6 24 e6 51 52 ab 8f 53 0c 35 9f 08 61 d8 "
        "07 ca 0d bf 50 0d 6a 61 56 a3 8e 08 8a 22 b6 5e 52 bc 51 4d 16 cc f8 06 81 8c e9 1a b7 79 37 36 "
        "5a f9 0b bf 74 a3 5b e6 b4 0b 8e ed f2 78 5e 42 87 4d ");
    REQUIRE(expected.size() == message.size());
    ChaCha20 words(key_of(0, 1), {0, 0x4a000000, 0}, 1);
    const auto blocks = words.next();
    auto stream = bytes(blocks[0]);
    const auto second = bytes(blocks[1]);
    stream.insert(stream.end(), second.begin(), second.end());
    bool same = true;
    for (std::size_t i = 0; i < message.size(); ++i)
        same = same && (static_cast<std::uint8_t>(message[i]) ^ stream[i]) == expected[i];
    CHECK(same);
}

TEST_CASE("RFC 8439, A.1: key streams of the zero key, block 0 and 1, and of the key that ends in 1") {
    ChaCha20 zero({});
    const auto blocks = zero.next();
    CHECK(bytes(blocks[0]) ==
          hex("76 b8 e0 ad a0 f1 3d 90 40 5d 6a e5 53 86 bd 28 bd d2 19 b8 a0 8d ed 1a a8 36 ef cc 8b 77 0d c7 "
              "da 41 59 7c 51 57 48 8d 77 24 e0 3f b8 d8 4a 37 6a 43 b8 f4 15 18 a1 1c c3 87 b6 69 b2 ee 65 86 "));
    CHECK(bytes(blocks[1]) ==
          hex("9f 07 e7 be 55 51 38 7a 98 ba 97 7c 73 2d 08 0d cb 0f 29 a0 48 e3 65 69 12 c6 53 3e 32 ee 7a ed "
              "29 b7 21 76 9c e6 4e 43 d5 71 33 b0 74 d8 39 d5 31 ed 1f 28 51 0a fb 45 ac e1 0a 1f 4b 79 4d 6f "));
    ChaCha20 one({0, 0, 0, 0, 0, 0, 0, 0x01000000}, {}, 1);
    CHECK(bytes(one.next()[0]) ==
          hex("3a eb 52 24 ec f8 49 92 9b 9d 82 8d b1 ce d4 dd 83 20 25 e8 01 8b 81 60 b8 22 84 f3 c9 49 aa 5a "
              "8e ca 00 bb b4 a7 3b da d1 92 b5 c4 2f 73 f2 fd 4e 27 36 44 c8 b3 61 25 a6 4a dd eb 00 6c 13 a0 "));
}

TEST_CASE("blocks four abreast are the blocks one after the other") {
    ChaCha20 all(key_of(9, 7));
    const auto first = all.next(), second = all.next();
    for (std::uint32_t i = 0; i < 4; ++i) {
        CHECK(ChaCha20(key_of(9, 7), {}, i).next()[0] == first[i]);
        CHECK(ChaCha20(key_of(9, 7), {}, 4 + i).next()[0] == second[i]);
    }
    CHECK(first[0] != ChaCha20(key_of(9, 8)).next()[0]);
}

TEST_CASE("every key of the system is another") {
    auto one = ChaCha20::from_system(), two = ChaCha20::from_system();
    CHECK(one.next() != two.next());
    std::array<std::uint8_t, 64> bytes{};
    privacy::system_random(bytes);  // all zero once in 2^512
    CHECK(std::any_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b != 0; }));
}

}  // namespace chacha20_test
