// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/recipe.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include <tessera/conformance.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/tuned.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace adapter_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
template <class R, class Start = nn::LastAtZero>
nn::Network<R> adapted(Start start = {}) {
    return {Toy::width, nn::chain(nn::Linear{6}, nn::LeakyRelu{}, nn::bottleneck(3, start), nn::Linear{Toy::classes})};
}
template <class R>
using Base = nn::Dnn<Toy::width, 6, Toy::classes, R>;

static_assert(nn::output(6, nn::bottleneck(3)) == nn::Shape(6));

template <class M>
Vec<real<M>> outputs(const M& model, const Vec<real<M>>& w) {
    const auto data = toy_data();
    Vec<real<M>> z(data[0].train.size() * model.outputs());
    model.logits(w, Batch<real<M>>(*data[0].examples, data[0].train), z);
    return z;
}
}  // namespace

TEST_CASE_TEMPLATE("L-ADA-9, L-ALT-11 a fresh adapter leaves the backbone's outputs, bit for bit", R, float, double) {
    const Base<R> plain;
    const auto w = initial_parameters(plain, Key{4});
    const auto with = [&](const auto& net) { return outputs(net, nn::grafted(net, Key{9}, plain.layout(), w)); };
    CHECK(same_bits(with(adapted<R>()), outputs(plain, w)));
    CHECK_FALSE(same_bits(with(adapted<R>(nn::Near{0.1})), outputs(plain, w)));
    // W2 of size 1e-4, W1 h of size 1: the outputs of size 1 move by a few 1e-4 at most.
    const auto near = with(adapted<R>(nn::Near{1e-4}));
    CHECK_FALSE(same_bits(near, outputs(plain, w)));
    CHECK(support::distance(near, outputs(plain, w)) < 1e-3);
}

TEST_CASE("parts and first values: adapters are named as such, the layers around them stay input and head") {
    const auto net = adapted<float>();
    std::string parts;
    for (const auto& s : net.layout()) parts.append(name_of(s.part)).append(" ");
    CHECK(parts == "input input adapter adapter adapter adapter head head ");
    CHECK(select<scope::Adapter>(net.layout()).size(0) == 6 * 3 + 3 + 3 * 6 + 6);
    const auto w = initial_parameters(net, Key{3});
    const auto moved = [&](std::size_t segment) {
        const Segment s = net.layout()[segment];
        for (std::size_t j = s.offset; j < s.end(); ++j)
            if (w[j] != 0) return true;
        return false;
    };
    CHECK((moved(2) && moved(3)));         // W1 and b1
    CHECK_FALSE((moved(4) || moved(5)));  // W2 and b2
}

TEST_CASE("gradients by differences, and the fused step along them; an adapter may hold a norm and dropout") {
    CHECK(conformance::check_gradients(adapted<double>()).empty());
    CHECK(conformance::check_gradients(adapted<float>()).empty());
    const nn::Network<double> normed(
        Toy::width, nn::chain(nn::Linear{6},
                              nn::adapter(nn::chain(nn::GroupNorm{}, nn::Dropout{}, nn::Linear{6}), nn::Near{0.1}),
                              nn::Linear{Toy::classes}));
    CHECK(conformance::check_gradients(normed).empty());
    CHECK(select<scope::Norm>(normed.layout()).empty());  // a norm inside an adapter is the adapter's
}

TEST_CASE("parameter counts: of one adapter, of one of the eight of the published network, of the zoo") {
    static_assert(nn::parameters(256, nn::bottleneck(16)) == 8'464);
    static_assert(nn::parameters(256, nn::bottleneck(64)) == 264'704 / 8);
    static_assert(nn::AdaptedDnn<784, 100, 10, 32>::parameters == 79'510 + 6'532);
    CHECK(dimension(nn::AdaptedDnn<784, 100, 10, 32>{}) == 86'042);
}

TEST_CASE("the share that PerAda trains and sends, head included, is below 15 % in the zoo") {
    using Net = nn::AdaptedDnn<784, 100, 10, 32>;
    const std::size_t tuned = select<scope::Tunable>(Net::segments).size(Net::parameters);
    CHECK(tuned == 2 * 100 * 32 + 32 + 100 + 1'010);
    CHECK(static_cast<double>(tuned) < 0.15 * Net::parameters);
}

}  // namespace adapter_test
