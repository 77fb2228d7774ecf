// SPDX-License-Identifier: BSD-3-Clause
// Fashion-MNIST (Xiao et al., 2017): 28 x 28 grey images of ten kinds of clothing, as one pool of bytes.
//
// The four IDX files are looked for in $TESSERA_DATA_DIR/fashion-mnist, in $TESSERA_DATA_DIR, and where Debian's
// package dataset-fashion-mnist puts them; each may be gzipped or not. Needs: zlib (component `zlib`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/idx.hpp>

namespace tessera::io {

inline constexpr std::size_t fashion_mnist_train_size = 60000, fashion_mnist_test_size = 10000;

namespace detail {

inline std::optional<std::string> plain_or_gzipped(const std::string& path) {
    for (const auto* ending : {".gz", ""})
        if (exists(path + ending)) return path + ending;
    return std::nullopt;
}

inline bool holds_fashion_mnist(const std::string& directory) {
    for (const auto* name :
         {"/train-images-idx3-ubyte", "/train-labels-idx1-ubyte", "/t10k-images-idx3-ubyte", "/t10k-labels-idx1-ubyte"})
        if (!plain_or_gzipped(directory + name)) return false;
    return true;
}

}  // namespace detail

// The first directory that holds all four files.
inline std::optional<std::string> find_fashion_mnist() {
    std::vector<std::string> places;
    if (const char* directory = std::getenv("TESSERA_DATA_DIR"); directory && *directory) {
        places.push_back(std::string(directory) + "/fashion-mnist");
        places.emplace_back(directory);
    }
    places.emplace_back("/usr/share/datasets/fashion-mnist");
    for (auto& place : places)
        if (detail::holds_fashion_mnist(place)) return std::move(place);
    return std::nullopt;
}

// The training file's 60,000 examples and then the test file's 10,000.
inline data::Dataset load_fashion_mnist(const std::string& directory) {
    constexpr std::size_t classes = 10, side = 28;
    std::vector<std::uint8_t> pixels;
    std::vector<std::int32_t> labels;
    pixels.reserve((fashion_mnist_train_size + fashion_mnist_test_size) * side * side);
    for (const auto& [file, size] :
         {std::pair{"train", fashion_mnist_train_size}, std::pair{"t10k", fashion_mnist_test_size}}) {
        const auto path_of = [&](const std::string& kind) {
            const std::string path = directory + "/" + file + kind;
            if (auto found = detail::plain_or_gzipped(path)) return *std::move(found);
            throw IoError(path, "is not there, neither plain nor with .gz");
        };
        const std::string images_path = path_of("-images-idx3-ubyte"), labels_path = path_of("-labels-idx1-ubyte");
        const IdxArray images = detail::read_idx_images(images_path);
        if (images.shape != std::vector<std::size_t>{size, side, side})
            throw IoError(images_path, "the dimensions are not " + std::to_string(size) + " x 28 x 28");
        const auto kinds = detail::read_idx_labels(labels_path, size, classes);
        pixels.insert(pixels.end(), images.bytes.begin(), images.bytes.end());
        labels.insert(labels.end(), kinds.begin(), kinds.end());
    }
    return data::Dataset::own(std::move(pixels), std::move(labels), classes);
}

}  // namespace tessera::io
