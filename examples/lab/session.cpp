// SPDX-License-Identifier: BSD-3-Clause
#include "session.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <utility>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/report/analysis/coherence_curve.hpp>
#include <tessera/runtime/controls.hpp>
#include <tessera/version.hpp>

#include "interrupt.hpp"
#include "metrics.hpp"
#include "outputs.hpp"
#include "progress.hpp"
#include "provenance.hpp"
#include "ranks.hpp"
#include "stages.hpp"

namespace lab {
namespace {

using tessera::ConfigError;
using tessera::report::Setting;

const std::string not_known = "not known";

// The signal that all ranks know of.
std::int64_t asked_of_all = 0;
bool asked_to_stop() { return ranks() ? asked_of_all != 0 : interrupted(); }

// All of them, or of many the first few and a hash of all.
template <class T>
std::string numbers_in_words(const std::vector<T>& numbers) {
    constexpr std::size_t most = 64, told = 8;
    std::string text;
    const std::size_t shown = numbers.size() > most ? told : numbers.size();
    for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? " " : "") + tessera::detail::text_of(numbers[i]);
    if (shown == numbers.size()) return text;
    tessera::Hasher h;
    h.bytes(numbers.data(), numbers.size() * sizeof(T));
    return text + " ... (" + std::to_string(numbers.size()) + " numbers, hash " + h.finish().hex().substr(0, 16) + ")";
}

std::string in_words(const NamedValues& settings) {
    std::string text;
    for (const auto& [name, value] : settings) text.append(text.empty() ? "" : " ").append(name + "=" + value);
    return text;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words) text.append(text.empty() ? "" : ",").append(word);
    return text;
}

// Everything that decides a stage's numbers, in the order of the report.
Configuration configuration_of(const Stage& stage, const Configuration& of_method) {
    const auto& o = stage.options;
    Configuration all{{"algorithm", o.algorithm},
                      {"preset", o.preset},
                      {"data", *o.data},
                      {"normalise", *o.normalise},
                      {"partition", o.split_unexplained ? not_known + look_in(*o.partition) : *o.partition},
                      {"clients", *o.clients},
                      {"unseen", *o.unseen},
                      {"validation", o.split_unexplained ? Setting(not_known) : Setting(*o.validation)},
                      {"model", *o.model},
                      {"rounds", *o.rounds},
                      {"per_round", *o.per_round},
                      {"trains", *o.trains + " clients"},
                      {"batch", *o.batch},
                      {"seed", o.seed},
                      {"split_seed", o.split_unexplained ? Setting(not_known) : Setting(*o.split_seed)},
                      {"quorum", o.quorum},
                      {"stateless", o.stateless}};
    if (!o.preset.empty()) all.emplace_back("preset_hash", o.preset_hash);
    if (!o.loss.empty()) all.emplace_back("loss", o.loss);
    if (!o.backend.empty()) all.emplace_back("backend", o.backend);
    if (o.aux) all.emplace_back("aux", *o.aux);
    if (!o.augment.empty()) all.emplace_back("augment", joined(o.augment));
    // It draws copies and public data too, and that much of it is known.
    if (o.split_unexplained && (o.aux || !o.augment.empty())) all.emplace_back("drawing_seed", *o.split_seed);
    if (o.scope) all.emplace_back("scope", *o.scope);
    if (!o.split_file.empty()) all.emplace_back("split_file", o.split_file);
    all.insert(all.end(), of_method.begin(), of_method.end());
    return all;
}

std::string spelt(const std::string& v) { return v; }
template <class T>
std::string spelt(const T& v) {
    return tessera::detail::text_of(v);
}

// Of what the server has that clients have not.
std::string aux_fingerprint_of(const PublicData* open, const tessera::data::FederatedDataset& clients) {
    const auto& ids = open ? open->ids : clients.split().server;
    if (ids.empty()) return "none";
    tessera::Hasher h;
    h.add((open ? open->examples : clients.pool()).fingerprint());
    h.bytes(ids.data(), ids.size() * sizeof ids[0]);
    return h.finish().hex();
}

// Labels too: two sets of data may be dealt out in the same way.
std::string test_fingerprint_of(const tessera::data::FederatedDataset& clients) {
    tessera::Hasher h;
    for (std::size_t k = 0; k < clients.size(); ++k) {
        const auto data = clients[k];
        h.bytes(data.test.data(), data.test.size_bytes());
        const auto& e = *data.examples;
        for (const auto i : data.test) {
            for (std::size_t t = 0; e.labels && t < e.labels_each; ++t)
                h.word(static_cast<std::uint64_t>(e.labels[i * e.labels_each + t]));
            if (e.multi_hot) h.bytes(e.multi_hot + i * e.classes, e.classes);
            if (e.targets) h.bytes(e.targets + i * e.targets_each, e.targets_each * sizeof *e.targets);
        }
    }
    return h.finish().hex();
}

tessera::Bytes encoded(const History& history) {
    tessera::Bytes out;
    tessera::put(out, history);
    return out;
}

// Clients of the files that have nothing to train on.
std::vector<std::string> notes_on_data(const Options& o) {
    if (!comes_with_clients(*o.data)) return {};
    const auto& left_out = pool_of(*o.data).left_out;
    if (left_out.empty()) return {};
    std::string names;
    constexpr std::size_t told = 10;
    for (std::size_t i = 0; i < std::min(left_out.size(), told); ++i)
        names.append(i == 0 ? "" : ", ").append(left_out[i]);
    if (left_out.size() > told) names += " and " + std::to_string(left_out.size() - told) + " more";
    return {"left out, since they have nothing to train on: " + names};
}

void check_tests(const tessera::data::FederatedDataset& clients, const Options& o) {
    for (std::size_t k = 0; k < clients.size(); ++k)
        if (!clients[k].test.empty()) return;
    throw ConfigError("--data " + *o.data + ", --partition " + *o.partition +
                      ": no client has an example to test on, so nothing could be measured; clients need more examples "
                      "each: deal them to fewer --clients by another --partition, or name clients by another column");
}

}  // namespace

Task make_task(const Options& o) {
    auto made = make_clients(o);
    auto read = data_in_words(o, made);
    const auto dealt = tessera::data::fingerprint(made.data.split());
    auto clients = less_held_out(std::move(made.data), o);
    check_tests(clients, o);
    auto model = make_model(*o.model, clients.pool().examples(), o.loss, o.backend);
    auto public_data = make_public_data(o, clients.pool().examples(), made.reading);
    Task::Fingerprints fingerprints{.data = made.as_read.fingerprint().hex(),
                                    .dealt = dealt.hex(),
                                    .split = tessera::data::fingerprint(clients.split()).hex(),
                                    .aux = aux_fingerprint_of(public_data.get(), clients),
                                    .test = test_fingerprint_of(clients)};
    const auto images = clients.pool();
    auto notes = notes_on_data(o);
    if (*o.normalise == "standard" && hides_examples(o))
        notes.push_back(
            "--normalise standard read the mean and deviation of all training pixels without noise; no "
            "epsilon covers these two numbers, and unit needs none");
    if (o.split_unexplained)
        notes.push_back("--split-file " + o.split_file +
                        " does not say how it was dealt: partition, split seed and validation share are not known");
    return {.clients = augmented(std::move(clients), o),
            .model = std::move(model),
            .fingerprints = std::move(fingerprints),
            .public_data = std::move(public_data),
            .images = images,
            .notes = std::move(notes),
            .names = std::move(made.names),
            .class_names = class_names_of(o),
            .read = std::move(read),
            .reading = std::move(made.reading)};
}

Session::Session(Stage stage, Configuration of_method, const Task& task, const tessera::Vec<float>& warm_start)
    : stage_(std::move(stage)),
      configuration_(configuration_of(stage_, of_method)),
      population_(task.clients),
      clients_(options().pooled ? tessera::pooled(task.clients) : task.clients),
      images_(task.images),
      public_data_(task.public_data),
      fingerprints_(task.fingerprints),
      client_names_(task.names),
      class_names_(task.class_names),
      read_(task.read),
      reading_(task.reading) {
    configuration_.insert(configuration_.end(), task.facts.begin(), task.facts.end());
    if (stage_.last) notes_ = task.notes;
    notes_.insert(notes_.end(), stage_.notes.begin(), stage_.notes.end());
    check_metrics(options(), population_.pool().examples());
    if (*options().per_round > clients_.size())
        throw ConfigError("--per-round is " + std::to_string(*options().per_round) + ", but there are only " +
                          std::to_string(clients_.size()) + " clients");
    for (const auto& [name, value] : configuration_)
        if (name != "rounds")  // the federation says them where they decide a number
            name_ += name + "=" + std::visit([](const auto& v) { return spelt(v); }, value.value()) + "\n";
    name_ += "kernels=" + std::string(tessera::kernels::active_name()) + "\n";
    // A checkpoint holds the evaluations so far, under this name.
    name_ += "--eval-also=" + in_words(options().evaluate_also) + "\n";
    if (!options().metrics.empty()) name_ += "--metrics=" + joined(options().metrics) + "\n";
    if (!warm_start.empty()) {
        tessera::Hasher h;
        h.bytes(warm_start.data(), warm_start.size() * sizeof(float));
        name_ += "warm start=" + h.finish().hex() + "\n";
    }
}

std::string Session::tag(std::uint8_t served) const {
    if (served == as_set) return stage_.name;
    const std::string how = served == tuned ? "tune" : in_words(options().evaluate_also);
    return stage_.name.empty() || served == tuned ? how : stage_.name + " " + how;
}

std::unique_ptr<Device> Session::device() {
    if (!options().device) return nullptr;
    auto opened = open_device(options().threads);
    if (!opened) remark("--device: this lab was built without the component cuda; the run is on the host");
    return opened;
}

void Session::remark(const std::string& sentence) {
    if (std::ranges::find(notes_, sentence) != notes_.end()) return;
    notes_.push_back(sentence);
    // With --quiet too, for something was asked for and is not done; once, though a run is opened to be checked, then to be run.
    static std::vector<std::string> told;
    if (std::ranges::find(told, sentence) != told.end()) return;
    told.push_back(sentence);
    std::fprintf(stderr, "%s\n", sentence.c_str());
}

Line Session::traced_round() {
    auto* trace = stage_.trace.get();
    if (!trace) return next_round();
    const auto begin = Trace::Clock::now();
    trace->expect("visit", "merge");
    auto line = next_round();
    const auto end = Trace::Clock::now();
    trace->add(Trace::run, "round " + std::to_string(line.round), begin, end);
    trace->add(Trace::run, "visits", begin, trace->first_done());
    trace->add(Trace::run, "merge", trace->first_done(), end);
    return line;
}

tessera::Vec<Score> Session::traced_scores(std::uint8_t served) const {
    const Span span(stage_.trace.get(), "evaluate");
    if (stage_.trace) stage_.trace->expect("evaluate", "evaluate");
    return scores(served);
}

// What a checkpoint would have kept is still in memory, so the run goes on; not where it was asked to stop, nor where
// rounds that come back would be paid for twice.
void Session::keep(const tessera::CheckpointDirectory& checkpoints, FailedOutputs& failed) {
    const auto write = [&] {
        const Span span(stage_.trace.get(), "checkpoint");
        save(checkpoints, name_, encoded(history_));
    };
    if (draws_afresh() || asked_to_stop()) return writing(write);
    try {
        writing(write);
    } catch (const OutputError& e) {
        if (std::exchange(unkept_, true)) return;  // one sentence is enough
        failed.add(e);
        if (!options().quiet) std::fprintf(stderr, "tessera-lab: %s; the run goes on without it\n", e.what());
    }
}

Line Session::judged_round() {
    const auto& o = options();
    const std::size_t before = rounds_done();
    try {
        auto line = traced_round();
        if (!o.evaluates_after(rounds_done())) return line;
        line.scores = traced_scores(as_set);
        if (!o.evaluate_also.empty())
            for (const auto& s : traced_scores(also)) line.scores.push_back(s);
        if (o.analyses("coherence")) line.measured.coherence = coherence();
        if (o.measures("gradient")) line.measured.gradient_norm = gradient_norm();
        return line;
    } catch (const std::exception& e) {
        stopped_ =
            "stopped in round " + std::to_string(before + 1) + " of " + std::to_string(*o.rounds) + ": " + e.what();
        throw;
    }
}

void Session::run(RoundFiles& files, FailedOutputs& failed) {
    const auto& o = options();
    std::optional<tessera::CheckpointDirectory> checkpoints;
    if (!o.checkpoint.empty()) checkpoints.emplace(o.checkpoint, speaks());
    if (o.store == "log")  // without a checkpoint nothing can go on from what a log holds
        keep_states_in(o.checkpoint + "/" + states_folder, tessera::checkpoints_in(o.checkpoint).empty());
    if (checkpoints && o.resume) resume(*checkpoints);
    std::vector<tessera::report::RoundRecord> so_far;
    for (const auto& line : history_.lines) so_far.push_back(record_of(line));
    files.add(so_far);
    const std::string seed = o.seeds.empty() ? "" : "seed " + std::to_string(o.seed);
    Progress progress(seed + (seed.empty() || stage_.name.empty() ? "" : ", ") + stage_.name, rounds_done(), *o.rounds,
                      o.quiet);
    while (rounds_done() < *o.rounds) {
        const std::size_t before = stage_.trace ? stage_.trace->events_of_run() : 0;
        const auto line = judged_round();
        share_interrupt();
        const std::size_t done = rounds_done();
        history_.lines.push_back(line);
        // What is shown is spent, and no round that was shown may be lost.
        if (checkpoints && (draws_afresh() || asked_to_stop() || done % o.checkpoint_every == 0 || done == *o.rounds))
            keep(*checkpoints, failed);
        progress.show(line);
        if (stage_.trace) phases_.emplace_back(line.round, stage_.trace->phases(before));
        files.add(record_of(line));
        if (asked_to_stop()) stop();
    }
}

// The round after which one rank is asked to stop is the last of all. Who is asked after that says so a round later.
void Session::share_interrupt() {
    const auto place = ranks();
    if (!place) return;
    const std::int64_t here = interrupt_asked;
    tessera::Bytes mine;
    tessera::put(mine, here);
    for (const auto& one : place->gather_all(mine))
        if (const auto asked = tessera::decode<std::int64_t>(one); asked != 0 && asked_of_all == 0) {
            asked_of_all = asked;
            interrupt_asked = static_cast<std::sig_atomic_t>(asked);
        }
}

void Session::restore() {
    const auto& o = options();
    if (tessera::checkpoints_in(o.checkpoint).empty())
        throw ConfigError("--checkpoint " + o.checkpoint + ": there is no checkpoint to read");
    if (o.store == "log") keep_states_in(o.checkpoint + "/" + states_folder, false);
    resume(tessera::CheckpointDirectory(o.checkpoint));
}

void Session::stop() {
    const auto& o = options();
    const std::string where =
        "interrupted after round " + std::to_string(rounds_done()) + " of " + std::to_string(*o.rounds);
    stopped_ = where + ", by " + interrupted_by();
    throw Interrupted((stage_.name.empty() ? "" : stage_.name + ": ") + where +
                      (o.checkpoint.empty() ? "; no checkpoint was kept, with --checkpoint DIR a run can be resumed"
                                            : "; it is kept in " + o.checkpoint +
                                                  ", the same command with --resume goes on"));
}

void Session::resume(const tessera::CheckpointDirectory& checkpoints) {
    const auto resumed = load(checkpoints, name_);
    if (!resumed) return;
    if (draws_afresh() && !resumed->refused.empty())
        throw tessera::IoError(options().checkpoint,
                               "the newest checkpoint cannot be read (" + resumed->refused.front() +
                                   "), and what its rounds spent of privacy stands nowhere else; begin a new run");
    const auto& o = options();
    if (rounds_done() > *o.rounds)
        throw ConfigError("--rounds " + std::to_string(*o.rounds) + ": the checkpoint in " + o.checkpoint + " is of round " +
                          std::to_string(rounds_done()) + " already; a run can be made longer, not shorter");
    history_ = tessera::decode<History>(resumed->notes);
    for (auto& line : history_.lines)  // a shorter run judged its last round, which this one may pass by
        if (!o.evaluates_after(static_cast<std::size_t>(line.round))) line.scores.clear(), line.measured = {};
    for (const auto& why : resumed->refused) {
        notes_.push_back("refused: " + why);
        std::fprintf(stderr, "tessera-lab: %s; using the checkpoint before it\n", why.c_str());
    }
    if (!options().quiet)
        std::fprintf(stderr, "%s%sresumed after round %zu\n", stage_.name.c_str(), stage_.name.empty() ? "" : ": ",
                     rounds_done());
}

namespace {
tessera::report::Evaluation gradient_evaluation(double length, const std::string& stage) {
    using namespace tessera::report;
    return {.model = Which::global,
            .when = When::before,
            .on = On::union_of_clients(),
            .split = SplitOf::train,
            .clients = Whom::all,
            .pick = Pick::last(),
            .average = Average::pooled,
            .metric = Metric::gradient_norm,
            .stage = stage,
            .value = length};
}
}  // namespace

tessera::report::RoundRecord Session::record_of(const Line& l) const {
    tessera::report::RoundRecord record{.round = stage_.rounds_before + static_cast<std::size_t>(l.round),
                                        .seconds = l.seconds,
                                        .bytes_up = l.bytes_up,
                                        .bytes_down = l.bytes_down,
                                        .formula_bytes_up = l.formula_up,
                                        .formula_bytes_down = l.formula_down,
                                        .flops = l.flops,
                                        .examples = l.examples,
                                        .train_loss = l.trained > 0 ? l.train_loss : tessera::report::absent,
                                        .trained = l.trained,
                                        .merged = l.merged,
                                        .rejected = l.rejected,
                                        .diverged = l.diverged,
                                        .state_hash = l.state.hex(),
                                        .evaluations = {}};
    for (const auto& s : l.scores)
        for (auto& e : evaluations_of(s, tessera::report::Pick::last(), tag(s.served)))
            record.evaluations.push_back(std::move(e));
    if (std::isfinite(l.measured.gradient_norm))
        record.evaluations.push_back(gradient_evaluation(l.measured.gradient_norm, tag(as_set)));
    const auto timed = std::ranges::lower_bound(phases_, l.round, {}, [](const auto& each) { return each.first; });
    if (timed != phases_.end() && timed->first == l.round) record.phases = timed->second;
    return record;
}

tessera::report::RunRecord Session::record() const {
    using namespace tessera::report;
    RunRecord record{.config = configuration_,
                     .kernel_set = std::string(tessera::kernels::active_name()),
                     .version = tessera::version,
                     .rounds = {},
                     .final_evaluations = {},
                     .per_client = client_rows(),
                     .state_hash = state_hash(),
                     .notes = notes_,
                     .extras = {},
                     .stopped = stopped_,
                     .class_names = class_names_,
                     .provenance = provenance()};
    record.provenance.emplace_back("read", read_);
    if (const auto place = ranks()) record.provenance.emplace_back("ranks", std::to_string(place->ranks()));
    if (!reading_.shift.empty()) {
        record.provenance.emplace_back("normalise_shift", numbers_in_words(reading_.shift));
        record.provenance.emplace_back("normalise_scale", numbers_in_words(reading_.scale));
    }
    if (!reading_.target_shift.empty()) {
        record.provenance.emplace_back("target_shift", numbers_in_words(reading_.target_shift));
        record.provenance.emplace_back("target_scale", numbers_in_words(reading_.target_scale));
    }
    record.set("threads", options().threads);
    if (options().device) record.set("device", std::string("asked for"));
    record.set("data_fingerprint", fingerprints_.data);
    record.set("dealt_fingerprint", fingerprints_.dealt);
    record.set("split_fingerprint", fingerprints_.split);
    record.set("aux_fingerprint", fingerprints_.aux);
    if (!options().evaluate_also.empty()) record.set("eval_also", in_words(options().evaluate_also));
    if (stage_.tunes) record.set("final_tuning", in_words(stage_.tune));
    std::vector<double> measured_at, measured;
    std::uint64_t visits = 0, diverged = 0;
    for (const auto& line : history_.lines) {
        visits += line.trained;
        diverged += line.diverged;
        record.rounds.push_back(record_of(line));
        if (std::isnan(line.measured.coherence)) continue;
        measured_at.push_back(static_cast<double>(record.rounds.back().round));
        measured.push_back(line.measured.coherence);
    }
    if (!measured.empty()) record.add(analysis::coherence_curve(measured_at, measured));
    if (diverged > 0)
        record.notes.push_back((stage_.name.empty() ? "" : "stage " + stage_.name + ": ") + std::to_string(diverged) +
                               " of " + std::to_string(visits) + " visits diverged; what they trained was not kept");
    const auto add = [&](const std::vector<Evaluation>& all) {
        record.final_evaluations.insert(record.final_evaluations.end(), all.begin(), all.end());
    };
    if (!history_.lines.empty())
        for (const auto& s : history_.lines.back().scores) add(evaluations_of(s, Pick::last(), tag(s.served)));
    if (!history_.lines.empty() && std::isfinite(history_.lines.back().measured.gradient_norm))
        add({gradient_evaluation(history_.lines.back().measured.gradient_norm, tag(as_set))});
    const std::size_t several = std::min<std::size_t>(10, evaluated_rounds(history_));
    for (const auto& s : mean_of_last(history_, several))
        add(evaluations_of(s, Pick::mean_last(several), tag(s.served)));
    const bool ended = stopped_.empty();
    if (stage_.tunes && ended)
        for (const auto& s : scores(tuned)) add(evaluations_of(s, Pick::last(), tag(tuned)));
    if (*options().validation > 0) add(best_on_validation());
    if (stage_.last && ended) judge(record), add_speech(record);
    else tell_spent(record);
    return record;
}

// A line of text from the models of whoever has most to test on.
void Session::add_speech(tessera::report::RunRecord& record) const {
    constexpr std::size_t prompted = 20, said = 60;
    const auto* words = vocabulary_of(*options().data);
    if (!words || !speaks(population_.pool().examples())) return;
    std::size_t who = 0;
    for (std::size_t k = 1; k < population_.size(); ++k)
        if (population_[k].test.size() > population_[who].test.size()) who = k;
    const auto data = population_[who];
    const auto& e = *data.examples;
    if (data.test.empty()) return;
    Speech speech{.words = words, .how = {.tokens = said, .temperature = 0.5}};
    const std::size_t read = e.labels_each > 1 ? std::min(prompted, e.width) : e.width;
    for (std::size_t t = 0; t < read; ++t) {
        const std::size_t at = data.test.front() * e.width + t;
        const std::int32_t id = e.storage == tessera::Storage::bytes ? static_cast<const std::uint8_t*>(e.rows)[at]
                                                                     : static_cast<const std::int32_t*>(e.rows)[at];
        if (id != tessera::io::Vocabulary::pad) speech.prompt.push_back(id);
    }
    if (speech.prompt.empty()) return;
    using namespace tessera::report;
    Extra table{.id = "text",
                .title = "What the models say",
                .caption = "How the models of " + (client_names_.empty() ? "client " + std::to_string(who) : client_names_[who]) +
                           ", who has most to test on, go on from the first words of its test data; temperature 0.5, seed 0.",
                .kind = Kind::table};
    Extra::Series line{.name = "text"};
    const auto row = [&](std::string name, const std::vector<std::int32_t>& ids) {
        table.categories.push_back(std::move(name));
        line.y.push_back(absent);
        line.texts.push_back(tessera::io::text_of(*words, ids));
    };
    row("prompt", speech.prompt);
    for (const auto& each : speak(static_cast<tessera::Id>(who), speech))
        row(std::string(word(each.model)) + " model", each.ids);
    table.series.push_back(std::move(line));
    record.add(std::move(table));
}

std::vector<tessera::report::Evaluation> Session::best_on_validation() const {
    using namespace tessera::report;
    const Which model = has_personal() ? Which::personal : Which::global;
    const Line* best = nullptr;
    double most = -std::numeric_limits<double>::infinity();  // R2 has no least value
    for (const auto& line : history_.lines)
        for (const auto& s : line.scores)
            if (s.model == model && s.split == SplitOf::validation && s.served == as_set && s.pooled > most) {
                most = s.pooled;
                best = &line;
            }
    std::vector<Evaluation> all;
    if (best)
        for (const auto& s : best->scores)
            for (auto& e : evaluations_of(s, Pick::best_validation(), tag(s.served))) all.push_back(std::move(e));
    return all;
}

std::vector<tessera::report::ClientRecord> Session::client_rows() const {
    std::vector<tessera::report::ClientRecord> rows;
    for (std::size_t k = 0; k < population_.size(); ++k) {
        const auto data = population_[k];
        tessera::report::ClientRecord row{.id = static_cast<tessera::Id>(k), .n_train = data.train.size()};
        if (!client_names_.empty()) row.name = client_names_[k];
        const auto& e = *data.examples;
        row.labels.assign(e.classes, 0);
        for (const auto i : data.train) {
            for (std::size_t t = 0; e.labels && t < e.labels_each; ++t)
                if (const auto label = e.labels[i * e.labels_each + t]; label >= 0)
                    ++row.labels[static_cast<std::size_t>(label)];
            for (std::size_t c = 0; e.multi_hot && c < e.classes; ++c) row.labels[c] += e.multi_hot[i * e.classes + c];
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

}  // namespace lab
