// SPDX-License-Identifier: BSD-3-Clause
// A split on disk, so that another run, program or paper deals exactly the same examples.
//
//   tessera-split 1            one field per line, single spaces, numbers in decimal
//   note NAME VALUE            of version 2 alone, any number: how the split was made, in the words of who made it
//   examples 70000             of the pool it was made for
//   labels <32 hex digits>     fingerprint of that pool's labels
//   tests disjoint             or shared: two clients may hold the same test example
//   clients 90
//   unseen 10
//   server [indices]
//   client 0 key <16 hex>      then its lines train, validation and test, each [indices]; clients in order
//   unseen 0 key <16 hex>      then likewise the held-out clients
//   checksum <8 hex>           CRC-32C of everything before this line
//
// Reading refuses a file of another pool, a damaged one, and every split that data::fault_in finds wrong, with
// an IoError that names the line. Writing refuses a wrong split with a ConfigError and replaces the file whole.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tessera/core/checksum.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/fault.hpp>
#include <tessera/io/file.hpp>

namespace tessera::io {

using SplitNotes = std::vector<std::pair<std::string, std::string>>;

// What a split file says before its indices.
struct SplitHead {
    SplitNotes notes{};
    std::uint64_t examples = 0;  // of the pool
    std::string labels{};        // fingerprint of the pool's
    data::Tests tests{};
    std::uint64_t clients = 0, unseen = 0;
};

namespace detail {

inline constexpr std::string_view split_magic = "tessera-split ";
inline constexpr std::uint64_t split_version = 2;  // 1: the same without notes

inline std::string hex_digits(std::uint64_t value, std::size_t digits) {
    std::string text(digits, '0');
    for (auto at = text.rbegin(); at != text.rend(); ++at, value >>= 4) *at = "0123456789abcdef"[value & 15];
    return text;
}

inline std::string split_checksum(std::string_view text) {
    return "checksum " + hex_digits(crc32c(std::as_bytes(std::span(text))), 8) + "\n";
}

inline std::string labels_fingerprint(const data::Dataset& pool) {
    const auto* labels = pool.examples().labels;
    Hasher hasher;
    if (labels) hasher.bytes(labels, pool.size() * pool.examples().labels_each * sizeof *labels);
    return hasher.finish().hex();
}

inline void append_indices(std::string& text, std::string_view field, const std::vector<Index>& indices) {
    text += field;
    char digits[std::numeric_limits<Index>::digits10 + 1];
    for (const Index i : indices) {
        text += ' ';
        text.append(digits, std::to_chars(std::begin(digits), std::end(digits), i).ptr);
    }
    text += '\n';
}

inline void append_shares(std::string& text, std::string_view kind, const std::vector<data::Share>& shares) {
    for (std::size_t k = 0; k < shares.size(); ++k) {
        text.append(kind) += ' ' + std::to_string(k) + " key " + hex_digits(shares[k].key, 16) + '\n';
        append_indices(text, "train", shares[k].train);
        append_indices(text, "validation", shares[k].validation);
        append_indices(text, "test", shares[k].test);
    }
}

// Walks the text of a split file; whatever is not as the format says is refused with its line.
class SplitText {
public:
    SplitText(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

    [[noreturn]] void refuse(const std::string& what) const {
        throw IoError(name_, "line " + std::to_string(line_) + ": " + what);
    }
    bool accept(std::string_view expected) {
        if (!rest_.starts_with(expected)) return false;
        rest_.remove_prefix(expected.size());
        return true;
    }
    void expect(std::string_view expected) {
        if (!accept(expected)) refuse("'" + std::string(expected) + "' is expected here");
    }
    void end_line() {
        if (!accept("\n")) refuse("the line should end here");
        ++line_;
    }
    std::uint64_t number(std::string_view field) {
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
        if (error != std::errc{}) refuse(std::string(field) + " is not a number of at most 64 bits");
        if (rest_.front() == '0' && end != rest_.data() + 1) refuse(std::string(field) + " starts with a zero");
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        return value;
    }
    std::uint64_t key() {
        constexpr std::size_t digits = 16;
        const auto text = rest_.substr(0, digits);
        if (text.size() < digits || text.find_first_not_of("0123456789abcdef") != std::string_view::npos)
            refuse("the key is not 16 hexadecimal digits");
        std::uint64_t value = 0;
        std::from_chars(text.data(), text.data() + digits, value, 16);
        rest_.remove_prefix(digits);
        return value;
    }
    std::string until(std::string_view ends) {
        const auto text = rest_.substr(0, rest_.find_first_of(ends));
        rest_.remove_prefix(text.size());
        return std::string(text);
    }
    SplitHead head() {
        SplitHead out;
        while (accept("note ")) {
            auto name = until(" \n");
            expect(" ");
            out.notes.emplace_back(std::move(name), until("\n"));
            end_line();
        }
        out.examples = count("examples");
        expect("labels ");
        out.labels = until("\n");
        end_line();
        expect("tests ");
        out.tests = accept("shared") ? data::Tests::shared : data::Tests::disjoint;
        if (out.tests == data::Tests::disjoint) expect("disjoint");
        end_line();
        out.clients = count("clients");
        out.unseen = count("unseen");
        return out;
    }
    std::uint64_t count(std::string_view field) {
        expect(std::string(field) + " ");
        const std::uint64_t value = number(field);
        end_line();
        return value;
    }
    std::vector<Index> indices(std::string_view field, std::size_t examples) {
        expect(field);
        std::vector<Index> out;
        while (accept(" ")) {
            const std::uint64_t i = number("an index");
            if (i >= examples)
                refuse("index " + std::to_string(i) + " is not in the pool of " + std::to_string(examples));
            out.push_back(static_cast<Index>(i));
        }
        end_line();
        return out;
    }
    std::vector<data::Share> shares(std::string_view kind, std::uint64_t count, std::size_t examples) {
        std::vector<data::Share> out;
        for (std::uint64_t k = 0; k < count; ++k) {
            expect(std::string(kind) + " " + std::to_string(k) + " key ");
            auto& share = out.emplace_back();
            share.key = key();
            end_line();
            share.train = indices("train", examples);
            share.validation = indices("validation", examples);
            share.test = indices("test", examples);
        }
        return out;
    }
    bool at_end() const { return rest_.empty(); }

private:
    std::string_view rest_;
    const std::string& name_;
    std::size_t line_ = 1;
};

// The text of a whole file behind its first line, which must be one that is read, as must the checksum.
inline SplitText opened_split(std::string_view text, const std::string& name) {
    const std::size_t sum_size = split_checksum({}).size();
    const std::string_view body = text.substr(0, text.size() - std::min(text.size(), sum_size));
    SplitText in(body, name);
    if (!in.accept(split_magic)) throw IoError(name, "is not a tessera split file");
    if (const auto version = in.number("the version"); version < 1 || version > split_version)
        throw IoError(name, "is a split file of version " + std::to_string(version) + ", but only versions up to " +
                                std::to_string(split_version) + " are read");
    if (text.substr(body.size()) != split_checksum(body))
        throw IoError(name, "the checksum in the last line does not fit: the file is damaged or cut short");
    in.end_line();
    return in;
}

}  // namespace detail

inline std::string encode_split(const data::Split& split, const data::Dataset& pool, const SplitNotes& notes = {}) {
    for (const auto& [note, value] : notes)
        tessera::detail::require(
            !note.empty() && note.find_first_of(" \n") == note.npos && value.find('\n') == value.npos,
            "split: a note has a name without blanks and a value of one line");
    bool shared = false;
    if (data::fault_in(split, pool.size(), data::Tests::disjoint)) {
        shared = true;
        if (const auto fault = data::fault_in(split, pool.size(), data::Tests::shared))
            throw ConfigError("split: " + *fault);
    }
    std::string text{detail::split_magic};
    text += std::to_string(notes.empty() ? 1 : detail::split_version);
    for (const auto& [note, value] : notes) text.append("\nnote ").append(note).append(" ").append(value);
    text += "\nexamples " + std::to_string(pool.size());
    text += "\nlabels " + detail::labels_fingerprint(pool);
    text += std::string("\ntests ") + (shared ? "shared" : "disjoint");
    text += "\nclients " + std::to_string(split.clients.size());
    text += "\nunseen " + std::to_string(split.unseen.size()) + "\n";
    detail::append_indices(text, "server", split.server);
    detail::append_shares(text, "client", split.clients);
    detail::append_shares(text, "unseen", split.unseen);
    return text + detail::split_checksum(text);
}

// `name` is what errors call the text.
inline data::Split decode_split(std::string_view text, const std::string& name, const data::Dataset& pool) {
    auto in = detail::opened_split(text, name);
    const SplitHead head = in.head();
    if (head.examples != pool.size())
        throw IoError(name, "is a split of " + std::to_string(head.examples) + " examples, but the pool has " +
                                std::to_string(pool.size()));
    if (head.labels != detail::labels_fingerprint(pool)) throw IoError(name, "is a split of a pool with other labels");
    data::Split split;
    split.server = in.indices("server", pool.size());
    split.clients = in.shares("client", head.clients, pool.size());
    split.unseen = in.shares("unseen", head.unseen, pool.size());
    if (!in.at_end()) in.refuse("the split should end here");
    if (const auto fault = data::fault_in(split, pool.size(), head.tests)) throw IoError(name, *fault);
    return split;
}

inline void write_split(const std::string& path, const data::Split& split, const data::Dataset& pool,
                        const SplitNotes& notes = {}) {
    const std::string text = encode_split(split, pool, notes);
    write_file_atomically(path, std::as_bytes(std::span(text)));
}

inline data::Split read_split(const std::string& path, const data::Dataset& pool) {
    const auto bytes = read_file(path);
    return decode_split({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, pool);
}

// Needs no pool, and checks none.
inline SplitHead read_split_head(const std::string& path) {
    const auto bytes = read_file(path);
    return detail::opened_split({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path).head();
}

}  // namespace tessera::io
