// SPDX-License-Identifier: BSD-3-Clause
// The affine readings of 8-bit pixels: one (byte - shift) * scale for the whole pool, no copy made.
//
//   standardised:   (x - mean) / (std + 0.001) over all pixels, of all examples or of those you name
//   scaled_to_unit: x / 255
//
// Needs: a pool of bytes. The sums are whole numbers, so the result does not depend on how they are taken.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>

namespace tessera::data {

namespace detail {
inline void require_bytes(const Dataset& pool, const std::string& who) {
    tessera::detail::require(pool.examples().storage == Storage::bytes,
                             "data::" + who + ": the pool does not hold bytes, so it cannot be read as shifted ones");
}
}  // namespace detail

// Over the pixels of these examples: the training examples, since a mean that knows the others tells of them.
inline Dataset standardised(const Dataset& pool, std::span<const Index> over) {
    detail::require_bytes(pool, "standardised");
    const auto& view = pool.examples();
    const std::size_t count = over.size() * view.width;
    tessera::detail::require(count > 0, "data::standardised: the pool has no pixels");

    std::uint64_t sum = 0, squares = 0;
    const auto* pixels = static_cast<const std::uint8_t*>(view.rows);
    for (const Index i : over) {
        tessera::detail::require(i < view.size, "data::standardised: example " + std::to_string(i) +
                                                    " is not in the pool of " + std::to_string(view.size));
        for (const auto* pixel = pixels + i * view.width; pixel < pixels + (i + 1) * view.width; ++pixel) {
            sum += *pixel;
            squares += std::uint64_t{*pixel} * *pixel;
        }
    }
    __extension__ typedef unsigned __int128 Wide;
    const auto n = static_cast<double>(count);
    const double spread = static_cast<double>(Wide{count} * squares - Wide{sum} * sum);  // n^2 times the variance
    return pool.normalised(static_cast<float>(static_cast<double>(sum) / n),
                           static_cast<float>(1 / (std::sqrt(spread) / n + 0.001)));
}
inline Dataset standardised(const Dataset& pool) {
    std::vector<Index> all(pool.size());
    std::iota(all.begin(), all.end(), Index{0});
    return standardised(pool, all);
}

inline Dataset scaled_to_unit(const Dataset& pool) {
    detail::require_bytes(pool, "scaled_to_unit");
    return pool.normalised(0.0f, 1.0f / 255.0f);
}

}  // namespace tessera::data
