// SPDX-License-Identifier: BSD-3-Clause
// One array in numpy's .npy format, versions 1 and 2.
//
//   "\x93NUMPY" | major, minor: u8 | header length: u16 (version 1) or u32 (version 2), little-endian |
//   header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, spaces and "\n" | numbers
//
// Reads little-endian numbers of the kinds of Dtype in C order, and refuses the rest with a sentence:
// Fortran order, big-endian, structs, and Python objects, which would mean running a pickle. The header is
// parsed, never evaluated; the numbers must fill the rest of the file exactly. Writes version 1, since no
// header of 64 dimensions needs more, with the numbers 64-byte aligned in the file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/tensor.hpp>

namespace tessera::io {

namespace detail {

inline constexpr std::string_view npy_magic = "\x93NUMPY";

inline Dtype npy_dtype(std::string_view descr, const std::string& path) {
    for (std::size_t i = 0; i < dtypes.size(); ++i) {
        const std::string_view orders = dtypes[i].size == 1 ? "|<" : "<";
        if (descr.size() > 1 && descr.substr(1) == dtypes[i].npy && orders.find(descr[0]) != std::string_view::npos)
            return static_cast<Dtype>(i);
    }
    if (descr.find('O') != std::string_view::npos)
        throw IoError(path, "holds Python objects, which are never loaded; save numbers instead");
    if (descr.starts_with('>'))
        throw IoError(path, "is big-endian (" + in_quotes(descr) + "); save little-endian numbers instead");
    throw IoError(path, "holds " + in_quotes(descr) + ", which is not float32, float64 or an integer");
}

// Fills dtype and shape from the Python dictionary at the head of the file.
inline void parse_npy_header(HeaderScanner in, const std::string& path, NamedTensor& tensor) {
    std::optional<Dtype> dtype;
    std::optional<bool> fortran;
    std::optional<std::vector<std::size_t>> shape;
    in.expect("{");
    while (!in.accept("}")) {
        const std::string_view key = in.literal();
        in.expect(":");
        if (key == "descr" && !dtype) {
            if (in.accept("[")) throw IoError(path, "holds structs; save each field as an array of its own");
            dtype = npy_dtype(in.literal(), path);
        } else if (key == "fortran_order" && !fortran) {
            fortran = in.accept("True");
            if (!*fortran) in.expect("False");
        } else if (key == "shape" && !shape) {
            shape = in.python_tuple();
        } else {
            in.fail("an unknown or repeated key " + in_quotes(key));
        }
        if (!in.accept(",")) {
            in.expect("}");
            break;
        }
    }
    in.skip_space();
    if (!in.done()) in.fail("text behind the dictionary");
    if (!dtype || !fortran || !shape) in.fail("no 'descr', 'fortran_order' or 'shape'");
    if (*fortran) throw IoError(path, "is in Fortran order; save numpy.ascontiguousarray of it instead");
    tensor.dtype = *dtype;
    tensor.shape = std::move(*shape);
}

// "dir/weights.npy" -> "weights"
inline std::string stem_of(const std::string& path) {
    std::string name = path.substr(path.rfind('/') + 1);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    return name;
}

}  // namespace detail

namespace detail {

// All but the numbers, which are the last of the bytes.
inline std::span<const std::byte> read_npy_head(std::span<const std::byte> bytes, const std::string& name,
                                                NamedTensor& tensor) {
    const auto magic = std::as_bytes(std::span(detail::npy_magic));
    const std::size_t fixed = magic.size() + 2;
    if (bytes.size() < fixed + 2 || !std::equal(magic.begin(), magic.end(), bytes.begin()))
        throw IoError(name, "is not an npy file");
    const auto major = std::to_integer<int>(bytes[magic.size()]), minor = std::to_integer<int>(bytes[magic.size() + 1]);
    if ((major != 1 && major != 2) || minor != 0)
        throw IoError(name, "is npy version " + std::to_string(major) + "." + std::to_string(minor) +
                                ", but only 1.0 and 2.0 are read");

    const std::size_t begin = fixed + (major == 1 ? 2 : 4);
    if (bytes.size() < begin) throw IoError(name, "ends within its npy header");
    const std::size_t length =
        major == 1 ? detail::load<std::uint16_t>(bytes, fixed) : detail::load<std::uint32_t>(bytes, fixed);
    if (length > bytes.size() - begin)
        throw IoError(name, "announces an npy header of " + std::to_string(length) + " bytes, but only " +
                                std::to_string(bytes.size() - begin) + " follow");

    tensor.name = name;
    detail::parse_npy_header({bytes.subspan(begin, length), begin, name}, name, tensor);
    const auto numbers = bytes.subspan(begin + length);
    std::size_t owed = 0;
    if (!detail::byte_count(tensor.shape, tensor.dtype, owed) || owed != numbers.size())
        throw IoError(name, "announces the shape " + detail::text_of(tensor.shape) + " of " +
                                std::string(detail::facts(tensor.dtype).name) + ", but holds " +
                                std::to_string(numbers.size()) + " bytes");
    return numbers;
}

}  // namespace detail

// The tensor takes `name`, and errors cite it.
inline NamedTensor decode_npy(std::span<const std::byte> bytes, const std::string& name) {
    NamedTensor tensor;
    const auto numbers = detail::read_npy_head(bytes, name, tensor);
    tensor.bytes.assign(numbers.begin(), numbers.end());
    return tensor;
}

inline std::vector<std::byte> encode_npy(const NamedTensor& tensor) {
    tensor.check();
    const auto& facts = detail::facts(tensor.dtype);
    std::string shape;
    for (const std::size_t extent : tensor.shape) shape += std::to_string(extent) + ", ";
    // Python writes (2, 3) and (2,): a tuple of one keeps its comma.
    if (!shape.empty()) shape.resize(shape.size() - (tensor.shape.size() == 1 ? 1 : 2));
    std::string header = "{'descr': '" + std::string(facts.size == 1 ? "|" : "<") + std::string(facts.npy) +
                         "', 'fortran_order': False, 'shape': (" + shape + "), }";
    constexpr std::size_t before = 10, align = 64;
    header.append(align - 1 - (before + header.size()) % align, ' ');
    header += '\n';

    std::vector<std::byte> bytes;
    bytes.reserve(before + header.size() + tensor.bytes.size());
    detail::append(bytes, detail::npy_magic);
    detail::append<std::uint8_t>(bytes, 1);
    detail::append<std::uint8_t>(bytes, 0);
    detail::append<std::uint16_t>(bytes, static_cast<std::uint16_t>(header.size()));
    detail::append(bytes, header);
    detail::append(bytes, tensor.bytes);
    return bytes;
}

// Named after the file, without directories and .npy.
inline NamedTensor read_npy(const std::string& path) {
    NamedTensor tensor = decode_npy(read_file(path), path);
    tensor.name = detail::stem_of(path);
    return tensor;
}

// The name is not part of the format and is not written.
inline void write_npy(const std::string& path, const NamedTensor& tensor) {
    write_file_atomically(path, encode_npy(tensor));
}

}  // namespace tessera::io
