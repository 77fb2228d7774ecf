// SPDX-License-Identifier: BSD-3-Clause
// Text of a page: what markup must not be made of, and what is too long for its place.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tessera/core/view.hpp>
#include <tessera/report/text.hpp>

namespace lab::page {

// Runs and figures are the library's; what draws them reads like a part of it.
using namespace tessera::report;
using namespace tessera::report::detail;
using tessera::In;
using tessera::report::detail::names_of;  // beside one of our own
using tessera::report::in_words;

inline std::size_t length_of(std::string_view text) {
    std::size_t characters = 0;
    each_character(text, [&](std::string_view) { ++characters; });
    return characters;
}

// At most `most` characters; the last one says that there were more.
inline std::string shortened(std::string_view text, std::size_t most) {
    if (length_of(text) <= most) return std::string(text);
    std::string out;
    std::size_t kept = 0;
    each_character(text, [&](std::string_view character) {
        if (++kept < most) out += character;
    });
    return out + "\xE2\x80\xA6";
}

// Text for HTML content and quoted attributes.
inline std::string escape_html(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    each_character(text, [&](std::string_view character) {
        const char c = character[0];
        if (c == '&') out += "&amp;";
        else if (c == '<') out += "&lt;";
        else if (c == '>') out += "&gt;";
        else if (c == '"') out += "&quot;";
        else if (c == '\'') out += "&#39;";
        else if ((c >= 0 && c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) out += replacement;
        else out += character;
    });
    return out;
}

}  // namespace lab::page
