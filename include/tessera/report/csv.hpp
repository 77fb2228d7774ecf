// SPDX-License-Identifier: BSD-3-Clause
// A run as three tables (RFC 4180): one row per round and evaluation, one per client, one per number of an extra.
// The decimal point is '.' in every locale; a number that is not finite is an empty field.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report {

inline constexpr std::string_view rounds_csv_header =
    "round,seconds,bytes_up,bytes_down,formula_bytes_up,formula_bytes_down,flops,examples,train_loss,trained,merged,"
    "rejected,"
    "diverged,state_hash,model,when,on,split,clients,pick,average,metric,stage,value\r\n";

// The rows of one round: append them to a file while the run goes on. Without evaluations it has one, with empty tags.
inline std::string to_csv(const RoundRecord& round) {
    std::string out;
    const auto start = [&](detail::CsvRow& row) {
        row << round.round << round.seconds << round.bytes_up << round.bytes_down << round.formula_bytes_up
            << round.formula_bytes_down << round.flops << round.examples << round.train_loss << round.trained
            << round.merged << round.rejected << round.diverged << round.state_hash;
    };
    for (const auto& e : round.evaluations) {
        detail::CsvRow row(out);
        start(row);
        row << word(e.model) << word(e.when) << e.on.word() << word(e.split) << word(e.clients) << e.pick.word()
            << word(e.average) << word(e.metric) << e.stage.get() << e.value.get();
    }
    if (!round.evaluations.empty()) return out;
    detail::CsvRow row(out);
    start(row);
    for (int i = 0; i < 10; ++i) row << "";
    return out;
}

inline std::string rounds_csv(const RunRecord& run) {
    std::string out(rounds_csv_header);
    for (const auto& round : run.rounds) out += to_csv(round);
    return out;
}

// The second column has names, where some client has one; R2 stands where targets are real.
inline std::string clients_csv(const RunRecord& run) {
    std::size_t classes = 0;
    const bool named = std::ranges::any_of(run.per_client, [](const auto& client) { return !client.name.empty(); });
    const bool real = std::ranges::any_of(
        run.per_client, [](const auto& c) { return std::isfinite(c.r2_global) || std::isfinite(c.r2_personal); });
    const bool words = std::ranges::any_of(run.per_client, [](const auto& c) {
        return std::isfinite(c.in_vocabulary_global) || std::isfinite(c.in_vocabulary_personal);
    });
    const bool spoken = std::ranges::any_of(run.per_client, [](const auto& c) {
        return std::isfinite(c.word_error_rate_global) || std::isfinite(c.word_error_rate_personal);
    });
    for (const auto& client : run.per_client) classes = std::max(classes, client.labels.size());
    std::string out;
    {
        detail::CsvRow row(out);
        row << "client";
        if (named) row << "name";
        for (const std::string_view name : {"n_train", "n_test", "accuracy_global", "accuracy_personal",
                                            "gain", "loss_global", "loss_personal", "train_accuracy_global",
                                            "train_accuracy_personal"})
            row << name;
        if (real) row << "r2_global" << "r2_personal";
        if (words) row << "in_vocabulary_global" << "in_vocabulary_personal";
        if (spoken) row << "word_error_rate_global" << "word_error_rate_personal";
        for (std::size_t c = 0; c < classes; ++c) row << "label_" + detail::class_called(run, c);
    }
    for (const auto& client : run.per_client) {
        detail::CsvRow row(out);
        row << client.id;
        if (named) row << client.name;
        row << client.n_train << client.n_test << client.accuracy_global << client.accuracy_personal
            << client.gain() << client.loss_global << client.loss_personal << client.train_accuracy_global
            << client.train_accuracy_personal;
        if (real) row << client.r2_global << client.r2_personal;
        if (words) row << client.in_vocabulary_global << client.in_vocabulary_personal;
        if (spoken) row << client.word_error_rate_global << client.word_error_rate_personal;
        for (std::size_t c = 0; c < classes; ++c) row << (c < client.labels.size() ? client.labels[c] : 0);
    }
    return out;
}

// x is empty where the kind has none; the name is the category or the point's text.
inline std::string extras_csv(const std::vector<Extra>& extras) {
    std::string out = "extra,kind,series,name,x,y\r\n";
    for (const auto& extra : extras)
        for (const auto& series : extra.series)
            for (std::size_t i = 0; i < series.y.size(); ++i) {
                const bool named = i < extra.categories.size();
                detail::CsvRow row(out);
                row << extra.id << word(extra.kind) << series.name
                    << (named ? extra.categories[i] : series.texts.empty() ? "" : series.texts[i])
                    << (series.x.empty() ? absent : series.x[i]) << series.y[i];
            }
    return out;
}

}  // namespace tessera::report
