// SPDX-License-Identifier: BSD-3-Clause
// So many bits a number: q = x L / s rounded, L = 2^(bits-1) - 1, s the largest magnitude in a block of 1024; read as
// q s / L.
//
// `chance` rounds up with the chance that makes the mean right (QSGD, Alistarh et al., NeurIPS 2017); `nearest` is off
// by less, at most s / 2L, and always in the same direction.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tessera/codec/detail/blocks.hpp>
#include <tessera/contracts/codec.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::codec {

enum class Rounding : std::uint8_t { chance, nearest };
constexpr std::array<std::string_view, 2> words_of(Rounding) { return {"chance", "nearest"}; }

template <unsigned Bits>
struct Quantised {
    static_assert(Bits == 8 || Bits == 4, "tessera::codec::Quantised: numbers travel in 8 or in 4 bits");
    static constexpr Offers offers{};
    static constexpr std::size_t per_byte = 8 / Bits;
    static constexpr bool loses = true, biased = false;
    Rounding rounding = Rounding::chance;  // of what goes up; what goes down is rounded to the nearest

    template <class R>
    void encode(In<R> x, Key key, Bytes& out, Out<R> read) const {
        Stream draws(key);
        detail::for_each_block(x, read, [&](In<R> block, Out<R> to) {
            R scale = 0;
            for (const R v : block) scale = std::max(scale, std::abs(v));
            put(out, scale);
            std::array<std::int8_t, detail::block_size> q{};
            const R up = scale > 0 ? top / scale : 0;
            if (!std::isfinite(up)) {  // a block of denormal numbers reads 0
            } else if (rounding == Rounding::nearest) {
                for (std::size_t j = 0; j < block.size(); ++j) q[j] = toward(block[j] * up, R(0.5));
            } else {
                std::uint64_t word = 0;
                for (std::size_t j = 0; j < block.size(); ++j) {
                    word = j % 4 == 0 ? draws.word64() : word >> 16;
                    q[j] = toward(block[j] * up, static_cast<R>(word & 0xFFFF) * R(0x1p-16));
                }
            }
            for (std::size_t j = 0; j < block.size(); ++j) to[j] = value(q[j], scale);
            pack(q, block.size(), out);
        });
    }
    template <class R>
    void decode(Reader& in, Out<R> x) const {
        detail::for_each_block(x, x, [&](Out<R> block, Out<R>) {
            const R scale = detail::read_scale<R>(in);
            std::array<std::uint8_t, detail::block_size> bytes;
            in.raw(bytes.data(), (block.size() + per_byte - 1) / per_byte);
            for (std::size_t j = 0; j < block.size(); ++j) {
                const int q = unpacked(bytes, j);
                if (q < -top) throw WireError("a quantised number lies outside its range");
                block[j] = value(q, scale);
            }
            if (Bits == 4 && block.size() % 2 != 0 && bytes[block.size() / 2] >> 4 != 0)
                throw WireError("half a byte that stands for nothing is not 0");
        });
    }

private:
    static constexpr int top = (1 << (Bits - 1)) - 1;

    // Floor of |v| + r, with v's sign; |v| is at most top.
    template <class R>
    static std::int8_t toward(R v, R r) {
        const int up = std::min(static_cast<int>(std::abs(v) + r), top);
        return static_cast<std::int8_t>(v < 0 ? -up : up);
    }
    template <class R>
    static R value(int q, R scale) {
        return static_cast<R>(q) / static_cast<R>(top) * scale;
    }
    static void pack(const std::array<std::int8_t, detail::block_size>& q, std::size_t n, Bytes& out) {
        if constexpr (Bits == 8) {
            put_raw(out, q.data(), n);
        } else {
            std::array<std::uint8_t, detail::block_size / 2> two{};
            for (std::size_t j = 0; j < n; ++j)
                two[j / 2] = static_cast<std::uint8_t>(two[j / 2] | (q[j] & 0xF) << (j % 2 * 4));
            put_raw(out, two.data(), (n + 1) / 2);
        }
    }
    static int unpacked(const std::array<std::uint8_t, detail::block_size>& bytes, std::size_t j) {
        if constexpr (Bits == 8) return static_cast<std::int8_t>(bytes[j]);
        const int half = bytes[j / 2] >> (j % 2 * 4) & 0xF;
        return half < 8 ? half : half - 16;
    }
};

}  // namespace tessera::codec
