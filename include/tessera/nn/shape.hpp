// SPDX-License-Identifier: BSD-3-Clause
// The shape of one example between two layers: a vector {n}, a sequence {positions, n}, planes {channels, height,
// width}.
#pragma once

#include <array>
#include <cstddef>

namespace tessera::nn {

struct Shape {
    std::array<std::size_t, 3> sizes{1, 1, 1};
    std::size_t rank = 1;

    constexpr Shape() = default;
    constexpr Shape(std::size_t n) : sizes{n, 1, 1} {}
    constexpr Shape(std::size_t positions, std::size_t n) : sizes{positions, n, 1}, rank(2) {}
    constexpr Shape(std::size_t channels, std::size_t height, std::size_t width)
        : sizes{channels, height, width}, rank(3) {}

    constexpr std::size_t size() const { return sizes[0] * sizes[1] * sizes[2]; }
    // Rows that a layer sees which works along the last axis, and their width: planes are one row.
    constexpr std::size_t positions() const { return rank == 2 ? sizes[0] : 1; }
    constexpr std::size_t width() const { return rank == 2 ? sizes[1] : size(); }
    friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

}  // namespace tessera::nn
