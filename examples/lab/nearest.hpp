// SPDX-License-Identifier: BSD-3-Clause
// What somebody who mistyped a name most likely meant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lab {

// Insertions, deletions and replacements that lead from one to the other.
inline std::size_t edits_between(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
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
