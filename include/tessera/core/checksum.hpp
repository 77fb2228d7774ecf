// SPDX-License-Identifier: BSD-3-Clause
// Cyclic redundancy checks: CRC-32C (Castagnoli) for our own formats, CRC-32 (IEEE 802.3) for zip and gzip.
//
// Both are reflected, start and end inverted. A check of the pieces in order is that of the whole:
// crc32(b, crc32(a)) == crc32(ab). They find accidents, not forgery.
// Cost: eight table lookups per eight bytes (Kounavis and Berry, 2008); 8 KiB of tables each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera {

namespace detail {

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b]: what byte b contributes when k more bytes follow it. `polynomial` is bit-reversed.
constexpr CrcTables crc_tables(std::uint32_t polynomial) {
    CrcTables tables{};
    std::uint32_t rest = 1;
    for (std::size_t bit = 128; bit > 0; bit /= 2) {  // what one bit contributes, and then, as it is linear, every byte
        rest = (rest >> 1) ^ (rest & 1 ? polynomial : 0);
        for (std::size_t byte = 0; byte < 256; byte += 2 * bit) tables[0][byte + bit] = tables[0][byte] ^ rest;
    }
    for (std::size_t k = 1; k < tables.size(); ++k)
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t before = tables[k - 1][byte];
            tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
        }
    return tables;
}

inline constexpr CrcTables crc32_tables = crc_tables(0xEDB88320u);
inline constexpr CrcTables crc32c_tables = crc_tables(0x82F63B78u);

constexpr std::uint32_t crc(const CrcTables& tables, std::span<const std::byte> bytes, std::uint32_t before) {
    const auto at = [&bytes](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
    std::uint32_t rest = ~before;
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
        rest ^= at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
        rest = tables[7][rest & 0xFF] ^ tables[6][rest >> 8 & 0xFF] ^ tables[5][rest >> 16 & 0xFF] ^
               tables[4][rest >> 24] ^ tables[3][at(4)] ^ tables[2][at(5)] ^ tables[1][at(6)] ^ tables[0][at(7)];
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) rest = (rest >> 8) ^ tables[0][(rest ^ at(i)) & 0xFF];
    return ~rest;
}

}  // namespace detail

constexpr std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) {
    return detail::crc(detail::crc32c_tables, bytes, before);
}

constexpr std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) {
    return detail::crc(detail::crc32_tables, bytes, before);
}

}  // namespace tessera
