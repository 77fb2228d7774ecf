// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/conv_blocked.hpp>
#include <tessera/kernels/conv_thin.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/conv.hpp>

#include <support/backwards_crew.hpp>
#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace conv_blocked_test {

namespace {

using namespace tessera;
using namespace tessera::support;

struct Problem {
    kernels::ConvShape s;
    std::size_t batch, out;

    std::size_t weights() const { return out * s.taps(); }
    std::size_t images() const { return batch * s.image(); }
    std::size_t planes() const { return batch * out * s.pixels(); }
};
// Channels and outputs around registers, panels and chunks; kernels of 1 to 5, both strides, margins; planes of which
// the last row or column is read by no tap; rows of outputs shorter and longer than a tile; no image, several blocks.
const std::vector<Problem> problems{
    {{32, 6, 6, 3, 2, 1}, 2, 32},  {{1, 1, 1, 1, 1, 0}, 1, 1},   {{3, 7, 5, 3, 2, 1}, 2, 5},
    {{33, 5, 6, 1, 2, 0}, 2, 17},  {{16, 9, 9, 5, 1, 0}, 2, 20}, {{40, 4, 4, 1, 1, 0}, 3, 70},
    {{8, 6, 20, 5, 1, 2}, 1, 9},   {{5, 8, 8, 4, 2, 1}, 2, 33},  {{4, 7, 7, 2, 2, 0}, 2, 3},
    {{65, 3, 3, 3, 1, 2}, 1, 34},  {{2, 5, 40, 3, 1, 1}, 2, 8},  {{6, 9, 6, 5, 2, 2}, 2, 7},
    {{3, 12, 20, 5, 1, 0}, 3, 32}, {{1, 9, 31, 5, 1, 2}, 2, 40}, {{3, 6, 5, 3, 1, 1}, 4, 7},
    {{1, 4, 4, 1, 1, 0}, 0, 3},    {{32, 4, 4, 3, 2, 1}, 0, 32}, {{64, 20, 20, 3, 2, 1}, 7, 64},
    {{2, 6, 6, 1, 2, 0}, 2, 2}};

struct Numbers {
    std::vector<float> y, dw, dx;
    bool operator==(const Numbers&) const = default;
};
struct Given {
    std::vector<float> x, w, dy;
    explicit Given(const Problem& p)
        : x(toy_numbers<float>(p.images(), 1)),
          w(toy_numbers<float>(p.weights() + p.out, 2)),
          dy(toy_numbers<float>(p.planes(), 3)) {}
};
Numbers blocked(const Problem& p, const Given& g) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Numbers n{std::vector<float>(p.planes(), nan), std::vector<float>(p.weights() + p.out, nan),
              std::vector<float>(p.images(), nan)};
    kernels::blocked_conv(g.x.data(), g.w.data(), g.w.data() + p.weights(), n.y.data(), p.batch, p.s, p.out);
    kernels::blocked_weight_gradient(g.dy.data(), g.x.data(), n.dw.data(), n.dw.data() + p.weights(), p.batch, p.s,
                                     p.out);
    if (p.s.stride == 1 && (p.s.channels == 1 || p.s.channels == 3)) {
        kernels::thin_conv(g.x.data(), g.w.data(), g.w.data() + p.weights(), n.y.data(), p.batch, p.s, p.out);
        kernels::thin_weight_gradient(g.dy.data(), g.x.data(), n.dw.data(), n.dw.data() + p.weights(), p.batch, p.s,
                                      p.out);
    }
    kernels::blocked_input_gradient(g.dy.data(), g.w.data(), n.dx.data(), p.batch, p.s, p.out);
    return n;
}
struct Exact {
    std::vector<double> y, dw, dx;
    Exact(const Problem& p, const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& dy)
        : y(p.planes()), dw(p.weights() + p.out), dx(p.images()) {
        kernels::reference::conv(x.data(), w.data(), w.data() + p.weights(), y.data(), p.batch, p.s, p.out);
        kernels::reference::conv_weight_gradient(dy.data(), x.data(), dw.data(), p.batch, p.s, p.out);
        kernels::reference::conv_input_gradient(dy.data(), w.data(), dx.data(), p.batch, p.s, p.out);
    }
};
std::string wrong(const Problem& p, float tampered = 0) {
    Given g(p);
    const auto x = converted<double>(g.x), w = converted<double>(g.w), dy = converted<double>(g.dy);
    const Exact exact(p, x, w, dy), terms(p, magnitudes(x), magnitudes(w), magnitudes(dy));
    g.w[0] += tampered;
    const Numbers got = blocked(p, g);
    if (!within(got.y, exact.y, terms.y, p.s.taps() + 1)) return "forward";
    if (!within(got.dw, exact.dw, terms.dw, p.batch * (p.s.pixels() + 1))) return "weight gradient";
    if (!within(got.dx, exact.dx, terms.dx, p.out * p.s.kernel * p.s.kernel)) return "input gradient";
    return "nothing";
}

}  // namespace

TEST_CASE("blocks of every kernel set agree with the plain loops") {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (std::size_t i = 0; i < problems.size(); ++i) {
            CAPTURE(i);
            CHECK(wrong(problems[i]) == "nothing");
        }
        CHECK(wrong(problems[0], 1e-2f) == "forward");
    });
}

TEST_CASE("blocks: an image's numbers do not depend on the batch around it, nor any on the crew") {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (const Problem& p : {Problem{{64, 16, 16, 3, 2, 1}, 5, 64}, Problem{{3, 32, 32, 5, 1, 0}, 5, 64}}) {
            const Given g(p);
            const Numbers all = blocked(p, g);
            Problem one = p;
            one.batch = 1;
            Given last = g;
            last.x.erase(last.x.begin(), last.x.end() - static_cast<std::ptrdiff_t>(one.images()));
            last.dy.erase(last.dy.begin(), last.dy.end() - static_cast<std::ptrdiff_t>(one.planes()));
            const Numbers alone = blocked(one, last);
            const auto ends = [](const std::vector<float>& a, const std::vector<float>& b) {
                return std::equal(b.begin(), b.end(), a.end() - static_cast<std::ptrdiff_t>(b.size()));
            };
            CHECK(ends(all.y, alone.y));
            CHECK(ends(all.dx, alone.dx));
            BackwardsCrew two(2), lazy(2, true);
            {
                const Crew::Use use(&two);
                CHECK(blocked(p, g) == all);
                CHECK(two.pieces > 0);
            }
            const Crew::Use use(&lazy);
            CHECK_FALSE(blocked(p, g) == all);
        }
    });
}

}  // namespace conv_blocked_test
