// SPDX-License-Identifier: BSD-3-Clause
// A method of your own: SCAFFOLD (Karimireddy et al., ICML 2020, option II). It corrects the drift
// of clients that train long on data of their own. Server and clients both remember.
//
// Teaches: the verbs, and state that is saved, sent and hashed because it was declared.
// Next: 05_model_with_xtensor.cpp
#include <tessera/conformance.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>

#include <cstdio>

using namespace tessera;

struct Scaffold {
    static constexpr auto by_default = Verbs{};  // every verb is written below
    rule::Sgd local{};
    std::size_t epochs = 1;

    template <class R> struct Server { Vec<R> w, drift; std::uint64_t clients = 0; };
    template <class R> struct Client { Vec<R> drift; };
    template <class R> struct Down { Vec<R> w, drift; };
    template <class R> struct Change { Vec<R> w, drift; };

    template <class M, class R = real<M>>
    Server<R> open(const Site<M>&, Vec<R> w, std::size_t clients) const {
        return {w, Vec<R>(w.size()), clients};
    }
    template <class R>
    Down<R> send(const Server<R>& server, Id) const { return {server.w, server.drift}; }

    template <class M, class R = real<M>>
    Change<R> visit(const Site<M>& at, Down<R> all, Client<R>& me) const {
        me.drift.resize(all.w.size());
        auto y = all.w, correction = all.drift;
        for (std::size_t j = 0; j < y.size(); ++j) correction[j] -= me.drift[j];
        const auto batches = at.epochs(epochs);
        descend(at, y, batches, local, {.also = correction});
        Change<R> change{.w = y, .drift = me.drift};
        const R way = static_cast<R>(local.rate * static_cast<double>(batches.size()));
        for (std::size_t j = 0; j < y.size(); ++j) {
            me.drift[j] = (all.w[j] - y[j]) / way - correction[j];
            change.w[j] = y[j] - all.w[j];
            change.drift[j] = me.drift[j] - change.drift[j];
        }
        return change;
    }
    template <class R>
    void merge(const auto&, Server<R>& server, std::span<const Change<R>> changes) const {
        for (const auto& change : changes)
            for (std::size_t j = 0; j < server.w.size(); ++j) {
                server.w[j] += change.w[j] / static_cast<R>(changes.size());
                server.drift[j] += change.drift[j] / static_cast<R>(server.clients);
            }
    }
    bool admits(const auto& server, const auto& change) const {  // else `merge` never sees it
        return change.w.size() == server.w.size() && change.drift.size() == server.w.size();
    }
    template <class M, class R = real<M>>
    auto serve(const Site<M>& at, Down<R> all, Client<R>) const { return plain(at, all.w); }
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
    conformance::require(conformance::method<Scaffold>());  // threads, wire, resume, serving, ...
    const double fedavg = loss_of(FedAvg<>{{.rate = 0.05}, {}, 20, 0, Weigh::uniform});
    const double scaffold = loss_of(Scaffold{{.rate = 0.05}, 20});
    std::printf("loss of the global model: FedAvg %.3f, SCAFFOLD %.3f\n", fedavg, scaffold);
    return scaffold < fedavg ? 0 : 1;
}
