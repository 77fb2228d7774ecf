// SPDX-License-Identifier: BSD-3-Clause
// The reference of a round: the same federation on models in double whose products are the plain loops of
// backend::Reference. It notes the batches it was asked for, so that another program can walk the same ones.
#pragma once

#include <vector>

#include <tessera/kernels/backend.hpp>
#include <tessera/nn/zoo.hpp>

namespace bench {

namespace t = tessera;

// The same networks in double, whose products are plain loops.
template <class M>
struct Reference : M {
    Reference() : M(t::nn::backend_for<double, t::backend::Reference>()) {}
};
using ReferenceMclr = Reference<t::nn::Mclr<784, 10, double>>;
using ReferenceDnn = Reference<t::nn::Dnn<784, 100, 10, double>>;

struct Walked {
    std::vector<t::Index> ids;
    std::vector<std::int32_t> sizes;  // of the batches, in the order of their gradients
};

template <class M>
struct Recorder {
    using Real = t::real<M>;
    static constexpr t::Offers offers{};
    M model{};
    Walked* walked = nullptr;

    t::Layout layout() const { return model.layout(); }
    std::size_t outputs() const { return model.outputs(); }
    double gradient(t::In<Real> x, const t::Batch<Real>& batch, t::Out<Real> out) const {
        walked->ids.insert(walked->ids.end(), batch.ids().begin(), batch.ids().end());
        walked->sizes.push_back(static_cast<std::int32_t>(batch.size()));
        return model.gradient(x, batch, out);
    }
    void predict(t::In<Real> x, const t::Batch<Real>& batch, t::Out<Real> out) const { model.predict(x, batch, out); }
};

}  // namespace bench
