// SPDX-License-Identifier: BSD-3-Clause
// mh: the loss gradient and the memory together.
//
//   paper  mu = w - eta_a grad f(w; b) - eta (w_last - theta)                    Eq. 14
//   code   w' = w - eta_a grad f(w - eta_a grad f(w; b1); b2);  w <- w';  mu = w' - eta (w_last - theta)
//
// The released program draws two batches a step and moves w itself, which is a step of first-order Per-FedAvg: with
// lambda = 0 it is that method, while the paper's mh leaves w where it is.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/prior/meta_step.hpp>

namespace tessera::prior {

enum class Reading : std::uint8_t { paper, code };
constexpr std::array<std::string_view, 2> words_of(Reading) { return {"paper", "code"}; }

struct Hybrid {
    static constexpr auto offers = offer::validate | offer::draws | offer::pull_back;
    double eta_a = 0.01, eta = 0.05;
    Reading mh = Reading::paper;

    std::size_t draws() const { return mh == Reading::code ? 2 : 1; }

    template <class M, class R = real<M>>
    void operator()(const Context<M>& at, Vec<R>& w, const Drawn<R>& b, const Personal<R>& me, Vec<R>& mu) const {
        mu = w;
        descend_once(at, mu, b[0], eta_a);
        if (mh == Reading::code) {
            descend_along(at, w, loss_gradient(at, mu, b[1]), eta_a);
            mu = w;
        }
        remember(me, eta, mu);
    }
    template <class M, class R = real<M>>
    void pull_back(const Context<M>& at, const Vec<R>& w, const Drawn<R>& b, const Personal<R>&, Vec<R>& v) const {
        if (mh == Reading::paper) curve_once(at, w, b[0], eta_a, v);
    }
    void validate() const {
        detail::require(std::isfinite(eta_a) && eta_a >= 0, "eta_a must be 0 or more, not " + std::to_string(eta_a));
        detail::require(std::isfinite(eta), "eta must be a number, not " + std::to_string(eta));
    }
};

}  // namespace tessera::prior
