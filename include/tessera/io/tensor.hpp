// SPDX-License-Identifier: BSD-3-Clause
// An array with a name, a shape and a kind of number: what npy, npz and safetensors files hold.
//
// The numbers are kept as bytes, row-major (C order) and little-endian, so a tensor can be read, kept and
// written without knowing its kind; `as` and `copy_to` give them back as numbers of the kind they are.
// The fields are open: whoever fills them by hand owes bytes.size() == product of shape * size of dtype,
// which every writer checks.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>

namespace tessera::io {

static_assert(std::endian::native == std::endian::little, "tessera: files are little-endian");

enum class Dtype : std::uint8_t { float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64 };

inline constexpr std::size_t most_dimensions = 64;  // as in numpy 2

namespace detail {

struct DtypeFacts {
    std::size_t size;
    std::string_view name, npy, safetensors;
};

// In the order of Dtype.
inline constexpr std::array<DtypeFacts, 10> dtypes{{
    {4, "float32", "f4", "F32"},
    {8, "float64", "f8", "F64"},
    {1, "int8", "i1", "I8"},
    {2, "int16", "i2", "I16"},
    {4, "int32", "i4", "I32"},
    {8, "int64", "i8", "I64"},
    {1, "uint8", "u1", "U8"},
    {2, "uint16", "u2", "U16"},
    {4, "uint32", "u4", "U32"},
    {8, "uint64", "u8", "U64"},
}};

constexpr const DtypeFacts& facts(Dtype dtype) { return dtypes[static_cast<std::size_t>(dtype)]; }

// a * b, or false if that is more than memory can hold.
constexpr bool multiply(std::size_t a, std::size_t b, std::size_t& product) {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    if (b != 0 && a > most / b) return false;
    product = a * b;
    return true;
}

// Bytes that a tensor of this shape takes.
inline bool byte_count(std::span<const std::size_t> shape, Dtype dtype, std::size_t& bytes) {
    bytes = facts(dtype).size;
    for (const std::size_t extent : shape)
        if (!multiply(bytes, extent, bytes)) return false;
    return true;
}

inline std::string text_of(std::span<const std::size_t> shape) {
    std::string text = "(";
    for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
    return text + ")";
}

// Text from a file, made fit for a sentence: short, and without bytes a terminal would obey.
inline std::string in_quotes(std::string_view text) {
    std::string shown = "'";
    for (const char c : text.substr(0, 60)) shown += c >= ' ' && c <= '~' ? c : '?';
    return shown + (text.size() > 60 ? "...'" : "'");
}

// Without overlong forms, surrogates and numbers past U+10FFFF (RFC 3629).
constexpr bool is_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const auto byte = [&](std::size_t i) {
            return static_cast<unsigned char>(at + i < text.size() ? text[at + i] : '\0');
        };
        const unsigned lead = byte(0);
        if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4) return false;
        const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        for (std::size_t i = 1; i < size; ++i)
            if ((byte(i) & 0xC0) != 0x80) return false;
        if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return false;
        if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return false;
        at += size;
    }
    return true;
}

template <class Number>
Number load(std::span<const std::byte> bytes, std::size_t at) {
    Number number;
    std::memcpy(&number, bytes.subspan(at, sizeof number).data(), sizeof number);
    return number;
}

template <class Number>
void append(std::vector<std::byte>& out, std::type_identity_t<Number> number) {
    const auto bytes = std::as_bytes(std::span(&number, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
}

inline void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
}

inline void append(std::vector<std::byte>& out, std::string_view text) { append(out, std::as_bytes(std::span(text))); }

// Walks over the text header of a tensor file. Every refusal names the file and the byte in it.
class HeaderScanner {
public:
    HeaderScanner(std::span<const std::byte> text, std::size_t offset, const std::string& path)
        : text_(reinterpret_cast<const char*>(text.data()), text.size()), offset_(offset), path_(path) {}

    [[noreturn]] void fail(const std::string& what) const {
        throw IoError(path_, "has " + what + " at byte " + std::to_string(offset_ + at_));
    }

    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool done() const { return at_ == text_.size(); }

    char next() {
        if (done()) fail("an early end");
        return text_[at_++];
    }
    void skip_space() {
        while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n') ++at_;
    }
    bool accept(std::string_view token) {
        skip_space();
        if (!text_.substr(at_).starts_with(token)) return false;
        at_ += token.size();
        return true;
    }
    void expect(std::string_view token) {
        if (!accept(token)) fail("no " + in_quotes(token));
    }

    // Plain text between quotes; nothing in it is an escape.
    std::string_view literal() {
        skip_space();
        const char quote = peek();
        if (quote != '\'' && quote != '"') fail("no quoted text");
        const std::size_t begin = ++at_;
        while (peek() != quote) {
            if (peek() == '\\' || peek() < ' ' || peek() > '~') fail("no plain text");
            ++at_;
        }
        return text_.substr(begin, at_++ - begin);
    }

    // Decimal digits without a sign or leading zeros.
    std::size_t natural() {
        skip_space();
        if (peek() == '-') fail("a negative number");
        if (peek() < '0' || peek() > '9') fail("no number");
        const std::size_t begin = at_;
        std::size_t value = 0;
        for (; peek() >= '0' && peek() <= '9'; ++at_) {
            if (at_ > begin && text_[begin] == '0') fail("a number with a leading zero");
            if (!multiply(value, 10, value)) fail("a number too large");
            value += static_cast<std::size_t>(peek() - '0');
        }
        return value;
    }

    // (), (2,) or (2, 3), as Python writes tuples; (2) is a number there, not a tuple.
    std::vector<std::size_t> python_tuple() {
        expect("(");
        std::vector<std::size_t> numbers;
        while (!accept(")")) {
            push_bounded(numbers);
            if (accept(",")) continue;
            if (numbers.size() == 1) fail("no comma");
            expect(")");
            break;
        }
        return numbers;
    }

    // [], [2] or [2, 3], as in JSON.
    std::vector<std::size_t> json_array() {
        expect("[");
        std::vector<std::size_t> numbers;
        if (accept("]")) return numbers;
        do push_bounded(numbers);
        while (accept(","));
        expect("]");
        return numbers;
    }

private:
    void push_bounded(std::vector<std::size_t>& numbers) {
        if (numbers.size() == most_dimensions) fail("more than 64 numbers in a list");
        numbers.push_back(natural());
    }

    std::string_view text_;
    std::size_t at_ = 0, offset_;
    const std::string& path_;
};

}  // namespace detail

template <class R>
concept TensorNumber = std::is_arithmetic_v<R> && !std::is_same_v<R, bool> && sizeof(R) <= 8;

template <TensorNumber R>
constexpr Dtype dtype_of() {
    if constexpr (std::is_floating_point_v<R>)
        return sizeof(R) == 4 ? Dtype::float32 : Dtype::float64;
    else if constexpr (std::is_signed_v<R>)
        return sizeof(R) == 1   ? Dtype::int8
               : sizeof(R) == 2 ? Dtype::int16
               : sizeof(R) == 4 ? Dtype::int32
                                : Dtype::int64;
    else
        return sizeof(R) == 1   ? Dtype::uint8
               : sizeof(R) == 2 ? Dtype::uint16
               : sizeof(R) == 4 ? Dtype::uint32
                                : Dtype::uint64;
}

struct NamedTensor {
    std::string name;
    std::vector<std::size_t> shape;  // empty for a single number
    Dtype dtype = Dtype::float32;
    std::vector<std::byte> bytes;

    friend bool operator==(const NamedTensor&, const NamedTensor&) = default;

    template <TensorNumber R>
    static NamedTensor from(std::string name, std::vector<std::size_t> shape, std::span<const R> numbers) {
        const auto bytes = std::as_bytes(numbers);
        NamedTensor tensor{std::move(name), std::move(shape), dtype_of<R>(), {bytes.begin(), bytes.end()}};
        tensor.check();
        return tensor;
    }

    std::size_t size() const { return bytes.size() / detail::facts(dtype).size; }

    template <TensorNumber R>
    void copy_to(std::span<R> out) const {
        check();
        if (dtype != dtype_of<R>())
            throw IoError(name, "holds " + std::string(detail::facts(dtype).name) + ", not " +
                                    std::string(detail::facts(dtype_of<R>()).name) + " as asked for");
        if (out.size() != size())
            throw IoError(name, "holds " + std::to_string(size()) + " numbers, not " + std::to_string(out.size()) +
                                    " as asked for");
        if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    }

    template <TensorNumber R>
    std::vector<R> as() const {
        std::vector<R> numbers(size());
        copy_to(std::span<R>(numbers));
        return numbers;
    }

    // Throws unless the bytes are as many as shape and dtype say.
    void check() const {
        if (shape.size() > most_dimensions) throw IoError(name, "has more than 64 dimensions");
        std::size_t owed = 0;
        if (!detail::byte_count(shape, dtype, owed) || owed != bytes.size())
            throw IoError(name, "has " + std::to_string(bytes.size()) + " bytes, which is not a " +
                                    std::string(detail::facts(dtype).name) + " tensor of shape " +
                                    detail::text_of(shape));
    }
};

}  // namespace tessera::io
