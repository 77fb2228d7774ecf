// SPDX-License-Identifier: BSD-3-Clause
// A method of your own: FedADMM (Gong, Li and Freris, ICDE 2022). Clients that train long on their
// own data drift apart; here each remembers a price y for leaving the common model w, and pays it.
//
//   client: w_k ~ argmin f(x) + <y_k, x - w> + rho/2 |x - w|^2, from w;   y_k += rho (w_k - w)
//           up: by how much w_k + y_k / rho has changed
//   server: w += 1/N of the sum of the changes, so that w is the mean of all w_k + y_k / rho
//
// Teaches: the verbs, and state that is saved, sent and hashed because it was declared.
// Next: 05_model_with_xtensor.cpp
#include <tessera/conformance.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>

#include <cstdio>

using namespace tessera;

struct FedAdmm {
    static constexpr auto by_default = verb::send | verb::serve;  // w goes down, w is served
    static constexpr auto offers = offer::validate | offer::admits | offer::global;
    rule::Sgd local{};
    std::size_t epochs = 1;
    double rho = 0.1;

    template <class R> struct Server { Vec<R> w; std::uint64_t clients = 0; };
    template <class R> struct Client { Vec<R> w, y; };
    template <class R> struct Change { Vec<R> sum; };  // of w_k + y_k / rho

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>&, Vec<R> w, std::size_t clients) const { return {w, clients}; }

    template <class M, class R = real<M>>
    Change<R> visit(const Context<M>& at, Vec<R> w, Client<R>& me) const {
        start(me.w, *at.initial);  // the first time: where everybody began, at no price
        me.y.resize(w.size());
        auto x = w;
        const Terms<R> terms{.prox_center = w, .prox_weight = rho, .linear = me.y};
        descend(at, x, at.epochs(epochs), local, terms);
        Change<R> change{Vec<R>(w.size())};
        for (std::size_t j = 0; j < w.size(); ++j) {
            const R away = x[j] - w[j];
            change.sum[j] = x[j] - me.w[j] + away;  // y_k / rho rises by `away`
            me.y[j] += static_cast<R>(rho) * away;
        }
        me.w = std::move(x);
        return change;
    }
    template <class R>
    void merge(const auto&, Server<R>& server, std::span<const Change<R>> changes) const {
        for (const auto& change : changes)
            for (std::size_t j = 0; j < server.w.size(); ++j)
                server.w[j] += change.sum[j] / static_cast<R>(server.clients);
    }
    auto global(const auto& server, const auto&) const { return server.w; }
    bool admits(const auto& server, Id, const auto& change) const {  // else `merge` never sees it
        return change.sum.size() == server.w.size();
    }
    void validate() const { detail::require_positive(rho, "rho"); }
};

template <class Method>
double loss_of(const Method& method) {
    using Net = nn::Mclr<60, 10>;
    const auto clients = data::synthetic({.clients = 10, .seed = 1, .max_examples = 200});
    Federation<Method, Net> federation{Net{}, clients, method, {.seed = 1, .batch = 10}};
    federation.run(60, sample::Everyone{});
    return evaluate<Which::global, SplitOf::train>(federation).loss(Average::unweighted).value;
}

int main() {
    conformance::require(conformance::method<FedAdmm>());  // threads, wire, resume, serving, ...
    const double fedavg = loss_of(FedAvg<>{{.rate = 0.05}, {}, 20, 0, Weigh::uniform});
    const double fedadmm = loss_of(FedAdmm{{.rate = 0.05}, 20});
    std::printf("loss of the global model: FedAvg %.3f, FedADMM %.3f\n", fedavg, fedadmm);
    return fedadmm < fedavg ? 0 : 1;
}
