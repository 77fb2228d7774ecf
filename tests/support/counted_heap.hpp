// SPDX-License-Identifier: BSD-3-Clause
// Every allocation of the program, counted. Include it in one file of a program only: it replaces operator new. The
// forms for arrays and without exceptions call these.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace tessera::support {

inline std::atomic<std::size_t> allocations{0};
inline std::atomic<std::size_t> large{~std::size_t{0}}, large_allocations{0};  // of at least `large` bytes

inline void* counted(std::size_t size, std::size_t alignment) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (size >= large) large_allocations.fetch_add(1, std::memory_order_relaxed);
    if (size == 0) size = 1;
    void* block = alignment > alignof(std::max_align_t)
                      ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                      : std::malloc(size);
    if (!block) throw std::bad_alloc();
    return block;
}

}  // namespace tessera::support

// Not inlined: GCC would see a free() of what an operator new gave, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) { return tessera::support::counted(size, 0); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
    return tessera::support::counted(size, std::size_t(alignment));
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
