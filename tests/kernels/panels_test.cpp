// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/panels.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/backend.hpp>
#include <tessera/kernels/reference/dense.hpp>

#include <support/backwards_crew.hpp>
#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace panels_test {

namespace {

using namespace tessera;
using namespace tessera::support;
using backend::Simd;

struct Problem {
    std::size_t rows, in, out;
};
// Rows around groups of six, depths around a chunk of 128, columns around registers and panels of every set.
const std::vector<Problem> problems{{1, 1, 1},     {5, 3, 17},    {6, 16, 16},  {13, 7, 19},    {7, 33, 90},
                                    {12, 128, 64}, {17, 129, 65}, {3, 300, 31}, {131, 40, 130}, {300, 9, 70}};

struct Numbers {
    std::vector<float> x, w, bias, dy;
    explicit Numbers(const Problem& p)
        : x(toy_numbers<float>(p.rows * p.in, 1)),
          w(toy_numbers<float>(p.in * p.out, 2)),
          bias(toy_numbers<float>(p.out, 3)),
          dy(toy_numbers<float>(p.rows * p.out, 4)) {}
};
// Fresh memory is a number that would show.
std::vector<float> fresh(std::size_t n) { return std::vector<float>(n, std::numeric_limits<float>::quiet_NaN()); }

struct Results {
    std::vector<float> y, dx, dw, dbias;
    Results(const Problem& p, const Numbers& n)
        : y(fresh(p.rows * p.out)), dx(fresh(p.rows * p.in)), dw(fresh(p.in * p.out)), dbias(fresh(p.out)) {
        Simd::sequence_affine(n.x.data(), n.w.data(), n.bias.data(), y.data(), p.rows, p.in, p.out);
        std::vector<float> room(p.out * kernels::widest_panel);
        kernels::panel_products(n.dy.data(), p.out, {.b = n.w.data(), .bk = p.in}, room.data(), nullptr, dx.data(),
                                p.in, p.rows, p.out, p.in);
        Simd::sequence_weight_gradient(n.dy.data(), {.b = n.x.data(), .bk = p.in}, dw.data(), dbias.data(), p.rows,
                                       p.in, p.out);
    }
    bool operator==(const Results&) const = default;
};

}  // namespace

TEST_CASE("products by panels are the plain loops', in every set") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const Problem& p : problems) {
            CAPTURE(p.rows); CAPTURE(p.in); CAPTURE(p.out);
            const Numbers n(p);
            const Results got(p, n);
            const auto x = converted<double>(n.x), w = converted<double>(n.w), b = converted<double>(n.bias),
                       dy = converted<double>(n.dy);
            std::vector<double> y(got.y.size()), dx(got.dx.size()), dw(got.dw.size()), db(got.dbias.size());
            kernels::reference::affine(x.data(), w.data(), b.data(), y.data(), p.rows, p.in, p.out);
            kernels::reference::affine_input_gradient(dy.data(), w.data(), dx.data(), p.rows, p.in, p.out);
            kernels::reference::affine_weight_gradient(dy.data(), x.data(), dw.data(), db.data(), p.rows, p.in, p.out);
            // Numbers are below 1 in size, so a sum of n terms is off by n roundings of n at most.
            const auto near = [](const std::vector<float>& a, const std::vector<double>& exact, std::size_t terms) {
                const double most = static_cast<double>(terms + 1) * 6e-8 * static_cast<double>(terms + 1);
                for (std::size_t i = 0; i < a.size(); ++i)
                    if (!(std::abs(static_cast<double>(a[i]) - exact[i]) <= most)) return false;
                return a.size() == exact.size();
            };
            CHECK(near(got.y, y, p.in));
            CHECK(near(got.dx, dx, p.out));
            CHECK(near(got.dw, dw, p.rows));
            CHECK(near(got.dbias, db, p.rows));
            auto off = got.dw;
            off.back() += 1;
            CHECK((!near(off, dw, p.rows) || p.rows > 1000));
        }
    });
}

TEST_CASE("the gradient in x has the bits of the other kernels, and a row's bits know nothing of other rows") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const Problem& p : problems) {
            CAPTURE(p.rows); CAPTURE(p.in); CAPTURE(p.out);
            const Numbers n(p);
            const Results got(p, n);
            auto dx = fresh(got.dx.size());
            kernels::affine_input_gradient(n.dy.data(), n.w.data(), dx.data(), p.rows, p.in, p.out);
            CHECK(got.dx == dx);
            for (const std::size_t row : {std::size_t{0}, p.rows / 2, p.rows - 1}) {
                auto y = fresh(p.out);
                Simd::sequence_affine(n.x.data() + row * p.in, n.w.data(), n.bias.data(), y.data(), 1, p.in, p.out);
                CHECK(std::equal(y.begin(), y.end(), got.y.begin() + static_cast<std::ptrdiff_t>(row * p.out)));
            }
        }
    });
}

TEST_CASE("a table of rows, panels packed before, an update and a crew change no bit") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const Problem& p : problems) {
            CAPTURE(p.rows); CAPTURE(p.in); CAPTURE(p.out);
            const Numbers n(p);
            const Results got(p, n);
            std::vector<const float*> table;
            for (std::size_t i = 0; i < p.rows; ++i) table.push_back(n.x.data() + i * p.in);
            auto dw = fresh(got.dw.size());
            Simd::sequence_weight_gradient(n.dy.data(), {.table = table.data()}, dw.data(), nullptr, p.rows, p.in,
                                           p.out);
            CHECK(dw == got.dw);

            const std::size_t width = kernels::widest_panel, padded = (p.out + width - 1) / width * width;
            std::vector<float> room(padded * p.in), y = fresh(got.y.size());
            kernels::pack_panels({.b = n.w.data(), .bk = 1, .bj = p.in}, p.in, p.out, room.data());
            kernels::panel_products(n.x.data(), p.in, {}, room.data(), n.bias.data(), y.data(), p.out, p.rows, p.in,
                                    p.out);
            CHECK(y == got.y);

            const float rate = 0.25f, decay = 0.5f;
            std::vector<float> moved = n.w, expected = n.w;
            moved.insert(moved.end(), n.bias.begin(), n.bias.end());
            expected.insert(expected.end(), n.bias.begin(), n.bias.end());
            const kernels::UpdateNumbers<float> numbers{rate, decay, 0, 0};
            Simd::sequence_update(n.dy.data(), {.b = n.x.data(), .bk = p.in}, moved.data(), p.rows, p.in, p.out, {},
                                  numbers);
            kernels::update(expected.data(), got.dw.data(), nullptr, nullptr, nullptr, got.dw.size(), 1.0f, numbers);
            kernels::update(expected.data() + got.dw.size(), got.dbias.data(), nullptr, nullptr, nullptr, p.out, 1.0f,
                            numbers);
            CHECK(moved == expected);
        }
        const Problem large{300, 130, 140};  // large enough that a crew is asked
        const Numbers n(large);
        const Results alone(large, n);
        for (const std::size_t size : {2u, 3u}) {
            BackwardsCrew crew(size);
            const Crew::Use use(&crew);
            CHECK(Results(large, n) == alone);
        }
    });
}

}  // namespace panels_test
