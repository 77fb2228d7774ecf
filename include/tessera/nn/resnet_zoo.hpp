// SPDX-License-Identifier: BSD-3-Clause
// Residual networks of basic blocks (He et al., CVPR 2016), for planes of any size. Segments have torchvision's names
// and order ("conv1.weight", "layer1.0.bn2.bias", "layer2.0.downsample.1.weight", "fc.weight"), whatever the norm, so
// that weights go both ways by name (io/weights.hpp). The stem, each stage and the head are the blocks of routing.
//
//   const Network<float> net(Shape(3, 32, 32), recipe::resnet18(10));
//   const Network<float> other(Shape(1, 28, 28), recipe::ResNet{.classes = 62, .blocks = {1, 1, 1}, .width = 16});
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tessera/nn/activation.hpp>
#include <tessera/nn/batch_norm.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/joint.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/overlapping_pool.hpp>
#include <tessera/nn/recipe.hpp>

namespace tessera::nn::recipe {

// A convolution of 3 x 3, for pictures of about 32 x 32, or ImageNet's of 7 x 7 and stride 2 before a max pool.
enum class Stem : std::uint8_t { small, imagenet };
constexpr std::array<std::string_view, 2> words_of(Stem) { return {"small", "imagenet"}; }

// What stands at every convolution of 3 x 3 in a block.
//   serial       y + conv1x1(dropout(norm(y))), y what the convolution gives (PerAda, FedAlt)
//   parallel     conv3x3(x) + conv1x1(x) (Rebuffi et al., CVPR 2018)
//   bottleneck   y + conv1x1(relu(conv1x1(y))) with `rank` channels between
enum class Beside3x3 : std::uint8_t { nothing, serial, parallel, bottleneck };
constexpr std::array<std::string_view, 4> words_of(Beside3x3) { return {"none", "serial", "parallel", "bottleneck"}; }

struct ResNetAdapters {
    Beside3x3 kind = Beside3x3::nothing;
    std::size_t rank = 8;     // channels of a bottleneck
    double dropout = 0;       // in serial ones; PerAda has 0.3
    double deviation = 1e-4;  // of their first weights, so that fresh ones do nearly nothing
};

// Which norms, and how many groups in the stem and each stage.
struct ResNetNorms {
    bool batch = false;  // BatchNorm, and nothing of what follows
    std::array<std::size_t, 4> groups{32, 32, 32, 32};
    std::size_t each = 0;  // channels in a group, where that is given instead
    Affine affine = Affine::channel;
    bool last_at_zero = false;  // the last norm of a block begins with scale 0, so that the block begins as its skip

    template <class B>
    constexpr int add(B& to, std::size_t place, std::string_view name, std::size_t stage, bool last, int v) const {
        const std::size_t mark = to.mark();
        v = batch ? to.part(place, name, BatchNorm{}, v)
                  : to.part(place, name, GroupNorm{.groups = groups[stage], .affine = affine, .each = each}, v);
        if (last && last_at_zero)
            to.change(mark, [](Segment& s, bool) {
                if (s.part == Part::norm) s.value = 0;  // of the shift it is 0 anyway
            });
        return v;
    }
};

struct ResNet {
    std::size_t classes = 10;
    std::array<std::size_t, 4> blocks{2, 2, 2, 2};  // of each stage; a stage of none ends the list
    std::size_t width = 64;                         // channels of the first stage, twice as many in each one behind
    Stem stem = Stem::small;
    ResNetNorms norm{};
    ResNetAdapters adapters{};
    bool fan_out = false;  // convolutions begin as N(0, 2 / (k^2 outputs)) (He et al., ICCV 2015), as torchvision's do

    template <class B>
    constexpr int add(B& to, int v) const {
        constexpr std::array<std::string_view, 4> names{"layer1", "layer2", "layer3", "layer4"};
        v = to.element(0, "", First{*this}, v);
        std::size_t at = 1, channels = width;
        for (std::size_t stage = 0; stage < 4 && blocks[stage] > 0; ++stage, channels *= 2)
            v = to.element(at++, names[stage], Layer{*this, stage, channels}, v);
        v = to.element(at++, MeanPool{}, v);
        return to.element(at, "fc", Linear{classes}, v);
    }

private:
    template <class B>
    constexpr int conv(B& to, std::size_t place, std::string_view name, std::size_t outputs, std::size_t kernel,
                       std::size_t stride, int v) const {
        const std::size_t mark = to.mark();
        v = to.part(place, name,
                    Conv2d{.outputs = outputs, .kernel = kernel, .stride = stride, .pad = kernel / 2, .bias = false},
                    v);
        if (fan_out)
            to.change(mark, [&](Segment& s, bool) {
                s.fan_in = 0;
                s.deviation = root(2.0 / static_cast<double>(kernel * kernel * outputs));
            });
        return v;
    }

    struct First {
        const ResNet& net;

        template <class B>
        constexpr int add(B& to, int v) const {
            const bool small = net.stem == Stem::small;
            v = net.conv(to, 0, "conv1", net.width, small ? 3 : 7, small ? 1 : 2, v);
            v = to(Relu{}, net.norm.add(to, 1, "bn1", 0, false, v));
            return small ? v : to(OverlappingMaxPool2d{}, v);
        }
    };

    struct Layer {
        const ResNet& net;
        std::size_t stage, channels;

        template <class B>
        constexpr int add(B& to, int v) const {
            for (std::size_t i = 0; i < net.blocks[stage]; ++i)
                v = to.element(i, Block{net, stage, channels, stage > 0 && i == 0 ? std::size_t{2} : 1}, v);
            return v;
        }
    };

    // relu(norm(conv(relu(norm(conv(x))))) + across(x)), across a convolution of 1 x 1 where the shape changes.
    struct Block {
        const ResNet& net;
        std::size_t stage, channels, stride;

        template <class B>
        constexpr int add(B& to, int v) const {
            const bool same = stride == 1 && to.shape(v).sizes[0] == channels;
            int y = adapted(to, 0, "conv1", "adapter1", stride, v);
            y = to(Relu{}, net.norm.add(to, 2, "bn1", stage, false, y));
            y = adapted(to, 3, "conv2", "adapter2", 1, y);
            y = net.norm.add(to, 5, "bn2", stage, true, y);
            const int across = same ? v : to.part(6, "downsample", Across{*this}, v);
            return to(Relu{}, to.put(Add{}, std::array{across, y}));
        }

    private:
        struct Across {
            const Block& block;

            template <class B>
            constexpr int add(B& to, int v) const {
                v = block.net.conv(to, 0, "0", block.channels, 1, block.stride, v);
                const std::size_t mark = to.mark();
                v = block.net.norm.add(to, 1, "1", block.stage, false, v);
                // FedAlt and PerAda leave these norms with what is shared or frozen.
                if (block.net.adapters.kind != Beside3x3::nothing)
                    to.change(mark, [](Segment& s, bool) {
                        if (s.part == Part::norm) s.part = Part::body;
                    });
                return v;
            }
        };
        // norm and convolution of a serial adapter
        struct Serial {
            const Block& block;

            template <class B>
            constexpr int add(B& to, int v) const {
                v = block.net.norm.add(to, 0, "norm", block.stage, false, v);
                if (block.net.adapters.dropout > 0) v = to.part(1, "", Dropout{block.net.adapters.dropout}, v);
                return to.part(2, "conv", pointwise(block.channels), v);
            }
        };

        static constexpr Conv2d pointwise(std::size_t outputs, std::size_t step = 1) {
            return {.outputs = outputs, .kernel = 1, .stride = step, .pad = 0, .bias = false};
        }
        template <class B>
        constexpr int adapted(B& to, std::size_t place, std::string_view name, std::string_view beside,
                              std::size_t step, int x) const {
            const auto& own = net.adapters;
            const int y = net.conv(to, place, name, channels, 3, step, x);
            const Near start{own.deviation};
            switch (own.kind) {
                case Beside3x3::nothing: break;
                case Beside3x3::serial: return to.part(place + 1, beside, adapter(Serial{*this}, start), y);
                case Beside3x3::bottleneck:
                    return to.part(place + 1, beside,
                                   adapter(chain(pointwise(own.rank), Relu{}, pointwise(channels)), start), y);
                case Beside3x3::parallel: {
                    const std::size_t mark = to.mark();
                    const int more = to.part(place + 1, beside, pointwise(channels, step), x);
                    to.change(mark, [&](Segment& s, bool of_last) {
                        s.part = Part::adapter;
                        start.first_values(s, of_last);
                    });
                    return to.put(Add{}, std::array{y, more});
                }
            }
            return y;
        }
    };

    static constexpr double root(double x) {  // by Newton's steps, for std::sqrt is no constant expression
        double r = 1;
        for (int i = 0; i < 60; ++i) r = (r + x / r) / 2;
        return r;
    }
};

// With 32 groups in every norm FedSpa's; `groups` divide the 64 channels of the first stage.
constexpr ResNet resnet18(std::size_t classes, std::size_t groups = 32) {
    return {.classes = classes, .norm = {.groups = {groups, groups, groups, groups}}};
}
constexpr ResNet resnet34(std::size_t classes, std::size_t groups = 32) {
    ResNet net = resnet18(classes, groups);
    net.blocks = {3, 4, 6, 3};
    return net;
}
// Three stages of one block, 16, 32 and 64 channels: for quick studies.
constexpr ResNet resnet8(std::size_t classes) {
    return {.classes = classes, .blocks = {1, 1, 1, 0}, .width = 16, .norm = {.groups = {8, 8, 8, 8}}, .fan_out = true};
}
// Flow's for CIFAR: ImageNet's stem, groups of two channels with one scale and shift each.
constexpr ResNet flow_resnet18(std::size_t classes) {
    return {.classes = classes,
            .stem = Stem::imagenet,
            .norm = {.each = 2, .affine = Affine::group, .last_at_zero = true},
            .fan_out = true};
}
// FedAlt's for EMNIST, and with ImageNet's stem for landmarks.
constexpr ResNet fedalt_resnet18(std::size_t classes, bool adapted = true, Stem stem = Stem::small) {
    return {.classes = classes,
            .stem = stem,
            .norm = {.groups = {8, 8, 16, 32}},
            .adapters = {.kind = adapted ? Beside3x3::serial : Beside3x3::nothing},
            .fan_out = true};
}
// PerAda's: torchvision's ResNet-18 or -34 with batch norms, and adapters with dropout.
constexpr ResNet perada_resnet18(std::size_t classes, bool adapted = true) {
    return {.classes = classes,
            .stem = Stem::imagenet,
            .norm = {.batch = true},
            .adapters = {.kind = adapted ? Beside3x3::serial : Beside3x3::nothing, .dropout = 0.3},
            .fan_out = true};
}
constexpr ResNet perada_resnet34(std::size_t classes, bool adapted = true) {
    ResNet net = perada_resnet18(classes, adapted);
    net.blocks = {3, 4, 6, 3};
    return net;
}

}  // namespace tessera::nn::recipe
