// SPDX-License-Identifier: BSD-3-Clause
// kNN-Per (Marfoq et al., ICML 2022): any method's global model and the client's own memory.
//
//   visit, merge: the inner method
//   serve: phi(x_i), y_i over the client's training data, phi = what the last layer reads;
//          p_knn(c) = sum over the k nearest with y_i = c of exp(-D_i), normalised, k <= n_k;
//          p = lambda p_knn + (1 - lambda) p_global
//
// lambda = 0: the global model. lambda = 1, k = 1: the nearest neighbour.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/method/detail/hold_out.hpp>
#include <tessera/method/detail/neighbours.hpp>
#include <tessera/method/fedavg.hpp>

namespace tessera {

template <class Inner = FedAvg<>>
struct KnnPer {
    static_assert(detail::HasVector<Inner>,
                  "tessera::KnnPer: the inner method has no global model");
    static constexpr auto by_default = verb::send | verb::visit | verb::merge;
    static constexpr auto offers = offer::validate;
    Inner inner{};
    std::size_t neighbours = 10;  // k
    double lambda = 0.5;
    Fade fade = Fade::distance;
    double bandwidth = 1;
    std::size_t capacity = 0;  // examples remembered; 0: all

    template <class M>
    auto open(const Context<M>& context, Vec<real<M>> w0, std::size_t clients) const {
        context.model->feature_width();  // a model chosen at run time says here that it has none
        return open_at<Inner, M>(inner, context, std::move(w0), clients);
    }
    template <class M, class Down>
    auto serve(const Context<M>& at, const Down& received, const auto& me) const {
        auto w = detail::global_of(inner, at, received, me);
        auto memory = detail::remember(at, w, capacity);
        return detail::Neighbours<M>{at.model, std::move(w), std::move(memory),
                                     {neighbours, lambda, fade, bandwidth}};
    }
    void validate() const { detail::Vote{neighbours, lambda, fade, bandwidth}.validate(); }
};

}  // namespace tessera
