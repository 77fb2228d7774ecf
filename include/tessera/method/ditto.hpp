// SPDX-License-Identifier: BSD-3-Clause
// Ditto (Li et al., ICML 2021).
//
//   client: w_k by FedAvg from w
//           v_k: own epochs (or batches) on f(v) + lambda/2 |v - w|^2 from v_k, w as received
//   server: as FedAvg
//
// v_k starts at the first w received, or where the run began. w is FedAvg's for every lambda;
// lambda = 0: v_k is Local's.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

// Where a personal model begins: at the first w received, or at the run's initial vector.
enum class OwnInit : std::uint8_t { received, initial };
constexpr std::array<std::string_view, 2> words_of(OwnInit) { return {"received", "initial"}; }

template <class Local = rule::Sgd, class Fold = fold::Mean, class Own = Local>
struct Ditto {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr auto offers =
        offer::validate | offer::Released | offer::Kept | offer::serves_as_is;
    using Released = Trained<Local>;
    using Kept = Trained<Own>;  // w never reads v
    Local local{};
    Own personal{};
    Fold fold{};
    std::size_t epochs = 1, own_epochs = 1;
    std::size_t steps = 0, own_steps = 0;  // instead of epochs: batches of the client's stream
    double lambda = 0.1;
    Weigh weights = Weigh::samples;
    OwnInit own_init = OwnInit::received;
    template <class R>
    struct Client {
        Vec<R> v;
        Cursor cursor, own_cursor;
    };

    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, Vec<R> w, Client<R>& me) const {
        const auto received = w;
        descend(at, w, at.work(epochs, steps, me.cursor), local);
        const auto batches = at.work(own_epochs, own_steps, me.own_cursor, Pass::own);
        descend(at, begun(at, me.v, received), batches, personal,
                {.prox_center = received, .prox_weight = lambda});
        return up(at, std::move(w), weights);
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<R> w, Client<R> me) const {
        return plain(at, std::move(begun(at, me.v, w)));
    }
    void validate() const { detail::require_size(lambda, "lambda"); }

private:
    template <class R>
    Vec<R>& begun(const auto& at, Vec<R>& v, const Vec<R>& received) const {
        return start(v, own_init == OwnInit::initial ? *at.initial : received);
    }
};

}  // namespace tessera
