// SPDX-License-Identifier: BSD-3-Clause
// How long something took. <chrono> would bring the streams along, a tenth of what a federation costs to include.
#pragma once

#include <ctime>

namespace tessera {

// Seconds on a clock that only goes forward; differences have a meaning, the value has none.
inline double clock_seconds() {
    std::timespec now{};
#ifdef CLOCK_MONOTONIC
    clock_gettime(CLOCK_MONOTONIC, &now);
#else
    std::timespec_get(&now, TIME_UTC);
#endif
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace tessera
