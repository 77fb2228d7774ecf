// SPDX-License-Identifier: BSD-3-Clause
// A run as JSON, and the small writer it is made with.
//
// Always valid: text is escaped, bytes that are not UTF-8 become U+FFFD, a number that is not finite becomes null.
// Numbers have the fewest digits that read back the same, with '.' in every locale.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report {

// Appends to a text; commas and colons are its affair. Arrays and objects nest as calls do:
//   json.object([&] { json.member("rate", 0.1); json.key("layers").array([&] { json.value(3); }); });
class JsonWriter {
public:
    explicit JsonWriter(std::string& out) : out_(out) {}

    template <class Body>
    void object(Body body) {
        enclosed('{', '}', std::move(body));
    }
    template <class Body>
    void array(Body body) {
        enclosed('[', ']', std::move(body));
    }
    JsonWriter& key(std::string_view name) {
        separate();
        quote(name);
        out_ += ':';
        first_ = true;  // the value that follows needs no comma
        return *this;
    }
    template <class T>
    void value(const T& what) {
        separate();
        if constexpr (std::same_as<T, bool>) out_ += what ? "true" : "false";
        else if constexpr (std::integral<T>) out_ += detail::digits(what);
        else if constexpr (std::floating_point<T>) out_ += number(what);
        else quote(what);
    }
    template <class T>
    void member(std::string_view name, const T& what) {
        key(name).value(what);
    }
    // A value that is JSON already.
    void raw(std::string_view value) {
        separate();
        out_ += value;
    }
    // Starts the next value on its own line, so that rounds and clients can be read and compared by line.
    void line() { line_ = true; }

private:
    template <class Body>
    void enclosed(char open, char close, Body body) {
        separate();
        out_ += open;
        first_ = true;
        body();
        out_ += close;
        first_ = false;
    }
    void separate() {
        if (!std::exchange(first_, false)) out_ += ',';
        if (std::exchange(line_, false)) out_ += '\n';
    }
    static std::string number(double value) {
        if (!std::isfinite(value)) return "null";
        // "-0" is read as the integer 0 by many parsers, and the sign is lost.
        return value == 0 && std::signbit(value) ? "-0.0" : detail::digits(value);
    }
    void quote(std::string_view text) {
        constexpr std::string_view hex = "0123456789abcdef";
        out_ += '"';
        detail::each_character(text, [&](std::string_view character) {
            const auto c = static_cast<unsigned char>(character[0]);
            if (c == '"' || c == '\\') detail::put(out_, "\\", character);
            else if (c == '\n') out_ += "\\n";
            else if (c == '\t') out_ += "\\t";
            else if (c < 0x20) detail::put(out_, "\\u00", hex.substr(c >> 4U, 1), hex.substr(c & 15U, 1));
            else out_ += character;
        });
        out_ += '"';
    }

    std::string& out_;
    bool first_ = true, line_ = false;
};

inline void write_members(JsonWriter& json, const Evaluation& e) {
    json.member("model", word(e.model));
    json.member("when", word(e.when));
    json.member("on", e.on.word());
    json.member("split", word(e.split));
    json.member("clients", word(e.clients));
    json.member("pick", e.pick.word());
    json.member("average", word(e.average));
    json.member("metric", word(e.metric));
    json.member("stage", e.stage.get());
    json.member("value", e.value.get());
}
inline void write(JsonWriter& json, const Evaluation& e) {
    json.object([&] { write_members(json, e); });
}

inline void write(JsonWriter& json, const std::vector<Evaluation>& all) {
    json.array([&] {
        for (const auto& each : all) write(json, each);
    });
}

inline void write(JsonWriter& json, const RoundRecord& round) {
    json.object([&] {
        json.member("round", round.round);
        json.member("seconds", round.seconds);
        json.member("bytes_up", round.bytes_up);
        json.member("bytes_down", round.bytes_down);
        json.member("formula_bytes_up", round.formula_bytes_up);
        json.member("formula_bytes_down", round.formula_bytes_down);
        json.member("flops", round.flops);
        json.member("examples", round.examples);
        json.member("train_loss", round.train_loss);
        json.member("trained", round.trained);
        json.member("merged", round.merged);
        json.member("rejected", round.rejected);
        json.member("diverged", round.diverged);
        json.member("state_hash", round.state_hash);
        write(json.key("evaluations"), round.evaluations);
        if (round.phases.empty()) return;
        json.key("phases").array([&] {
            for (const auto& phase : round.phases)
                json.object([&] {
                    json.member("name", phase.name);
                    json.member("begin", phase.begin);
                    json.member("seconds", phase.seconds);
                });
        });
    });
}

inline void write(JsonWriter& json, const ClientRecord& client) {
    json.object([&] {
        json.member("id", client.id);
        if (!client.name.empty()) json.member("name", client.name);
        json.member("n_train", client.n_train);
        json.member("n_test", client.n_test);
        json.member("accuracy_global", client.accuracy_global);
        json.member("accuracy_personal", client.accuracy_personal);
        json.member("loss_global", client.loss_global);
        json.member("loss_personal", client.loss_personal);
        json.member("train_accuracy_global", client.train_accuracy_global);
        json.member("train_accuracy_personal", client.train_accuracy_personal);
        for (const auto& [name, value] : {std::pair{"r2_global", client.r2_global},
                                          {"r2_personal", client.r2_personal},
                                          {"in_vocabulary_global", client.in_vocabulary_global},
                                          {"in_vocabulary_personal", client.in_vocabulary_personal},
                                          {"word_error_rate_global", client.word_error_rate_global},
                                          {"word_error_rate_personal", client.word_error_rate_personal}})
            if (std::isfinite(value)) json.member(name, value);
        json.key("labels").array([&] {
            for (const std::size_t count : client.labels) json.value(count);
        });
        if (!client.hits_global.empty()) json.member("hits_global", client.hits_global);
        if (!client.hits_personal.empty()) json.member("hits_personal", client.hits_personal);
    });
}

inline void write(JsonWriter& json, const Extra& extra) {
    const auto list = [&](std::string_view name, const auto& values) {
        json.key(name).array([&] {
            for (const auto& value : values) json.value(value);
        });
    };
    const auto if_so = [&](std::string_view name, bool so) {
        if (so) json.member(name, true);
    };
    const auto axis = [&](std::string_view name, const Axis& what) {
        json.key(name).object([&] {
            json.member("title", what.title);
            json.member("unit", what.unit);
            if_so("from_zero", what.from_zero);
            if_so("logarithmic", what.logarithmic);
            if_so("integers", what.integers);
        });
    };
    json.object([&] {
        json.member("id", extra.id);
        json.member("title", extra.title);
        json.member("caption", extra.caption);
        json.member("kind", word(extra.kind));
        axis("x", extra.x);
        axis("y", extra.y);
        if_so("shaded", extra.shaded);
        list("categories", extra.categories);
        json.key("series").array([&] {
            for (const auto& series : extra.series)
                json.object([&] {
                    json.member("name", series.name);
                    list("x", series.x);
                    list("y", series.y);
                    list("texts", series.texts);
                    if_so("dashed", series.dashed);
                });
        });
    });
}

inline void write(JsonWriter& json, const std::vector<Extra>& all) {
    json.array([&] {
        for (const auto& extra : all) json.line(), write(json, extra);
    });
}

// Figures that compare runs belong to none of them.
inline std::string to_json(const std::vector<Extra>& across) {
    std::string out;
    JsonWriter json(out);
    write(json, across);
    out += '\n';
    return out;
}

// One round on one line: append it to a file while the run goes on.
inline std::string to_json(const RoundRecord& round) {
    std::string out;
    JsonWriter json(out);
    write(json, round);
    return out;
}

inline std::string to_json(const RunRecord& run) {
    std::string out;
    JsonWriter json(out);
    json.object([&] {
        json.key("config").object([&] {
            for (const auto& [name, setting] : run.config)
                std::visit([&json, &key = name](const auto& value) { json.member(key, value); }, setting.value());
        });
        json.line();
        json.member("kernel_set", run.kernel_set);
        json.member("version", run.version);
        if (!run.stopped.empty()) json.member("stopped", run.stopped);
        if (!run.class_names.empty())
            json.key("class_names").array([&] {
                for (const auto& name : run.class_names) json.value(name);
            });
        if (!run.provenance.empty())
            json.key("provenance").object([&] {
                for (const auto& [name, value] : run.provenance) json.member(name, value);
            });
        json.line();
        json.key("rounds").array([&] {
            for (const auto& round : run.rounds) json.line(), write(json, round);
        });
        json.line();
        json.key("final").object([&] {
            write(json.key("evaluations"), run.final_evaluations);
            json.line();
            json.key("per_client").array([&] {
                for (const auto& client : run.per_client) json.line(), write(json, client);
            });
            json.line();
            json.member("state_hash", run.state_hash);
        });
        json.line();
        json.key("notes").array([&] {
            for (const auto& note : run.notes) json.value(note);
        });
        json.line();
        write(json.key("extras"), run.extras);
    });
    out += '\n';
    return out;
}

}  // namespace tessera::report
