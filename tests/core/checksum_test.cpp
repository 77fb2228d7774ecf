// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/core/checksum.hpp>

#include <array>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace checksum_test {

namespace {

using namespace tessera;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// The definition, one bit at a time.
std::uint32_t bitwise(std::span<const std::byte> bytes, std::uint32_t polynomial) {
    std::uint32_t rest = ~0u;
    for (const std::byte byte : bytes) {
        rest ^= std::to_integer<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ (rest & 1 ? polynomial : 0);
    }
    return ~rest;
}

std::vector<std::byte> pattern(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + (i >> 3));
    return bytes;
}

}  // namespace

TEST_CASE("crc: the catalogue's check values") {
    CHECK(crc32c(bytes_of("123456789")) == 0xE3069283u);
    CHECK(crc32(bytes_of("123456789")) == 0xCBF43926u);
    CHECK(crc32c({}) == 0u);
    CHECK(crc32({}) == 0u);
}

TEST_CASE("crc32c: the vectors of RFC 3720, B.4") {
    std::array<std::byte, 32> block{};
    CHECK(crc32c(block) == 0x8A9136AAu);
    block.fill(std::byte{0xFF});
    CHECK(crc32c(block) == 0x62A8AB43u);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i);
    CHECK(crc32c(block) == 0x46DD794Eu);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(31 - i);
    CHECK(crc32c(block) == 0x113FDB5Cu);
}

TEST_CASE("crc: equal to the bitwise definition around every slice boundary") {
    const auto bytes = pattern(64);
    for (std::size_t start = 0; start < 9; ++start)
        for (std::size_t size = 0; start + size <= bytes.size(); ++size) {
            const auto part = std::span(bytes).subspan(start, size);
            REQUIRE(crc32c(part) == bitwise(part, 0x82F63B78u));
            REQUIRE(crc32(part) == bitwise(part, 0xEDB88320u));
        }
}

TEST_CASE("crc: pieces in order give the whole, wherever it is cut") {
    const auto bytes = pattern(61);
    const std::span<const std::byte> whole = bytes;
    for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
        REQUIRE(crc32c(whole.subspan(cut), crc32c(whole.first(cut))) == crc32c(whole));
        REQUIRE(crc32(whole.subspan(cut), crc32(whole.first(cut))) == crc32(whole));
    }
}

TEST_CASE("crc: usable at compile time") {
    static constexpr std::array<std::byte, 9> digits{std::byte{'1'}, std::byte{'2'}, std::byte{'3'},
                                                     std::byte{'4'}, std::byte{'5'}, std::byte{'6'},
                                                     std::byte{'7'}, std::byte{'8'}, std::byte{'9'}};
    static_assert(crc32c(digits) == 0xE3069283u);
    static_assert(crc32(digits) == 0xCBF43926u);
}

}  // namespace checksum_test
