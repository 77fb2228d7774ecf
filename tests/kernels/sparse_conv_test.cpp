// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/sparse_conv.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/mask.hpp>
#include <tessera/core/random.hpp>
#include <tessera/kernels/reference/sparse_conv.hpp>

#include <support/backwards_crew.hpp>
#include <support/bits.hpp>
#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace sparse_conv_test {

namespace {

using namespace tessera;
using namespace tessera::support;

struct Layer {
    kernels::ConvShape s;
    std::size_t batch, out;

    std::size_t weights() const { return out * s.taps(); }
    std::size_t images() const { return batch * s.image(); }
    std::size_t planes() const { return batch * out * s.pixels(); }
};
// Kernels of 1 to 7, strides smaller and larger than they are, margins narrower and wider; planes below, at and above
// each form of tile, of which the last row or column is read by no tap; batches around registers and blocks; so many
// channels, and so many outputs, that they go in several blocks.
const std::vector<Layer> layers{
    {{1, 1, 1, 1, 1, 0}, 1, 1},    {{2, 8, 8, 3, 1, 1}, 16, 3},   {{3, 5, 7, 3, 2, 1}, 17, 5},
    {{40, 4, 4, 3, 1, 1}, 20, 33}, {{2, 12, 12, 5, 1, 0}, 33, 4}, {{1, 9, 20, 5, 1, 2}, 5, 7},
    {{3, 6, 6, 1, 2, 0}, 48, 2},   {{2, 7, 7, 2, 3, 0}, 7, 3},    {{2, 4, 5, 4, 3, 2}, 70, 2},
    {{1, 3, 3, 2, 1, 3}, 3, 2},    {{5, 2, 2, 3, 1, 1}, 64, 6},   {{2, 11, 9, 7, 2, 3}, 2, 3},
    {{3, 1, 1, 3, 1, 1}, 40, 4},   {{2, 3, 35, 3, 1, 0}, 16, 2},  {{2, 6, 6, 3, 2, 1}, 0, 2}};

// The weights begin at bit `begin` of a mask whose other bits are ones, which must not be read.
constexpr std::size_t begin = 5;
Mask mask_of(const Layer& l, double density) {
    Mask mask(begin + l.weights() + 70, true);
    Stream draw(Key{l.weights()});
    for (std::size_t j = 0; j < l.weights(); ++j) mask.set(begin + j, draw.uniform() < density);
    return mask;
}

template <class R>
std::vector<R> blocked(const std::vector<R>& rows, std::size_t batch, std::size_t numbers) {
    std::vector<R> blocks(kernels::padded<R>(batch) * numbers, std::numeric_limits<R>::quiet_NaN());
    kernels::to_blocks(kernels::RowTable<R>(rows.data(), batch, numbers).rows(), blocks.data(), batch, numbers,
                       kernels::padded<R>(batch));
    return blocks;
}
template <class R>
std::vector<R> by_rows(const std::vector<R>& blocks, std::size_t batch, std::size_t numbers) {
    std::vector<R> rows(batch * numbers, std::numeric_limits<R>::quiet_NaN());
    kernels::from_blocks(blocks.data(), rows.data(), batch, numbers, kernels::padded<R>(batch));
    return rows;
}

template <class R>
struct Given {
    Layer l;
    Mask mask;
    kernels::SparseConvPattern<R> pattern;
    std::vector<R> w, bias, x, dy;

    // The pattern is made for batches of `hint`.
    Given(const Layer& layer, double density, std::size_t hint)
        : l(layer), mask(mask_of(layer, density)), pattern(mask.words().data(), begin, l.s, l.out, hint, true),
          w(toy_numbers<R>(pattern.count(), 2)), bias(toy_numbers<R>(l.out, 3)), x(toy_numbers<R>(l.images(), 1)),
          dy(toy_numbers<R>(l.planes(), 4)) {}
    auto exists() const {
        return [this](std::size_t j) { return mask[begin + j]; };
    }
};
template <class R>
struct Numbers {
    std::vector<R> y, dx, dw, dbias;
    bool operator==(const Numbers&) const = default;
};
template <class R>
Numbers<R> computed(const Given<R>& g) {
    const R nan = std::numeric_limits<R>::quiet_NaN();
    const std::size_t batch = g.l.batch, image = g.l.s.image(), planes = g.l.out * g.l.s.pixels();
    const auto x = blocked(g.x, batch, image), dy = blocked(g.dy, batch, planes);
    std::vector<R> y(kernels::padded<R>(batch) * planes, nan), dx(kernels::padded<R>(batch) * image, nan);
    Numbers<R> n{{}, {}, std::vector<R>(g.w.size(), nan), std::vector<R>(g.l.out, nan)};
    kernels::sparse_conv(g.pattern, g.w.data(), g.bias.data(), x.data(), y.data(), batch);
    kernels::sparse_conv_input_gradient(g.pattern, g.w.data(), dy.data(), dx.data(), batch);
    kernels::sparse_conv_weight_gradient(g.pattern, dy.data(), x.data(), n.dw.data(), batch);
    kernels::sparse_conv_bias_gradient(g.pattern, dy.data(), n.dbias.data(), batch);
    n.y = by_rows(y, batch, planes);
    n.dx = by_rows(dx, batch, image);
    return n;
}
template <class W, class R>
Numbers<W> plain(const Given<R>& g, bool absolute) {
    const auto of = [&](const std::vector<R>& v) { return absolute ? magnitudes(converted<W>(v)) : converted<W>(v); };
    const auto w = of(g.w), bias = of(g.bias), x = of(g.x), dy = of(g.dy);
    Numbers<W> n{std::vector<W>(g.l.planes()), std::vector<W>(g.l.images()), std::vector<W>(g.w.size()),
                 std::vector<W>(g.l.out)};
    namespace plain = kernels::reference;
    plain::sparse_conv(g.exists(), w.data(), bias.data(), x.data(), n.y.data(), g.l.batch, g.l.s, g.l.out);
    plain::sparse_conv_input_gradient(g.exists(), w.data(), dy.data(), n.dx.data(), g.l.batch, g.l.s, g.l.out);
    plain::sparse_conv_weight_gradient(g.exists(), dy.data(), x.data(), n.dw.data(), g.l.batch, g.l.s, g.l.out);
    plain::sparse_conv_bias_gradient(dy.data(), n.dbias.data(), g.l.batch, g.l.s, g.l.out);
    return n;
}
// Against the plain loops in the wider type. Returns which one is wrong.
template <class R>
std::string wrong(const Given<R>& g, const Given<R>& right) {
    const auto exact = plain<Wide<R>>(right, false), terms = plain<Wide<R>>(right, true);
    const Numbers<R> got = computed(g);
    const std::size_t places = kernels::padded<R>(g.l.batch) * (g.l.s.pixels() + 1);
    if (!within(got.y, exact.y, terms.y, g.l.s.taps() + 1)) return "forward";
    if (!within(got.dx, exact.dx, terms.dx, g.l.out * g.l.s.kernel * g.l.s.kernel)) return "input gradient";
    if (!within(got.dw, exact.dw, terms.dw, places)) return "weight gradient";
    if (!within(got.dbias, exact.dbias, terms.dbias, places)) return "bias gradient";
    return "nothing";
}

}  // namespace

TEST_CASE_TEMPLATE("sparse convolutions of every kernel set agree with the plain loops", R, float, double) {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (std::size_t i = 0; i < layers.size(); ++i)
            for (const double density : {0.0, 0.15, 0.6, 1.0}) {
                CAPTURE(i);
                CAPTURE(density);
                const Given<R> g(layers[i], density, layers[i].batch);
                CHECK(wrong(g, g) == "nothing");
            }
        const Given<R> right(layers[1], 0.6, 16);
        Given<R> tampered = right;
        tampered.w.back() += R(0.01);
        CHECK(wrong(tampered, right) == "forward");
    });
}

TEST_CASE_TEMPLATE("sparse convolutions: an image's numbers depend on no batch, no number on the crew", R, float,
                   double) {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        // Enough work for a crew to be asked; several and single blocks of channels; with a stride.
        for (const Layer& l : {Layer{{40, 8, 8, 3, 1, 1}, 50, 24}, Layer{{2, 28, 28, 5, 2, 1}, 50, 24}}) {
            const Given<R> g(l, 0.5, 50);
            const Numbers<R> all = computed(g);
            for (const std::size_t hint : {1u, 16u, 50u}) {
                Layer one = l;
                one.batch = 1;
                Given<R> last(one, 0.5, hint);
                last.w = g.w, last.bias = g.bias;
                last.x.assign(g.x.end() - static_cast<std::ptrdiff_t>(one.images()), g.x.end());
                last.dy.assign(g.dy.end() - static_cast<std::ptrdiff_t>(one.planes()), g.dy.end());
                const Numbers<R> alone = computed(last);
                const auto ends = [](const std::vector<R>& a, const std::vector<R>& b) {
                    return std::equal(b.begin(), b.end(), a.end() - static_cast<std::ptrdiff_t>(b.size()));
                };
                CHECK(ends(all.y, alone.y));
                if (hint == 50) CHECK(ends(all.dx, alone.dx));  // of one pattern
            }
            BackwardsCrew two(2), five(5), lazy(2, true);
            for (BackwardsCrew* crew : {&two, &five}) {
                const Crew::Use use(crew);
                CHECK(computed(g) == all);
                CHECK(crew->pieces > 3);
            }
            const Crew::Use use(&lazy);
            CHECK_FALSE(computed(g) == all);
        }
    });
}

TEST_CASE_TEMPLATE("pools in blocks have the bits of pools by rows", R, float, double) {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        struct Pool {
            std::size_t batch, planes, height, width, kernel;
        };
        for (const Pool& p : {Pool{1, 1, 2, 2, 2}, Pool{33, 3, 4, 6, 2}, Pool{20, 2, 7, 5, 3}, Pool{80, 2, 3, 3, 1}}) {
            const std::size_t in = p.planes * p.height * p.width;
            const std::size_t out = p.planes * (p.height / p.kernel) * (p.width / p.kernel);
            auto x = toy_numbers<R>(p.batch * in, 1);
            const auto dy = toy_numbers<R>(p.batch * out, 2);
            for (R& v : x) v = static_cast<R>(static_cast<int>(4 * v));  // so that some are equal
            x[in / 2] = std::numeric_limits<R>::quiet_NaN();
            std::vector<R> y(dy.size()), dx(x.size());
            kernels::max_pool(x.data(), y.data(), p.batch * p.planes, p.height, p.width, p.kernel);
            kernels::max_pool_gradient(x.data(), y.data(), dy.data(), dx.data(), p.batch * p.planes, p.height,
                                         p.width, p.kernel);
            const auto bx = blocked(x, p.batch, in), bdy = blocked(dy, p.batch, out);
            std::vector<R> by(bdy.size(), R(7)), bdx(bx.size(), R(7));
            const std::size_t examples = kernels::padded<R>(p.batch);
            kernels::blocked_max_pool(bx.data(), by.data(), p.planes, p.height, p.width, p.kernel, examples);
            kernels::blocked_max_pool_gradient(bx.data(), by.data(), bdy.data(), bdx.data(), p.planes, p.height,
                                               p.width, p.kernel, examples);
            const auto bits = [](const std::vector<R>& v) { return Vec<R>(v.begin(), v.end()); };
            CHECK(same_bits(bits(by_rows(by, p.batch, out)), bits(y)));
            CHECK(same_bits(bits(by_rows(bdx, p.batch, in)), bits(dx)));
            CHECK_FALSE(same_bits(bits(by_rows(bdx, p.batch, in)), bits(x)));
        }
    });
}

}  // namespace sparse_conv_test
