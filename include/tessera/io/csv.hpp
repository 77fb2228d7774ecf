// SPDX-License-Identifier: BSD-3-Clause
// Tables as comma-separated values (RFC 4180): a header line, then one example a line.
//
//   read_csv("chem97.csv", {.label = "score", .client = "school", .ignore = {"lea"}})
//   read_csv("houses.csv", {.label = "", .targets = {"price"}})                   real targets instead of classes
//   read_csv("train.csv", "test.csv", {.label = "y", .one_hot = {"city"}, .missing = Missing::drop})
//
// Cells may be quoted ("" is a quote inside), lines end with LF or CRLF, the last one may go without. Features are
// numbers; a column of words becomes a feature for each different word where the settings say so. With a separator that
// is no comma, 3,5 is a number too. Classes are the label's different values in order, by number where all are whole
// numbers, else by byte; clients are the different values of their column. A missing value, a cell that is no number, a
// line of another length and a quote without end are refused with their line and column, all faults of a file at once.
// So are a first line that holds no names, a label that names no classes (real numbers, or as many values as examples),
// and files that are no text. A first column without a name, as data frames are written with the names of their lines,
// is not read. No line is left out unless `missing` says so.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/pool.hpp>
#include <tessera/io/csv_cells.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/tensor.hpp>

namespace tessera::io {

// What a cell without a value does. `keep`: a feature is NaN, for data::filled_by_mean; a word is none of the words.
enum class Missing : std::uint8_t { refuse, drop, keep };

struct CsvSettings {
    std::string label;
    std::string client{};                // empty: the table names no clients
    std::vector<std::string> ignore{};   // columns that are no features
    char separator = ',';                // 0: the one that the first line has most of, of , ; tab and |
    std::vector<std::string> targets{};  // columns of real targets, in the order of the table; then there is no label
    std::vector<std::string> one_hot{};  // columns whose different values become a feature each
    std::size_t words = 0;  // columns of words that one_hot does not name too, if they have up to so many; 0: refused
    Missing missing = Missing::refuse;
    bool header = true;    // false: there is none, and columns are called 1, 2, ...
    std::size_t skip = 0;  // lines before the header
};

struct CsvTable {
    data::Pool pool;
    std::vector<std::string> features, classes;  // names, in the order of the features and of the labels
    std::vector<std::string> worded{};           // columns of words that became features
    std::vector<std::size_t> numbers_among{};    // how many of each one's cells are numbers
    std::size_t dropped = 0, holes = 0;          // lines that were left out, cells that are NaN
    bool named_lines = false;                    // the first column has no name, and was not read
};

// A file of a table: what it holds, and what errors call it.
struct CsvPart {
    std::string_view text;
    std::string name;
};

namespace detail {

// One column of all files. Features are numbers until most cells turn out to be words.
struct CsvColumn {
    enum class Use { feature, word, label, target, client, nothing };
    struct Word {
        std::size_t row, line, code;
    };

    std::string name;
    Use use;
    std::vector<float> numbers{};      // of a feature: one a row, NaN where there is none
    std::vector<Word> words{};         // cells that are none
    std::size_t numbers_among = 0;     // of a column of words: cells that are
    std::vector<std::string> texts{};  // different words in the order they came; of label and client: one a row
    std::unordered_map<std::string, std::size_t> codes{};
    std::vector<double> reals{};  // of a target: one a row

    std::size_t code_of(std::string_view word) {
        const auto [at, fresh] = codes.try_emplace(std::string(word), texts.size());
        if (fresh) texts.emplace_back(word);
        return at->second;
    }
};

class CsvReader {
    using Use = CsvColumn::Use;

public:
    explicit CsvReader(const CsvSettings& settings) : settings_(settings) {
        tessera::detail::require(settings.targets.empty() || settings.label.empty(),
                                 "io::read_csv: a table has a label or real targets, not both");
    }

    void read(const CsvPart& part) {
        auto text = part.text;
        refuse_unless_text(text, part.name);
        while (text.ends_with("\n\n") || text.ends_with("\n\r\n")) text.remove_suffix(text.ends_with("\r\n") ? 2 : 1);
        const char separator = settings_.separator ? settings_.separator : separator_of(text, part.name);
        CsvText in(text, separator, part.name);
        std::vector<std::string> cells;
        for (std::size_t i = 0; i < settings_.skip && !in.done(); ++i) in.next(cells);
        if (in.done()) throw IoError(part.name, "is empty; a table begins with a line of column names");
        std::vector<std::string> header;
        const CsvText from_first = in;
        in.next(header);
        if (!settings_.header) {
            for (std::size_t c = 0; c < header.size(); ++c) header[c] = std::to_string(c + 1);
            in = from_first;
        }
        for (auto& cell : header) cell = without_blanks(cell);
        const auto places = columns_of(in, header, text);
        std::vector<std::string> faults;
        std::size_t more = 0;
        while (!in.done()) {
            in.next(cells);
            add_row(in, cells, header.size(), places, separator, [&](const std::string& what) {
                constexpr std::size_t told = 10;
                if (faults.size() < told) faults.push_back("line " + std::to_string(in.line()) + ": " + what);
                else ++more;
            });
        }
        refuse_all(part.name, faults, more);
        if (ends_.empty()) name_ = part.name;
        ends_.push_back(rows_);
    }

    CsvTable finish() {
        if (rows_ == 0)
            throw IoError(name_, dropped_ > 0 ? "has a missing value in every line" : "has a header, but no example");
        settle_words();
        CsvTable table;
        table.dropped = dropped_;
        table.holes = holes_;
        table.named_lines = columns_.front().name.empty();
        table.pool.train_size = ends_.size() > 1 ? ends_[0] : 0;
        if (table.pool.train_size == 0 && ends_.size() > 1) throw IoError(name_, "has no example to train on");
        std::vector<std::size_t> rank;
        for (const auto& column : columns_) {
            if (column.use == Use::label) {
                table.classes = ranked(column.texts, is_whole(column), rank);
                std::vector<std::int32_t> classes(rank.begin(), rank.end());
                labels_ = std::move(classes);
            } else if (column.use == Use::client) {
                table.pool.clients = ranked(column.texts, false, rank);
                table.pool.client_of.assign(rank.begin(), rank.end());
            } else if (column.use == Use::word) {
                table.worded.push_back(column.name);
                table.numbers_among.push_back(column.numbers_among);
                for (const auto& word : sorted(column.texts)) table.features.push_back(column.name + "=" + word);
            } else if (column.use == Use::feature) {
                table.features.push_back(column.name);
            }
        }
        if (!settings_.targets.empty()) {
            table.pool.examples =
                data::Dataset::regression(rows(table.features.size()), targets(), settings_.targets.size());
            return table;
        }
        refuse_unless_classes(table.classes.size());
        table.pool.examples = data::Dataset::own(rows(table.features.size()), std::move(labels_), table.classes.size());
        return table;
    }

private:
    static std::vector<std::string> sorted(std::vector<std::string> words) {
        std::ranges::sort(words);
        return words;
    }
    static void refuse_all(const std::string& name, const std::vector<std::string>& faults, std::size_t more) {
        if (faults.empty()) return;
        std::string text;
        for (const auto& fault : faults) text += (text.empty() ? "" : "; ") + fault;
        throw IoError(name, text + (more > 0 ? "; and " + std::to_string(more) + " more faults" : ""));
    }

    // Names that are numbers are names where they rise and are whole, as years and numbers of columns are.
    void refuse_unless_names(const CsvText& in, const std::vector<std::string>& header, std::string_view text) const {
        if (!settings_.header) return;
        std::size_t numbers = 0;
        bool rise = true;
        double before = -1;
        for (const auto& name : header) {
            double value = 0;
            if (!parsed(std::string_view(name), value)) continue;
            ++numbers;
            rise = rise && value == std::floor(value) && value > before;
            before = value;
        }
        const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + (text.ends_with('\n') ? 0 : 1);
        double first = 0;
        if (numbers < header.size() && parsed(std::string_view(header[0]), first) &&
            first == static_cast<double>(lines - in.line()))
            in.refuse("it holds counts (" + in_quotes(header[0]) +
                      " lines follow), not the names of columns; name them there, or skip it (skip=1) and call the "
                      "columns 1, 2, ... (header=none)");
        if (rise || 2 * numbers < header.size()) return;
        in.refuse("it holds numbers, as " + in_quotes(header[0]) +
                  ", not the names of columns; put a line of names before it, or say that there is none (header=none), "
                  "and columns are called 1, 2, ...");
    }

    // The place of each cell of this file among the columns. The first file makes them, another must have the same.
    std::vector<std::size_t> columns_of(const CsvText& in, const std::vector<std::string>& header,
                                        std::string_view text) {
        for (std::size_t c = 1; c < header.size(); ++c)
            if (header[c].empty())
                in.refuse("column " + std::to_string(c + 1) + " has no name; give it one" +
                          (c + 1 == header.size() ? ", or take the separator at the end of each line away" : ""));
        std::unordered_map<std::string_view, std::size_t> names;  // there may be as many as bytes
        for (std::size_t c = 0; c < header.size(); ++c)
            if (!names.emplace(header[c], c).second) in.refuse("two columns are called " + in_quotes(header[c]));
        refuse_unless_names(in, header, text);
        constexpr std::size_t nowhere = ~std::size_t{0};
        std::vector<std::size_t> places(header.size(), nowhere);
        if (columns_.empty()) {
            make_columns(in, header, names);
            for (std::size_t c = 0; c < header.size(); ++c) places[c] = c;
            return places;
        }
        for (std::size_t k = 0; k < columns_.size(); ++k) {
            const auto at = names.find(columns_[k].name);
            if (at != names.end()) places[at->second] = k;
            else if (columns_[k].use != Use::nothing)
                in.refuse("there is no column " + in_quotes(columns_[k].name) + ", which " + name_ + " has");
        }
        for (std::size_t c = 0; c < header.size(); ++c)
            if (places[c] == nowhere)
                in.refuse("there is a column " + in_quotes(header[c]) + ", which " + name_ + " has not");
        return places;
    }
    void make_columns(const CsvText& in, const std::vector<std::string>& header,
                      const std::unordered_map<std::string_view, std::size_t>& names) {
        const auto require_column = [&](const std::string& column, std::string_view what) {
            if (column.empty() || !names.contains(column))
                in.refuse("there is no column " + in_quotes(column) + ", which is asked for as " + std::string(what) +
                          "; there are " + listed(header) +
                          (header.size() > 1 ? ""
                                             : " alone; cells are parted by a comma, a semicolon, a tab or a bar, or "
                                               "by what separator= says, and skip=1 passes over a line before the "
                                               "names"));
        };
        if (settings_.targets.empty()) require_column(settings_.label, "the label");
        for (const auto& column : settings_.targets) require_column(column, "a target");
        if (!settings_.client.empty()) require_column(settings_.client, "the client");
        for (const auto& column : settings_.ignore) require_column(column, "one to ignore");
        for (const auto& column : settings_.one_hot) require_column(column, "one of words");
        const std::unordered_set<std::string_view> ignore(settings_.ignore.begin(), settings_.ignore.end()),
            words(settings_.one_hot.begin(), settings_.one_hot.end()),
            targets(settings_.targets.begin(), settings_.targets.end());
        bool features = false;
        for (const auto& name : header) {
            const Use use = targets.contains(name)                                  ? Use::target
                            : targets.empty() && name == settings_.label            ? Use::label
                            : !settings_.client.empty() && name == settings_.client ? Use::client
                            : ignore.contains(name) || name.empty()                 ? Use::nothing
                            : words.contains(name)                                  ? Use::word
                                                                                    : Use::feature;
            features = features || use == Use::feature || use == Use::word;
            columns_.push_back({.name = name, .use = use});
        }
        if (!features) in.refuse("no column is left to be a feature");
    }

    template <class Fault>
    void add_row(const CsvText& in, const std::vector<std::string>& cells, std::size_t width,
                 const std::vector<std::size_t>& places, char separator, Fault&& fault) {
        if (cells.size() != width) {
            fault("there are " + std::to_string(cells.size()) + " cells, but the header has " + std::to_string(width));
            return;
        }
        bool gone = false;
        for (std::size_t c = 0; c < width; ++c)
            gone = gone || (columns_[places[c]].use != Use::nothing && is_missing(without_blanks(cells[c])));
        if (gone && settings_.missing == Missing::drop) {
            ++dropped_;
            return;
        }
        for (std::size_t c = 0; c < width; ++c) {
            auto& column = columns_[places[c]];
            if (column.use == Use::nothing) continue;
            const auto cell = without_blanks(cells[c]);
            const bool feature = column.use == Use::feature || column.use == Use::word;
            if (is_missing(cell)) {
                if (settings_.missing != Missing::keep)
                    fault("column " + in_quotes(column.name) + ": the value is missing");
                else if (!feature)
                    fault("column " + in_quotes(column.name) + ": the value is missing, and no mean can stand for it");
                else ++holes_;
                if (feature) column.numbers.push_back(std::numeric_limits<float>::quiet_NaN());
                else column.texts.emplace_back();
            } else if (column.use == Use::target) {
                double value = 0;
                if (!number_in(cell, separator, value))
                    fault("column " + in_quotes(column.name) + ": " + in_quotes(cell) +
                          " is not a number that a target can be");
                column.reals.push_back(value);
            } else if (!feature) {
                column.texts.emplace_back(cell);
                if (column.use != Use::label) continue;
                double value = 0;
                label_is_number_ = label_is_number_ && number_in(cell, separator, value);
                if (label_is_number_ && real_at_ == 0 && value != std::floor(value)) real_at_ = in.line(), real_ = cell;
            } else {
                double value = 0;
                const bool number = column.use == Use::feature && number_in(cell, separator, value);
                column.numbers.push_back(number ? static_cast<float>(value) : std::numeric_limits<float>::quiet_NaN());
                if (!number) column.words.push_back({rows_, in.line(), column.code_of(cell)});
            }
        }
        ++rows_;
    }

    // Columns that hold words for the most part are of words; a few words among numbers are faults.
    void settle_words() {
        std::vector<std::string> faults;
        std::size_t more = 0;
        const auto fault = [&](const CsvColumn& column, const CsvColumn::Word& word, const std::string& what) {
            constexpr std::size_t told = 10;
            if (faults.size() >= told) ++more;
            else
                faults.push_back("line " + std::to_string(word.line) + ": column " + in_quotes(column.name) + ": " +
                                 in_quotes(column.texts[word.code]) + what);
        };
        for (auto& column : columns_) {
            if (column.use != Use::feature || column.words.empty()) continue;
            std::size_t numbers = 0;
            for (const float x : column.numbers) numbers += std::isnan(x) ? 0 : 1;
            if (column.words.size() < numbers) {
                for (const auto& word : column.words) fault(column, word, " is not a number that a feature can be");
            } else if (settings_.words == 0) {
                fault(column, column.words[0],
                      " is not a number that a feature can be, nor is most of the column; name it "
                      "in one_hot, a feature for each word, or in ignore");
            } else if (column.texts.size() > settings_.words) {
                fault(column, column.words[0],
                      " is one of " + std::to_string(column.texts.size()) + " different words, above " +
                          std::to_string(settings_.words) +
                          "; name it in ignore, or in one_hot "
                          "if each is to be a feature");
            } else {
                column.use = Use::word;
                column.numbers_among = numbers;
                for (std::size_t row = 0; row < column.numbers.size(); ++row)
                    if (!std::isnan(column.numbers[row]))
                        column.words.push_back({row, 0, column.code_of(digits_of(column.numbers[row]))});
            }
        }
        refuse_all(name_, faults, more);
    }
    static std::string digits_of(float value) {
        std::array<char, 32> text;
        return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
    }

    static bool is_whole(const CsvColumn& column) {
        double value = 0;
        return std::ranges::all_of(column.texts, [&](const std::string& text) {
            return parsed(std::string_view(text), value) && value == std::floor(value);
        });
    }
    void refuse_unless_classes(std::size_t classes) const {
        constexpr std::size_t few = 20;
        if (label_is_number_ && real_at_ != 0)
            throw IoError(name_,
                          "line " + std::to_string(real_at_) + ": column " + in_quotes(settings_.label) + ": " +
                              in_quotes(real_) +
                              " is a real number, and a label names a class; name it as the target (target=COLUMN) for "
                              "a regression, or write classes into the column, as 'low' and 'high'");
        if (classes > few && 2 * classes > rows_)
            throw IoError(name_, "column " + in_quotes(settings_.label) + " has " + std::to_string(classes) +
                                     " different values in " + std::to_string(rows_) +
                                     " examples; a label names classes, which many examples share");
    }

    std::vector<double> targets() const {
        std::vector<double> all;
        for (std::size_t i = 0; i < rows_; ++i)
            for (const auto& column : columns_)
                if (column.use == Use::target) all.push_back(column.reals[i]);
        return all;
    }

    std::vector<float> rows(std::size_t width) const {
        std::vector<float> all(rows_ * width);
        std::size_t at = 0;
        for (const auto& column : columns_) {
            if (column.use == Use::feature) {
                for (std::size_t i = 0; i < rows_; ++i) all[i * width + at] = column.numbers[i];
                ++at;
            } else if (column.use == Use::word) {
                const auto words = sorted(column.texts);
                for (const auto& word : column.words) {
                    const auto place = std::ranges::lower_bound(words, column.texts[word.code]) - words.begin();
                    all[word.row * width + at + static_cast<std::size_t>(place)] = 1;
                }
                at += words.size();
            }
        }
        return all;
    }

    const CsvSettings& settings_;
    std::vector<CsvColumn> columns_;
    std::vector<std::int32_t> labels_;
    std::vector<std::size_t> ends_;  // of the files
    std::string name_, real_;
    std::size_t rows_ = 0, dropped_ = 0, holes_ = 0, real_at_ = 0;  // real_ is a label, in that line
    bool label_is_number_ = true;
};

}  // namespace detail

// One file, or a training and a test file with the same columns.
inline CsvTable decode_csv(std::span<const CsvPart> parts, const CsvSettings& settings) {
    detail::CsvReader reader(settings);
    for (const auto& part : parts) reader.read(part);
    return reader.finish();
}
// `name` is what errors call the text.
inline CsvTable decode_csv(std::string_view text, const CsvSettings& settings, const std::string& name) {
    const CsvPart part{text, name};
    return decode_csv({&part, 1}, settings);
}

namespace detail {

inline std::string csv_text(const std::string& path) {
    const auto bytes = read_file(path);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.starts_with("\x1F\x8B"))
        throw IoError(path,
                      "is gzipped; decompress it, or give decode_csv what io::decode_gzip (io/idx.hpp) makes of it");
    return std::string(text);
}

}  // namespace detail

inline CsvTable read_csv(const std::string& path, const CsvSettings& settings) {
    return decode_csv(detail::csv_text(path), settings, path);
}
inline CsvTable read_csv(const std::string& train, const std::string& test, const CsvSettings& settings) {
    const std::string first = detail::csv_text(train), second = detail::csv_text(test);
    const std::array<CsvPart, 2> parts{{{first, train}, {second, test}}};
    return decode_csv(parts, settings);
}

}  // namespace tessera::io
