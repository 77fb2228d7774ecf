// SPDX-License-Identifier: BSD-3-Clause
// Convolutions whose weights exist only at the ones of a mask: forward, input gradient, weight gradient, for any
// kernel, stride and margin.
//
// Weights are packed in coordinate order, activations blocked (kernels/sparse_blocks.hpp), a plane's pixels one number
// each. A tile of a result stays in registers while the list of its weights (sparse_conv_pattern.hpp) runs past:
// each weight meets a shifted piece of the patch. For the weight gradient the tile of dy stays, and four taps at once
// are folded. Sums have one order per pattern, whatever the batch, the place in it and the crew; of a forward pass it
// is that of the packed weights.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/kernels/pool.hpp>
#include <tessera/kernels/sparse.hpp>
#include <tessera/kernels/sparse_conv_pattern.hpp>

namespace tessera::kernels {

namespace detail {

// What of some planes a tile reads: where they lie and what becomes of them. A block of examples has a patch for each
// group of its strips. A pixel's are copied at once, for its lines lie side by side, and planes of 2^n numbers push
// each other out of the caches before anybody came back for the rest.
template <class R>
struct SparsePatch {
    const R* x = nullptr;  // the first plane's first pixel, of these strips
    std::size_t channels = 0, height = 0, width = 0, pixel = 0;  // numbers from one pixel to the next
    std::size_t strips = 1, present = 1;                         // of a patch, and in x; others are 0
    std::size_t groups = 1, apart = 0;                           // patches, and numbers from one to the next
    std::ptrdiff_t row = 0, column = 0;                          // of the patch's corner; may lie in the margin
    std::size_t rows = 1, columns = 1, step = 1, residues = 1;
    R* to = nullptr;
};
template <class R, std::size_t Bytes>
TESSERA_INLINE void sparse_patch_body(const SparsePatch<R>& p) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    R* to = p.to;
    const auto zeros = [&](std::size_t pixels) __attribute__((always_inline)) {
        const std::size_t registers = pixels * p.strips;
        for (std::size_t g = 0; g < p.groups; ++g)
            for (std::size_t i = 0; i < registers; ++i)
                *reinterpret_cast<Vec*>(to + g * p.apart + i * lanes) = Held<R, Bytes>{};
        to += registers * lanes;
    };
    const R* plane = p.x;
    for (std::size_t c = 0; c < p.channels; ++c, plane += p.height * p.width * p.pixel)
        for (std::size_t residue = 0; residue < p.residues * p.residues; ++residue)
            for (std::size_t i = 0; i < p.rows; ++i) {
                const std::size_t y = static_cast<std::size_t>(p.row) + residue / p.residues + p.step * i;
                if (y >= p.height) {  // wraps below 0
                    zeros(p.columns);
                    continue;
                }
                const R* row = plane + y * p.width * p.pixel;
                std::size_t x = static_cast<std::size_t>(p.column) + residue % p.residues;
                for (std::size_t j = 0; j < p.columns; ++j, x += p.step) {
                    if (x >= p.width) {
                        zeros(1);
                        continue;
                    }
                    const R* from = row + x * p.pixel;
                    R* at = to;
                    for (std::size_t g = 0; g < p.groups; ++g, from += p.strips * lanes, at += p.apart)
                        for (std::size_t s = 0; s < p.strips; ++s)
                            *reinterpret_cast<Vec*>(at + s * lanes) =
                                s < p.present ? *reinterpret_cast<const Vec*>(from + s * lanes) : Held<R, Bytes>{};
                    to += p.strips * lanes;
                }
            }
}

// One tile and one block of channels: lists [begin, end) of a pattern, and where each plane's pixels are.
template <class R>
struct SparseTileCall {
    const SparseConvLists* lists = nullptr;
    std::size_t begin = 0, end = 0;
    const R* patch = nullptr;
    R* planes = nullptr;  // of the result, or of dy; register i of plane r at planes + r * plane + place[i]
    std::size_t plane = 0;
    const std::uint32_t* place = nullptr;
    std::uint32_t inside = 0;  // bit i: register i is in the plane
    const R* values = nullptr;  // packed, or for lists that have a source in their order
    const R* start = nullptr;   // null: 0
    R* sums = nullptr;          // between blocks of channels; of a weight gradient all of dw
    bool opens = true, closes = true;
    bool cut = false;  // some taps meet nothing but margin; of the others these rows, of each these columns
    std::size_t tap_rows[2] = {0, 0}, tap_columns[2] = {0, 0};

    std::size_t first_entry() const { return begin > 0 ? lists->ends[begin - 1] : 0; }
    std::size_t pitch(std::size_t lanes) const {
        const auto& t = lists->tile;
        return (t.columns() + lists->taps.reach) * t.strips * lanes;
    }
};
template <class R, std::size_t Bytes, std::size_t Runs, bool Opens>
TESSERA_INLINE void sparse_tile_of(const SparseTileCall<R>& c) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, count = tile_registers<Bytes>, run = count / Runs;
    const SparseConvLists& lists = *c.lists;
    const std::uint32_t *ends = lists.ends.data(), *rows = lists.row.data(), *offset = lists.offset.data();
    const std::uint32_t* first = lists.first.empty() ? nullptr : lists.first.data();
    const std::size_t pitch = c.pitch(lanes), side = lists.taps_a_side();
    const bool whole = c.inside == (std::uint32_t{1} << count) - 1;
    std::size_t k = c.first_entry();
    for (std::size_t l = c.begin; l < c.end; ++l) {
        const std::size_t row = rows[l];
        R* const waiting = c.sums + row * count * lanes;
        Held<R, Bytes> sum[count];
        const Held<R, Bytes> start = Held<R, Bytes>{} + (Opens && c.start ? c.start[row] : R(0));
#pragma GCC unroll 16
        for (std::size_t i = 0; i < count; ++i)
            sum[i] = Opens ? start : Held<R, Bytes>(*reinterpret_cast<const Vec*>(waiting + i * lanes));
        std::size_t end = ends[l], tap_row = c.tap_rows[0];
        do {  // once, or for each row of taps that are left
            if (c.cut) {
                const std::uint32_t* starts = lists.starts.data() + (l * side + tap_row) * side;
                k = starts[c.tap_columns[0]], end = starts[c.tap_columns[1]];
            }
            const R* value = first ? c.values + first[l] : c.values + k;
            for (; k < end; ++k, ++value) {
                Held<R, Bytes> w;
                broadcast<R, Bytes>(*value, w);
                const R* from = c.patch + offset[k];
#pragma GCC unroll 4
                for (std::size_t r = 0; r < Runs; ++r, from += pitch)
#pragma GCC unroll 16
                    for (std::size_t i = 0; i < run; ++i)
                        sum[r * run + i] += w * *reinterpret_cast<const Vec*>(from + i * lanes);
            }
        } while (c.cut && ++tap_row < c.tap_rows[1]);
        k = ends[l];
        if (!c.closes) {
#pragma GCC unroll 16
            for (std::size_t i = 0; i < count; ++i) *reinterpret_cast<Vec*>(waiting + i * lanes) = sum[i];
            continue;
        }
        R* const to = c.planes + row * c.plane;
#pragma GCC unroll 16
        for (std::size_t i = 0; i < count; ++i)
            if (whole || (c.inside >> i & 1)) *reinterpret_cast<Vec*>(to + c.place[i]) = sum[i];
    }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void sparse_tile_body(const SparseTileCall<R>& c) {
    const auto of = [&](auto runs) __attribute__((always_inline)) {
        if (c.opens) sparse_tile_of<R, Bytes, runs(), true>(c);
        else sparse_tile_of<R, Bytes, runs(), false>(c);
    };
    if (c.lists->tile.runs == 4) of(Count<4>{});
    else if (c.lists->tile.runs == 2) of(Count<2>{});
    else of(Count<1>{});
}

// sums += what this tile adds to the gradient of each weight.
template <class R, std::size_t Bytes, std::size_t Runs>
TESSERA_INLINE void sparse_slopes_of(const SparseTileCall<R>& c) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, count = tile_registers<Bytes>, run = count / Runs;
    constexpr std::size_t several = lanes < 4 ? lanes : 4;
    // A multiply-add waits four cycles for the one before it in its chain, and there are two a cycle.
    constexpr std::size_t chains = Bytes == 64 ? 2 : 1;
    const SparseConvLists& lists = *c.lists;
    const std::uint32_t *ends = lists.ends.data(), *rows = lists.row.data(), *offset = lists.offset.data();
    const std::size_t pitch = c.pitch(lanes);
    const bool whole = c.inside == (std::uint32_t{1} << count) - 1;
    std::size_t k = c.first_entry();
    for (std::size_t l = c.begin; l < c.end; ++l) {
        const std::size_t end = ends[l];
        if (k == end) continue;
        const R* const from = c.planes + rows[l] * c.plane;
        R* to = c.sums + lists.first[l];
        Held<R, Bytes> d[count];
#pragma GCC unroll 16
        for (std::size_t i = 0; i < count; ++i)
            d[i] = whole || (c.inside >> i & 1) ? Held<R, Bytes>(*reinterpret_cast<const Vec*>(from + c.place[i]))
                                                : Held<R, Bytes>{};
        for (std::size_t n; k < end; k += n, to += n) {
            n = end - k < several ? end - k : several;
            const R* at[several];
            Held<R, Bytes> sum[several][chains] = {};
#pragma GCC unroll 4
            for (std::size_t j = 0; j < several; ++j) at[j] = c.patch + offset[j < n ? k + j : k];
#pragma GCC unroll 4
            for (std::size_t r = 0; r < Runs; ++r) {
#pragma GCC unroll 16
                for (std::size_t i = 0; i < run; ++i)
#pragma GCC unroll 4
                    for (std::size_t j = 0; j < several; ++j)
                        sum[j][i % chains] += d[r * run + i] * *reinterpret_cast<const Vec*>(at[j] + i * lanes);
#pragma GCC unroll 4
                for (std::size_t j = 0; j < several; ++j) at[j] += pitch;
            }
            Held<R, Bytes> folded[several];
#pragma GCC unroll 4
            for (std::size_t j = 0; j < several; ++j) {
                folded[j] = sum[j][0];
                if constexpr (chains == 2) folded[j] += sum[j][chains - 1];
            }
            fold_lanes<R, Bytes, lanes / 2, several>(folded);
            fold_within<R, Bytes, lanes / several / 2>(folded[0], std::make_index_sequence<lanes>{});
            alignas(64) R sums[lanes];
            *reinterpret_cast<Vec*>(sums) = folded[0];
            if (n == several) {
#pragma GCC unroll 4
                for (std::size_t j = 0; j < several; ++j) to[j] += sums[j * (lanes / several)];
            } else {
                for (std::size_t j = 0; j < n; ++j) to[j] += sums[j * (lanes / several)];
            }
        }
    }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void sparse_slopes_body(const SparseTileCall<R>& c) {
    if (c.lists->tile.runs == 4) sparse_slopes_of<R, Bytes, 4>(c);
    else if (c.lists->tile.runs == 2) sparse_slopes_of<R, Bytes, 2>(c);
    else sparse_slopes_of<R, Bytes, 1>(c);
}

}  // namespace detail

#define TESSERA_SPARSE_CONV_KERNELS(R)                                                                    \
    TESSERA_DISPATCH(sparse_patch, R, (const kernels::detail::SparsePatch<R>& patch), (patch))            \
    TESSERA_DISPATCH(sparse_tile, R, (const kernels::detail::SparseTileCall<R>& call), (call))            \
    TESSERA_DISPATCH(sparse_slopes, R, (const kernels::detail::SparseTileCall<R>& call), (call))
TESSERA_SPARSE_CONV_KERNELS(float)
TESSERA_SPARSE_CONV_KERNELS(double)
#undef TESSERA_SPARSE_CONV_KERNELS

namespace detail {

// A block of examples: the strips that a tile takes together are a group, of which so many are there.
struct SparseBlock {
    std::size_t example = 0, width = 0, groups = 1, present = 1;
};
template <class R>
Vec<SparseBlock> sparse_blocks_of(std::size_t examples, std::size_t together) {
    const std::size_t lanes = register_bytes() / sizeof(R);
    Vec<SparseBlock> all;
    for (std::size_t begin = 0, width = 0; begin < examples; begin += width) {
        width = active_block_width<R>(examples - begin);
        const std::size_t strips = width / lanes;
        all.push_back({begin, width, (strips + together - 1) / together, std::min(together, strips)});
    }
    return all;
}

// A tile in a plane of the result of class `c`: what it reads, and where its registers are.
template <class R>
class SparsePlace {
public:
    explicit SparsePlace(const SparseConvLists& lists) : lists_(lists) {}

    std::size_t down(std::size_t c) const { return count(pixels(t().down, c / t().spread), tile().rows()); }
    std::size_t across(std::size_t c) const { return count(pixels(t().across, c % t().spread), tile().columns()); }
    std::size_t classes() const { return t().spread * t().spread; }

    // Numbers from one group's to the next one's in a pixel, and of a tile.
    std::size_t group() const { return tile().strips * register_bytes() / sizeof(R); }
    std::size_t numbers() const { return tile().registers * register_bytes() / sizeof(R); }

    void at(std::size_t c, std::size_t i, std::size_t j, const SparseBlock& s, SparseTileCall<R>& call) {
        const std::size_t lanes = register_bytes() / sizeof(R), row = i * tile().rows(), column = j * tile().columns();
        call.plane = t().down * t().across * s.width;
        call.place = places_.data();
        call.inside = 0;
        for (std::size_t n = 0; n < tile().registers; ++n) {
            const std::size_t run = tile().registers / tile().runs, strip = n % run % tile().strips;
            const std::size_t y = (row + n / run) * t().spread + c / t().spread;
            const std::size_t x = (column + n % run / tile().strips) * t().spread + c % t().spread;
            places_[n] = static_cast<std::uint32_t>((y * t().across + x) * s.width + strip * lanes);
            if (y < t().down && x < t().across && strip < s.present) call.inside |= std::uint32_t{1} << n;
        }
        row_ = t().corner(row, c / t().spread);
        column_ = t().corner(column, c % t().spread);
        if (lists_.starts.empty()) return;
        const auto [top, bottom] = left(row_, tile().rows(), t().height);
        const auto [begin, end] = left(column_, tile().columns(), t().width);
        call.cut = top > 0 || bottom < lists_.taps_a_side() || begin > 0 || end < lists_.taps_a_side();
        call.tap_rows[0] = top, call.tap_rows[1] = bottom, call.tap_columns[0] = begin, call.tap_columns[1] = end;
    }
    // The patches of channels b, for the tile that `at` was called with.
    void read(const R* blocks, std::size_t b, const SparseBlock& s, R* to) const {
        const std::size_t first = b * lists_.block, plane = t().height * t().width;
        sparse_patch(SparsePatch<R>{
            .x = blocks + plane * (s.example * t().channels + first * s.width),
            .channels = std::min(lists_.block, t().channels - first),
            .height = t().height,
            .width = t().width,
            .pixel = s.width,
            .strips = tile().strips,
            .present = s.present,
            .groups = s.groups,
            .apart = patch(),
            .row = row_,
            .column = column_,
            .rows = tile().rows() + t().reach,
            .columns = tile().columns() + t().reach,
            .step = t().step,
            .residues = t().residues,
            .to = to});
    }
    // The tile itself of all planes of dy, for a weight gradient.
    void read_slopes(const R* dy, std::size_t i, std::size_t j, const SparseBlock& s, R* to) const {
        sparse_patch(SparsePatch<R>{.x = dy + s.example * t().rows * t().down * t().across,
                                    .channels = t().rows,
                                    .height = t().down,
                                    .width = t().across,
                                    .pixel = s.width,
                                    .strips = tile().strips,
                                    .present = s.present,
                                    .groups = s.groups,
                                    .apart = t().rows * numbers(),
                                    .row = static_cast<std::ptrdiff_t>(i * tile().rows()),
                                    .column = static_cast<std::ptrdiff_t>(j * tile().columns()),
                                    .rows = tile().rows(),
                                    .columns = tile().columns(),
                                    .to = to});
    }
    std::size_t patch() const {
        return lists_.block * t().patch(tile()) * tile().strips * register_bytes() / sizeof(R);
    }

private:
    const SparseTaps& t() const { return lists_.taps; }
    const SparseTile& tile() const { return lists_.tile; }
    std::size_t pixels(std::size_t side, std::size_t c) const { return t().pixels(side, c); }
    static std::size_t count(std::size_t pixels, std::size_t of) { return (pixels + of - 1) / of; }
    // Along a side: the taps that meet a pixel of a plane for at least one of a tile, whose patch has this corner.
    std::pair<std::size_t, std::size_t> left(std::ptrdiff_t corner, std::size_t of_tile, std::size_t plane) const {
        const auto width = static_cast<std::ptrdiff_t>(of_tile), end = static_cast<std::ptrdiff_t>(plane);
        const auto side = static_cast<std::ptrdiff_t>(lists_.taps_a_side());
        const auto first = std::clamp<std::ptrdiff_t>(1 - width - corner, 0, side - 1);
        const auto last = std::clamp<std::ptrdiff_t>(end - corner, first + 1, side);
        return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
    }

    const SparseConvLists& lists_;
    std::array<std::uint32_t, 16> places_{};
    std::ptrdiff_t row_ = 0, column_ = 0;
};

// to = start + from * values, by the crew where it pays: pieces are rows of tiles.
template <class R>
void sparse_conv_product(const SparseConvLists& lists, const R* values, const R* start, const R* from, R* to,
                         std::size_t examples) {
    const SparsePlace<R> grid(lists);
    const Vec<SparseBlock> blocks = sparse_blocks_of<R>(examples, lists.tile.strips);
    const SparseTaps& taps = lists.taps;
    std::size_t tiles = 0;
    for (std::size_t c = 0; c < grid.classes(); ++c) tiles += grid.down(c);
    by_crew(examples * lists.offset.size() * taps.down * taps.across, tiles * blocks.size(), [&](std::size_t piece) {
        const SparseBlock& of = blocks[piece / tiles];
        std::size_t i = piece % tiles, c = 0;
        for (; i >= grid.down(c); ++c) i -= grid.down(c);
        SparsePlace<R> place(lists);
        const std::size_t waiting = lists.blocks > 1 ? taps.rows * place.numbers() : 0;
        const Scratch<R> patches(of.groups * place.patch()), sums(of.groups * waiting);
        SparseTileCall<R> call{.lists = &lists, .values = values, .start = start};
        for (std::size_t j = 0; j < grid.across(c); ++j) {
            place.at(c, i, j, of, call);
            for (std::size_t b = 0; b < lists.blocks; ++b) {
                place.read(from, b, of, patches.data());
                call.begin = lists.list(c, b);
                call.end = call.begin + taps.rows;
                call.opens = b == 0;
                call.closes = b + 1 == lists.blocks;
                for (std::size_t g = 0; g < of.groups; ++g) {
                    call.patch = patches.data() + g * place.patch();
                    call.planes = to + of.example * taps.rows * taps.down * taps.across + g * place.group();
                    call.sums = sums.data() + g * waiting;
                    sparse_tile(call);
                }
            }
        }
    });
}

}  // namespace detail

// The entry points. x, y, dx and dy are blocked, weights packed; `start` holds a number for each output, or is null.
// y[o][p] = start[o] + sum of w[o][t] x[what tap t meets at p]
template <class R>
void sparse_conv(const SparseConvPattern<R>& pattern, const R* w, const R* start, const R* x, R* y,
                 std::size_t batch) {
    detail::sparse_conv_product(pattern.forward(), w, start, x, y, padded<R>(batch));
}
// dx = sum of w[o][t] dy[o][p] at what tap t meets at p
template <class R>
void sparse_conv_input_gradient(const SparseConvPattern<R>& pattern, const R* w, const R* dy, R* dx,
                                std::size_t batch) {
    const auto& lists = pattern.turned();
    const Scratch<R> values(pattern.count());
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = w[lists.source[k]];
    detail::sparse_conv_product<R>(lists, values.data(), nullptr, dy, dx, padded<R>(batch));
}
// dw[o][t] = sum over examples and pixels of dy[o][p] x[what tap t meets at p], where w[o][t] exists
template <class R>
void sparse_conv_weight_gradient(const SparseConvPattern<R>& pattern, const R* dy, const R* x, R* dw,
                                 std::size_t batch) {
    const auto& lists = pattern.forward();
    const auto& taps = lists.taps;
    const std::size_t examples = padded<R>(batch), pixels = taps.down * taps.across;
    const Vec<detail::SparseBlock> blocks = detail::sparse_blocks_of<R>(examples, lists.tile.strips);
    std::size_t groups = 1;
    for (const auto& of : blocks) groups = std::max(groups, of.groups);
    std::fill_n(dw, pattern.count(), R(0));
    // Blocks of channels are enough pieces, or their rows are shared out too; each sum is one piece's.
    const std::size_t crew = Crew::size(), parts = crew > 1 && lists.blocks < 4 * crew ? 2 * crew : 1;
    const std::size_t spans = crew > 1 ? std::min(lists.blocks, 2 * crew) : 1;
    const std::size_t each = (taps.rows + parts - 1) / parts;
    detail::by_crew(examples * pattern.count() * pixels, spans * parts, [&](std::size_t piece) {
        const std::size_t span = piece / parts, begin = std::min(taps.rows, piece % parts * each);
        const std::size_t first = span * lists.blocks / spans, last = (span + 1) * lists.blocks / spans;
        if (begin == taps.rows) return;
        detail::SparsePlace<R> place(lists);
        // What several blocks of channels meet is brought into one piece for all of them.
        const std::size_t whole = last - first > 1 ? taps.rows * place.numbers() : 0;
        const Scratch<R> patches(groups * place.patch()), slopes(groups * whole);
        std::array<std::uint32_t, 16> in_order{};
        for (std::size_t n = 0; n < lists.tile.registers; ++n)
            in_order[n] = static_cast<std::uint32_t>(n * place.numbers() / lists.tile.registers);
        detail::SparseTileCall<R> call{.lists = &lists, .sums = dw};
        for (const auto& of : blocks)
            for (std::size_t i = 0; i < place.down(0); ++i)
                for (std::size_t j = 0; j < place.across(0); ++j) {
                    place.at(0, i, j, of, call);
                    if (whole > 0) {
                        place.read_slopes(dy, i, j, of, slopes.data());
                        call.plane = place.numbers();
                        call.place = in_order.data();
                        call.inside = (std::uint32_t{1} << lists.tile.registers) - 1;
                    }
                    for (std::size_t b = first; b < last; ++b) {
                        place.read(x, b, of, patches.data());
                        call.begin = lists.list(0, b) + begin;
                        call.end = lists.list(0, b) + std::min(taps.rows, begin + each);
                        for (std::size_t g = 0; g < of.groups; ++g) {
                            call.patch = patches.data() + g * place.patch();
                            const R* const there = dy + of.example * taps.rows * pixels + g * place.group();
                            call.planes = const_cast<R*>(whole > 0 ? slopes.data() + g * whole : there);  // only read
                            sparse_slopes(call);
                        }
                    }
                }
    });
}
// dbias[o] = the sum of plane o of dy
template <class R>
void sparse_conv_bias_gradient(const SparseConvPattern<R>& pattern, const R* dy, R* dbias, std::size_t batch) {
    const std::size_t pixels = pattern.shape().pixels();
    const Scratch<R> sums(pattern.outputs() * pixels);
    block_sums(dy, sums.data(), sums.size(), padded<R>(batch));
    plane_sums(static_cast<const R*>(sums.data()), dbias, pattern.outputs(), pixels, R(1));
}

}  // namespace tessera::kernels
