// SPDX-License-Identifier: BSD-3-Clause
// Text as examples of a next-token task: a window of ids, and the id that follows as the label.
//
//   id 0         pad
//   1 .. V       the V most frequent characters or words, the most frequent first, equals by byte
//   V + 1        a token that is not among them     V + 2, V + 3   begin and end of a text
//
// Characters are UTF-8 code points. Words are what white space separates, and each of , . ! ? ; : is one of its own.
// A vocabulary is a file of one token a line with a checksum, so that another run reads the same ids.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/pool.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/split_file.hpp>
#include <tessera/io/tensor.hpp>

namespace tessera::io {

enum class TextUnit : std::uint8_t { characters, words };
constexpr std::array<std::string_view, 2> words_of(TextUnit) { return {"characters", "words"}; }

struct TextSettings {
    TextUnit unit = TextUnit::characters;
    std::size_t most = 10000;  // V, at most
    bool lower_case = false;   // A to Z are read as a to z
};

// f(piece) for each character or word.
template <class F>
void for_each_token(std::string_view text, TextUnit unit, F&& f) {
    const auto blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
    const auto mark = [](char c) { return std::string_view(",.!?;:").find(c) != std::string_view::npos; };
    while (!text.empty()) {
        std::size_t n = 1;
        if (unit == TextUnit::characters)
            while (n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) ++n;
        else if (!blank(text[0]) && !mark(text[0]))
            while (n < text.size() && !blank(text[n]) && !mark(text[n])) ++n;
        if (unit == TextUnit::characters || !blank(text[0])) f(text.substr(0, n));
        text.remove_prefix(n);
    }
}

class Vocabulary {
public:
    static constexpr std::int32_t pad = 0;

    static Vocabulary of(std::span<const std::string_view> texts, const TextSettings& settings) {
        std::map<std::string, std::size_t, std::less<>> count;
        Vocabulary v;
        v.unit_ = settings.unit;
        v.lower_case_ = settings.lower_case;
        for (const auto text : texts)
            for_each_token(v.cased(text), v.unit_, [&](std::string_view token) {
                const auto at = count.find(token);
                if (at != count.end()) ++at->second;
                else count.emplace(token, 1);
            });
        std::vector<std::pair<std::string, std::size_t>> order(count.begin(), count.end());
        std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
        for (std::size_t i = 0; i < std::min(order.size(), settings.most); ++i) v.add(std::move(order[i].first));
        return v;
    }

    TextUnit unit() const { return unit_; }
    std::size_t size() const { return tokens_.size() + 4; }  // ids are below it
    std::int32_t unknown() const { return static_cast<std::int32_t>(tokens_.size()) + 1; }
    std::int32_t begin() const { return unknown() + 1; }
    std::int32_t end() const { return unknown() + 2; }
    const std::vector<std::string>& tokens() const { return tokens_; }  // of ids 1, 2, ...

    std::int32_t id(std::string_view token) const {
        const auto at = ids_.find(token);
        return at == ids_.end() ? unknown() : at->second;
    }
    std::vector<std::int32_t> ids(std::string_view text) const {
        std::vector<std::int32_t> out;
        for_each_token(cased(text), unit_, [&](std::string_view token) { out.push_back(id(token)); });
        return out;
    }
    friend bool operator==(const Vocabulary&, const Vocabulary&) = default;

    friend std::string encode_vocabulary(const Vocabulary& v) {
        std::string text = std::string(magic) + std::string(v.unit_word());
        text += v.lower_case_ ? " lower " : " as-is ";
        text += std::to_string(v.tokens_.size()) + "\n";
        for (const auto& token : v.tokens_) {
            for (const char c : token)
                text += c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\\' ? "\\\\" : std::string(1, c);
            text += '\n';
        }
        return text + detail::split_checksum(text);
    }
    // `name` is what errors call the text.
    friend Vocabulary decode_vocabulary(std::string_view text, const std::string& name) {
        const std::size_t sum = detail::split_checksum({}).size();
        const std::string_view body = text.substr(0, text.size() - std::min(text.size(), sum));
        if (!body.starts_with(magic)) throw IoError(name, "is not a tessera vocabulary of version 1");
        if (text.substr(body.size()) != detail::split_checksum(body))
            throw IoError(name, "the checksum in the last line does not fit: the file is damaged or cut short");
        detail::SplitText in(body.substr(magic.size()), name);
        Vocabulary v;
        v.unit_ = in.accept("words ") ? TextUnit::words : TextUnit::characters;
        if (v.unit_ == TextUnit::characters) in.expect("characters ");
        v.lower_case_ = in.accept("lower ");
        if (!v.lower_case_) in.expect("as-is ");
        const std::uint64_t count = in.number("the number of tokens");
        in.end_line();
        std::string_view rest = body.substr(std::min(body.find('\n'), body.size() - 1) + 1);
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::string where = "token " + std::to_string(i + 1);
            const auto end = rest.find('\n');
            if (end == rest.npos) throw IoError(name, where + " of " + std::to_string(count) + " is not there");
            std::string token;
            for (std::size_t at = 0; at < end; ++at) {
                if (rest[at] == '\r') throw IoError(name, where + " has a carriage return that is not written \\r");
                if (rest[at] != '\\') {
                    token += rest[at];
                    continue;
                }
                const char next = ++at < end ? rest[at] : ' ';
                if (next != 'n' && next != 'r' && next != '\\') throw IoError(name, where + " has a stray backslash");
                token += next == 'n' ? '\n' : next == 'r' ? '\r' : '\\';
            }
            std::size_t pieces = 0;
            for_each_token(token, v.unit_, [&](std::string_view piece) { pieces += piece == token ? 1u : 2u; });
            if (pieces != 1) throw IoError(name, where + " is none of " + std::string(v.unit_word()));
            if (!v.add(std::move(token))) throw IoError(name, where + " is there twice");
            rest.remove_prefix(end + 1);
        }
        if (!rest.empty()) throw IoError(name, "has more tokens than the " + std::to_string(count) + " it announces");
        return v;
    }

private:
    static constexpr std::string_view magic = "tessera-vocabulary 1 ";

    std::string_view unit_word() const { return words_of(unit_)[static_cast<std::size_t>(unit_)]; }
    bool add(std::string token) {
        // Ids are read as floats, which count without gaps to 2^24.
        tessera::detail::require(tokens_.size() + 4 < (std::size_t{1} << 24), "io::Vocabulary: more than 2^24 tokens");
        tokens_.push_back(token);
        return ids_.emplace(std::move(token), static_cast<std::int32_t>(tokens_.size())).second;
    }
    std::string cased(std::string_view text) const {
        std::string out(text);
        if (lower_case_)
            for (char& c : out)
                if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
        return out;
    }

    TextUnit unit_ = TextUnit::characters;
    bool lower_case_ = false;
    std::vector<std::string> tokens_;
    std::map<std::string, std::int32_t, std::less<>> ids_;
};

std::string encode_vocabulary(const Vocabulary& vocabulary);
Vocabulary decode_vocabulary(std::string_view text, const std::string& name);

inline void write_vocabulary(const std::string& path, const Vocabulary& vocabulary) {
    const std::string text = encode_vocabulary(vocabulary);
    write_file_atomically(path, std::as_bytes(std::span(text)));
}
inline Vocabulary read_vocabulary(const std::string& path) {
    const auto bytes = read_file(path);
    return decode_vocabulary({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

struct WindowSettings {
    std::size_t length = 80, stride = 1;
    double train_share = 0.9;  // in (0, 1]: of each client's windows, the first max(1, floor(share * n)) train
    bool framed = false;       // a begin before and an end behind each text

    void validate() const {
        using tessera::detail::require;
        require(length > 0 && length <= (std::size_t{1} << 20), "io::WindowSettings: length must be in 1..2^20");
        require(stride > 0, "io::WindowSettings: stride must be at least 1");
        require(train_share > 0 && train_share <= 1, "io::WindowSettings: train_share must be in (0, 1]");
    }
};

struct ClientText {
    std::string client;
    std::vector<std::string> texts;
};

// All windows of all clients over one copy of the ids. Windows keep their order, and those that overlap the last
// training window are left out, so that no test label has been read in training (LEAF drops 79 for windows of 80).
// A text that is shorter than a window and its label is padded in front. Clients must come with different names.
inline data::Pool text_pool(std::span<const ClientText> clients, const Vocabulary& vocabulary,
                            const WindowSettings& s) {
    s.validate();
    struct Holder {
        std::vector<std::int32_t> ids;
        std::vector<std::size_t> starts;
    };
    struct Window {
        std::size_t start;
        Id client;
    };
    auto kept = std::make_shared<Holder>();
    data::Pool pool;
    std::vector<const ClientText*> sorted;
    for (const auto& each : clients) sorted.push_back(&each);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->client < b->client; });

    std::vector<Window> train, test;
    for (const auto* each : sorted) {
        tessera::detail::require(pool.clients.empty() || pool.clients.back() != each->client,
                                 "io::text_pool: two clients are called '" + each->client + "'");
        const auto client = static_cast<Id>(pool.clients.size());
        std::vector<std::size_t> starts;
        for (const auto& text : each->texts) {
            auto ids = vocabulary.ids(text);
            if (s.framed) {
                ids.insert(ids.begin(), vocabulary.begin());
                ids.push_back(vocabulary.end());
            }
            if (ids.size() < 2) continue;  // nothing follows anything
            if (ids.size() < s.length + 1) ids.insert(ids.begin(), s.length + 1 - ids.size(), Vocabulary::pad);
            for (std::size_t at = 0; at + s.length < ids.size(); at += s.stride)
                starts.push_back(kept->ids.size() + at);
            kept->ids.insert(kept->ids.end(), ids.begin(), ids.end());
        }
        if (starts.empty()) continue;
        pool.clients.push_back(each->client);
        const std::size_t cut = std::max<std::size_t>(1, data::detail::part_of(s.train_share, starts.size()));
        for (std::size_t i = 0; i < cut; ++i) train.push_back({starts[i], client});
        for (std::size_t i = cut; i < starts.size(); ++i)
            if (starts[i] >= starts[cut - 1] + s.length) test.push_back({starts[i], client});
    }
    tessera::detail::require(!train.empty(), "io::text_pool: no text has two tokens");
    pool.train_size = train.size();
    std::vector<std::int32_t> labels;
    for (const auto* part : {&train, &test})
        for (const auto& window : *part) {
            kept->starts.push_back(window.start);
            pool.client_of.push_back(window.client);
            labels.push_back(kept->ids[window.start + s.length]);
        }
    const auto fetch = [kept](std::size_t i, std::span<float> out) {
        const auto* from = kept->ids.data() + kept->starts[i];
        for (std::size_t j = 0; j < out.size(); ++j) out[j] = static_cast<float>(from[j]);
    };
    const auto recipe = [kept] {
        Hasher h;
        h.add(bulk_fingerprint(std::as_bytes(std::span(kept->ids))));
        h.add(bulk_fingerprint(std::as_bytes(std::span(kept->starts))));
        return h.finish();
    };
    pool.examples = data::Dataset::from(fetch, s.length, std::move(labels), vocabulary.size(), recipe);
    return pool;
}

namespace detail {

// What a text must be; the line where it is not is named.
inline void require_text(std::string_view text, const std::string& name) {
    if (text.find('\0') == text.npos && is_utf8(text)) return;
    for (std::size_t line = 1;; ++line) {
        const auto end = std::min(text.find('\n'), text.size());
        const auto here = text.substr(0, end);
        const auto refuse = [&](const char* what) { throw IoError(name, what + std::to_string(line)); };
        if (here.find('\0') != here.npos) refuse("is no text: there is a NUL byte in line ");
        if (!is_utf8(here)) refuse("is not UTF-8 text in line ");
        if (end == text.size()) return;
        text.remove_prefix(end + 1);
    }
}

}  // namespace detail

// A file of UTF-8.
inline std::string read_text(const std::string& path) {
    const auto bytes = read_file(path);
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    detail::require_text(text, path);
    return text;
}

// Every .txt file of a directory is a client with one text; its name is the file's without the ending. A directory in
// it is a client too, with a text for each of its .txt files, in the order of their names.
inline std::vector<ClientText> read_client_texts(const std::string& directory) {
    std::vector<ClientText> clients;
    const auto is_text = [](std::string_view name) { return name.ends_with(".txt"); };
    for (const auto& name : list_files(directory))
        if (is_text(name)) clients.push_back({name.substr(0, name.size() - 4), {read_text(directory + "/" + name)}});
    for (const auto& client : list_directories(directory)) {
        const auto inside = directory + "/" + client;
        ClientText one{client, {}};
        for (const auto& name : list_files(inside))
            if (is_text(name)) one.texts.push_back(read_text(inside + "/" + name));
        if (!one.texts.empty()) clients.push_back(std::move(one));
    }
    if (clients.empty()) throw IoError(directory, "holds no .txt file");
    return clients;
}

}  // namespace tessera::io
