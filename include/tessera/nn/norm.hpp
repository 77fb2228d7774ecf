// SPDX-License-Identifier: BSD-3-Clause
// Normalisation over groups of channels (Wu and He, ECCV 2018), example by example, so there are no buffers.
//
//   y_c = scale_c (x_c - mean) / sqrt(variance + eps) + shift_c      mean and variance (divided by n) over the group
//
// An example is `channels` rows of numbers: planes have theirs, each number of a vector is a channel. One group over a
// vector, or over each position of a sequence, is layer normalisation. Groups may share one scale and shift
// (`Affine::group`; the ResNet of Flow has groups of two channels with one pair each).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tessera/kernels/norm.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

// Who has a scale and a shift: every channel, every group, or nobody (1 and 0).
enum class Affine : std::uint8_t { channel, group, none };
constexpr std::array<std::string_view, 3> words_of(Affine) { return {"channel", "group", "none"}; }

struct GroupNorm {
    std::size_t groups = 1;
    double eps = 1e-5;                 // added to the variance
    Affine affine = Affine::channel;
    std::size_t each = 0;              // channels in a group, where that is known and not their number; 0: `groups`

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const std::size_t channels = channels_of(s.in[0]);
        if (!s.expect(each > 0 ? channels % each == 0 : groups > 0 && channels % groups == 0,
                      "nn::GroupNorm: the groups must divide the channels"))
            return;
        if (const std::size_t n = pairs(channels); n > 0) {
            s.parameter({.name = "weight", .part = Part::norm, .shape = {n, 1, 1, 1}, .value = 1});
            s.parameter({.name = "bias", .part = Part::norm, .shape = {n, 1, 1, 1}});
        }
        s.out = s.in[0];
        s.save(2 * groups_of(channels) * s.in[0].positions());  // mean and 1/sqrt(variance + eps)
        s.backward_reads = Reads::x;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const Pairs<R> at(p);
        kernels::norm(p.x(), at.scale, at.shift, p.y, p.saved(0), shape(p), R(eps));
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const Pairs<R> at(p);
        const std::size_t n = pairs(channels_of(p.in()));
        R* const dw = n > 0 ? p.dw : nullptr;
        if (dw || p.dx())
            kernels::norm_gradient(p.x(), p.dy, at.scale, at.shift, static_cast<const R*>(p.saved(0)), p.dx(), dw,
                                   dw ? dw + n : nullptr, n, shape(p));
    }

private:
    static constexpr std::size_t channels_of(const Shape& in) { return in.rank == 2 ? in.sizes[1] : in.sizes[0]; }
    constexpr std::size_t groups_of(std::size_t channels) const { return each > 0 ? channels / each : groups; }
    constexpr std::size_t pairs(std::size_t channels) const {
        return affine == Affine::channel ? channels : affine == Affine::group ? groups_of(channels) : 0;
    }

    // Scales and shifts; one pair, 1 and 0, for all where the layer has none.
    template <class R>
    struct Pairs {
        static constexpr R none[2] = {R(1), R(0)};
        const R *scale = none, *shift = none + 1;

        explicit Pairs(const Pass<R>& p) {
            if (p.spec->parameters == 0) return;
            scale = p.weight(0);
            shift = p.weight(1);
        }
    };
    template <class R>
    kernels::NormShape shape(const Pass<R>& p) const {
        const std::size_t channels = channels_of(p.in());
        auto s = kernels::NormShape::group(p.batch * p.in().positions(), channels, p.in().width() / channels,
                                           groups_of(channels), affine != Affine::channel);
        if (affine == Affine::none) s.pairs = 0;
        return s;
    }
};

}  // namespace tessera::nn
