// SPDX-License-Identifier: BSD-3-Clause
// Where the ones of a mask's matrix are, in the orders in which the sparse kernels read them (kernels/sparse.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include <tessera/core/arena.hpp>

namespace tessera::kernels {

// f(number of a word's first bit, the word's bits that lie in [begin, end))
template <class F>
void each_word(const std::uint64_t* words, std::size_t begin, std::size_t end, F&& f) {
    for (std::size_t j = begin; j < end; j = (j / 64 + 1) * 64) {
        std::uint64_t bits = words[j / 64] >> (j % 64) << (j % 64);
        const std::size_t base = j / 64 * 64;
        if (end - base < 64) bits &= (std::uint64_t{1} << (end - base)) - 1;
        f(base, bits);
    }
}

// The ones of a matrix, panel by panel of columns. Columns count from the panel's first; four more may be read behind
// the last.
//
// One row at a time: one list for each panel and row; list i is that of row[i], and ends at ends[i], where the next
// begins. Its values stand in one piece from first[i] on, or, if the matrix is a turned one, each where `source` says.
// Of every `rows_in_turn` rows the shorter lists come first: a loop that ends when it did the last time is foreseen (of
// both gradients' time 6 % at density 0.5, 2 % at 0.1, nothing at 0.05; of the forward pass 15 % at 0.1; 1024x1024,
// -O2).
//
// Three rows together: seven lists for each panel and three rows, of the columns that all three have, that two have,
// and that one has: subset 7 first (bit q: the q-th of them), subset 1 last. `offset` has, column after column, a place
// for each row of the subset, counted from where the row's values of the panel begin: first[panel * rows + row].
struct SparseOrder {
    std::size_t rows = 0, columns = 0, panel = 1, count = 0, together = 1;
    bool in_pairs = true;  // of blocks of examples
    const std::uint32_t* ends = nullptr;
    const std::uint32_t* first = nullptr;
    const std::uint16_t* column = nullptr;
    const std::uint32_t* row = nullptr;
    const std::uint32_t* source = nullptr;
    const std::uint8_t* offset = nullptr;
};
inline constexpr std::size_t rows_in_turn = 48;

namespace detail {

template <class F>
void each_one(std::uint64_t bits, F&& f) {
    for (; bits != 0; bits &= bits - 1) f(static_cast<std::size_t>(std::countr_zero(bits)));
}

// A matrix of bits whose rows begin at a word.
struct BitMatrix {
    std::size_t rows, columns, words;
    Vec<std::uint64_t> bits;

    BitMatrix(std::size_t r, std::size_t c) : rows(r), columns(c), words((c + 63) / 64), bits(r * words) {}
    BitMatrix(const std::uint64_t* mask, std::size_t begin, std::size_t r, std::size_t c) : BitMatrix(r, c) {
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < words; ++j) {
                const std::size_t from = begin + i * columns + 64 * j, left = columns - 64 * j, shift = from % 64;
                std::uint64_t word = mask[from / 64] >> shift;
                const std::size_t wanted = left < 64 ? left : 64;
                if (shift + wanted > 64) word |= mask[from / 64 + 1] << (64 - shift);
                if (left < 64) word &= (std::uint64_t{1} << left) - 1;
                bits[i * words + j] = word;
            }
    }
    std::uint64_t word(std::size_t row, std::size_t j) const { return row < rows ? bits[row * words + j] : 0; }

    BitMatrix turned() const {
        BitMatrix out(columns, rows);
        for (std::size_t i = 0; i < rows; i += 64)
            for (std::size_t j = 0; j < words; ++j) {
                std::uint64_t square[64];
                for (std::size_t k = 0; k < 64; ++k) square[k] = word(i + k, j);
                // Swaps what lies off the diagonal: squares of 32, then of 16, ..., then single bits.
                std::uint64_t low = 0xFFFFFFFF;
                for (std::size_t s = 32; s > 0; s /= 2, low ^= low << s)
                    for (std::size_t k = 0; k < 64; k = (k + s + 1) & ~s) {
                        const std::uint64_t differ = (square[k] >> s ^ square[k + s]) & low;
                        square[k] ^= differ << s;
                        square[k + s] ^= differ;
                    }
                for (std::size_t k = 0; k < 64 && 64 * j + k < columns; ++k)
                    out.bits[(64 * j + k) * out.words + i / 64] = square[k];
            }
        return out;
    }
};

// The lists of one matrix. A turned one has the rows of the weights as its columns: packed numbers run along them.
struct SparseLists {
    std::size_t panel = 1;
    Vec<std::uint32_t> ends, first, row, source;
    Vec<std::uint16_t> column;
    Vec<std::uint8_t> offset;

    // f(column, counted from the matrix' first) for the ones of row r in the panel that begins at `from`.
    template <class F>
    void each_one_of(const BitMatrix& m, std::size_t r, std::size_t from, F&& f) const {
        const std::size_t begin = r * m.words * 64;
        each_word(m.bits.data(), begin + from, begin + std::min(m.columns, from + panel),
                  [&](std::size_t base, std::uint64_t bits) {
                      each_one(bits, [&](std::size_t b) { f(base + b - begin); });
                  });
    }
    // next[r]: the packed number of the first one of the weights' row r.
    void row_by_row(const BitMatrix& m, std::size_t width, std::size_t count, bool turned, Vec<std::uint32_t> next) {
        panel = width;
        const std::size_t lists = (m.columns + panel - 1) / panel * m.rows;
        ends.resize(lists);
        row.resize(lists);
        if (turned) source.resize(count);
        else first.resize(lists);
        column.resize(count + 4);
        std::uint32_t begins[rows_in_turn + 1] = {};
        Vec<std::uint16_t> ones(rows_in_turn * panel);
        Vec<std::uint32_t> sources(turned ? ones.size() : 0);
        std::size_t k = 0, list = 0;
        for (std::size_t from = 0; from < m.columns; from += panel)
            for (std::size_t group = 0; group < m.rows; group += rows_in_turn) {
                const std::size_t rows = std::min(rows_in_turn, m.rows - group);
                std::uint32_t n = 0;
                for (std::size_t i = 0; i < rows; ++i, begins[i] = n)  // in order, in which packed numbers run
                    each_one_of(m, group + i, from, [&](std::size_t c) {
                        if (turned) sources[n] = next[c]++;
                        ones[n++] = static_cast<std::uint16_t>(c - from);
                    });
                std::array<std::size_t, rows_in_turn> order;
                std::iota(order.begin(), order.end(), std::size_t{0});
                const auto length = [&](std::size_t i) { return begins[i + 1] - begins[i]; };
                std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(rows), [&](auto i, auto j) {
                    return length(i) != length(j) ? length(i) < length(j) : i < j;
                });  // a stable sort would ask the heap for room
                for (std::size_t i = 0; i < rows; ++i, ++list) {
                    const std::size_t r = group + order[i];
                    if (!turned) first[list] = std::exchange(next[r], next[r] + length(order[i]));
                    for (std::size_t o = begins[order[i]]; o < begins[order[i] + 1]; ++o, ++k) {
                        if (turned) source[k] = sources[o];
                        column[k] = ones[o];
                    }
                    row[list] = static_cast<std::uint32_t>(r);
                    ends[list] = static_cast<std::uint32_t>(k);
                }
            }
    }
    void three_rows_together(const BitMatrix& m, std::size_t count, Vec<std::uint32_t> next) {
        panel = 64;
        ends.resize(m.words * ((m.rows + 2) / 3) * 7);
        first.resize(m.words * m.rows);
        offset.resize(count);
        column.resize(count + 4);
        std::size_t k = 0, s = 0, list = 0;
        for (std::size_t j = 0; j < m.words; ++j)
            for (std::size_t r = 0; r < m.rows; r += 3) {
                const std::uint64_t bits[3] = {m.word(r, j), m.word(r + 1, j), m.word(r + 2, j)};
                std::uint8_t rank[3][64];
                for (std::size_t q = 0; q < 3 && r + q < m.rows; ++q) {
                    std::uint8_t n = 0;
                    each_one(bits[q], [&](std::size_t b) { rank[q][b] = n++; });
                    first[j * m.rows + r + q] = std::exchange(next[r + q], next[r + q] + n);
                }
                for (std::size_t subset = 7; subset > 0; --subset) {
                    std::uint64_t these = ~std::uint64_t{0};
                    for (std::size_t q = 0; q < 3; ++q) these &= subset >> q & 1 ? bits[q] : ~bits[q];
                    each_one(these, [&](std::size_t b) {
                        column[k++] = static_cast<std::uint16_t>(b);
                        for (std::size_t q = 0; q < 3; ++q)
                            if (subset >> q & 1) offset[s++] = rank[q][b];
                    });
                    ends[list++] = static_cast<std::uint32_t>(k);
                }
            }
    }
};

}  // namespace detail

// What the kernels read of a mask's [out][in] matrix, made once.
class SparsePattern {
public:
    SparsePattern() = default;
    // The matrix begins at bit `begin` of the mask's words. Without `transposed` there is no input gradient.
    SparsePattern(const std::uint64_t* words, std::size_t begin, std::size_t out, std::size_t in, bool transposed)
        : out_(out), in_(in) {
        const detail::BitMatrix ones(words, begin, out, in);
        Vec<std::uint32_t> starts(out);
        for (std::size_t r = 0; r < out; ++r) {
            starts[r] = static_cast<std::uint32_t>(count_);
            for (std::size_t j = 0; j < ones.words; ++j)
                count_ += static_cast<std::size_t>(std::popcount(ones.word(r, j)));
        }
        rows_.row_by_row(ones, even(in, in_pairs() ? 64 : wide_enough_for(12, 256)), count_, false, starts);
        if (count_ > 0 && 100 * count_ >= percent_for_three * out * in)
            threes_.three_rows_together(ones, count_, starts);
        if (transposed) turned_.row_by_row(ones.turned(), even(out, turned_panel()), count_, true, std::move(starts));
    }

    std::size_t count() const { return count_; }
    SparseOrder row_by_row() const { return order(rows_, out_, in_, 1, in_pairs()); }
    SparseOrder places() const { return threes_.ends.empty() ? row_by_row() : order(threes_, out_, in_, 3, true); }
    SparseOrder transposed() const { return order(turned_, in_, out_, 1, true); }

private:
    // From here on three rows have so many columns in common that seven short lists are worth it.
    static constexpr std::size_t percent_for_three = 30;

    // A panel of 64 columns and a pair of blocks is 32 KiB and stays in L1. Lists of less than ten ones cost more to
    // enter and to leave than a pair saves: sparser rows take one block at a time and wider panels (of a step 2 to 5
    // % at density 0.05, 1 to 4 % at 0.1).
    bool in_pairs() const { return 64 * count_ >= 10 * out_ * in_; }
    // Wide enough for lists of so many ones.
    std::size_t wide_enough_for(std::size_t ones, std::size_t widest) const {
        std::size_t panel = 64;
        while (panel < widest && count_ * panel < out_ * in_ * ones) panel *= 2;
        return panel;
    }
    // From 256 columns on a panel comes from L2 in any case, and one for all spares dx a second pass (1024x1024 at
    // density 0.05: 4 % of a step).
    std::size_t turned_panel() const {
        const std::size_t panel = wide_enough_for(24, 512);
        return panel > 256 ? 1024 : panel;
    }
    // Panels of one width, or nearly: no sliver at the end.
    static std::size_t even(std::size_t columns, std::size_t panel) {
        const std::size_t panels = (columns + panel / 2) / panel;
        return panels > 1 ? (columns + panels - 1) / panels : columns > 0 ? columns : 1;
    }
    SparseOrder order(const detail::SparseLists& lists, std::size_t rows, std::size_t columns,
                      std::size_t together, bool in_pairs) const {
        const auto there = [](const auto& all) { return all.empty() ? nullptr : all.data(); };
        return {rows, columns, lists.panel, count_, together, in_pairs, lists.ends.data(), there(lists.first),
                lists.column.data(), there(lists.row), there(lists.source), there(lists.offset)};
    }

    std::size_t out_ = 0, in_ = 0, count_ = 0;
    detail::SparseLists rows_, threes_, turned_;
};

}  // namespace tessera::kernels
