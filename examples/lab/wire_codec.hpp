// SPDX-License-Identifier: BSD-3-Clause
// The codec of uploads chosen at run time, so that the lab compiles a method twice and not six times.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tessera/codec.hpp>
#include <tessera/core/error.hpp>

namespace lab {

enum class Code : std::uint8_t { eight_bits, four_bits, sign, topk, randomk };
constexpr std::array<std::string_view, 5> words_of(Code) { return {"8bit", "4bit", "sign", "topk", "randomk"}; }

struct WireCodec {
    static constexpr auto offers = tessera::offer::validate;
    static constexpr std::size_t per_byte = 0;  // of whichever: lengths are those of what was sent
    static constexpr bool loses = true, biased = true;
    Code code = Code::eight_bits;
    double share = 0.01;  // of topk and randomk
    tessera::codec::Rounding rounding = tessera::codec::Rounding::chance;  // of 8bit and 4bit

    // "8bit", "topk:0.01"
    static WireCodec of(std::string_view text) {
        WireCodec codec;
        const auto colon = text.find(':');
        const auto name = text.substr(0, colon);
        std::size_t i = 0;
        while (i < words_of(Code{}).size() && words_of(Code{})[i] != name) ++i;
        codec.code = static_cast<Code>(i);
        bool right = i < words_of(Code{}).size();
        if (right && colon != text.npos) {
            const auto number = text.substr(colon + 1);
            const auto end = std::from_chars(number.data(), number.data() + number.size(), codec.share);
            right = codec.sparse() && end.ec == std::errc{} && end.ptr == number.data() + number.size();
        }
        if (!right)
            throw tessera::ConfigError("--codec " + std::string(text) +
                                       ": one of 8bit, 4bit, sign, topk:SHARE, randomk:SHARE");
        codec.validate();
        return codec;
    }
    bool sparse() const { return code == Code::topk || code == Code::randomk; }
    bool keeps_lost() const { return sparse() || code == Code::sign; }

    template <class R>
    void encode(tessera::In<R> x, tessera::Key key, tessera::Bytes& out, tessera::Out<R> read) const {
        with([&](const auto& codec) { codec.encode(x, key, out, read); });
    }
    template <class R>
    void decode(tessera::Reader& in, tessera::Out<R> x) const {
        with([&](const auto& codec) { codec.decode(in, x); });
    }
    void validate() const {
        if (sparse()) tessera::codec::detail::require_share(share);
    }

private:
    template <class Use>
    void with(Use&& use) const {
        switch (code) {
            case Code::eight_bits: return use(tessera::codec::Quantised<8>{rounding});
            case Code::four_bits: return use(tessera::codec::Quantised<4>{rounding});
            case Code::sign: return use(tessera::codec::Sign{});
            case Code::topk: return use(tessera::codec::TopK<>{.share = share});
            case Code::randomk: return use(tessera::codec::RandomK<>{.share = share});
        }
    }
};

}  // namespace lab
