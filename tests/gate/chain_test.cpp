// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/gate/chain.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <support/finite_differences.hpp>
#include <support/toy_numbers.hpp>

namespace chain_test {

using namespace tessera;
using support::first_ids;
using support::toy_numbers;

namespace {

constexpr std::size_t rows = 7, width = 5;
constexpr Routes routes{width, 3};
using Small = gate::Chain<6, 4>;

template <class R>
struct Asked {
    std::vector<R> q0, saved;
};
template <class G, class R>
Asked<R> ask(const G& gate, const Routes& where, const std::vector<R>& psi, const Batch<R>& b) {
    Asked<R> got{std::vector<R>(b.size() * where.blocks), std::vector<R>(b.size() * gate.saved(where))};
    gate(where, In<R>(psi), b, Out<R>(got.q0), Out<R>(got.saved));
    return got;
}
template <class G>
std::size_t size_of(const G& gate, const Routes& where) {
    return dimension(Layout(gate.segments(where)));
}

}  // namespace

TEST_CASE("the routers of the paper have its numbers of parameters") {
    CHECK(size_of(gate::Chain<350, 150, 50>{}, {784, 4}) == 336'158);
    CHECK(size_of(gate::Chain<1000, 750, 350, 150, 50>{.dropout = 0, .relu = false}, {3072, 6}) == 4'151'512);
    CHECK(size_of(gate::Chain<>{}, {784, 1}) == 2 * 784 + 2);
    for (const auto& s : Small{}.segments(routes)) CHECK(s.part == Part::router);
    CHECK(check_gate<Small, float>());
}

TEST_CASE("q0 by hand: the exit reads before the ReLU, output 0 is the global branch") {
    // One number in, one hidden unit, two blocks: W = -2, b = 1, exit (3, 0.5; 1, 0), end (-1, 2; 0.25, 0).
    const std::vector<double> psi{-2, 1, 3, 0.5, 1, 0, -1, 2, 0.25, 0};
    const auto data = data::Dataset::own(std::vector<double>{2, -1}, std::vector<std::int32_t>{0, 0}, 1);
    const auto ids = first_ids(2);
    const Batch<double> b(data.examples(), ids);
    const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
    const double pre[]{-3, 3};
    for (const bool relu : {false, true}) {
        const auto got = ask(gate::Chain<1>{.dropout = 0, .relu = relu}, {1, 2}, psi, b).q0;
        for (std::size_t i = 0; i < 2; ++i) {
            const double act = std::max(pre[i], 0.0), read = relu ? act : pre[i];
            CHECK(std::fabs(got[2 * i] - sigmoid((3 * read + 1) - (0.5 * read))) < 1e-15);
            CHECK(std::fabs(got[2 * i + 1] - sigmoid((-act + 0.25) - (2 * act))) < 1e-15);
        }
    }
}

TEST_CASE("the gradient with respect to psi is that of differences, with and without dropout") {
    const auto data = support::toy_dataset<double>(rows, width, 2);
    const auto ids = first_ids(rows);
    const Key draw{3};
    for (const bool relu : {false, true})
        for (const double dropout : {0.0, 0.3}) {
            const Small gate{.dropout = dropout, .relu = relu};
            const Batch<double> b(data.examples(), ids, {}, &draw);
            const auto psi = toy_numbers<double>(size_of(gate, routes), 4), dq0 = toy_numbers<double>(rows * 3, 5);
            const auto sum = [&](const std::vector<double>& at) {
                const auto q0 = ask(gate, routes, at, b).q0;
                double total = 0;
                for (std::size_t k = 0; k < q0.size(); ++k) total += dq0[k] * q0[k];
                return total;
            };
            std::vector<double> dpsi(psi.size(), 9.0);
            const auto [q0, saved] = ask(gate, routes, psi, b);
            gate.pull_back(routes, In<double>(psi), b, In<double>(q0), In<double>(saved), In<double>(dq0),
                           Out<double>(dpsi));
            const auto expected = support::finite_differences(sum, psi);
            CHECK(support::relative_error(dpsi, expected) < 1e-6);  // see finite_differences.hpp
        }
}

TEST_CASE("dropout acts in training batches only, drawn by the batch and by nothing else (D-FLOW-8)") {
    const auto data = support::toy_dataset<float>(rows, width, 2);
    const auto ids = first_ids(rows);
    const auto psi = toy_numbers<float>(size_of(Small{}, routes), 4);
    const Key draw{3}, another{4};
    const Batch<float> still(data.examples(), ids), trained(data.examples(), ids, {}, &draw),
        again(data.examples(), ids, {}, &another);
    const auto plain = ask(Small{}, routes, psi, still).q0;
    CHECK(plain == ask(Small{.dropout = 0}, routes, psi, still).q0);
    CHECK(ask(Small{}, routes, psi, trained).q0 != plain);
    CHECK(ask(Small{}, routes, psi, trained).q0 == ask(Small{}, routes, psi, trained).q0);
    CHECK(ask(Small{}, routes, psi, trained).q0 != ask(Small{}, routes, psi, again).q0);
    CHECK(ask(Small{.dropout = 0}, routes, psi, trained).q0 == plain);
}

TEST_CASE("L-FLOW-11 equal examples get equal q0; permuting a batch permutes q0") {
    const auto data = support::toy_dataset<float>(rows, width, 2);
    const std::vector<Index> ids{0, 1, 2, 3, 4, 5, 6}, mixed{6, 0, 2, 2, 5, 1, 3};
    const auto psi = toy_numbers<float>(size_of(Small{}, routes), 4);
    const auto q0 = ask(Small{}, routes, psi, Batch<float>(data.examples(), ids)).q0;
    const auto moved = ask(Small{}, routes, psi, Batch<float>(data.examples(), mixed)).q0;
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < 3; ++j) CHECK(moved[3 * i + j] == q0[3 * mixed[i] + j]);
    CHECK(moved[3 * 2] == moved[3 * 3]);
    CHECK(moved[0] != moved[3]);
}

TEST_CASE("bytes are read as the numbers they stand for") {
    std::vector<std::uint8_t> pixels(rows * width);
    std::vector<float> numbers(pixels.size());
    for (std::size_t k = 0; k < pixels.size(); ++k) {
        pixels[k] = static_cast<std::uint8_t>(53 * k % 256);
        numbers[k] = (static_cast<float>(pixels[k]) - 128) * 0.0625f;
    }
    const Examples bytes{.size = rows, .width = width, .storage = Storage::bytes, .rows = pixels.data(), .shift = 128,
                         .scale = 0.0625f};
    Examples floats = bytes;
    floats.storage = Storage::float32;
    floats.rows = numbers.data();
    const auto ids = first_ids(rows);
    const auto psi = toy_numbers<float>(size_of(Small{}, routes), 4);
    const auto one = ask(Small{}, routes, psi, Batch<float>(bytes, ids)).q0;
    const auto other = ask(Small{}, routes, psi, Batch<float>(floats, ids)).q0;
    for (std::size_t k = 0; k < one.size(); ++k)
        CHECK(std::fabs(one[k] - other[k]) < 1e-5f);  // tiles add up in another order
}

TEST_CASE("a chain that does not fit the model, or drops everything, is refused") {
    CHECK_THROWS_WITH_AS(Small{}.segments({width, 4}),
                         "a router with 2 hidden widths serves 3 blocks, the model has 4; give it one width less than "
                         "there are blocks",
                         ConfigError);
    CHECK_THROWS_AS(Small{.dropout = 1}.validate(), ConfigError);
    CHECK_THROWS_AS((gate::Chain<6, 0>{}.segments(routes)), ConfigError);
}

}  // namespace chain_test
