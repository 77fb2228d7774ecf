// SPDX-License-Identifier: BSD-3-Clause
// One bit a number: its sign, read as plus or minus the mean magnitude of its block of 1024 (signSGD with error
// feedback, Karimireddy et al., ICML 2019). 0 has the sign of plus.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tessera/codec/detail/blocks.hpp>
#include <tessera/contracts/codec.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::codec {

struct Sign {
    static constexpr Offers offers{};
    static constexpr std::size_t per_byte = 8;
    static constexpr bool loses = true, biased = true;

    template <class R>
    void encode(In<R> x, Key, Bytes& out, Out<R> read) const {
        detail::for_each_block(x, read, [&](In<R> block, Out<R> to) {
            double sum = 0;
            for (const R v : block) sum += std::abs(static_cast<double>(v));
            const R scale = static_cast<R>(sum / static_cast<double>(block.size()));
            put(out, scale);
            std::array<std::uint8_t, detail::block_size / 8> bits{};
            for (std::size_t j = 0; j < block.size(); ++j) {
                const bool minus = block[j] < 0;
                bits[j / 8] = static_cast<std::uint8_t>(bits[j / 8] | minus << (j % 8));
                to[j] = minus ? -scale : scale;
            }
            put_raw(out, bits.data(), (block.size() + 7) / 8);
        });
    }
    template <class R>
    void decode(Reader& in, Out<R> x) const {
        detail::for_each_block(x, x, [&](Out<R> block, Out<R>) {
            const R scale = detail::read_scale<R>(in);
            std::array<std::uint8_t, detail::block_size / 8> bits;
            in.raw(bits.data(), (block.size() + 7) / 8);
            for (std::size_t j = 0; j < block.size(); ++j)
                block[j] = (bits[j / 8] >> (j % 8) & 1) != 0 ? -scale : scale;
            if (block.size() % 8 != 0 && bits[block.size() / 8] >> (block.size() % 8) != 0)
                throw WireError("bits that stand for nothing are not 0");
        });
    }
};

}  // namespace tessera::codec
