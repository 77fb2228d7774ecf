// SPDX-License-Identifier: BSD-3-Clause
// Draws any Extra, with its numbers below it. Several runs share a figure where they can be told apart in it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>

#include "categories.hpp"
#include "figures.hpp"
#include "svg.hpp"
#include "text.hpp"

namespace lab::page {

// Counts whole, measurements to four digits.
inline std::string number_text(double value) {
    if (!std::isfinite(value)) return "n/a";
    return std::abs(value) < 1e12 && value == std::floor(value) ? fixed(value, 0) : rounded(value, 4);
}

// A table of text; numbers stand right on one line, words stand left and break. Rows beyond `most` are counted, not
// shown.
class TextTable {
public:
    static constexpr std::size_t most = 200;

    // worded[i] is whether column i holds words; those that it does not name hold numbers.
    explicit TextTable(const std::vector<std::string>& head, std::size_t names = 1, std::vector<bool> worded = {})
        : names_(names), worded_(std::move(worded)) {
        out_ = "<div class=\"scroll\"><table><thead><tr>";
        for (std::size_t i = 0; i < head.size(); ++i) cell("th", i, head[i]);
        out_ += "</tr></thead><tbody>\n";
    }
    void row(const std::vector<std::string>& cells) {
        if (++rows_ > most) return;
        out_ += "<tr>";
        for (std::size_t i = 0; i < cells.size(); ++i) cell(i == 0 && names_ > 0 ? "th" : "td", i, cells[i]);
        out_ += "</tr>\n";
    }
    std::string finish() {
        out_ += "</tbody></table></div>";
        if (rows_ > most)
            put(out_, "<p>The first ", digits(most), " of ", digits(rows_),
                " rows; the JSON and CSV files have all.</p>");
        return std::move(out_);
    }

private:
    void cell(std::string_view tag, std::size_t column, std::string_view text) {
        const bool words = column < worded_.size() && worded_[column];
        put(out_, "<", tag, column < names_ ? ">" : words ? " class=\"w\">" : " class=\"n\">", escape_html(text), "</",
            tag, ">");
    }
    std::size_t names_, rows_ = 0;
    std::vector<bool> worded_;
    std::string out_;
};

inline bool is_worded(std::string_view text) {
    return !text.empty() && text != "n/a" && text.find_first_of("0123456789+-<>") != 0;
}
// Half a page is too narrow for a text of more characters beside the name of its row.
inline bool has_long_text(const Extra& e) {
    constexpr std::size_t fits = 32;
    const auto is_long = [](const std::string& text) { return length_of(text) > fits; };
    return std::ranges::any_of(e.series, [&](const auto& s) { return std::ranges::any_of(s.texts, is_long); });
}

inline std::string table_by_category(const Extra& e) {
    std::vector<std::string> head{e.x.title};
    std::vector<bool> worded{true};
    for (const auto& series : e.series) {
        head.push_back(series.name.empty() ? axis_text(e.y, "value") : series.name);
        worded.push_back(std::ranges::any_of(series.texts, is_worded));
    }
    TextTable table(head, 1, worded);
    for (std::size_t i = 0; i < e.categories.size(); ++i) {
        std::vector<std::string> cells{e.categories[i]};
        for (const auto& series : e.series)
            cells.push_back(series.texts.empty() ? number_text(series.y[i]) : series.texts[i]);
        table.row(cells);
    }
    return table.finish();
}

inline std::string table_of_points(const Extra& e) {
    const bool same_x = std::ranges::all_of(
        e.series, [&](const auto& series) { return series.texts.empty() && series.x == e.series[0].x; });
    if (same_x && !e.series.empty()) {
        std::vector<std::string> head{axis_text(e.x, "x")};
        for (const auto& series : e.series) head.push_back(series.name.empty() ? axis_text(e.y, "y") : series.name);
        TextTable table(head, 0);
        for (std::size_t i = 0; i < e.series[0].x.size(); ++i) {
            std::vector<std::string> cells{number_text(e.series[0].x[i])};
            for (const auto& series : e.series) cells.push_back(number_text(series.y[i]));
            table.row(cells);
        }
        return table.finish();
    }
    TextTable table({"series", "", axis_text(e.x, "x"), axis_text(e.y, "y")}, 2);
    for (const auto& series : e.series)
        for (std::size_t i = 0; i < series.x.size(); ++i)
            table.row({series.name, series.texts.empty() ? "" : series.texts[i], number_text(series.x[i]),
                       number_text(series.y[i])});
    return table.finish();
}

struct Summary {
    std::size_t count = 0;
    double mean = absent, stddev = absent, low = absent, quarter = absent, median = absent, three_quarters = absent,
           high = absent;

    explicit Summary(const std::vector<double>& values) {
        std::vector<double> finite;
        std::vector<Weighted> once;
        for (const double value : values)
            if (std::isfinite(value)) finite.push_back(value), once.push_back({value, 1});
        if (finite.empty()) return;
        const auto [m, s] = spread(finite);
        count = finite.size(), mean = m, stddev = s, low = quantile(once, 0), high = quantile(once, 1);
        quarter = quantile(once, 0.25), median = quantile(once, 0.5), three_quarters = quantile(once, 0.75);
    }
};

inline std::string table_of_violins(const Extra& e) {
    TextTable table({axis_text(e.y, ""), "count", "mean", "deviation", "least", "25 %", "median", "75 %", "most"});
    for (const auto& series : e.series) {
        const Summary s(series.y);
        std::vector<std::string> cells{series.name, digits(s.count)};
        for (const double value : {s.mean, s.stddev, s.low, s.quarter, s.median, s.three_quarters, s.high})
            cells.push_back(number_text(value));
        table.row(cells);
    }
    return table.finish();
}

inline std::string numbers_of(const Extra& e) {
    switch (e.kind) {
        case Kind::line:
        case Kind::scatter: return table_of_points(e);
        case Kind::violin: return table_of_violins(e);
        case Kind::bars:
        case Kind::heat:
        case Kind::table: break;
    }
    return table_by_category(e);
}

// "client 7: training examples 120, change 1.25 points"
inline std::string tip_of(const Extra& e, const Extra::Series& series, std::size_t i) {
    std::string tip = series.name;
    if (!series.texts.empty()) tip += cat(tip.empty() ? "" : ", ", series.texts[i]);
    else if (i < e.categories.size()) tip += cat(tip.empty() ? "" : ", ", e.categories[i]);
    if (i < series.x.size())
        tip += cat(tip.empty() ? "" : ": ", e.x.title.empty() ? "x" : e.x.title, " ", rounded(series.x[i], 6));
    return cat(tip, i < series.x.size() ? ", " : tip.empty() ? "" : ": ", e.y.title.empty() ? "y" : e.y.title, " ",
               rounded(series.y[i], 5), e.y.unit.empty() ? "" : " ", e.y.unit);
}

inline std::vector<std::string> names_of(const Extra& e) {
    std::vector<std::string> out;
    for (const auto& series : e.series) out.push_back(series.name);
    return out;
}

// colours[s] is that of series s.
inline std::string chart_of(const Extra& e, const std::vector<std::size_t>& colours, const std::string& label) {
    if (e.kind == Kind::heat) {
        HeatMap map{.label = label, .column_title = e.x.title, .row_title = e.y.title, .unit = e.y.unit};
        map.names = e.categories;
        map.columns.resize(e.categories.size());
        for (const auto& series : e.series) {
            map.rows.push_back(series.name);
            for (std::size_t i = 0; i < series.y.size(); ++i) map.columns[i].push_back(series.y[i]);
        }
        const std::string chart = heat_map(map);
        return chart.empty() ? chart : ramp(map) + chart;
    }
    std::vector<Series> lines;
    std::vector<Violin> violins;
    std::vector<std::vector<Mark>> groups;
    for (std::size_t s = 0; s < e.series.size(); ++s) {
        const auto& series = e.series[s];
        if (e.kind == Kind::line) {
            lines.push_back({series.name, colours[s], series.dashed});
            for (std::size_t i = 0; i < series.y.size(); ++i)
                if (std::isfinite(series.x[i])) lines.back().points.push_back({series.x[i], series.y[i]});
            if (e.shaded && s == 2) {
                lines[0].low = lines[1].points;
                lines[0].high = lines[2].points;
            }
        } else if (e.kind == Kind::violin) {
            const Summary sum(series.y);
            violins.push_back({series.name,
                               cat(series.name, ": median ", number_text(sum.median), ", middle half ",
                                   number_text(sum.quarter), " to ", number_text(sum.three_quarters), ", ",
                                   digits(sum.count), " values"),
                               colours[s], series.y});
        } else {
            auto& group = groups.emplace_back();
            for (std::size_t i = 0; i < series.y.size(); ++i) {
                const double x = e.kind == Kind::scatter ? series.x[i] : 0;
                const bool sound = std::isfinite(x) && std::isfinite(series.y[i]);
                if (sound) group.push_back({x, series.y[i], colours[s], tip_of(e, series, i)});
                else if (e.kind == Kind::bars) group.push_back({x, absent, colours[s], ""});
            }
        }
    }
    switch (e.kind) {
        case Kind::line: return line_chart(label, e.x, e.y, lines);
        case Kind::scatter: return dot_chart(label, e.x, e.y, groups, names_of(e));
        case Kind::violin: return violin_chart(label, e.x, e.y, violins);
        case Kind::bars: return category_chart(label, e.categories, e.x, e.y, groups, names_of(e));
        case Kind::heat:
        case Kind::table: break;
    }
    return {};
}

inline std::string drawn(const Extra& e, const std::vector<std::size_t>& colours) {
    const std::string id = "extra-" + e.id, title = escape_html(e.title);
    constexpr std::string_view nothing = "There are no numbers for this figure in this run.";
    const bool empty = std::ranges::all_of(e.series, [](const auto& series) {
        return std::ranges::none_of(series.y, [](double y) { return std::isfinite(y); }) && series.texts.empty();
    });
    if (empty) return figure(id, title, e.caption, {}, "", nothing);
    if (e.kind == Kind::table)
        return figure(id, title, e.caption, {}, numbers_of(e), nothing, e.series.size() > 4 || has_long_text(e));
    std::vector<Key> legend;
    if (e.kind != Kind::heat && (e.series.size() > 1 || e.kind == Kind::violin))
        for (std::size_t s = 0; s < e.series.size(); ++s)
            legend.push_back(
                {e.series[s].name, colours[s], e.kind != Kind::line ? "block" : e.series[s].dashed ? "dash" : ""});
    const std::string chart = chart_of(e, colours, cat(e.title, e.caption.empty() ? "" : ": ", e.caption));
    const std::string numbers =
        cat("<details class=\"numbers\"><summary>Numbers</summary>", numbers_of(e), "</details>");
    return figure(id, title, e.caption, chart.empty() ? std::vector<Key>{} : legend, chart + numbers, nothing);
}

inline std::vector<std::size_t> in_turn(const Extra& e) {
    std::vector<std::size_t> colours(e.series.size());
    for (std::size_t s = 0; s < colours.size(); ++s) colours[s] = e.shaded ? 0 : s;
    return colours;
}

// Ids are unique within a run, not over runs, kinds and figures across them.
inline void name_once(Extra& extra, std::vector<std::string>& taken) {
    const std::string id = extra.id;
    for (std::size_t n = 2; std::ranges::find(taken, extra.id) != taken.end(); ++n)
        extra.id = cat(id, "-again-", digits(n));
    taken.push_back(extra.id);
}

// The extras of several runs as figures that show all of them.
//
//   line           one figure; a run keeps one colour while it has one solid line
//   scatter, violin   one figure for each name of a series, a series for each run
//   bars, table    one, where categories (or else the names of the series) agree
//   heat           one for each run
class Gathered {
public:
    explicit Gathered(const Runs& runs) : runs_(runs) {
        for (std::size_t i = 0; i < runs.all.size(); ++i)
            for (const auto& extra : runs.all[i].extras) {
                if (!runs.many()) open(extra, in_turn(extra));
                else if (extra.kind == Kind::line) line(extra, i);
                else if (extra.kind == Kind::scatter || extra.kind == Kind::violin) by_series(extra, i);
                else if (extra.kind == Kind::heat) beside(extra, i);
                else by_category(extra, i);
            }
    }
    // Figures before these have the ids `taken`.
    std::string write(std::vector<std::string>& taken) && {
        std::string out;
        for (auto& each : all_) {
            name_once(each.extra, taken);
            out += drawn(each.extra, each.colours);
        }
        return out;
    }

private:
    struct Figure {
        Extra extra;
        std::vector<std::size_t> colours;
        std::string from{}, about{};  // of a figure for one series: the id of what it was taken from, the series' name
    };

    Figure& open(Extra extra, std::vector<std::size_t> colours) {
        return all_.emplace_back(Figure{std::move(extra), std::move(colours)});
    }
    Figure* find(const std::string& id, Kind kind) {
        const auto same = [&](const Figure& each) { return each.extra.id == id && each.extra.kind == kind; };
        const auto found = std::ranges::find_if(all_, same);
        return found == all_.end() ? nullptr : &*found;
    }
    std::string named(const Extra::Series& series, std::size_t run) const {
        return series.name.empty() ? runs_.names[run] : runs_.called(run, series.name);
    }
    void append(Figure& to, Extra::Series series, std::string name, std::size_t colour) const {
        series.name = std::move(name);
        to.extra.series.push_back(std::move(series));
        to.colours.push_back(colour);
    }

    void line(const Extra& extra, std::size_t run) {
        const bool one_solid = std::ranges::count(extra.series, false, &Extra::Series::dashed) <= 1;
        Figure* to = find(extra.id, extra.kind);
        if (!to) to = &open(without_series(extra), {});
        to->extra.shaded = false;  // of more than one middle it would not be clear whose limits it shows
        for (const auto& series : extra.series)
            append(*to, series, named(series, run), one_solid ? runs_.colour_of(run) : to->colours.size());
    }
    // By name: a run may lack a series that the others have, and order them in its own way.
    void by_series(const Extra& extra, std::size_t run) {
        for (const auto& series : extra.series) {
            const auto akin = [&](const Figure& f) { return f.extra.kind == extra.kind && f.from == extra.id; };
            const auto found =
                std::ranges::find_if(all_, [&](const Figure& f) { return akin(f) && f.about == series.name; });
            Figure* to = found == all_.end() ? nullptr : &*found;
            if (!to) {
                const auto before = static_cast<std::size_t>(std::ranges::count_if(all_, akin));
                to = &open(without_series(extra), {});
                to->from = extra.id;
                to->about = series.name;
                if (before > 0) to->extra.id += cat("-", digits(before));
                if (!series.name.empty()) to->extra.title += cat(", ", series.name);
            }
            append(*to, series, runs_.names[run], runs_.colour_of(run));
        }
    }
    void by_category(const Extra& extra, std::size_t run) {
        Figure* to = find(extra.id, extra.kind);
        const bool by_rows = extra.kind == Kind::table && extra.series.size() > 1;
        if (!to) {
            Figure& fresh = open(without_series(extra), {});
            if (by_rows) {
                fresh.extra.categories.clear();
                for (const auto& series : extra.series) append(fresh, {}, series.name, 0);
            }
            to = &fresh;
        }
        if (!by_rows && to->extra.categories == extra.categories)
            for (const auto& series : extra.series)
                append(*to, series, extra.series.size() == 1 ? runs_.names[run] : named(series, run),
                       extra.series.size() == 1 ? runs_.colour_of(run) : to->colours.size());
        else if (by_rows && std::ranges::equal(to->extra.series, extra.series, {}, &Extra::Series::name,
                                               &Extra::Series::name))
            add_rows(to->extra, extra, run);
        else beside(extra, run);
    }
    void add_rows(Extra& to, const Extra& from, std::size_t run) const {
        for (const auto& category : from.categories) to.categories.push_back(runs_.called(run, category));
        for (std::size_t s = 0; s < from.series.size(); ++s) {
            const auto& [name, x, y, texts, dashed] = from.series[s];
            auto& column = to.series[s];
            if (!texts.empty()) column.texts.resize(column.y.size());
            column.y.insert(column.y.end(), y.begin(), y.end());
            column.texts.insert(column.texts.end(), texts.begin(), texts.end());
            if (!column.texts.empty()) column.texts.resize(column.y.size());
        }
    }
    void beside(Extra extra, std::size_t run) {
        extra.title += cat(", ", runs_.names[run]);
        if (find(extra.id, extra.kind)) extra.id += cat("-run-", digits(run + 1));
        open(extra, in_turn(extra));
    }
    static Extra without_series(Extra extra) {
        extra.series.clear();
        return extra;
    }

    const Runs& runs_;
    std::vector<Figure> all_;
};

// Tables across runs are what the page is for; they lead it. Their ids go into `taken`.
inline std::string leading_tables(const std::vector<Extra>& across, std::vector<std::string>& taken) {
    std::string out;
    for (Extra extra : across) {
        if (extra.kind != Kind::table) continue;
        name_once(extra, taken);
        out += drawn(extra, in_turn(extra));
    }
    return out.empty() ? out : cat("<h2>Comparison</h2>\n<div class=\"grid\">\n", out, "</div>\n");
}

inline std::string extra_figures(const Runs& runs, const std::vector<Extra>& across, std::vector<std::string>& taken) {
    std::string out;
    for (Extra extra : across) {
        if (extra.kind == Kind::table) continue;
        name_once(extra, taken);
        out += drawn(extra, in_turn(extra));
    }
    out += Gathered(runs).write(taken);
    return out.empty() ? out : cat("<h2>Analyses</h2>\n<div class=\"grid\">\n", out, "</div>\n");
}

}  // namespace lab::page
