// SPDX-License-Identifier: BSD-3-Clause
// Charts as inline SVG text: lines, dots and bars over numbers. Ticks fall on round numbers.
//
// One drawing serves a phone and a desk: the view box is small, so that text stays legible when it is scaled down,
// and colours are classes (c0 .. c6) that the page defines for light, dark and print. Values come in the unit that
// the axis names. What a pointer shows stands in <title> and data-p, so the drawing is complete without script; the
// numbers of what is drawn stand in data-p (lines) or as CSV in <metadata>.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/view.hpp>
#include <tessera/report/extra.hpp>

#include "text.hpp"

namespace lab::page {

struct Point {
    double x, y;
};

inline constexpr std::size_t palette = 7, most_points = 2000;

struct Series {
    std::string name;
    std::size_t colour = 0;
    bool dashed = false;
    std::vector<Point> points{};       // x ascending; a y that is not finite breaks the line
    std::vector<Point> low{}, high{};  // the limits of a shaded band around it, or none
};

// A dot or a bar with what a pointer on it shows.
struct Mark {
    double x, y;
    std::size_t colour;
    std::string text;
};

struct Range {
    double low = HUGE_VAL, high = -HUGE_VAL;
    void add(double value) {
        if (!std::isfinite(value)) return;
        low = std::min(low, value);
        high = std::max(high, value);
    }
    bool empty() const { return !(low <= high); }
};

// 1, 2 or 5 times a power of ten, such that about `wanted` steps cover the width.
inline double nice_step(double width, double wanted) {
    const double raw = width / wanted, power = std::pow(10.0, std::floor(std::log10(raw)));
    const double lead = raw / power;
    return power * (lead <= 1.0001 ? 1 : lead <= 2.0001 ? 2 : lead <= 5.0001 ? 5 : 10);
}

struct Tick {
    double value;
    std::string label;
};

inline std::string tick_label(double value, double step) {
    if (step >= 1000) {
        const Prefix prefix = prefix_of(step);
        return value == 0 ? "0" : cat(rounded(value / prefix.divisor, 6), prefix.name);
    }
    return fixed(value, step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
}

inline std::vector<Tick> linear_ticks(double low, double high, double step) {
    std::vector<Tick> out;
    const double slack = 1e-9 * step;
    for (double k = std::ceil((low - slack) / step); k * step <= high + slack; ++k)
        out.push_back({k * step, tick_label(k * step, step)});
    return out;
}

inline std::vector<Tick> decade_ticks(double low, double high) {
    std::vector<Tick> out;
    const bool dense = high / low < 300;
    for (double power = std::pow(10.0, std::floor(std::log10(low))); power <= high; power *= 10)
        for (const double lead : {1.0, 2.0, 5.0})
            if (const double value = lead * power; (lead == 1 || dense) && value >= low && value <= high)
                out.push_back({value, tick_label(value, value >= 1000 ? value : power)});
    return out;
}

// Every how many one has to take to keep at most `most`.
inline std::size_t stride_of(std::size_t count, std::size_t most) {
    return std::max<std::size_t>(1, (count + most - 1) / most);
}

// From values to places along one side of the drawing.
class Scale {
public:
    // The margin is room before the first value and behind the last, without ticks; of a plain axis.
    Scale(Range range, const Axis& axis, bool snap, double wanted, double from, double to, double margin = 0)
        : from_(from), to_(to), log_(axis.logarithmic) {
        if (range.empty()) range = {0, 1};
        if (axis.from_zero) range.add(0);
        if (log_) {
            low_ = range.low * 0.9, high_ = range.high * 1.1;
            ticks_ = decade_ticks(low_, high_);
            return;
        }
        // Rounding noise between equal values is not a range worth an axis, and below `tiny` a step is no number.
        constexpr double tiny = 1e-290;
        if (range.high - range.low <= std::max(tiny, 1e-9 * std::max(std::abs(range.low), std::abs(range.high)))) {
            const double share = 0.05 * std::abs(range.high);
            const double pad = margin > 0 ? 0 : axis.integers || share < tiny ? 1 : share;
            range = {range.low == 0 && axis.from_zero ? 0 : range.low - pad, range.high + pad};
        }
        double step = range.high > range.low ? nice_step(range.high - range.low, wanted) : 1;
        if (axis.integers) step = std::max(step, 1.0);
        low_ = snap ? std::floor(range.low / step + 1e-9) * step : range.low;
        high_ = snap ? std::ceil(range.high / step - 1e-9) * step : range.high;
        ticks_ = linear_ticks(low_, high_, step);
        low_ -= margin, high_ += margin;
    }
    // Slots of width one, each under its name.
    Scale(const std::vector<std::string>& names, double from, double to)
        : from_(from), to_(to), high_(static_cast<double>(std::max<std::size_t>(1, names.size()))), log_(false) {
        constexpr double narrowest = 22;  // two or three characters
        const double fit = std::max(1.0, std::floor((to - from) / narrowest));
        for (std::size_t i = 0; i < names.size(); i += stride_of(names.size(), static_cast<std::size_t>(fit)))
            ticks_.push_back({static_cast<double>(i) + 0.5, names[i]});
    }
    double operator()(double value) const {
        const double share = log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
        return from_ + share * (to_ - from_);
    }
    double low() const { return low_; }
    double high() const { return high_; }
    bool logarithmic() const { return log_; }
    const std::vector<Tick>& ticks() const { return ticks_; }

private:
    double from_, to_, low_ = 0, high_ = 1;
    bool log_;
    std::vector<Tick> ticks_;
};

// Keeps the lowest and highest of each run of neighbours, so that no peak is lost.
inline std::vector<Point> thinned(const std::vector<Point>& points) {
    if (points.size() <= most_points) return points;
    const std::size_t buckets = most_points / 2;
    std::vector<Point> out;
    for (std::size_t b = 0; b < buckets; ++b) {
        const std::size_t first = b * points.size() / buckets, last = (b + 1) * points.size() / buckets;
        std::size_t lowest = last, highest = last;
        for (std::size_t i = first; i < last; ++i) {
            if (!std::isfinite(points[i].y)) continue;
            if (lowest == last || points[i].y < points[lowest].y) lowest = i;
            if (highest == last || points[i].y > points[highest].y) highest = i;
        }
        if (lowest == last) continue;
        out.push_back(points[std::min(lowest, highest)]);
        if (lowest != highest) out.push_back(points[std::max(lowest, highest)]);
    }
    return out;
}

inline std::string axis_text(const Axis& axis, std::string_view otherwise) {
    const std::string title = axis.title.empty() ? std::string(otherwise) : axis.title;
    return axis.unit.empty() ? title : cat(title, " (", axis.unit, ")");
}

// The numbers of a drawing; six digits tell more than it can show.
class Numbers {
public:
    template <class... Field>
    void row(const Field&... fields) {
        CsvRow line(text_, "\n");  // a carriage return does not survive in HTML
        (line << ... << field(fields));
    }
    // A row of any length.
    void row(const std::vector<std::string>& fields) {
        CsvRow line(text_, "\n");
        for (const auto& each : fields) line << each;
    }
    static std::string field(double value) { return std::isfinite(value) ? rounded(value, 6) : ""; }
    static std::string_view field(std::string_view text) { return text; }
    std::string element() const { return cat("<metadata>", escape_html(text_), "</metadata>"); }

private:
    std::string text_;
};

inline std::string colour_class(std::size_t colour) { return cat("c", digits(colour % palette)); }

// How often values occur, as the outline of a violin.
struct Outline {
    std::vector<double> at, width;  // width 1 is the widest
    double quarter, median, three_quarters;
};

// A drawing under way: a frame with axes, then whatever is put into it.
class Plot {
public:
    static constexpr double width = 480, height = 296, left = 56, right = 466, top = 28, bottom = 250;

    Plot(std::string_view label, std::string_view kind, Range x_range, Range y_range, const Axis& x, const Axis& y,
         double x_margin = 0)
        : x_(x_range, x, false, 6, left, right, x_margin), y_(y_range, y, true, 5, bottom, top) {
        frame(label, kind, x, y);
        out_ += "<g class=\"frame\">";
        for (const auto& tick : x_.ticks()) {
            line("tick", x_(tick.value), bottom, x_(tick.value), bottom + 4);
            text("middle", x_(tick.value), bottom + 19, tick.label);
        }
        out_ += "</g>";
    }
    // Along x one slot for each name.
    Plot(std::string_view label, std::string_view kind, const std::vector<std::string>& names, Range y_range,
         const Axis& x, const Axis& y)
        : x_(names, left, right), y_(y_range, y, true, 5, bottom, top) {
        frame(label, kind, x, y);
        const auto& ticks = x_.ticks();
        const double room = ticks.size() < 2 ? right - left : x_(ticks[1].value) - x_(ticks[0].value);
        for (const auto& tick : ticks) {
            double down = 0;  // the last of three lines is where the title of the axis would be
            for (const auto& line : in_lines(tick.label, room, x.title.empty() ? 3 : 2))
                text("middle", x_(tick.value), bottom + (down += 14), line);
        }
    }

    void add(const Series& series, std::size_t number) {
        const auto points = thinned(series.points);
        put(out_, "<g class=\"series ", colour_class(series.colour), series.dashed ? " dash" : "", "\" data-series=\"",
            digits(number), "\" data-name=\"", escape_html(series.name), "\" data-p=\"");
        const bool whole = series.low.size() == points.size() && series.high.size() == points.size();
        for (std::size_t i = 0; i < points.size(); ++i) {
            if (!std::isfinite(points[i].y)) continue;
            put(out_, rounded(points[i].x, 9), ",", rounded(points[i].y, 6));
            if (whole && std::isfinite(series.low[i].y) && std::isfinite(series.high[i].y))
                put(out_, ",", rounded(series.low[i].y, 6), ",", rounded(series.high[i].y, 6));
            out_ += ' ';
        }
        out_ += "\">";
        if (!series.low.empty()) band(series);
        out_ += "<path d=\"";
        bool pen_down = false;
        std::size_t shown = 0;
        for (const auto& point : points) {
            if (!std::isfinite(point.y)) {
                pen_down = false;
                continue;
            }
            put(out_, pen_down ? "L" : "M", at(x_(point.x)), " ", at(y_(point.y)));
            pen_down = true;
            ++shown;
        }
        out_ += "\"/>";
        // Few points are a few measurements, and should look like them.
        if (shown <= 30)
            for (const auto& point : points)
                if (std::isfinite(point.y))
                    put(out_, "<circle cx=\"", at(x_(point.x)), "\" cy=\"", at(y_(point.y)), "\" r=\"2.6\"/>");
        out_ += "</g>";
    }
    // Along the lower limit and back along the upper one.
    void band(const Series& series) {
        out_ += "<path class=\"band\" d=\"";
        bool first = true;
        const auto go = [&](const Point& point) {
            if (!std::isfinite(point.y)) return;
            put(out_, std::exchange(first, false) ? "M" : "L", at(x_(point.x)), " ", at(y_(point.y)));
        };
        for (const auto& point : thinned(series.low)) go(point);
        const auto back = thinned(series.high);
        for (auto point = back.rbegin(); point != back.rend(); ++point) go(*point);
        out_ += "Z\"/>";
    }
    void dot(const Mark& mark) {
        put(out_, "<circle class=\"dot ", colour_class(mark.colour), "\" cx=\"", at(x_(mark.x)), "\" cy=\"",
            at(y_(mark.y)), "\" r=\"3.4\"><title>", escape_html(mark.text), "</title></circle>");
    }
    void bar(const Mark& mark, double span) {
        const double a = y_(std::max(mark.y, 0.0)), b = y_(std::min(mark.y, 0.0));
        const double begin = x_(mark.x - span / 2), wide = x_(mark.x + span / 2) - begin;
        const double gap = wide > 3 ? 0.12 * wide : 0;
        put(out_, "<rect class=\"bar ", colour_class(mark.colour), "\" x=\"", at(begin + gap / 2), "\" y=\"",
            at(a), "\" width=\"", at(std::max(wide - gap, 0.4)), "\" height=\"", at(std::max(b - a, 0.6)), "\"><title>",
            escape_html(mark.text), "</title></rect>");
    }
    // The outline of a density over y around the slot at x, with median (dot) and quartiles (stroke).
    void violin(const Outline& outline, double x, std::size_t colour, std::string_view tip) {
        constexpr double half = 0.42;
        put(out_, "<g class=\"", colour_class(colour), "\"><path class=\"violin\" d=\"");
        const auto edge = [&](std::size_t i, double side) {
            put(out_, i == 0 && side > 0 ? "M" : "L", at(x_(x + side * half * outline.width[i])), " ",
                at(y_(outline.at[i])));
        };
        for (std::size_t i = 0; i < outline.at.size(); ++i) edge(i, 1);
        for (std::size_t i = outline.at.size(); i-- > 0;) edge(i, -1);
        put(out_, "Z\"><title>", escape_html(tip), "</title></path>");
        line("quartiles", x_(x), y_(outline.quarter), x_(x), y_(outline.three_quarters));
        put(out_, "<circle class=\"median\" cx=\"", at(x_(x)), "\" cy=\"", at(y_(outline.median)), "\" r=\"3\"/></g>");
    }
    void open(std::size_t number) { put(out_, "<g class=\"series\" data-series=\"", digits(number), "\">"); }
    void close() { out_ += "</g>"; }

    std::string finish(const Numbers* numbers = nullptr) {
        put(out_, "<line class=\"cross\" y1=\"", at(top), "\" y2=\"", at(bottom), "\"/>",
            numbers ? numbers->element() : "", "</svg>");
        return std::move(out_);
    }

private:
    static std::string at(double place) { return rounded(std::round(place * 100) / 100, 6); }

    // A name in the room of its slot: whole, in lines that end at a blank or after a hyphen, or cut.
    static std::vector<std::string> in_lines(std::string_view name, double room, std::size_t most) {
        constexpr double character = 8.2;  // of the largest font the page sets, that of a phone
        const auto fit = static_cast<std::size_t>(std::max(2.0, room / character));
        std::vector<std::string> lines;
        while (length_of(name) > fit && lines.size() + 1 < most) {
            std::size_t end = 0, next = 0;  // of the longest line that fits, or else of the shortest
            for (std::size_t i = 1; i < name.size(); ++i) {
                const bool blank = name[i] == ' ', hyphen = name[i] == '-' && i + 1 < name.size();
                if (!blank && !hyphen) continue;
                const std::size_t here = blank ? i : i + 1;
                if (end > 0 && length_of(name.substr(0, here)) > fit) break;
                end = here, next = i + 1;
            }
            if (end == 0) break;
            lines.push_back(shortened(name.substr(0, end), fit));
            name.remove_prefix(next);
        }
        lines.push_back(shortened(name, fit));
        return lines;
    }

    void frame(std::string_view label, std::string_view kind, const Axis& x, const Axis& y) {
        put(out_, "<svg class=\"chart ", kind, "\" viewBox=\"0 0 480 296\" role=\"img\" aria-label=\"",
            escape_html(label), "\" data-x=\"", digits(left), " ", digits(right), " ", digits(x_.low()), " ",
            digits(x_.high()), "\" data-y=\"", digits(bottom), " ", digits(top), " ", digits(y_.low()), " ",
            digits(y_.high()), "\" data-title=\"", escape_html(x.title), "\" data-unit=\"", escape_html(y.unit),
            "\" data-x-axis=\"", escape_html(axis_text(x, "x")), "\" data-y-axis=\"", escape_html(axis_text(y, "y")),
            x_.logarithmic() ? "\" data-log=\"x" : "", y_.logarithmic() ? "\" data-log-y=\"y" : "", "\">");
        text("start title", 2, 14, axis_text(y, ""));
        text("end title", right, height - 6, axis_text(x, ""));
        out_ += "<g class=\"frame\">";  // what a zoom replaces
        for (const auto& tick : y_.ticks()) {
            line(tick.value == 0 ? "zero" : "grid", left, y_(tick.value), right, y_(tick.value));
            text("end", left - 7, y_(tick.value) + 4, tick.label);
        }
        out_ += "</g>";
        line("axis", left, bottom, right, bottom);
    }
    void line(std::string_view kind, double x1, double y1, double x2, double y2) {
        put(out_, "<line class=\"", kind, "\" x1=\"", at(x1), "\" y1=\"", at(y1), "\" x2=\"", at(x2), "\" y2=\"",
            at(y2), "\"/>");
    }
    void text(std::string_view kind, double x, double y, std::string_view what) {
        put(out_, "<text class=\"", kind, "\" x=\"", at(x), "\" y=\"", at(y), "\">", escape_html(what), "</text>");
    }

    Scale x_, y_;
    std::string out_;
};

// A logarithmic axis is for positive values; else it is a plain one.
inline Axis drawable(Axis axis, const Range& range) {
    axis.logarithmic = axis.logarithmic && range.low > 0;
    return axis;
}

// Empty when no series has a finite point.
inline std::string line_chart(std::string_view label, const Axis& x, const Axis& y, const std::vector<Series>& all) {
    Range xs, ys;
    for (const auto& series : all)
        for (const auto& point : series.points)
            if (std::isfinite(point.y)) xs.add(point.x), ys.add(point.y);
    for (const auto& series : all)
        for (const auto* limit : {&series.low, &series.high})
            for (const auto& point : *limit) ys.add(point.y);
    if (xs.empty()) return {};
    Plot plot(label, "lines", xs, ys, drawable(x, xs), drawable(y, ys));
    for (std::size_t i = 0; i < all.size(); ++i) plot.add(all[i], i);
    return plot.finish();
}

// One group of marks per legend entry, with the entry's name; each group keeps at most 2000 of its marks, evenly taken.
inline std::string dot_chart(std::string_view label, const Axis& x, const Axis& y,
                             const std::vector<std::vector<Mark>>& groups, const std::vector<std::string>& names) {
    Range xs, ys;
    for (const auto& group : groups)
        for (const auto& mark : group) xs.add(mark.x), ys.add(mark.y);
    if (ys.empty()) return {};
    const Axis x_axis = drawable(x, xs);
    // Dots at the very edge would be cut by the frame.
    if (!x_axis.logarithmic) xs = {xs.low - 0.02 * (xs.high - xs.low), xs.high + 0.02 * (xs.high - xs.low)};
    Plot plot(label, "dots", xs, ys, x_axis, drawable(y, ys));
    Numbers numbers;
    numbers.row("series", axis_text(x, "x"), axis_text(y, "y"));
    for (std::size_t g = 0; g < groups.size(); ++g) {
        plot.open(g);
        const std::size_t stride = stride_of(groups[g].size(), most_points);
        for (std::size_t i = 0; i < groups[g].size(); i += stride) {
            plot.dot(groups[g][i]);
            numbers.row(names[g], groups[g][i].x, groups[g][i].y);
        }
        plot.close();
    }
    return plot.finish(&numbers);
}

// Bars of width `span` around their x that stand on zero.
inline std::string bar_chart(std::string_view label, const Axis& x, const Axis& y, const std::vector<Mark>& marks,
                             double span) {
    Range xs, ys;
    for (const auto& mark : marks) xs.add(mark.x), ys.add(mark.y);
    if (ys.empty()) return {};
    ys.add(0);
    Plot plot(label, "bars", xs, ys, x, y, span / 2);
    Numbers numbers;
    numbers.row(axis_text(x, "x"), axis_text(y, "y"));
    plot.open(0);
    for (const auto& mark : marks) {
        plot.bar(mark, span);
        numbers.row(mark.x, mark.y);
    }
    plot.close();
    return plot.finish(&numbers);
}

}  // namespace lab::page
