// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/norm.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/norm.hpp>

#include <support/backwards_crew.hpp>
#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace kernel_norm_test {

namespace {

using namespace tessera;
using namespace tessera::support;
using kernels::NormShape;

struct Problem {
    NormShape s;
    std::size_t numbers, pairs;
};
Problem group(std::size_t examples, std::size_t channels, std::size_t positions, std::size_t groups, bool per = false) {
    return {NormShape::group(examples, channels, positions, groups, per), examples * channels * positions,
            per ? groups : channels};
}
Problem batch(std::size_t examples, std::size_t channels, std::size_t positions) {
    return {NormShape::batch(examples, channels, positions), examples * channels * positions, channels};
}
// Rows around every register and four of them; planes of few numbers; vectors, whose numbers have a pair each; one
// pair a group; a group over a batch; nothing at all.
const std::vector<Problem> problems{
    group(2, 4, 64, 2),       group(1, 6, 67, 3),      group(3, 4, 4, 2),   group(2, 3, 49, 1),
    group(2, 8, 1, 2),        group(3, 37, 1, 1),      group(2, 130, 1, 2), group(1, 5, 15, 5),
    group(2, 8, 17, 4, true), group(2, 6, 9, 3, true), group(0, 4, 9, 2),   group(4, 2, 257, 1),
    batch(5, 3, 16),          batch(4, 2, 33),         batch(7, 5, 1),      batch(2, 3, 130)};

template <class R>
struct Results {
    std::vector<R> y, saved, dx, dscale, dshift;
    explicit Results(const Problem& p)
        : y(p.numbers), saved(2 * p.s.count), dx(p.numbers), dscale(p.pairs), dshift(p.pairs) {}
    bool operator==(const Results&) const = default;
};
constexpr double eps = 1e-3;

template <class R>
struct Given {
    std::vector<R> x, dy, scale, shift;
    explicit Given(const Problem& p)
        : x(toy_numbers<R>(p.numbers, 1)),
          dy(toy_numbers<R>(p.numbers, 2)),
          scale(toy_numbers<R>(p.pairs, 3)),
          shift(toy_numbers<R>(p.pairs, 4)) {
        for (R& v : x) v += R(0.5);
    }
};
template <class R>
Results<R> kernel(const Problem& p, const Given<R>& g, kernels::NormOptions o) {
    Results<R> r(p);
    for (std::size_t i = 0; i < p.s.count; ++i) r.saved[2 * i] = R(0.25), r.saved[2 * i + 1] = R(1.5);
    const R nan = std::numeric_limits<R>::quiet_NaN();
    r.dscale.assign(p.pairs, nan), r.dshift = r.dscale;  // they are written, not added to
    kernels::norm(g.x.data(), g.scale.data(), g.shift.data(), r.y.data(), r.saved.data(), p.s, R(eps), o);
    kernels::norm_gradient(g.x.data(), g.dy.data(), g.scale.data(), g.shift.data(),
                           static_cast<const R*>(r.saved.data()), r.dx.data(), r.dscale.data(), r.dshift.data(),
                           p.pairs, p.s, o);
    return r;
}
template <class R>
Results<Wide<R>> plain(const Problem& p, const Given<R>& g, kernels::NormOptions o) {
    using W = Wide<R>;
    Results<W> r(p);
    for (std::size_t i = 0; i < p.s.count; ++i) r.saved[2 * i] = W(0.25), r.saved[2 * i + 1] = W(1.5);
    const auto x = converted<W>(g.x), dy = converted<W>(g.dy);
    const auto scale = converted<W>(g.scale), shift = converted<W>(g.shift);
    kernels::reference::norm(x.data(), scale.data(), shift.data(), r.y.data(), r.saved.data(), p.s, W(R(eps)), o.relu,
                             o.known);
    kernels::reference::norm_gradient(x.data(), dy.data(), scale.data(), shift.data(), r.saved.data(), r.dx.data(),
                                      r.dscale.data(), r.dshift.data(), p.s, o.relu, o.known);
    return r;
}
// Sums of at most 600 terms below 4 and a dozen operations on them: a few hundred roundings of numbers below 32, if all
// went one way.
template <class R>
bool near(const std::vector<R>& got, const std::vector<Wide<R>>& exact, double scale = 1) {
    for (std::size_t i = 0; i < exact.size(); ++i)
        if (!(std::abs(static_cast<double>(Wide<R>(got[i]) - exact[i])) <=
              scale * 600 * static_cast<double>(std::numeric_limits<R>::epsilon())))
            return false;
    return got.size() == exact.size();
}
template <class R>
std::string wrong(const Problem& p, const Given<R>& g, kernels::NormOptions o, R tampered = 0) {
    const auto exact = plain<R>(p, g, o);
    Given<R> given = g;
    if (!given.x.empty()) given.x[0] += tampered;
    const auto got = kernel<R>(p, given, o);
    if (!near<R>(got.y, exact.y)) return "forward";
    if (!near<R>(got.dscale, exact.dscale, 4) || !near<R>(got.dshift, exact.dshift)) return "parameters";
    if (!near<R>(got.dx, exact.dx, 4)) return "backward";
    return "nothing";
}

}  // namespace

TEST_CASE_TEMPLATE("norms of every kernel set agree with the plain loops", R, float, double) {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (std::size_t i = 0; i < problems.size(); ++i)
            for (const bool relu : {false, true})
                for (const bool known : {false, true}) {
                    CAPTURE(i);
                    CAPTURE(relu);
                    CAPTURE(known);
                    CHECK(wrong<R>(problems[i], Given<R>(problems[i]), {relu, known}) == "nothing");
                }
        CHECK(wrong<R>(problems[1], Given<R>(problems[1]), {}, R(0.1)) == "forward");
        CHECK(wrong<R>(problems[15], Given<R>(problems[15]), {.known = true}, R(0.1)) == "forward");
    });
}

TEST_CASE_TEMPLATE("norms: bits do not depend on the size of the crew, nor on what else is wanted", R, float, double) {
    for_each_kernel_set([&](auto) {
        for (const Problem& p : {group(9, 64, 256, 16), batch(9, 64, 256)}) {
            const Given<R> g(p);
            const auto alone = kernel<R>(p, g, {.relu = true});
            BackwardsCrew three(3), lazy(3, true);
            {
                const Crew::Use use(&three);
                CHECK(kernel<R>(p, g, {.relu = true}) == alone);
                CHECK(three.pieces == 6);
            }
            const Crew::Use use(&lazy);
            CHECK_FALSE(kernel<R>(p, g, {.relu = true}) == alone);
        }
        const Problem p = group(2, 6, 20, 3);
        const Given<R> g(p);
        const auto both = kernel<R>(p, g, {});
        Results<R> r(p);
        const R* saved = both.saved.data();
        kernels::norm_gradient<R>(g.x.data(), g.dy.data(), g.scale.data(), g.shift.data(), saved, r.dx.data(), nullptr,
                                  nullptr, p.pairs, p.s);
        kernels::norm_gradient<R>(g.x.data(), g.dy.data(), g.scale.data(), g.shift.data(), saved, nullptr,
                                  r.dscale.data(), r.dshift.data(), p.pairs, p.s);
        CHECK(r.dx == both.dx);
        CHECK(r.dscale == both.dscale);
        CHECK(r.dshift == both.dshift);
    });
}

TEST_CASE_TEMPLATE("a variance is given where it is wanted; a far mean costs nothing", R, float, double) {
    for_each_kernel_set([&](auto) {
        const Problem p = batch(4, 2, 33);
        std::vector<R> x = toy_numbers<R>(p.numbers, 1), far = x, y(x.size()), z(x.size()), saved(4), variances(2);
        const std::vector<R> one(2, R(1)), zero(2);
        for (R& v : far) v = std::round(v * 64) / 64;
        x = far;
        for (R& v : far) v += R(1024);  // exact: nine bits behind the point
        kernels::norm(x.data(), one.data(), zero.data(), y.data(), saved.data(), p.s, R(0), {}, variances.data());
        for (std::size_t c = 0; c < 2; ++c)
            CHECK(static_cast<double>(variances[c] * saved[2 * c + 1] * saved[2 * c + 1]) ==
                  doctest::Approx(1).epsilon(1e-6));
        kernels::norm(far.data(), one.data(), zero.data(), z.data(), saved.data(), p.s, R(0));
        const double unit = 1024 * static_cast<double>(std::numeric_limits<R>::epsilon());  // the mean is rounded there
        for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::abs(static_cast<double>(y[i] - z[i])) < 4 * unit);
    });
}

}  // namespace kernel_norm_test
