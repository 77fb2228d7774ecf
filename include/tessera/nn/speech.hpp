// SPDX-License-Identifier: BSD-3-Clause
// A speech recogniser over frames of features, trained with nn/ctc.hpp: a row of scores for every fourth frame.
//
//   Windows{5, 2}    y_t = the `size` frames around frame 2 t side by side, zeros past the ends: a convolution over
//   time
//                    is Linear behind it
//   Sinusoids{}      y_t = x_t + the fixed waves of Vaswani et al. (NeurIPS 2017), section 3.5
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include <tessera/kernels/vector.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/attention.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/recipe.hpp>
#include <tessera/nn/text_zoo.hpp>

namespace tessera::nn {

struct Windows {
    std::size_t size = 5, stride = 2;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        if (!s.expect(s.in[0].rank == 2, "nn::Windows: it reads a sequence") ||
            !s.expect(size % 2 == 1 && stride > 0,
                      "nn::Windows: a window is an odd number of frames, a stride at least 1"))
            return;
        s.out = Shape((s.in[0].positions() + stride - 1) / stride, size * s.in[0].width());
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        std::fill_n(p.y, p.written(), R(0));
        each(p,
             [&](std::size_t frame, std::size_t place, std::size_t n) { std::copy_n(p.x() + frame, n, p.y + place); });
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (!p.dx()) return;
        std::fill_n(p.dx(), p.read(), R(0));
        each(p, [&](std::size_t frame, std::size_t place, std::size_t n) {
            kernels::axpy(R(1), p.dy + place, p.dx() + frame, n);
        });
    }

private:
    // f(where frames begin, where they stand in y, numbers) for each window; the frames of one lie side by side.
    template <class R, class F>
    void each(const Pass<R>& p, const F& f) const {
        const std::size_t frames = p.in().positions(), n = p.in().width(), windows = p.out().positions(),
                          half = size / 2;
        for (std::size_t e = 0; e < p.batch; ++e)
            for (std::size_t t = 0; t < windows; ++t) {
                const std::size_t middle = t * stride, first = middle > half ? middle - half : 0;
                const std::size_t last = std::min(frames, middle + half + 1), before = half - (middle - first);
                f((e * frames + first) * n, ((e * windows + t) * size + before) * n, (last - first) * n);
            }
    }
};

struct Sinusoids {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.expect(s.in[0].rank == 2, "nn::Sinusoids: it reads a sequence");
        s.out = s.in[0];
        s.in_place = true;
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const std::size_t steps = p.in().positions(), n = p.in().width();
        const Scratch<R> waves(steps * n);
        for (std::size_t t = 0; t < steps; ++t)
            for (std::size_t j = 0; j < n; ++j) {
                const double slow = std::pow(1e4, -static_cast<double>(j - j % 2) / static_cast<double>(n));
                const double angle = static_cast<double>(t) * slow;
                waves[t * n + j] = static_cast<R>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
            }
        for (std::size_t e = 0; e < p.batch; ++e)
            for (std::size_t j = 0; j < steps * n; ++j) p.y[e * steps * n + j] = p.x()[e * steps * n + j] + waves[j];
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (p.dx() && p.dx() != p.dy) std::copy_n(p.dy, p.read(), p.dx());
    }
};

namespace recipe {

// FedAlt's recogniser (Pillutla et al., ICML 2022, appendix B.1.4): two convolutions over time of stride 2, six blocks
// of a transformer that sees all frames, scores of `classes` pieces of words and a blank among them. A window of 5
// frames gives the paper's 0.8 million numbers of the convolutions.
constexpr auto speech_transformer(std::size_t classes, std::size_t rank = 0, std::size_t width = 384,
                                  std::size_t heads = 6, std::size_t inner = 1536, std::size_t blocks = 6,
                                  double dropout = 0) {
    const auto two = chain(Linear{inner}, Relu{}, Linear{width});
    return chain(Windows{5, 2}, Linear{width}, Relu{}, Windows{5, 2}, Linear{width}, Relu{}, Sinusoids{},
                 repeat(blocks, chain(Sublayer<Attention>{{heads, false}, dropout, rank},
                                      Sublayer<std::remove_const_t<decltype(two)>>{two, dropout, rank})),
                 Linear{classes});
}

}  // namespace recipe

}  // namespace tessera::nn
