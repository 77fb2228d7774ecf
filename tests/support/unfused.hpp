// SPDX-License-Identifier: BSD-3-Clause
// A model with nothing but the verbs every model has: rules then take its gradient first and update after, as a loop
// written by hand does.
#pragma once

#include <cstddef>

#include <tessera/contracts/model.hpp>

namespace tessera::support {

template <Model M>
struct Unfused {
    using Real = typename M::Real;
    static constexpr Offers offers{};
    M inner{};

    Layout layout() const { return inner.layout(); }
    std::size_t outputs() const { return inner.outputs(); }
    double gradient(In<Real> w, const Batch<Real>& batch, Out<Real> out) const { return inner.gradient(w, batch, out); }
    void predict(In<Real> w, const Batch<Real>& batch, Out<Real> out) const { inner.predict(w, batch, out); }
};

}  // namespace tessera::support
