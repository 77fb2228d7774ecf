// SPDX-License-Identifier: BSD-3-Clause
// IDX arrays of unsigned bytes, the format of MNIST and its relatives, plain or gzipped.
//
//   0 0 type ndim | ndim big-endian 32-bit dimensions | the bytes, last dimension fastest
//
// Read: type 0x08, 1 to 8 dimensions, none of them zero, and nothing behind the array. A gzip file is one
// member; further members and other trailing bytes are refused. Memory is taken only after the dimensions
// agree with what the file can hold: for gzip, 200 times its size and 64 KiB (Fashion-MNIST needs twice its
// size). A damaged file is an IoError that names the field and its offset in the array's file; what gzip itself
// finds wrong has its offset in the compressed one.
// Needs: zlib (component `zlib`).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <zlib.h>

#include <tessera/core/error.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/mapped.hpp>

namespace tessera::io {

struct IdxArray {
    std::vector<std::size_t> shape;
    std::vector<std::uint8_t> bytes;  // row-major

    friend bool operator==(const IdxArray&, const IdxArray&) = default;
};

namespace detail {

// The two places an array can come from: `read` fills `out` as far as there are bytes, `most` bounds how many
// may still follow, `finish` throws unless all have been read.
class PlainBytes {
public:
    PlainBytes(std::span<const std::uint8_t> bytes, const std::string& name) : rest_(bytes), name_(name) {}

    std::size_t most() const { return rest_.size(); }
    std::size_t read(std::span<std::uint8_t> out) {
        const std::size_t n = std::min(out.size(), rest_.size());
        std::copy_n(rest_.begin(), n, out.begin());
        rest_ = rest_.subspan(n);
        return n;
    }
    void finish() const {
        if (!rest_.empty()) throw IoError(name_, std::to_string(rest_.size()) + " bytes follow the end of the data");
    }

private:
    std::span<const std::uint8_t> rest_;
    const std::string& name_;
};

class GzipBytes {
public:
    GzipBytes(std::span<const std::uint8_t> bytes, const std::string& name) : bytes_(bytes), name_(name) {
        constexpr int largest_window = 15, gzip_only = 16;
        if (inflateInit2(&stream_, largest_window + gzip_only) != Z_OK)
            throw IoError(name_, "zlib cannot start to decompress it");
    }
    GzipBytes(const GzipBytes&) = delete;
    GzipBytes& operator=(const GzipBytes&) = delete;
    ~GzipBytes() { inflateEnd(&stream_); }

    std::size_t most() const {
        constexpr std::size_t ratio = 200, slack = std::size_t{1} << 16;
        return bytes_.size() <= (std::numeric_limits<std::size_t>::max() - slack) / ratio
                   ? bytes_.size() * ratio + slack
                   : std::numeric_limits<std::size_t>::max();
    }
    std::size_t read(std::span<std::uint8_t> out) {
        std::size_t done = 0;
        while (done < out.size() && !ended_) {
            const auto in = piece(bytes_.size() - used_), room = piece(out.size() - done);
            stream_.next_in = const_cast<Bytef*>(bytes_.data() + used_);  // zlib reads it, but is not const-correct
            stream_.avail_in = in;
            stream_.next_out = out.data() + done;
            stream_.avail_out = room;
            const int status = inflate(&stream_, Z_NO_FLUSH);
            used_ += in - stream_.avail_in;
            done += room - stream_.avail_out;
            if (status == Z_BUF_ERROR)
                throw IoError(name_, "the gzip data end too early, at offset " + std::to_string(used_));
            if (status != Z_OK && status != Z_STREAM_END)
                throw IoError(name_, "the gzip data are damaged before offset " + std::to_string(used_) + ": " +
                                         (stream_.msg ? stream_.msg : "no memory to decompress them"));
            ended_ = status == Z_STREAM_END;
        }
        return done;
    }
    void finish() {
        std::array<std::uint8_t, 1> more;
        if (read(more) > 0) throw IoError(name_, "the gzip data inflate to more bytes than are allowed or declared");
        if (used_ < bytes_.size())
            throw IoError(name_, std::to_string(bytes_.size() - used_) + " bytes follow the gzip member at offset " +
                                     std::to_string(used_));
    }

private:
    static uInt piece(std::size_t n) { return static_cast<uInt>(std::min<std::size_t>(n, 1u << 30)); }

    std::span<const std::uint8_t> bytes_;
    const std::string& name_;
    z_stream stream_{};
    std::size_t used_ = 0;
    bool ended_ = false;
};

// Up to the data: their shape, and how many bytes they are.
template <class Source>
std::size_t idx_shape(Source& source, const std::string& name, std::vector<std::size_t>& shape) {
    const auto refuse = [&](const std::string& what) { throw IoError(name, what); };
    std::array<std::uint8_t, 4> word;
    if (source.read(word) < word.size()) refuse("the IDX magic at offset 0 is truncated");
    if (word[0] != 0 || word[1] != 0)
        refuse("the IDX magic at offset 0 starts with bytes " + std::to_string(word[0]) + " and " +
               std::to_string(word[1]) + " instead of two zeros");
    if (word[2] != 0x08)
        refuse("the type byte at offset 2 is " + std::to_string(word[2]) + "; only 8, unsigned byte, is read");
    const std::size_t dimensions = word[3];
    if (dimensions < 1 || dimensions > 8)
        refuse("the number of dimensions at offset 3 is " + std::to_string(dimensions) + ", not in 1..8");

    std::size_t count = 1;
    for (std::size_t d = 0; d < dimensions; ++d) {
        const std::string field = "dimension " + std::to_string(d) + " at offset " + std::to_string(4 + 4 * d);
        if (source.read(word) < word.size()) refuse(field + " is truncated");
        const std::size_t size =
            std::size_t{word[0]} << 24 | std::size_t{word[1]} << 16 | std::size_t{word[2]} << 8 | std::size_t{word[3]};
        if (size == 0) refuse(field + " is zero");
        if (count > source.most() / size)
            refuse(field + " is " + std::to_string(size) + ", which makes the array larger than the file can hold");
        count *= size;
        shape.push_back(size);
    }
    return count;
}

template <class Source>
IdxArray idx_from(Source& source, const std::string& name) {
    const auto refuse = [&](const std::string& what) { throw IoError(name, what); };
    IdxArray array;
    const std::size_t count = idx_shape(source, name, array.shape);
    array.bytes.resize(count);
    const std::size_t got = source.read(array.bytes);
    const std::size_t header = 4 + 4 * array.shape.size();
    if (got < count)
        refuse("the data end at offset " + std::to_string(header + got) + ", but the dimensions declare bytes up to " +
               std::to_string(header + count));
    source.finish();
    return array;
}

}  // namespace detail

// One gzip member, whole; refused when it inflates to more than `cap` bytes.
inline std::vector<std::uint8_t> decode_gzip(std::span<const std::uint8_t> bytes, const std::string& name,
                                             std::size_t cap) {
    detail::GzipBytes source(bytes, name);
    std::vector<std::uint8_t> out;
    for (;;) {
        const std::size_t before = out.size();
        const std::size_t step = std::min(cap - before, std::max<std::size_t>(before, 1u << 16));
        out.resize(before + step);
        const std::size_t got = source.read(std::span(out).subspan(before));
        out.resize(before + got);
        if (got < step || out.size() == cap) break;
    }
    source.finish();
    return out;
}

// Bytes of an IDX file, plain or gzipped; `name` is what errors call them.
inline IdxArray decode_idx(std::span<const std::uint8_t> bytes, const std::string& name) {
    if (bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B) {
        detail::GzipBytes source(bytes, name);
        return detail::idx_from(source, name);
    }
    detail::PlainBytes source(bytes, name);
    return detail::idx_from(source, name);
}

inline IdxArray read_idx(const std::string& path) {
    const auto bytes = read_file(path);
    return decode_idx({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, path);
}

namespace detail {

inline IdxArray read_idx_images(const std::string& path) {
    IdxArray images = read_idx(path);
    if (images.shape.size() < 2)
        throw IoError(path, "the number of dimensions at offset 3 is 1; images have a count and a size");
    return images;
}

inline std::vector<std::int32_t> read_idx_labels(const std::string& path, std::size_t count, std::size_t classes) {
    const IdxArray labels = read_idx(path);
    if (labels.shape.size() != 1)
        throw IoError(
            path, "the number of dimensions at offset 3 is " + std::to_string(labels.shape.size()) + "; labels have 1");
    if (labels.bytes.size() != count)
        throw IoError(path, "dimension 0 at offset 4 is " + std::to_string(labels.bytes.size()) + " labels, for " +
                                std::to_string(count) + " images");
    for (std::size_t i = 0; i < count; ++i)
        if (labels.bytes[i] >= classes)
            throw IoError(path, "label " + std::to_string(i) + " at offset " + std::to_string(8 + i) + " is " +
                                    std::to_string(labels.bytes[i]) + ", not one of " + std::to_string(classes) +
                                    " classes");
    return {labels.bytes.begin(), labels.bytes.end()};
}

}  // namespace detail

// Images of any shape as rows of bytes, with their labels.
inline data::Dataset read_idx_dataset(const std::string& images_path, const std::string& labels_path,
                                      std::size_t classes) {
    IdxArray images = detail::read_idx_images(images_path);
    auto labels = detail::read_idx_labels(labels_path, images.shape[0], classes);
    return data::Dataset::own(std::move(images.bytes), std::move(labels), classes);
}

// The same without a copy of the images: a plain file, read where it lies (io/mapped.hpp).
inline data::Dataset map_idx_dataset(const std::string& images_path, const std::string& labels_path,
                                     std::size_t classes) {
    auto file = map_file(images_path);
    const auto all = file->bytes();
    const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(all.data()), all.size());
    if (bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B)
        throw IoError(images_path, "is compressed, and can be mapped only as a plain file");
    detail::PlainBytes source(bytes, images_path);
    std::vector<std::size_t> shape;
    const std::size_t count = detail::idx_shape(source, images_path, shape);
    if (shape.size() < 2)
        throw IoError(images_path, "the number of dimensions at offset 3 is 1; images have a count and a size");
    const auto rows = bytes.subspan(4 + 4 * shape.size());
    if (rows.size() != count)
        throw IoError(images_path, "the dimensions declare " + std::to_string(count) + " bytes, but " +
                                       std::to_string(rows.size()) + " follow");
    auto labels = detail::read_idx_labels(labels_path, shape[0], classes);
    return data::Dataset::kept_by(std::move(file), rows, std::move(labels), classes);
}

}  // namespace tessera::io
