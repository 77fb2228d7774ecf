// SPDX-License-Identifier: BSD-3-Clause
// Vision transformers (Dosovitskiy et al., ICLR 2021): norms before the sublayers, a class token, learnt positions.
// Segments have timm's names and shapes ("cls_token", "pos_embed", "patch_embed.proj.weight",
// "blocks.0.attn.qkv.weight", "norm.bias", "head.weight"), so that weights go both ways by name (io/weights.hpp). The
// embedding, each block and the head are the blocks of routing.
//
//   const Network<float> net(Shape(3, 224, 224), recipe::vit_s16(1000));
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <tessera/kernels/vector.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/joint.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/layer_norm.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/recipe.hpp>
#include <tessera/nn/scaled_dot_product.hpp>
#include <tessera/nn/sequence.hpp>

namespace tessera::nn {

// Planes as a sequence: a position for each pixel, row by row, of all channels.
struct Tokens {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        if (!s.expect(s.in[0].rank == 3,
                      "nn::Tokens: it reads planes; say the shape of the input as channels, height, width"))
            return;
        s.out = Shape(s.in[0].sizes[1] * s.in[0].sizes[2], s.in[0].sizes[0]);
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        for (std::size_t b = 0; b < p.batch; ++b)
            kernels::turn_matrix(p.x() + b * p.in().size(), p.y + b * p.in().size(), p.out().width(),
                                 p.out().positions());
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        for (std::size_t b = 0; p.dx() && b < p.batch; ++b)
            kernels::turn_matrix(p.dy + b * p.in().size(), p.dx() + b * p.in().size(), p.out().positions(),
                                 p.out().width());
    }
};

// A learnt row stands before the first position.
struct ClassToken {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        if (!s.expect(s.in[0].rank == 2, "nn::ClassToken: it reads a sequence")) return;
        s.parameter({.name = "cls_token", .shape = {1, 1, s.in[0].width(), 1}, .rank = 3, .deviation = 1e-6});
        s.out = Shape(s.in[0].positions() + 1, s.in[0].width());
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        for (std::size_t b = 0; b < p.batch; ++b) {
            std::copy_n(p.w, p.in().width(), p.y + b * p.out().size());
            std::copy_n(p.x() + b * p.in().size(), p.in().size(), p.y + b * p.out().size() + p.in().width());
        }
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const std::size_t width = p.in().width();
        if (p.dw) std::fill_n(p.dw, width, R(0));
        for (std::size_t b = 0; b < p.batch; ++b) {
            const R* dy = p.dy + b * p.out().size();
            for (std::size_t j = 0; p.dw && j < width; ++j) p.dw[j] += dy[j];
            if (p.dx()) std::copy_n(dy + width, p.in().size(), p.dx() + b * p.in().size());
        }
    }
};

namespace recipe {

struct Vit {
    std::size_t classes = 10;
    std::size_t patch = 16, width = 384, blocks = 12, heads = 6, inner = 1536;
    std::size_t rank = 0;  // of the adapters behind attention and the two linear layers; 0: none
    double dropout = 0;    // behind attention and the two linear layers

    template <class B>
    constexpr int add(B& to, int v) const {
        v = to.element(0, "", Embedded{*this}, v);
        for (std::size_t i = 0; i < blocks; ++i) {
            Name name("blocks.");
            name.append(Builder::number_of(i).view());
            v = to.element(i + 1, name.view(), Block{*this}, v);
        }
        v = to.element(blocks + 1, "norm", norm(), v);
        v = to.element(blocks + 2, Cut{0, width}, v);
        const std::size_t mark = to.mark();
        v = to.element(blocks + 3, "head", Linear{classes}, v);
        start(to, mark);
        return v;
    }

private:
    static constexpr LayerNorm norm() { return {.eps = 1e-6}; }
    // Matrices begin as N(0, 0.02), biases at 0.
    template <class B>
    static constexpr void start(B& to, std::size_t mark) {
        to.change(mark, [](Segment& s, bool of_last) {
            if (s.part != Part::adapter) Near{0.02}.first_values(s, of_last);
        });
    }

    struct Embedded {
        const Vit& net;

        template <class B>
        constexpr int add(B& to, int v) const {
            v = to.part(0, "patch_embed.proj",
                        Conv2d{.outputs = net.width, .kernel = net.patch, .stride = net.patch, .pad = 0}, v);
            v = to(ClassToken{}, to(Tokens{}, v));
            const std::size_t mark = to.mark();
            v = to(Positions{.deviation = 0.02}, v);
            to.change(mark, [](Segment& s, bool) {
                s.name = "pos_embed";
                s.shape = {1, s.shape[0], s.shape[1], 1};
                s.rank = 3;
            });
            return v;
        }
    };

    struct Block {
        const Vit& net;

        template <class B>
        constexpr int add(B& to, int v) const {
            const std::size_t mark = to.mark();
            int y = to.part(0, "norm1", norm(), v);
            y = to.part(1, "attn.qkv", Linear{3 * net.width}, y);
            y = to.part(2, "", ScaledDotProduct{net.heads}, y);
            y = to.part(3, "attn.proj", Linear{net.width}, y);
            v = to.put(Add{}, std::array{v, behind(to, 4, "adapter1", y)});
            y = to.part(6, "norm2", norm(), v);
            y = to.part(7, "mlp.fc1", Linear{net.inner}, y);
            y = to.part(8, "mlp.fc2", Linear{net.width}, to(Gelu{}, y));
            v = to.put(Add{}, std::array{v, behind(to, 9, "adapter2", y)});
            start(to, mark);
            return v;
        }

    private:
        template <class B>
        constexpr int behind(B& to, std::size_t place, std::string_view name, int y) const {
            if (net.dropout > 0) y = to.part(place, "", Dropout{net.dropout}, y);
            return net.rank > 0 ? to.part(place + 1, name, bottleneck(net.rank, Near{}), y) : y;
        }
    };
};

// ViT-S/16: pictures of 224 x 224.
constexpr Vit vit_s16(std::size_t classes, std::size_t rank = 0) { return {.classes = classes, .rank = rank}; }
// For pictures of 32 x 32: patches of 4, six blocks of 192.
constexpr Vit small_vit(std::size_t classes, std::size_t rank = 0) {
    return {.classes = classes, .patch = 4, .width = 192, .blocks = 6, .heads = 3, .inner = 384, .rank = rank};
}

}  // namespace recipe

}  // namespace tessera::nn
