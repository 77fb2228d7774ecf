// SPDX-License-Identifier: BSD-3-Clause
// The server optimizer chosen at run time, so that the lab compiles each method once and not five times.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>

namespace lab {

enum class Server : std::uint8_t { mean, momentum, adagrad, adam, yogi };
constexpr std::array<std::string_view, 5> words_of(Server) { return {"mean", "momentum", "adagrad", "adam", "yogi"}; }

// Reddi et al.: b2 = 0.99, tau = 1e-3, not corrected. Torch: b2 = 0.999, tau = 1e-8, corrected.
enum class AdamForm : std::uint8_t { reddi, torch };
constexpr std::array<std::string_view, 2> words_of(AdamForm) { return {"reddi", "torch"}; }

struct ServerFold {
    static constexpr auto offers = tessera::offer::validate;
    static constexpr double own = -1;  // the optimizer's own

    Server server = Server::mean;
    double server_rate = own, server_momentum = own;
    bool nesterov = false;
    AdamForm server_adam = AdamForm::reddi;
    double b1 = own, b2 = own, tau = own, v0 = own;
    bool bias_corrected = false;
    tessera::fold::Relax<> inner{};  // beta

    template <class R>
    using Memory = typename tessera::fold::ServerAdam<tessera::fold::Relax<>>::template Memory<R>;

    template <class M>
    void around(const tessera::Context<M>& context, tessera::Vec<tessera::real<M>>& w, auto& memory,
                auto&& fold_inner) const {
        switch (server) {
            case Server::mean:
                if (server_rate == own || server_rate == 1) fold_inner(w);
                else momentum_fold().around(context, w, memory, fold_inner);
                return;
            case Server::momentum: momentum_fold().around(context, w, memory, fold_inner); return;
            case Server::adagrad:
                adaptive<tessera::fold::SecondMoment::adagrad>().around(context, w, memory, fold_inner);
                return;
            case Server::adam:
                adaptive<tessera::fold::SecondMoment::adam>().around(context, w, memory, fold_inner);
                return;
            case Server::yogi:
                adaptive<tessera::fold::SecondMoment::yogi>().around(context, w, memory, fold_inner);
                return;
        }
    }
    struct Unread {
        std::string name, readers;  // a or b
    };
    // What is given and the chosen optimizer would pass over.
    std::vector<Unread> unread() const {
        using enum Server;
        std::vector<Unread> all;
        const auto read_by = [&](std::initializer_list<Server> readers, const char* name, bool given) {
            std::string words;
            for (const Server each : readers) {
                if (!given || each == server) return;
                words.append(words.empty() ? "" : " or ").append(tessera::detail::text_of(each));
            }
            all.push_back({name, words});
        };
        read_by({momentum}, "server_momentum", server_momentum != own);
        read_by({momentum}, "nesterov", nesterov);
        read_by({adam}, "server_adam", server_adam != AdamForm::reddi);
        read_by({adagrad, adam, yogi}, "b1", b1 != own);
        read_by({adam, yogi}, "b2", b2 != own);
        read_by({adagrad, adam, yogi}, "tau", tau != own);
        read_by({adagrad, adam, yogi}, "v0", v0 != own);
        read_by({adagrad, adam, yogi}, "bias_corrected", bias_corrected);
        return all;
    }
    void validate() const {
        for (const auto& [name, readers] : unread())
            throw tessera::ConfigError(name + " is not read with server=" + tessera::detail::text_of(server) +
                                       "; set server=" + readers + ", or leave it out");
        momentum_fold().validate();
        if (server == Server::adagrad) adaptive<tessera::fold::SecondMoment::adagrad>().validate();
        else adaptive<tessera::fold::SecondMoment::adam>().validate();
    }

private:
    // With server = mean a rate alone: SGD on the server.
    tessera::fold::ServerMomentum<> momentum_fold() const {
        tessera::fold::ServerMomentum<> fold{.nesterov = nesterov};
        if (server_rate != own) fold.server_rate = server_rate;
        if (server_momentum != own) fold.server_momentum = server_momentum;
        if (server == Server::mean) fold.server_momentum = 0;
        return fold;
    }
    template <tessera::fold::SecondMoment Kind>
    tessera::fold::ServerAdaptive<Kind> adaptive() const {
        const bool torch = server_adam == AdamForm::torch;
        tessera::fold::ServerAdaptive<Kind> fold{.v0 = v0, .bias_corrected = torch || bias_corrected};
        if (torch) fold.b2 = 0.999, fold.tau = 1e-8;
        if (server_rate != own) fold.server_rate = server_rate;
        if (b1 != own) fold.b1 = b1;
        if (b2 != own) fold.b2 = b2;
        if (tau != own) fold.tau = tau;
        return fold;
    }
};

}  // namespace lab
