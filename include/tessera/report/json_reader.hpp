// SPDX-License-Identifier: BSD-3-Clause
// Runs back from their JSON: for comparing files long after the runs ended.
//
// The whole grammar of RFC 8259 with a bound on nesting; a number keeps its digits, so that a seed of 64 bits comes
// back whole. What a file lacks reads as absent. Extras are figures for people and are not read back.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report {

class Json {
public:
    struct Null {};
    struct Number {
        std::string digits;
    };
    using Array = std::vector<Json>;
    using Object = std::vector<std::pair<std::string, Json>>;

    Json() = default;
    template <class T>
        requires(!std::same_as<std::remove_cvref_t<T>, Json>)
    explicit Json(T&& value) : value_(std::forward<T>(value)) {}

    // The member of that name, or null.
    const Json& operator[](std::string_view name) const {
        static const Json nothing;
        if (const auto* members = std::get_if<Object>(&value_))
            for (const auto& [known, value] : *members)
                if (known == name) return value;
        return nothing;
    }
    const Array& items() const {
        static const Array none;
        const auto* all = std::get_if<Array>(&value_);
        return all ? *all : none;
    }
    const Object& members() const {
        static const Object none;
        const auto* all = std::get_if<Object>(&value_);
        return all ? *all : none;
    }
    std::string text() const {
        const auto* found = std::get_if<std::string>(&value_);
        return found ? *found : std::string();
    }
    template <class T>
    T number(T otherwise) const {
        T value{};
        return read(value) ? value : otherwise;
    }
    bool has(std::string_view name) const { return !std::holds_alternative<Null>((*this)[name].value_); }

    // A configuration value in the kind it was written in; null is a number that was not finite.
    Setting setting() const {
        if (const auto* flag = std::get_if<bool>(&value_)) return *flag;
        if (std::holds_alternative<std::string>(value_)) return text();
        if (std::uint64_t whole = 0; read(whole)) return whole;
        if (std::int64_t whole = 0; read(whole)) return whole;
        return number(absent);
    }

private:
    template <class T>
    bool read(T& out) const {
        const auto* found = std::get_if<Number>(&value_);
        if (!found) return false;
        const char* end = found->digits.data() + found->digits.size();
        const auto [at, error] = std::from_chars(found->digits.data(), end, out);
        return error == std::errc{} && at == end;
    }
    std::variant<Null, bool, Number, std::string, Array, Object> value_;
};

namespace detail {

class JsonParser {
public:
    JsonParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

    Json document() {
        Json all = value(0);
        space();
        if (at_ != text_.size()) fail("something follows the end of the object");
        return all;
    }

private:
    static constexpr int deepest = 64;

    [[noreturn]] void fail(const char* what) const {
        throw IoError(where_, cat("is not JSON, byte ", digits(at_), ": ", what));
    }
    void space() {
        while (at_ < text_.size() &&
               (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n'))
            ++at_;
    }
    bool take(char c) {
        space();
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    bool take(std::string_view word) {
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }

    Json value(int depth) {
        if (depth > deepest) fail("it is nested too deeply");
        space();
        if (take('{')) return object(depth);
        if (take('[')) return array(depth);
        if (at_ < text_.size() && text_[at_] == '"') return Json(string());
        if (take("true")) return Json(true);
        if (take("false")) return Json(false);
        if (take("null")) return Json();
        return number();
    }
    Json object(int depth) {
        Json::Object members;
        if (take('}')) return Json(std::move(members));
        do {
            space();
            std::string name = string();
            if (!take(':')) fail("a colon is missing");
            members.emplace_back(std::move(name), value(depth + 1));
        } while (take(','));
        if (!take('}')) fail("an object is not closed");
        return Json(std::move(members));
    }
    Json array(int depth) {
        Json::Array items;
        if (take(']')) return Json(std::move(items));
        do items.push_back(value(depth + 1));
        while (take(','));
        if (!take(']')) fail("an array is not closed");
        return Json(std::move(items));
    }
    Json number() {
        const std::size_t begin = at_;
        const auto digit_run = [&] {
            const std::size_t first = at_;
            while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
            if (at_ == first) fail("a value is missing or misspelt");
        };
        take("-");
        if (!take("0")) digit_run();
        if (take(".")) digit_run();
        if (take("e") || take("E")) {
            if (!take("-")) take("+");
            digit_run();
        }
        return Json(Json::Number{std::string(text_.substr(begin, at_ - begin))});
    }
    std::string string() {
        if (at_ == text_.size() || text_[at_] != '"') fail("a text must stand here");
        ++at_;
        std::string out;
        for (;;) {
            if (at_ == text_.size()) fail("a text is not closed");
            const char c = text_[at_++];
            if (c == '"') return out;
            if (static_cast<unsigned char>(c) < 0x20) fail("a control character stands in a text");
            if (c == '\\') escape(out);
            else out += c;
        }
    }
    void escape(std::string& out) {
        constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
        if (at_ == text_.size()) fail("a text is not closed");
        const char c = text_[at_++];
        if (const auto known = names.find(c); known != names.npos) out += meanings[known];
        else if (c == 'u') utf8(out, code_point());
        else fail("an escape is unknown");
    }
    std::uint32_t hex4() {
        std::uint32_t code = 0;
        const std::string_view four = text_.substr(at_, 4);
        const auto [end, error] = std::from_chars(four.data(), four.data() + four.size(), code, 16);
        if (four.size() < 4 || error != std::errc{} || end != four.data() + 4)
            fail("\\u needs four hexadecimal digits");
        at_ += 4;
        return code;
    }
    std::uint32_t code_point() {
        const std::uint32_t high = hex4();
        if (high < 0xD800 || high > 0xDFFF) return high;
        if (high > 0xDBFF || !take("\\u")) fail("half a surrogate pair");
        const std::uint32_t low = hex4();
        if (low < 0xDC00 || low > 0xDFFF) fail("half a surrogate pair");
        return 0x10000 + ((high - 0xD800) << 10U) + (low - 0xDC00);
    }
    static void utf8(std::string& out, std::uint32_t code) {
        const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80U | (code >> shift & 0x3FU)); };
        if (code < 0x80) out += static_cast<char>(code);
        else if (code < 0x800) out += static_cast<char>(0xC0U | code >> 6U), tail(0);
        else if (code < 0x10000) out += static_cast<char>(0xE0U | code >> 12U), tail(6), tail(0);
        else out += static_cast<char>(0xF0U | code >> 18U), tail(12), tail(6), tail(0);
    }

    std::string_view text_;
    const std::string& where_;
    std::size_t at_ = 0;
};

inline Evaluation evaluation_from(const Json& e) {
    return {.model = parse<Which>(e["model"].text()),
            .when = parse<When>(e["when"].text()),
            .on = On::parse(e["on"].text()),
            .split = parse<SplitOf>(e["split"].text()),
            .clients = parse<Whom>(e["clients"].text()),
            .pick = Pick::parse(e["pick"].text()),
            .average = parse<Average>(e["average"].text()),
            .metric = parse<Metric>(e["metric"].text()),
            .stage = e["stage"].text(),
            .value = e["value"].number(absent)};
}
inline std::vector<Evaluation> evaluations_from(const Json& all) {
    std::vector<Evaluation> out;
    for (const auto& each : all.items()) out.push_back(evaluation_from(each));
    return out;
}

inline RoundRecord round_from(const Json& r) {
    const auto count = [&](std::string_view name) { return r[name].number(std::size_t{0}); };
    RoundRecord out{.round = count("round"),
                    .seconds = r["seconds"].number(0.0),
                    .bytes_up = r["bytes_up"].number(std::uint64_t{0}),
                    .bytes_down = r["bytes_down"].number(std::uint64_t{0}),
                    .formula_bytes_up = r["formula_bytes_up"].number(absent),
                    .formula_bytes_down = r["formula_bytes_down"].number(absent),
                    .flops = r["flops"].number(absent),
                    .examples = r["examples"].number(std::uint64_t{0}),
                    .train_loss = r["train_loss"].number(absent),
                    .trained = count("trained"),
                    .merged = count("merged"),
                    .rejected = count("rejected"),
                    .diverged = count("diverged"),
                    .state_hash = r["state_hash"].text(),
                    .evaluations = evaluations_from(r["evaluations"])};
    for (const auto& phase : r["phases"].items())
        out.phases.push_back({phase["name"].text(), phase["begin"].number(absent), phase["seconds"].number(absent)});
    return out;
}

inline ClientRecord client_from(const Json& c) {
    ClientRecord out{.id = c["id"].number(Id{0}),
                     .n_train = c["n_train"].number(std::size_t{0}),
                     .n_test = c["n_test"].number(std::size_t{0}),
                     .accuracy_global = c["accuracy_global"].number(absent),
                     .accuracy_personal = c["accuracy_personal"].number(absent),
                     .loss_global = c["loss_global"].number(absent),
                     .loss_personal = c["loss_personal"].number(absent),
                     .train_accuracy_global = c["train_accuracy_global"].number(absent),
                     .train_accuracy_personal = c["train_accuracy_personal"].number(absent),
                     .r2_global = c["r2_global"].number(absent),
                     .r2_personal = c["r2_personal"].number(absent),
                     .in_vocabulary_global = c["in_vocabulary_global"].number(absent),
                     .in_vocabulary_personal = c["in_vocabulary_personal"].number(absent)};
    for (const auto& count : c["labels"].items()) out.labels.push_back(count.number(std::size_t{0}));
    out.name = c["name"].text();
    out.hits_global = c["hits_global"].text();
    out.hits_personal = c["hits_personal"].text();
    return out;
}

inline Extra extra_from(const Json& e) {
    const auto numbers = [](const Json& all) {
        std::vector<double> out;
        for (const auto& each : all.items()) out.push_back(each.number(absent));
        return out;
    };
    const auto texts = [](const Json& all) {
        std::vector<std::string> out;
        for (const auto& each : all.items()) out.push_back(each.text());
        return out;
    };
    const auto axis = [](const Json& a) {
        return Axis{a["title"].text(), a["unit"].text(), a.has("from_zero"), a.has("logarithmic"), a.has("integers")};
    };
    Extra out{.id = e["id"].text(),
              .title = e["title"].text(),
              .caption = e["caption"].text(),
              .kind = parse_kind(e["kind"].text()),
              .x = axis(e["x"]),
              .y = axis(e["y"]),
              .categories = texts(e["categories"]),
              .shaded = e.has("shaded")};
    for (const auto& s : e["series"].items())
        out.series.push_back({s["name"].text(), numbers(s["x"]), numbers(s["y"]), texts(s["texts"]), s.has("dashed")});
    return out;
}

inline RunRecord run_from(const Json& run, const std::string& where) {
    if (!run.has("config") || !run["final"].has("evaluations"))
        throw IoError(where, "has no config and final.evaluations; it is not the JSON of a run");
    RunRecord out;
    for (const auto& [name, value] : run["config"].members()) out.set(name, value.setting());
    out.kernel_set = run["kernel_set"].text();
    out.version = run["version"].text();
    out.stopped = run["stopped"].text();
    for (const auto& name : run["class_names"].items()) out.class_names.push_back(name.text());
    for (const auto& [name, value] : run["provenance"].members()) out.provenance.emplace_back(name, value.text());
    for (const auto& round : run["rounds"].items()) out.rounds.push_back(round_from(round));
    out.final_evaluations = evaluations_from(run["final"]["evaluations"]);
    for (const auto& client : run["final"]["per_client"].items()) out.per_client.push_back(client_from(client));
    out.state_hash = run["final"]["state_hash"].text();
    for (const auto& note : run["notes"].items()) out.notes.push_back(note.text());
    for (const auto& extra : run["extras"].items()) out.add(extra_from(extra));
    return out;
}

}  // namespace detail

// `where` names the text in what is thrown: a file.
inline Json parse_json(std::string_view text, const std::string& where) {
    return detail::JsonParser(text, where).document();
}

// The runs of a file: one, or one for each seed.
inline std::vector<RunRecord> runs_from_json(std::string_view text, const std::string& where) {
    const Json all = parse_json(text, where);
    std::vector<RunRecord> out;
    try {
        for (const auto& run : all["runs"].items()) out.push_back(detail::run_from(run, where));
        if (out.empty()) out.push_back(detail::run_from(all, where));
    } catch (const ConfigError& e) {
        std::string what = e.what();  // which may quote the text
        std::ranges::replace_if(what, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
        throw IoError(where, what);
    }
    return out;
}

}  // namespace tessera::report
