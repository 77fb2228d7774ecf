// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace kernel_attention_test {

namespace {

using namespace tessera;
using namespace tessera::support;
using kernels::Head;

// q, k and v side by side in each row, as a layer has them.
template <class R>
struct Attended {
    std::vector<R> qkv, chances, context, slopes;

    Attended(std::vector<R> numbers, const Head& h)
        : qkv(std::move(numbers)), chances(h.positions * h.positions, R(7)), context(h.positions * h.width, R(7)),
          slopes(qkv.size(), R(7)) {
        const std::size_t n = h.width;
        const R *q = qkv.data(), *c = chances.data();
        kernels::attention_chances(q, q + n, chances.data(), h);
        kernels::attention_context(c, q + 2 * n, context.data(), n, h);
        const auto narrow = toy_numbers<float>(context.size(), 2);
        const std::vector<R> d(narrow.begin(), narrow.end());
        kernels::attention_back(q, q + n, q + 2 * n, c, d.data(), n, slopes.data(), slopes.data() + n,
                                slopes.data() + 2 * n, h);
    }
};
std::vector<float> numbers(const Head& h, float spread) {
    auto x = toy_numbers<float>(h.positions * h.apart, 1);
    for (float& v : x) v *= spread;
    return x;
}
double worst(const std::vector<float>& a, const std::vector<double>& b) {
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
    return most;
}

}  // namespace

TEST_CASE("a head of attention is the plain loops', in every set, causal or not") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const bool causal : {true, false})
            for (const std::size_t positions : {1u, 2u, 5u, 16u, 17u, 33u, 140u})
                for (const std::size_t width : {1u, 4u, 15u, 64u})
                    for (const float spread : {1.0f, 4.0f}) {
                        const Head h{positions, width, 3 * width, causal};
                        CAPTURE(causal);
                        CAPTURE(positions);
                        CAPTURE(width);
                        CAPTURE(spread);
                        const auto x = numbers(h, spread);
                        const Attended<float> got(x, h);
                        const Attended<double> exact(converted<double>(x), h);
                        // Scores are below width spread^2 / sqrt(width) in size and rounded by 2^-24 of that a term.
                        const double score = std::sqrt(static_cast<double>(width)) * static_cast<double>(spread * spread);
                        const double rounding = 6e-8 * (score * static_cast<double>(width) + 40);
                        CHECK(worst(got.chances, exact.chances) < rounding);
                        CHECK(worst(got.context, exact.context) < 4 * rounding * static_cast<double>(spread));
                        CHECK(worst(got.slopes, exact.slopes) <
                              40 * rounding * static_cast<double>(spread * spread) * static_cast<double>(width));
                        if (positions == 1 || spread > 1) continue;  // a steep softmax hardly tells who else was seen
                        const Head other{positions, width, 3 * width, !causal};
                        CHECK(worst(got.context, Attended<double>(converted<double>(x), other).context) > 1e-3);
                    }
    });
}

TEST_CASE("what is not seen moves no bit") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        const Head all{40, 6, 18, true}, some{23, 6, 18, true};
        auto x = numbers(all, 2);
        const Attended<float> few(std::vector<float>(x.begin(), x.begin() + 23 * 18), some), many(x, all);
        CHECK(std::equal(few.context.begin(), few.context.end(), many.context.begin()));
        x[24 * 18] += 1;
        CHECK(std::equal(few.context.begin(), few.context.end(), Attended<float>(x, all).context.begin()));
        x[12] += 1;  // v of the first position
        CHECK(!std::equal(few.context.begin(), few.context.end(), Attended<float>(x, all).context.begin()));
    });
}

}  // namespace kernel_attention_test
