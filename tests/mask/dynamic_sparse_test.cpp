// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/mask/dynamic_sparse.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include <tessera/kernels/reference/select.hpp>

#include <support/sparse_nets.hpp>

namespace dynamic_sparse_test {

using namespace tessera;
using mask::Annealing;
using mask::DynamicSparse;
using mask::Grow;

namespace {

constexpr std::array<Segment, 1> six{Segment{.name = "w", .shape = {6, 1, 1, 1}}};

Mask bits(std::initializer_list<int> all) {
    Mask mask(all.size());
    std::size_t j = 0;
    for (const int bit : all) mask.set(j++, bit != 0);
    return mask;
}
// One search with a gradient that is given, in the round in which alpha is alpha_0.
template <class R>
Mask searched(const DynamicSparse& policy, Layout layout, const Vec<R>& w, Mask mask, const Vec<R>& gradient,
              Key key = Key{1}) {
    const Vec<R> values = packed(w, mask);
    const auto take = [&](Out<R> out) { std::copy(gradient.begin(), gradient.end(), out.begin()); };
    policy.next(MaskSearch<R>(layout, values, key, 0, 1000, take), mask);
    return mask;
}

struct Random {
    support::NetShape net = support::dnn_784_100_10();
    Vec<float> w, g;
    Mask mask;
    Random() : w(dimension(Layout(net.layout))), g(w.size()) {
        Stream draw(Key{8});
        for (auto& v : w) v = static_cast<float>(draw.normal());
        for (auto& v : g) v = static_cast<float>(draw.normal());
        mask = DynamicSparse{}.first(net.layout, Key{3});
    }
};

}  // namespace

TEST_CASE("V-SPA-4 prune and grow by hand") {
    const Vec<double> w{0.5, -0.1, 0.3, 0, 0, 0.2}, g{0.9, -0.4, 0.1, -0.7, 0.05, 0.6};
    CHECK(searched<double>({}, six, w, bits({1, 1, 1, 0, 0, 1}), g) == bits({1, 0, 1, 1, 0, 1}));
    // Without the gradient's say another weight grows.
    const Vec<double> other{0.9, -0.4, 0.1, -0.7, 0.65, 0.6};
    CHECK(searched<double>({}, six, w, bits({1, 1, 1, 0, 0, 1}), other) == bits({1, 0, 1, 1, 1, 0}));
}

TEST_CASE("ties go to the lower index, in pruning and in growing") {
    const Vec<double> w{1, 1, 1, 0, 0, 0}, g{0, 0, 0, 2, 2, 2};
    CHECK(searched<double>({.prune_rate = 0.3}, six, w, bits({1, 1, 1, 0, 0, 0}), g) == bits({0, 1, 1, 1, 0, 0}));
    CHECK(searched<double>({.prune_rate = 0.6}, six, w, bits({1, 1, 1, 0, 0, 0}), g) == bits({0, 0, 1, 1, 1, 0}));
    const Vec<double> dead(6, 0);  // behind a dead unit every gradient is 0
    CHECK(searched<double>({.prune_rate = 0.3}, six, w, bits({0, 1, 1, 1, 0, 0}), dead) == bits({1, 1, 1, 0, 0, 0}));
}

TEST_CASE("V-SPA-4 and L-SPA-9 the prune rate falls along a cosine") {
    const DynamicSparse paper{}, code{.annealing = Annealing::code};
    const auto near = [](double a, double b, double within) { return std::fabs(a - b) < within; };
    CHECK(paper.rate(0, 1000) == 0.5);
    CHECK(near(paper.rate(250, 1000), 0.4266376616, 5e-11));  // the digits of the vector
    CHECK(near(paper.rate(500, 1000), 0.2496069080, 5e-11));
    CHECK(paper.rate(999, 1000) == 0);
    CHECK(code.rate(0, 1000) == 0.5);
    CHECK(near(code.rate(250, 1000), 0.4267766953, 5e-11));
    CHECK(near(code.rate(500, 1000), 0.25, 1e-15));
    CHECK(near(code.rate(999, 1000), 1.2337e-6, 5e-11));
    for (std::size_t t = 1; t < 1000; ++t) CHECK(paper.rate(t, 1000) <= paper.rate(t - 1, 1000));
    CHECK(paper.rate(5000, 1000) == 0);  // a run that goes on after its planned end
    CHECK(paper.rate(0, 1) == 0.5);
}

TEST_CASE("the last round exchanges nothing in the paper's form and one weight a tensor in the code's") {
    Random at;
    const Vec<float> values = packed(at.w, at.mask);
    const auto take = [&](Out<float> out) { std::copy(at.g.begin(), at.g.end(), out.begin()); };
    const auto last = [&](Annealing annealing) {
        Mask mask = at.mask;
        DynamicSparse{.annealing = annealing}.next(MaskSearch<float>(at.net.layout, values, Key{1}, 999, 1000, take),
                                                   mask);
        return hamming(mask, at.mask);
    };
    CHECK(last(Annealing::paper) == 0);
    CHECK(last(Annealing::code) == 2);  // one lost and one gained: three of the four tensors are full
}

TEST_CASE("L-SPA-4 a search keeps the number of weights of every tensor and leaves full tensors alone") {
    Random at;
    for (const auto grow : {Grow::gradient, Grow::random}) {
        const Mask next = searched<float>({.grow = grow}, at.net.layout, at.w, at.mask, at.g);
        for (const auto& s : at.net.layout) {
            CHECK(count_in(next, range_of(s)) == count_in(at.mask, range_of(s)));
            const bool full = count_in(at.mask, range_of(s)) == s.size();
            CHECK((hamming(next, at.mask, range_of(s)) == 0) == full);
        }
    }
}

TEST_CASE("what is pruned is weaker than what stays, and what grows is stronger than what does not") {
    Random at;
    const Mask next = searched<float>({}, at.net.layout, at.w, at.mask, at.g);
    const Range tensor = range_of(at.net.at("fc1.weight"));
    float pruned = 0, kept = 1e9f, grown = 1e9f, left = 0;
    std::size_t lost = 0;
    for (std::size_t j = tensor.begin; j < tensor.end; ++j) {
        const float w = std::fabs(at.w[j]), g = std::fabs(at.g[j]);
        if (at.mask[j] && !next[j]) {
            pruned = std::max(pruned, w);
            ++lost;
        }
        if (!at.mask[j] && next[j]) grown = std::min(grown, g);
        if (!at.mask[j] && !next[j]) left = std::max(left, g);
    }
    for (std::size_t j = tensor.begin; j < tensor.end; ++j)
        if (at.mask[j] && next[j] && std::fabs(at.w[j]) > pruned) kept = std::min(kept, std::fabs(at.w[j]));
    CHECK(lost > 5000);
    CHECK(pruned < kept);
    CHECK(left <= grown);
}

TEST_CASE("a search by words is the search bit by bit with a stable sort, however many gradients are 0") {
    Random at;
    for (const bool ties : {false, true}) {
        CAPTURE(ties);
        if (ties)
            for (std::size_t j = 0; j < at.g.size(); ++j)
                if (j % 784 % 28 < 16) at.g[j] = 0;
        Mask expected = at.mask;
        for (const auto& s : at.net.layout) {
            const auto inside = [&](std::size_t j) { return j >= s.offset && j < s.end(); };
            const std::size_t active = count_in(at.mask, range_of(s)), k = (active + 1) / 2;
            if (active == s.size()) continue;
            const Mask weakest = kernels::reference::chosen<float>(
                at.w, k, true, [&](std::size_t j) { return inside(j) && at.mask[j]; });
            for (std::size_t j = s.offset; j < s.end(); ++j)
                if (weakest[j]) expected.set(j, false);
            const Mask strongest = kernels::reference::chosen<float>(
                at.g, k, false, [&](std::size_t j) { return inside(j) && !expected[j]; });
            for (std::size_t j = s.offset; j < s.end(); ++j)
                if (strongest[j]) expected.set(j, true);
        }
        const Mask next = searched<float>({}, at.net.layout, at.w, at.mask, at.g);
        CHECK(next == expected);
        CHECK(next != at.mask);
        CHECK(next.count() == at.mask.count());
    }
}

TEST_CASE("L-SPA-2 a prune rate of 0 changes nothing and takes no gradient; random growth takes none either") {
    Random at;
    const Vec<float> values = packed(at.w, at.mask);
    const auto take = [&](Out<float> out) { std::copy(at.g.begin(), at.g.end(), out.begin()); };
    const auto looks = [&](const DynamicSparse& policy) {
        const MaskSearch<float> search(at.net.layout, values, Key{1}, 0, 10, take);
        Mask mask = at.mask;
        policy.next(search, mask);
        return std::pair(search.looked(), mask == at.mask);
    };
    CHECK(looks({.prune_rate = 0}) == std::pair(false, true));
    CHECK(looks({.grow = Grow::random}) == std::pair(false, false));
    CHECK(looks({}) == std::pair(true, false));
}

TEST_CASE("random growth reads the client's stream") {
    Random at;
    const auto grown = [&](Key key) {
        return searched<float>({.grow = Grow::random}, at.net.layout, at.w, at.mask, at.g, key);
    };
    CHECK(grown(Key{1}) == grown(Key{1}));
    CHECK(grown(Key{1}) != grown(Key{2}));
}

TEST_CASE("random growth draws anew for each tensor") {
    constexpr std::size_t n = 64;
    constexpr std::array<Segment, 2> twins{Segment{.name = "a", .shape = {n, 1, 1, 1}},
                                           Segment{.name = "b", .offset = n, .shape = {n, 1, 1, 1}}};
    Mask half(2 * n);
    Vec<float> w(2 * n);
    for (std::size_t j = 0; j < 2 * n; ++j) {
        half.set(j, j % 2 == 0);
        w[j] = 1 + static_cast<float>(j % n);
    }
    const auto halves_agree = [&](const DynamicSparse& policy) {
        const auto mask = searched<float>(policy, twins, w, half, w);
        bool same = true;
        for (std::size_t j = 0; j < n; ++j) same = same && mask[j] == mask[j + n];
        return same;
    };
    CHECK(halves_agree({.grow = Grow::gradient}));
    CHECK_FALSE(halves_agree({.grow = Grow::random}));
}

TEST_CASE("wrong settings are refused") {
    CHECK_THROWS_AS(DynamicSparse{.density = 0}.validate(), ConfigError);
    CHECK_THROWS_WITH_AS(DynamicSparse{.prune_rate = 1.5}.validate(), "prune_rate must lie in [0, 1], not 1.500000",
                         ConfigError);
    CHECK_THROWS_AS(DynamicSparse{.prune_rate = -0.1}.validate(), ConfigError);
    CHECK_NOTHROW(DynamicSparse{.prune_rate = 1}.validate());
}

}  // namespace dynamic_sparse_test
