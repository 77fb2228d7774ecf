// SPDX-License-Identifier: BSD-3-Clause
// Charts over named things instead of numbers: bars side by side, violins, a heat map.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/report/evaluation.hpp>

#include "svg.hpp"
#include "text.hpp"

namespace lab::page {

// groups[g][i] stands over names[i]; a value that is not finite has no bar. series[g] is the name of a group.
inline std::string category_chart(std::string_view label, const std::vector<std::string>& names, const Axis& x, Axis y,
                                  const std::vector<std::vector<Mark>>& groups,
                                  const std::vector<std::string>& series) {
    Range ys;
    for (const auto& group : groups)
        for (const auto& mark : group) ys.add(mark.y);
    if (ys.empty()) return {};
    y.logarithmic = false;  // bars stand on zero
    ys.add(0);
    Plot plot(label, "bars", names, ys, x, y);
    Numbers numbers;
    numbers.row("series", axis_text(x, "name"), axis_text(y, "value"));
    const double span = 0.8 / static_cast<double>(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
        plot.open(g);
        for (std::size_t i = 0; i < groups[g].size(); ++i)
            if (Mark mark = groups[g][i]; std::isfinite(mark.y)) {
                mark.x = static_cast<double>(i) + 0.1 + span * (static_cast<double>(g) + 0.5);
                plot.bar(mark, span);
                numbers.row(series[g], names[i], mark.y);
            }
        plot.close();
    }
    return plot.finish(&numbers);
}

// How often values fall into bins of a round width, side by side for several groups; groups[g] has the name names[g].
struct Histogram {
    std::string label, counted;  // what a value belongs to, in the plural
    Axis x{};
    std::vector<std::vector<double>> groups{};
    std::vector<std::string> names{};
    std::vector<std::size_t> colours{};
};

inline std::string histogram(const Histogram& all) {
    constexpr double wanted_bins = 24;  // steps are rounded up, to 12 at the least
    Range xs;
    for (const auto& group : all.groups)
        for (const double value : group) xs.add(value);
    if (xs.empty()) return {};
    // Equal values, but for rounding, get one bin around their size.
    const double size = std::max(std::abs(xs.low), std::abs(xs.high)), range = xs.high - xs.low;
    double width = range > 1e-9 * size ? nice_step(range, wanted_bins) : size > 1e-200 ? size / 10 : 1;
    if (all.x.integers) width = std::max(width, 1.0);
    const bool equal = !(range > 1e-9 * size);
    const double first = equal ? xs.low / width - 0.5 : std::floor(xs.low / width + 1e-9);
    // The last bin has both its limits, so that 100 % is not alone; whole numbers begin a bin of their own.
    const double last = equal            ? first + 1
                        : all.x.integers ? std::floor(xs.high / width + 1e-9) + 1
                                         : std::ceil(xs.high / width - 1e-9);
    const auto bins = static_cast<std::size_t>(std::max(1.0, last - first));
    const auto bin_of = [&](double value) {
        const double bin = std::max(0.0, std::floor(value / width + 1e-9) - first);
        return std::min(bins - 1, static_cast<std::size_t>(bin));
    };
    std::vector<std::vector<std::size_t>> counts(all.groups.size(), std::vector<std::size_t>(bins));
    Range ys{0, 1};
    for (std::size_t g = 0; g < all.groups.size(); ++g)
        for (const double value : all.groups[g])
            if (std::isfinite(value)) ys.add(static_cast<double>(++counts[g][bin_of(value)]));
    const auto edge = [&](std::size_t bin) { return (first + static_cast<double>(bin)) * width; };
    Plot plot(all.label, "bars", {edge(0), edge(bins)}, ys, all.x, {.title = all.counted, .integers = true});
    Numbers numbers;
    numbers.row("series", "from " + axis_text(all.x, "x"), "to", all.counted);
    const double span = width / static_cast<double>(all.groups.size());
    for (std::size_t g = 0; g < counts.size(); ++g) {
        plot.open(g);
        for (std::size_t b = 0; b < bins; ++b) {
            const auto count = static_cast<double>(counts[g][b]);
            numbers.row(all.names[g], edge(b), edge(b + 1), count);
            if (counts[g][b] == 0) continue;
            plot.bar({edge(b) + span * (static_cast<double>(g) + 0.5), count, all.colours[g],
                      cat(all.names[g], all.names[g].empty() ? "" : ": ", digits(counts[g][b]), " ",
                                  all.counted, " from ", rounded(edge(b), 6), " to ",
                                  rounded(edge(b + 1), 6), all.x.unit.empty() ? "" : " ", all.x.unit)},
                     span);
        }
        plot.close();
    }
    return plot.finish(&numbers);
}

// One violin; the text is what a pointer on it shows.
struct Violin {
    std::string name, text;
    std::size_t colour;
    std::vector<double> values;  // those that are not finite are left out
};

// A Gaussian kernel with Silverman's bandwidth, 0.9 min(sd, IQR / 1.34) n^(-1/5), cut at the extremes.
inline Outline outline_of(const std::vector<double>& finite) {
    constexpr std::size_t steps = 64;
    std::vector<Weighted> once;
    for (const double value : finite) once.push_back({value, 1});
    Outline out{{}, {}, quantile(once, 0.25), quantile(once, 0.5), quantile(once, 0.75)};
    const auto [low, high] = std::ranges::minmax(finite);
    const double range = out.three_quarters - out.quarter, deviation = spread(finite).stddev;
    const double scale = range > 0 ? std::min(deviation, range / 1.34) : deviation;
    const double width = 0.9 * scale * std::pow(static_cast<double>(finite.size()), -0.2);
    if (!(high - low > 1e-12 * std::max(std::abs(low), std::abs(high))) || !(width > 0)) {
        out.at = {low};
        out.width = {1};
        return out;
    }
    double most = 0;
    for (std::size_t i = 0; i <= steps; ++i) {
        const double place = low + (high - low) * static_cast<double>(i) / steps;
        double density = 0;
        for (const double value : finite) density += std::exp(-0.5 * std::pow((place - value) / width, 2));
        out.at.push_back(place);
        out.width.push_back(density);
        most = std::max(most, density);
    }
    for (double& each : out.width) each /= most;
    return out;
}

inline std::string violin_chart(std::string_view label, const Axis& x, const Axis& y, const std::vector<Violin>& all) {
    Range ys;
    std::vector<std::string> names;
    for (const auto& violin : all) {
        names.push_back(violin.name);
        for (const double value : violin.values) ys.add(value);
    }
    if (ys.empty()) return {};
    Plot plot(label, "violins", names, ys, x, drawable(y, ys));
    Numbers numbers;
    numbers.row("violin", axis_text(y, "value"));
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::vector<double> finite;
        std::ranges::copy_if(all[i].values, std::back_inserter(finite), [](double v) { return std::isfinite(v); });
        plot.open(i);
        if (!finite.empty())
            plot.violin(outline_of(finite), static_cast<double>(i) + 0.5, all[i].colour, all[i].text);
        plot.close();
        for (std::size_t k = 0; k < finite.size(); k += stride_of(finite.size(), most_points))
            numbers.row(all[i].name, finite[k]);
    }
    return plot.finish(&numbers);
}

// columns[i][r] belongs to names[i] and rows[r]; the stronger the colour, the larger; negative values have a colour of
// their own. Zeros and values that are not finite are left empty.
struct HeatMap {
    std::string label, column_title, row_title, unit;
    std::vector<std::string> names{}, rows{};
    std::vector<std::vector<double>> columns{};

    Range range() const {
        Range all;
        for (const auto& column : columns)
            for (const double value : column) all.add(value);
        return all;
    }
};

inline std::string heat_map(const HeatMap& map) {
    constexpr std::size_t most_cells = 6000;
    const Range range = map.range();
    const double most = range.empty() ? 0 : std::max(std::abs(range.low), std::abs(range.high));
    const std::size_t rows = map.rows.size(), columns = map.columns.size();
    if (rows == 0 || most == 0) return {};
    std::size_t longest = 0;
    for (const auto& row : map.rows) longest = std::max(longest, std::min<std::size_t>(16, length_of(row)));
    const double left = std::max(Plot::left, 14 + 7.4 * static_cast<double>(longest));
    const std::size_t stride = stride_of(columns, std::max<std::size_t>(1, most_cells / rows));
    const auto shown = static_cast<double>((columns + stride - 1) / stride);
    const double wide = (Plot::right - left) / shown, high = (Plot::bottom - Plot::top) / static_cast<double>(rows);
    const auto at = [](double place) { return rounded(std::round(place * 100) / 100, 6); };

    std::string out = cat("<svg class=\"chart heat\" viewBox=\"0 0 480 296\" role=\"img\" aria-label=\"",
                          escape_html(map.label), "\"><text class=\"start title\" x=\"2\" y=\"14\">",
                          escape_html(map.row_title), "</text><text class=\"end title\" x=\"466\" y=\"290\">",
                          escape_html(map.column_title), "</text><rect class=\"ground\" x=\"", at(left),
                          "\" y=\"28\" width=\"", at(Plot::right - left), "\" height=\"222\"/>");
    // The root of the share: small values stay visible beside large ones.
    for (std::size_t i = 0; i < columns; i += stride)
        for (std::size_t r = 0; r < std::min(rows, map.columns[i].size()); ++r) {
            const double value = map.columns[i][r];
            if (value == 0 || !std::isfinite(value)) continue;
            put(out, value < 0 ? "<rect class=\"cell minus\" x=\"" : "<rect class=\"cell\" x=\"",
                at(left + static_cast<double>(i / stride) * wide), "\" y=\"",
                at(Plot::top + static_cast<double>(r) * high), "\" width=\"", at(wide), "\" height=\"", at(high),
                "\" fill-opacity=\"", fixed(0.08 + 0.92 * std::sqrt(std::abs(value) / most), 2), "\"><title>",
                escape_html(cat(map.column_title, " ", map.names[i], ", ", map.row_title, " ", map.rows[r], ": ",
                                rounded(value, 6), map.unit.empty() ? "" : " ", map.unit)),
                "</title></rect>");
        }
    // Names by steps of a round number, so that those of clients and classes read 0, 5, 10.
    const auto step = [](std::size_t count, double room) {
        const double wanted = std::max(1.0, std::floor(room));
        const auto round = std::max(1.0, nice_step(static_cast<double>(count), wanted));
        return static_cast<double>(count) <= wanted ? std::size_t{1} : static_cast<std::size_t>(round);
    };
    for (std::size_t r = 0; r < rows; r += step(rows, (Plot::bottom - Plot::top) / 15))
        put(out, "<text class=\"end\" x=\"", at(left - 7), "\" y=\"",
            at(Plot::top + (static_cast<double>(r) + 0.5) * high + 4), "\">", escape_html(shortened(map.rows[r], 16)),
            "</text>");
    std::size_t widest = 1;
    for (const auto& name : map.names) widest = std::max(widest, std::min<std::size_t>(8, length_of(name)));
    const double label = 8 + 7.4 * static_cast<double>(widest);
    for (std::size_t i = 0; i < columns; i += step(columns, (Plot::right - left) / label))
        put(out, "<text class=\"middle\" x=\"", at(left + (static_cast<double>(i / stride) + 0.5) * wide),
            "\" y=\"269\">", escape_html(shortened(map.names[i], 8)), "</text>");
    Numbers numbers;
    std::vector<std::string> fields{map.column_title};
    for (const auto& row : map.rows) fields.push_back(cat(map.row_title, map.row_title.empty() ? "" : " ", row));
    numbers.row(fields);
    for (std::size_t i = 0; i < columns; i += stride) {
        fields.assign(1, map.names[i]);
        for (const double value : map.columns[i]) fields.push_back(Numbers::field(value));
        numbers.row(fields);
    }
    put(out, numbers.element(), "</svg>");
    return out;
}

// Spans of time in rows; those of one series have its colour.
struct Timeline {
    struct Span {
        std::size_t row, series;
        std::string name;
        std::size_t first, last;  // rounds
        double begin, seconds;
    };
    std::string label;
    std::vector<std::string> rows{};
    std::vector<Span> spans{};
};

// Neighbours in a row that lie closer than `gap` seconds become one, whose seconds are the sum of theirs.
struct Drawn {
    Timeline::Span span;
    double end;
};
inline std::vector<Drawn> joined(std::vector<Timeline::Span> spans, double gap) {
    std::ranges::stable_sort(spans, [](const auto& a, const auto& b) {
        return a.row != b.row ? a.row < b.row : a.series != b.series ? a.series < b.series : a.begin < b.begin;
    });
    std::vector<Drawn> out;
    for (auto& span : spans) {
        const double end = span.begin + span.seconds;
        if (!std::isfinite(end)) continue;
        if (!out.empty() && out.back().span.row == span.row && out.back().span.series == span.series &&
            span.begin - out.back().end < gap) {
            out.back().span.last = span.last;
            out.back().span.seconds += span.seconds;
            out.back().end = std::max(out.back().end, end);
        } else out.push_back({std::move(span), end});
    }
    return out;
}

inline std::string timeline(Timeline all) {
    Range xs{0, 0};
    for (const auto& span : all.spans) xs.add(span.begin + span.seconds);
    if (all.rows.empty() || xs.high <= 0) return {};
    std::size_t longest = 0, series = 0;
    for (const auto& row : all.rows) longest = std::max(longest, std::min<std::size_t>(16, length_of(row)));
    for (const auto& span : all.spans) series = std::max(series, span.series + 1);
    const double left = std::max(Plot::left, 14 + 7.4 * static_cast<double>(longest));
    const Axis seconds{.title = "since the run began", .unit = "s"};
    const Scale x(xs, seconds, false, 6, left, Plot::right);
    const double high = (Plot::bottom - Plot::top) / static_cast<double>(all.rows.size());
    const double tall = std::min(high * 0.7, 40.0);
    const auto at = [](double place) { return rounded(std::round(place * 100) / 100, 6); };
    const auto middle = [&](std::size_t row) { return Plot::top + (static_cast<double>(row) + 0.5) * high; };

    std::string out =
        cat("<svg class=\"chart timeline\" viewBox=\"0 0 480 296\" role=\"img\" aria-label=\"", escape_html(all.label),
            "\"><text class=\"end title\" x=\"466\" y=\"290\">", escape_html(axis_text(seconds, "")), "</text>");
    for (const auto& tick : x.ticks())
        put(out, "<line class=\"grid\" x1=\"", at(x(tick.value)), "\" y1=\"28\" x2=\"", at(x(tick.value)),
            "\" y2=\"250\"/><text class=\"middle\" x=\"", at(x(tick.value)), "\" y=\"269\">", tick.label, "</text>");
    const auto step = static_cast<std::size_t>(std::max(1.0, std::ceil(15 / high)));  // a line of text is 15 high
    for (std::size_t r = 0; r < all.rows.size(); r += step)
        put(out, "<text class=\"end\" x=\"", at(left - 7), "\" y=\"", at(middle(r) + 4), "\">",
            escape_html(shortened(all.rows[r], 16)), "</text>");
    put(out, "<line class=\"axis\" x1=\"", at(left), "\" y1=\"250\" x2=\"466\" y2=\"250\"/>");
    constexpr double apart = 0.25;  // of a unit of the drawing
    const auto drawn = joined(std::move(all.spans), apart * xs.high / (Plot::right - left));
    Numbers numbers;
    numbers.row("row", "phase", "first round", "last round", "begin (s)", "seconds");
    for (std::size_t s = 0; s < series; ++s) {
        put(out, "<g class=\"series\" data-series=\"", digits(s), "\">");
        for (const auto& [span, end] : drawn) {
            if (span.series != s) continue;
            numbers.row(all.rows[span.row], span.name, digits(span.first), digits(span.last), span.begin, span.seconds);
            const std::string rounds = span.first == span.last
                                           ? cat("round ", digits(span.first))
                                           : cat("rounds ", digits(span.first), " to ", digits(span.last));
            put(out, "<rect class=\"bar ", colour_class(s), "\" x=\"", at(x(span.begin)), "\" y=\"",
                at(middle(span.row) - tall / 2), "\" width=\"", at(std::max(x(end) - x(span.begin), 0.4)),
                "\" height=\"", at(tall), "\"><title>",
                escape_html(cat(span.name, ", ", rounds, ": ", rounded(span.seconds, 4), " s")), "</title></rect>");
        }
        out += "</g>";
    }
    put(out, numbers.element(), "</svg>");
    return out;
}

}  // namespace lab::page
