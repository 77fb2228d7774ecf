// SPDX-License-Identifier: BSD-3-Clause
// Rounds as TensorBoard reads them: a file of records, each an event with one number and its tag.
//
//   record   length (64 bits) | its check | an event | its check      a check is a CRC-32C, turned by 15 bits and
//   moved,
//                                                                      as of records within records
//   event    1: seconds since 1970, double; 2: step; 3: "brain.Event:2", of the first alone; 5: summary
//   summary  1: value, with 1: tag; 2: number, float
//
// The fields are those of TensorFlow's event.proto and summary.proto. TensorBoard takes a file whose name holds
// "tfevents" in any folder below the one that it is shown.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <tessera/core/checksum.hpp>
#include <tessera/report/record.hpp>

namespace tessera::io {

namespace detail {

inline void put_varint(std::string& out, std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) out += static_cast<char>(n | 0x80);
    out += static_cast<char>(n);
}
template <class T>
void put_little(std::string& out, T value) {
    using Word = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    const auto bits = std::bit_cast<Word>(value);
    for (std::size_t i = 0; i < sizeof bits; ++i) out += static_cast<char>(bits >> (8 * i));
}
inline void put_field(std::string& out, char number, std::string_view bytes) {  // of a string or a message
    out += static_cast<char>(number << 3 | 2);
    put_varint(out, bytes.size());
    out += bytes;
}
inline std::string event_record(const std::string& event) {
    const auto check = [](std::string_view bytes) {
        const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
        return std::rotr(crc, 15) + 0xA282EAD8u;
    };
    std::string out;
    put_little(out, static_cast<std::uint64_t>(event.size()));
    put_little(out, check(out));
    out += event;
    put_little(out, check(event));
    return out;
}
inline std::string event_at(double seconds) {
    std::string out(1, static_cast<char>(1 << 3 | 1));
    put_little(out, seconds);
    return out;
}

}  // namespace detail

// What a file of events begins with; `seconds` since 1970.
inline std::string tensorboard_header(double seconds) {
    auto event = detail::event_at(seconds);
    detail::put_field(event, 3, "brain.Event:2");
    return detail::event_record(event);
}

// One number of a step. What is not finite stays out: TensorBoard would draw it as 0.
inline std::string tensorboard_scalar(double seconds, std::uint64_t step, std::string_view tag, double value) {
    if (!std::isfinite(value)) return {};
    std::string one, summary;
    detail::put_field(one, 1, tag);
    one += static_cast<char>(2 << 3 | 5);
    detail::put_little(one, static_cast<float>(value));
    detail::put_field(summary, 1, one);
    auto event = detail::event_at(seconds);
    event += static_cast<char>(2 << 3);
    detail::put_varint(event, step);
    detail::put_field(event, 5, summary);
    return detail::event_record(event);
}

// All numbers of a round: "train/loss", "bytes/up", "test/personal/accuracy/pooled", with the stage behind where there
// are several.
inline std::string tensorboard_events(const report::RoundRecord& round, double seconds) {
    std::string out;
    const auto add = [&](const std::string& tag, double value) {
        out += tensorboard_scalar(seconds, round.round, tag, value);
    };
    add("train/loss", round.train_loss);
    add("train/clients", static_cast<double>(round.trained));
    add("train/diverged", static_cast<double>(round.diverged));
    add("bytes/up", static_cast<double>(round.bytes_up));
    add("bytes/down", static_cast<double>(round.bytes_down));
    add("seconds", round.seconds);
    for (const auto& e : round.evaluations) {
        std::string tag(report::word(e.split));
        tag.append("/").append(report::word(e.model)).append("/").append(report::word(e.metric));
        tag.append("/").append(report::word(e.average));
        if (!e.stage.get().empty()) tag.append("/").append(e.stage.get());
        add(tag, e.value.get());
    }
    return out;
}

}  // namespace tessera::io
