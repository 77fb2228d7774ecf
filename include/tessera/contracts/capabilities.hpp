// SPDX-License-Identifier: BSD-3-Clause
// What a model offers beyond Model, held against its list: each refinement is there and listed, or neither.
#pragma once

#include <tessera/contracts/judgement.hpp>
#include <tessera/contracts/model.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/contracts/routable.hpp>
#include <tessera/contracts/sparse.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::detail {

struct ModelNames {
    int inputs, input_width, apart;
};
template <class M> concept names_inputs = !requires { &Probed<M, ModelNames>::inputs; };
template <class M> concept names_input_width = !requires { &Probed<M, ModelNames>::input_width; };
template <class M> concept names_apart = !requires { &Probed<M, ModelNames>::apart; };

template <class M>
consteval bool model_is_spelt() {
    static_assert(policy_is_spelt<M>());
    if constexpr (StatesOffers<M>) {
        static_assert(agrees<M>(FusedModel<M>, offer::fused),
                      "tessera::Model: a model that lists `fused` in `offers` has `bool fuses(step) const` and `double "
                      "fused_step(x, batch, step) const`, and no other has; is one misspelt?");
        static_assert(
            agrees<M>(InitializedModel<M>, offer::initialize),
            "tessera::Model: a model that lists `initialize` in `offers` has `void initialize(x, key) const`, "
            "and no other has; is it misspelt?");
        static_assert(
            agrees<M>(CountedModel<M>, offer::forward_flops),
            "tessera::Model: a model that lists `forward_flops` in `offers` has `double forward_flops() const`, "
            "and no other has; is it misspelt?");
        static_assert(agrees<M>(names_inputs<M> || names_input_width<M>, offer::input_width),
                      "tessera::Model: a model that lists `input_width` in `offers` has `static constexpr std::size_t "
                      "inputs` or `std::size_t input_width() const`, and no other has; is it misspelt?");
        static_assert(agrees<M>(BlueprintModel<M>, offer::blueprint),
                      "tessera::Model: a model that lists `blueprint` in `offers` has `nn::Blueprint<R> blueprint() "
                      "const`, and no other has; is it misspelt?");
        static_assert(
            agrees<M>(LogitModel<M>, offer::logits),
            "tessera::Model: a model that lists `logits` in `offers` has `void logits(x, batch, out) const` and "
            "`void pullback(x, batch, dz, out) const`, and no other has; is one misspelt?");
        static_assert(
            agrees<M>(FeatureModel<M>, offer::features),
            "tessera::Model: a model that lists `features` in `offers` has `std::size_t feature_width() const` "
            "and `void features(x, batch, out) const`, and no other has; is one misspelt?");
        static_assert(agrees<M>(AlignableModel<M>, offer::aligned),
                      "tessera::Model: a model that lists `aligned` in `offers` has `bool aligns() const` and `double "
                      "aligned_gradient(x, batch, term, out) const`, and no other has; is one misspelt?");
        static_assert(
            agrees<M>(ClippingModel<M>, offer::clipped),
            "tessera::Model: a model that lists `clipped` in `offers` has `bool clips(clip) const` and `double "
            "clipped_sum(x, batch, clip, out) const`, and no other has; is one misspelt?");
        static_assert(agrees<M>(SparseModel<M>, offer::sparse),
                      "tessera::Model: a model that lists `sparse` in `offers` has `sparse(mask, batch, arithmetic) "
                      "const`, and no other has; is it misspelt?");
        static_assert(agrees<M>(RoutableModel<M>, offer::routed),
                      "tessera::Model: a model that lists `routed` in `offers` has `routes`, `routed_gradient`, "
                      "`routed_predict` and `hard_predict`, and no other has; is one misspelt?");
        static_assert(agrees<M>(JudgingModel<M>, offer::judge),
                      "tessera::Model: a model that lists `judge` in `offers` has `std::size_t positions() const`, "
                      "`void judge(batch, predictions, to) const` and `void accepts(examples, labelled) const`, and no "
                      "other has; is one misspelt?");
        static_assert(agrees<M>(names_apart<M>, offer::apart),
                      "tessera::Model: a model that lists `apart` in `offers` has `bool apart() const`, and no other "
                      "has; is it misspelt?");
    }
    return true;
}

}  // namespace tessera::detail
