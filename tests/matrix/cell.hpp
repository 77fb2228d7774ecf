// SPDX-License-Identifier: BSD-3-Clause
// One cell of the matrix: a composition on a tiny task. It holds if two rounds count and are finite, if they are the same
// in memory and over the wire, whatever the order of visits, with any number of workers, and after a restart between the
// rounds, if clients, also one that never came, are answered in finite numbers, and if warm rounds take nothing from the
// heap. A ConfigError before round one is a refusal; anything else is broken.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tessera/tessera.hpp>

#include <support/counted_heap.hpp>
#include <support/keyed_noise.hpp>
#include <support/unfused.hpp>

namespace matrix {

using namespace tessera;

// What a user might bring ---------------------------------------------------------------------------------------------

struct SignDescent {  // Bernstein et al., ICML 2018, without momentum
    static constexpr Offers offers{};
    double rate = 0.01;
    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
                Nothing&) const {
        using R = real<M>;
        Vec<R> g(x.size());
        const double loss = at.gradient(x, b, g);
        each_piece(terms.on, at.model->layout(), x.size(), [&](Range r, bool of_buffers) {
            for (std::size_t j = r.begin; j < r.end; ++j) {
                if (of_buffers) {
                    x[j] -= g[j];
                    continue;
                }
                if (terms.active && !(*terms.active)[j]) continue;
                const R pull =
                    terms.prox_weight != 0 ? static_cast<R>(terms.prox_weight) * (x[j] - terms.prox_center[j]) : R(0);
                const R d = g[j] + pull + (terms.linear.empty() ? R(0) : terms.linear[j]);
                x[j] -= static_cast<R>(rate) * static_cast<R>((d > 0) - (d < 0));
            }
        });
        return loss;
    }
};

struct TrimmedMean {  // Yin et al., ICML 2018; the largest and the smallest of every coordinate are left out
    static constexpr Offers offers{};
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        Vec<real<M>> column(rows.size());
        for (std::size_t j = 0; j < w.size() && rows.size() > 2; ++j) {
            for (std::size_t k = 0; k < rows.size(); ++k) column[k] = rows[k].x[j];
            std::sort(column.begin(), column.end());
            double sum = 0;
            for (std::size_t k = 1; k + 1 < column.size(); ++k) sum += static_cast<double>(column[k]);
            w[j] = static_cast<real<M>>(sum / static_cast<double>(column.size() - 2));
        }
    }
};

struct PerBlock {  // a gate: one learnt share a block, the same for all examples
    static constexpr Offers offers{};
    Vec<Segment> segments(const Routes& routes) const { return {{.name = "logit", .shape = {routes.blocks, 1, 1, 1}}}; }
    template <class R>
    void operator()(const Routes& routes, In<R> psi, const Batch<R>&, Out<R> q0, Out<R>) const {
        for (std::size_t k = 0; k < q0.size(); ++k) q0[k] = 1 / (1 + std::exp(-psi[k % routes.blocks]));
    }
    template <class R>
    void pull_back(const Routes& routes, In<R>, const Batch<R>&, In<R> q0, In<R>, In<R> dq0, Out<R> dpsi) const {
        for (R& d : dpsi) d = 0;
        for (std::size_t k = 0; k < q0.size(); ++k) dpsi[k % routes.blocks] += dq0[k] * q0[k] * (1 - q0[k]);
    }
};

struct HalfWay {  // a prior: mu between w and where the run began
    static constexpr auto offers = offer::forgets;
    template <class M>
    void operator()(const Context<M>& at, Vec<real<M>>& w, const Drawn<real<M>>&, const Personal<real<M>>&,
                    Vec<real<M>>& mu) const {
        mu = w;
        for (std::size_t j = 0; j < mu.size(); ++j) mu[j] = (mu[j] + (*at.initial)[j]) / 2;
    }
};

// The task and its models ---------------------------------------------------------------------------------------------

constexpr std::size_t features = 64, classes = 4;
using Net = nn::Network<float>;
using KnownNet = nn::Dnn<features, 8, classes>;
using UsersNet = support::Unfused<KnownNet>;
using TunedNet = nn::Tuned<Net>;

enum class Kind { dnn, mclr, conv, group_norm, batch_norm, lstm, transformer, adapters };

inline Net net(Kind kind) {
    using namespace nn;
    switch (kind) {
        case Kind::mclr: return Net(features, chain(Linear{classes}));
        case Kind::conv:
            return Net(Shape(1, 8, 8), chain(Conv2d{.outputs = 4, .pad = 1}, Relu{}, MaxPool2d{}, Linear{classes}));
        case Kind::group_norm:
            return Net(Shape(1, 8, 8), chain(Conv2d{.outputs = 4}, GroupNorm{2}, Relu{}, Linear{classes}));
        case Kind::batch_norm: return Net(features, chain(Linear{8}, BatchNorm{}, Relu{}, Linear{classes}));
        case Kind::lstm: return Net(Shape(8, 8), chain(Lstm{6}, last_position(), Linear{classes}));
        case Kind::transformer:
            return Net(Shape(8, 8), chain(residual(Attention{2}), LayerNorm{}, last_position(), Linear{classes}));
        case Kind::adapters: return Net(features, chain(Linear{8}, bottleneck(3), Relu{}, Linear{classes}));
        case Kind::dnn: break;
    }
    return Net(features, chain(Linear{8}, Relu{}, Linear{classes}));
}
template <class M>
M made(Kind kind) {
    if constexpr (std::is_same_v<M, Net>) return net(kind);
    else if constexpr (std::is_same_v<M, TunedNet>) return TunedNet(net(kind), initial_parameters(net(kind), Key{1}));
    else return M{};
}
inline const data::FederatedDataset& task() {
    static const auto all = data::synthetic({.alpha = 0.5, .beta = 0.5, .clients = 5, .seed = 3, .features = features,
                                             .classes = classes, .max_examples = 16});
    return all;
}

// The last task first, by so many workers in turn.
struct Turns {
    static constexpr Offers offers{};
    std::size_t workers = 1;
    std::size_t concurrency() const { return workers; }
    void for_each(std::size_t tasks, auto&& body) const {
        for (std::size_t task = tasks; task-- > 0;) body(task, task % workers);
    }
};

// "name=value,..." to every setting of that name; "?" before a name: where there is one.
template <class Me>
void say(Me& method, std::string_view words) {
    while (!words.empty()) {
        const auto end = std::min(words.find(','), words.size()), equals = words.find('=');
        const bool perhaps = words[0] == '?';
        const auto name = words.substr(perhaps, equals - perhaps);
        const bool known = set_by_name(method, name, words.substr(equals + 1, end - equals - 1));
        if (!known && !perhaps) throw Error("no setting " + std::string(name));
        words.remove_prefix(std::min(end + 1, words.size()));
    }
}
inline constexpr std::string_view small = "?kd_steps=2,?kd_batch=4,?inner_steps=2,?steps=2,?clients=3,?width=4,?hidden=1,"
                                          "?gate.first=4,?gate.second=4,?pruning.prune_rate=0.3,?pruning.accuracy=0";

// What ten rounds take from the heap after eight, in which every client trains and pruning comes to its end: smaller
// models are blocks of other sizes. Samples drawn with noise vary in size, so the arenas of such a run go on growing:
// nothing is said of them.
template <class Run>
std::size_t taken_when_warm(Run run) {
    const sample::Uniform sampler{.count = 3, .everyone_trains = true};
    for (int r = 0; r < 8; ++r) run.round(sampler, Turns{1});
    const std::size_t before = support::allocations;
    for (int r = 0; r < 10; ++r) run.round(sampler, Turns{1});
    return support::allocations - before;
}

// "holds", "refused: SENTENCE" or "broken: WHAT".
template <class Me, class M = Net>
std::string verdict(std::string_view settings, Kind kind) {
    using R = real<M>;
    using Run = Federation<Me, M>;
    Me method{};
    const ClientData open_data{&task().pool().examples(), task()[0].train};
    const M model = made<M>(kind);
    const auto run = [&] { return Run(model, task(), method, {.seed = 5, .batch = 5, .rounds = 2}, {}, open_data); };
    try {
        say(method, small);
        say(method, settings);
        run();
    } catch (const ConfigError& e) {
        return "refused: " + std::string(e.what());
    } catch (const std::exception& e) {
        return "broken: before round one: " + std::string(e.what());
    }
    try {
        const sample::Uniform sampler{.count = 3};
        Run first = run(), second = run(), third = run();
        second.over_the_wire();
        const auto one = first.round(sampler, Turns{1}), wired = second.round(sampler, Turns{2});
        if (one.diverged > 0 || !one.outcome.counted) return "broken: the first round did not count";
        if (one.state == third.fingerprint()) return "broken: a round changed nothing";
        if (one.state != wired.state) return "broken: two workers over the wire differ from one in memory";
        Bytes bytes;
        first.save(bytes);
        Reader in(bytes);
        third.restore(in);
        const auto last = first.round(sampler, Turns{3});
        if (last.diverged > 0 || !last.outcome.counted) return "broken: the second round did not count";
        if (last.state != third.round(sampler, Turns{1}).state) return "broken: restored differs from uninterrupted";
        Workspace<R> workspace;
        bool finite = true;
        for (Id k = 0; k < first.size(); ++k)
            first.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
                const auto predict = client.serve(std::move(received), first.rounds_done(), space);
                const auto ids = first.data()[k].train;
                Vec<R> out(ids.size() * model.outputs());
                predict(Batch<R>(*first.data()[k].examples, ids), Out<R>(out));
                finite = finite && all_finite(out);
            });
        if (!finite) return "broken: an answer is not finite";
        if (!tessera::detail::somewhere_offers<Me>(offer::adds_noise))
            if (const std::size_t taken = taken_when_warm(run()))
                return "broken: ten warm rounds took " + std::to_string(taken) + " blocks from the heap";
        return "holds";
    } catch (const std::exception& e) {
        return "broken: " + std::string(e.what());
    }
}

struct Cell {
    const char* name;
    std::string (*verdict)(std::string_view, Kind);
    const char* settings = "";
    Kind kind = Kind::dnn;
};
// A line a cell; 1 if one is broken.
template <std::size_t N>
int told(const std::array<Cell, N>& cells) {
    bool broken = false;
    for (const Cell& cell : cells) {
        const std::string said = cell.verdict(cell.settings, cell.kind);
        std::printf("%s\t%s\n", cell.name, said.c_str());
        std::fflush(stdout);
        broken = broken || said.starts_with("broken");
    }
    return broken;
}

}  // namespace matrix
