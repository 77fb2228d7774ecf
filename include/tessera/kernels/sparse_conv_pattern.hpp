// SPDX-License-Identifier: BSD-3-Clause
// Where the ones of a convolution's mask are, in the orders in which its kernels read them (kernels/sparse_conv.hpp).
//
// A result comes tile by tile; what a tile reads is copied into a patch, [channel][residue][row][column][registers of
// examples], so that every tap is an offset. Residues are what makes a stride a shift: pixels (a, b), (a + stride, b),
// (a, b + stride), ... lie side by side. Channels go by blocks whose patch stays in L1.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/cache.hpp>
#include <tessera/kernels/conv.hpp>
#include <tessera/kernels/sparse_blocks.hpp>
#include <tessera/kernels/sparse_pattern.hpp>

namespace tessera::kernels {

// A tile of a result: `runs` rows of pixels, in each of which `strips` registers of examples a pixel make up as many
// registers as there are for one row.
struct SparseTile {
    std::size_t registers = 1, runs = 1, strips = 1;

    std::size_t rows() const { return runs; }
    std::size_t columns() const { return registers / runs / strips; }
};

namespace detail {

// Of the active set: registers of a tile, what of a batch the next block holds, what patches may fill.
inline std::size_t register_bytes() {
    switch (active()) {
        case Set::portable: return 16;
        case Set::avx2: return 32;
        case Set::avx512:
        case Set::amx: return 64;
    }
    return 16;
}
template <class R>
std::size_t active_block_width(std::size_t left) {
    const std::size_t bytes = register_bytes();
    return bytes == 64 ? block_width<R, 64>(left) : bytes == 32 ? block_width<R, 32>(left) : block_width<R, 16>(left);
}
template <std::size_t Bytes>
inline constexpr std::size_t tile_registers = Bytes == 64 ? 16 : 8;

// The taps of a convolution as one of its products reads them.
struct SparseTaps {
    std::size_t channels = 1, height = 1, width = 1;  // of what is read
    std::size_t rows = 1, down = 1, across = 1;       // of what comes out: planes and their sides
    std::size_t step = 1;      // pixels read for each of a result
    std::size_t spread = 1;    // pixels of a result from one of a tile to the next: so many classes down and across
    std::size_t residues = 1;  // of what is read, down and across
    std::size_t reach = 0;     // pixels that a patch's side has beyond a tile's
    std::size_t pad = 0;
    bool turned = false;

    static SparseTaps forward(const ConvShape& s, std::size_t out) {
        return {s.channels, s.height, s.width, out, s.rows(), s.columns(), s.stride, 1, std::min(s.stride, s.kernel),
                (s.kernel - 1) / s.stride, s.pad, false};
    }
    static SparseTaps gradient(const ConvShape& s, std::size_t out) {
        return {out, s.rows(), s.columns(), s.channels, s.height, s.width, 1, s.stride, 1, (s.kernel - 1) / s.stride,
                s.pad, true};
    }
    // Along a side, where the patch of the tile begins whose first pixel is number `at` of class c; maybe below 0.
    std::ptrdiff_t corner(std::size_t at, std::size_t c) const {
        return turned ? static_cast<std::ptrdiff_t>((c + pad) / spread + at) - static_cast<std::ptrdiff_t>(reach)
                      : static_cast<std::ptrdiff_t>(at * step) - static_cast<std::ptrdiff_t>(pad);
    }
    // Pixels of class c along a side.
    std::size_t pixels(std::size_t side, std::size_t c) const { return side > c ? (side - c - 1) / spread + 1 : 0; }
    // Of one channel, counted in pixels.
    std::size_t patch(const SparseTile& t) const {
        return residues * residues * (t.rows() + reach) * (t.columns() + reach);
    }
};

// The tile that computes the fewest registers too many; of those the smallest patch.
inline SparseTile best_tile(const SparseTaps& taps, std::size_t registers, std::size_t strips) {
    SparseTile best;
    std::size_t least = ~std::size_t{0}, smallest = least;
    const auto whole = [](std::size_t n, std::size_t of) { return (n + of - 1) / of * of; };
    for (const std::size_t runs : {std::size_t{4}, std::size_t{2}, std::size_t{1}})
        for (std::size_t deep = 1; deep <= 4 && deep <= strips; deep *= 2) {
            const SparseTile t{registers, runs, deep};
            if (t.columns() == 0) continue;
            const std::size_t cost = whole(taps.pixels(taps.down, 0), t.rows()) *
                                     whole(taps.pixels(taps.across, 0), t.columns()) * whole(strips, deep);
            const std::size_t patch = taps.patch(t) * deep;
            if (std::pair(cost, patch) >= std::pair(least, smallest)) continue;
            least = cost, smallest = patch, best = t;
        }
    return best;
}

// One list for each class of pixels, block of channels and plane of the result; of a class and a block the shorter come
// first, as in SparseOrder. A weight's channel, row and column are the offset of what it meets in a patch.
//
// Where kernels reach so far beyond a tile that some taps of an input gradient meet nothing but margin, lists go tap by
// tap, and `starts` says where each begins: tiles at a margin leave those out.
struct SparseConvLists {
    SparseTaps taps{};
    SparseTile tile{};
    std::size_t block = 1, blocks = 1;  // channels of a block, and how many there are
    Vec<std::uint32_t> ends, row, first, offset, source, starts;

    std::size_t list(std::size_t c, std::size_t b) const { return (c * blocks + b) * taps.rows; }

    std::size_t taps_a_side() const { return taps.reach + 1; }

    // each(row, class, channel, f): f(pixel of a channel's patch, packed number) for its weights, in their order.
    template <class Each>
    void fill(const SparseTaps& all, const SparseTile& best, std::size_t lanes, std::size_t count, bool turned,
              const Each& each) {
        taps = all;
        tile = best;
        // Of a cache with 12 ways of 4 KiB 36 KiB; what streams past it needs the rest.
        const std::size_t pixel = tile.strips * lanes, channel = taps.patch(tile) * pixel;
        block = std::clamp<std::size_t>(l1_ways() * 3072 / (channel * register_bytes() / lanes), 1, taps.channels);
        blocks = (taps.channels + block - 1) / block;
        const std::size_t classes = taps.spread * taps.spread, lists = classes * blocks * taps.rows;
        ends.resize(lists), row.resize(lists);
        offset.resize(count);
        if (turned) source.resize(count);
        else first.resize(lists);
        std::uint32_t k = 0;
        Vec<std::uint32_t> lengths(taps.rows), order(taps.rows), begins(taps.rows + 1);
        struct Weight {
            std::uint32_t pixel, offset, number;
        };
        Vec<Weight> found;  // of all lists of a block
        const std::size_t pitch = tile.columns() + taps.reach, side = taps_a_side();
        const auto narrow = static_cast<std::ptrdiff_t>(std::min(tile.rows(), tile.columns()));
        const bool by_tap = turned && -taps.corner(0, 0) >= narrow;
        if (by_tap) starts.reserve(lists * side * side + 1);
        for (std::size_t c = 0; c < classes; ++c)
            for (std::size_t b = 0; b < blocks; ++b) {
                found.clear();
                const std::size_t begin = b * block, end = std::min(taps.channels, begin + block);
                for (std::size_t r = 0; r < taps.rows; ++r) {
                    begins[r] = static_cast<std::uint32_t>(found.size());
                    for (std::size_t channel_of = begin; channel_of < end; ++channel_of)
                        each(r, c, channel_of, [&](std::size_t at, std::size_t number) {
                            found.push_back({static_cast<std::uint32_t>(at),
                                             static_cast<std::uint32_t>((channel_of - begin) * channel + at * pixel),
                                             static_cast<std::uint32_t>(number)});
                        });
                    if (by_tap)  // a stable sort would ask the heap for room
                        std::sort(found.begin() + begins[r], found.end(), [](const Weight& a, const Weight& o) {
                            return std::pair(a.pixel, a.offset) < std::pair(o.pixel, o.offset);
                        });
                    order[r] = static_cast<std::uint32_t>(r);
                }
                begins[taps.rows] = static_cast<std::uint32_t>(found.size());
                std::sort(order.begin(), order.end(), [&](auto i, auto j) {
                    const auto a = begins[i + 1] - begins[i], o = begins[j + 1] - begins[j];
                    return a != o ? a < o : i < j;
                });
                for (std::size_t i = 0; i < taps.rows; ++i) {
                    const std::size_t l = list(c, b) + i, r = order[i];
                    row[l] = static_cast<std::uint32_t>(r);
                    if (!turned) first[l] = begins[r] < begins[r + 1] ? found[begins[r]].number : 0;
                    std::size_t f = begins[r];
                    const auto until = [&](std::size_t last) {
                        for (; f < last; ++f, ++k) {
                            offset[k] = found[f].offset;
                            if (turned) source[k] = found[f].number;
                        }
                    };
                    for (std::size_t tap = 0; by_tap && tap < side * side; ++tap) {
                        starts.push_back(k);
                        std::size_t last = f;
                        while (last < begins[r + 1] && found[last].pixel == tap / side * pitch + tap % side) ++last;
                        until(last);
                    }
                    until(begins[r + 1]);
                    ends[l] = k;
                }
            }
        if (by_tap) starts.push_back(k);
    }
};

}  // namespace detail

// What the kernels read of a mask's [out][channels][kernel][kernel], made once, for batches of about that size and the
// kernel set that is active. The size changes no bit of a forward pass.
template <class R>
class SparseConvPattern {
public:
    SparseConvPattern() = default;
    // The weights begin at bit `begin` of the mask's words. Without `turned` there is no input gradient.
    SparseConvPattern(const std::uint64_t* words, std::size_t begin, const ConvShape& s, std::size_t out,
                      std::size_t batch, bool turned)
        : shape_(s), out_(out) {
        const std::size_t square = s.kernel * s.kernel, weights = out * s.taps();
        Vec<std::uint32_t> before(out * s.channels + 1);  // active weights ahead of each kernel's first
        std::size_t at = 0;
        each_word(words, begin, begin + weights, [&](std::size_t base, std::uint64_t bits) {
            detail::each_one(bits, [&](std::size_t b) {
                for (; at <= (base + b - begin) / square; ++at) before[at] = static_cast<std::uint32_t>(count_);
                ++count_;
            });
        });
        for (; at < before.size(); ++at) before[at] = static_cast<std::uint32_t>(count_);
        // f(tap, packed number) for the active weights of output o and channel c
        const auto kernel_of = [&](std::size_t o, std::size_t c, const auto& f) {
            std::size_t number = before[o * s.channels + c];
            if (number == before[o * s.channels + c + 1]) return;
            const std::size_t from = begin + (o * s.channels + c) * square;
            each_word(words, from, from + square, [&](std::size_t base, std::uint64_t bits) {
                detail::each_one(bits, [&](std::size_t b) { f(base + b - from, number++); });
            });
        };
        const std::size_t bytes = detail::register_bytes(), lanes = bytes / sizeof(R);
        const std::size_t registers = bytes == 64 ? detail::tile_registers<64> : detail::tile_registers<32>;
        const std::size_t strips = detail::active_block_width<R>(padded<R>(batch)) / lanes;
        const auto along = detail::SparseTaps::forward(s, out);
        const auto tile = detail::best_tile(along, registers, strips);
        forward_.fill(along, tile, lanes, count_, false,
                      [&](std::size_t o, std::size_t, std::size_t c, const auto& f) {
                          const std::size_t pitch = tile.columns() + along.reach, side = tile.rows() + along.reach;
                          kernel_of(o, c, [&](std::size_t tap, std::size_t number) {
                              const std::size_t i = tap / s.kernel, j = tap % s.kernel;
                              const std::size_t residue = i % s.stride * along.residues + j % s.stride;
                              f((residue * side + i / s.stride) * pitch + j / s.stride, number);
                          });
                      });
        if (!turned) return;
        const auto back = detail::SparseTaps::gradient(s, out);
        const auto tile_back = detail::best_tile(back, registers, strips);
        turned_.fill(back, tile_back, lanes, count_, true,
                     [&](std::size_t c, std::size_t c_of, std::size_t o, const auto& f) {
                         const std::size_t pitch = tile_back.columns() + back.reach;
                         const std::size_t down = (c_of / s.stride + s.pad) % s.stride;
                         const std::size_t across = (c_of % s.stride + s.pad) % s.stride;
                         kernel_of(o, c, [&](std::size_t tap, std::size_t number) {
                             const std::size_t i = tap / s.kernel, j = tap % s.kernel;
                             if (i % s.stride != down || j % s.stride != across) return;
                             f((back.reach - i / s.stride) * pitch + back.reach - j / s.stride, number);
                         });
                     });
    }

    std::size_t count() const { return count_; }
    std::size_t outputs() const { return out_; }
    const ConvShape& shape() const { return shape_; }
    const detail::SparseConvLists& forward() const { return forward_; }
    const detail::SparseConvLists& turned() const { return turned_; }

private:
    ConvShape shape_{};
    std::size_t out_ = 0, count_ = 0;
    detail::SparseConvLists forward_, turned_;
};

}  // namespace tessera::kernels
