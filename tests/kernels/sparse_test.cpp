// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/sparse.hpp>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/mask.hpp>
#include <tessera/core/random.hpp>
#include <tessera/kernels/reference/dense.hpp>
#include <tessera/kernels/reference/sparse.hpp>

#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace sparse_test {

namespace {

using namespace tessera;
using namespace tessera::support;

struct Shape {
    std::size_t batch, in, out;
};
// Batches around every register and every block (16, 32, 64 and 128 examples), with one, two and no block to spare.
const std::vector<std::size_t> batches{0, 1, 2, 15, 16, 17, 31, 33, 48, 63, 64, 65, 80, 96, 112, 127, 128, 129, 130, 257};
// Rows around the registers that gather finished sums; widths around one and several panels.
const std::vector<Shape> layers{{0, 1, 1},   {0, 3, 2},   {0, 4, 5},    {0, 8, 3},    {0, 9, 16},  {0, 16, 9},
                                {0, 17, 17}, {0, 31, 33}, {0, 64, 10},  {0, 65, 7},   {0, 129, 4}, {0, 200, 66},
                                {0, 7, 130}, {0, 1100, 3}, {0, 2, 1100}};

enum class Ones { none, first, last, tenth, half, all, every_other_row };
constexpr Ones kinds[] = {Ones::none, Ones::first, Ones::last, Ones::tenth,
                          Ones::half, Ones::all,   Ones::every_other_row};

// The matrix begins at bit `begin` of a mask whose other bits are ones, which must not be read.
Mask mask_of(Shape s, Ones kind, std::size_t begin) {
    Mask mask(begin + s.in * s.out + 70, true);
    Stream draw(Key{s.in * 31 + s.out});
    for (std::size_t j = 0; j < s.in * s.out; ++j) {
        bool on = false;
        switch (kind) {
            case Ones::none: break;
            case Ones::first: on = j == 0; break;
            case Ones::last: on = j + 1 == s.in * s.out; break;
            case Ones::tenth: on = draw.uniform() < 0.1; break;
            case Ones::half: on = draw.uniform() < 0.5; break;
            case Ones::all: on = true; break;
            case Ones::every_other_row: on = j / s.in % 2 == 1 && draw.uniform() < 0.5; break;
        }
        mask.set(begin + j, on);
    }
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
std::vector<R> unwritten(std::size_t n) {
    return std::vector<R>(n, std::numeric_limits<R>::quiet_NaN());
}

template <class R>
struct Problem {
    Shape s;
    Mask mask;
    kernels::SparsePattern pattern;
    std::vector<R> w, bias, x, dy;

    Problem(Shape shape, Ones kind, std::size_t begin = 5)
        : s(shape), mask(mask_of(shape, kind, begin)), pattern(mask.words().data(), begin, s.out, s.in, true),
          w(toy_numbers<R>(pattern.count(), 2)), bias(toy_numbers<R>(s.out, 3)), x(toy_numbers<R>(s.batch * s.in, 1)),
          dy(toy_numbers<R>(s.batch * s.out, 4)), begin_(begin) {}
    auto exists() const {
        return [this](std::size_t j) { return mask[begin_ + j]; };
    }

private:
    std::size_t begin_;
};

template <class R>
struct Moved {
    std::vector<R> w, velocity;
};
template <class R, class Wide_, class F>
Moved<Wide_> moved(const Problem<R>& p, const F& update) {
    Moved<Wide_> m{converted<Wide_>(p.w), converted<Wide_>(toy_numbers<R>(p.w.size(), 7))};
    const auto prox_center = converted<Wide_>(toy_numbers<R>(p.w.size(), 5));
    const auto linear = converted<Wide_>(toy_numbers<R>(p.w.size(), 6));
    update(m, kernels::UpdateVectors<Wide_>{prox_center.data(), linear.data(), m.velocity.data()},
           kernels::UpdateNumbers<Wide_>{Wide_(0.125), Wide_(0.25), Wide_(0.5), Wide_(0.75)});
    return m;
}

// The kernels on one problem, each against the plain loop in the wider type. Returns which one is wrong.
template <class R>
std::string wrong(const Problem<R>& p, R tampered = 0) {
    using W = Wide<R>;
    const std::size_t batch = p.s.batch, in = p.s.in, out = p.s.out;
    const auto w = converted<W>(p.w), bias = converted<W>(p.bias), x = converted<W>(p.x), dy = converted<W>(p.dy);
    const auto aw = magnitudes(w), ab = magnitudes(bias), ax = magnitudes(x), ady = magnitudes(dy);
    auto weights = p.w;
    if (!weights.empty()) weights.back() += tampered;
    const auto bx = blocked(p.x, batch, in), bdy = blocked(p.dy, batch, out);
    if (by_rows(bx, batch, in) != p.x) return "blocks";

    auto y = unwritten<R>(kernels::padded<R>(batch) * out);
    kernels::sparse_affine(p.pattern, weights.data(), p.bias.data(), bx.data(), y.data(), batch);
    std::vector<W> exact(batch * out), terms(batch * out);
    kernels::reference::sparse_affine(p.exists(), w.data(), bias.data(), x.data(), exact.data(), batch, in, out);
    kernels::reference::sparse_affine(p.exists(), aw.data(), ab.data(), ax.data(), terms.data(), batch, in, out);
    if (!within(by_rows(y, batch, out), exact, terms, in + 1)) return "affine";

    auto dx = unwritten<R>(kernels::padded<R>(batch) * in);
    kernels::sparse_input_gradient(p.pattern, weights.data(), bdy.data(), dx.data(), batch);
    exact.assign(batch * in, 0), terms.assign(batch * in, 0);
    kernels::reference::sparse_input_gradient(p.exists(), w.data(), dy.data(), exact.data(), batch, in, out);
    kernels::reference::sparse_input_gradient(p.exists(), aw.data(), ady.data(), terms.data(), batch, in, out);
    if (!within(by_rows(dx, batch, in), exact, terms, out)) return "input gradient";

    auto dw = unwritten<R>(p.w.size());
    kernels::sparse_weight_gradient(p.pattern, bdy.data(), bx.data(), dw.data(), batch);
    exact.assign(p.w.size(), 0), terms.assign(p.w.size(), 0);
    kernels::reference::sparse_weight_gradient(p.exists(), dy.data(), x.data(), exact.data(), batch, in, out);
    kernels::reference::sparse_weight_gradient(p.exists(), ady.data(), ax.data(), terms.data(), batch, in, out);
    auto dx_too = unwritten<R>(dx.size()), dw_too = unwritten<R>(dw.size());
    kernels::sparse_gradients(p.pattern, weights.data(), bdy.data(), bx.data(), {dx_too.data()}, dw_too.data(),
                              batch);
    if (dx_too != dx || dw_too != dw) return "both gradients";
    auto dx_rows = unwritten<R>(batch * in), scratch = std::vector<R>(dx.size() + 10'000, R(7));
    kernels::sparse_gradients(p.pattern, weights.data(), bdy.data(), bx.data(), {scratch.data(), dx_rows.data()},
                              dw_too.data(), batch);
    if (dx_rows != by_rows(dx, batch, in) || dw_too != dw) return "both gradients, by rows";
    for (std::size_t j = dx.size(); j < scratch.size(); ++j)
        if (scratch[j] != 7) return "scratch";
    if (!dw.empty()) dw.back() += tampered;
    if (!within(dw, exact, terms, batch)) return "weight gradient";

    const auto got = moved<R, R>(p, [&](auto& m, const auto& reads, const auto& numbers) {
        kernels::sparse_update(p.pattern, bdy.data(), bx.data(), m.w.data(), batch, reads, numbers);
    });
    const auto should = moved<R, W>(p, [&](auto& m, const auto& reads, const auto& numbers) {
        kernels::reference::sparse_update(p.exists(), dy.data(), x.data(), m.w.data(), batch, in, out, reads, numbers);
    });
    // Beside the sum: |w|, |linear|, |velocity| <= 1 and |w - prox_center| <= 2, times factors below 1: at most 4 in 10
    // steps.
    for (W& t : terms) t += 4;
    if (!within(got.w, should.w, terms, batch + 10)) return "update";
    if (!within(got.velocity, should.velocity, terms, batch + 10)) return "velocity";
    const auto after = moved<R, R>(p, [&](auto& m, const auto& reads, const auto& numbers) {
        kernels::sparse_input_gradient(p.pattern, m.w.data(), bdy.data(), dx.data(), batch);
        kernels::sparse_backward(p.pattern, bdy.data(), bx.data(), m.w.data(), {dx_too.data()}, batch, reads, numbers);
    });
    if (dx_too != dx || after.w != got.w || after.velocity != got.velocity) return "backward";

    auto sums = unwritten<R>(out);
    kernels::block_sums(bdy.data(), sums.data(), out, kernels::padded<R>(batch));
    exact.assign(out, 0), terms.assign(out, 0);
    for (std::size_t i = 0; i < dy.size(); ++i) exact[i % out] += dy[i], terms[i % out] += ady[i];
    if (!within(sums, exact, terms, batch + 16)) return "sums";  // padding adds zeros
    return "nothing";
}

}  // namespace

TEST_CASE_TEMPLATE("every kernel set agrees with the plain loops", R, float, double) {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (Shape s : layers)
            for (const Ones kind : kinds) {
                s.batch = batches[(s.in * 5 + s.out + static_cast<std::size_t>(kind)) % batches.size()];
                CAPTURE(s.batch);
                CAPTURE(s.in);
                CAPTURE(s.out);
                CAPTURE(static_cast<int>(kind));
                CHECK(wrong<R>(Problem<R>(s, kind)) == "nothing");
            }
        for (std::size_t batch = 0; batch <= 130; ++batch) {
            CAPTURE(batch);
            CHECK(wrong<R>(Problem<R>({batch, 37, 19}, Ones::half, 64)) == "nothing");
        }
        for (const auto batch : batches) {
            CAPTURE(batch);
            CHECK(wrong<R>(Problem<R>({batch, 150, 41}, Ones::tenth, 0)) == "nothing");
        }
        // Several panels in both gradients at once, and rows made of what the last of them leaves.
        CHECK(Problem<R>({17, 300, 520}, Ones::tenth).pattern.transposed().panel < 520);
        CHECK(wrong<R>(Problem<R>({17, 300, 520}, Ones::tenth)) == "nothing");
    });
}

TEST_CASE("the density alone says how many rows go together") {
    CHECK(Problem<float>({1, 150, 41}, Ones::tenth).pattern.places().together == 1);
    CHECK(Problem<float>({1, 150, 41}, Ones::half).pattern.places().together == 3);
    CHECK(Problem<float>({1, 150, 41}, Ones::none).pattern.places().together == 1);
}
TEST_CASE("the density alone says how many blocks of examples go together in the forward pass") {
    const auto tenth = Problem<float>({1, 300, 41}, Ones::tenth).pattern;
    const auto half = Problem<float>({1, 300, 41}, Ones::half).pattern;
    CHECK_FALSE(tenth.places().in_pairs);
    CHECK(tenth.places().panel > half.places().panel);
    CHECK(half.places().in_pairs);
    CHECK(half.row_by_row().in_pairs);
    CHECK(tenth.transposed().in_pairs);
}

static void check_turns(const kernels::SparseOrder& order) {
    const std::size_t panels = (order.columns + order.panel - 1) / order.panel;
    REQUIRE(panels > 1);
    REQUIRE(order.rows > 2 * kernels::rows_in_turn);
    const auto length = [&](std::size_t list) { return order.ends[list] - (list == 0 ? 0 : order.ends[list - 1]); };
    std::size_t moved = 0;
    for (std::size_t panel = 0; panel < panels; ++panel) {
        std::vector<std::size_t> seen(order.rows);
        for (std::size_t i = 0; i < order.rows; ++i) {
            const std::size_t list = panel * order.rows + i;
            CHECK(order.row[list] / kernels::rows_in_turn == i / kernels::rows_in_turn);
            if (i % kernels::rows_in_turn > 0) CHECK(length(list - 1) <= length(list));
            ++seen[order.row[list]];
            moved += order.row[list] != i;
        }
        CHECK(seen == std::vector<std::size_t>(order.rows, 1));
    }
    CHECK(moved > order.rows);  // they were not in this order
}
TEST_CASE("every row in every panel, and of neighbours the shorter lists first") {
    check_turns(Problem<float>({1, 150, 520}, Ones::tenth).pattern.transposed());
    check_turns(Problem<float>({1, 520, 150}, Ones::tenth).pattern.row_by_row());
}

TEST_CASE_TEMPLATE("a weight that is off is seen", R, float, double) {
    for_each_kernel_set([&](auto) {
        CHECK(wrong<R>(Problem<R>({20, 37, 19}, Ones::half), R(1e-2)) == "affine");
        CHECK(wrong<R>(Problem<R>({20, 37, 19}, Ones::none), R(1e-2)) == "nothing");  // none to be off
    });
}

TEST_CASE_TEMPLATE("an example's numbers do not depend on the batch around it", R, float, double) {
    for_each_kernel_set([&](auto) {
        const Problem<R> all({130, 70, 33}, Ones::half);
        const auto through = [&](const std::vector<R>& x, std::size_t batch) {
            auto y = unwritten<R>(kernels::padded<R>(batch) * 33);
            kernels::sparse_affine(all.pattern, all.w.data(), all.bias.data(), blocked(x, batch, 70).data(), y.data(),
                                   batch);
            return by_rows(y, batch, 33);
        };
        const auto together = through(all.x, 130);
        for (const std::size_t i : {0u, 17u, 127u, 129u}) {
            const std::vector<R> one(all.x.begin() + static_cast<std::ptrdiff_t>(i * 70),
                                     all.x.begin() + static_cast<std::ptrdiff_t>(i * 70 + 70));
            const std::vector<R> mine(together.begin() + static_cast<std::ptrdiff_t>(i * 33),
                                      together.begin() + static_cast<std::ptrdiff_t>(i * 33 + 33));
            CHECK(through(one, 1) == mine);
            CHECK(mine != std::vector<R>(together.begin() + 33, together.begin() + 66));  // another's
        }
    });
}

TEST_CASE_TEMPLATE("gradient and update in one pass move the weights as one after the other", R, float, double) {
    for_each_kernel_set([&](auto) {
        for (const std::size_t batch : {16u, 100u, 200u}) {
            const Problem<R> p({batch, 45, 23}, Ones::half);
            const auto bx = blocked(p.x, batch, 45), bdy = blocked(p.dy, batch, 23);
            const kernels::UpdateNumbers<R> numbers{R(0.5), R(0), R(0), R(0)};
            auto at_once = p.w, dw = unwritten<R>(p.w.size()), later = p.w;
            kernels::sparse_update(p.pattern, bdy.data(), bx.data(), at_once.data(), batch, {}, numbers);
            kernels::sparse_weight_gradient(p.pattern, bdy.data(), bx.data(), dw.data(), batch);
            kernels::update(later.data(), dw.data(), nullptr, nullptr, nullptr, later.size(), R(1), numbers);
            CHECK(at_once == later);
            CHECK(at_once != p.w);
            // With the input gradient in the same pass, and without a prox term, whose way is another one.
            for (const R decay : {R(0), R(0.25)}) {
                const kernels::UpdateNumbers<R> decayed{R(0.5), decay, R(0), R(0)};
                auto alone = p.w, with = p.w;
                auto dx = unwritten<R>(kernels::padded<R>(batch) * 45);
                kernels::sparse_update(p.pattern, bdy.data(), bx.data(), alone.data(), batch, {}, decayed);
                kernels::sparse_backward(p.pattern, bdy.data(), bx.data(), with.data(), {dx.data()}, batch, {},
                                         decayed);
                CHECK(with == alone);
                CHECK((with == at_once) == (decay == 0));
            }
        }
    });
}

TEST_CASE("with every weight there, the sparse kernels say what the dense ones say") {
    const Problem<double> p({33, 40, 12}, Ones::all);
    auto y = unwritten<double>(kernels::padded<double>(33) * 12);
    kernels::sparse_affine(p.pattern, p.w.data(), p.bias.data(), blocked(p.x, 33, 40).data(), y.data(), 33);
    std::vector<double> dense(33 * 12);
    kernels::reference::affine(p.x.data(), p.w.data(), p.bias.data(), dense.data(), 33, 40, 12);
    const auto sparse = by_rows(y, 33, 12);
    for (std::size_t i = 0; i < dense.size(); ++i)
        CHECK(sparse[i] == doctest::Approx(dense[i]).epsilon(1e-13));  // 41 roundings of 1.1e-16
}

}  // namespace sparse_test
