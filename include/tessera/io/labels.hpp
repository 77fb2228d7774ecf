// SPDX-License-Identifier: BSD-3-Clause
// How many classes a file of labels speaks of. Models and reports have a place for each of them, so labels that were
// never counted from 0, such as years or the numbers of customers, are refused before memory is taken for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tessera/core/error.hpp>

namespace tessera::io::detail {

// A part of a set may lack most of its classes, as a hundred pictures of a thousand kinds do.
inline constexpr std::size_t classes_of_any_file = 10000;

// `least` classes are known to be there.
inline std::size_t classes_in(const std::vector<std::int32_t>& labels, const std::string& name, std::size_t least = 1) {
    const auto most = static_cast<std::size_t>(*std::max_element(labels.begin(), labels.end()));
    if (most < least) return least;
    if (most >= std::max(labels.size(), classes_of_any_file))
        throw IoError(name, "has the label " + std::to_string(most) + " for " + std::to_string(labels.size()) +
                                " examples; classes are counted from 0, so number them without gaps");
    return most + 1;
}

}  // namespace tessera::io::detail
