// SPDX-License-Identifier: BSD-3-Clause
// Figures that --analyse adds to the report of a run.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/method/privacy_statement.hpp>
#include <tessera/report/analysis/class_loss.hpp>
#include <tessera/report/analysis/clients.hpp>
#include <tessera/report/analysis/masks.hpp>
#include <tessera/report/analysis/memory.hpp>
#include <tessera/report/coherence.hpp>
#include <tessera/runtime/at_home.hpp>
#include <tessera/runtime/class_loss.hpp>
#include <tessera/runtime/ensemble.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/routing.hpp>
#include <tessera/runtime/theory.hpp>

#include "nearest.hpp"
#include "options.hpp"

namespace lab {

// Of the client that paid most.
inline std::string epsilon_in_words(const tessera::report::analysis::PrivacyStatement& s) {
    const double most = *std::ranges::max_element(s.epsilon);
    if (!std::isfinite(most)) return "epsilon infinite: nothing is hidden";
    char text[80];
    std::snprintf(text, sizeof text, "epsilon at most %.4g at delta %g", most, s.delta);
    return text + (" (noise: " + s.noise + ")");
}

// Of what a method that distils is without it: it is asked for the same distances, on public data that it does not read.
template <class Me>
inline constexpr bool control_of_distillation = false;

// What a method can be asked for, by its types.
template <class Me, class M>
struct Analyses {
    using Run = tessera::Federation<Me, M>;
    static constexpr bool losses = tessera::detail::serves_own<Me>();
    static constexpr bool clients = losses && tessera::detail::HasGlobalModel<Me, M>;
    static constexpr bool memory = requires(const Me& me, const M& model) { tessera::on(me.own, model); };
    static constexpr bool theory = requires(const Run& run) { tessera::split_point(run, 0); };
    static constexpr bool coherence = requires(const Me& me) { me.envelope(); };
    static constexpr bool ensemble = control_of_distillation<Me> || requires(const Me& me) { me.fold.kd_steps; };
    static constexpr bool routing = requires(const Me& me) { me.gate, me.routing; };
    static constexpr bool masks = requires(const Run& run) { run.server().mask(tessera::Id{}); };

    static void check(const Options& o, const tessera::Examples& examples) {
        constexpr std::array<std::pair<std::string_view, bool>, 8> known{{{"clients", clients},
                                                                          {"losses", losses},
                                                                          {"memory", memory},
                                                                          {"theory", theory},
                                                                          {"coherence", coherence},
                                                                          {"ensemble", ensemble},
                                                                          {"routing", routing},
                                                                          {"masks", masks}}};
        for (const auto& asked : o.analyse) {
            std::string can, there_are;
            std::vector<std::string> all;
            bool fits = false;
            for (const auto& [name, has] : known) {
                all.emplace_back(name);
                there_are.append(there_are.empty() ? "" : ", ").append(name);
                if (has) can.append(can.empty() ? "" : ", ").append(name);
                fits = fits || (has && name == asked);
            }
            if (std::ranges::find(all, asked) == all.end()) {
                const auto meant = perhaps(asked, all);
                throw tessera::ConfigError("--analyse " + asked + ": there is no such analysis" +
                                           (meant.empty() ? "; there are " + there_are : meant));
            }
            if (!fits)
                throw tessera::ConfigError("--analyse " + asked + ": of " + o.algorithm + " the lab can show " +
                                           (can.empty() ? "nothing more" : can));
            const bool answers = asked == "clients" || asked == "ensemble";
            if ((answers && examples.targets) || (asked == "losses" && !examples.labels) ||
                (asked == "routing" && !examples.one_label()))
                throw tessera::ConfigError("--analyse " + asked + ": it looks at answers class by class, and " + *o.data +
                                           " is labelled otherwise");
            if (asked == "ensemble" && o.pooled)
                throw tessera::ConfigError("--analyse ensemble: " + o.algorithm + " has one client, and no ensemble");
            if (asked == "ensemble" && !o.aux)
                throw tessera::ConfigError("--analyse ensemble: it compares answers to public data of the server; give "
                                           "them, as in --aux held-out:0.1");
        }
    }

    template <class E>
    static void add(const Run& run, const Options& o, const E& executor, tessera::report::RunRecord& record) {
        using namespace tessera::report;
        namespace figures = tessera::report::analysis;
        if constexpr (clients)
            if (o.analyses("clients")) {
                fill(record.per_client, tessera::evaluate<Which::global, SplitOf::train>(run, executor));
                fill(record.per_client, tessera::evaluate<Which::personal, SplitOf::train>(run, executor));
                figures::add_client_figures(record);
                record.add(figures::breakdown_bars(tessera::break_down(run, executor).shares()));
            }
        if constexpr (losses)
            if (o.analyses("losses")) {
                record.add(figures::loss_deviation_on_own(tessera::class_losses<Which::personal>(run, executor)));
                record.add(
                    figures::loss_deviation_on_union(tessera::class_losses_on_union<Which::personal>(run, executor)));
            }
        if constexpr (memory) {
            const std::size_t d = run.setup().initial.size();
            const std::size_t personal = tessera::on(run.setup().method.own, run.setup().model).size(d);
            record.set("personal_parameters", personal);
            if (o.analyses("memory")) record.add(figures::memory_estimate(d - personal, personal));
        }
        if constexpr (ensemble)
            if (o.analyses("ensemble")) {
                const auto d = tessera::ensemble_distance(run, run.public_data(), executor);
                record.set("ensemble_distance", d.ensemble);
                record.set("distillation_lesson", d.lesson);
                if (!d.personal.empty()) record.set("personal_distance", d.mean_personal());
                record.add(figures::ensemble_figure(d));
            }
        if constexpr (routing)
            if (o.analyses("routing")) {
                const auto all = tessera::routed_clients(run, executor);
                if (const auto* most = figures::most_changed(all)) {
                    record.add(figures::routing_distributions(*most));
                    record.add(figures::routing_table(*most));
                }
                record.add(figures::routing_against_loss(all));
                record.add(figures::routing_worth(all));
                record.add(figures::routing_by_block(all));
                record.add(figures::routing_cost(tessera::routing_cost_of(run)));
            }
        if constexpr (masks)
            if (o.analyses("masks"))
                figures::add_mask_figures(record, run.setup().model.layout(), run.server(), run.size());
        if constexpr (requires { tessera::privacy_statement(run); }) {
            const auto statement = tessera::privacy_statement(run);
            record.add(figures::privacy_table(statement));
            record.add(figures::privacy_figure(statement));
            add_epsilon(run, "", record);
        }
        if constexpr (theory)
            if (o.analyses("theory"))
                record.add(tessera::theory_table(tessera::theory_constants(run, tessera::TheorySettings{}, executor),
                                                 *o.per_round));
    }

    // What a stage has spent, in a note; `name` is that of an earlier one.
    static void add_epsilon(const Run& run, const std::string& name, tessera::report::RunRecord& record) {
        if constexpr (requires { tessera::privacy_statement(run); }) {
            auto words = (name.empty() ? "" : name + ": ") + epsilon_in_words(tessera::privacy_statement(run));
            if (const auto* covers = record.find("epsilon_covers"))
                words += "; it covers " + tessera::report::detail::shown(*covers);
            record.notes.push_back(std::move(words));
        }
    }

    // Of mu_i - theta_i over all clients, where the run stands.
    template <class E>
    static double coherence_of(const Run& run, const E& executor) {
        if constexpr (coherence) {
            using R = tessera::real<M>;
            std::vector<tessera::Vec<R>> directions(run.size());
            std::vector<tessera::Workspace<R>> workspaces(executor.concurrency());
            tessera::detail::for_each_at_home(run, executor, [&](std::size_t k, std::size_t worker) {
                const auto id = static_cast<tessera::Id>(k);
                auto at = run.setup().context(run.data()[k], id, run.rounds_done(), workspaces[worker]);
                at.serving = true;  // a schedule that has come to its end would leave nothing to measure
                directions[k] = run.setup().method.envelope().gap(at, run.server().w, run.client(id));
            });
            tessera::detail::know_everywhere(run, directions);
            return tessera::report::coherence_per_direction(std::span<const tessera::Vec<R>>(directions));
        } else {
            return tessera::report::absent;
        }
    }
};

}  // namespace lab
