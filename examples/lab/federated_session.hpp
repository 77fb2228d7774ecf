// SPDX-License-Identifier: BSD-3-Clause
// A stage of one method: settings by name, and what only the method's own types can do.
#pragma once

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/method/coded.hpp>
#include <tessera/runtime/at_home.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/runtime/controls.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/export.hpp>
#include <tessera/sample/uniform.hpp>
#include <tessera/store/log.hpp>

#include "analyses.hpp"
#include "methods.hpp"
#include "metrics.hpp"
#include "ranks.hpp"
#include "session.hpp"
#include "settings.hpp"
#include "shifts.hpp"
#include "wire_codec.hpp"

namespace lab {

// Of a method whose split is chosen at run time.
template <class Me>
concept Scoped = requires(Me method) { method.own = tessera::scope::Chosen{}; };

// Of a method whose uploads go through a codec.
template <class Me>
concept OverCodec = requires(Me method) { method.up = WireCodec{}; };

// A method as the lab runs it where nobody says otherwise. Specialised where the library's own default is a paper's
// letter, kept for the sake of comparison, and not what somebody who names the method should get.
template <class Me>
struct Usual {
    static Me method() { return {}; }
};

template <class Me>
Me method_of(const Options& o) {
    Me method = Usual<Me>::method();
    if constexpr (OverCodec<Me>) {
        method.up = WireCodec::of(o.codec);
        method.feedback = method.up.keeps_lost() ? tessera::Feedback::on : tessera::Feedback::off;
    }
    set_all(tessera::detail::settings_in(method), o);
    if constexpr (Scoped<Me>) {
        method.own = tessera::scope::Chosen(*o.scope);
    } else if constexpr (OverCodec<Me>) {
        if constexpr (Scoped<tessera::detail::inner_t<Me>>) method.inner.own = tessera::scope::Chosen(*o.scope);
    }
    return method;
}

template <class Me>
class FederatedSession final : public Session {
    using Run = tessera::Federation<Me, Model>;
    static constexpr bool personal = tessera::detail::serves_own<Me>();
    static constexpr bool global = tessera::detail::HasGlobalModel<Me, Model>;

public:
    FederatedSession(const Stage& stage, const Task& task, tessera::Vec<float> warm_start)
        : FederatedSession(method_of<Me>(stage.options), stage, task, std::move(warm_start)) {}

    bool leaves_model() const override { return global; }
    tessera::Vec<float> model() const override {
        if constexpr (global) return tessera::detail::global_parameters(run_);
        else return {};
    }
    void write_models(const std::string& path) const override { tessera::write_models(path, run_); }
    std::string identity() const override { return tessera::detail::identity_of(run_, name()); }

private:
    FederatedSession(Me method, const Stage& stage, const Task& task, tessera::Vec<float> warm_start)
        : Session(stage, in_report(tessera::detail::settings_in(method)), task, warm_start),
          executor_(options().threads, stage.trace.get(), device()),
          run_(federation(method, task.model, warm_start, clients())) {
        if (!options().evaluate_also.empty()) also_ = served_with(options().evaluate_also, "--eval-also", warm_start);
        if (this->stage().tunes) tuned_ = served_with(this->stage().tune, "--stages, tune:", warm_start);
        const auto& examples = clients().pool().examples();
        Analyses<Me, Model>::check(options(), examples);
        if (!global && options().measures("gradient"))
            throw tessera::ConfigError("--metrics gradient: it is taken at the common model, and " + options().algorithm +
                                       " has none");
        if (examples.targets && (options().hits || !options().shifts.empty()))
            throw tessera::ConfigError(std::string(options().hits ? "--hits" : "--shifts") +
                                       ": they count right answers, and real targets have none");
        check_shifts(options(), clients(), images());
        run_.over_the_wire(options().over_the_wire);
        if (auto place = ranks()) run_.spread_over(std::move(place));
    }
    Run federation(Me method, const Model& model, tessera::Vec<float> warm_start,
                   const tessera::data::FederatedDataset& data) const {
        return Run(model, data, std::move(method),
                   {.seed = options().seed,
                    .batch = *options().batch,
                    .rounds = *options().rounds,
                    .quorum = options().quorum,
                    .stateless = options().stateless,
                    .keep_uploads = options().keep_uploads},
                   std::move(warm_start), public_data());
    }
    static bool acts_when_served(std::string_view name) {
        const auto last = name.substr(name.rfind('.') + 1);
        return name.starts_with("tune") || last.starts_with("eval_") || last == "inference";
    }
    // The same run as it would be served with other settings; its state is copied over when it is asked.
    std::unique_ptr<Run> served_with(const NamedValues& settings, const std::string& flag,
                                     const tessera::Vec<float>& warm_start) const {
        auto method = run_.setup().method;
        for (const auto& [name, value] : settings)
            if (!acts_when_served(name))
                throw tessera::ConfigError(flag + " " + name +
                                           ": only settings whose name begins with tune or eval, and inference, act when "
                                           "a model is served");
        set_all(tessera::detail::settings_in(method), options().algorithm, flag, settings);
        return std::make_unique<Run>(federation(std::move(method), run_.setup().model, warm_start, clients()));
    }
    // What is evaluated: the run. Of pooled data, its model in the hands of those whose data they were.
    std::shared_ptr<const Run> judged() const {
        if (!options().pooled) return {std::shared_ptr<const Run>{}, &run_};
        const auto& setup = run_.setup();
        return std::make_shared<const Run>(federation(setup.method, setup.model, model(), population()));
    }

    std::size_t rounds_done() const override { return run_.rounds_done(); }
    Line next_round() override {
        const tessera::sample::Uniform sampler{.count = *options().per_round,
                                               .everyone_trains = *options().trains == "all"};
        executor_.expect_visits(true);
        const auto report = [&] {
            try {
                return run_.round(sampler, executor_);
            } catch (const tessera::Error& e) {
                if (!executor_.lost()) throw;
                remark(std::string(e.what()) + "; the round is done again");  // it has changed nothing
                return run_.round(sampler, executor_);
            }
        }();
        executor_.expect_visits(false);
        for (const auto& sentence : report.remarks) remark(sentence);
        return line_of(report);
    }
    std::string state_hash() const override { return run_.fingerprint().hex(); }
    bool has_personal() const override { return personal; }
    void keep_states_in(const std::string& directory, bool anew) override {
        run_.keep_in(tessera::store::Log{.directory = directory, .anew = anew});
    }
    void save(const tessera::CheckpointDirectory& to, const std::string& name,
              const tessera::Bytes& notes) const override {
        to.save(run_, name, notes);
    }
    std::optional<tessera::CheckpointDirectory::Resumed> load(const tessera::CheckpointDirectory& from,
                                                              const std::string& name) override {
        return from.resume(run_, name);
    }

    template <tessera::Which W, tessera::SplitOf S>
    void score(const Run& run, std::uint8_t served, tessera::Vec<Score>& all) const {
        using tessera::Average;
        const auto result = tessera::evaluate<W, S>(run, executor_);
        Score score{W, S, served, result.quality(Average::pooled).value, result.quality(Average::unweighted).value,
                    result.loss(Average::pooled).value, result.quality(Average::pooled).metric};
        if (run.data().pool().examples().words > 0) {
            score.perplexity = result.perplexity(Average::pooled).value;
            score.perplexity_unweighted = result.perplexity(Average::unweighted).value;
            score.words = result.in_vocabulary(Average::pooled).value;
            score.words_unweighted = result.in_vocabulary(Average::unweighted).value;
        }
        score.word_errors = {result.word_error_rate(Average::pooled).value,
                             result.word_error_rate(Average::unweighted).value};
        if (ModelMetrics more(options(), run.size(), run.setup().model.outputs()); more) {
            tessera::detail::judge_models<W, tessera::Whom::all>(
                run, executor_,
                [&](tessera::Id k, const tessera::ClientData& data, tessera::detail::Predictor<float> predict) {
                    more.judge(k, predict, *data.examples, tessera::detail::examples_of(data, S));
                });
            more.put(score);
        }
        all.push_back(score);
    }
    tessera::Vec<Score> scores(std::uint8_t served) const override {
        using tessera::SplitOf;
        using tessera::Which;
        if (served != as_set) (served == also ? *also_ : *tuned_).mirror(run_);
        const auto as_trained = judged();
        const Run& run = served == as_set ? *as_trained : served == also ? *also_ : *tuned_;
        tessera::Vec<Score> all;
        if constexpr (global)
            if (served == as_set) score<Which::global, SplitOf::test>(run, served, all);
        if constexpr (personal) score<Which::personal, SplitOf::test>(run, served, all);
        if (*options().validation > 0) {
            if constexpr (global)
                if (served == as_set) score<Which::global, SplitOf::validation>(run, served, all);
            if constexpr (personal) score<Which::personal, SplitOf::validation>(run, served, all);
        }
        return all;
    }
    double gradient_norm() const override {
        if constexpr (global) return lab::gradient_norm(run_.setup().model, model(), run_.data());
        else return tessera::report::absent;
    }
    double coherence() const override { return Analyses<Me, Model>::coherence_of(run_, executor_); }

    void judge(tessera::report::RunRecord& record) const override {
        using namespace tessera::report;
        const auto as_trained = judged();
        const Run& run = *as_trained;
        const bool classes = run.data().pool().examples().one_label();
        if (classes)
            note(record, "control, majority class of each client: ",
                 tessera::majority_class(run.data()).accuracy(Average::unweighted).value);
        if constexpr (global) fill(record.per_client, tessera::evaluate<Which::global>(run, executor_));
        if constexpr (personal) fill(record.per_client, tessera::evaluate<Which::personal>(run, executor_));
        if constexpr (global && personal) {
            double sum = 0;
            std::size_t judges = 0;
            for (const auto& row : record.per_client)
                if (row.n_test > 0) sum += std::max(row.accuracy_global, row.accuracy_personal), ++judges;
            if (judges > 0 && classes)
                note(record, "control, oracle best of global and personal per client: ",
                     sum / static_cast<double>(judges));
        }
        if (options().hits) {
            if constexpr (global) keep_hits<Which::global>(run, record, &ClientRecord::hits_global);
            if constexpr (personal) keep_hits<Which::personal>(run, record, &ClientRecord::hits_personal);
        }
        Analyses<Me, Model>::add(run, options(), executor_, record);
        if constexpr (personal)
            if (tuned_ && options().analyses("clients")) {
                tuned_->mirror(run_);
                record.add(analysis::final_fine_tuning(tessera::evaluate<Which::personal>(run, executor_),
                                                       tessera::evaluate<Which::personal>(*tuned_, executor_)));
            }
        if (!options().shifts.empty())
            add_shifts<global, personal>(run, images(), options(), executor_, tag(as_set), record);
        if (run.data().unseen() == 0) return;
        const auto unseen = [&]<Which W>() {
            const auto result = tessera::evaluate<W, SplitOf::test, Whom::unseen>(run, executor_, tag(as_set));
            for (const auto average : {Average::pooled, Average::unweighted})
                record.final_evaluations.push_back(result.quality(average));
        };
        if constexpr (global) unseen.template operator()<Which::global>();
        if constexpr (personal) unseen.template operator()<Which::personal>();
    }
    std::vector<Utterance> speak(tessera::Id k, const Speech& speech) const override {
        const auto as_trained = judged();
        const Run& run = *as_trained;
        const tessera::io::ReadsText reads{run.data().pool().examples().width, run.setup().model.outputs()};
        std::vector<Utterance> all;
        const auto say = [&](tessera::Which model, tessera::detail::Predictor<float> predict) {
            all.push_back({model, tessera::io::continued<float>(predict, speech.prompt, reads, *speech.words, speech.how)});
        };
        if constexpr (global) say(tessera::Which::global, tessera::detail::global_predictor(run));
        if constexpr (personal) {
            tessera::Workspace<float> workspace;
            run.bring(k);
            run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
                say(tessera::Which::personal, client.serve(std::move(received), run.rounds_done(), space));
            });
        }
        return all;
    }
    void tell_spent(tessera::report::RunRecord& record) const override {
        Analyses<Me, Model>::add_epsilon(run_, stage().name, record);
    }
    bool draws_afresh() const override { return tessera::draws_afresh(run_.setup().method); }
    template <tessera::Which W>
    void keep_hits(const Run& run, tessera::report::RunRecord& record,
                   std::string tessera::report::ClientRecord::*hits) const {
        namespace detail = tessera::detail;
        auto& rows = record.per_client;
        std::vector<std::string> all(run.size());
        detail::judge_models<W, tessera::Whom::all>(
            run, executor_, [&](tessera::Id k, const tessera::ClientData& data, detail::Predictor<float> predict) {
                std::vector<std::uint8_t> right;
                detail::score(run.setup().model, k, predict, *data.examples, data.test, &right);
                for (const auto one : right) all.at(k) += one ? '1' : '0';
            });
        detail::know_everywhere(run, all);
        for (std::size_t k = 0; k < all.size(); ++k) rows.at(k).*hits += all[k];
    }
    static void note(tessera::report::RunRecord& record, const std::string& what, double share) {
        char text[32];
        std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
        record.notes.push_back(what + text + " (mean over clients)");
    }

    TracedExecutor executor_;
    Run run_;
    std::unique_ptr<Run> also_, tuned_;
};

template <class Me>
Entry entry(std::string name, std::string what, bool trains_all = false) {
    return {std::move(name),
            std::move(what),
            tessera::settings_of(Usual<Me>::method()),
            Scoped<Me>,
            trains_all,
            [](const Options& o) { tessera::detail::validate_all(method_of<Me>(o)); },
            [](const Stage& stage, const Task& task, tessera::Vec<float> warm_start) -> std::unique_ptr<Session> {
                return std::make_unique<FederatedSession<Me>>(stage, task, std::move(warm_start));
            }};
}

// The same entry, and with --codec the method with its uploads through that.
template <class Inner>
Entry with_codec(Entry e) {
    using Me = tessera::Coded<Inner, WireCodec>;
    e.takes_codec = true;
    e.check = [check = e.check](const Options& o) {
        if (o.codec.empty()) check(o);
        else tessera::detail::validate_all(method_of<Me>(o));
    };
    e.open = [open = e.open](const Stage& stage, const Task& task,
                             tessera::Vec<float> warm_start) -> std::unique_ptr<Session> {
        if (stage.options.codec.empty()) return open(stage, task, std::move(warm_start));
        return std::make_unique<FederatedSession<Me>>(stage, task, std::move(warm_start));
    };
    return e;
}

}  // namespace lab
