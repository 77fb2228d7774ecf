// SPDX-License-Identifier: BSD-3-Clause
// The limits everything else is measured against: clock, multiply-add rate, read bandwidth of each level.
//
// The loops are assembly, so that no compiler can shorten them; nothing in them depends on memory except the reads.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <tessera/kernels/dispatch.hpp>

#include "support/read_limit.hpp"
#include "support/verdict.hpp"

namespace {

// A chain of additions takes one cycle each on every x86-64 of this century.
void clock_rate(benchmark::State& state) {
#if defined(__x86_64__)
    constexpr std::uint64_t additions = 16, loops = 100'000;
    for (auto _ : state) {
        std::uint64_t n = loops, x = 0;
        asm volatile("1:\n\t"
                     ".rept 16\n\taddq %2, %1\n\t.endr\n\t"
                     "decq %0\n\tjnz 1b"
                     : "+r"(n), "+r"(x)
                     : "r"(std::uint64_t{3})
                     : "cc");
        benchmark::DoNotOptimize(x);
    }
    state.counters["cycles"] = static_cast<double>(additions * loops);
#else
    state.SkipWithError("not measured: written for x86-64");
#endif
}

#if defined(__x86_64__)

// Two ports of 4 cycles latency keep 8 multiply-adds in flight; 16 and 12 accumulators are more than that.
[[gnu::target("avx512f")]] void fma_avx512(std::uint64_t loops) {
    asm volatile(".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n\t"
                 "vpxord %%zmm\\r, %%zmm\\r, %%zmm\\r\n\t.endr\n\t"
                 "1:\n\t"
                 ".rept 2\n\t.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
                 "vfmadd231ps %%zmm16, %%zmm17, %%zmm\\r\n\t.endr\n\t.endr\n\t"
                 "decq %0\n\tjnz 1b"
                 : "+r"(loops)
                 :
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                   "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17");
}
[[gnu::target("avx2,fma")]] void fma_avx2(std::uint64_t loops) {
    asm volatile(".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13\n\t"
                 "vxorps %%ymm\\r, %%ymm\\r, %%ymm\\r\n\t.endr\n\t"
                 "1:\n\t"
                 ".rept 2\n\t.irp r,0,1,2,3,4,5,6,7,8,9,10,11\n\t"
                 "vfmadd231ps %%ymm12, %%ymm13, %%ymm\\r\n\t.endr\n\t.endr\n\t"
                 "decq %0\n\tjnz 1b"
                 : "+r"(loops)
                 :
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                   "xmm11", "xmm12", "xmm13");
}

using Fma = void (*)(std::uint64_t);

void multiply_adds(benchmark::State& state, Fma loop, double per_turn) {
    constexpr std::uint64_t loops = 100'000;
    for (auto _ : state) loop(loops);
    state.counters["flop"] = 2 * per_turn * static_cast<double>(loops);
}

void read_level(benchmark::State& state, bench::Read loop, std::size_t bytes) {
    // Huge pages, where the kernel grants them: the walk over the page table is not what is measured.
    constexpr std::size_t huge = std::size_t{1} << 21;
    const std::size_t rounded = (bytes + huge - 1) / huge * huge;
    auto* block = static_cast<std::byte*>(std::aligned_alloc(huge, rounded));
    ::madvise(block, rounded, MADV_HUGEPAGE);
    for (std::size_t i = 0; i < rounded; ++i) block[i] = std::byte{1};
    const std::size_t passes = std::max<std::size_t>(1, (std::size_t{1} << 20) / bytes);  // a call costs nothing then
    for (auto _ : state)
        for (std::size_t p = 0; p < passes; ++p) loop(block, bytes);
    state.counters["byte"] = static_cast<double>(bytes * passes);
    std::free(block);
}

#endif

}  // namespace

int main(int argc, char** argv) {
    benchmark::RegisterBenchmark("clock", clock_rate);
#if defined(__x86_64__)
    using tessera::kernels::Set;
    const bool avx512 = tessera::kernels::supported(Set::avx512), avx2 = tessera::kernels::supported(Set::avx2);
    if (avx512) benchmark::RegisterBenchmark("fma/avx512", multiply_adds, fma_avx512, 32 * 16.0);
    if (avx2) benchmark::RegisterBenchmark("fma/avx2", multiply_adds, fma_avx2, 24 * 8.0);
    if (const auto widest = bench::widest_read()) {
        struct Level {
            const char* name;
            std::size_t bytes;
        };
        // Half of what the levels of an Ice Lake or Sapphire Rapids core hold, and far beyond the last one.
        constexpr Level levels[]{{"L1", 24u << 10}, {"L2", 512u << 10}, {"L3", 8u << 20}, {"DRAM", 1u << 30}};
        for (const auto& level : levels)
            benchmark::RegisterBenchmark((std::string("read/") + level.name).c_str(), read_level, widest, level.bytes);
    }
#endif
    return bench::run(argc, argv);
}
