// SPDX-License-Identifier: BSD-3-Clause
// Memory of a client while it trains (Pillutla et al., ICML 2022, B.4): u as received, u and v as they move, and the
// gradients of both, beside the buffers of back-propagation for a batch of one.
//
//   bytes = 4 (3 |u| + 2 |v|) + buffers
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <tessera/report/extra.hpp>

namespace tessera::report::analysis {

inline double training_memory(std::size_t shared, std::size_t personal, double buffers = 0) {
    return 4 * (3 * static_cast<double>(shared) + 2 * static_cast<double>(personal)) + buffers;
}

// Beside no personalization (|v| = 0) and a personal copy of everything (|u| = |v| = d). `buffers` in bytes.
inline Extra memory_estimate(std::size_t shared, std::size_t personal, double buffers = 0) {
    const std::size_t d = shared + personal;
    constexpr double megabyte = 1e6;
    Extra out{.id = "memory",
              .title = "Training memory of a client",
              .caption = std::string("An estimate: 4 bytes for three copies of the shared and two of the personal "
                                     "parameters") +
                         (buffers > 0 ? ", and the buffers of back-propagation for one example."
                                      : "; the buffers of back-propagation are not counted."),
              .kind = Kind::bars,
              .y = {.title = "memory", .unit = "MB", .from_zero = true},
              .categories = {"no personal part", "this run", "all personal"},
              .series = {{.name = "parameters and gradients"}}};
    for (const double bytes : {training_memory(d, 0), training_memory(shared, personal), training_memory(d, d)})
        out.series[0].y.push_back(bytes / megabyte);
    if (buffers > 0) out.series.push_back({.name = "back-propagation", .y = std::vector(3, buffers / megabyte)});
    return out;
}

}  // namespace tessera::report::analysis
