// SPDX-License-Identifier: BSD-3-Clause
#include "stages.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <exception>
#include <sstream>
#include <utility>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/io/weights.hpp>

#include "counts.hpp"
#include "methods.hpp"
#include "outputs.hpp"
#include "server_fold.hpp"
#include "settings.hpp"

namespace lab {
namespace {

using tessera::ConfigError;
using tessera::detail::means;

bool has_setting(const Entry& entry, const std::string& name) {
    const auto has = [&](const std::string& called) {
        return std::ranges::any_of(entry.settings, [&](const auto& s) { return means(s.first, called); });
    };
    return has(name) || (!usual_name(name).empty() && has(usual_name(name)));
}

bool distils(const Entry& entry) { return has_setting(entry, "kd_steps"); }

std::size_t count_of(const std::string& what, const std::string& text, std::size_t least = 1) {
    const auto value = count_in(text);
    if (!value || *value < least)
        throw ConfigError(what + " is a whole number of at least " + std::to_string(least) + ", not '" + text + "'");
    return *value;
}

std::vector<std::vector<std::string>> words_of_stages(const std::string& text) {
    std::vector<std::vector<std::string>> all;
    std::istringstream pieces(text);
    for (std::string piece; std::getline(pieces, piece, ';');) {
        std::istringstream words(piece);
        auto& stage = all.emplace_back();
        for (std::string word; words >> word;) stage.push_back(word);
        if (stage.empty())
            throw ConfigError("--stages: stage " + std::to_string(all.size()) +
                              " is empty; write ALGORITHM NAME=VALUE ..., stages separated by ;");
    }
    return all;
}

// Of what is set for a stage, the names of nothing but server settings that the chosen optimizer passes over.
std::vector<std::string> passed_over(const Options& o) {
    constexpr std::string_view one = "server_adam";
    const auto& all = entry_of(o.algorithm).settings;
    const auto found = std::ranges::find_if(all, [&](const auto& s) { return means(s.first, one); });
    if (found == all.end()) return {};
    const auto prefix = found->first.substr(0, found->first.size() - one.size());
    ServerFold fold;
    auto of_server = tessera::detail::settings_in(fold);
    for (auto& setting : of_server) setting.name = prefix + setting.name;
    const auto concerns_server = [&](const std::string& name) {
        return std::ranges::any_of(of_server, [&](const auto& s) { return means(s.name, name); });
    };
    Options its = o;
    std::erase_if(its.set, [&](const auto& s) { return !concerns_server(s.first); });
    std::erase_if(its.offers, [&](const Offer& s) { return !concerns_server(s.name); });
    set_all(of_server, its);

    std::vector<std::string> unread, names;
    for (const auto& each : fold.unread()) unread.push_back(prefix + each.name);
    const auto judge = [&](const std::string& name) {
        if (concerns_server(name) && std::ranges::all_of(all, [&](const auto& s) {
                return !means(s.first, name) || std::ranges::find(unread, s.first) != unread.end();
            }))
            names.push_back(name);
    };
    for (const auto& [name, value] : its.set) judge(name);
    for (const auto& offer : its.offers) judge(offer.name);
    return names;
}

bool passes_over(const Options& o, const std::string& name) {
    const auto names = passed_over(o);
    return std::ranges::find(names, name) != names.end();
}

bool reads(const Stage& stage, const std::string& name) {
    return has_setting(entry_of(stage.options.algorithm), name) && !passes_over(stage.options, name);
}

// A flag that stages share is for those whose server optimizer reads it, if there is one.
void leave_to_readers(std::vector<Stage>& stages, const NamedValues& shared, const std::vector<NamedValues>& said) {
    for (const auto& [flag, value] : shared) {
        const auto& name = flag;
        if (std::ranges::none_of(stages, [&](const Stage& s) { return reads(s, name); })) continue;
        for (std::size_t i = 0; i < stages.size(); ++i) {
            const bool own = std::ranges::find(said[i], name, &NamedValues::value_type::first) != said[i].end();
            auto& o = stages[i].options;
            if (!own && passes_over(o, name)) std::erase_if(o.set, [&](const auto& s) { return s.first == name; });
        }
    }
}

std::vector<Stage> read_stages(const std::string& text, const Options& common) {
    std::vector<Stage> stages;
    std::vector<NamedValues> all_said;
    for (const auto& words : words_of_stages(text)) {
        const std::string where = "--stages, " + words[0] + ":";
        const auto said = each_once("--stages, " + words[0], {words.begin() + 1, words.end()});
        if (words[0] == "tune") {
            if (stages.empty()) throw ConfigError("--stages: tune comes after the stage whose models it tunes");
            if (said.empty()) throw ConfigError("--stages, tune: say how, as in tune_epochs=5 or tune_steps=1");
            if (stages.back().tunes) throw ConfigError("--stages: one tune after a stage is enough");
            stages.back().tunes = true;
            stages.back().tune = said;
            continue;
        }
        const auto& entry = entry_of(words[0], "--stages");
        Stage stage{.options = common};
        auto& o = stage.options;
        o.algorithm = words[0];
        o.set.clear();
        if (!entry.scoped) o.scope.reset();
        // The stage's own word wins, also over a name that is more qualified.
        const auto has_own = [&](const std::string& name) {
            return std::ranges::any_of(said, [&](const auto& own) { return means(name, own.first); });
        };
        for (const auto& [name, value] : common.set)
            if (has_setting(entry, name) && !has_own(name)) o.set.emplace_back(name, value);
        std::erase_if(o.offers, [&](const Offer& offer) { return has_own(offer.name); });
        for (const auto& [name, value] : said) put_setting(where, name, value, o);
        stages.push_back(std::move(stage));
        all_said.push_back(said);
    }
    leave_to_readers(stages, common.set, all_said);
    return stages;
}

// Without those that a preset puts first.
std::vector<Stage> asked_stages(const Options& o) {
    if (o.stages.empty()) return {{.options = o}};
    if (!o.algorithm.empty()) throw ConfigError("give --algorithm or --stages, not both");
    auto stages = read_stages(o.stages, o);
    if (stages.empty()) throw ConfigError("--stages: write ALGORITHM NAME=VALUE ..., stages separated by ;");
    return stages;
}

void check_shared_flags(const std::vector<Stage>& stages, const Options& common) {
    const auto some = [&](auto&& has) {
        return std::ranges::any_of(stages, [&](const Stage& s) { return has(entry_of(s.options.algorithm)); });
    };
    for (const auto& [name, value] : common.set)
        if (!some([&, n = name](const Entry& e) { return has_setting(e, n); }))
            throw ConfigError("--set " + name + ": no stage has such a setting");
    if (common.scope && !some([](const Entry& e) { return e.scoped; }))
        throw ConfigError("--scope " + *common.scope + ": no stage takes a scope; fedalt, fedsim and ft-part do");
}

// Runs f, whose complaints are about the scope.
template <class F>
void naming_scope(const std::string& scope, F&& f) {
    try {
        f();
    } catch (const ConfigError& e) {
        throw ConfigError("--scope " + scope + ": " + e.what());
    }
}

void check_scope(const std::string& scope, const Model& model) {
    naming_scope(scope, [&] { tessera::on(tessera::scope::Chosen{scope}, model); });
}

void complete(Stage& stage) {
    auto& o = stage.options;
    const auto& entry = entry_of(o.algorithm);
    if (o.scope && !entry.scoped)
        throw ConfigError("--scope " + *o.scope + ": " + o.algorithm +
                          " has a split of its own, or none; fedalt, fedsim and ft-part take a scope");
    if (entry.scoped) {
        if (!o.scope) o.scope = o.offered_scope.value_or(std::string(tessera::scope::Chosen{}.text()));
        naming_scope(*o.scope, [&] { tessera::scope::Chosen{*o.scope}; });
    }
    if (!o.trains) o.trains = entry.trains_all ? "all" : "sampled";
    if (*o.trains != "all" && *o.trains != "sampled")
        throw ConfigError("--trains is all or sampled, not '" + *o.trains + "'");
    constexpr std::size_t most_rounds = 10'000'000;  // what is kept of each fills some 3 GB
    if (*o.rounds > most_rounds)
        throw ConfigError("--rounds " + std::to_string(*o.rounds) + ": at most " + std::to_string(most_rounds) +
                          " are kept account of");
    if (*o.per_round > *o.clients)
        throw ConfigError("--per-round is " + std::to_string(*o.per_round) + ", above --clients " +
                          std::to_string(*o.clients));
    const auto unread = passed_over(o);
    std::erase_if(o.offers,
                  [&](const Offer& offer) { return std::ranges::find(unread, offer.name) != unread.end(); });
}

// What is wrong with a stage's settings. Where it goes away with a line of a preset, or with what the user set, that is named.
void check_settings(const Options& o) {
    const auto& entry = entry_of(o.algorithm);
    const auto sound = [&](auto change) {
        Options other = o;
        change(other);
        try {
            entry.check(other);
        } catch (const ConfigError&) {
            return false;
        }
        return true;
    };
    const auto without = [](std::size_t i) {
        return [i](auto& list) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(i)); };
    };
    try {
        entry.check(o);
    } catch (const ConfigError& e) {
        const std::string what = e.what();
        if (what.starts_with("--")) throw;
        const std::string flag = !o.stages.empty() ? "--stages or --set, " + o.algorithm + ", "
                                 : is_private(o.algorithm) ? "--dp or --set "
                                                           : "--set ";
        for (std::size_t i = 0; i < o.set.size(); ++i)
            if (sound([&](Options& other) { without(i)(other.set); }))
                throw ConfigError(flag + o.set[i].first + "=" + o.set[i].second + ": " + what);
        if (!sound([](Options& other) { other.offers.clear(); })) throw;
        for (std::size_t i = 0; i < o.offers.size(); ++i) {
            const auto& offer = o.offers[i];
            if (what.starts_with(offer.from)) throw;
            if (sound([&](Options& other) { without(i)(other.offers); }))
                throw ConfigError(offer.from + ": " + offer.name + ": " + what);
        }
        throw ConfigError("--preset " + o.preset + ": " + what);
    }
}

// Copies of an example would leave more traces of it than the accounting of epsilon counts.
void check_augmentation(const std::vector<Stage>& stages, const Options& o) {
    for (const auto& s : stages)
        if (!o.augment.empty() && is_private(s.options.algorithm))
            throw ConfigError("--augment: " + s.options.algorithm +
                              " accounts for each example once, so it trains on no copies");
}

void check(std::vector<Stage>& stages) {
    for (auto& s : stages) {
        complete(s);
        check_settings(s.options);
    }
}

// Runs f, whose complaints are about the stages that a preset puts first.
template <class F>
void naming_preset(const Options& o, F&& f) {
    try {
        f();
    } catch (const ConfigError& e) {
        throw ConfigError("--preset " + o.preset + ", the stages before: " + e.what());
    }
}

// held-out:SHARE acts on any method: it takes examples from the clients, so that methods can be compared on one split.
void check_aux(const std::vector<Stage>& stages, const Options& o) {
    if (!o.aux || o.aux->starts_with("held-out:") || o.analyses("ensemble")) return;
    for (const auto& s : stages)
        if (distils(entry_of(s.options.algorithm))) return;
    throw ConfigError("--aux " + *o.aux + ": " + stages.back().options.algorithm +
                      " reads no public data; perada and feddf do");
}

// The library's own sentence names its arguments, not flags.
std::unique_ptr<Session> opened(const Stage& stage, const Task& task) {
    const auto& entry = entry_of(stage.options.algorithm);
    try {
        return entry.open(stage, task, {});
    } catch (const ConfigError& e) {
        const std::string what = e.what();
        if (what.find("blocks to route between") != what.npos)
            throw ConfigError("--model " + *stage.options.model + ": for this data it has no blocks that " + entry.name +
                              " could route between; mclr, dnn, dnn3, dnn-norm and dnn-adapter have some where the data "
                              "has 784 or 60 features and up to 10 classes, lenet5, cnn, flow-cnn and cifarnet where it "
                              "is pictures that they read");
        if (stage.options.aux || !distils(entry) || what.find("public examples") == what.npos) throw;
        throw ConfigError("--algorithm " + entry.name +
                          ": it distils on public data of the server; give them, as in --aux held-out:0.1");
    }
}

// The name of a stage is its algorithm's; a second one of the same name gets a number.
void name_stages(std::vector<Stage>& stages) {
    std::size_t before = 0;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        auto& s = stages[i];
        s.last = i + 1 == stages.size();
        s.rounds_before = before;
        for (std::size_t j = 0; j < i; ++j) s.before.push_back(stages[j].options.algorithm);
        before += *s.options.rounds;
        if (stages.size() == 1) continue;
        const auto same = static_cast<std::size_t>(std::ranges::count_if(
            stages.begin(), stages.begin() + static_cast<std::ptrdiff_t>(i),
            [&](const Stage& other) { return other.options.algorithm == s.options.algorithm; }));
        s.name = s.options.algorithm + (same > 0 ? "-" + std::to_string(same + 1) : "");
        if (!s.options.checkpoint.empty()) s.options.checkpoint += "/" + std::to_string(i + 1) + "-" + s.name;
        if (!s.last) {
            s.options.evaluate_also.clear();
            s.options.analyse.clear();
        }
    }
}

// Settings of an earlier stage stand beside those of the last under "STAGE.NAME".
void put_before(tessera::report::RunRecord& last, const tessera::report::RunRecord& earlier, const std::string& stage) {
    for (const auto& [name, value] : earlier.config) {
        const auto* same = last.find(name);
        if (!same || !(*same == value)) last.set(stage + "." + name, value);
    }
    last.rounds.insert(last.rounds.begin(), earlier.rounds.begin(), earlier.rounds.end());
    last.final_evaluations.insert(last.final_evaluations.begin(), earlier.final_evaluations.begin(),
                                  earlier.final_evaluations.end());
    last.notes.insert(last.notes.begin(), earlier.notes.begin(), earlier.notes.end());
}

}  // namespace

void refuse_choice_of_clients(const std::string& algorithm, const std::string& flag) {
    if (algorithm == "centralised")
        throw ConfigError(flag + ": centralised has one client, which holds all data and trains in every round");
}

void put_setting(const std::string& where, const std::string& name, const std::string& value, Options& o) {
    if (name == "per_round" || name == "trains") refuse_choice_of_clients(o.algorithm, where + " " + name);
    if (name == "rounds") o.rounds = count_of(where + " rounds", value);
    else if (name == "per_round") o.per_round = count_of(where + " per_round", value);
    else if (name == "batch" || name == "batch_size") o.batch = count_of(where + " batch", value, 0);
    else if (name == "scope") o.scope = value;
    else if (name == "trains") o.trains = value;
    else o.set.emplace_back(name, value);
}

NamedValues named_values(const std::string& flag, const std::vector<std::string>& texts) {
    NamedValues all;
    for (const auto& text : texts) {
        const auto equals = text.find('=');
        if (equals == std::string::npos || equals == 0) throw ConfigError(flag + " " + text + ": write NAME=VALUE");
        all.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    return all;
}

NamedValues each_once(const std::string& flag, const std::vector<std::string>& texts) {
    auto all = named_values(flag, texts);
    for (auto at = all.begin(); at != all.end(); ++at)
        if (std::find_if(all.begin(), at, [&](const auto& other) { return other.first == at->first; }) != at)
            throw ConfigError(flag + ": " + at->first + " is set twice");
    return all;
}

std::vector<std::string> algorithms_of(const Options& o) {
    std::vector<std::string> names;
    for (const auto& stage : asked_stages(o)) names.push_back(entry_of(stage.options.algorithm).name);
    return names;
}

std::vector<std::string> unread_settings(const Options& o) {
    const auto stages = asked_stages(o);
    std::vector<std::string> names;
    for (const auto& stage : stages)
        for (const auto& name : passed_over(stage.options)) {
            const bool set = std::ranges::find(o.set, name, &NamedValues::value_type::first) != o.set.end();
            if (set && std::ranges::none_of(stages, [&](const Stage& s) { return reads(s, name); }))
                names.push_back(name);
        }
    return names;
}

std::vector<Stage> stages_of(const Options& o) {
    std::vector<Stage> stages;
    if (!o.stages.empty()) {
        stages = asked_stages(o);
        check_shared_flags(stages, o);
    } else {
        entry_of(o.algorithm);
        Options common = o;
        common.set.clear();
        common.scope.reset();
        naming_preset(o, [&] {
            stages = read_stages(o.before, common);
            check(stages);
        });
        stages.push_back({.options = o});
    }
    check(stages);
    check_aux(stages, o);
    check_augmentation(stages, o);
    name_stages(stages);
    return stages;
}

bool hides_examples(const Options& o) {
    const auto one_of = [&](const std::string& text) {
        const auto stages = read_stages(text, o);
        return std::ranges::any_of(stages, [](const Stage& s) { return is_private(s.options.algorithm); });
    };
    return is_private(o.algorithm) || one_of(o.stages) || one_of(o.before);
}

std::string what_split_leaves(const Stage& stage, const Task& task) {
    const auto& entry = entry_of(stage.options.algorithm);
    const std::string scope = stage.options.scope.value_or(entry.own);
    if (scope.empty()) return "";
    const tessera::Layout layout = task.model.layout();
    std::size_t own = 0, all = 0;
    const tessera::scope::Chosen chosen{scope};
    for (const auto& segment : layout) {
        all += segment.end() - segment.offset;
        if (chosen.selects(segment)) own += segment.end() - segment.offset;
    }
    const std::string which = stage.options.algorithm + " with " + (entry.own.empty() ? "--scope " : "personal ") +
                              scope + " and --model " + *stage.options.model + ": ";
    if (own == all)
        return which +
               "all of the model is personal and nothing is shared, so that every client trains for itself, as "
               "local does; dnn has a body below its head";
    if (own == 0) return which + "nothing of the model is personal";
    return "";
}

std::string what_it_costs(const Stage& stage, const Task& task) {
    const auto& o = stage.options;
    const auto value = [&](std::string_view name) {  // 0 where the method has none
        for (const auto& [setting, usual] : entry_of(o.algorithm).settings) {
            if (std::string_view(setting).substr(setting.rfind('.') + 1) != name) continue;
            const auto asked = asked_for(setting, o);
            double number = 0;
            const auto& text = asked.empty() ? usual : asked;
            std::from_chars(text.data(), text.data() + text.size(), number);
            return number;
        }
        return 0.0;
    };
    double examples = 0;
    for (std::size_t k = 0; k < task.clients.size(); ++k) examples += static_cast<double>(task.clients[k].train.size());
    const auto clients = static_cast<double>(task.clients.size()), merged = static_cast<double>(*o.per_round);
    const double each = examples / clients, batch = *o.batch == 0 ? each : static_cast<double>(*o.batch);
    // Passes over a client's data, or as many batches instead; distillation, whose teachers only answer.
    double visit = value("steps") > 0 ? value("steps") * batch : value("epochs") * each;
    visit += value("own_steps") > 0 ? value("own_steps") * batch : value("own_epochs") * each;
    for (const auto* passes : {"local_epochs", "joint_epochs", "epochs_u", "epochs_v", "head_epochs"})
        visit += value(passes) * each;
    visit *= std::max(1.0, value("inner_steps")) * std::max(1.0, value("components"));
    const double server = value("kd_steps") * value("kd_batch") * (1 + merged / 3);
    const double round = (*o.trains == "all" ? clients : merged) * visit + server, plain = merged * each;
    constexpr double worth_a_word = 10;
    if (!(round > worth_a_word * plain)) return "";
    const auto whole = [](double number) { return std::to_string(static_cast<std::uint64_t>(number)); };
    return o.algorithm + ": a round takes gradients of some " + whole(round) + " examples, " + whole(round / plain) +
           " times those of FedAvg with one epoch" +
           (server > 0.5 * round ? ", most of them to distil (kd_steps, kd_batch)" : "");
}

namespace {

// What the first stage begins with: empty unless a file is named.
FirstValues first_values(const Stage& stage, const Task& task) {
    if (stage.options.weights.empty()) return {};
    return read_first_values(
        stage.options, task.model,
        tessera::initial_parameters(task.model, tessera::Key{stage.options.seed}(tessera::purpose::init)));
}

}  // namespace

std::string open_stages(const std::vector<Stage>& stages, const Task& task) {
    std::string all;
    if (const auto begun = first_values(stages.front(), task); !begun.said.empty()) {
        tessera::Hasher h;
        h.bytes(begun.parameters.data(), begun.parameters.size() * sizeof(float));
        all += "weights=" + h.finish().hex() + "\n";
    }
    for (const auto& stage : stages) {
        if (stage.options.scope) check_scope(*stage.options.scope, task.model);
        const auto trial = opened(stage, task);
        if (!stage.last && !trial->leaves_model())
            throw ConfigError("--stages: " + stage.name + " leaves no common model for the next stage to start from");
        if (stage.last && !stage.options.save_weights.empty() &&
            (!trial->leaves_model() || trial->model().size() != tessera::dimension(task.model)))
            throw ConfigError("--save-weights: " + stage.options.algorithm +
                              " leaves no common model of the whole network; --models writes what it has");
        all += trial->identity();
    }
    return all;
}

std::unique_ptr<Session> restored(const std::vector<Stage>& stages, const Task& task) {
    tessera::Vec<float> warm_start;
    std::unique_ptr<Session> last;
    for (const auto& stage : stages) {
        if (last && tessera::checkpoints_in(stage.options.checkpoint).empty()) break;
        auto session = entry_of(stage.options.algorithm).open(stage, task, std::move(warm_start));
        session->restore();
        if (!stage.last) warm_start = session->model();
        last = std::move(session);
    }
    return last;
}

Ran run_stages(const std::vector<Stage>& stages, const Task& task, RoundFiles& files, FailedOutputs& failed) {
    const auto& models = stages.back().options.models;
    std::vector<tessera::report::RunRecord> earlier;
    auto [warm_start, begun] = first_values(stages.front(), task);
    Ran ran;
    for (auto stage : stages) {
        if (!begun.empty()) stage.notes.push_back(std::exchange(begun, {}));
        if (auto said = what_split_leaves(stage, task); !said.empty()) stage.notes.push_back(std::move(said));
        const auto session = entry_of(stage.options.algorithm).open(stage, task, std::move(warm_start));
        try {
            session->run(files, failed);
        } catch (const std::exception&) {
            if (session->stopped().empty()) throw;
            ran.stopped = std::current_exception();
        }
        ran.record = session->record();
        if (ran.stopped || stage.last) {
            if (!models.empty() && !ran.stopped) failed.unless_written([&] { session->write_models(models); });
            if (const auto& to = stages.back().options.save_weights; !to.empty() && !ran.stopped)
                failed.unless_written([&] {
                    const auto w = session->model();
                    tessera::io::write_weights<float>(to, task.model.layout(), w,
                                                      weight_names_of(*stages.back().options.model));
                });
            break;
        }
        warm_start = session->model();
        earlier.push_back(std::move(ran.record));
    }
    for (std::size_t i = earlier.size(); i-- > 0;) put_before(ran.record, earlier[i], stages[i].name);
    return ran;
}

}  // namespace lab
