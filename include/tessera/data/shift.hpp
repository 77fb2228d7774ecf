// SPDX-License-Identifier: BSD-3-Clause
// Test images as they would look under worse conditions: new datasets from the images of any dataset.
//
//   noise       u + c n, n normal, keyed by seed and example: the same draw at every severity
//   blur        Gaussian of deviation c pixels, cut at 3 deviations, the border repeated outwards
//   brightness  u + c
//   contrast    m + c (u - m), m the mean of the image's channel
//   pixelate    the mean over each cell of a grid of floor(c * side) cells a side
//
// u is a pixel between black (0) and white (1); results are cut to that range. What c is at severities 1 to 5 is
// `shift_strength`, the strengths usual for 32 x 32 images (Hendrycks and Dietterich, ICLR 2019). Bytes stay bytes,
// rounded to the nearest, and keep the reading of their source. A row is channel after channel, each line by line.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>

namespace tessera::data {

struct ImageShape {
    std::size_t width = 0, height = 0, channels = 1;
    float black = 0, white = 1;  // of images that are not bytes
    std::size_t size() const { return width * height * channels; }
};

enum class Corruption : std::uint8_t { noise, blur, brightness, contrast, pixelate };
constexpr std::array<std::string_view, 5> words_of(Corruption) {
    return {"noise", "blur", "brightness", "contrast", "pixelate"};
}

// c, by corruption and severity.
inline constexpr std::array<std::array<double, 5>, 5> shift_strength{{{0.04, 0.06, 0.08, 0.09, 0.10},
                                                                      {0.4, 0.6, 0.7, 0.8, 1.0},
                                                                      {0.05, 0.10, 0.15, 0.20, 0.30},
                                                                      {0.75, 0.50, 0.40, 0.30, 0.15},
                                                                      {0.95, 0.90, 0.85, 0.75, 0.65}}};

struct Shift {
    Corruption kind = Corruption::noise;
    std::size_t severity = 3;
    std::uint64_t seed = 1;

    void validate() const {
        tessera::detail::require(severity >= 1 && severity <= 5,
                                 "a shift has a severity from 1 to 5, not " + std::to_string(severity));
    }
    double strength() const { return shift_strength[static_cast<std::size_t>(kind)][severity - 1]; }
    std::string name() const {  // "noise:3"
        return std::string(words_of(kind)[static_cast<std::size_t>(kind)]) + ":" + std::to_string(severity);
    }
    static Shift parse(std::string_view text) {
        const auto colon = text.find(':');
        std::string known;
        for (std::size_t i = 0; i < words_of(Corruption{}).size(); ++i) {
            const auto word = words_of(Corruption{})[i];
            known.append(i == 0 ? "" : ", ").append(word);
            if (text.substr(0, colon) != word || colon == text.npos) continue;
            Shift shift{.kind = static_cast<Corruption>(i)};
            const auto number = text.substr(colon + 1);
            const auto read = std::from_chars(number.data(), number.data() + number.size(), shift.severity);
            if (read.ec != std::errc{} || read.ptr != number.data() + number.size())
                throw ConfigError("a shift has a severity from 1 to 5, not '" + std::string(number) + "'");
            shift.validate();
            return shift;
        }
        throw ConfigError("a shift is one of " + known + ", with its severity, as in noise:3; not '" +
                          std::string(text) + "'");
    }
};

// Every corruption at every severity.
inline std::vector<Shift> all_shifts(std::uint64_t seed = 1) {
    std::vector<Shift> all;
    for (std::size_t kind = 0; kind < shift_strength.size(); ++kind)
        for (std::size_t severity = 1; severity <= 5; ++severity)
            all.push_back({static_cast<Corruption>(kind), severity, seed});
    return all;
}

namespace detail {

// One channel, line by line.
class Plane {
public:
    Plane(std::span<double> pixels, std::size_t width) : pixels_(pixels), width_(width) {}

    void blur(double deviation) {
        const auto reach = static_cast<std::ptrdiff_t>(std::ceil(3 * deviation));
        std::vector<double> weights;
        for (std::ptrdiff_t d = -reach; d <= reach; ++d)
            weights.push_back(std::exp(-static_cast<double>(d * d) / (2 * deviation * deviation)));
        const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (double& w : weights) w /= total;
        for (const bool along_lines : {true, false}) {
            const auto sharp = std::vector<double>(pixels_.begin(), pixels_.end());
            const auto last = static_cast<std::ptrdiff_t>(along_lines ? width_ : height()) - 1;
            for (std::size_t y = 0; y < height(); ++y)
                for (std::size_t x = 0; x < width_; ++x) {
                    double sum = 0;
                    for (std::ptrdiff_t d = -reach; d <= reach; ++d) {
                        const auto here = static_cast<std::ptrdiff_t>(along_lines ? x : y);
                        const auto there = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(here + d, 0, last));
                        sum += weights[static_cast<std::size_t>(d + reach)] *
                               sharp[along_lines ? y * width_ + there : there * width_ + x];
                    }
                    pixels_[y * width_ + x] = sum;
                }
        }
    }
    void flatten(double contrast) {
        const double mean = std::accumulate(pixels_.begin(), pixels_.end(), 0.0) / static_cast<double>(pixels_.size());
        for (double& u : pixels_) u = mean + contrast * (u - mean);
    }
    void pixelate(double share) {
        const auto cells = [&](std::size_t side) {
            return std::max<std::size_t>(1, static_cast<std::size_t>(share * static_cast<double>(side)));
        };
        const std::size_t across = cells(width_), down = cells(height());
        std::vector<double> sums(across * down), counts(across * down);
        const auto cell = [&](std::size_t i) {
            return i / width_ * down / height() * across + i % width_ * across / width_;
        };
        for (std::size_t i = 0; i < pixels_.size(); ++i) {
            sums[cell(i)] += pixels_[i];
            counts[cell(i)] += 1;
        }
        for (std::size_t i = 0; i < pixels_.size(); ++i) pixels_[i] = sums[cell(i)] / counts[cell(i)];
    }

private:
    std::size_t height() const { return pixels_.size() / width_; }
    std::span<double> pixels_;
    std::size_t width_;
};

// An image with pixels in [0, 1] leaves shifted, in [0, 1].
inline void shift_image(std::span<double> image, const ImageShape& shape, const Shift& shift, std::size_t example) {
    const double c = shift.strength();
    if (shift.kind == Corruption::noise) {
        Stream draw(Key{shift.seed}(purpose::noise)(example));
        for (double& u : image) u += c * draw.normal();
    } else if (shift.kind == Corruption::brightness) {
        for (double& u : image) u += c;
    } else {
        const std::size_t area = shape.width * shape.height;
        for (std::size_t channel = 0; channel < shape.channels; ++channel) {
            Plane plane(image.subspan(channel * area, area), shape.width);
            if (shift.kind == Corruption::blur) plane.blur(c);
            else if (shift.kind == Corruption::contrast) plane.flatten(c);
            else plane.pixelate(c);
        }
    }
    for (double& u : image) u = std::clamp(u, 0.0, 1.0);
}

// Rows of T, black and white as T has them, and the way back.
template <class T>
std::vector<T> shifted_rows(const Examples& from, const ImageShape& shape, const Shift& shift,
                            std::span<const Index> of) {
    constexpr bool bytes = std::is_same_v<T, std::uint8_t>;
    const double black = bytes ? 0 : static_cast<double>(shape.black);
    const double white = bytes ? 255 : static_cast<double>(shape.white);
    std::vector<T> rows(of.size() * from.width);
    std::vector<double> image(from.width);
    Examples raw = from;
    raw.shift = 0, raw.scale = 1;  // bytes as they are
    for (std::size_t i = 0; i < of.size(); ++i) {
        Batch<double>(raw, of.subspan(i, 1)).read(0, image);
        for (double& u : image) {
            if (!(u >= black && u <= white))
                throw ConfigError("data::shifted: pixel " + std::to_string(u) + " of example " +
                                  std::to_string(of[i]) +
                                  " is not between black and white; say in ImageShape what these are in this data");
            u = (u - black) / (white - black);
        }
        shift_image(image, shape, shift, of[i]);
        for (std::size_t j = 0; j < image.size(); ++j) {
            const double value = std::min(black + image[j] * (white - black), white);
            rows[i * from.width + j] = static_cast<T>(bytes ? std::round(value) : value);
        }
    }
    return rows;
}

}  // namespace detail

// The examples `of` the dataset, in that order, shifted, with their labels.
inline Dataset shifted(const Dataset& images, const ImageShape& shape, const Shift& shift, std::span<const Index> of) {
    const Examples& from = images.examples();
    shift.validate();
    tessera::detail::require(shape.size() > 0 && shape.size() == from.width && shape.black < shape.white,
                             "data::shifted: images of " + std::to_string(shape.width) + " x " +
                                 std::to_string(shape.height) + " x " + std::to_string(shape.channels) +
                                 " do not fit rows of " + std::to_string(from.width) + " numbers");
    tessera::detail::require(from.labels || from.multi_hot, "data::shifted: the images have no classes");
    const auto with = [&](auto rows) {
        if (from.labels) {
            std::vector<std::int32_t> labels;
            const std::size_t each = from.labels_each;
            for (const Index i : of) labels.insert(labels.end(), from.labels + i * each, from.labels + (i + 1) * each);
            return Dataset::own(std::move(rows), std::move(labels), from.classes, each);
        }
        std::vector<std::uint8_t> all;
        for (const Index i : of)
            all.insert(all.end(), from.multi_hot + i * from.classes, from.multi_hot + (i + 1) * from.classes);
        return Dataset::multi_label(std::move(rows), std::move(all), from.classes);
    };
    switch (from.storage) {
        case Storage::bytes:
            return with(detail::shifted_rows<std::uint8_t>(from, shape, shift, of)).normalised(from.shift, from.scale);
        case Storage::float64: return with(detail::shifted_rows<double>(from, shape, shift, of));
        case Storage::int32: throw ConfigError("data::shifted: rows of whole numbers are no images");
        case Storage::float32:
        case Storage::callback: break;
    }
    return with(detail::shifted_rows<float>(from, shape, shift, of));
}
inline Dataset shifted(const Dataset& images, const ImageShape& shape, const Shift& shift) {
    std::vector<Index> all(images.size());
    std::iota(all.begin(), all.end(), Index{0});
    return shifted(images, shape, shift, all);
}

}  // namespace tessera::data
