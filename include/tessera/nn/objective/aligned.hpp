// SPDX-License-Identifier: BSD-3-Clause
// A loss whose features are pulled to the centroids of their classes.
//
//   f(x) + lambda mean over the batch of |z - c_y|^2;   slope in z: that of f, and 2 lambda (z - c_y) / batch
//
// z is what the last layer reads. An example whose class has no centroid is not pulled. Weights of examples count as
// in f.
#pragma once

#include <cstddef>

#include <tessera/contracts/model.hpp>
#include <tessera/core/error.hpp>

namespace tessera::nn {

template <class R>
struct Centroids {
    Vec<R> rows;  // one of feature width a class
    Mask known;   // classes that have one

    bool any() const { return known.count() > 0; }
    const R* of(std::size_t c) const { return rows.data() + c * (rows.size() / known.size()); }
};

// Model and centroids must outlive it.
template <Model M>
struct Aligned {
    using Real = real<M>;
    static_assert(AlignableModel<M>, "tessera::nn::Aligned: this model has no `aligned_gradient`; features can be "
                                     "pulled where there are layers below the last");

    const M* model;
    const Centroids<Real>* centroids;
    double lambda = 1;

    Layout layout() const { return model->layout(); }
    std::size_t outputs() const { return model->outputs(); }
    void predict(In<Real> x, const Batch<Real>& b, Out<Real> out) const { model->predict(x, b, out); }
    double forward_flops() const
        requires CountedModel<M>
    {
        return model->forward_flops();
    }
    double gradient(In<Real> x, const Batch<Real>& b, Out<Real> out) const {
        const auto pulled = [&](In<Real> z, Out<Real> slope) { return pull(b, z, slope); };
        return model->aligned_gradient(x, b, pulled, out);
    }

    // Adds the pull's slope at the features z; returns its value.
    double pull(const Batch<Real>& b, In<Real> z, Out<Real> slope) const {
        if (!b.examples().one_label())
            throw ConfigError("nn::Aligned: features are pulled to the class of an example, which needs one");
        double sum = 0;
        for (std::size_t i = 0; i < b.size(); ++i) {
            if (!centroids->known[b.label(i)]) continue;
            const std::size_t width = z.size() / b.size();
            const double share = lambda * static_cast<double>(b.weight(i)) / static_cast<double>(b.size());
            const Real factor = static_cast<Real>(2 * share), *c = centroids->of(b.label(i));
            double squares = 0;
            for (std::size_t j = 0; j < width; ++j) {
                const Real apart = z[i * width + j] - c[j];
                squares += static_cast<double>(apart) * static_cast<double>(apart);
                slope[i * width + j] += factor * apart;
            }
            sum += share * squares;
        }
        return sum;
    }
};

}  // namespace tessera::nn
