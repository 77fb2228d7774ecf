// SPDX-License-Identifier: BSD-3-Clause
// Codec: how the numbers of a vector travel. What it loses is told to whoever sends, who may send it the next time.
//
//   void encode(x, key, out, read) const   appends bytes; `read` is what the other side will read; x is finite
//   void decode(in, x) const               reads as many numbers as x has; WireError if the bytes cannot be right
//
// A codec says
//   static constexpr std::size_t per_byte  the most numbers that a byte can stand for; 0: any, so that a length is
//                                          never believed but known (a codec that leaves coordinates out)
//   static constexpr bool loses            false: what is read is what was written, bit for bit
//   static constexpr bool biased           what it loses is to be sent later (error feedback) unless told otherwise
#pragma once

#include <concepts>
#include <cstddef>

#include <tessera/core/bytes.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>

namespace tessera {

template <class C, class R>
concept Codec = std::copyable<C> && requires(const C codec, In<R> x, Key key, Bytes& out, Out<R> read, Reader& in) {
    { codec.encode(x, key, out, read) } -> std::same_as<void>;
    { codec.decode(in, read) } -> std::same_as<void>;
    { C::per_byte } -> std::convertible_to<std::size_t>;
    { C::loses } -> std::convertible_to<bool>;
    { C::biased } -> std::convertible_to<bool>;
};

// The same in sentences.
template <class C, class R>
consteval bool check_codec() {
    constexpr bool says = requires { C::per_byte, C::loses, C::biased; };
    static_assert(says, "tessera::Codec: a codec says `static constexpr std::size_t per_byte`, `static constexpr bool "
                        "loses` and `static constexpr bool biased`");
    constexpr bool codes = Codec<C, R>;
    static_assert(!says || codes,
                  "tessera::Codec: a codec needs `void encode(In<R> x, Key key, Bytes& out, Out<R> read) const` and "
                  "`void decode(Reader& in, Out<R> x) const`");
    return says && codes;
}

}  // namespace tessera
