// SPDX-License-Identifier: BSD-3-Clause
// A model at a blend of two parameter vectors, f(alpha v + (1 - alpha) w), as an objective in v.
//
// Reads w where it lies, so it follows a w that moves; model and w must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tessera/contracts/model.hpp>

namespace tessera::nn {

// When the share of v moves.
enum class Mixing : std::uint8_t { fixed, per_round, per_step };
constexpr std::array<std::string_view, 3> words_of(Mixing) { return {"fixed", "per_round", "per_step"}; }

template <Model M>
struct Blend {
    using Real = real<M>;

    const M* model;
    const Vec<Real>* w;
    double alpha = 0.5;

    Layout layout() const { return model->layout(); }
    std::size_t outputs() const { return model->outputs(); }
    Vec<Real> mix(In<Real> v) const {
        Vec<Real> blend(v.size());
        const Real own = static_cast<Real>(alpha), common = static_cast<Real>(1 - alpha);
        for (std::size_t j = 0; j < v.size(); ++j) blend[j] = own * v[j] + common * (*w)[j];
        return blend;
    }
    double gradient(In<Real> v, const Batch<Real>& b, Out<Real> out) const {
        const double loss = model->gradient(mix(v), b, out);
        slopes([&](std::size_t j) { out[j] *= static_cast<Real>(alpha); });
        return loss;
    }
    void predict(In<Real> v, const Batch<Real>& b, Out<Real> out) const { model->predict(mix(v), b, out); }

    // The derivative in alpha, <grad f(blend), v - w>.
    double slope(In<Real> v, const Batch<Real>& b) const {
        Vec<Real> g(v.size());
        model->gradient(mix(v), b, g);
        double sum = 0;
        slopes([&](std::size_t j) {
            sum += static_cast<double>(g[j]) * (static_cast<double>(v[j]) - static_cast<double>((*w)[j]));
        });
        return sum;
    }

private:
    // f(coordinate) of all but running statistics, whose step is not a slope
    template <class F>
    void slopes(const F& f) const {
        each_piece({}, layout(), w->size(), [&](Range r, bool of_buffers) {
            for (std::size_t j = r.begin; !of_buffers && j < r.end; ++j) f(j);
        });
    }
};

}  // namespace tessera::nn
