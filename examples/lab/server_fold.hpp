// SPDX-License-Identifier: BSD-3-Clause
// The server optimizer chosen at run time, so that the lab compiles each method once and not five times.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>

namespace lab {

enum class Server : std::uint8_t { mean, momentum, adagrad, adam, yogi };
constexpr std::array<std::string_view, 5> words_of(Server) { return {"mean", "momentum", "adagrad", "adam", "yogi"}; }

struct ServerFold {
    Server server = Server::mean;
    double server_rate = -1;  // below 0: the optimizer's own, 1 for momentum and 0.1 for the adaptive ones
    double server_momentum = 0.9;
    bool nesterov = false;
    double b1 = -1;  // below 0: the optimizer's own, 0 for Adagrad and 0.9 for the others
    double b2 = 0.99, tau = 1e-3, v0 = 1e-6;
    bool bias_corrected = false;
    tessera::fold::Relax<> inner{};  // beta

    template <class R>
    using Memory = typename tessera::fold::ServerAdam<tessera::fold::Relax<>>::template Memory<R>;

    template <class M>
    void around(const tessera::Site<M>& hub, tessera::Vec<tessera::real<M>>& w, auto& memory, auto&& inward) const {
        switch (server) {
            case Server::mean: inward(w); return;
            case Server::momentum: momentum_fold().around(hub, w, memory, inward); return;
            case Server::adagrad:
                adaptive<tessera::fold::SecondMoment::adagrad>().around(hub, w, memory, inward);
                return;
            case Server::adam: adaptive<tessera::fold::SecondMoment::adam>().around(hub, w, memory, inward); return;
            case Server::yogi: adaptive<tessera::fold::SecondMoment::yogi>().around(hub, w, memory, inward); return;
        }
    }
    void validate() const {
        momentum_fold().validate();
        adaptive<tessera::fold::SecondMoment::adam>().validate();
    }

private:
    tessera::fold::ServerMomentum<> momentum_fold() const {
        tessera::fold::ServerMomentum<> fold{.server_momentum = server_momentum, .nesterov = nesterov};
        if (server_rate >= 0) fold.server_rate = server_rate;
        return fold;
    }
    template <tessera::fold::SecondMoment Kind>
    tessera::fold::ServerAdaptive<Kind> adaptive() const {
        tessera::fold::ServerAdaptive<Kind> fold{.b2 = b2, .tau = tau, .v0 = v0, .bias_corrected = bias_corrected};
        if (server_rate >= 0) fold.server_rate = server_rate;
        if (b1 >= 0) fold.b1 = b1;
        return fold;
    }
};

}  // namespace lab
