// SPDX-License-Identifier: BSD-3-Clause
// Fallback: any method whose personal models may do harm, and are then not used.
//
//   visit: the inner method, on the client's training data without a held-out share
//   serve: the better of the global and the personal model on that share; a tie goes to the global
//
// The held-out share is drawn by the client's key: it is the same in every round and at evaluation.
// The server keeps the cohort until the round closes, also where the inner method's fold streams.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/method/detail/hold_out.hpp>

namespace tessera {

template <class Inner>
struct Fallback {
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::validate | offer::global;
    Inner inner{};
    double share = 0.2;  // of the training data, held out
    template <class R>
    using Server = server_t<Inner, R>;
    template <class R>
    using Client = client_t<Inner, R>;

    template <class M>
    auto open(const Site<M>& hub, Vec<real<M>> w0, std::size_t clients) const {
        return open_at<Inner, M>(inner, hub, std::move(w0), clients);
    }
    template <class S>
    auto send(const S& server, Id client) const {
        constexpr bool common = detail::HasVector<S>;
        static_assert(common, "tessera::Fallback: the inner method has no global model");
        if constexpr (common) return send_to<Inner, detail::real_of<S>>(inner, server, client);
    }
    template <class M, class Down>
    auto visit(const Site<M>& at, Down received, Client<real<M>>& me) const {
        const detail::HoldOut data(at, share);
        return visit_at<Inner, M>(inner, data.rest(at), std::move(received), me);
    }
    template <class M, class Upload>
    void merge(const Site<M>& hub, Server<real<M>>& server, std::span<const Upload> ups) const {
        merge_at<Inner, M>(inner, hub, server, ups);
    }
    template <class M, class Down>
    auto serve(const Site<M>& at, Down received, Client<real<M>> me) const {
        detail::HoldOut data(at, share);
        auto global = plain(at, detail::global_of(inner, at, received));
        auto own = serve_at<Inner, M>(inner, data.rest(at), std::move(received), std::move(me));
        return detail::better_of(at, std::move(data), std::move(global), std::move(own));
    }
    template <class S, class R>
    Vec<R> global(const S& server, const Vec<R>& initial) const {
        return detail::inner_global(inner, server, initial);
    }
    void validate() const {
        detail::require(share > 0 && share < 1,
                        "share must lie in (0, 1), not " + std::to_string(share));
    }
};

}  // namespace tessera
