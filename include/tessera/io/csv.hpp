// SPDX-License-Identifier: BSD-3-Clause
// Tables as comma-separated values (RFC 4180): a header line, then one example a line.
//
//   read_csv("chem97.csv", {.label = "score", .client = "school", .ignore = {"lea"}})
//   read_csv("houses.csv", {.label = "", .targets = {"price"}})                   real targets instead of classes
//
// Cells may be quoted ("" is a quote inside), lines end with LF or CRLF, the last one may go without. Features are
// numbers. Classes are the label's different values in order, by number where all are whole numbers, else by byte;
// clients are the different values of their column. A missing value, a cell that is no number, a line of another length
// and a quote without end are refused with their line and column. Nothing is guessed and no line is left out.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/pool.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/tensor.hpp>

namespace tessera::io {

struct CsvSettings {
    std::string label;
    std::string client{};               // empty: the table names no clients
    std::vector<std::string> ignore{};  // columns that are no features
    char separator = ',';
    std::vector<std::string> targets{};  // columns of real targets, in the order of the table; then there is no label
};

struct CsvTable {
    data::Pool pool;
    std::vector<std::string> features, classes;  // names, in the order of the columns and of the labels
};

namespace detail {

// Cells, one line at a time. Lines are counted as an editor does, also inside quotes.
class CsvText {
public:
    CsvText(std::string_view text, char separator, const std::string& name)
        : rest_(text), separator_(separator), name_(name) {
        if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    }
    [[noreturn]] void refuse(const std::string& what) const {
        throw IoError(name_, "line " + std::to_string(line_) + ": " + what);
    }
    bool done() const { return rest_.empty(); }
    std::size_t line() const { return line_; }  // where the last line that was read begins

    void next(std::vector<std::string>& cells) {
        line_ = ahead_;
        cells.clear();
        while (cell(cells.emplace_back())) {
        }
    }

private:
    // False at the end of the line.
    bool cell(std::string& out) {
        if (!rest_.empty() && rest_.front() == '"') quoted(out);
        else plain(out);
        if (rest_.empty()) return false;
        const char end = rest_.front();
        rest_.remove_prefix(1);
        if (end == separator_) return true;
        if (end == '\r' && (rest_.empty() || rest_.front() != '\n')) refuse("a carriage return without a line feed");
        if (end == '\r') rest_.remove_prefix(1);
        else if (end != '\n') refuse("text behind a closing quote");
        ++ahead_;
        return false;
    }
    void plain(std::string& out) {
        std::size_t n = 0;
        for (; n < rest_.size() && rest_[n] != separator_ && rest_[n] != '\n' && rest_[n] != '\r'; ++n)
            if (rest_[n] == '"') refuse("a quote inside a cell that does not begin with one");
        out = rest_.substr(0, n);
        rest_.remove_prefix(n);
    }
    void quoted(std::string& out) {
        for (std::size_t i = 1; i < rest_.size(); ++i) {
            if (rest_[i] == '\n') ++ahead_;
            if (rest_[i] != '"') {
                out += rest_[i];
            } else if (i + 1 < rest_.size() && rest_[i + 1] == '"') {
                out += '"';
                ++i;
            } else {
                rest_.remove_prefix(i + 1);
                return;
            }
        }
        refuse("a quote is opened and never closed");
    }

    std::string_view rest_;
    char separator_;
    const std::string& name_;
    std::size_t line_ = 1, ahead_ = 1;
};

inline std::string_view without_blanks(std::string_view text) {
    const auto begin = text.find_first_not_of(" \t");
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

inline bool is_missing(std::string_view text) {
    return text.empty() || text == "NA" || text == "NaN" || text == "nan" || text == "?" || text == "null";
}

template <class T>
bool parsed(std::string_view text, T& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size();
}

// The place of each text among the different ones, which come out in order.
inline std::vector<std::string> ranked(const std::vector<std::string>& texts, bool by_number,
                                       std::vector<std::size_t>& rank) {
    const auto less = [by_number](const std::string& a, const std::string& b) {
        std::int64_t x = 0, y = 0;
        if (by_number && parsed<std::int64_t>(a, x) && parsed<std::int64_t>(b, y) && x != y) return x < y;
        return a < b;
    };
    std::map<std::string, std::size_t, decltype(less)> place(less);
    for (const auto& text : texts) place.emplace(text, 0);
    std::vector<std::string> names;
    for (auto& [text, at] : place) {
        at = names.size();
        names.push_back(text);
    }
    rank.clear();
    for (const auto& text : texts) rank.push_back(place.find(text)->second);
    return names;
}

}  // namespace detail

// `name` is what errors call the text.
inline CsvTable decode_csv(std::string_view text, const CsvSettings& settings, const std::string& name) {
    tessera::detail::require(settings.targets.empty() || settings.label.empty(),
                             "io::read_csv: a table has a label or real targets, not both");
    detail::CsvText in(text, settings.separator, name);
    std::vector<std::string> header, cells;
    if (in.done()) throw IoError(name, "is empty; a table begins with a line of column names");
    in.next(header);
    enum class Use { feature, label, target, client, nothing };
    std::vector<Use> uses;
    std::size_t features = 0;
    std::unordered_set<std::string_view> columns;  // there may be as many as bytes
    const std::unordered_set<std::string_view> ignore(settings.ignore.begin(), settings.ignore.end());
    const std::unordered_set<std::string_view> targets(settings.targets.begin(), settings.targets.end());
    for (std::size_t c = 0; c < header.size(); ++c) {
        header[c] = detail::without_blanks(header[c]);
        if (!columns.insert(header[c]).second) in.refuse("two columns are called " + detail::in_quotes(header[c]));
        const bool ignored = ignore.contains(header[c]);
        uses.push_back(targets.contains(header[c])                                ? Use::target
                       : targets.empty() && header[c] == settings.label           ? Use::label
                       : !settings.client.empty() && header[c] == settings.client ? Use::client
                       : ignored                                                  ? Use::nothing
                                                                                  : Use::feature);
        features += uses.back() == Use::feature ? 1 : 0;
    }
    const auto require_column = [&](const std::string& column, std::string_view what) {
        if (!columns.contains(column))
            in.refuse("there is no column " + detail::in_quotes(column) + ", which is asked for as " +
                      std::string(what));
    };
    if (targets.empty()) require_column(settings.label, "the label");
    for (const auto& column : settings.targets) require_column(column, "a target");
    if (!settings.client.empty()) require_column(settings.client, "the client");
    for (const auto& column : settings.ignore) require_column(column, "one to ignore");
    if (features == 0) in.refuse("no column is left to be a feature");

    constexpr double most = std::numeric_limits<float>::max();
    std::vector<float> rows;
    std::vector<double> real;
    std::vector<std::string> labels, owners;
    bool whole_numbers = true;
    while (!in.done()) {
        in.next(cells);
        if (cells.size() != header.size())
            in.refuse("there are " + std::to_string(cells.size()) + " cells, but the header has " +
                      std::to_string(header.size()));
        for (std::size_t c = 0; c < cells.size(); ++c) {
            if (uses[c] == Use::nothing) continue;
            const auto cell = detail::without_blanks(cells[c]);
            const auto refuse = [&](const std::string& what) {
                in.refuse("column " + detail::in_quotes(header[c]) + ": " + what);
            };
            if (detail::is_missing(cell)) refuse("the value is missing");
            if (uses[c] == Use::feature) {
                double value = 0;
                if (!detail::parsed(cell, value) || !(std::abs(value) <= most))
                    refuse(detail::in_quotes(cell) + " is not a number that a feature can be");
                rows.push_back(static_cast<float>(value));
            } else if (uses[c] == Use::target) {
                double value = 0;
                if (!detail::parsed(cell, value) || !(std::abs(value) <= most))
                    refuse(detail::in_quotes(cell) + " is not a number that a target can be");
                real.push_back(value);
            } else {
                std::int64_t number = 0;
                if (uses[c] == Use::label) whole_numbers = whole_numbers && detail::parsed(cell, number);
                (uses[c] == Use::label ? labels : owners).emplace_back(cell);
            }
        }
    }
    if (labels.empty() && real.empty()) throw IoError(name, "has a header, but no example");

    CsvTable table;
    for (std::size_t c = 0; c < header.size(); ++c)
        if (uses[c] == Use::feature) table.features.push_back(header[c]);
    std::vector<std::size_t> rank;
    if (!targets.empty()) {
        table.pool.examples = data::Dataset::regression(std::move(rows), std::move(real), targets.size());
    } else {
        table.classes = detail::ranked(labels, whole_numbers, rank);
        std::vector<std::int32_t> classes;
        for (const std::size_t r : rank) classes.push_back(static_cast<std::int32_t>(r));
        table.pool.examples = data::Dataset::own(std::move(rows), std::move(classes), table.classes.size());
    }
    if (!settings.client.empty()) {
        table.pool.clients = detail::ranked(owners, false, rank);
        for (const std::size_t r : rank) table.pool.client_of.push_back(static_cast<Id>(r));
    }
    return table;
}

inline CsvTable read_csv(const std::string& path, const CsvSettings& settings) {
    const auto bytes = read_file(path);
    return decode_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, settings, path);
}

}  // namespace tessera::io
