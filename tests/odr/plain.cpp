// SPDX-License-Identifier: BSD-3-Clause
// Two translation units include everything, one of them built for another instruction set; the program must link (no
// definition twice) and both must see the same library.
#include "facts.hpp"

#include <cstdio>

odr::Facts odr::plain() { return facts(); }

int main() {
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2")) {
        std::puts("skipped: this processor has no AVX2");
        return 77;
    }
#endif
    const bool same = odr::plain() == odr::avx2();
    std::puts(same ? "both units agree" : "the two units see different libraries");
    return same ? 0 : 1;
}
