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
#include <tessera/report/svg.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report {

// groups[g][i] stands over names[i]; a value that is not finite has no bar.
inline std::string category_chart(std::string_view label, const std::vector<std::string>& names, const Axis& x, Axis y,
                                  const std::vector<std::vector<Mark>>& groups) {
    detail::Range ys;
    for (const auto& group : groups)
        for (const auto& mark : group) ys.add(mark.y);
    if (ys.empty()) return {};
    y.logarithmic = false;  // bars stand on zero
    ys.add(0);
    detail::Plot plot(label, "bars", names, ys, x, y);
    const double span = 0.8 / static_cast<double>(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
        plot.open(g);
        for (std::size_t i = 0; i < groups[g].size(); ++i)
            if (Mark mark = groups[g][i]; std::isfinite(mark.y)) {
                mark.x = static_cast<double>(i) + 0.1 + span * static_cast<double>(g);
                plot.bar(mark, span);
            }
        plot.close();
    }
    return plot.finish();
}

// One violin; the text is what a pointer on it shows.
struct Violin {
    std::string name, text;
    std::size_t colour;
    std::vector<double> values;  // those that are not finite are left out
};

namespace detail {

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

}  // namespace detail

inline std::string violin_chart(std::string_view label, const Axis& x, const Axis& y, const std::vector<Violin>& all) {
    detail::Range ys;
    std::vector<std::string> names;
    for (const auto& violin : all) {
        names.push_back(violin.name);
        for (const double value : violin.values) ys.add(value);
    }
    if (ys.empty()) return {};
    detail::Plot plot(label, "violins", names, ys, x, detail::drawable(y, ys));
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::vector<double> finite;
        std::ranges::copy_if(all[i].values, std::back_inserter(finite), [](double v) { return std::isfinite(v); });
        plot.open(i);
        if (!finite.empty())
            plot.violin(detail::outline_of(finite), static_cast<double>(i) + 0.5, all[i].colour, all[i].text);
        plot.close();
    }
    return plot.finish();
}

// columns[i][r] belongs to names[i] and rows[r]; the stronger the colour, the larger; negative values have a colour of
// their own. Zeros and values that are not finite are left empty.
struct HeatMap {
    std::string label, column_title, row_title, unit;
    std::vector<std::string> names{}, rows{};
    std::vector<std::vector<double>> columns{};

    detail::Range range() const {
        detail::Range all;
        for (const auto& column : columns)
            for (const double value : column) all.add(value);
        return all;
    }
};

inline std::string heat_map(const HeatMap& map) {
    using namespace detail;
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

    std::string out =
        cat("<svg class=\"chart heat\" viewBox=\"0 0 480 296\" role=\"img\" aria-label=\"", escape_html(map.label),
            "\"><text class=\"start title\" x=\"2\" y=\"14\">", escape_html(map.row_title),
            "</text><text class=\"end title\" x=\"466\" y=\"290\">", escape_html(map.column_title),
            "</text><rect class=\"ground\" x=\"", at(left), "\" y=\"28\" width=\"", at(Plot::right - left),
            "\" height=\"222\"/>");
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
    out += "</svg>";
    return out;
}

}  // namespace tessera::report
