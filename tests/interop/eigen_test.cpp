// SPDX-License-Identifier: BSD-3-Clause
// Views lie where the numbers lie, have the layout's shape, and write through.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/interop/eigen.hpp>
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

TEST_CASE_TEMPLATE("a named parameter is a matrix where it lies", R, float, double) {
    using Net = nn::Dnn<6, 5, 3, R>;
    auto w = counting<R>(Net::parameters);
    auto weight = as_matrix(w, Net::segments, "0.weight");
    auto bias = as_matrix(w, Net::segments, "2.bias");
    CHECK(weight.data() == w.data());
    CHECK(weight.rows() == 5);
    CHECK(weight.cols() == 6);
    CHECK(weight(1, 0) == R(6));  // row-major: [out][in]
    CHECK(bias.data() == w.data() + 50);
    CHECK(bias.rows() == 3);
    CHECK(bias.cols() == 1);

    weight(1, 0) = R(-1);
    bias.setConstant(R(9));
    CHECK(w[6] == R(-1));
    CHECK(w[50] == R(9));
    CHECK(w[52] == R(9));
    CHECK(w[49] == R(49));
}

TEST_CASE("const stays const, temporaries are refused") {
    using Net = nn::Mclr<6, 3>;
    const auto w = counting<float>(Net::parameters);
    const auto weight = as_matrix(w, Net::segments, "0.weight");
    CHECK(weight.data() == w.data());
    static_assert(std::is_same_v<decltype(as_matrix(w, 3, 7)), MatrixView<const float>>);
    static_assert(std::is_same_v<decltype(as_vector(std::declval<Vec<double>&>())), VectorView<double>>);
    static_assert(std::is_same_v<decltype(as_vector(std::declval<In<float>>())), VectorView<const float>>);
    static_assert(!Numbers<Vec<float>>);
    static_assert(!Numbers<std::vector<int>&>);
}

TEST_CASE("a tensor of four dimensions is rows by all the rest") {
    auto x = counting<double>(128);
    auto kernel = as_matrix(x, deep, "kernel");
    CHECK(kernel.rows() == 2);
    CHECK(kernel.cols() == 60);
    CHECK(kernel(1, 0) == 62);
    CHECK(as_matrix(x, deep, "rest").data() == x.data() + 122);
}

TEST_CASE("predictions and inputs are matrices of the batch") {
    const auto pool = data::Dataset::own(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 0, 1}, 2);
    const std::vector<Index> ids{3, 1};
    const Batch<float> batch(pool.examples(), ids);
    const auto all = as_matrix<float>(pool.examples());
    CHECK(all.data() == pool.examples().rows);
    CHECK(all.rows() == 4);
    CHECK(all(3, 1) == 7);
    const auto row = as_vector(batch, 0);
    CHECK(row.data() == batch.row(0));
    CHECK(row.size() == 2);
    CHECK(row(0) == 6);

    const auto inputs = batch.inputs();
    CHECK(as_matrix(inputs, batch.size(), batch.width())(1, 0) == 2);

    Vec<float> out(2 * 3);
    auto logits = as_matrix(out, 2, 3);
    const Matrix<float> weight = Matrix<float>::Ones(3, 2);
    logits.noalias() = as_matrix(inputs, 2, 2) * weight.transpose();  // a product writes straight into `out`
    CHECK(out[0] == 13);
    CHECK(out[5] == 5);
}

TEST_CASE("what does not fit is a sentence") {
    using Net = nn::Mclr<6, 3>;
    auto w = counting<float>(Net::parameters), tail = counting<float>(20);
    CHECK_THROWS_WITH_AS(as_matrix(w, Net::segments, "1.weight"),
                         "there is no parameter '1.weight'; there is 0.weight, 0.bias", ConfigError);
    CHECK_THROWS_WITH_AS(as_matrix(tail, Net::segments, "0.bias"),
                         "'0.bias' ends at 21, but only 20 numbers were given", ConfigError);
    CHECK_THROWS_WITH_AS(as_matrix(w, 4, 5), "a view of 20 numbers was asked for, 21 were given", ConfigError);
    const auto pool = data::Dataset::own(std::vector<std::uint8_t>{1, 2}, {0, 1}, 2);
    CHECK_THROWS_WITH_AS(as_matrix<float>(pool.examples()),
                         "the examples are not stored as these numbers; Batch::inputs() converts them", ConfigError);
    const std::vector<Index> ids{0};
    CHECK_THROWS_AS(as_vector(Batch<double>(pool.examples(), ids), 0), ConfigError);
}
