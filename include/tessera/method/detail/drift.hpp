// SPDX-License-Identifier: BSD-3-Clause
// What SCAFFOLD's server and clients owe their corrections.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <tessera/contracts/fold.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/form.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

// How a client knows the slope of its own data: off the way it went, or by taking it.
enum class Drift : std::uint8_t { way, gradient };
constexpr std::array<std::string_view, 2> words_of(Drift) { return {"way", "gradient"}; }

}  // namespace tessera

namespace tessera::detail {

// c += (1/N) sum of the changes = (|S| / N) their mean.
template <class M>
void add_share(const Context<M>& context, Vec<real<M>>& c, Rows<real<M>> changes, std::uint64_t clients) {
    using R = real<M>;
    Vec<R> mean(c.size());
    Nothing none;
    fold_rows(fold::Mean{}, context, mean, changes, none);
    const R share = static_cast<R>(static_cast<double>(changes.size()) / static_cast<double>(clients));
    for (std::size_t j = 0; j < c.size(); ++j) c[j] += share * mean[j];
}

// Of a server with a vector beside w; its fold answers for its memory.
template <class S>
bool same_lengths(const S& opened, const S& server) {
    using Memory = decltype(server.fold);
    return has_form<S, Memory>(server, form_of<S, Memory>(opened));
}

// Off the way that a client went its mean slope can be read after plain steps only.
template <class Local>
consteval bool steps_plainly() {
    return std::is_same_v<Local, rule::Sgd>;
}
template <class Local>
void require_plain_steps(const Local& local) {
    const char* instead = ", or take drift=gradient, the slope of the client's data at w";
    if constexpr (steps_plainly<Local>())
        require(local.momentum == 0, "SCAFFOLD reads a client's mean slope off the way it went, which is right for "
                                     "plain steps only: set momentum to 0, not " +
                                         std::to_string(local.momentum) + instead);
    else
        require(false, std::string("SCAFFOLD reads a client's mean slope off the way it went, which is right for plain "
                                   "steps only: take rule::Sgd") + instead);
}
// The mean slope of the client's data, batch by batch.
template <class M>
Vec<real<M>> slope_at(const Context<M>& at, const Vec<real<M>>& w) {
    using R = real<M>;
    Vec<R> sum(w.size()), g(w.size());
    const auto n = static_cast<double>(at.ids.size());
    for (const auto b : at.epochs(1, Pass::own)) {
        at.gradient(w, b.evaluated(), g);
        const R share = static_cast<R>(static_cast<double>(b.size()) / n);
        for (std::size_t j = 0; j < w.size(); ++j) sum[j] += share * g[j];
        at.workspace->tally.examples += b.size();
    }
    return sum;
}

template <class Fold>
consteval bool shows_drift() {
    static_assert(!hides_clients<Fold>,
                  "tessera::Scaffold: this fold hides clients, but how each of them drifts would still show");
    return true;
}

}  // namespace tessera::detail
