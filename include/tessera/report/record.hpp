// SPDX-License-Identifier: BSD-3-Clause
// What a run leaves behind: plain values that any writer can turn into a file.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report {

// A configuration value that keeps its kind, so that JSON shows 0.05 and true, not "0.05" and "true".
class Setting {
public:
    using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

    template <class T>
        requires(std::is_arithmetic_v<T> || std::convertible_to<T, std::string_view>)
    Setting(const T& value) : value_(stored(value)) {}
    const Value& value() const { return value_; }
    friend bool operator==(const Setting&, const Setting&) = default;

private:
    template <class T>
    static Value stored(const T& value) {
        if constexpr (std::same_as<T, bool>) return value;
        else if constexpr (std::signed_integral<T>) return static_cast<std::int64_t>(value);
        else if constexpr (std::unsigned_integral<T>) return static_cast<std::uint64_t>(value);
        else if constexpr (std::floating_point<T>) return static_cast<double>(value);
        else return std::string(std::string_view(value));
    }
    Value value_;
};

// A part of a round on the clock of the run, in seconds since the run began.
struct Phase {
    std::string name;
    double begin = 0, seconds = 0;
};

struct RoundRecord {
    std::size_t round = 0;
    double seconds = 0;
    std::uint64_t bytes_up = 0, bytes_down = 0;                     // measured on the wire form
    // 4 a parameter, as the papers count, and what they leave out: 8 a scalar, a bit a mask entry.
    double formula_bytes_up = absent, formula_bytes_down = absent;
    double flops = absent;
    std::uint64_t examples = 0;  // of every gradient that clients took
    double train_loss = absent;  // what clients descended, mean over their steps
    std::size_t trained = 0, merged = 0, rejected = 0, diverged = 0;  // clients
    std::string state_hash{};                                         // hexadecimal
    std::vector<Evaluation> evaluations{};
    std::vector<Phase> phases{};  // where its time went, when somebody looked
};

// On the client's own test data, at the end of the run: the model it receives, and the model it is served.
struct ClientRecord {
    Id id = 0;
    std::size_t n_train = 0, n_test = 0;
    double accuracy_global = absent, accuracy_personal = absent;
    double loss_global = absent, loss_personal = absent;
    double train_accuracy_global = absent, train_accuracy_personal = absent;  // on its training data
    double r2_global = absent, r2_personal = absent;  // instead of accuracies, where targets are real
    // Accuracies over words, where labels are text.
    double in_vocabulary_global = absent, in_vocabulary_personal = absent;
    double word_error_rate_global = absent, word_error_rate_personal = absent;  // where labels have no places
    std::vector<std::size_t> labels{};  // training examples per class, when the task has classes
    std::string hits_global{}, hits_personal{};  // '1' right, '0' wrong for each test example, when they were asked for
    std::string name{};                          // of a client that has one

    double gain() const { return accuracy_personal - accuracy_global; }  // absent when either is
    double train_gain() const { return train_accuracy_personal - train_accuracy_global; }
};

struct RunRecord {
    std::vector<std::pair<std::string, Setting>> config{};
    std::string kernel_set{}, version{};
    std::vector<RoundRecord> rounds{};
    std::vector<Evaluation> final_evaluations{};
    std::vector<ClientRecord> per_client{};
    std::string state_hash{};
    std::vector<std::string> notes{};
    std::vector<Extra> extras{};
    std::string stopped{};  // after which round and why, of a run that did not come to its end
    std::vector<std::string> class_names{};  // in the order of the labels, where classes have names
    // How it came about and decides none of its numbers: command, commit, compiler, processor, date.
    std::vector<std::pair<std::string, std::string>> provenance{};

    // Figures stand in the order in which they came; one of the same id takes the place of the earlier.
    void add(Extra extra) {
        extra.validate();
        const auto known = std::ranges::find(extras, extra.id, &Extra::id);
        if (known == extras.end()) extras.push_back(std::move(extra));
        else *known = std::move(extra);
    }

    // Replaces an earlier value of the same name: a name stands once.
    void set(std::string_view name, Setting value) {
        for (auto& [known, old] : config)
            if (known == name) {
                old = std::move(value);
                return;
            }
        config.emplace_back(std::string(name), std::move(value));
    }
    const Setting* find(std::string_view name) const {
        for (const auto& [known, value] : config)
            if (known == name) return &value;
        return nullptr;
    }
};

// Writes a result into the clients' rows; `rows` is in order of id, ids that have no row get one.
template <Which W, When T, SplitOf S, Whom P>
void fill(std::vector<ClientRecord>& rows, const PerClient<W, T, S, P>& result) {
    static_assert(S != SplitOf::validation, "tessera::report::fill: per-client rows hold test and training results");
    tessera::detail::require(result.on() == On::local(), "per-client rows hold results on the clients' own data");
    for (const auto& count : result.counts()) {
        auto row = std::ranges::lower_bound(rows, count.client, {}, &ClientRecord::id);
        if (row == rows.end() || row->id != count.client) row = rows.insert(row, ClientRecord{.id = count.client});
        const double accuracy = count.real() ? absent : count.correct / static_cast<double>(count.n);
        if constexpr (S == SplitOf::train) {
            row->n_train = count.n;
            (W == Which::global ? row->train_accuracy_global : row->train_accuracy_personal) = accuracy;
        } else {
            row->n_test = count.n;
            (W == Which::global ? row->accuracy_global : row->accuracy_personal) = accuracy;
            (W == Which::global ? row->loss_global : row->loss_personal) =
                count.loss_sum / static_cast<double>(count.n);
            (W == Which::global ? row->r2_global : row->r2_personal) = count.fit.r2();
            if (count.words > 0)
                (W == Which::global ? row->in_vocabulary_global : row->in_vocabulary_personal) =
                    count.correct_words / static_cast<double>(count.words);
            if (count.meant > 0)
                (W == Which::global ? row->word_error_rate_global : row->word_error_rate_personal) =
                    static_cast<double>(count.edits) / static_cast<double>(count.meant);
        }
    }
}

namespace detail {

// "3", or its name
inline std::string class_called(const RunRecord& run, std::size_t label) {
    return label < run.class_names.size() ? run.class_names[label] : digits(label);
}

// "client 7", "client 7 (Hamlet)"
inline std::string called(const ClientRecord& client) {
    return cat("client ", digits(client.id), client.name.empty() ? "" : cat(" (", client.name, ")"));
}

inline std::string shown(const Setting& setting) {
    return std::visit(
        [](const auto& value) -> std::string {
            using T = std::remove_cvref_t<decltype(value)>;
            if constexpr (std::same_as<T, bool>) return value ? "true" : "false";
            else if constexpr (std::same_as<T, std::string>) return value;
            else return digits(value);
        },
        setting.value());
}

// What a run itself is called among its evaluations: those made as the method is set, in its last stage.
inline std::string main_stage(const RunRecord& run) {
    for (auto round = run.rounds.rbegin(); round != run.rounds.rend(); ++round)
        if (!round->evaluations.empty()) return round->evaluations[0].stage;
    return run.final_evaluations.empty() ? "" : run.final_evaluations[0].stage.get();
}

// What a run is called beside others: its algorithm, the first two settings that tell it from a namesake, and more
// until they tell it from all.
inline std::vector<std::string> names_of(const std::vector<RunRecord>& runs) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const Setting* name = runs[i].find("name") ? runs[i].find("name") : runs[i].find("algorithm");
        names.push_back(name ? shown(*name) : runs.size() == 1 ? "run" : cat("run ", digits(i + 1)));
    }
    const std::vector<std::string> plain = names;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        std::vector<const RunRecord*> namesakes;
        for (std::size_t o = 0; o < runs.size(); ++o)
            if (o != i && plain[o] == plain[i]) namesakes.push_back(&runs[o]);
        auto alike = namesakes;  // in all that is told
        std::size_t told = 0;
        for (const auto& [key, value] : runs[i].config) {
            const auto other_value = [&, &k = key, &v = value](const RunRecord* run) {
                return run->find(k) && *run->find(k) != v;
            };
            const auto differs = [&, &k = key](const RunRecord* run) { return !run->find(k) || other_value(run); };
            const bool tells = told < 2 && std::ranges::any_of(namesakes, other_value);
            if (!tells && std::ranges::none_of(alike, differs)) continue;
            names[i] += cat(++told == 1 ? " " : ", ", key, "=", shown(value));
            std::erase_if(alike, differs);
        }
    }
    const std::vector<std::string> settled = names;
    for (std::size_t i = 0; i < runs.size(); ++i)
        if (std::ranges::count(settled, settled[i]) > 1) names[i] += cat(" #", digits(i + 1));
    return names;
}

}  // namespace detail

}  // namespace tessera::report
