// SPDX-License-Identifier: BSD-3-Clause
// What somebody who mistyped a name most likely meant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lab {

// Insertions, deletions, replacements and exchanges of neighbours that lead from one to the other.
inline std::size_t edits_between(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1), above(row), second(row);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        second.swap(above);
        above.swap(row);
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], second[j - 2] + 1);
        }
    }
    return row[b.size()];
}

// Empty where nothing is near enough to be meant.
inline std::string nearest(std::string_view name, const std::vector<std::string>& known) {
    std::string best;
    // Two edits make any name of two letters of any other.
    std::size_t fewest = std::max<std::size_t>(name.size() < 4 ? 1 : 2, name.size() / 3) + 1;
    for (const auto& each : known)
        if (const std::size_t edits = edits_between(name, each); edits < fewest) {
            fewest = edits;
            best = each;
        }
    return best;
}

// What a sentence about a name that there is not goes on with.
inline std::string perhaps(std::string_view name, const std::vector<std::string>& known) {
    const auto meant = nearest(name, known);
    return meant.empty() ? "" : "; did you mean " + meant + "?";
}

}  // namespace lab
