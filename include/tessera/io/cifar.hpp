// SPDX-License-Identifier: BSD-3-Clause
// CIFAR-10 and CIFAR-100 (Krizhevsky, 2009) in their binary form: records without a header, one after the other.
//
//   CIFAR-10    label | 32 x 32 red, green, blue                 data_batch_1.bin .. data_batch_5.bin, test_batch.bin
//   CIFAR-100   coarse label | fine label | the same             train.bin, test.bin
//
// Pixels stay bytes, channel after channel, rows from the top. A file that is not a whole number of records, is empty,
// or has a label that is no class is refused with the record and its offset; nothing is kept of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/pool.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/mapped.hpp>

namespace tessera::io {

enum class Cifar : std::uint8_t { ten, hundred_fine, hundred_coarse };
constexpr std::array<std::string_view, 3> words_of(Cifar) { return {"10", "100", "100-coarse"}; }

inline constexpr std::size_t cifar_pixels = 3 * 32 * 32;

constexpr std::size_t classes_of(Cifar kind) {
    return kind == Cifar::ten ? 10 : kind == Cifar::hundred_fine ? 100 : 20;
}

struct CifarRecords {
    std::vector<std::uint8_t> pixels;
    std::vector<std::int32_t> labels;

    friend bool operator==(const CifarRecords&, const CifarRecords&) = default;
};

namespace detail {

// One image with its labels before it, and where in it the label is that counts.
constexpr std::size_t cifar_head(Cifar kind) { return kind == Cifar::ten ? 1 : 2; }
constexpr std::size_t cifar_label(Cifar kind) { return kind == Cifar::hundred_fine ? 1 : 0; }

// How many records there are; IoError if it is not a whole number of them with the labels of this kind.
inline std::size_t check_cifar(std::span<const std::byte> bytes, Cifar kind, const std::string& name) {
    constexpr std::size_t coarse_classes = 20, fine_classes = 100;
    const bool hundred = kind != Cifar::ten;
    const std::size_t record = cifar_head(kind) + cifar_pixels, count = bytes.size() / record;
    if (count == 0 || bytes.size() % record != 0)
        throw IoError(name, "has " + std::to_string(bytes.size()) +
                                " bytes, which is not a whole number of records of " + std::to_string(record) +
                                " bytes");
    const auto byte_at = [&](std::size_t i) { return std::to_integer<std::uint8_t>(bytes[i]); };
    const auto check = [&](std::size_t offset, std::size_t classes) {
        if (byte_at(offset) >= classes)
            throw IoError(name, "record " + std::to_string(offset / record) + " has the label " +
                                    std::to_string(byte_at(offset)) + " at offset " + std::to_string(offset) +
                                    ", not one of " + std::to_string(classes) + " classes");
    };
    for (std::size_t i = 0; i < count; ++i) {
        check(i * record, hundred ? coarse_classes : classes_of(kind));
        if (hundred) check(i * record + 1, fine_classes);
    }
    return count;
}

}  // namespace detail

// Adds the records of one file to `out`, or throws and leaves it as it was. `name` is what errors call the bytes.
inline void decode_cifar(std::span<const std::byte> bytes, Cifar kind, const std::string& name, CifarRecords& out) {
    const std::size_t count = detail::check_cifar(bytes, kind, name);
    const std::size_t head = detail::cifar_head(kind), record = head + cifar_pixels;
    out.pixels.reserve(out.pixels.size() + count * cifar_pixels);
    out.labels.reserve(out.labels.size() + count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = i * record;
        out.labels.push_back(std::to_integer<std::uint8_t>(bytes[at + detail::cifar_label(kind)]));
        const auto* pixels = reinterpret_cast<const std::uint8_t*>(bytes.data()) + at + head;
        out.pixels.insert(out.pixels.end(), pixels, pixels + cifar_pixels);
    }
}

// The training files one after the other, then the test files.
inline data::Pool read_cifar(Cifar kind, std::span<const std::string> train, std::span<const std::string> test) {
    CifarRecords records;
    for (const auto& path : train) decode_cifar(read_file(path), kind, path, records);
    const std::size_t train_size = records.labels.size();
    for (const auto& path : test) decode_cifar(read_file(path), kind, path, records);
    tessera::detail::require(train_size > 0, "io::read_cifar: no training file is named");
    return {.examples = data::Dataset::own(std::move(records.pixels), std::move(records.labels), classes_of(kind)),
            .train_size = train_size};
}

// The files under their published names.
inline data::Pool read_cifar(Cifar kind, const std::string& directory) {
    std::vector<std::string> train, test;
    if (kind == Cifar::ten) {
        for (const char number : {'1', '2', '3', '4', '5'})
            train.push_back(directory + "/data_batch_" + number + ".bin");
        test.push_back(directory + "/test_batch.bin");
    } else {
        train.push_back(directory + "/train.bin");
        test.push_back(directory + "/test.bin");
    }
    return read_cifar(kind, train, test);
}

// The same without a copy of the images, which are read where they lie (io/mapped.hpp) as (byte - shift) * scale.
inline data::Pool map_cifar(Cifar kind, std::span<const std::string> train, std::span<const std::string> test,
                            float shift = 0, float scale = 1) {
    const std::size_t head = detail::cifar_head(kind), record = head + cifar_pixels;
    std::vector<std::shared_ptr<const MappedFile>> files;
    std::vector<std::size_t> begins{0};
    std::vector<std::int32_t> labels;
    std::size_t train_size = 0;
    for (const auto& paths : {train, test}) {
        for (const auto& path : paths) {
            files.push_back(map_file(path));
            const auto bytes = files.back()->bytes();
            const std::size_t count = detail::check_cifar(bytes, kind, path);
            for (std::size_t i = 0; i < count; ++i)
                labels.push_back(std::to_integer<std::uint8_t>(bytes[i * record + detail::cifar_label(kind)]));
            begins.push_back(labels.size());
        }
        if (train_size == 0) train_size = labels.size();
        tessera::detail::require(train_size > 0, "io::map_cifar: no training file is named");
    }
    const auto fetch = [=, files = std::move(files), begins = std::move(begins)](std::size_t i, std::span<float> out) {
        const auto after = std::upper_bound(begins.begin(), begins.end(), i);
        const auto file = static_cast<std::size_t>(after - begins.begin() - 1);
        const auto pixels = files[file]->bytes().subspan((i - begins[file]) * record + head, cifar_pixels);
        for (std::size_t p = 0; p < cifar_pixels; ++p)
            out[p] = (static_cast<float>(std::to_integer<std::uint8_t>(pixels[p])) - shift) * scale;
    };
    return {.examples = data::Dataset::from(fetch, cifar_pixels, std::move(labels), classes_of(kind)),
            .train_size = train_size};
}

}  // namespace tessera::io
