// SPDX-License-Identifier: BSD-3-Clause
// The code of compositions.md: what users asked for, each without a change to the library.
#include <tessera/codec/quantised.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/gate/features.hpp>
#include <tessera/mask/dynamic_sparse.hpp>
#include <tessera/method/coded.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/masked.hpp>
#include <tessera/method/pfedme.hpp>
#include <tessera/method/private.hpp>
#include <tessera/method/scaffold.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/objective/aligned.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/adam_w.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/rule/sam.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>

using namespace tessera;

namespace mine {

// [trimmed]
// Coordinate by coordinate the mean without the largest and the smallest share (Yin et al., ICML 2018).
struct TrimmedMean {
    static constexpr Offers offers{};
    double share = 0.1;
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        const auto cut = static_cast<std::size_t>(share * static_cast<double>(rows.size()));
        Vec<real<M>> column(rows.size());
        for (std::size_t j = 0; j < w.size() && rows.size() > 2 * cut; ++j) {
            for (std::size_t k = 0; k < rows.size(); ++k) column[k] = rows[k].x[j];
            std::sort(column.begin(), column.end());
            double sum = 0;
            for (std::size_t k = cut; k < column.size() - cut; ++k) sum += static_cast<double>(column[k]);
            w[j] = static_cast<real<M>>(sum / static_cast<double>(column.size() - 2 * cut));
        }
    }
};
// [/trimmed]

// [fedproto]
// FedProto (Tan et al., AAAI 2022): the classes' mean features travel, models stay where they are.
//   client: w_k = E epochs on f + lambda |z - C_y|^2;   up: C_kc, the mean z of its examples of class c
//   server: C_c = mean of the C_kc of the round's clients that have the class
template <class Local = rule::Sgd>
struct FedProto {
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::admits | offer::takes | offer::keeps | offer::holds | offer::no_global |
                                   offer::serves_as_is;
    Local local{};
    std::size_t epochs = 1;
    double lambda = 1;
    template <class R> struct Server { nn::Centroids<R> mean; };
    template <class R> struct Client { Vec<R> w; };
    template <class R> using Upload = nn::Centroids<R>;

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>& context, const Vec<R>&, std::size_t) const {
        const std::size_t classes = context.model->outputs();
        return {{Vec<R>(classes * context.model->feature_width()), Mask(classes)}};
    }
    auto send(const auto& server, Id) const { return server.mean; }
    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>& at, const nn::Centroids<R>& got, Client<R>& me) const {
        const nn::Aligned<M> objective{at.model, &got, lambda};
        descend(at.with(objective), start(me.w, *at.initial), at.epochs(epochs), local);
        const std::size_t width = at.model->feature_width();
        Upload<R> mine{Vec<R>(got.rows.size()), Mask(got.known.size())};
        Vec<R> z(at.ids.size() * width), count(got.known.size());
        at.model->features(me.w, at.everything(), z);
        for (std::size_t i = 0; i < at.ids.size(); ++i) {
            const std::size_t c = at.everything().label(i);
            mine.known.set(c, true), count[c] += 1;
            for (std::size_t j = 0; j < width; ++j) mine.rows[c * width + j] += z[i * width + j];
        }
        for (std::size_t j = 0; j < mine.rows.size(); ++j) mine.rows[j] /= std::max(R(1), count[j / width]);
        return mine;
    }
    template <class M, class R = real<M>>
    void merge(const Context<M>&, Server<R>& server, std::span<const Upload<R>> ups) const {
        const std::size_t classes = server.mean.known.size(), width = server.mean.rows.size() / classes;
        for (std::size_t c = 0; c < classes; ++c) {
            Vec<double> sum(width);
            double n = 0;
            for (const auto& up : ups) {
                for (std::size_t j = 0; up.known[c] && j < width; ++j) sum[j] += up.rows[c * width + j];
                n += up.known[c];
            }
            if (n > 0) server.mean.known.set(c, true);
            for (std::size_t j = 0; n > 0 && j < width; ++j) server.mean.rows[c * width + j] = static_cast<R>(sum[j] / n);
        }
    }
    auto serve(const auto& at, const auto&, auto me) const { return plain(at, start(me.w, *at.initial)); }
    static bool like(const auto& a, const auto& b) { return a.rows.size() == b.rows.size() && a.known.size() == b.known.size(); }
    bool admits(const auto& server, Id, const auto& up) const { return like(up, server.mean); }
    bool holds(const auto& opened, const auto& server) const { return like(opened.mean, server.mean); }
    bool takes(const auto& at, const auto& got, const auto&) const {
        return got.known.size() == at.model->outputs() && got.rows.size() == got.known.size() * at.model->feature_width();
    }
    bool keeps(const auto& at, const auto& me, std::size_t) const { return me.w.empty() || me.w.size() == at.initial->size(); }
};
// [/fedproto]

// [personal_head]
// SCAFFOLD below a head of each client's own: the head is trained along, is not corrected, and never reaches the server.
template <class Inner = Scaffold<>, class Own = scope::Head>
struct PersonalHead {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr Offers offers = offer::keeps | offer::serves_as_is;
    Inner inner{};
    Own own{};
    template <class R> struct Client { client_t<Inner, R> own; Vec<R> head; };

    template <class M, class R = real<M>>
    up_t<Inner, M> visit(const Context<M>& at, down_t<Inner, R> got, Client<R>& me) const {
        const Coordinates mine = on(own, *at.model);
        const auto shown = gather(got.w, mine);
        scatter(start(me.head, shown), mine, got.w);
        auto up = visit_at<Inner, M>(inner, at, std::move(got), me.own);
        me.head = gather(up.y, mine);
        const Vec<R> none(shown.size());
        scatter(shown, mine, up.y), scatter(none, mine, up.dc), scatter(none, mine, me.own.c);
        return up;
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, down_t<Inner, R> got, Client<R> me) const {
        const Coordinates mine = on(own, *at.model);
        scatter(start(me.head, gather(got.w, mine)), mine, got.w);
        return plain(at, std::move(got.w));
    }
    template <class M, class R = real<M>>
    bool keeps(const Context<M>& at, const Client<R>& me, std::size_t) const {
        const std::size_t d = at.initial->size(), head = on(own, *at.model).size(d);
        return (me.head.empty() || me.head.size() == head) && (me.own.c.empty() || me.own.c.size() == d);
    }
};
// [/personal_head]

}  // namespace mine

namespace {

using Net = nn::Dnn<60, 20, 10>;
data::FederatedDataset clients() {
    return data::synthetic({.alpha = 0.5, .beta = 0.5, .clients = 12, .seed = 3, .max_examples = 60});
}
struct Ended {
    double loss, right;
};
template <class Me, class M = Net>
Ended after(const char* what, const Me& method, const M& model = {}) {
    Federation<Me, M> run{model, clients(), method, {.seed = 1, .batch = 10, .rounds = 20}};
    RoundReport last;
    for (int r = 0; r < 20; ++r) last = run.round(sample::Uniform{.count = 6});
    const double right = evaluate<Which::personal>(run).accuracy(Average::unweighted).value.get();
    std::printf("%-30s %5.1f kB up, train loss %.2f, personal %.0f %%\n", what, static_cast<double>(last.bytes_up) / 1000,
                last.train_loss, 100 * right);
    return {last.train_loss, right};
}

}  // namespace

int main() {
    // [robust]
    const FedAlt<scope::Head, rule::Sgd, mine::TrimmedMean> robust{.fold = {.share = 0.2}};
    // [/robust]
    // [rules]
    const PFedMe<fold::Relax<>, rule::Sam<>> flat{.local = {.base = {.rate = 0.01}, .radius = 0.05}};
    const FedAvg<rule::Sam<rule::AdamW>> flat_adam{};
    // [/rules]
    // [sparse_head]
    const Masked<FedAlt<>, mask::DynamicSparse, scope::Head> sparse_head{.masking = {.density = 0.2}};
    // [/sparse_head]
    // [protos]
    const mine::FedProto<> protos{.local = {.rate = 0.05}, .lambda = 0.1};
    const mine::PersonalHead<> own_heads{.inner = {.local = {.rate = 0.05}}};
    // [/protos]
    // [feature_gate]
    using Pictures = nn::Network<float>;
    const Pictures pictures(nn::Shape(1, 6, 10), nn::chain(nn::Conv2d{.outputs = 4, .pad = 1}, nn::Relu{}, nn::MaxPool2d{},
                                                           nn::Linear{10}));
    const Flow<gate::Features> by_features{.gate = {.hidden = 8}, .local = {.rate = 0.05}};
    // [/feature_gate]
    // [private_ditto]
    using Noisy = rule::DpSgd<privacy::Noise>;
    const Noisy noisy{.rate = 0.05, .clip = 1, .noise = 1};
    const Coded<Private<Ditto<Noisy>>> private_ditto{.inner = {.inner = {.local = noisy, .personal = noisy}}};
    // [/private_ditto]
    const Ended shared = after("SCAFFOLD", Scaffold<>{.local = {.rate = 0.05}});
    after("FedAlt, trimmed mean", robust);
    after("pFedMe with SAM", flat);
    after("FedAvg with SAM of AdamW", flat_adam);
    after("FedAlt, sparse head", sparse_head);
    after("Flow on a convnet, by features", by_features, pictures);
    after("Ditto, private, 8 bits", private_ditto);
    const Ended own = after("SCAFFOLD, own heads", own_heads), proto = after("FedProto", protos);
    return own.loss < shared.loss && proto.right > 0.5 ? 0 : 1;
}
