// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/resnet_zoo.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/tuned.hpp>

#include <support/bits.hpp>
#include <support/toy_numbers.hpp>

namespace resnet_zoo_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using recipe::Beside3x3, recipe::ResNet, recipe::Stem;

const conformance::Complaints none;
constexpr Shape cifar(3, 32, 32), imagenet(3, 224, 224), emnist(1, 28, 28);

// Numbers in segments of these parts; with none, in all but buffers.
std::size_t numbers(Shape in, const ResNet& net, std::initializer_list<Part> parts = {}) {
    const Network<float> model(in, net);
    std::size_t n = 0;
    for (const auto& s : model.layout())
        if (parts.size() == 0 ? s.part != Part::buffer : std::ranges::find(parts, s.part) != parts.end()) n += s.size();
    return n;
}

constexpr ResNet tiny(Beside3x3 kind, bool batch = false) {
    return {.classes = 3,
            .blocks = {1, 2, 0, 0},
            .width = 4,
            .norm = {.batch = batch, .groups = {2, 2, 2, 2}},
            .adapters = {.kind = kind, .rank = 2, .deviation = 0.3},
            .fan_out = true};
}

}  // namespace

// The papers' counts (and torchvision's, for the fourth).
static_assert(parameters(cifar, recipe::resnet18(10)) == 11'173'962);
static_assert(parameters(cifar, recipe::resnet18(100)) == 11'220'132);
static_assert(parameters(cifar, recipe::flow_resnet18(10)) == 11'176'842);

TEST_CASE("the published networks have the published parameters") {
    CHECK(numbers(cifar, recipe::flow_resnet18(100)) == 11'223'012);
    CHECK(numbers(imagenet, recipe::perada_resnet18(1000, false)) == 11'689'512);
    for (const auto& [classes, count] : {std::pair{10, 11'181'642}, {65, 11'209'857}, {5, 11'179'077}})
        CHECK(numbers(cifar, recipe::perada_resnet18(static_cast<std::size_t>(classes), false)) ==
              static_cast<std::size_t>(count));
    CHECK(numbers(imagenet, recipe::perada_resnet34(65, false)) == 21'318'017);
    CHECK(numbers(cifar, recipe::resnet34(10)) == 21'282'122);  // torchvision's 21,289,802 less 7,680 of the stem
    CHECK(numbers(emnist, recipe::fedalt_resnet18(62, false)) == 11'199'486);
    CHECK(numbers(imagenet, recipe::fedalt_resnet18(2028, false, Stem::imagenet)) == 12'216'876);
    CHECK(numbers(cifar, recipe::resnet8(10)) == 78'042);
    // Adapters; FedAlt's split of adapters and norms, PerAda's of adapters, norms and head.
    CHECK(numbers(emnist, recipe::fedalt_resnet18(62), {Part::adapter}) == 1'400'320);
    CHECK(numbers(emnist, recipe::fedalt_resnet18(62), {Part::adapter, Part::norm}) == 1'408'128);
    const auto trained = {Part::adapter, Part::norm, Part::head};
    CHECK(numbers(cifar, recipe::perada_resnet18(10), trained) == 1'413'258);
    CHECK(numbers(cifar, recipe::perada_resnet18(65), trained) == 1'441'473);
    CHECK(numbers(imagenet, recipe::perada_resnet34(65), {Part::adapter}) == 2'530'048);
    CHECK(numbers(imagenet, recipe::perada_resnet34(65), trained) == 2'578'625);
    // FedAlt's first layer: its convolution here, its norm by name.
    CHECK(numbers(imagenet, recipe::fedalt_resnet18(2028, false, Stem::imagenet), {Part::input}) == 9'536 - 128);
}

TEST_CASE("segments have torchvision's names and order") {
    const Network<float> net(Shape(3, 16, 16), tiny(Beside3x3::serial, true));
    std::vector<std::string> names;
    for (const auto& s : net.layout()) names.emplace_back(s.name.view());
    const std::vector<std::string> first{"conv1.weight",
                                         "bn1.weight",
                                         "bn1.bias",
                                         "bn1.running_mean",
                                         "bn1.running_var",
                                         "layer1.0.conv1.weight",
                                         "layer1.0.adapter1.norm.weight"};
    CHECK(std::vector<std::string>(names.begin(), names.begin() + 7) == first);
    for (const char* name : {"layer1.0.adapter2.conv.weight", "layer2.0.downsample.0.weight",
                             "layer2.1.bn2.running_var", "layer2.0.downsample.1.running_mean", "fc.weight", "fc.bias"})
        CHECK(std::ranges::find(names, name) != names.end());
    CHECK(std::ranges::find(names, "layer1.0.downsample.0.weight") == names.end());  // its shape does not change
}

TEST_CASE("gradients by differences, with each kind of adapter, norm and stem") {
    for (const auto kind : {Beside3x3::nothing, Beside3x3::serial, Beside3x3::parallel, Beside3x3::bottleneck})
        CHECK(conformance::check_gradients(Network<double>(Shape(2, 6, 5), tiny(kind))) == none);
    CHECK(conformance::check_gradients(Network<double>(Shape(2, 6, 5), tiny(Beside3x3::serial, true))) == none);
    ResNet flow = tiny(Beside3x3::nothing);
    flow.stem = Stem::imagenet;
    flow.norm = {.each = 2, .affine = Affine::group, .last_at_zero = true};
    CHECK(conformance::check_gradients(Network<double>(Shape(3, 12, 12), flow)) == none);
    CHECK(conformance::layer(OverlappingMaxPool2d{}, Shape(2, 6, 7)) == none);
    // Clipped sums are those of single gradients, a fused step is two passes, masked is zero-filled.
    CHECK(conformance::layer(tiny(Beside3x3::serial), Shape(2, 6, 5)) == none);
    CHECK(conformance::layer(OverlappingMaxPool2d{.kernel = 3, .stride = 1, .pad = 0}, Shape(1, 5, 4)) == none);
    CHECK_THROWS_WITH_AS(Network<double>(Shape(1, 4, 4), OverlappingMaxPool2d{.kernel = 2, .stride = 2, .pad = 2}),
                         doctest::Contains("half a window"), ConfigError);
}

TEST_CASE("overlapping windows, by hand") {
    const Network<double> net(Shape(1, 3, 4), OverlappingMaxPool2d{});
    const auto pool = data::Dataset::own(std::vector<double>{1, 2, 3, -4, 5, -6, 7, 8, -9, 10, -11, 12},
                                         std::vector<std::int32_t>{0}, 4);
    const std::vector<Index> ids{0};
    Vec<double> z(4);
    net.logits({}, Batch<double>(pool.examples(), ids), z);
    CHECK(z == Vec<double>{5, 8, 10, 12});
}

TEST_CASE("a fresh adapter nearly leaves a network as it is, and a block whose last norm is 0 is its skip") {
    ResNet plain = tiny(Beside3x3::nothing), with = tiny(Beside3x3::serial);
    with.adapters.deviation = 1e-4;
    const Network<float> a(Shape(3, 8, 8), plain), b(Shape(3, 8, 8), with);
    const auto data = support::toy_dataset<float>(4, 192, 3);
    const auto ids = support::first_ids(4);
    const Batch<float> batch(data.examples(), ids);
    const auto w = initial_parameters(a, Key{4}), more = grafted(b, Key{5}, a.layout(), w);
    Vec<float> x(12), y(12);
    a.logits(w, batch, x);
    b.logits(more, batch, y);
    CHECK_FALSE(support::same_bits(x, y));
    CHECK(support::distance(x, y) < 1e-2);  // ten adapters of 1e-4 times the root of at most 8 channels
    plain.norm.last_at_zero = true;
    const Network<float> idle(Shape(3, 8, 8), plain);
    auto v = initial_parameters(idle, Key{4});
    const auto logits = [&] {
        idle.logits(v, batch, x);
        return x;
    };
    const auto before = logits();
    for (const auto& s : idle.layout())
        if (s.name.view() == "layer1.0.conv2.weight") v[s.offset] += 1;
    CHECK(support::same_bits(logits(), before));
    for (const auto& s : idle.layout())
        if (s.name.view() == "conv1.weight") v[s.offset] += 1;
    CHECK_FALSE(support::same_bits(logits(), before));
}

TEST_CASE("blocks of routing are the stem, the stages and the head; memory stays small") {
    CHECK(Network<float>(cifar, recipe::flow_resnet18(10)).routes(MixAt::layer).blocks == 6);
    CHECK(Network<float>(cifar, recipe::resnet8(10)).routes(MixAt::layer).blocks == 5);
    for (const auto& net : {recipe::resnet18(10), recipe::flow_resnet18(10), recipe::resnet18(10, 8)})
        CHECK(Network<float>(cifar, net).room(32) * sizeof(float) <= std::size_t{200} << 20);
}

}  // namespace resnet_zoo_test
