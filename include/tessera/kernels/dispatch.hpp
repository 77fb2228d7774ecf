// SPDX-License-Identifier: BSD-3-Clause
// Kernel sets: the same bodies compiled for several instruction sets, one of them chosen at the first call.
//
// No build flag is asked of users: bodies are inlined into functions that carry a target attribute. The
// environment variable TESSERA_KERNELS forces a set by name. Bits are the same for any thread count within
// a set and differ between sets (lanes and fused multiply-adds), so reports name the active set.
//
// `amx` is avx512 with the first layer of a network on 8-bit inputs in matrix tiles (kernels/amx.hpp). Only
// TESSERA_KERNELS=amx selects it: how much it gains depends on the shape (docs/benchmarks.md), and a core may share its
// tile unit with others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include <tessera/core/error.hpp>

// TESSERA_PORTABLE_KERNELS, for all files of a program, leaves the other sets out: a sanitizer reads kernels for
// minutes.
#if defined(__x86_64__) && !defined(TESSERA_PORTABLE_KERNELS)
#define TESSERA_X86 1
#endif
#if defined(TESSERA_X86) && defined(__linux__) && defined(__LP64__)
#define TESSERA_TILES 1
#include <cpuid.h>
#endif

namespace tessera::kernels {

enum class Set : unsigned char { portable, avx2, avx512, amx };
inline constexpr std::array<std::string_view, 4> set_names{"portable", "avx2", "avx512", "amx"};

namespace detail {

// Whether the CPU has tiles of bf16 and of bytes, and Linux lets this process use them: tile registers are 8 KiB of
// every thread's state, which the kernel saves only for a process that asked (arch_prctl, ARCH_REQ_XCOMP_PERM, tile
// data).
inline bool tiles_granted() {
#ifdef TESSERA_TILES
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24, amx_int8 = 1u << 25;
    constexpr unsigned all = amx_bf16 | amx_tile | amx_int8;
    if ((d & all) != all) return false;
    constexpr long arch_prctl = 158, request_permission = 0x1023, tile_data = 18;
    long answer = arch_prctl;
    asm volatile("syscall" : "+a"(answer) : "D"(request_permission), "S"(tile_data) : "rcx", "r11", "memory");
    return answer == 0;
#else
    return false;
#endif
}

}  // namespace detail

inline bool supported(Set set) {
#ifdef TESSERA_X86
    __builtin_cpu_init();
    switch (set) {
        case Set::portable: return true;
        case Set::avx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        case Set::avx512:
            return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
        case Set::amx:
            return supported(Set::avx512) && __builtin_cpu_supports("avx512vbmi") && detail::tiles_granted();
    }
    return false;
#else
    return set == Set::portable;
#endif
}

// The set this process uses: the widest the CPU has, amx aside, or the one TESSERA_KERNELS names.
inline Set choose_set() {
    if (const char* forced = std::getenv("TESSERA_KERNELS"); forced && *forced) {
        for (std::size_t i = 0; i < set_names.size(); ++i)
            if (set_names[i] == forced) {
                tessera::detail::require(supported(Set(i)),
                                         "TESSERA_KERNELS=" + std::string(forced) +
                                             ": this CPU does not have the instructions of that kernel set");
                return Set(i);
            }
        throw ConfigError("TESSERA_KERNELS=" + std::string(forced) +
                          " names no kernel set; there are portable, avx2, avx512 and amx");
    }
    if (supported(Set::avx512)) return Set::avx512;
    return supported(Set::avx2) ? Set::avx2 : Set::portable;
}

// Tests assign to it; everybody else reads.
inline Set& active() {
    static Set set = choose_set();
    return set;
}
inline std::string_view active_name() { return set_names[static_cast<std::size_t>(active())]; }

// Told, on its own thread, when a kernel begins and ends; in programs that link the kernels, for traces. Other programs
// are not watched. Where nobody watches it is a test of one pointer a call.
class Watcher {
public:
    virtual void begins(const char* kernel) = 0;
    virtual void ends() = 0;

protected:
    ~Watcher() = default;
};
inline constinit thread_local Watcher* watcher = nullptr;

namespace detail {

// While it lives its kernel is watched and none inside it.
class Watched {
public:
    explicit Watched(const char* kernel) : by_(watcher) {
        watcher = nullptr;
        by_->begins(kernel);
    }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    ~Watched() {
        by_->ends();
        watcher = by_;
    }

private:
    Watcher* by_;
};

}  // namespace detail

}  // namespace tessera::kernels

// TESSERA_DISPATCH(name, R, (parameters), (arguments)) defines `name` over an always-inline template
// `name##_body<R, VectorBytes>`, once per kernel set, and the call that picks one.
//
// A program of many translation units compiles the kernels in each of them, unless it defines TESSERA_LINKED_KERNELS
// for all and compiles kernels/linked.cpp once. Linked kernels have names of their own, so the two never mix.
#if defined(TESSERA_LINKED_KERNELS) && !defined(TESSERA_KERNELS_SOURCE)
#define TESSERA_DISPATCH(name, R, parameters, arguments) \
    inline namespace linked {                            \
    void name parameters;                                \
    }
#else
#ifdef TESSERA_KERNELS_SOURCE
#define TESSERA_KERNELS_OPEN inline namespace linked {
#define TESSERA_KERNELS_CLOSE }
#define TESSERA_KERNELS_INLINE
// Calls itself once more, unwatched, so that the way without a watcher stays a jump.
#define TESSERA_KERNELS_WATCH(name, arguments)     \
    if (watcher) [[unlikely]] {                    \
        const detail::Watched watched(#name);      \
        name arguments;                            \
        return;                                    \
    }
#else
#define TESSERA_KERNELS_OPEN
#define TESSERA_KERNELS_CLOSE
#define TESSERA_KERNELS_INLINE inline
#define TESSERA_KERNELS_WATCH(name, arguments)
#endif
#ifdef TESSERA_X86
#define TESSERA_DISPATCH(name, R, parameters, arguments)                                                           \
    namespace detail {                                                                                             \
    [[gnu::noinline, gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]] inline void                      \
        name##_avx512 parameters {                                                                                 \
        name##_body<R, 64> arguments;                                                                              \
    }                                                                                                              \
    [[gnu::noinline, gnu::target("avx2,fma")]] inline void name##_avx2 parameters { name##_body<R, 32> arguments; } \
    [[gnu::noinline]] inline void name##_portable parameters { name##_body<R, 16> arguments; }                     \
    }                                                                                                              \
    TESSERA_KERNELS_OPEN                                                                                           \
    [[gnu::noinline]] TESSERA_KERNELS_INLINE void name parameters {                                                \
        TESSERA_KERNELS_WATCH(name, arguments)                                                                     \
        switch (active()) {                                                                                        \
            case Set::amx:                                                                                         \
            case Set::avx512: detail::name##_avx512 arguments; return;                                             \
            case Set::avx2: detail::name##_avx2 arguments; return;                                                 \
            case Set::portable: detail::name##_portable arguments; return;                                         \
        }                                                                                                          \
    }                                                                                                              \
    TESSERA_KERNELS_CLOSE
#else
#define TESSERA_DISPATCH(name, R, parameters, arguments)                                         \
    namespace detail {                                                                           \
    inline void name##_portable parameters { name##_body<R, 16> arguments; }                     \
    }                                                                                            \
    TESSERA_KERNELS_OPEN                                                                         \
    TESSERA_KERNELS_INLINE void name parameters {                                                \
        TESSERA_KERNELS_WATCH(name, arguments)                                                   \
        detail::name##_portable arguments;                                                       \
    }                                                                                            \
    TESSERA_KERNELS_CLOSE
#endif
#endif
