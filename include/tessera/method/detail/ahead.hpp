// SPDX-License-Identifier: BSD-3-Clause
// The objective of Per-FedAvg over w, f(w - alpha grad f(w; b1); b2). Its gradient is that of f at the place ahead;
// with curvature times I - alpha Hess f(w; b3), by a central difference of size delta.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/contracts/prior.hpp>
#include <tessera/prior/meta_step.hpp>

namespace tessera::detail {

template <Model M>
struct Ahead {
    using Real = real<M>;
    const Context<M>* at;
    double alpha, delta;
    bool curved;
    const Drawn<Real>* batches = nullptr;  // b1, b2 and, with curvature, b3 of the step at hand

    Layout layout() const { return at->model->layout(); }
    std::size_t outputs() const { return at->model->outputs(); }
    void predict(In<Real> x, const Batch<Real>& b, Out<Real> out) const { at->model->predict(x, b, out); }
    double gradient(In<Real> w, const Batch<Real>& second, Out<Real> out) const {
        const Vec<Real> here(w.begin(), w.end());
        Vec<Real> there = here, v(w.size());
        prior::descend_once(*at, there, (*batches)[0], alpha);
        const double loss = at->gradient(there, second, v);
        if (curved) {
            Vec<Real> bent;
            prior::hessian_vector(*at, here, (*batches)[2], v, delta, bent);
            kernels::axpy(static_cast<Real>(-alpha), bent.data(), v.data(), v.size());
        }
        std::copy(v.begin(), v.end(), out.begin());  // last: `out` may be the worker's, which was in use
        return loss;
    }
};

}  // namespace tessera::detail
