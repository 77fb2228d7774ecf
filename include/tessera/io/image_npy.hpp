// SPDX-License-Identifier: BSD-3-Clause
// Examples out of .npy files: features and labels, images, and published shifts of a test set.
//
//   read_npy_dataset(features, labels)   (n, d) rows; (n, height, width) grey and (n, height, width, channels) images
//   decode_npy_multi_hot, decode_npy_targets    the same with (n, classes) of 0 and 1, or (n) or (n, each) real targets
//   decode_npy_transcripts               the same with (n, most) labels in order, negative ones being none
//   read_shift(directory, "fog", 3)      CIFAR-10-C's form: fog.npy holds 5 x 10000 images, mildest first, and
//                                        labels.npy their labels
//
// Images come out channel after channel, as convolutions and io/cifar.hpp have them; files have the channels last.
// Bytes stay bytes, other numbers become float32 and must be finite. Labels are whole numbers, one an example.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/labels.hpp>
#include <tessera/io/mapped.hpp>
#include <tessera/io/npy.hpp>
#include <tessera/io/tensor.hpp>

namespace tessera::io {

namespace detail {

// f(the tensor's numbers, whatever they are)
template <class F>
auto with_numbers(const NamedTensor& tensor, F&& f) {
    switch (tensor.dtype) {
        case Dtype::float32: return f(tensor.as<float>());
        case Dtype::float64: return f(tensor.as<double>());
        case Dtype::int8: return f(tensor.as<std::int8_t>());
        case Dtype::int16: return f(tensor.as<std::int16_t>());
        case Dtype::int32: return f(tensor.as<std::int32_t>());
        case Dtype::int64: return f(tensor.as<std::int64_t>());
        case Dtype::uint8: return f(tensor.as<std::uint8_t>());
        case Dtype::uint16: return f(tensor.as<std::uint16_t>());
        case Dtype::uint32: return f(tensor.as<std::uint32_t>());
        default: return f(tensor.as<std::uint64_t>());
    }
}

inline std::vector<std::int32_t> labels_of(const NamedTensor& labels) {
    if (labels.shape.size() != 1)
        throw IoError(labels.name, "has the shape " + text_of(labels.shape) + "; labels are one number an example");
    return with_numbers(labels, [&](const auto& numbers) {
        std::vector<std::int32_t> out;
        out.reserve(numbers.size());
        for (const auto number : numbers) {
            const auto value = static_cast<double>(number);
            if (!(value >= 0 && value < 2147483647.0) || value != std::floor(value))
                throw IoError(labels.name, "label " + std::to_string(value) + " of example " +
                                               std::to_string(out.size()) + " is not a class");
            out.push_back(static_cast<std::int32_t>(value));
        }
        return out;
    });
}

// Rows of an image file with the channels first: (row, column, channel) -> (channel, row, column).
template <class T>
std::vector<T> channels_first(const std::vector<T>& numbers, std::size_t images, std::size_t positions,
                              std::size_t channels) {
    std::vector<T> out(numbers.size());
    for (std::size_t i = 0; i < images; ++i)
        for (std::size_t p = 0; p < positions; ++p)
            for (std::size_t c = 0; c < channels; ++c)
                out[(i * channels + c) * positions + p] = numbers[(i * positions + p) * channels + c];
    return out;
}

// f(rows) with the numbers of the examples as bytes or floats, channels first.
template <class F>
data::Dataset with_rows(const NamedTensor& x, std::size_t labels, const F& f) {
    const auto& shape = x.shape;
    if (shape.size() < 2 || shape.size() > 4)
        throw IoError(x.name, "has the shape " + text_of(shape) +
                                  "; examples are (n, d), (n, height, width) or (n, height, width, channels)");
    if (x.size() == 0) throw IoError(x.name, "has the shape " + text_of(shape) + ", which holds no number");
    if (shape[0] != labels)
        throw IoError(x.name,
                      "holds " + std::to_string(shape[0]) + " examples, for " + std::to_string(labels) + " labels");
    const std::size_t channels = shape.size() == 4 ? shape[3] : 1, positions = x.size() / shape[0] / channels;
    if (x.dtype == Dtype::uint8) return f(channels_first(x.as<std::uint8_t>(), shape[0], positions, channels));
    auto rows = with_numbers(x, [&](const auto& numbers) {
        std::vector<float> out;
        out.reserve(numbers.size());
        for (const auto number : numbers) {
            if (!(std::abs(static_cast<double>(number)) <= double{std::numeric_limits<float>::max()}))
                throw IoError(x.name, "number " + std::to_string(out.size()) + " is not finite");
            out.push_back(static_cast<float>(number));
        }
        return out;
    });
    return f(channels_first(rows, shape[0], positions, channels));
}
// `label_file` is what sentences about labels name.
inline data::Dataset npy_dataset(const NamedTensor& x, std::vector<std::int32_t> labels, const std::string& label_file,
                                 std::size_t classes) {
    return with_rows(x, labels.size(), [&](auto rows) {
        const std::size_t most = static_cast<std::size_t>(*std::max_element(labels.begin(), labels.end()));
        if (classes == 0) classes = classes_in(labels, label_file);
        if (most >= classes)
            throw IoError(label_file, "has the label " + std::to_string(most) + ", not one of " +
                                          std::to_string(classes) + " classes");
        return data::Dataset::own(std::move(rows), std::move(labels), classes);
    });
}

// Numbers of shape (n) or (n, each), and how many an example has.
inline std::size_t numbers_each(const NamedTensor& y, const char* what) {
    if (y.shape.empty() || y.shape.size() > 2 || y.size() == 0)
        throw IoError(y.name, "has the shape " + text_of(y.shape) + "; " + what + " are (n) or (n, each)");
    return y.shape.size() == 2 ? y.shape[1] : 1;
}

}  // namespace detail

// `classes` 0: the largest label and one more.
inline data::Dataset decode_npy_dataset(const NamedTensor& features, const NamedTensor& labels,
                                        std::size_t classes = 0) {
    return detail::npy_dataset(features, detail::labels_of(labels), labels.name, classes);
}
// Several classes an example: an array (n, classes) of 0 and 1.
inline data::Dataset decode_npy_multi_hot(const NamedTensor& features, const NamedTensor& labels) {
    const std::size_t each = detail::numbers_each(labels, "multi-hot labels");
    return detail::with_rows(features, labels.size() / each, [&](auto rows) {
        auto all = detail::with_numbers(labels, [&](const auto& numbers) {
            std::vector<std::uint8_t> out;
            for (const auto number : numbers) {
                if (number != 0 && number != 1)
                    throw IoError(labels.name, "multi-hot label " + std::to_string(static_cast<double>(number)) +
                                                   " of example " + std::to_string(out.size() / each) +
                                                   " is neither 0 nor 1");
                out.push_back(number != 0);
            }
            return out;
        });
        return data::Dataset::multi_label(std::move(rows), std::move(all), each);
    });
}
// What is said in an example, as labels without a place (nn/ctc.hpp): an array (n, most), the labels of each in order
// and negative numbers for none. Frames of features are rows of (n, frames, features).
inline data::Dataset decode_npy_transcripts(const NamedTensor& features, const NamedTensor& transcripts) {
    const std::size_t each = detail::numbers_each(transcripts, "transcripts");
    return detail::with_rows(features, transcripts.size() / each, [&](auto rows) {
        auto all = detail::with_numbers(transcripts, [&](const auto& numbers) {
            std::vector<std::int32_t> out;
            for (const auto number : numbers) {
                const auto value = static_cast<double>(number);
                if (!(value >= -2147483648.0 && value < 2147483647.0) || value != std::floor(value))
                    throw IoError(transcripts.name, "label " + std::to_string(value) + " of example " +
                                                        std::to_string(out.size() / each) + " is no whole number");
                out.push_back(static_cast<std::int32_t>(value));
            }
            return out;
        });
        if (*std::max_element(all.begin(), all.end()) < 0) throw IoError(transcripts.name, "has no label at all");
        const std::size_t classes = detail::classes_in(all, transcripts.name, 2);
        return data::Dataset::own(std::move(rows), std::move(all), classes, each);
    });
}
// Real targets: an array (n) or (n, targets).
inline data::Dataset decode_npy_targets(const NamedTensor& features, const NamedTensor& targets) {
    const std::size_t each = detail::numbers_each(targets, "targets");
    return detail::with_rows(features, targets.size() / each, [&](auto rows) {
        auto all = detail::with_numbers(targets, [&](const auto& numbers) {
            std::vector<double> out;
            for (const auto number : numbers) {
                out.push_back(static_cast<double>(number));
                if (!std::isfinite(out.back()))
                    throw IoError(targets.name, "a target of example " + std::to_string((out.size() - 1) / each) +
                                                    " is not a finite number");
            }
            return out;
        });
        return data::Dataset::regression(std::move(rows), std::move(all), each);
    });
}
inline data::Dataset read_npy_dataset(const std::string& features, const std::string& labels, std::size_t classes = 0) {
    auto x = read_npy(features), y = read_npy(labels);
    x.name = features;
    y.name = labels;
    return decode_npy_dataset(x, y, classes);
}

// The shifts in a directory: every .npy but labels.npy, without the ending.
inline std::vector<std::string> list_shifts(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& name : list_files(directory))
        if (name.ends_with(".npy") && name != "labels.npy") names.push_back(name.substr(0, name.size() - 4));
    return names;
}

// One severity of one shift, 1 the mildest.
inline data::Dataset read_shift(const std::string& directory, const std::string& shift, std::size_t severity,
                                std::size_t severities = 5, std::size_t classes = 0) {
    tessera::detail::require(
        severity >= 1 && severity <= severities,
        "io::read_shift: severity is " + std::to_string(severity) + "; it must be in 1.." + std::to_string(severities));
    const std::string path = directory + "/" + shift + ".npy", labels_path = directory + "/labels.npy";
    auto x = read_npy(path), y = read_npy(labels_path);
    x.name = path;
    y.name = labels_path;
    const auto all = detail::labels_of(y);
    if (x.shape.empty() || x.shape[0] != all.size() || all.size() % severities != 0 || all.empty())
        throw IoError(path, "has the shape " + detail::text_of(x.shape) + " for " + std::to_string(all.size()) +
                                " labels; both must hold " + std::to_string(severities) + " equal parts");
    const std::size_t part = all.size() / severities, from = (severity - 1) * part, row = x.bytes.size() / all.size();
    const auto begin = x.bytes.begin() + static_cast<std::ptrdiff_t>(from * row);
    x.bytes = std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(part * row));
    x.shape[0] = part;
    const auto label = all.begin() + static_cast<std::ptrdiff_t>(from);
    return detail::npy_dataset(x, {label, label + static_cast<std::ptrdiff_t>(part)}, labels_path, classes);
}

// Without a copy of the features: bytes or floats of shape (n, d), (n, height, width) or with one channel, read where
// they lie (io/mapped.hpp). Floats are looked at once, for numbers that are not finite.
inline data::Dataset map_npy_dataset(const std::string& features_path, const std::string& labels_path,
                                     std::size_t classes = 0) {
    auto labels = detail::labels_of(read_npy(labels_path));
    auto file = map_file(features_path);
    NamedTensor x;
    const auto numbers = detail::read_npy_head(file->bytes(), features_path, x);
    const auto& shape = x.shape;
    if (shape.size() < 2 || shape.size() > 4 || (shape.size() == 4 && shape[3] != 1) || numbers.empty())
        throw IoError(features_path, "has the shape " + detail::text_of(shape) +
                                         "; mapped examples are (n, d), (n, height, width) or (n, height, width, 1)");
    if (shape[0] != labels.size())
        throw IoError(features_path, "holds " + std::to_string(shape[0]) + " examples, for " +
                                         std::to_string(labels.size()) + " labels");
    if (classes == 0) classes = detail::classes_in(labels, labels_path);
    for (const auto label : labels)
        if (static_cast<std::size_t>(label) >= classes)
            throw IoError(labels_path, "has the label " + std::to_string(label) + ", not one of " +
                                           std::to_string(classes) + " classes");
    const auto as = [&]<class T>(T) {
        if (reinterpret_cast<std::uintptr_t>(numbers.data()) % alignof(T) != 0)
            throw IoError(features_path, "its numbers do not begin at a multiple of their size; save it with numpy");
        const std::span<const T> rows(reinterpret_cast<const T*>(numbers.data()), numbers.size() / sizeof(T));
        if constexpr (std::is_floating_point_v<T>)
            if (!tessera::detail::finite(rows.data(), rows.size()))
                throw IoError(features_path, "holds a number that is not finite");
        return data::Dataset::kept_by(std::move(file), rows, std::move(labels), classes);
    };
    if (x.dtype == Dtype::uint8) return as(std::uint8_t{});
    if (x.dtype == Dtype::float32) return as(float{});
    if (x.dtype == Dtype::float64) return as(double{});
    throw IoError(features_path, "holds " + std::string(detail::facts(x.dtype).name) +
                                     "; uint8, float32 and float64 can be mapped, others are read by read_npy_dataset");
}

}  // namespace tessera::io
