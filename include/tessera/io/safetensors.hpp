// SPDX-License-Identifier: BSD-3-Clause
// Named tensors and a few words about them in one file: the safetensors format.
//
//   header length: u64, little-endian | header: JSON, spaces | numbers
//   {"__metadata__": {"key": "text"}, "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
//
// Offsets count from the first number. The reader takes exactly this grammar and no JSON beyond it, so it
// needs no recursion; it refuses headers over 100 MB, repeated or unknown keys, text that is not UTF-8,
// and offsets that do not tile the numbers without gap or overlap. The writer lays out wide numbers first,
// so each is aligned in the file, and lists the tensors in the order given, in which they are read back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/tensor.hpp>

namespace tessera::io {

using Metadata = std::map<std::string, std::string>;

struct Safetensors {
    std::vector<NamedTensor> tensors;
    Metadata metadata;

    friend bool operator==(const Safetensors&, const Safetensors&) = default;
};

namespace detail {

inline constexpr std::size_t safetensors_header_cap = 100'000'000;
inline constexpr std::string_view metadata_key = "__metadata__";

struct Extent {
    std::size_t begin = 0, end = 0;
    friend auto operator<=>(const Extent&, const Extent&) = default;
};

inline unsigned json_hex4(HeaderScanner& in) {
    unsigned value = 0;
    for (int i = 0; i < 4; ++i) {
        constexpr std::string_view digits = "0123456789abcdefABCDEF";
        const std::size_t digit = digits.find(in.next());
        if (digit == std::string_view::npos) in.fail("no hexadecimal digit");
        value = value * 16 + static_cast<unsigned>(digit < 16 ? digit : digit - 6);
    }
    return value;
}

// The code point of \uXXXX, or of the two that stand for one past U+FFFF.
inline unsigned json_unicode(HeaderScanner& in) {
    const unsigned first = json_hex4(in);
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || in.next() != '\\' || in.next() != 'u') in.fail("half a surrogate pair");
    const unsigned second = json_hex4(in);
    if (second < 0xDC00 || second > 0xDFFF) in.fail("half a surrogate pair");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

inline void append_utf8(std::string& out, unsigned point) {
    const auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
    if (point < 0x80) {
        put(point);
        return;
    }
    const int tails = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    constexpr unsigned leads[] = {0xC0, 0xE0, 0xF0};
    put(leads[tails - 1] | point >> 6 * tails);
    for (int i = tails - 1; i >= 0; --i) put(0x80 | (point >> 6 * i & 0x3F));
}

inline std::string json_string(HeaderScanner& in) {
    in.expect("\"");
    std::string text;
    for (char c = in.next(); c != '"'; c = in.next()) {
        if (static_cast<unsigned char>(c) < ' ') in.fail("a control character in text");
        if (c != '\\') {
            text += c;
            continue;
        }
        constexpr std::string_view escapes = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
        const char escape = in.next();
        const std::size_t which = escapes.find(escape);
        if (escape == 'u')
            append_utf8(text, json_unicode(in));
        else if (which != std::string_view::npos)
            text += meanings[which];
        else
            in.fail("an unknown escape");
    }
    if (!is_utf8(text)) in.fail("text that is not UTF-8");
    return text;
}

// {"key": value, ...}, where member(key) reads the value.
template <class Member>
void json_object(HeaderScanner& in, Member member) {
    in.expect("{");
    if (in.accept("}")) return;
    do {
        const std::string key = json_string(in);
        in.expect(":");
        member(key);
    } while (in.accept(","));
    in.expect("}");
}

inline Dtype safetensors_dtype(HeaderScanner& in) {
    const std::string code = json_string(in);
    for (std::size_t i = 0; i < dtypes.size(); ++i)
        if (dtypes[i].safetensors == code) return static_cast<Dtype>(i);
    in.fail("the dtype " + in_quotes(code) + ", which is not F32, F64 or an integer,");
}

// Everything of a tensor but its name and bytes, and where those bytes are.
inline Extent parse_entry(HeaderScanner& in, NamedTensor& tensor) {
    std::optional<Dtype> dtype;
    std::optional<std::vector<std::size_t>> shape, offsets;
    json_object(in, [&](const std::string& key) {
        if (key == "dtype" && !dtype)
            dtype = safetensors_dtype(in);
        else if (key == "shape" && !shape)
            shape = in.json_array();
        else if (key == "data_offsets" && !offsets)
            offsets = in.json_array();
        else
            in.fail("an unknown or repeated key " + in_quotes(key));
    });
    if (!dtype || !shape || !offsets) in.fail("a tensor without dtype, shape or data_offsets");
    if (offsets->size() != 2 || offsets->front() > offsets->back()) in.fail("data_offsets that are no extent");
    const Extent extent{offsets->front(), offsets->back()};
    std::size_t owed = 0;
    if (!byte_count(*shape, *dtype, owed) || owed != extent.end - extent.begin)
        in.fail("data_offsets that do not fit the shape " + text_of(*shape));
    tensor.dtype = *dtype;
    tensor.shape = std::move(*shape);
    return extent;
}

inline void parse_metadata(HeaderScanner& in, Metadata& metadata) {
    json_object(in, [&](const std::string& key) {
        if (!metadata.emplace(key, json_string(in)).second) in.fail("a repeated key " + in_quotes(key));
    });
}

inline void append_json(std::string& out, std::string_view text) {
    if (!is_utf8(text))
        throw IoError(in_quotes(text), "cannot be written to a safetensors file, because it is not UTF-8");
    constexpr std::string_view digits = "0123456789abcdef";
    out += '"';
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            (out += '\\') += c;
        else if (byte < ' ')
            ((out += "\\u00") += digits[byte >> 4]) += digits[byte & 15];
        else
            out += c;
    }
    out += '"';
}

inline void append_json(std::string& out, std::span<const std::size_t> numbers) {
    out += '[';
    for (std::size_t i = 0; i < numbers.size(); ++i) out += (i > 0 ? "," : "") + std::to_string(numbers[i]);
    out += ']';
}

}  // namespace detail

// Errors cite `name`.
inline Safetensors decode_safetensors(std::span<const std::byte> bytes, const std::string& name) {
    constexpr std::size_t before = 8;
    if (bytes.size() < before) throw IoError(name, "is not a safetensors file, because it is shorter than 8 bytes");
    const auto length = detail::load<std::uint64_t>(bytes, 0);
    if (length > detail::safetensors_header_cap || length > bytes.size() - before)
        throw IoError(name, "is not a safetensors file, because its header of " + std::to_string(length) +
                                " bytes exceeds the file or 100 MB");

    Safetensors result;
    std::vector<detail::Extent> extents;
    std::set<std::string> keys;
    detail::HeaderScanner in(bytes.subspan(before, static_cast<std::size_t>(length)), before, name);
    if (in.peek() != '{') in.fail("no '{'");
    detail::json_object(in, [&](const std::string& key) {
        if (!keys.insert(key).second) in.fail("a repeated key " + detail::in_quotes(key));
        if (key == detail::metadata_key) return detail::parse_metadata(in, result.metadata);
        NamedTensor& tensor = result.tensors.emplace_back();
        tensor.name = key;
        extents.push_back(detail::parse_entry(in, tensor));
    });
    in.skip_space();
    if (!in.done()) in.fail("text behind the header");

    const auto numbers = bytes.subspan(before + static_cast<std::size_t>(length));
    auto order = extents;
    std::sort(order.begin(), order.end());
    std::size_t at = 0;
    for (const auto& extent : order) {
        if (extent.begin != at) throw IoError(name, "has tensors that overlap or leave a gap at number byte " +
                                                        std::to_string(std::min(at, extent.begin)));
        at = extent.end;
    }
    if (at != numbers.size())
        throw IoError(name, "announces " + std::to_string(at) + " bytes of numbers, but holds " +
                                std::to_string(numbers.size()));
    for (std::size_t i = 0; i < extents.size(); ++i) {
        const auto part = numbers.subspan(extents[i].begin, extents[i].end - extents[i].begin);
        result.tensors[i].bytes.assign(part.begin(), part.end());
    }
    return result;
}

inline std::vector<std::byte> encode_safetensors(std::span<const NamedTensor> tensors, const Metadata& metadata = {}) {
    std::set<std::string_view> names{detail::metadata_key};
    for (const auto& tensor : tensors) {
        tensor.check();
        if (!names.insert(tensor.name).second)
            throw IoError(tensor.name, "names two tensors of one safetensors file, or is a reserved name");
    }
    std::vector<std::size_t> layout(tensors.size()), begins(tensors.size());
    std::iota(layout.begin(), layout.end(), std::size_t{0});
    std::stable_sort(layout.begin(), layout.end(), [&](std::size_t a, std::size_t b) {
        return detail::facts(tensors[a].dtype).size > detail::facts(tensors[b].dtype).size;
    });
    std::size_t total = 0;
    for (const std::size_t i : layout) {
        begins[i] = total;
        total += tensors[i].bytes.size();
    }

    std::string header = "{";
    const auto key = [&](std::string_view text) {
        if (header.back() != '{') header += ',';
        detail::append_json(header, text);
        header += ':';
    };
    if (!metadata.empty()) {
        key(detail::metadata_key);
        header += '{';
        for (const auto& [name, text] : metadata) {
            key(name);
            detail::append_json(header, text);
        }
        header += '}';
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const std::size_t extent[] = {begins[i], begins[i] + tensors[i].bytes.size()};
        key(tensors[i].name);
        header += "{\"dtype\":\"" + std::string(detail::facts(tensors[i].dtype).safetensors) + "\",\"shape\":";
        detail::append_json(header, tensors[i].shape);
        header += ",\"data_offsets\":";
        detail::append_json(header, extent);
        header += '}';
    }
    header += '}';
    header.append((8 - header.size() % 8) % 8, ' ');
    if (header.size() > detail::safetensors_header_cap)
        throw IoError("safetensors", "cannot be written, because the header would exceed 100 MB");

    std::vector<std::byte> bytes;
    bytes.reserve(8 + header.size() + total);
    detail::append<std::uint64_t>(bytes, header.size());
    detail::append(bytes, header);
    for (const std::size_t i : layout) detail::append(bytes, tensors[i].bytes);
    return bytes;
}

inline Safetensors read_safetensors(const std::string& path) { return decode_safetensors(read_file(path), path); }

inline void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                              const Metadata& metadata = {}) {
    write_file_atomically(path, encode_safetensors(tensors, metadata));
}

}  // namespace tessera::io
