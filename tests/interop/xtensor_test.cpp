// SPDX-License-Identifier: BSD-3-Clause
// Views lie where the numbers lie, have the layout's shape, and write through; and the one form of a softmax that
// xtensor computes rightly.
#include <doctest/doctest.h>

#if __has_include(<xtensor/xtensor.hpp>) || __has_include(<xtensor/containers/xtensor.hpp>)

#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/interop/xtensor.hpp>
#include <tessera/nn/loss.hpp>
#include <tessera/nn/zoo.hpp>

using namespace tessera;
using namespace tessera::interop;

namespace {
template <class R>
Vec<R> counting(std::size_t n) {
    Vec<R> x(n);
    std::iota(x.begin(), x.end(), R(0));
    return x;
}
constexpr std::array<Segment, 2> deep{Segment{.name = "kernel", .offset = 2, .shape = {2, 3, 4, 5}, .rank = 4},
                                      Segment{.name = "rest", .offset = 122, .shape = {6, 1, 1, 1}}};
}  // namespace

TEST_CASE_TEMPLATE("a named parameter is a tensor where it lies", R, float, double) {
    using Net = nn::Dnn<6, 5, 3, R>;
    auto w = counting<R>(Net::parameters);
    auto weight = as_tensor<2>(w, Net::segments, "0.weight");
    auto bias = as_tensor<1>(w, Net::segments, "2.bias");
    CHECK(weight.data() == w.data());
    CHECK(weight.shape()[0] == 5);
    CHECK(weight.shape()[1] == 6);
    CHECK(weight(1, 0) == R(6));  // row-major: [out][in]
    CHECK(bias.data() == w.data() + 50);
    CHECK(bias.size() == 3);

    weight(1, 0) = R(-1);
    bias.fill(R(9));
    xt::noalias(weight) += R(0.5);
    CHECK(w[6] == R(-0.5));
    CHECK(w[0] == R(0.5));
    CHECK(w[30] == R(30));
    CHECK(w[50] == R(9));
    CHECK(w[52] == R(9));
}

TEST_CASE("const stays const") {
    using Net = nn::Mclr<6, 3>;
    const auto w = counting<float>(Net::parameters);
    const auto weight = as_tensor<2>(w, Net::segments, "0.weight");
    CHECK(weight.data() == w.data());
    CHECK(weight(2, 5) == 17);
    auto writable = as_tensor<2>(w, Net::segments, "0.weight");
    static_assert(std::is_same_v<decltype(writable(0, 0)), const float&>);
}

TEST_CASE("a view may be kept, copied and moved about") {
    auto x = counting<double>(128);
    auto first = as_tensor<4>(x, deep, "kernel");
    auto second = first;
    auto third = std::move(first);
    second(0, 0, 0, 0) = -2;
    CHECK(x[2] == -2);
    CHECK(third.data() == x.data() + 2);
    CHECK(third(1, 2, 3, 4) == 121);
    CHECK(third.shape()[3] == 5);
}

TEST_CASE("predictions and inputs are tensors of the batch") {
    const auto pool = data::Dataset::own(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 0, 1}, 2);
    const std::vector<Index> ids{3, 1};
    const Batch<float> batch(pool.examples(), ids);
    const auto all = as_tensor<float>(pool.examples());
    CHECK(all.data() == pool.examples().rows);
    CHECK(all(3, 1) == 7);
    const auto row = as_tensor(batch, 0);
    CHECK(row.data() == batch.row(0));
    CHECK(row(0) == 6);
    const auto inputs = batch.inputs();
    CHECK(as_tensor<2>(inputs, {batch.size(), batch.width()})(1, 0) == 2);

    Vec<float> out(4);
    auto view = as_tensor<2>(out, {2, 2});
    xt::noalias(view) = 2 * as_tensor<2>(inputs, {2, 2});
    CHECK(out[0] == 12);
    CHECK(out[3] == 6);
}

TEST_CASE("what does not fit is a sentence") {
    using Net = nn::Mclr<6, 3>;
    auto w = counting<float>(Net::parameters);
    CHECK_THROWS_WITH_AS(as_tensor<2>(w, Net::segments, "head"),
                         "there is no parameter 'head'; there is 0.weight, 0.bias", ConfigError);
    CHECK_THROWS_WITH_AS(as_tensor<3>(w, Net::segments, "0.weight"), "'0.weight' has 2 dimensions, not 3", ConfigError);
    CHECK_THROWS_WITH_AS((as_tensor<2>(w, {4, 5})), "a view of 20 numbers was asked for, 21 were given", ConfigError);
    const auto pool = data::Dataset::own(std::vector<std::uint8_t>{1, 2}, {0, 1}, 2);
    CHECK_THROWS_AS(as_tensor<float>(pool.examples()), ConfigError);
}

// `e / xt::sum(e, {1}, xt::keep_dims)`, with a lazy reducer, gives .1667 .2222 .2500 | .6667 30 15.43 here and reads
// freed memory, so it is not run. These are the forms the house uses; ours is the one that is compared with nn's.
TEST_CASE_TEMPLATE("softmax: immediate reducers, by rows and by columns", R, float, double) {
    Vec<R> z{1, 2, 3, 4, 5, 6};
    xt::xtensor<R, 2> e = as_tensor<2>(z, {2, 3});
    const xt::xtensor<R, 2> shares = e / xt::sum(e, {1}, xt::keep_dims | xt::evaluation_strategy::immediate);
    for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t c = 0; c < 3; ++c)
            CHECK(shares(i, c) == doctest::Approx(z[i * 3 + c] / (i == 0 ? 6 : 15)));
    const xt::xtensor<R, 2> down = e / xt::sum(e, {0}, xt::keep_dims | xt::evaluation_strategy::immediate);
    CHECK(down(1, 2) == doctest::Approx(6.0 / 9));

    const xt::xtensor<R, 2> grown = xt::exp(e - xt::amax(e, {1}, xt::keep_dims | xt::evaluation_strategy::immediate));
    const xt::xtensor<R, 2> softmax = grown / xt::sum(grown, {1}, xt::keep_dims | xt::evaluation_strategy::immediate);
    for (std::size_t i = 0; i < 2; ++i) {
        const Out<R> row = Out<R>(z).subspan(i * 3, 3);
        nn::log_softmax(row);
        for (std::size_t c = 0; c < 3; ++c) CHECK(softmax(i, c) == doctest::Approx(std::exp(row[c])));
    }
}

#else

TEST_CASE("the bridge to xtensor") { MESSAGE("skipped: xtensor is not installed (Debian package libxtensor-dev)"); }

#endif
