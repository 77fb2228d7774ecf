// SPDX-License-Identifier: BSD-3-Clause
// Packed numbers back to their places: out[j] = bit j of the mask ? the next packed number : before[j].
//
// The mask is the words of core/mask.hpp. Nothing is read behind the last packed number.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

template <class R>
TESSERA_INLINE const R* expand_bits(const R* packed, std::uint64_t bits, R* out) {
    for (; bits != 0; bits &= bits - 1) out[std::countr_zero(bits)] = *packed++;
    return packed;
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void expand_body(const R** packed, const std::uint64_t* mask, const R* before, R* out, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) out[j] = before[j];
    for (std::size_t j = 0; j < n; j += 64) *packed = expand_bits(*packed, mask[j / 64], out + j);
}

#ifdef TESSERA_X86
// Lane i of an expanded vector of eight reads packed number ranks[bits][i], of which a permutation looks at the last
// three bits. Where the lane has none the number is not negative: the sign says which lanes a blend takes.
inline constexpr auto ranks = [] {
    std::array<std::array<std::int32_t, 8>, 256> table{};
    for (unsigned bits = 0; bits < 256; ++bits)
        for (unsigned i = 0; i < 8; ++i)
            table[bits][i] = std::popcount(bits & ((1u << i) - 1)) - (bits >> i & 1 ? 8 : 0);
    return table;
}();

template <>
TESSERA_AVX2 void expand_body<float, 32>(const float** packed, const std::uint64_t* mask, const float* before,
                                         float* out, std::size_t n) {
    using Lanes = Held<std::int32_t, 32>;
    const float* from = *packed;
    std::size_t left = 0;  // numbers that may be read
    for (std::size_t j = 0; j < n; j += 64) left += static_cast<std::size_t>(std::popcount(mask[j / 64]));
    std::size_t j = 0;
    for (; j + 8 <= n && left >= 8; j += 8) {
        const auto bits = static_cast<std::uint8_t>(mask[j / 64] >> (j % 64));
        const Lanes rank = *reinterpret_cast<const V<std::int32_t, 32>*>(ranks[bits].data());
        const Held<float, 32> values = __builtin_ia32_permvarsf256(*reinterpret_cast<const V<float, 32>*>(from), rank);
        const Held<float, 32> old = *reinterpret_cast<const V<float, 32>*>(before + j);
        *reinterpret_cast<V<float, 32>*>(out + j) =
            __builtin_ia32_blendvps256(old, values, reinterpret_cast<Held<float, 32>>(rank));
        const auto used = static_cast<std::size_t>(std::popcount(bits));
        from += used;
        left -= used;
    }
    for (std::size_t i = j; i < n; ++i) out[i] = before[i];
    for (; j < n; j = (j / 64 + 1) * 64) from = expand_bits(from, mask[j / 64] >> (j % 64), out + j);
    *packed = from;
}

// One vector, and how many packed numbers it took.
TESSERA_AVX512 std::size_t expand_vector(const float* packed, const std::uint64_t* mask, std::size_t j,
                                         const Held<float, 64>& old, float* out) {
    const auto bits = static_cast<std::uint16_t>(mask[j / 64] >> (j % 64));
    *reinterpret_cast<V<float, 64>*>(out) = __builtin_ia32_expandloadsf512_mask(
        reinterpret_cast<const Held<float, 64>*>(packed), old, static_cast<Bits16>(bits));
    return static_cast<std::size_t>(std::popcount(bits));
}
TESSERA_AVX512 std::size_t expand_vector(const double* packed, const std::uint64_t* mask, std::size_t j,
                                         const Held<double, 64>& old, double* out) {
    const auto bits = static_cast<std::uint8_t>(mask[j / 64] >> (j % 64));
    *reinterpret_cast<V<double, 64>*>(out) = __builtin_ia32_expandloaddf512_mask(
        reinterpret_cast<const Held<double, 64>*>(packed), old, static_cast<Bits8>(bits));
    return static_cast<std::size_t>(std::popcount(bits));
}
template <class R>
TESSERA_AVX512 void expand_avx512(const R** packed, const std::uint64_t* mask, const R* before, R* out, std::size_t n) {
    constexpr std::size_t lanes = VectorOf<R, 64>::lanes;
    const R* from = *packed;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        const Held<R, 64> old = *reinterpret_cast<const V<R, 64>*>(before + j);
        from += expand_vector(from, mask, j, old, out + j);
    }
    for (std::size_t i = j; i < n; ++i) out[i] = before[i];
    if (j < n) from = expand_bits(from, mask[j / 64] >> (j % 64), out + j);
    *packed = from;
}
template <>
TESSERA_AVX512 void expand_body<float, 64>(const float** packed, const std::uint64_t* mask, const float* before,
                                           float* out, std::size_t n) {
    expand_avx512(packed, mask, before, out, n);
}
template <>
TESSERA_AVX512 void expand_body<double, 64>(const double** packed, const std::uint64_t* mask, const double* before,
                                            double* out, std::size_t n) {
    expand_avx512(packed, mask, before, out, n);
}
#endif

}  // namespace detail

// *packed is where the next number stands, before and after.
#define TESSERA_EXPAND_KERNELS(R)                                                                           \
    TESSERA_DISPATCH(expand, R,                                                                             \
                     (const R** packed, const std::uint64_t* mask, const R* before, R* out, std::size_t n), \
                     (packed, mask, before, out, n))
TESSERA_EXPAND_KERNELS(float)
TESSERA_EXPAND_KERNELS(double)
#undef TESSERA_EXPAND_KERNELS

}  // namespace tessera::kernels
