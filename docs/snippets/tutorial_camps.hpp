// SPDX-License-Identifier: BSD-3-Clause
// The method of steps 4 and 5 of docs/tutorial.md.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/rule/sgd.hpp>

using namespace tessera;

// [method]
// Two models at the server. A client joins the one that errs less on its data, and trains that one.
struct Camps {
    static constexpr auto by_default = Verbs{};  // every verb is written below
    static constexpr auto offers = offer::admits | offer::no_global;
    rule::Sgd local{};
    std::size_t epochs = 1;

    template <class R> struct Server { Vec<R> first, second; };
    template <class R> struct Client { std::uint64_t camp = 0; };  // 0 until the first visit
    template <class R> struct Upload { Vec<R> x; std::uint64_t camp = 0; };

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>&, const Vec<R>& w, std::size_t) const {
        auto mirrored = w;
        for (R& number : mirrored) number = -number;
        return {w, mirrored};
    }
    template <class R>
    Server<R> send(const Server<R>& server, Id) const { return server; }

    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>& at, Server<R> models, Client<R>& me) const {
        auto& mine = better(at, models);
        me.camp = &mine == &models.first ? 1 : 2;
        descend(at, mine, at.epochs(epochs), local);
        return {mine, me.camp};
    }
    template <class R>
    void merge(const auto&, Server<R>& server, std::span<const Upload<R>> uploads) const {
        mean_of(server.first, uploads, 1);
        mean_of(server.second, uploads, 2);
    }
    bool admits(const auto& server, Id, const auto& upload) const {  // others are refused and counted
        return upload.x.size() == server.first.size();
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Server<R> models, Client<R>) const {
        return plain(at, better(at, models));
    }

private:
    template <class M, class R = real<M>>
    Vec<R>& better(const Context<M>& at, Server<R>& models) const {
        Vec<R> unused(models.first.size());
        const auto loss = [&](const auto& x) { return at.gradient(x, at.everything(), unused); };
        return loss(models.first) <= loss(models.second) ? models.first : models.second;
    }
    template <class R>
    static void mean_of(Vec<R>& w, std::span<const Upload<R>> uploads, std::uint64_t camp) {
        Vec<R> sum(w.size());
        R joined = 0;
        for (const auto& upload : uploads)
            if (upload.camp == camp) {
                joined += 1;
                for (std::size_t j = 0; j < w.size(); ++j) sum[j] += upload.x[j];
            }
        if (joined > 0)
            for (std::size_t j = 0; j < w.size(); ++j) w[j] = sum[j] / joined;
    }
};
// [/method]
