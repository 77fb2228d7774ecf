// SPDX-License-Identifier: BSD-3-Clause
// Clients' texts as rows of words with a label at every position, the word that follows. From texts to examples:
//
//   auto people = io::read_text_table("speeches.tsv", {.client = "1", .text = "2", .header = false});   // or others
//   auto halves = io::split_by_time(io::joined(people), 0.9, TextUnit::characters);
//   auto words  = io::vocabulary_of(halves.train, {.most = 100});            // of training text only
//   auto pool   = io::sequence_pool(halves, words, {.length = 80});
//
// Each text begins a row; the last row of a text is filled up behind with padding, whose labels are none (-1): they
// cost nothing in a loss, a gradient, a clipped sum or an accuracy. Joined texts leave one such row a client. Names of
// words are kept as bytes where there are at most 256 of them, else as whole numbers of 32 bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/pool.hpp>
#include <tessera/io/csv_cells.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/tensor.hpp>
#include <tessera/io/text.hpp>

namespace tessera::io {

// Texts to train on and to test on. A client may be in both.
struct TextHalves {
    std::vector<ClientText> train{}, test{};
};

struct SequenceSettings {
    std::size_t length = 80;  // positions of a row
    bool framed = false;      // a begin before and an end behind each text

    void validate() const {
        tessera::detail::require(length > 0 && length <= (std::size_t{1} << 20),
                                 "io::SequenceSettings: length (the window of a row) must be in 1..2^20");
    }
};

// One text a client, what it said one after the other.
inline std::vector<ClientText> joined(std::span<const ClientText> clients, std::string_view between = "\n") {
    std::vector<ClientText> out;
    for (const auto& each : clients) {
        std::string text;
        for (const auto& part : each.texts)
            if (!part.empty()) text.append(text.empty() ? std::string_view() : between).append(part);
        out.push_back({each.client, {}});
        if (!text.empty()) out.back().texts.push_back(std::move(text));
    }
    return out;
}

// The first floor(share * n) of each client's n words train, what follows is tested on; a text that the border cuts is
// in both parts. No word of the tests has been read in training.
inline TextHalves split_by_time(std::span<const ClientText> clients, double share, TextUnit unit) {
    tessera::detail::require(share > 0 && share <= 1, "io::split_by_time: the share must lie in (0, 1]");
    TextHalves out;
    for (const auto& each : clients) {
        std::size_t left = 0;
        for (const auto& text : each.texts) for_each_token(text, unit, [&](std::string_view) { ++left; });
        left = data::detail::part_of(share, left);
        ClientText train{each.client, {}}, test{each.client, {}};
        for (const auto& text : each.texts) {
            std::size_t cut = 0, had = 0;  // behind the last word that trains, and words before it
            for_each_token(text, unit, [&](std::string_view token) {
                if (had == left) return;
                ++had;
                cut = static_cast<std::size_t>(token.data() - text.data()) + token.size();
            });
            left -= had;
            if (left > 0) cut = text.size();
            if (cut > 0) train.texts.push_back(text.substr(0, cut));
            if (cut < text.size()) test.texts.push_back(text.substr(cut));
        }
        if (!train.texts.empty()) out.train.push_back(std::move(train));
        if (!test.texts.empty()) out.test.push_back(std::move(test));
    }
    return out;
}

inline Vocabulary vocabulary_of(std::span<const ClientText> clients, const TextSettings& settings) {
    std::vector<std::string_view> texts;
    for (const auto& each : clients) texts.insert(texts.end(), each.texts.begin(), each.texts.end());
    return Vocabulary::of(texts, settings);
}

namespace detail {

// Rows of one length with their labels, and whose they are.
class SequenceRows {
public:
    explicit SequenceRows(std::size_t length) : length_(length) {}

    std::size_t size() const { return client_of_.size(); }
    // ids with the word that follows each, in rows of `length`; the last id only follows.
    void cut(std::span<const std::int32_t> ids, Id client) {
        for (std::size_t at = 0; at + 1 < ids.size(); at += length_) {
            const std::size_t n = std::min(length_, ids.size() - 1 - at);
            row(ids.subspan(at, n), ids.subspan(at + 1, n), client);
        }
    }
    void row(std::span<const std::int32_t> ids, std::span<const std::int32_t> labels, Id client) {
        ids_.insert(ids_.end(), ids.begin(), ids.end());
        ids_.resize(ids_.size() + length_ - ids.size(), Vocabulary::pad);
        labels_.insert(labels_.end(), labels.begin(), labels.end());
        labels_.resize(labels_.size() + length_ - labels.size(), -1);
        client_of_.push_back(client);
    }
    data::Dataset examples(std::size_t words) {
        if (words > 256) return data::Dataset::own(std::move(ids_), std::move(labels_), words, length_);
        std::vector<std::uint8_t> bytes;
        bytes.reserve(ids_.size());
        for (const auto id : ids_) bytes.push_back(static_cast<std::uint8_t>(id));
        ids_ = {};
        return data::Dataset::own(std::move(bytes), std::move(labels_), words, length_);
    }
    std::vector<Id> client_of() && { return std::move(client_of_); }

private:
    std::size_t length_;
    std::vector<std::int32_t> ids_, labels_;
    std::vector<Id> client_of_;
};

}  // namespace detail

// Clients without two words to train on are left out, and their tests with them.
inline data::Pool sequence_pool(const TextHalves& halves, const Vocabulary& vocabulary, const SequenceSettings& s) {
    s.validate();
    const auto ids_of = [&](const std::string& text) {
        auto ids = vocabulary.ids(text);
        if (s.framed && !ids.empty()) {
            ids.insert(ids.begin(), vocabulary.begin());
            ids.push_back(vocabulary.end());
        }
        return ids;
    };
    std::map<std::string, std::vector<std::vector<std::int32_t>>> train;
    for (const auto& each : halves.train) {
        std::vector<std::vector<std::int32_t>> texts;
        for (const auto& text : each.texts)
            if (auto ids = ids_of(text); ids.size() > 1) texts.push_back(std::move(ids));
        if (!texts.empty() && !train.try_emplace(each.client, std::move(texts)).second)
            throw ConfigError("io::sequence_pool: two clients are called '" + each.client + "'");
    }
    tessera::detail::require(!train.empty(), "io::sequence_pool: no client has two words to train on");
    data::Pool pool;
    detail::SequenceRows rows(s.length);
    std::map<std::string_view, Id> number;
    for (const auto& [client, texts] : train) {
        const auto id = static_cast<Id>(pool.clients.size());
        number.emplace(client, id);
        pool.clients.push_back(client);
        for (const auto& ids : texts) rows.cut(ids, id);
    }
    pool.train_size = rows.size();
    std::map<std::string_view, const ClientText*> test;
    for (const auto& each : halves.test)
        if (!test.emplace(each.client, &each).second)
            throw ConfigError("io::sequence_pool: two clients are called '" + each.client + "'");
    for (const auto& [client, id] : number)
        if (const auto at = test.find(client); at != test.end())
            for (const auto& text : at->second->texts) rows.cut(ids_of(text), id);
    pool.examples = rows.examples(vocabulary.size()).of_words(vocabulary.tokens().size());
    pool.client_of = std::move(rows).client_of();
    return pool;
}

struct TextTableSettings {
    std::string client = "client", text = "text";  // names of the columns; without a header their numbers, from 1
    bool header = true;                            // the first line names the columns
    char separator = '\t';     // of columns. Tab: cells are as they stand, with \n, \t, \r and \\ for what they cannot
                               // hold; others: cells may be quoted, as in CSV
};

namespace detail {

// What was said, client by client in the order they first spoke.
class Speakers {
public:
    void add(const std::string& client, std::string text) {
        const auto [at, fresh] = places_.try_emplace(client, clients_.size());
        if (fresh) clients_.push_back({client, {}});
        if (!text.empty()) clients_[at->second].texts.push_back(std::move(text));
    }
    std::vector<ClientText> clients() && { return std::move(clients_); }

private:
    std::map<std::string, std::size_t> places_;
    std::vector<ClientText> clients_;
};

template <class Lines>
std::size_t text_column(const std::string& name, const std::vector<std::string>& first, bool header, Lines& in) {
    if (header) {
        const auto at = std::find(first.begin(), first.end(), name);
        if (at == first.end()) in.refuse("there is no column " + in_quotes(name) + "; there are " + listed(first));
        return static_cast<std::size_t>(at - first.begin());
    }
    std::size_t number = 0;
    if (!parsed(std::string_view(name), number) || number == 0)
        in.refuse("without a header a column is called by its number from 1, not " + in_quotes(name));
    return number - 1;
}

// Lines of cells between tabs, which hold no quotes.
class TabText {
public:
    TabText(std::string_view text, const std::string& name) : rest_(text), name_(&name) {
        if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    }
    [[noreturn]] void refuse(const std::string& what) const {
        throw IoError(*name_, "line " + std::to_string(line_) + ": " + what);
    }
    bool done() const { return rest_.empty(); }
    void next(std::vector<std::string>& cells) {
        ++line_;
        cells.clear();
        const auto end = std::min(rest_.find('\n'), rest_.size());
        auto line = rest_.substr(0, end);
        rest_.remove_prefix(std::min(end + 1, rest_.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        while (true) {
            const auto tab = line.find('\t');
            cells.push_back(unescaped(line.substr(0, tab)));
            if (tab == line.npos) return;
            line.remove_prefix(tab + 1);
        }
    }

private:
    // A backslash before any other letter is itself.
    static std::string unescaped(std::string_view cell) {
        std::string out;
        for (std::size_t i = 0; i < cell.size(); ++i) {
            const char next = cell[i] == '\\' && i + 1 < cell.size() ? cell[i + 1] : '\0';
            const char meant =
                next == 'n' ? '\n' : next == 't' ? '\t' : next == 'r' ? '\r' : next == '\\' ? '\\' : '\0';
            out += meant ? meant : cell[i];
            if (meant) ++i;
        }
        return out;
    }

    std::string_view rest_;
    const std::string* name_;
    std::size_t line_ = 0;
};

template <class Lines>
std::vector<ClientText> texts_in(Lines in, const TextTableSettings& s, const std::string& name) {
    std::vector<std::string> cells;
    if (in.done()) throw IoError(name, "is empty");
    in.next(cells);
    const std::size_t client = text_column(s.client, cells, s.header, in);
    const std::size_t text = text_column(s.text, cells, s.header, in);
    if (client == text) in.refuse("the client and the text are the same column");
    Speakers out;
    const auto keep = [&] {
        if (cells.size() == 1 && cells[0].empty()) return;  // an empty line
        if (cells.size() <= std::max(client, text))
            in.refuse("it has " + std::to_string(cells.size()) + " columns, and column " +
                      std::to_string(std::max(client, text) + 1) + " is asked for");
        if (cells[client].empty()) in.refuse("it names no client");
        out.add(cells[client], std::move(cells[text]));
    };
    if (!s.header) keep();
    while (!in.done()) {
        in.next(cells);
        keep();
    }
    return std::move(out).clients();
}

}  // namespace detail

// A line for each text: whose it is, and what it says. Texts keep their order, which is taken for that of time. `name`
// is what errors call the table. Clients who only have empty texts come out without any.
inline std::vector<ClientText> decode_text_table(std::string_view text, const TextTableSettings& settings,
                                                 const std::string& name) {
    detail::require_text(text, name);
    if (settings.separator == '\t') return detail::texts_in(detail::TabText(text, name), settings, name);
    return detail::texts_in(detail::CsvText(text, settings.separator, name), settings, name);
}
inline std::vector<ClientText> read_text_table(const std::string& path, const TextTableSettings& settings = {}) {
    const auto bytes = read_file(path);
    return decode_text_table({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, settings, path);
}

}  // namespace tessera::io
