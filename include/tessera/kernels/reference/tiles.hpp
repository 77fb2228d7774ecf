// SPDX-License-Identifier: BSD-3-Clause
// A tile unit in software, after the definition of LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBF16PS and TDPBUUD in
// the processor's manual: same order of sums, same roundings, same faults. For tests.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace tessera::kernels::reference {

class Tiles {
public:
    // Wrong shapes are faults of the processor, hence of whoever wrote the kernel.
    template <class Shapes>
    void configure(const Shapes& shapes) {
        fault_unless(shapes.palette == 1 && shapes.start_row == 0);
        for (const auto byte : shapes.reserved) fault_unless(byte == 0);
        for (std::size_t t = 0; t < 16; ++t) {
            fault_unless(shapes.row_bytes[t] <= 64 && shapes.rows[t] <= 16);
            fault_unless(t < 8 || shapes.rows[t] == 0);
            fault_unless((shapes.row_bytes[t] == 0) == (shapes.rows[t] == 0));
            if (t < 8) tiles_[t] = {shapes.rows[t], shapes.row_bytes[t], {}};
        }
        configured_ = true;
    }
    void release() { configured_ = false; }

    template <int T>
    void zero() {
        use<T>().bytes = {};
    }
    template <int T>
    void load(const void* from, std::size_t stride) {
        Tile& tile = use<T>();
        tile.bytes = {};
        for (std::size_t r = 0; r < tile.rows; ++r)
            std::memcpy(tile.bytes[r].data(), static_cast<const char*>(from) + r * stride, tile.row_bytes);
    }
    template <int T>
    void store(void* to, std::size_t stride) {
        const Tile& tile = use<T>();
        for (std::size_t r = 0; r < tile.rows; ++r)
            std::memcpy(static_cast<char*>(to) + r * stride, tile.bytes[r].data(), tile.row_bytes);
    }

    // sum[m][n] += sum_k left[m][k] right[k][n], first elements of pairs and second ones added up apart.
    template <int Sum, int Left, int Right>
    void multiply() {
        each_sum<Sum, Left, Right, float>([](const Tile& left, const Tile& right, std::size_t m, std::size_t n,
                                             float total) {
            float part[2] = {0, 0};
            for (std::size_t k = 0; k < right.rows; ++k)
                for (std::size_t i = 0; i < 2; ++i)
                    part[i] = flushed(std::fma(half(left, m, 2 * k + i), half(right, k, 2 * n + i), part[i]));
            return flushed(flushed(total) + flushed(part[0] + part[1]));
        });
    }

    // sum[m][n] += sum_k left[m][k] right[k][n] of bytes without sign, four at a time, in whole numbers of 32 bits.
    template <int Sum, int Left, int Right>
    void multiply_bytes() {
        each_sum<Sum, Left, Right, std::uint32_t>(
            [](const Tile& left, const Tile& right, std::size_t m, std::size_t n, std::uint32_t total) {
                for (std::size_t k = 0; k < right.rows; ++k)
                    for (std::size_t i = 0; i < 4; ++i)
                        total += std::uint32_t{left.bytes[m][4 * k + i]} * right.bytes[k][4 * n + i];
                return total;
            });
    }

    bool configured() const { return configured_; }
    std::size_t products() const { return products_; }

private:
    struct Tile {
        std::size_t rows, row_bytes;
        std::array<std::array<std::uint8_t, 64>, 16> bytes;
    };

    static void fault_unless(bool legal) {
        if (!legal) throw std::logic_error("tile fault");
    }
    template <int T>
    Tile& use() {
        static_assert(T >= 0 && T < 8, "there are eight tiles");
        fault_unless(configured_);
        return tiles_[T];
    }
    // sum[m][n] = f(left, right, m, n, sum[m][n])
    template <int Sum, int Left, int Right, class Number, class F>
    void each_sum(const F& f) {
        static_assert(Sum != Left && Sum != Right && Left != Right, "a product wants three different tiles");
        Tile& sum = use<Sum>();
        const Tile &left = use<Left>(), &right = use<Right>();
        fault_unless(sum.rows == left.rows && left.row_bytes == 4 * right.rows && sum.row_bytes == right.row_bytes &&
                     sum.row_bytes % 4 == 0);
        for (std::size_t m = 0; m < sum.rows; ++m)
            for (std::size_t n = 0; n < sum.row_bytes / 4u; ++n) {
                Number total;
                std::memcpy(&total, sum.bytes[m].data() + 4 * n, 4);
                total = f(left, right, m, n, total);
                std::memcpy(sum.bytes[m].data() + 4 * n, &total, 4);
            }
        ++products_;
    }
    static float flushed(float x) {
        return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
    }
    static float half(const Tile& tile, std::size_t row, std::size_t i) {
        std::uint16_t bits;
        std::memcpy(&bits, tile.bytes[row].data() + 2 * i, 2);
        return flushed(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
    }

    std::array<Tile, 8> tiles_{};
    bool configured_ = false;
    std::size_t products_ = 0;
};

}  // namespace tessera::kernels::reference
