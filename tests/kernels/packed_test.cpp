// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/packed.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/backend.hpp>

#include <support/backwards_crew.hpp>
#include <support/kernel_sets.hpp>
#include <support/toy_numbers.hpp>

namespace packed_test {

namespace {

using namespace tessera;
using namespace tessera::support;
using backend::Simd;

struct Shape {
    std::size_t rows, depth, columns;
};

// Fresh memory is a number that would show.
std::vector<float> fresh(std::size_t n) { return std::vector<float>(n, std::numeric_limits<float>::quiet_NaN()); }

std::vector<const float*> table(const std::vector<float>& matrix, std::size_t rows, std::size_t columns) {
    std::vector<const float*> all;
    for (std::size_t i = 0; i < rows; ++i) all.push_back(matrix.data() + i * columns);
    return all;
}

std::vector<float> forward(const Shape& s, bool packs, bool with_bias) {
    const auto x = toy_numbers<float>(s.rows * s.depth, 1), w = toy_numbers<float>(s.columns * s.depth, 2),
               bias = toy_numbers<float>(s.columns, 3);
    const auto rows = table(x, s.rows, s.depth);
    auto y = fresh(s.rows * s.columns);
    const float* b = with_bias ? bias.data() : nullptr;
    if (packs) kernels::packed_affine(rows.data(), w.data(), b, y.data(), s.rows, s.depth, s.columns);
    else kernels::affine(rows.data(), w.data(), b, y.data(), s.rows, s.depth, s.columns);
    return y;
}

// a by rows or by columns, c with room behind its rows; `deep` of `outer_products`.
std::vector<float> outer(const Shape& s, bool packs, bool by_rows, std::size_t deep) {
    const auto a = toy_numbers<float>(s.rows * s.depth, 4), b = toy_numbers<float>(s.columns * s.depth, 5);
    const auto rows = table(b, s.depth, s.columns);
    const std::size_t ak = by_rows ? 1 : s.rows, am = by_rows ? s.depth : 1;
    if (!packs) {
        auto c = fresh(s.rows * s.columns);
        kernels::outer_products(a.data(), ak, am, rows.data(), c.data(), s.rows, s.columns, s.depth, deep);
        return c;
    }
    constexpr std::size_t behind = 3;
    std::vector<float> wide(s.rows * (s.columns + behind), -7.0f), c;
    kernels::packed_outer(a.data(), ak, am, rows.data(), wide.data(), s.columns + behind, s.rows, s.columns, s.depth,
                          deep);
    for (std::size_t m = 0; m < s.rows; ++m) {
        const auto row = wide.begin() + static_cast<std::ptrdiff_t>(m * (s.columns + behind));
        c.insert(c.end(), row, row + static_cast<std::ptrdiff_t>(s.columns));
        CHECK(std::all_of(row + static_cast<std::ptrdiff_t>(s.columns),
                          row + static_cast<std::ptrdiff_t>(s.columns + behind), [](float v) { return v == -7.0f; }));
    }
    return c;
}

// Rows around tiles, depths around registers of every set, columns around tiles and panels; rows that are several
// blocks (300 of 1030, 150 of 2100, packed once), a depth of several pieces.
const std::vector<Shape> dots{{1, 16, 1},   {4, 17, 5},    {5, 31, 3},     {6, 32, 11},    {23, 64, 10},
                              {9, 131, 17}, {131, 785, 7}, {300, 1030, 6}, {150, 2100, 13}};
const std::vector<Shape> outers{{1, 1, 1},      {5, 3, 17},    {6, 16, 16},    {13, 7, 19},
                                {7, 130, 90},   {12, 128, 64}, {17, 300, 65},  {50, 1024, 63},
                                {11, 1100, 33}, {3, 2500, 70}, {2100, 1030, 5}};

}  // namespace

TEST_CASE("packed products have the bits of the products, in every set") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const Shape& s : dots) {
            CAPTURE(s.rows);
            CAPTURE(s.depth);
            CAPTURE(s.columns);
            for (const bool bias : {false, true}) CHECK(forward(s, true, bias) == forward(s, false, bias));
        }
        for (const Shape& s : outers) {
            CAPTURE(s.rows);
            CAPTURE(s.depth);
            CAPTURE(s.columns);
            for (const bool by_rows : {false, true})
                for (const std::size_t deep : {s.depth, std::size_t{128}, std::size_t{1050}})
                    CHECK(outer(s, true, by_rows, deep) == outer(s, false, by_rows, deep));
        }
    });
}

TEST_CASE("the comparison of bits notices chunks of another depth") {
    const Shape s{12, 300, 64};
    CHECK(outer(s, true, true, 128) != outer(s, true, true, 100));
}

TEST_CASE("a product of no depth is 0, of no rows nothing") {
    CHECK(outer({7, 0, 9}, true, true, 128) == std::vector<float>(63, 0.0f));
    CHECK(outer({0, 5, 9}, true, true, 128).empty());
    CHECK(forward({0, 16, 9}, true, true).empty());
}

namespace {

struct Layer {
    std::size_t batch, in, out;
    std::vector<float> x, w, bias, dy;
    Layer(std::size_t batch_, std::size_t in_, std::size_t out_)
        : batch(batch_),
          in(in_),
          out(out_),
          x(toy_numbers<float>(batch * in, 1)),
          w(toy_numbers<float>(in * out, 2)),
          bias(toy_numbers<float>(out, 3)),
          dy(toy_numbers<float>(batch * out, 4)) {}

    std::vector<float> y() const {
        auto to = fresh(batch * out);
        Simd::affine(x.data(), w.data(), bias.data(), to.data(), batch, in, out);
        return to;
    }
    std::vector<float> dx() const {
        auto to = fresh(batch * in);
        Simd::affine_input_gradient(dy.data(), w.data(), to.data(), batch, in, out);
        return to;
    }
    std::vector<float> dw() const {
        auto to = fresh((in + 1) * out);
        Simd::affine_weight_gradient(dy.data(), x.data(), to.data(), to.data() + in * out, batch, in, out);
        return to;
    }
    std::vector<float> moved(const kernels::UpdateVectors<float>& reads,
                             const kernels::UpdateNumbers<float>& by) const {
        auto to = w;
        to.insert(to.end(), bias.begin(), bias.end());
        Simd::affine_update(dy.data(), x.data(), to.data(), batch, in, out, reads, by);
        return to;
    }
};

}  // namespace

// Of these layers the backend packs all products: a batch and outputs of 256 and more, a right factor of 2^19 numbers.
TEST_CASE("large layers: no bit depends on the batch around a row, on the crew, or on whether a step is fused") {
    const Layer layer(530, 1030, 520);
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        const auto y = layer.y(), dx = layer.dx(), dw = layer.dw();
        for (const std::size_t first : {std::size_t{0}, std::size_t{257}, std::size_t{529}}) {
            const std::size_t n = first == 529 ? 1 : 20;  // too few to be packed
            auto some = fresh(n * layer.out), slopes = fresh(n * layer.in);
            Simd::affine(layer.x.data() + first * layer.in, layer.w.data(), layer.bias.data(), some.data(), n, layer.in,
                         layer.out);
            CHECK(std::equal(some.begin(), some.end(), y.begin() + static_cast<std::ptrdiff_t>(first * layer.out)));
            Simd::affine_input_gradient(layer.dy.data() + first * layer.out, layer.w.data(), slopes.data(), n, layer.in,
                                        layer.out);
            CHECK(std::equal(slopes.begin(), slopes.end(), dx.begin() + static_cast<std::ptrdiff_t>(first * layer.in)));
        }
        BackwardsCrew crew(3);  // pieces of 180 rows, which gradients do not pack
        const Crew::Use use(&crew);
        CHECK(layer.y() == y);
        CHECK(layer.dx() == dx);
        CHECK(layer.dw() == dw);
        CHECK(crew.pieces == 9);
    });
}

TEST_CASE("large layers: a fused step has the bits of gradient and step") {
    const Layer layer(513, 1024, 260);
    const auto center = toy_numbers<float>(1025 * 260, 5);
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        const auto dw = layer.dw();
        for (const bool pulled : {false, true})
            for (const float momentum : {0.0f, 0.9f}) {
                auto velocity = center, velocity_too = center;
                kernels::UpdateVectors<float> reads{}, reads_too{};
                if (pulled) reads.prox_center = reads_too.prox_center = center.data();
                if (momentum > 0) reads.velocity = velocity.data(), reads_too.velocity = velocity_too.data();
                const kernels::UpdateNumbers<float> by{0.1f, 0.0f, pulled ? 0.3f : 0.0f, momentum};
                auto expected = layer.w;
                expected.insert(expected.end(), layer.bias.begin(), layer.bias.end());
                kernels::update(expected.data(), dw.data(), reads.prox_center, nullptr, reads.velocity, expected.size(),
                                1.0f, by);
                CHECK(layer.moved(reads_too, by) == expected);
                CHECK(velocity == velocity_too);
                CHECK(expected != layer.w);
            }
    });
}

}  // namespace packed_test
