// SPDX-License-Identifier: BSD-3-Clause
// The frame around what travels: who, when, what, how long, and a checksum over all of it.
//
//   offset  0  magic "TSRA"      4  version    6  kind (1 down, 2 up)    8  shape of the payload's declaration
//          16  parameters of the model   24  round   32  client   40  payload length   48  payload
//          end CRC-32C over everything before it
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include <tessera/core/bytes.hpp>
#include <tessera/core/checksum.hpp>
#include <tessera/core/error.hpp>

namespace tessera::io {

enum class Kind : std::uint16_t { download = 1, upload = 2 };

struct Frame {
    Kind kind = Kind::download;
    std::uint64_t shape = 0, parameters = 0, round = 0, client = 0;
    std::span<const std::byte> payload{};
};

inline constexpr std::array<char, 4> frame_magic{'T', 'S', 'R', 'A'};
inline constexpr std::uint16_t frame_version = 1;
inline constexpr std::size_t frame_overhead = 48 + 4;

template <class Payload>
Bytes encode_frame(Kind kind, std::uint64_t parameters, std::uint64_t round, std::uint64_t client,
                   const Payload& payload) {
    Bytes out;
    const std::size_t size = wire_size(payload);
    out.reserve(frame_overhead + size);
    put(out, frame_magic);
    put(out, frame_version);
    put(out, kind);
    for (const std::uint64_t word : {shape_of<Payload>(), parameters, round, client, std::uint64_t{size}})
        put(out, word);
    put(out, payload);
    put(out, crc32c(out));
    return out;
}

// Checks everything but the meaning of the payload; throws WireError. The payload points into `bytes`.
inline Frame decode_frame(std::span<const std::byte> bytes) {
    if (bytes.size() < frame_overhead)
        throw WireError("a message of " + std::to_string(bytes.size()) + " bytes is shorter than its header");
    Reader in(bytes);
    std::array<char, 4> magic{};
    std::uint16_t version = 0;
    Frame frame;
    get(in, magic);
    get(in, version);
    get(in, frame.kind);
    if (magic != frame_magic) throw WireError("the message does not begin with TSRA");
    if (version != frame_version)
        throw WireError("the message has version " + std::to_string(version) + ", this library speaks version " +
                        std::to_string(frame_version));
    if (frame.kind != Kind::download && frame.kind != Kind::upload) throw WireError("the message is of no known kind");
    std::uint64_t length = 0;
    get(in, frame.shape);
    get(in, frame.parameters);
    get(in, frame.round);
    get(in, frame.client);
    get(in, length);
    if (length != bytes.size() - frame_overhead)
        throw WireError("the message announces " + std::to_string(length) + " bytes and carries " +
                        std::to_string(bytes.size() - frame_overhead));
    frame.payload = bytes.subspan(48, static_cast<std::size_t>(length));
    std::uint32_t sent = 0;
    std::memcpy(&sent, bytes.data() + bytes.size() - 4, 4);
    if (sent != crc32c(bytes.first(bytes.size() - 4))) throw WireError("the message's checksum does not match");
    return frame;
}

// The payload as a T, if the frame says it is one.
template <class T>
T decode_payload(const Frame& frame, Kind kind, std::uint64_t parameters) {
    if (frame.kind != kind) throw WireError("the message travels in the other direction");
    if (frame.shape != shape_of<T>()) throw WireError("the message was written by another method");
    if (frame.parameters != parameters)
        throw WireError("the message is for a model of " + std::to_string(frame.parameters) + " parameters, not " +
                        std::to_string(parameters));
    return decode<T>(frame.payload);
}

}  // namespace tessera::io
