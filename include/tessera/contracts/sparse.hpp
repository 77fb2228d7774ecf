// SPDX-License-Identifier: BSD-3-Clause
// SparseModel: a model that brings its own form on the active coordinates of a mask. Any other model gets one from
// nn::Sparse, which is also where methods go for it.
//
// That form is a model again. Its parameters are the packed ones: the values at the mask's ones, in coordinate order.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tessera/contracts/model.hpp>

namespace tessera {

// Who multiplies a layer's weights: whoever a fixed table says is faster, or always the sparse kernels, or always the
// dense ones on zero-filled weights.
enum class Arithmetic : std::uint8_t { table, sparse, dense };
constexpr std::array<std::string_view, 3> words_of(Arithmetic) { return {"table", "sparse", "dense"}; }

// full_gradient is the gradient in every coordinate, active or not, at the point with zeros in place.
template <class S>
concept SparseForm =
    FusedModel<S> && CountedModel<S> &&
    requires(const S form, In<real<S>> packed, const Batch<real<S>>& batch, Out<real<S>> dense) {
        { form.full_gradient(packed, batch, dense) } -> std::convertible_to<double>;
        { form.whole(packed) } -> std::same_as<Vec<real<S>>>;
    };

// The form keeps references to model and mask. `batch` is the size of batches to expect; others work, too.
template <class M>
concept SparseModel = Model<M> && requires(const M model, const Mask& mask, std::size_t batch, Arithmetic how) {
    { model.sparse(mask, batch, how) } -> SparseForm;
};

}  // namespace tessera
