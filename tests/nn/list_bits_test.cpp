// SPDX-License-Identifier: BSD-3-Clause
// Networks as lists of layers have the bits of the networks compiled layer by layer.
#include <tessera/nn/net.hpp>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/private.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/masked.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/ops/conv.hpp>
#include <tessera/nn/ops/norm.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/kernel_sets.hpp>
#include <support/toy_numbers.hpp>

namespace list_bits_test {

namespace {

using namespace tessera;
using namespace tessera::support;
using tessera::nn::Shape;
namespace next = tessera::nn::next;

template <class R>
bool same(const Vec<R>& a, const Vec<R>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(R)) == 0;
}

// Layers inside a block or an adapter go sparse one by one; compiled ones stayed dense.
bool nests(Layout layout) {
    bool found = false;
    for (const auto& s : layout) found = found || s.name.view().find('.') != s.name.view().rfind('.');
    return found;
}

void same_layouts(Layout a, Layout b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        CHECK(a[i].name.view() == b[i].name.view());
        CHECK(a[i].part == b[i].part);
        CHECK(a[i].offset == b[i].offset);
        CHECK(a[i].shape == b[i].shape);
        CHECK(a[i].rank == b[i].rank);
        CHECK(a[i].fan_in == b[i].fan_in);
        CHECK(a[i].value == b[i].value);
        CHECK(a[i].deviation == b[i].deviation);
    }
}

// f(model, out vector) for both models must write the same.
template <class Old, class New, class F>
bool alike(const Old& old, const New& list, std::size_t n, const F& f) {
    using R = real<Old>;
    Vec<R> a(n, R(7)), b(n, R(7));
    const double one = f(old, a), other = f(list, b);
    return one == other && same(a, b);
}

template <class R>
struct Setting {
    data::Dataset data;
    std::vector<Index> ids;
    Key draw = Key{5}(purpose::dropout);
    Setting(std::size_t width, std::size_t classes, std::size_t batch)
        : data(toy_dataset<R>(batch + 3, width, classes)), ids(first_ids(batch + 1)) {
        ids.erase(ids.begin() + 1);
    }
    Batch<R> batch(bool training) const { return Batch<R>(data.examples(), ids, {}, training ? &draw : nullptr); }
};

template <class Old, class New>
void same_steps(const Old& old, const New& list, const Batch<real<Old>>& b) {
    using R = real<Old>;
    const std::size_t d = dimension(old);
    const Vec<R> w = initial_parameters(old, Key{3});
    const auto other = toy_numbers<R>(d, 9);
    Vec<R> a = w, c = w, va(d), vc(d);
    for (int i = 0; i < 3; ++i) {
        Step<R> s{.terms = {.toward = other, .pull = 0.3}, .rate = 0.05, .decay = 1e-3, .momentum = 0.9};
        REQUIRE(old.fuses(s));
        REQUIRE(list.fuses(s));
        s.velocity = &va;
        const double one = old.step(a, b, s);
        s.velocity = &vc;
        CHECK(one == list.step(c, b, s));
        CHECK(same(a, c));
        CHECK(same(va, vc));
    }
    for (const Where& on : {select<scope::Head>(old.layout()), select<scope::Input>(old.layout())}) {
        Step<R> s{.terms = {.on = on}, .rate = 0.05};
        CHECK(alike(old, list, d, [&](const auto& net, Vec<R>& x) {
            x = w;
            return net.step(x, b, s);
        }));
    }
}

template <class Old, class New>
void same_clipped(const Old& old, const New& list, const Batch<real<Old>>& b) {
    using R = real<Old>;
    const Vec<R> w = initial_parameters(old, Key{3});
    for (const double norm : {0.05, 1e6})
        for (const Where& on : {Where{}, select<scope::Head>(old.layout())}) {
            const Clip<R> clip{.norm = norm, .on = on};
            REQUIRE(list.clips(clip));
            CHECK(alike(old, list, w.size(),
                        [&](const auto& net, Vec<R>& g) { return net.clipped_sum(w, b, clip, g); }));
        }
}

template <class Old, class New>
void same_routes(const Old& old, const New& list, const Batch<real<Old>>& b) {
    using R = real<Old>;
    const Vec<R> g = initial_parameters(old, Key{3}), l = initial_parameters(old, Key{4});
    for (const MixAt mix : {MixAt::layer, MixAt::output}) {
        const Routes routes = old.routes(mix);
        REQUIRE(list.routes(mix).blocks == routes.blocks);
        auto q0 = toy_numbers<R>(b.size() * routes.blocks, 6);
        for (R& q : q0) q = (q + 1) / 2;
        const std::size_t d = g.size(), z = b.size() * old.outputs();
        const auto run = [&](bool global, bool local, bool twice) {
            return [&, global, local, twice](const auto& net, Vec<R>& out) {
                const Out<R> all(out);
                Kept<R> kept;
                double sum = 0;
                auto share = q0;
                for (int i = 0; i <= (twice ? 1 : 0); ++i) {
                    Given<R> routing(share, routes.blocks, all.subspan(2 * d, q0.size()));
                    routing.mix = mix;
                    if (twice) routing.kept = &kept;
                    sum += net.routed_gradient(g, l, routing, b, global ? all.first(d) : Out<R>{},
                                               local ? all.subspan(d, d) : Out<R>{});
                    for (R& q : share) q = 1 - q;
                }
                return sum;
            };
        };
        const std::size_t n = 2 * d + q0.size();
        CHECK(alike(old, list, n, run(true, true, false)));
        CHECK(alike(old, list, n, run(false, true, false)));
        CHECK(alike(old, list, n, run(false, false, true)));
        CHECK(alike(old, list, n, run(true, true, true)));
        Given<R> routing(q0, routes.blocks);
        routing.mix = mix;
        const auto soft = [&](const auto& net, Vec<R>& out) { return net.routed_predict(g, l, routing, b, out), 0.0; };
        const auto hard = [&](const auto& net, Vec<R>& out) { return net.hard_predict(g, l, routing, b, out), 0.0; };
        CHECK(alike(old, list, z, soft));
        CHECK(alike(old, list, z, hard));
    }
}

template <class Old, class New>
void same_passes(const Old& old, const New& list, const Batch<real<Old>>& b) {
    using R = real<Old>;
    const std::size_t d = dimension(old), z = b.size() * old.outputs();
    const Vec<R> w = initial_parameters(old, Key{3});
    const auto dz = toy_numbers<R>(z, 8);
    CHECK(alike(old, list, d, [&](const auto& net, Vec<R>& g) { return net.gradient(w, b, g); }));
    CHECK(alike(old, list, d, [&](const auto& net, Vec<R>& g) { return net.pullback(w, b, dz, g), 0.0; }));
    CHECK(alike(old, list, z, [&](const auto& net, Vec<R>& out) { return net.predict(w, b, out), 0.0; }));
    CHECK(alike(old, list, z, [&](const auto& net, Vec<R>& out) { return net.logits(w, b, out), 0.0; }));
    REQUIRE(old.feature_width() == list.feature_width());
    CHECK(alike(old, list, b.size() * old.feature_width(),
                [&](const auto& net, Vec<R>& out) { return net.features(w, b, out), 0.0; }));
    if constexpr (AlignableModel<Old>)
        CHECK(alike(old, list, d, [&](const auto& net, Vec<R>& g) {
            const auto term = [](In<R> at, Out<R> slope) {
                double sum = 0;
                for (std::size_t j = 0; j < at.size(); ++j) {
                    sum += static_cast<double>(at[j]) / 3;
                    slope[j] += R(1) / 3;
                }
                return sum;
            };
            return net.aligned_gradient(w, b, term, g);
        }));
}

template <class Old, class New>
void same_sparse(const Old& old, const New& list, const Batch<real<Old>>& b) {
    using R = real<Old>;
    for (const double density : {0.1, 0.5, 1.0})
        for (const Arithmetic how : {Arithmetic::table, Arithmetic::sparse, Arithmetic::dense}) {
            CAPTURE(density);
            CAPTURE(static_cast<int>(how));
            Mask mask(dimension(old));
            Stream draw(Key{8});
            for (std::size_t j = 0; j < mask.size(); ++j) mask.set(j, draw.uniform() < density);
            const nn::Sparse<Old> a(old, mask, b.size(), how);
            const nn::Sparse<New, next::MaskedForm<New>> c(list, mask, b.size(), how);
            same_layouts(a.layout(), c.layout());
            CHECK(a.forward_flops() == c.forward_flops());
            const auto packed = toy_numbers<R>(mask.count(), 2), other = toy_numbers<R>(mask.count(), 4);
            CHECK(alike(a, c, packed.size(), [&](const auto& net, Vec<R>& g) { return net.gradient(packed, b, g); }));
            CHECK(alike(a, c, mask.size(), [&](const auto& net, Vec<R>& g) { return net.full_gradient(packed, b, g); }));
            CHECK(alike(a, c, b.size() * old.outputs(),
                        [&](const auto& net, Vec<R>& out) { return net.predict(packed, b, out), 0.0; }));
            for (const Where& on : {Where{}, select<scope::Head>(a.layout())}) {
                Vec<R> velocity(packed.size());
                Step<R> s{.terms = {.on = on, .toward = other, .pull = 0.3}, .rate = 0.05, .decay = 1e-3, .momentum = 0.9};
                s.velocity = &velocity;
                CHECK(a.fuses(s) == c.fuses(s));
                if (a.fuses(s))
                    CHECK(alike(a, c, packed.size(), [&](const auto& net, Vec<R>& x) {
                        std::copy(packed.begin(), packed.end(), x.begin());
                        std::fill(velocity.begin(), velocity.end(), R(0.1));
                        return net.step(x, b, s);
                    }));
            }
        }
}

template <class Old, class New>
void same_bits(const Old& old, const New& list, std::size_t batch = 7) {
    using R = real<Old>;
    same_layouts(old.layout(), list.layout());
    CHECK(same(initial_parameters(old, Key{3}), initial_parameters(list, Key{3})));
    CHECK(old.outputs() == list.outputs());
    CHECK(old.forward_flops() == list.forward_flops());
    CHECK(input_width(old) == input_width(list));
    const Setting<R> at(input_width(old), old.outputs(), batch);
    for (const bool training : {false, true}) {
        CAPTURE(training);
        const auto b = at.batch(training);
        same_passes(old, list, b);
        same_steps(old, list, b);
        if constexpr (ClippingModel<Old>) same_clipped(old, list, b);
        same_routes(old, list, b);
        if (!nests(old.layout()) && dimension(old) < 100'000) same_sparse(old, list, b);
    }
}

using next::chain;
using OldBlock = nn::Sequential<nn::Linear<6, 5>, nn::Relu, nn::Dropout>;
template <class R>
using OldNested = nn::Network<R, 4, nn::Sequential<nn::Linear<4, 6>, nn::LeakyRelu, nn::Dropout, OldBlock, nn::Linear<5, 3>>>;
constexpr auto nested = chain(next::Linear{6}, next::LeakyRelu{}, next::Dropout{},
                              chain(next::Linear{5}, next::Relu{}, next::Dropout{}), next::Linear{3});

using OldNormed =
    nn::Network<double, 5, nn::Sequential<nn::Linear<5, 6>, nn::GroupNorm<6, 2>, nn::Relu, nn::LayerNorm<6>,
                                          nn::Bottleneck<6, 2, nn::Near<std::ratio<1, 10>>>, nn::Linear<6, 3>>>;
constexpr auto normed = chain(next::Linear{6}, next::GroupNorm{2}, next::Relu{}, next::GroupNorm{1},
                              next::bottleneck(2, next::Near{0.1}), next::Linear{3});

using OldPlanes =
    nn::Network<float, 2 * 8 * 6,
                nn::Sequential<nn::Conv2d<2, 8, 6, 4, 3, 1, 1>, nn::GroupNorm<4, 2, 48>, nn::Relu, nn::MaxPool2d<4, 8, 6>,
                               nn::Dropout, nn::Conv2d<4, 4, 3, 5, 2, 2>, nn::Relu, nn::Linear<10, 3>>>;
constexpr auto planes = chain(next::Conv2d{.outputs = 4, .kernel = 3, .pad = 1}, next::GroupNorm{2}, next::Relu{},
                              next::MaxPool2d{}, next::Dropout{}, next::Conv2d{.outputs = 5, .kernel = 2, .stride = 2},
                              next::Relu{}, next::Linear{3});

constexpr auto lenet5 = chain(next::Conv2d{20, 5}, next::Relu{}, next::MaxPool2d{}, next::Conv2d{50, 5}, next::Relu{},
                              next::MaxPool2d{}, next::Linear{500}, next::Relu{}, next::Linear{10});
constexpr auto flow_cnn = chain(next::Conv2d{32, 3}, next::Relu{}, next::Conv2d{64, 3}, next::Relu{}, next::MaxPool2d{},
                                next::Dropout{0.25}, next::Linear{128}, next::Relu{}, next::Dropout{0.5}, next::Linear{62});
static_assert(next::parameters(Shape(1, 28, 28), flow_cnn) == 1'206'590);

}  // namespace

TEST_CASE("the list has the tuple's bits: linear layers") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        same_bits(nn::Mclr<5, 3, double>{}, next::Network<double>(5, chain(next::Linear{3})));
        same_bits(nn::Mclr<784, 10>{}, next::Network<float>(784, chain(next::Linear{10})), 20);
        same_bits(nn::Dnn<784, 100, 10>{},
                  next::Network<float>(784, chain(next::Linear{100}, next::LeakyRelu{}, next::Linear{10})), 20);
        same_bits(nn::AdaptedDnn<60, 20, 10, 4>{},
                  next::Network<float>(60, chain(next::Linear{20}, next::LeakyRelu{}, next::bottleneck(4), next::Linear{10})));
        same_bits(OldNested<float>{}, next::Network<float>(4, nested));
        same_bits(OldNested<double>{}, next::Network<double>(4, nested));
        same_bits(OldNormed{}, next::Network<double>(5, normed));
    });
}

TEST_CASE("the list has the tuple's bits: convolutions") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        same_bits(OldPlanes{}, next::Network<float>(Shape(2, 8, 6), planes));
    });
    same_bits(nn::LeNet5<10>{}, next::Network<float>(Shape(1, 28, 28), lenet5), 3);
    same_bits(nn::flow_cnn<62>(), next::Network<float>(Shape(1, 28, 28), flow_cnn), 2);
}

}  // namespace list_bits_test
