// SPDX-License-Identifier: BSD-3-Clause
// A share of the coordinates; the others read 0. What they hold instead are the numbers of `Values`, so that
// TopK<Quantised<8>> sends places and 8 bits each.
//
//   TopK      the largest magnitudes, ties to the lowest index; places as gaps, about a byte each at 1 %
//   RandomK   drawn anew every time by a number that travels: places cost 8 bytes in all
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tessera/codec/whole.hpp>
#include <tessera/contracts/codec.hpp>
#include <tessera/contracts/masking.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/select.hpp>

namespace tessera::codec {

namespace detail {

inline std::size_t share_of(double share, std::size_t n) {
    const auto k = static_cast<std::size_t>(std::ceil(share * static_cast<double>(n)));
    return std::min(std::max<std::size_t>(k, 1), n);
}
inline void require_share(double share) {
    tessera::detail::require(share > 0 && share <= 1, "share must lie in (0, 1], not " + std::to_string(share));
}
inline std::size_t read_count(Reader& in, std::size_t n) {
    std::uint64_t k = 0;
    get(in, k);
    if (k > n) throw WireError("more coordinates than the vector has");
    return static_cast<std::size_t>(k);
}
template <class Values, class R>
void put_at(Values values, In<R> x, const Vec<std::size_t>& places, Key key, Bytes& out, Out<R> read) {
    Vec<R> some(places.size()), as_read(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) some[i] = x[places[i]];
    values.encode(In<R>(some), key, out, Out<R>(as_read));
    std::fill(read.begin(), read.end(), R(0));
    for (std::size_t i = 0; i < places.size(); ++i) read[places[i]] = as_read[i];
}
template <class Values, class R>
void get_at(Values values, const Vec<std::size_t>& places, Reader& in, Out<R> x) {
    Vec<R> some(places.size());
    values.decode(in, Out<R>(some));
    std::fill(x.begin(), x.end(), R(0));
    for (std::size_t i = 0; i < places.size(); ++i) x[places[i]] = some[i];
}

}  // namespace detail

template <class Values = Whole>
struct TopK {
    static constexpr Offers offers = offer::validate;
    static constexpr std::size_t per_byte = 0;
    static constexpr bool loses = true, biased = true;
    double share = 0.01;  // of the coordinates, in (0, 1]
    Values values{};

    template <class R>
    void encode(In<R> x, Key key, Bytes& out, Out<R> read) const {
        const Mask chosen = kernels::largest(x, detail::share_of(share, x.size()));
        Vec<std::size_t> places;
        for_each_active(chosen, {0, x.size()}, [&](std::size_t j) { places.push_back(j); });
        put(out, static_cast<std::uint64_t>(places.size()));
        std::size_t next = 0;
        for (const std::size_t j : places) {  // seven bits at a time, the lowest first; the last byte is below 128
            std::size_t gap = j - next;
            for (; gap >= 128; gap >>= 7) put(out, static_cast<std::uint8_t>((gap & 127) | 128));
            put(out, static_cast<std::uint8_t>(gap));
            next = j + 1;
        }
        detail::put_at(values, x, places, key, out, read);
    }
    template <class R>
    void decode(Reader& in, Out<R> x) const {
        Vec<std::size_t> places(detail::read_count(in, x.size()));
        std::size_t next = 0;
        for (std::size_t& j : places) {
            std::size_t gap = 0;
            std::uint8_t byte = 128;
            for (unsigned shift = 0; byte >= 128; shift += 7) {
                if (shift > 56) throw WireError("a place has too many bytes");
                get(in, byte);
                gap |= std::size_t{byte & 127u} << shift;
            }
            if (gap >= x.size() - next) throw WireError("a coordinate lies behind the end of its vector");
            j = next + gap;
            next = j + 1;
        }
        detail::get_at(values, places, in, x);
    }
    void validate() const { detail::require_share(share); }
};

template <class Values = Whole>
struct RandomK {
    static constexpr Offers offers = offer::validate;
    static constexpr std::size_t per_byte = 0;
    static constexpr bool loses = true, biased = true;
    double share = 0.01;  // of the coordinates, in (0, 1]
    Values values{};

    template <class R>
    void encode(In<R> x, Key key, Bytes& out, Out<R> read) const {
        const std::uint64_t draw = Stream(key(places_of)).word64();
        put(out, static_cast<std::uint64_t>(detail::share_of(share, x.size())));
        put(out, draw);
        detail::put_at(values, x, drawn(draw, detail::share_of(share, x.size()), x.size()), key, out, read);
    }
    template <class R>
    void decode(Reader& in, Out<R> x) const {
        const std::size_t k = detail::read_count(in, x.size());
        std::uint64_t draw = 0;
        get(in, draw);
        detail::get_at(values, drawn(draw, k, x.size()), in, x);
    }
    void validate() const { detail::require_share(share); }

private:
    static constexpr std::uint64_t places_of = 0x706C61636573;
    // k of n, each set as likely as any other (Floyd), in order.
    static Vec<std::size_t> drawn(std::uint64_t draw, std::size_t k, std::size_t n) {
        Stream words(Key{draw});
        Mask chosen(n);
        for (std::size_t j = n - k; j < n; ++j) {
            const auto t = static_cast<std::size_t>(words.below(j + 1));
            chosen.set(chosen[t] ? j : t, true);
        }
        Vec<std::size_t> places;
        for_each_active(chosen, {0, n}, [&](std::size_t j) { places.push_back(j); });
        return places;
    }
};

}  // namespace tessera::codec
