// SPDX-License-Identifier: BSD-3-Clause
// Masking: which coordinates exist on a client, and which exist after a visit.
//
//   Mask first(layout, key) const       the mask before a client's first visit, drawn from the key
//   void next(search, mask) const       after training: `mask` enters as trained with and leaves as of now on
//
// A search sees what the client has at that moment. Its gradient is taken when somebody asks for it, so a masking that
// does not look at it costs nothing.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>

namespace tessera {

// f(coordinate) for the active coordinates of a range, in order. f may clear the coordinate it is given.
template <class F>
void for_each_active(const Mask& mask, Range in, F&& f) {
    for (std::size_t j = in.begin; j < in.end; j = (j / 64 + 1) * 64) {
        std::uint64_t bits = mask.words()[j / 64] >> (j % 64) << (j % 64);
        const std::size_t first = j / 64 * 64;
        if (in.end - first < 64) bits &= (std::uint64_t{1} << (in.end - first)) - 1;
        for (; bits != 0; bits &= bits - 1) f(first + static_cast<std::size_t>(std::countr_zero(bits)));
    }
}
inline std::size_t count_in(const Mask& mask, Range in) {
    std::size_t n = 0;
    for (std::size_t j = in.begin; j < in.end; j = (j / 64 + 1) * 64) {
        std::uint64_t bits = mask.words()[j / 64] >> (j % 64);
        if (in.end - j < 64) bits &= (std::uint64_t{1} << (in.end - j)) - 1;
        n += static_cast<std::size_t>(std::popcount(bits));
    }
    return n;
}
constexpr Range range_of(const Segment& s) { return {s.offset, s.end()}; }

// Running statistics are no weights: no mask leaves one out.
inline void require_buffers(const Mask& mask, Layout layout) {
    for (const Segment& s : layout)
        if (s.part == Part::buffer && count_in(mask, range_of(s)) < s.size())
            throw ConfigError("masking: " + std::string(s.name.view()) +
                              " holds running statistics, which have no weights to mask; its bits must all be set");
}

// In how many coordinates of a range two masks differ.
inline std::size_t hamming(const Mask& a, const Mask& b, Range in) {
    std::size_t n = 0;
    for (std::size_t j = in.begin; j < in.end; j = (j / 64 + 1) * 64) {
        std::uint64_t bits = (a.words()[j / 64] ^ b.words()[j / 64]) >> (j % 64);
        if (in.end - j < 64) bits &= (std::uint64_t{1} << (in.end - j)) - 1;
        n += static_cast<std::size_t>(std::popcount(bits));
    }
    return n;
}
inline std::size_t hamming(const Mask& a, const Mask& b) { return hamming(a, b, {0, a.size()}); }

// The active numbers of a vector, in order.
template <class R>
Vec<R> packed(const Vec<R>& x, const Mask& mask) {
    Vec<R> out(mask.count());
    R* to = out.data();
    for (std::size_t w = 0; w < mask.words().size(); ++w) {
        const R* from = x.data() + 64 * w;
        std::uint64_t bits = mask.words()[w];
        if (bits == ~std::uint64_t{0}) to = std::copy_n(from, 64, to);
        else
            for (; bits != 0; bits &= bits - 1) *to++ = from[std::countr_zero(bits)];
    }
    return out;
}

// What a mask search may look at.
template <class R>
class MaskSearch {
public:
    Layout layout;
    In<R> values;  // the trained numbers, packed: one for each active coordinate, in order
    Key key;       // of this client in this round
    std::size_t round = 0, rounds = 1;

    // `take(out)` writes the gradient; it must outlive the search.
    template <class Take>
    MaskSearch(Layout l, In<R> v, Key k, std::size_t r, std::size_t all, const Take& take)
        : layout(l), values(v), key(k), round(r), rounds(all), take_(&take), call_([](const void* f, Out<R> out) {
              (*static_cast<const Take*>(f))(out);
          }) {}

    // In every coordinate, active or not, with zeros where the mask has none.
    In<R> gradient() const {
        if (!gradient_) {
            gradient_.emplace(dimension(layout));
            call_(take_, Out<R>(gradient_->data(), gradient_->size()));
        }
        return {gradient_->data(), gradient_->size()};
    }
    bool looked() const { return gradient_.has_value(); }

private:
    const void* take_;
    void (*call_)(const void*, Out<R>);
    mutable std::optional<Scratch<R>> gradient_;
};

namespace detail {
template <class P>
concept DrawsFirstMask = requires(const P masking, Layout layout, Key key) {
    { masking.first(layout, key) } -> std::same_as<Mask>;
};
template <class P, class R>
concept FindsNextMask = requires(const P masking, const MaskSearch<R>& search, Mask& mask) {
    { masking.next(search, mask) } -> std::same_as<void>;
};
}  // namespace detail

template <class P, class R>
concept Masking = std::copyable<P> && detail::DrawsFirstMask<P> && detail::FindsNextMask<P, R>;

// The same in sentences.
template <class P, class R>
consteval bool check_masking() {
    constexpr bool draws = detail::DrawsFirstMask<P>, finds = detail::FindsNextMask<P, R>;
    static_assert(draws, "tessera::Masking: a masking needs `Mask first(Layout, Key) const`, which gives a client's "
                         "mask before its first visit");
    static_assert(!draws || finds, "tessera::Masking: a masking needs `void next(const MaskSearch<R>&, Mask&) const`, "
                                   "which moves the mask after a visit (an empty body keeps it)");
    return draws && finds;
}

}  // namespace tessera
