// SPDX-License-Identifier: BSD-3-Clause
// Local, or Standalone: every client keeps its own model, nothing travels.
//
//   client: w_k = E epochs (or R batches) of the local rule from its own w_k
//
// All start at the common initial value.
#pragma once

#include <span>

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Rule = rule::Sgd>
struct Local {
    static constexpr auto by_default = verb::open;
    static constexpr auto offers =
        offer::Released | offer::Kept | offer::no_global | offer::serves_as_is;
    using Released = Trained<Rule>;  // by whoever hands its model on
    using Kept = Trained<Rule>;
    Rule local{};
    std::size_t epochs = 1;  // E
    std::size_t steps = 0;   // instead of epochs: batches of the client's stream
    Pass pass = Pass::own;
    template <class R>
    using Server = Nothing;
    template <class R>
    struct Client {
        Vec<R> w;
        Cursor cursor;
    };

    Nothing send(Nothing, Id) const { return {}; }
    template <class M>
    Nothing visit(const Context<M>& at, Nothing, Client<real<M>>& me) const {
        descend(at, start(me.w, *at.initial), at.work(epochs, steps, me.cursor, pass), local);
        return {};
    }
    void merge(const auto&, Nothing&, std::span<const Nothing>) const {}
    template <class M>
    auto serve(const Context<M>& at, Nothing, Client<real<M>> me) const {
        return plain(at, start(me.w, *at.initial));
    }
};

}  // namespace tessera
