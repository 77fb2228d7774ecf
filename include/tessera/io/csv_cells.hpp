// SPDX-License-Identifier: BSD-3-Clause
// The cells of a table as text, line by line, and what single cells mean; csv.hpp makes examples of them.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/io/tensor.hpp>

namespace tessera::io::detail {

// Cells, one line at a time. Lines are counted as an editor does, also inside quotes.
class CsvText {
public:
    // `lenient`: a quote out of place is a character, while it is not known what separates the cells.
    CsvText(std::string_view text, char separator, const std::string& name, bool lenient = false)
        : rest_(text), separator_(separator), lenient_(lenient), name_(&name) {
        if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    }
    [[noreturn]] void refuse(const std::string& what) const {
        throw IoError(*name_, "line " + std::to_string(line_) + ": " + what);
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
        if (!lenient_ && !rest_.empty() && rest_.front() == '"') quoted(out);
        else plain(out);
        if (rest_.empty()) return false;
        const char end = rest_.front();
        rest_.remove_prefix(1);
        if (end == separator_) return true;
        if (end == '\r' && lenient_) return false;
        if (end == '\r' && (rest_.empty() || rest_.front() != '\n')) refuse("a carriage return without a line feed");
        if (end == '\r') rest_.remove_prefix(1);
        else if (end != '\n') refuse("text behind a closing quote");
        ++ahead_;
        return false;
    }
    void plain(std::string& out) {
        std::size_t n = 0;
        for (; n < rest_.size() && rest_[n] != separator_ && rest_[n] != '\n' && rest_[n] != '\r'; ++n)
            if (rest_[n] == '"' && !lenient_) refuse("a quote inside a cell that does not begin with one");
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
    bool lenient_;
    const std::string* name_;
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

// The value of a cell; with another separator the comma may stand for the point.
inline bool number_in(std::string_view cell, char separator, double& value) {
    if (cell.size() > 1 && cell.front() == '+' && cell[1] != '-' && cell[1] != '+') cell.remove_prefix(1);
    if (parsed(cell, value)) return std::abs(value) <= double{std::numeric_limits<float>::max()};
    const auto comma = cell.find(',');
    if (separator == ',' || comma == cell.npos) return false;
    std::string pointed(cell);
    pointed[comma] = '.';
    return parsed(std::string_view(pointed), value) && std::abs(value) <= double{std::numeric_limits<float>::max()};
}

// The place of each text among the different ones, which come out in order.
inline std::vector<std::string> ranked(const std::vector<std::string>& texts, bool by_number,
                                       std::vector<std::size_t>& rank) {
    const auto less = [by_number](const std::string& a, const std::string& b) {
        double x = 0, y = 0;
        if (by_number && parsed(std::string_view(a), x) && parsed(std::string_view(b), y) && x != y) return x < y;
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

inline char separator_of(std::string_view text, const std::string& name) {
    char best = ',';
    std::size_t most = 0;
    for (const char candidate : {',', ';', '\t', '|'}) {
        std::vector<std::string> cells;
        CsvText(text, candidate, name, true).next(cells);
        if (cells.size() > std::max<std::size_t>(most, 1)) most = cells.size(), best = candidate;
    }
    return best;
}

// What is plainly no text is called by its name, with what to do about it.
inline void refuse_unless_text(std::string_view bytes, const std::string& name) {
    struct Form {
        std::string_view begin, end;
        const char* what;
    };
    static constexpr std::array<Form, 8> forms{{
        {"PK\x03\x04", "", "is a zip archive, as .xlsx and .ods are; save the sheet as CSV, or unzip the table"},
        {"\xD0\xCF\x11\xE0", "", "is a file of an old Excel; save the sheet as CSV"},
        {"PAR1", "PAR1", "is a Parquet file; write it as CSV"},
        {"BZh91AY&SY", "", "is compressed by bzip2; decompress it"},
        {"\xFD" "7zXZ", "", "is compressed by xz; decompress it"},
        {"(\xB5/\xFD", "", "is compressed by zstd; decompress it"},
        {"\xFF\xFE", "", "is text in UTF-16; save it as UTF-8"},
        {"\xFE\xFF", "", "is text in UTF-16; save it as UTF-8"},
    }};
    for (const auto& form : forms)
        if (bytes.starts_with(form.begin) && bytes.ends_with(form.end)) throw IoError(name, form.what);
    if (const auto zero = bytes.find('\0'); zero != bytes.npos)
        throw IoError(name, "is no text: byte " + std::to_string(zero + 1) + " is 0");
}

// Some names, for a sentence about one that is not there.
inline std::string listed(const std::vector<std::string>& names) {
    constexpr std::size_t most = 12;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += (i > 0 ? ", " : "") + in_quotes(names[i]);
    return text + (names.size() > most ? " and " + std::to_string(names.size() - most) + " more" : "");
}

}  // namespace tessera::io::detail
