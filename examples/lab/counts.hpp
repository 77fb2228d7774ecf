// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lab {

// A whole number, and nothing else in the text.
inline std::optional<std::uint64_t> count_in(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return {};
    return value;
}

}  // namespace lab
