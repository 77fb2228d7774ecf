// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/vit_zoo.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/network.hpp>

namespace vit_zoo_test {

namespace {

using namespace tessera;
using namespace tessera::nn;

const conformance::Complaints none;

// ViT-S/16 is 21,665,664 without its head (PerAda, section 4).
static_assert(parameters(Shape(3, 224, 224), recipe::vit_s16(10)) == 21'665'664 + 3'850);
static_assert(parameters(Shape(3, 224, 224), recipe::vit_s16(10, 64)) == 21'669'514 + 24 * (2 * 64 * 384 + 64 + 384));
static_assert(parameters(Shape(3, 32, 32), recipe::small_vit(10)) ==
              3 * 16 * 192 + 192 + 66 * 192 + 6 * (4 * 192 + 3 * 192 * 193 + 192 * 193 + 384 * 193 + 192 * 385) +
                  2 * 192 + 1'930);

constexpr recipe::Vit tiny(std::size_t rank) {
    return {.classes = 3, .patch = 2, .width = 6, .blocks = 2, .heads = 2, .inner = 5, .rank = rank};
}

Vec<double> outputs(const Network<double>& net, const std::vector<double>& x, const Vec<double>& w = {}) {
    const auto pool = data::Dataset::own(x, std::vector<std::int32_t>(1), 2);
    const std::vector<Index> ids{0};
    Vec<double> z(net.outputs());
    net.logits(w, Batch<double>(pool.examples(), ids), z);
    return z;
}

}  // namespace

TEST_CASE("layers of vision transformers keep the law of a layer") {
    CHECK(conformance::layer(ScaledDotProduct{2}, Shape(4, 12)) == none);
    CHECK(conformance::layer(ScaledDotProduct{1, true}, Shape(3, 6)) == none);
    CHECK(conformance::layer(Tokens{}, Shape(3, 2, 4)) == none);
    CHECK(conformance::layer(ClassToken{}, Shape(3, 4)) == none);
    CHECK_THROWS_AS(Network<double>(Shape(4, 8), ScaledDotProduct{2}), ConfigError);   // 8 is no q, k and v
    CHECK_THROWS_AS(Network<double>(Shape(4, 12), ScaledDotProduct{3}), ConfigError);  // 3 heads do not divide 4
    CHECK_THROWS_AS(Network<double>(12, Tokens{}), ConfigError);
}

TEST_CASE("two positions and two heads of one number, by hand") {
    // q, k, v of a position: (q1 q2)(k1 k2)(v1 v2)
    const std::vector<double> x{1, 2, 3, 0, 5, 6, 0, -1, 1, 1, 7, 8};
    const auto soft = [](double a, double b) { return 1 / (1 + std::exp(b - a)); };
    const double first = soft(1 * 3, 1 * 1), second = soft(2 * 0, 2 * 1), third = soft(0, 0), fourth = soft(-1 * 0, -1);
    const auto mix = [](double p, double a, double b) { return p * a + (1 - p) * b; };
    const Vec<double> y{mix(first, 5, 7), mix(second, 6, 8), mix(third, 5, 7), mix(fourth, 6, 8)};
    const auto z = outputs(Network<double>(Shape(2, 6), ScaledDotProduct{2}), x);
    const auto seen = outputs(Network<double>(Shape(2, 6), ScaledDotProduct{2, true}), x);
    for (std::size_t j = 0; j < 4; ++j) CHECK(z[j] == doctest::Approx(y[j]));
    CHECK(seen[0] == 5);  // the first position reads itself alone
    CHECK(seen[1] == 6);
    CHECK(seen[2] == doctest::Approx(y[2]));
    CHECK(outputs(Network<double>(Shape(2, 1, 2), Tokens{}), {1, 2, 3, 4}) == Vec<double>{1, 3, 2, 4});
    CHECK(outputs(Network<double>(Shape(1, 2), ClassToken{}), {1, 2}, {8, 9}) == Vec<double>{8, 9, 1, 2});
}

TEST_CASE("gradients by differences, with and without adapters; names and parts") {
    CHECK(conformance::check_gradients(Network<double>(Shape(2, 4, 6), tiny(0))) == none);
    CHECK(conformance::check_gradients(Network<double>(Shape(2, 4, 6), tiny(2))) == none);
    const Network<float> net(Shape(2, 4, 6), tiny(2));
    std::string names;
    for (const auto& s : net.layout()) {
        names.append(s.name.view()).append(" ").append(name_of(s.part)).append(", ");
        if (s.name.view() == "pos_embed") CHECK((s.rank == 3 && s.shape[1] == 7 && s.deviation == 0.02));
    }
    for (const char* piece :
         {"patch_embed.proj.weight input", "cls_token body", "pos_embed body", "blocks.0.norm1.weight norm",
          "blocks.1.attn.qkv.weight body", "blocks.1.adapter1.0.weight adapter", "norm.bias norm", "head.weight head",
          "blocks.0.mlp.fc2.bias body"})
        CHECK_MESSAGE(names.find(piece) != names.npos, piece);
    CHECK(net.routes(MixAt::layer).blocks == 5);
    CHECK(net.feature_width() == 6);
}

}  // namespace vit_zoo_test
