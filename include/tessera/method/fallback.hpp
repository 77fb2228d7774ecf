// SPDX-License-Identifier: BSD-3-Clause
// Fallback: any method whose personal models may do harm, and are then not used.
//
//   visit: the inner method, on the client's training data without a held-out share
//   serve: the better of the global and the personal model on that share; a tie goes to the global
//
// The held-out share is drawn by the client's key: it is the same in every round and at evaluation.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/method/detail/hold_out.hpp>

namespace tessera {

template <class Inner>
struct Fallback {
    static_assert(detail::HasVector<Inner>,
                  "tessera::Fallback: the inner method has no global model");
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr auto offers = offer::validate;
    Inner inner{};
    double share = 0.2;  // of the training data, held out

    template <class M, class Down>
    auto visit(const Context<M>& at, Down received, client_t<Inner, real<M>>& me) const {
        const detail::HoldOut data(at, share);
        return visit_at<Inner, M>(inner, data.rest(at), std::move(received), me);
    }
    template <class M, class Down>
    auto serve(const Context<M>& at, Down received, client_t<Inner, real<M>> me) const {
        detail::HoldOut data(at, share);
        auto global = plain(at, detail::global_of(inner, at, received, me));
        auto own = serve_at<Inner, M>(inner, data.rest(at), std::move(received), std::move(me));
        return detail::better_of(at, std::move(data), std::move(global), std::move(own));
    }
    void validate() const {
        detail::require(share > 0 && share < 1,
                        "share must lie in (0, 1), not " + std::to_string(share));
    }
};

}  // namespace tessera
