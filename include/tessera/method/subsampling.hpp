// SPDX-License-Identifier: BSD-3-Clause
// Subsampling (Konecny et al., 2016): FedAvg whose uploads are random parts of the update.
//
//   client: w_k by FedAvg from w; r_k ~ Bernoulli(D) in each coordinate, fresh in each round
//   server: w = w + mean_k r_k o (w_k - w)        unbiased: the mean divided by D
//
// Down goes all of w, up the share D of it. D = 1 is FedAvg.
#pragma once

#include <tessera/contracts/masking.hpp>
#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct Subsampling {
    static_assert(accepts_masks<Fold>, "tessera::Subsampling: this aggregator does not understand "
                                       "rows with masks (Mean and OwnersMean do)");
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr auto offers = offer::validate;
    Local local{};
    Fold fold{};
    std::size_t epochs = 1;  // E
    double density = 0.5;    // D, in (0, 1]
    bool unbiased = false;
    Weigh weights = Weigh::uniform;
    template <class R>
    struct Upload {
        Vec<R> x;
        double weight = 1;
        Mask mask;
    };

    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, const Vec<R>& w, auto&) const {
        auto x = w;
        descend(at, x, at.epochs(epochs), local);
        Stream draw(at.key(purpose::mask)(at.round));
        Mask sent(x.size());
        for (std::size_t j = 0; j < x.size(); ++j) {
            sent.set(j, draw.uniform() < density);
            if (unbiased) x[j] = w[j] + (x[j] - w[j]) / static_cast<R>(density);
        }
        return Upload<R>{packed(x, sent), at.weight(weights), sent};
    }
    void validate() const {
        detail::require(density > 0 && density <= 1, "density must lie in (0, 1]");
    }
};

}  // namespace tessera
