// SPDX-License-Identifier: BSD-3-Clause
#include "run_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>

namespace lab {
namespace {

using namespace tessera::report;
using tessera::ConfigError;
using tessera::Id;
using tessera::IoError;

constexpr int deepest = 64;

// "syntax error while parsing value": the words between the place and what was read, which may be anything.
std::string reason_in(std::string_view what) {
    if (const auto colon = what.find(": "); colon != what.npos) what.remove_prefix(colon + 2);
    what = what.substr(0, what.find("; last read"));
    std::string reason(what);
    std::ranges::replace_if(reason, [](char c) { return c < 0x20 || c > 0x7E; }, '?');
    return reason;
}

const Json::object_t& members_in(const Json& value) {
    static const Json::object_t none;
    return value.is_object() ? value.get_ref<const Json::object_t&>() : none;
}
bool has(const Json& object, std::string_view name) { return !member(object, name).is_null(); }

// A configuration value in the kind it was written in; null is a number that was not finite.
Setting setting_in(const Json& value) {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_string()) return text_in(value);
    if (value.is_number_unsigned()) return value.get<std::uint64_t>();
    if (value.is_number_integer()) return value.get<std::int64_t>();
    return number_in(value, absent);
}

Evaluation evaluation_from(const Json& e) {
    return {.model = parse<Which>(text_in(member(e, "model"))),
            .when = parse<When>(text_in(member(e, "when"))),
            .on = On::parse(text_in(member(e, "on"))),
            .split = parse<SplitOf>(text_in(member(e, "split"))),
            .clients = parse<Whom>(text_in(member(e, "clients"))),
            .pick = Pick::parse(text_in(member(e, "pick"))),
            .average = parse<Average>(text_in(member(e, "average"))),
            .metric = parse<Metric>(text_in(member(e, "metric"))),
            .stage = text_in(member(e, "stage")),
            .value = number_in(member(e, "value"), absent)};
}
std::vector<Evaluation> evaluations_from(const Json& all) {
    std::vector<Evaluation> out;
    for (const auto& each : items_in(all)) out.push_back(evaluation_from(each));
    return out;
}

RoundRecord round_from(const Json& r) {
    const auto count = [&](std::string_view name) { return number_in(member(r, name), std::size_t{0}); };
    RoundRecord out{.round = count("round"),
                    .seconds = number_in(member(r, "seconds"), 0.0),
                    .bytes_up = number_in(member(r, "bytes_up"), std::uint64_t{0}),
                    .bytes_down = number_in(member(r, "bytes_down"), std::uint64_t{0}),
                    .formula_bytes_up = number_in(member(r, "formula_bytes_up"), absent),
                    .formula_bytes_down = number_in(member(r, "formula_bytes_down"), absent),
                    .flops = number_in(member(r, "flops"), absent),
                    .examples = number_in(member(r, "examples"), std::uint64_t{0}),
                    .train_loss = number_in(member(r, "train_loss"), absent),
                    .trained = count("trained"),
                    .merged = count("merged"),
                    .rejected = count("rejected"),
                    .diverged = count("diverged"),
                    .state_hash = text_in(member(r, "state_hash")),
                    .evaluations = evaluations_from(member(r, "evaluations"))};
    for (const auto& phase : items_in(member(r, "phases")))
        out.phases.push_back({text_in(member(phase, "name")), number_in(member(phase, "begin"), absent), number_in(member(phase, "seconds"), absent)});
    return out;
}

ClientRecord client_from(const Json& c) {
    ClientRecord out{.id = number_in(member(c, "id"), Id{0}),
                     .n_train = number_in(member(c, "n_train"), std::size_t{0}),
                     .n_test = number_in(member(c, "n_test"), std::size_t{0}),
                     .accuracy_global = number_in(member(c, "accuracy_global"), absent),
                     .accuracy_personal = number_in(member(c, "accuracy_personal"), absent),
                     .loss_global = number_in(member(c, "loss_global"), absent),
                     .loss_personal = number_in(member(c, "loss_personal"), absent),
                     .train_accuracy_global = number_in(member(c, "train_accuracy_global"), absent),
                     .train_accuracy_personal = number_in(member(c, "train_accuracy_personal"), absent),
                     .r2_global = number_in(member(c, "r2_global"), absent),
                     .r2_personal = number_in(member(c, "r2_personal"), absent),
                     .in_vocabulary_global = number_in(member(c, "in_vocabulary_global"), absent),
                     .in_vocabulary_personal = number_in(member(c, "in_vocabulary_personal"), absent),
                     .word_error_rate_global = number_in(member(c, "word_error_rate_global"), absent),
                     .word_error_rate_personal = number_in(member(c, "word_error_rate_personal"), absent)};
    for (const auto& count : items_in(member(c, "labels"))) out.labels.push_back(number_in(count, std::size_t{0}));
    out.name = text_in(member(c, "name"));
    out.hits_global = text_in(member(c, "hits_global"));
    out.hits_personal = text_in(member(c, "hits_personal"));
    return out;
}

Extra extra_from(const Json& e) {
    const auto numbers = [](const Json& all) {
        std::vector<double> out;
        for (const auto& each : items_in(all)) out.push_back(number_in(each, absent));
        return out;
    };
    const auto texts = [](const Json& all) {
        std::vector<std::string> out;
        for (const auto& each : items_in(all)) out.push_back(text_in(each));
        return out;
    };
    const auto axis = [](const Json& a) {
        return tessera::report::Axis{text_in(member(a, "title")), text_in(member(a, "unit")), has(a, "from_zero"), has(a, "logarithmic"), has(a, "integers")};
    };
    Extra out{.id = text_in(member(e, "id")),
              .title = text_in(member(e, "title")),
              .caption = text_in(member(e, "caption")),
              .kind = parse_kind(text_in(member(e, "kind"))),
              .x = axis(member(e, "x")),
              .y = axis(member(e, "y")),
              .categories = texts(member(e, "categories")),
              .shaded = has(e, "shaded")};
    for (const auto& s : items_in(member(e, "series")))
        out.series.push_back({text_in(member(s, "name")), numbers(member(s, "x")), numbers(member(s, "y")), texts(member(s, "texts")), has(s, "dashed")});
    return out;
}

RunRecord run_from(const Json& run, const std::string& where) {
    if (!has(run, "config") || !has(member(run, "final"), "evaluations"))
        throw IoError(where, "has no config and final.evaluations; it is not the JSON of a run");
    RunRecord out;
    for (const auto& [name, value] : members_in(member(run, "config"))) out.set(name, setting_in(value));
    out.kernel_set = text_in(member(run, "kernel_set"));
    out.version = text_in(member(run, "version"));
    out.stopped = text_in(member(run, "stopped"));
    for (const auto& name : items_in(member(run, "class_names"))) out.class_names.push_back(text_in(name));
    for (const auto& [name, value] : members_in(member(run, "provenance"))) out.provenance.emplace_back(name, text_in(value));
    for (const auto& round : items_in(member(run, "rounds"))) out.rounds.push_back(round_from(round));
    out.final_evaluations = evaluations_from(member(member(run, "final"), "evaluations"));
    for (const auto& client : items_in(member(member(run, "final"), "per_client"))) out.per_client.push_back(client_from(client));
    out.state_hash = text_in(member(member(run, "final"), "state_hash"));
    for (const auto& note : items_in(member(run, "notes"))) out.notes.push_back(text_in(note));
    for (const auto& extra : items_in(member(run, "extras"))) out.add(extra_from(extra));
    return out;
}
}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
    const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
        if (depth > deepest) throw IoError(where, "is not JSON of ours: it is nested too deeply");
        return true;
    };
    try {
        return Json::parse(text, shallow);
    } catch (const Json::parse_error& e) {
        throw IoError(where, "is not JSON, byte " + std::to_string(e.byte) + ": " + reason_in(e.what()));
    } catch (const Json::exception& e) {
        throw IoError(where, "is not JSON that can be read: " + reason_in(e.what()));
    }
}

const Json& member(const Json& object, std::string_view name) {
    static const Json nothing;
    if (!object.is_object()) return nothing;
    const auto found = object.find(name);
    return found == object.end() ? nothing : *found;
}

std::string text_in(const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

const Json& items_in(const Json& value) {
    static const Json none = Json::array();
    return value.is_array() ? value : none;
}

namespace {

std::string read(const std::string& path) {
    const auto bytes = tessera::io::read_file(path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What the library finds wrong with what stands in a file is wrong with the file.
template <class F>
auto of_file(const std::string& where, F&& f) {
    try {
        return f();
    } catch (const ConfigError& e) {
        std::string what = e.what();  // which may quote the text
        std::ranges::replace_if(what, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
        throw IoError(where, what);
    }
}

}  // namespace

std::vector<RunRecord> runs_from_json(std::string_view text, const std::string& where) {
    const Json all = parse_json(text, where);
    return of_file(where, [&] {
        std::vector<RunRecord> out;
        for (const auto& run : items_in(member(all, "runs"))) out.push_back(run_from(run, where));
        if (out.empty()) out.push_back(run_from(all, where));
        return out;
    });
}

std::vector<RunRecord> runs_in(const std::string& path) { return runs_from_json(read(path), path); }

std::vector<Extra> figures_in(const std::string& path) {
    const Json all = parse_json(read(path), path);
    if (!all.is_array()) throw IoError(path, "is not a list of figures");
    return of_file(path, [&] {
        std::vector<Extra> out;
        for (const auto& figure : all) {
            out.push_back(extra_from(figure));
            out.back().validate();
        }
        return out;
    });
}

RoundRecord round_from_json(std::string_view line, const std::string& where) {
    const Json round = parse_json(line, where);
    if (!has(round, "round")) throw IoError(where, "holds no round");
    return round_from(round);
}

}  // namespace lab
