// SPDX-License-Identifier: BSD-3-Clause
// One run of one method: settings by name, rounds, checkpoints, evaluations, files.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/io/file.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/report/record.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/runtime/controls.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/export.hpp>
#include <tessera/sample/uniform.hpp>
#include <tessera/version.hpp>

#include "history.hpp"
#include "options.hpp"
#include "outputs.hpp"
#include "progress.hpp"
#include "tasks.hpp"

namespace lab {

using tessera::ConfigError;

template <class Me>
void apply_settings(Me& method, const std::string& algorithm, const Options& o) {
    for (const auto& [name, value] : o.preset_set) tessera::set_by_name(method, name, value);
    for (const auto& [name, value] : o.set) {
        if (tessera::set_by_name(method, name, value)) continue;
        std::string known;
        for (const auto& [each, now] : tessera::settings_of(method)) known.append(known.empty() ? "" : ", ").append(each);
        throw ConfigError("--set " + name + ": " + algorithm + " has no such setting; it has " + known);
    }
}

// Everything that decides a run's numbers, in the order of the report.
template <class Me>
std::vector<std::pair<std::string, tessera::report::Setting>> configuration(const Options& o, const Me& method) {
    std::vector<std::pair<std::string, tessera::report::Setting>> all{
        {"algorithm", o.algorithm},   {"preset", o.preset},       {"data", *o.data},
        {"normalise", *o.normalise},  {"partition", *o.partition}, {"clients", *o.clients},
        {"unseen", o.unseen},         {"validation", o.validation}, {"model", *o.model},
        {"rounds", *o.rounds},        {"per_round", *o.per_round}, {"trains", "sampled clients"},
        {"batch", *o.batch},          {"seed", o.seed},           {"split_seed", *o.split_seed},
        {"quorum", o.quorum},         {"stateless", o.stateless}};
    if (!o.split_file.empty()) all.emplace_back("split_file", o.split_file);
    tessera::detail::for_each_setting(method, "", [&](const std::string& name, const auto& value) {
        if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(value)>>)
            all.emplace_back(name, tessera::detail::text_of(value));
        else
            all.emplace_back(name, value);
    });
    return all;
}

template <class Me>
class Session {
    using Run = tessera::Federation<Me, Model>;
    static constexpr bool personal = tessera::detail::names_serve<Me>;
    static constexpr bool global = tessera::detail::HasGlobalModel<Me, Model>;

public:
    Session(const Options& options, Me method)
        : o_(options),
          configuration_(configuration(o_, method)),
          executor_{o_.threads},
          run_(make_run(std::move(method))) {
        for (const auto& [name, value] : configuration_)
            name_ += name + "=" + std::visit([](const auto& v) { return spelt(v); }, value.value()) + "\n";
        name_ += "kernels=" + std::string(tessera::kernels::active_name()) + "\n";
        name_ += "data fingerprint=" + data_fingerprint() + "\n";
        for (const auto* path : {&o_.json, &o_.csv, &o_.report, &o_.models})
            if (!path->empty()) tessera::io::check_writable(*path);
    }

    int run() {
        std::optional<tessera::CheckpointDirectory> checkpoints;
        if (!o_.checkpoint.empty()) checkpoints.emplace(o_.checkpoint);
        if (checkpoints && o_.resume) resume(*checkpoints);
        run_.over_the_wire(o_.over_the_wire);

        const tessera::sample::Uniform sampler{.count = *o_.per_round};
        {
            Progress progress(run_.rounds_done(), *o_.rounds, o_.quiet);
            while (run_.rounds_done() < *o_.rounds) {
                auto line = line_of(run_.round(sampler, executor_));
                const std::size_t done = run_.rounds_done();
                if (done % o_.evaluate_every == 0 || done == *o_.rounds) line.scores = scores();
                history_.lines.push_back(line);
                progress.show(line);
                if (checkpoints && (done % o_.checkpoint_every == 0 || done == *o_.rounds))
                    writing([&] { checkpoints->save(run_, name_, encoded(history_)); });
            }
        }
        const auto record = final_record();
        if (!o_.quiet) print_summary(record);
        write_outputs(record, o_);
        if (!o_.models.empty()) writing([&] { tessera::write_models(o_.models, run_); });
        return 0;
    }

private:
    Run make_run(Me method) {
        auto clients = make_clients(o_);
        if (clients.size() + clients.unseen() != *o_.clients)
            throw ConfigError("--split-file " + o_.split_file + ": it has " +
                              std::to_string(clients.size() + clients.unseen()) + " clients, --clients asks for " +
                              std::to_string(*o_.clients));
        if (o_.pooled) clients = tessera::pooled(clients);
        auto model = make_model(*o_.model, clients.pool().examples());
        if (*o_.per_round > clients.size())
            throw ConfigError("--per-round is " + std::to_string(*o_.per_round) + ", but there are only " +
                              std::to_string(clients.size()) + " clients");
        return Run(std::move(model), std::move(clients), std::move(method),
                   {.seed = o_.seed,
                    .batch = *o_.batch,
                    .rounds = *o_.rounds,
                    .quorum = o_.quorum,
                    .stateless = o_.stateless});
    }
    static std::string spelt(const std::string& v) { return v; }
    template <class T>
    static std::string spelt(const T& v) {
        return tessera::detail::text_of(v);
    }
    std::string data_fingerprint() const {
        tessera::Hasher h;
        for (std::size_t k = 0; k < run_.size(); ++k)
            for (const auto part : {run_.data()[k].train, run_.data()[k].validation, run_.data()[k].test})
                h.bytes(part.data(), part.size_bytes());
        return h.finish().hex();
    }

    static tessera::Bytes encoded(const History& history) {
        tessera::Bytes out;
        tessera::put(out, history);
        return out;
    }
    void resume(const tessera::CheckpointDirectory& checkpoints) {
        const auto resumed = checkpoints.resume(run_, name_);
        if (!resumed) {
            notes_.push_back("there was no checkpoint to resume; the run began at round 1");
            return;
        }
        history_ = tessera::decode<History>(resumed->notes);
        for (const auto& why : resumed->refused) {
            notes_.push_back("refused: " + why);
            std::fprintf(stderr, "tessera-lab: %s; using the checkpoint before it\n", why.c_str());
        }
        if (!o_.quiet) std::fprintf(stderr, "resumed after round %zu\n", run_.rounds_done());
    }

    template <tessera::Which W, tessera::SplitOf S>
    void score(tessera::Vec<Score>& all) const {
        using tessera::Average;
        const auto result = tessera::evaluate<W, S>(run_, executor_);
        all.push_back({W, S, result.accuracy(Average::pooled).value, result.accuracy(Average::unweighted).value,
                       result.loss(Average::pooled).value});
    }
    tessera::Vec<Score> scores() const {
        using tessera::SplitOf;
        using tessera::Which;
        tessera::Vec<Score> all;
        if constexpr (global) score<Which::global, SplitOf::test>(all);
        if constexpr (personal) score<Which::personal, SplitOf::test>(all);
        if (o_.validation > 0) {
            if constexpr (global) score<Which::global, SplitOf::validation>(all);
            if constexpr (personal) score<Which::personal, SplitOf::validation>(all);
        }
        return all;
    }

    tessera::report::RunRecord final_record() {
        using namespace tessera::report;
        RunRecord record{.config = configuration_,
                         .kernel_set = std::string(tessera::kernels::active_name()),
                         .version = tessera::version,
                         .rounds = {},
                         .final_evaluations = {},
                         .per_client = client_rows(),
                         .state_hash = run_.fingerprint().hex(),
                         .notes = notes_};
        record.set("threads", o_.threads);
        for (const auto& line : history_.lines) record.rounds.push_back(record_of(line));
        const auto add = [&](const std::vector<Evaluation>& all) {
            record.final_evaluations.insert(record.final_evaluations.end(), all.begin(), all.end());
        };
        if (!history_.lines.empty())
            for (const auto& s : history_.lines.back().scores) add(evaluations_of(s, Pick::last()));
        const std::size_t several = std::min<std::size_t>(10, evaluated_rounds(history_));
        for (const auto& s : mean_of_last(history_, several)) add(evaluations_of(s, Pick::mean_last(several)));
        if (o_.validation > 0) add(best_on_validation());
        finish(record, add);
        return record;
    }
    // What needs the models at hand: per-client results, clients never seen, controls.
    void finish(tessera::report::RunRecord& record, const auto& add) {
        using namespace tessera::report;
        const auto majority = tessera::majority_class(run_.data());
        note(record, "control, majority class of each client: ", majority.accuracy(Average::unweighted).value);
        if constexpr (global) {
            const auto g = tessera::evaluate<Which::global>(run_, executor_);
            fill(record.per_client, g);
            if (run_.data().unseen() > 0) {
                const auto u = tessera::evaluate<Which::global, SplitOf::test, Whom::unseen>(run_, executor_);
                add({u.accuracy(Average::pooled), u.accuracy(Average::unweighted)});
            }
            if constexpr (personal) {
                const auto p = tessera::evaluate<Which::personal>(run_, executor_);
                const auto best = tessera::oracle_best_of(g, p);
                double sum = 0;
                for (const double a : best) sum += a;
                note(record, "control, oracle best of global and personal per client: ",
                     sum / static_cast<double>(best.size()));
            }
        }
        if constexpr (personal) {
            fill(record.per_client, tessera::evaluate<Which::personal>(run_, executor_));
            if (run_.data().unseen() > 0) {
                const auto u = tessera::evaluate<Which::personal, SplitOf::test, Whom::unseen>(run_, executor_);
                add({u.accuracy(Average::pooled), u.accuracy(Average::unweighted)});
            }
        }
    }
    static void note(tessera::report::RunRecord& record, const std::string& what, double share) {
        char text[32];
        std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
        record.notes.push_back(what + text + " (mean over clients)");
    }
    std::vector<tessera::report::Evaluation> best_on_validation() const {
        using namespace tessera::report;
        const Which model = personal ? Which::personal : Which::global;
        const Line* best = nullptr;
        double most = -1;
        for (const auto& line : history_.lines)
            for (const auto& s : line.scores)
                if (s.model == model && s.split == SplitOf::validation && s.pooled > most) {
                    most = s.pooled;
                    best = &line;
                }
        std::vector<Evaluation> all;
        if (best)
            for (const auto& s : best->scores)
                for (auto& e : evaluations_of(s, Pick::best_validation())) all.push_back(std::move(e));
        return all;
    }
    std::vector<tessera::report::ClientRecord> client_rows() const {
        std::vector<tessera::report::ClientRecord> rows;
        for (std::size_t k = 0; k < run_.size(); ++k) {
            const auto data = run_.data()[k];
            tessera::report::ClientRecord row{.id = static_cast<tessera::Id>(k), .n_train = data.train.size(), .labels = {}};
            row.labels.assign(data.examples->classes, 0);
            for (const auto i : data.train) ++row.labels[static_cast<std::size_t>(data.examples->labels[i])];
            rows.push_back(std::move(row));
        }
        return rows;
    }

    Options o_;
    std::vector<std::pair<std::string, tessera::report::Setting>> configuration_;
    tessera::exec::OpenMp executor_;
    Run run_;
    std::string name_;
    History history_;
    std::vector<std::string> notes_;
};

}  // namespace lab
