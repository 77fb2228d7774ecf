// SPDX-License-Identifier: BSD-3-Clause
// Reading an HTML report back: how often something stands in it, one figure of it, whether its tags match.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace page {

inline std::size_t count(std::string_view text, std::string_view part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++found;
    return found;
}

inline std::string figure(const std::string& page, const std::string& id) {
    const auto from = page.find("<figure id=\"fig-" + id + "\"");
    if (from == std::string::npos) return {};
    return page.substr(from, page.find("</figure>", from) - from);
}

inline bool well_nested(std::string_view page) {
    for (const std::string_view tag : {"svg", "g", "figure", "table", "thead", "tbody", "tr", "td", "th", "div", "ul",
                                       "li", "text", "title", "h2", "h3", "main", "section", "details", "summary"}) {
        const std::string open = "<" + std::string(tag);
        if (count(page, open + ">") + count(page, open + " ") != count(page, "</" + std::string(tag) + ">"))
            return false;
    }
    return true;
}

}  // namespace page
