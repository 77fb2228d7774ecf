// SPDX-License-Identifier: BSD-3-Clause
// The text of a preset, line by line. Names are checked here, so that a mistake is told with its line.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/data/partition.hpp>

#include "counts.hpp"
#include "methods.hpp"
#include "nearest.hpp"
#include "pools.hpp"
#include "presets.hpp"
#include "tasks.hpp"

namespace lab {
namespace {

constexpr std::array<std::string_view, 15> keys{"what",      "algorithm", "data",    "normalise", "partition",
                                                "model",     "loss",      "backend", "scope",     "aux",
                                                "clients",   "per-round", "rounds",  "batch",     "before"};
constexpr std::string_view blank = " \t\r";

std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(blank);
    if (first == text.npos) return {};
    return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

// A comment begins a line or follows a blank, so that a path may hold its sign.
std::string_view without_comment(std::string_view line) {
    for (auto at = line.find('#'); at != line.npos; at = line.find('#', at + 1))
        if (at == 0 || blank.find(line[at - 1]) != blank.npos) return line.substr(0, at);
    return line;
}

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> all;
    tessera::detail::for_each_piece(text, ' ', [&](std::string_view word) {
        if (!trimmed(word).empty()) all.emplace_back(trimmed(word));
    });
    return all;
}

// "dirichlet:A" is of the kind dirichlet.
std::string kind_of(std::string_view name) { return std::string(name.substr(0, name.find(':'))); }

template <class Names>
std::vector<std::string> kinds_of(const Names& names) {
    std::vector<std::string> all;
    for (const std::string_view each : names) all.push_back(kind_of(each));
    return all;
}

std::string joined(const std::vector<std::string>& names) {
    std::string all;
    for (const auto& each : names) all.append(all.empty() ? "" : ", ").append(each);
    return all;
}

class PresetReader {
public:
    explicit PresetReader(PresetFile file) { preset_.file = std::move(file); }

    Preset read() && {
        std::string_view rest = preset_.file.text;
        if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // the mark that some editors put first
        while (!rest.empty()) {
            ++line_;
            const auto end = rest.find('\n');
            if (const auto text = trimmed(without_comment(rest.substr(0, end))); !text.empty()) read_line(text);
            rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
        }
        if (preset_.flags.empty() && preset_.set.empty() && preset_.before.empty())
            throw tessera::ConfigError(preset_.file.called() + ": it sets nothing; write KEY = VALUE, a line each");
        return std::move(preset_);
    }

private:
    std::string here() const { return preset_.file.called() + ", line " + std::to_string(line_); }
    [[noreturn]] void refuse(const std::string& why) const { throw tessera::ConfigError(here() + ": " + why); }
    // `why` is followed by what was meant, or by all there is.
    [[noreturn]] void refuse_name(const std::string& why, const std::string& name,
                                  const std::vector<std::string>& known) const {
        const auto meant = perhaps(name, known);
        refuse(why + (meant.empty() ? "; there are " + joined(known) : meant));
    }

    void read_line(std::string_view text) {
        const auto control = std::ranges::find_if(
            text, [](char c) { return c != '\t' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f); });
        if (control != text.end()) refuse("'" + std::string(text) + "' holds a control character");
        if (text.starts_with('[')) return read_section(text);
        const auto equals = text.find('=');
        if (equals == text.npos) refuse("'" + std::string(text) + "' is neither KEY = VALUE nor [set ALGORITHM ...]");
        const std::string key(trimmed(text.substr(0, equals))), value(trimmed(text.substr(equals + 1)));
        if (key.empty()) refuse("the name before = is missing");
        if (value.empty()) refuse(key + " has no value");
        const std::string place = (in_set_ ? "set " + section_ : "") + "=" + key;
        if (std::ranges::find(seen_, place) != seen_.end()) refuse(key + " is set twice");
        seen_.push_back(place);
        if (in_set_) read_setting(key, value);
        else read_flag(key, value);
    }

    void read_section(std::string_view text) {
        auto words = text.ends_with(']') ? words_of(text.substr(1, text.size() - 2)) : std::vector<std::string>{};
        if (words.empty() || words[0] != "set")
            refuse("'" + std::string(text) + "': a section is [set], or [set ALGORITHM ...] for some algorithms");
        words.erase(words.begin());
        std::vector<std::string> known;
        for (const auto& e : catalogue()) known.push_back(e.name);
        section_.clear();
        for (const auto& word : words) {
            if (std::ranges::none_of(known, [&](const auto& name) { return name.starts_with(word); }))
                refuse_name("no algorithm's name begins with " + word, word, known);
            section_.append(section_.empty() ? "" : " ").append(word);
        }
        in_set_ = true;
    }

    void read_setting(const std::string& name, const std::string& value) {
        const Offer offer{section_, name, value, here()};
        std::vector<std::string> known;
        for (const auto& e : catalogue())
            for (const auto& [full, usual] : e.settings) {
                if (!offer.concerns(e.name)) continue;
                if (tessera::detail::means(full, name)) {
                    preset_.set.push_back(offer);
                    return;
                }
                for (auto&& each : {full.substr(full.rfind('.') + 1), full})
                    if (std::ranges::find(known, each) == known.end()) known.push_back(each);
            }
        const auto meant = perhaps(name, known);
        refuse("no algorithm " + (section_.empty() ? "" : "of [set " + section_ + "] ") + "has a setting " + name +
               (meant.empty() ? "; `tessera-lab list ALGORITHM` names its settings" : meant));
    }

    void read_flag(const std::string& key, const std::string& value) {
        if (key == "what") preset_.what = value;
        else if (key == "before") preset_.before = value;
        else {
            check_flag(key, value);
            preset_.flags.emplace_back(key, value);
        }
    }

    // Runs f, whose complaints are about this line.
    template <class F>
    void explained(F&& f) const {
        try {
            f();
        } catch (const tessera::ConfigError& e) {
            refuse(e.what());
        }
    }

    // Of "shards:K" and "dirichlet:A", the number; what feature shifts take they know themselves.
    void check_number(std::string_view piece) const {
        for (const std::string_view name : tessera::data::partition_names()) {
            const auto colon = name.find(':');
            if (kind_of(name) != kind_of(piece)) continue;
            if (colon == name.npos && piece != name) refuse("partition " + std::string(name) + " takes no number");
            if (colon == name.npos) return;
            const auto number = piece.substr(std::min(piece.size(), kind_of(piece).size() + 1));
            const bool whole = name.ends_with(":K");
            double value = 0;
            const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
            const bool sound =
                read.ec == std::errc{} && read.ptr == number.data() + number.size() && std::isfinite(value);
            if (!sound || (whole && count_in(number).value_or(0) == 0) ||
                (name.starts_with("dirichlet") && !(value > 0)))
                refuse("partition " + std::string(name) +
                       (whole ? ": K is a whole number of at least 1" : ": A is a number above 0") + ", not '" +
                       std::string(number) + "'");
        }
    }

    void check_flag(const std::string& key, const std::string& value) const {
        const auto one_of = [&](const std::string& name, const std::vector<std::string>& known) {
            if (std::ranges::find(known, name) == known.end())
                refuse_name("there is no " + key + " '" + name + "'", name, known);
        };
        if (key == "algorithm") {
            std::vector<std::string> known;
            for (const auto& e : catalogue()) known.push_back(e.name);
            one_of(value, known);
        } else if (key == "data") {
            one_of(kind_of(value), kinds_of(data_names));
        } else if (key == "normalise") {
            one_of(value, {normalise_names.begin(), normalise_names.end()});
        } else if (key == "loss") {
            one_of(value, {loss_names.begin(), loss_names.end()});
        } else if (key == "backend") {
            one_of(value, {backend_names.begin(), backend_names.end()});
        } else if (key == "model") {
            if (describes_model(value)) explained([&] { check_described_model(value); });
            else one_of(kind_of(value), kinds_of(model_names));
        } else if (key == "partition") {
            tessera::detail::for_each_piece(value, '+', [&](std::string_view piece) {
                one_of(kind_of(piece), kinds_of(tessera::data::partition_names()));
                check_number(piece);
            });
            explained([&] { tessera::data::feature_shifts(value); });
        } else if (key == "clients" || key == "per-round" || key == "rounds" || key == "batch") {
            const auto count = count_in(value);
            if (!count || (*count == 0 && key != "batch"))
                refuse(key + " is a whole number" + (key == "batch" ? "" : " of at least 1") + ", not '" + value + "'");
        } else if (key == "scope") {
            explained([&] { tessera::scope::Chosen{value}; });
        } else if (key != "aux") {
            refuse_key(key);
        }
    }

    [[noreturn]] void refuse_key(const std::string& key) const {
        for (const auto& e : catalogue())
            for (const auto& [full, usual] : e.settings)
                if (tessera::detail::means(full, key))
                    refuse(key + " is a setting of algorithms; it goes below a line [set]");
        refuse_name("a preset has no key " + key, key, {keys.begin(), keys.end()});
    }

    Preset preset_;
    std::size_t line_ = 0;
    bool in_set_ = false;
    std::string section_;            // algorithms, as in Offer::of
    std::vector<std::string> seen_;  // sections with keys
};

}  // namespace

Preset read_preset(PresetFile file) { return PresetReader(std::move(file)).read(); }

}  // namespace lab
