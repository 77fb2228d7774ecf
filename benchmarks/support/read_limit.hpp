// SPDX-License-Identifier: BSD-3-Clause
// Reads memory and does nothing with it: what no program that needs the numbers can beat. Assembly, so that no compiler
// can shorten it. `bytes` is a multiple of 512.
#pragma once

#include <cstddef>

#include <tessera/kernels/dispatch.hpp>

namespace bench {

#if defined(__x86_64__)

[[gnu::target("avx512f")]] inline void read_avx512(const void* from, std::size_t bytes) {
    const void* end = static_cast<const std::byte*>(from) + bytes;
    asm volatile("1:\n\t"
                 "vmovups (%0), %%zmm0\n\tvmovups 64(%0), %%zmm1\n\tvmovups 128(%0), %%zmm2\n\t"
                 "vmovups 192(%0), %%zmm3\n\tvmovups 256(%0), %%zmm4\n\tvmovups 320(%0), %%zmm5\n\t"
                 "vmovups 384(%0), %%zmm6\n\tvmovups 448(%0), %%zmm7\n\t"
                 "addq $512, %0\n\tcmpq %1, %0\n\tjb 1b"
                 : "+r"(from)
                 : "r"(end)
                 : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
}
[[gnu::target("avx2")]] inline void read_avx2(const void* from, std::size_t bytes) {
    const void* end = static_cast<const std::byte*>(from) + bytes;
    asm volatile("1:\n\t"
                 "vmovups (%0), %%ymm0\n\tvmovups 32(%0), %%ymm1\n\tvmovups 64(%0), %%ymm2\n\t"
                 "vmovups 96(%0), %%ymm3\n\tvmovups 128(%0), %%ymm4\n\tvmovups 160(%0), %%ymm5\n\t"
                 "vmovups 192(%0), %%ymm6\n\tvmovups 224(%0), %%ymm7\n\t"
                 "addq $256, %0\n\tcmpq %1, %0\n\tjb 1b"
                 : "+r"(from)
                 : "r"(end)
                 : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
}

using Read = void (*)(const void*, std::size_t);

// The widest reads of this CPU; null where there are none.
inline Read widest_read() {
    using tessera::kernels::Set;
    if (tessera::kernels::supported(Set::avx512)) return read_avx512;
    return tessera::kernels::supported(Set::avx2) ? read_avx2 : nullptr;
}

#else

using Read = void (*)(const void*, std::size_t);
inline Read widest_read() { return nullptr; }

#endif

}  // namespace bench
