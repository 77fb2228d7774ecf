// SPDX-License-Identifier: BSD-3-Clause
// Numbers and characters as text, the same in every locale: what writers of JSON and CSV share, and who makes a figure.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::report::detail {

template <class... Part>
void put(std::string& out, const Part&... parts) {
    (out.append(std::string_view(parts)), ...);
}

template <class... Part>
std::string cat(const Part&... parts) {
    std::string out;
    put(out, parts...);
    return out;
}

// The fewest digits that read back as the same number.
template <class T>
    requires(std::integral<T> || std::floating_point<T>)
std::string digits(T value) {
    std::array<char, 48> buffer;
    return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

// At most `significant` digits.
inline std::string rounded(double value, int significant) {
    std::array<char, 48> buffer;
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, significant);
    return {buffer.data(), end.ptr};
}

// Exactly `decimals` digits after the point; huge values fall back to `rounded`, never to a minus zero.
inline std::string fixed(double value, int decimals) {
    if (!std::isfinite(value)) return "n/a";
    if (std::abs(value) >= 1e15) return rounded(value, 4);
    std::array<char, 64> buffer;
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, decimals);
    std::string text(buffer.data(), end.ptr);
    if (text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
    return text;
}

inline std::string plural(std::size_t count, std::string_view noun) {
    return cat(digits(count), " ", noun, count == 1 ? "" : "s");
}

inline constexpr double beyond_prefixes = 1e21;  // from here on a power of ten says it

// 1000-based prefix that brings `largest` into 1 .. 1000; none where there is no such.
struct Prefix {
    double divisor;
    std::string_view name;
};
inline Prefix prefix_of(double largest) {
    constexpr std::array<Prefix, 7> all{
        {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}, {1e15, "P"}, {1e18, "E"}}};
    std::size_t i = 0;
    while (i + 1 < all.size() && largest >= all[i + 1].divisor) ++i;
    return all[largest < beyond_prefixes ? i : 0];
}
inline std::string with_prefix(double value, std::string_view unit) {
    if (!std::isfinite(value)) return "n/a";
    if (std::abs(value) >= beyond_prefixes) return cat(rounded(value, 3), " ", unit);
    const Prefix prefix = prefix_of(std::abs(value));
    const double shown = value / prefix.divisor;
    const int decimals = prefix.divisor == 1 ? 0 : std::abs(shown) >= 100 ? 0 : std::abs(shown) >= 10 ? 1 : 2;
    return cat(fixed(shown, decimals), " ", prefix.name, unit);
}

// Length of the UTF-8 character at the front of a text that is not empty, 0 when it is not one.
inline std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = byte(0);
    if (lead < 0x80) return 1;
    const std::size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || text.size() < length) return 0;
    // The second byte shuts out overlong forms, surrogates and everything past U+10FFFF.
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(1) < low || byte(1) > high) return 0;
    for (std::size_t i = 2; i < length; ++i)
        if ((byte(i) & 0xC0U) != 0x80U) return 0;
    return length;
}

inline constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

// Calls visit(character) for each character; a byte that belongs to none is seen as U+FFFD.
template <class Visit>
void each_character(std::string_view text, Visit visit) {
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        visit(length == 0 ? replacement : text.substr(0, length));
        text.remove_prefix(length == 0 ? 1 : length);
    }
}

// A line of CSV (RFC 4180), written when it goes; a number that is not finite is an empty field.
class CsvRow {
public:
    explicit CsvRow(std::string& out, std::string_view end = "\r\n") : out_(out), end_(end) {}
    CsvRow(const CsvRow&) = delete;
    CsvRow& operator=(const CsvRow&) = delete;
    ~CsvRow() { out_ += end_; }

    template <class T>
    CsvRow& operator<<(const T& field) {
        if (!first_) out_ += ',';
        first_ = false;
        if constexpr (std::integral<T>) out_ += digits(field);
        else if constexpr (std::floating_point<T>) out_ += std::isfinite(field) ? digits(field) : "";
        else text(field);
        return *this;
    }

private:
    void text(std::string_view field) {
        if (field.find_first_of(",\"\r\n") == std::string_view::npos) {
            out_ += field;
            return;
        }
        out_ += '"';
        for (const char c : field) out_.append(c == '"' ? 2U : 1U, c);
        out_ += '"';
    }
    std::string& out_;
    std::string_view end_;
    bool first_ = true;
};

}  // namespace tessera::report::detail
