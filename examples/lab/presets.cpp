// SPDX-License-Identifier: BSD-3-Clause
#include "presets.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/io/file.hpp>

#include "counts.hpp"
#include "methods.hpp"
#include "nearest.hpp"
#include "pools.hpp"

namespace lab {
namespace {

using tessera::ConfigError;
namespace fs = std::filesystem;

constexpr std::string_view variants = "variants/", ending = ".ini", beaten = " [the flag wins]";

// In the order in which they are told.
struct Flag {
    std::string_view name;
    std::optional<std::string> Options::*text = nullptr;
    std::optional<std::size_t> Options::*count = nullptr;
    std::string Options::*word = nullptr;  // empty: not given

    bool given(const Options& o) const {
        return text ? (o.*text).has_value() : count ? (o.*count).has_value() : !(o.*word).empty();
    }
};
constexpr auto flags = std::to_array<Flag>({{"data", &Options::data},
                                            {"normalise", &Options::normalise},
                                            {"partition", &Options::partition},
                                            {"model", &Options::model},
                                            {"loss", nullptr, nullptr, &Options::loss},
                                            {"backend", nullptr, nullptr, &Options::backend},
                                            {"aux", &Options::aux},
                                            {"clients", nullptr, &Options::clients},
                                            {"per-round", nullptr, &Options::per_round},
                                            {"rounds", nullptr, &Options::rounds},
                                            {"batch", nullptr, &Options::batch}});

template <class T>
void fill(std::optional<T>& field, const T& value) {
    if (!field) field = value;
}

std::string text_in(const std::string& path) {
    constexpr std::size_t most = 1 << 20;  // bytes; a preset is a page of text
    const auto bytes = tessera::io::read_file(path, most);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Where presets lie as files; empty where there are none.
std::string folder() {
    if (const char* given = std::getenv("TESSERA_PRESETS"); given && *given) {
        if (!fs::is_directory(given))
            throw ConfigError("TESSERA_PRESETS=" + std::string(given) + ": there is no such folder");
        return given;
    }
    std::error_code none;
    const auto program = fs::read_symlink("/proc/self/exe", none);
    if (none) return "";
    for (const auto& place : {program.parent_path() / "presets",
                              program.parent_path().parent_path() / "share" / "tessera" / "presets"})
        if (fs::is_directory(place, none)) return place.string();
    return "";
}

// By name.
std::vector<PresetFile> preset_files() {
    std::map<std::string, PresetFile> all;
    for (const auto& file : built_in_presets()) all[file.name] = file;
    const fs::path root = folder();
    std::error_code failed;
    if (!root.empty())
        for (const auto& each : fs::recursive_directory_iterator(root, failed)) {
            if (each.path().extension() != ending) continue;
            const auto name = fs::relative(each.path(), root).replace_extension().generic_string();
            all[name] = {name, each.path().string(), text_in(each.path().string())};
        }
    if (failed) throw tessera::IoError(root.string(), "cannot be listed");
    std::vector<PresetFile> sorted;
    for (auto& [name, file] : all) sorted.push_back(std::move(file));
    return sorted;
}

bool is_variant(const PresetFile& file) { return file.name.starts_with(variants); }

std::vector<Preset> read_all(bool of_variants) {
    std::vector<Preset> all;
    for (auto& file : preset_files())
        if (is_variant(file) == of_variants) {
            all.push_back(read_preset(std::move(file)));
            if (const auto& last = all.back(); of_variants && !(last.flags.empty() && last.before.empty()))
                throw ConfigError(last.file.called() + ": a variant has settings below [set] alone");
        }
    return all;
}

// "DIR/mine.ini+am" is a file with a variant; "pfedbred/fmnist-dnn+am" a preset with one.
std::size_t length_of_base(const std::string& name) {
    const auto file = name.find(std::string(ending) + "+");
    if (file != name.npos) return file + ending.size();
    return name.ends_with(ending) ? name.size() : std::min(name.find('+'), name.size());
}

Preset find_preset(const std::string& base) {
    std::vector<std::string> known;
    for (auto& file : preset_files()) {
        if (is_variant(file)) continue;
        if (file.name == base) return read_preset(std::move(file));
        known.push_back(file.name);
    }
    if (base.ends_with(ending)) {
        if (!tessera::io::exists(base)) throw ConfigError("--preset " + base + ": there is no such file");
        return read_preset({base, base, text_in(base)});
    }
    const auto meant = perhaps(base, known);
    throw ConfigError("--preset " + base + ": there is no such preset" + meant + (meant.empty() ? ";" : "") +
                      " `tessera-lab presets` names all, and a file of your own ends in .ini");
}

std::vector<Preset> find_variants(std::string_view tail) {
    std::vector<Preset> found;
    for (const auto all = tail.empty() ? std::vector<Preset>{} : preset_variants(); !tail.empty();) {
        const std::string name(tail.substr(0, tail.find('+', 1)));
        const auto variant = std::ranges::find(all, name, variant_name);
        if (variant == all.end()) {
            std::string known;
            for (const auto& each : all) known.append(known.empty() ? "" : " and ").append(variant_name(each));
            throw ConfigError("--preset: a preset's name may end with " + known + ", not with " + name);
        }
        found.push_back(*variant);
        tail.remove_prefix(name.size());
    }
    return found;
}

std::string in_words(const Offer& s, const Options& given) {
    std::string text = s.name + "=" + s.value;
    if (!s.of.empty()) {
        std::string whose = s.of;
        for (std::size_t at = 0; (at = whose.find(' ', at)) != whose.npos; at += 2) whose.replace(at, 1, ", ");
        text += " (" + whose + ")";
    }
    for (const auto& [name, value] : given.set)
        if (name == s.name) return text.append(beaten);
    for (const auto& [name, value] : given.set)
        if (tessera::detail::means(name, s.name)) text += " [but " + name + "=" + value + "]";
    return text;
}

const std::string* find_flag(const Preset& preset, std::string_view name) {
    const auto found = std::ranges::find(preset.flags, name, &NamedValues::value_type::first);
    return found == preset.flags.end() ? nullptr : &found->second;
}

// What the options hold already wins, and is marked so.
std::vector<std::string> in_words(const Preset& p, const Options& given) {
    std::vector<std::string> all;
    const auto say = [&](std::string_view name, const std::string& value, bool taken) {
        all.push_back(std::string(name).append("=").append(value).append(taken ? beaten : ""));
    };
    if (const auto* value = find_flag(p, "algorithm"))
        say("algorithm", *value, !given.algorithm.empty() || !given.stages.empty());
    for (const auto& flag : flags)
        if (const auto* value = find_flag(p, flag.name))
            say(flag.name, *value, flag.given(given));
    if (const auto* value = find_flag(p, "scope")) say("scope", *value, given.scope.has_value());
    if (!p.before.empty()) say("stages before", "'" + p.before + "'", !given.stages.empty());
    for (const auto& s : p.set) all.push_back(in_words(s, given));
    return all;
}

}  // namespace

bool Offer::concerns(std::string_view algorithm) const {
    std::string_view rest = of;
    while (!rest.empty()) {
        const auto head = rest.substr(0, rest.find(' '));
        if (algorithm.starts_with(head)) return true;
        rest.remove_prefix(std::min(rest.size(), head.size() + 1));
    }
    return of.empty();
}

std::vector<Preset> presets() { return read_all(false); }
std::vector<Preset> preset_variants() { return read_all(true); }
std::string variant_name(const Preset& variant) { return "+" + variant.file.name.substr(variants.size()); }

std::vector<std::string> apply_preset(Options& o) {
    if (o.preset.empty()) return {};
    const auto base = length_of_base(o.preset);
    if (base == 0)
        throw ConfigError("--preset " + o.preset +
                          ": a variant follows the name of a preset; `tessera-lab presets` names all");
    const auto preset = find_preset(o.preset.substr(0, base));
    auto said = in_words(preset, o), plain = in_words(preset, {});
    o.offers = preset.set;
    for (const auto& variant : find_variants(std::string_view(o.preset).substr(base)))
        for (const auto& s : variant.set) {
            said.push_back(in_words(s, o));
            plain.push_back(in_words(s, {}));
            o.offers.push_back(s);
        }
    for (const auto& flag : flags)
        if (const auto* value = find_flag(preset, flag.name); value && !flag.given(o)) {
            if (flag.text) o.*flag.text = *value;
            else if (flag.word) o.*flag.word = *value;
            else o.*flag.count = static_cast<std::size_t>(*count_in(*value));
        }
    if (const auto* value = find_flag(preset, "algorithm"); value && o.algorithm.empty() && o.stages.empty())
        o.algorithm = *value;
    if (const auto* value = find_flag(preset, "scope")) o.offered_scope = *value;
    o.before = preset.before;
    std::string all;
    for (const auto& each : plain) all += each + "\n";
    o.preset_hash = tessera::fingerprint(all).hex().substr(0, 16);
    o.preset_path = preset.file.path;
    return said;
}

PresetInWords preset_in_words(const std::string& name) {
    Options nothing_given;
    nothing_given.preset = name;
    auto pieces = apply_preset(nothing_given);
    return {std::move(pieces), nothing_given.preset_hash, nothing_given.preset_path,
            find_preset(name.substr(0, length_of_base(name))).file.text};
}

namespace {
// `dnn` has a body and a head, as splits need; texts have a label at every position, characters in a byte each.
std::string usual_model(const tessera::Examples& examples) {
    if (examples.words == 0 || examples.labels_each == 1) return "dnn";
    return examples.storage == tessera::Storage::bytes ? "char-lstm" : "word-lstm";
}
}  // namespace

void apply_defaults(Options& o) {
    fill(o.data, std::string("fashion-mnist"));
    const bool synthetic = o.data->starts_with("synthetic");
    const bool owned = comes_with_clients(*o.data);
    fill(o.partition, std::string(synthetic || owned ? "natural" : "dirichlet:0.3"));
    if (!o.model) o.model = owned ? usual_model(pool_of(*o.data).examples.examples()) : "dnn";
    if (owned && o.partition->starts_with("natural")) fill(o.clients, pool_of(*o.data).clients.size());
    fill(o.clients, std::size_t{synthetic ? 30u : 100u});
    const std::size_t seen = *o.clients > *o.unseen ? *o.clients - *o.unseen : *o.clients;
    fill(o.per_round, std::min<std::size_t>(10, seen));
    fill(o.rounds, std::size_t{100});
    fill(o.batch, std::size_t{20});
    fill(o.split_seed, o.seed);
    if (o.algorithm.empty() && o.stages.empty()) o.algorithm = usual_algorithm;
}

}  // namespace lab
