// SPDX-License-Identifier: BSD-3-Clause
// A figure that a method or an analysis adds to a run: plain numbers with names. The JSON and CSV writers keep it and
// the lab's pages draw it; whoever makes one needs to know nothing about either.
//
//   record.add({.id = "gate-share", .title = "Examples sent to the local layers", .caption = "Mean over clients.",
//               .kind = Kind::line, .x = {.title = "round", .integers = true}, .y = {.title = "share"},
//               .series = {{.name = "layer 1", .x = {1, 2, 3}, .y = {0.5, 0.4, 0.2}}}});
//
// What series and categories mean, by kind:
//
//   line, scatter   a series is points (x[i], y[i]); texts[i], if given, is what a point is called
//   violin          a series is one violin over the values y; texts[i] as above
//   bars            y[i] is the bar of categories[i]; several series stand side by side
//   heat            a series is a row, categories are the columns; negative and positive have two colours
//   table           a series is a column, categories are the rows; texts[i], if given, stands for y[i]
//
// A number that is not finite is a gap: null in JSON, an empty field in CSV, not drawn.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/core/error.hpp>

namespace tessera::report {

enum class Kind : std::uint8_t { line, scatter, violin, bars, heat, table };

inline constexpr std::array<std::string_view, 6> kinds{"line", "scatter", "violin", "bars", "heat", "table"};
constexpr std::string_view word(Kind kind) { return kinds[static_cast<std::size_t>(kind)]; }
inline Kind parse_kind(std::string_view text) {
    const auto found = std::ranges::find(kinds, text);
    tessera::detail::require(found != kinds.end(), "a figure's kind '" + std::string(text) +
                                                       "' is none of line, scatter, violin, bars, heat, table");
    return static_cast<Kind>(found - kinds.begin());
}

struct Axis {
    std::string title{}, unit{};
    bool from_zero = false, logarithmic = false, integers = false;
};

struct Extra {
    struct Series {
        std::string name;
        std::vector<double> x{}, y{};
        std::vector<std::string> texts{};
        bool dashed = false;  // of a line
    };

    std::string id;  // a-z, 0-9 and '-'; once per run
    std::string title, caption{};
    Kind kind = Kind::line;
    Axis x{}, y{};
    std::vector<std::string> categories{};
    std::vector<Series> series{};
    bool shaded = false;  // of lines: the area between the second and the third series

    void validate() const {
        const auto check = [&](bool good, const std::string& what) {
            tessera::detail::require(good, "extra '" + id + "': " + what);
        };
        const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
        check(!id.empty() && std::ranges::all_of(id, plain), "write its id with a-z, 0-9 and '-' only");
        check(!title.empty(), "give it a title");
        const bool points = kind == Kind::line || kind == Kind::scatter, by_category = !points && kind != Kind::violin;
        check(!shaded || (kind == Kind::line && series.size() == 3),
              "only three lines can be shaded, a middle and its limits");
        for (const auto& each : series) {
            const std::string whose = "series '" + each.name + "' ";
            check(each.x.size() == (points ? each.y.size() : 0),
                  whose + (points ? "needs one x for each y" : "takes no x; name its values in categories"));
            check(!by_category || each.y.size() == categories.size(), whose + "needs one y for each category");
            check(each.texts.empty() || each.texts.size() == each.y.size(),
                  whose + "needs one text for each y, or none");
        }
    }
};

}  // namespace tessera::report
