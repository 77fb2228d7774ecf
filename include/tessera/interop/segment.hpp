// SPDX-License-Identifier: BSD-3-Clause
// What both bridges ask before they lend memory: where a name lies, whether a shape fits, how rows are stored.
#pragma once

#include <cstddef>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>

#include <tessera/core/batch.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>

namespace tessera::interop {

// Contiguous numbers that outlive the call: a Vec that has a name, a span, never a temporary Vec.
template <class X>
concept Numbers = std::ranges::contiguous_range<X> && std::ranges::borrowed_range<X> &&
                  std::is_floating_point_v<std::ranges::range_value_t<X>>;

namespace detail {

inline const Segment& segment_named(Layout layout, std::string_view name, std::size_t numbers) {
    std::string known;
    for (const auto& segment : layout) {
        if (segment.name.view() == name) {
            tessera::detail::require(segment.end() <= numbers,
                                     "'" + std::string(name) + "' ends at " + std::to_string(segment.end()) +
                                         ", but only " + std::to_string(numbers) + " numbers were given");
            return segment;
        }
        known.append(known.empty() ? "" : ", ").append(segment.name.view());
    }
    throw ConfigError("there is no parameter '" + std::string(name) + "'; there is " + known);
}

inline void require_size(std::size_t numbers, std::size_t expected) {
    tessera::detail::require(numbers == expected, "a view of " + std::to_string(expected) + " numbers was asked for, " +
                                                      std::to_string(numbers) + " were given");
}

// The rows as they lie. Bytes and callbacks have none: Batch::inputs() makes them.
template <class R>
const R* rows_of(const Examples& examples) {
    constexpr auto same = std::is_same_v<R, float> ? Storage::float32 : Storage::float64;
    tessera::detail::require(examples.storage == same,
                             "the examples are not stored as these numbers; Batch::inputs() converts them");
    return static_cast<const R*>(examples.rows);
}

}  // namespace detail
}  // namespace tessera::interop
