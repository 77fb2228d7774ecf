// SPDX-License-Identifier: BSD-3-Clause
// Typed evaluation of a federation. Nothing here changes a run: predictors are
// made from copies of what clients keep.
//
//   evaluate<Which::personal>(run)                                  every client's model on its own test data
//   evaluate<Which::global, SplitOf::validation>(run)               the server's model on validation data
//   evaluate<Which::personal, SplitOf::test, Whom::unseen>(run)     clients that never took part
//   evaluate_on_union<Which::personal>(run)                         each model on all clients' test data
//   evaluate_on_shift<Which::personal>(run, "noise:3", images)      each model on a set of nobody's
//   evaluate_auc<Which::personal>(run)                              areas under ROC curves instead of accuracies
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/contracts/executor.hpp>
#include <tessera/core/function_ref.hpp>
#include <tessera/exec/serial.hpp>
#include <tessera/report/analysis/auc.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/score.hpp>
#include <tessera/runtime/at_home.hpp>
#include <tessera/runtime/federation.hpp>

namespace tessera {

using report::Average;
using report::SplitOf;
using report::When;
using report::Which;
using report::Whom;

// A global model is judged before local training, a personal one after it; what clients of a method without personal
// models are served is the server's model, before it.
template <Which W, class Me>
inline constexpr When seen = W == Which::global || !detail::serves_own<Me>() ? When::before : When::after;

namespace detail {

inline std::span<const Index> examples_of(const ClientData& data, SplitOf split) {
    switch (split) {
        case SplitOf::test: return data.test;
        case SplitOf::train: return data.train;
        case SplitOf::validation: return data.validation;
    }
    return {};
}

template <class R>
using Judge = FunctionRef<void(Id client, const ClientData& data, Predictor<R> predict)>;

template <class Me, class M>
concept GivesGlobalModel =
    gives_global<Me>() && requires(const Me& me, const server_t<Me, real<M>>& s, const Vec<real<M>>& w) {
        Vec<real<M>>(global_in(me, s, w));
    };
template <class Me, class M>
concept HasGlobalModel = GivesGlobalModel<Me, M> ||
                         (!gives_global<Me>() && !has_no_global<Me>() &&
                          requires(const server_t<Me, real<M>>& s) { Vec<real<M>>(s.w); });

// The parameters of the server's model. A method whose w is not a whole model offers global(server, initial).
template <class Me, class M>
Vec<real<M>> global_parameters(const Federation<Me, M>& run) {
    const auto& setup = run.setup();
    Vec<real<M>> w;
    if constexpr (GivesGlobalModel<Me, M>) w = global_in(setup.method, run.server(), setup.initial);
    else if constexpr (HasGlobalModel<Me, M>) w = run.server().w;
    else static_assert(sizeof(Me) == 0, "tessera::evaluate: this method has no global model to evaluate");
    if (w.size() != setup.initial.size())
        throw Error("the method gives a global model of " + std::to_string(w.size()) + " parameters, the model has " +
                    std::to_string(setup.initial.size()) + ": is its `global` missing?");
    return w;
}
template <class Me, class M>
auto global_predictor(const Federation<Me, M>& run) {
    using R = real<M>;
    return [&model = run.setup().model, w = global_parameters(run)](const Batch<R>& b, Out<R> out) {
        model.predict(w, b, out);
    };
}

// judge(id, data, predict) for every client that lives here, on the executor; each writes its own slot, and whoever
// reads all of them calls know_everywhere first.
template <Which W, Whom P, class Me, class M, class E, class J>
void for_each_model(const Federation<Me, M>& run, const E& executor, J&& judge) {
    static_assert(P != Whom::sampled, "tessera::evaluate: name all clients or the unseen ones");
    validate_all(executor);
    using R = real<M>;
    std::vector<Workspace<R>> workspaces(executor.concurrency());
    const auto data = [&](std::size_t k) { return P == Whom::unseen ? run.data().unseen(k) : run.data()[k]; };
    if constexpr (W == Which::global) {
        const auto predict = global_predictor(run);
        for_each_at_home<P>(run, executor, [&](std::size_t k, std::size_t) {
            const FlushDenormals flush;
            judge(static_cast<Id>(k), data(k), predict);
        });
    } else {
        for_each_at_home<P>(run, executor, [&](std::size_t k, std::size_t worker) {
            const FlushDenormals flush;
            const auto serve = [&](const auto& client, auto received, Workspace<R>& workspace) {
                judge(static_cast<Id>(k), data(k), client.serve(std::move(received), run.rounds_done(), workspace));
            };
            if constexpr (P == Whom::unseen) run.at_unseen(static_cast<Id>(k), workspaces[worker], serve);
            else run.at_client(static_cast<Id>(k), workspaces[worker], serve);
        });
    }
}

template <Which W, Whom P, class Me, class M, class E>
void judge_models(const Federation<Me, M>& run, const E& executor, Judge<real<M>> judge) {
    for_each_model<W, P>(run, executor, judge);
}

}  // namespace detail

template <Which W, SplitOf S = SplitOf::test, Whom P = Whom::all, class Me, class M, Executor E = exec::Serial>
report::PerClient<W, seen<W, Me>, S, P> evaluate(const Federation<Me, M>& run, const E& executor = {},
                                             std::string stage = {}) {
    std::vector<report::ClientCount> counts(P == Whom::unseen ? run.data().unseen() : run.size());
    detail::judge_models<W, P>(run, executor, [&](Id k, const ClientData& data, detail::Predictor<real<M>> predict) {
        counts[k] = detail::score(run.setup().model, k, predict, *data.examples, detail::examples_of(data, S));
    });
    detail::know_everywhere<P>(run, counts);
    return {report::On::local(), report::Pick::last(), std::move(stage), std::move(counts)};
}

// Global-test: every model on the test data of all clients together.
template <Which W, Whom P = Whom::all, class Me, class M, Executor E = exec::Serial>
report::PerClient<W, seen<W, Me>, SplitOf::test, P> evaluate_on_union(const Federation<Me, M>& run,
                                                                      const E& executor = {}, std::string stage = {}) {
    std::vector<report::ClientCount> counts(P == Whom::unseen ? run.data().unseen() : run.size());
    detail::judge_models<W, P>(run, executor, [&](Id k, const ClientData&, detail::Predictor<real<M>> predict) {
        counts[k].client = k;
        for (std::size_t other = 0; other < run.size(); ++other) {
            const auto data = run.data()[other];
            counts[k].add(detail::score(run.setup().model, k, predict, *data.examples, data.test));
        }
    });
    detail::know_everywhere<P>(run, counts);
    return {report::On::union_of_clients(), report::Pick::last(), std::move(stage), std::move(counts)};
}

// Global-test on data of nobody: every model on all of a named set, such as data::shifted makes.
template <Which W, Whom P = Whom::all, class Me, class M, Executor E = exec::Serial>
report::PerClient<W, seen<W, Me>, SplitOf::test, P> evaluate_on_shift(const Federation<Me, M>& run,
                                                                      std::string_view name,
                                                                      const data::Dataset& shifted,
                                                                      const E& executor = {}, std::string stage = {}) {
    std::vector<report::ClientCount> counts(P == Whom::unseen ? run.data().unseen() : run.size());
    const std::size_t outputs = run.setup().model.outputs();
    const Examples& examples = shifted.examples();
    detail::require(examples.width == run.data().pool().examples().width && examples.classes <= outputs,
                    "evaluate_on_shift: " + std::string(name) + " has " + std::to_string(examples.width) +
                        " features and " + std::to_string(examples.classes) + " classes, the run another number");
    std::vector<Index> all(shifted.size());
    std::iota(all.begin(), all.end(), Index{0});
    const auto judged = [&](Id k, detail::Predictor<real<M>> predict) {
        return detail::score(run.setup().model, k, predict, examples, all);
    };
    if constexpr (W == Which::global) {  // one model: once, and the same for all
        const FlushDenormals flush;
        counts.assign(counts.size(), judged(0, detail::global_predictor(run)));
        for (std::size_t k = 0; k < counts.size(); ++k) counts[k].client = static_cast<Id>(k);
    } else {
        detail::judge_models<W, P>(run, executor, [&](Id k, const ClientData&, detail::Predictor<real<M>> predict) {
            counts[k] = judged(k, predict);
        });
        detail::know_everywhere<P>(run, counts);
    }
    return {report::On::shift(name), report::Pick::last(), std::move(stage), std::move(counts)};
}

namespace detail {

// What macro_auc reads, over one or several sets of examples. A single label is one mark.
template <class R>
struct Rankings {
    std::size_t outputs;
    std::vector<double> scores{};
    std::vector<std::uint8_t> in_class{};

    void add(Predictor<R> predict, const Examples& examples, std::span<const Index> ids) {
        require(examples.labels || examples.multi_hot, "evaluate_auc: these examples have targets, not classes");
        require(examples.multi_hot || examples.one_label(),
                "evaluate_auc: these examples have several labels, not one");
        for_each_answer<R>(predict, examples, ids, outputs, [&](std::size_t, const Batch<R>& batch, In<R> rows) {
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const std::size_t row = i / outputs, c = i % outputs;
                scores.push_back(static_cast<double>(rows[i]));
                in_class.push_back(examples.multi_hot ? batch.in_class(row, c) : batch.label(row) == c);
            }
        });
    }
    report::analysis::ClientAuc of(Id client) const {
        return {client, report::analysis::macro_auc(scores, in_class, outputs), scores.size() / outputs};
    }
};

}  // namespace detail

// Macro AUC of every model on its client's own data.
template <Which W, SplitOf S = SplitOf::test, Whom P = Whom::all, class Me, class M, Executor E = exec::Serial>
report::analysis::AucPerClient<W, seen<W, Me>, S, P> evaluate_auc(const Federation<Me, M>& run, const E& executor = {},
                                                              std::string stage = {}) {
    std::vector<report::analysis::ClientAuc> all(P == Whom::unseen ? run.data().unseen() : run.size());
    detail::judge_models<W, P>(run, executor, [&](Id k, const ClientData& data, detail::Predictor<real<M>> predict) {
        detail::Rankings<real<M>> ranked{run.setup().model.outputs()};
        ranked.add(predict, *data.examples, detail::examples_of(data, S));
        all[k] = ranked.of(k);
    });
    detail::know_everywhere<P>(run, all);
    return {report::On::local(), report::Pick::last(), std::move(stage), std::move(all)};
}

// The same on the test data of all clients together.
template <Which W, Whom P = Whom::all, class Me, class M, Executor E = exec::Serial>
report::analysis::AucPerClient<W, seen<W, Me>, SplitOf::test, P> evaluate_auc_on_union(const Federation<Me, M>& run,
                                                                                   const E& executor = {},
                                                                                   std::string stage = {}) {
    std::vector<report::analysis::ClientAuc> all(P == Whom::unseen ? run.data().unseen() : run.size());
    detail::judge_models<W, P>(run, executor, [&](Id k, const ClientData&, detail::Predictor<real<M>> predict) {
        detail::Rankings<real<M>> ranked{run.setup().model.outputs()};
        for (std::size_t other = 0; other < run.size(); ++other)
            ranked.add(predict, *run.data()[other].examples, run.data()[other].test);
        all[k] = ranked.of(k);
    });
    detail::know_everywhere<P>(run, all);
    return {report::On::union_of_clients(), report::Pick::last(), std::move(stage), std::move(all)};
}

// Both models on the same test examples, label by label.
template <class Me, class M, Executor E = exec::Serial>
auto break_down(const Federation<Me, M>& run, const E& executor = {}, std::string stage = {}) {
    std::vector<std::vector<std::uint8_t>> right(run.size());
    std::vector<report::BreakdownCount> counts(run.size());
    detail::require(!run.data().pool().examples().targets, "break_down: real targets are not hit or missed");
    const auto judged = [&](const ClientData& data, detail::Predictor<real<M>> predict) {
        std::vector<std::uint8_t> hits;
        detail::score(run.setup().model, 0, predict, *data.examples, data.test, &hits);
        return hits;
    };
    detail::judge_models<Which::global, Whom::all>(
        run, executor, [&](Id k, const ClientData& data, detail::Predictor<real<M>> predict) {
            right[k] = judged(data, predict);
        });
    detail::judge_models<Which::personal, Whom::all>(
        run, executor, [&](Id k, const ClientData& data, detail::Predictor<real<M>> predict) {
            counts[k] = report::break_down(k, right[k], judged(data, predict));
        });
    detail::know_everywhere(run, counts);
    using Result = report::Breakdown<When::before, When::after, SplitOf::test, Whom::all>;
    return Result(report::On::local(), report::Pick::last(), std::move(stage), std::move(counts));
}

}  // namespace tessera
