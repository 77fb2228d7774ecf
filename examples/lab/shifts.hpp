// SPDX-License-Identifier: BSD-3-Clause
// What --shifts adds to a run: every model on everybody's test images as they look under worse conditions, or, by the
// name none, on everybody's test data as they are.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/data/partition/feature_shift.hpp>
#include <tessera/data/shift.hpp>
#include <tessera/report/record.hpp>
#include <tessera/runtime/evaluate.hpp>

#include "options.hpp"

namespace lab {

inline std::vector<tessera::data::Shift> shifts_of(const Options& o) {
    std::vector<tessera::data::Shift> asked;
    for (const auto& name : o.shifts) {
        if (name == "none") continue;
        if (name == "all")
            for (const auto& each : tessera::data::all_shifts()) asked.push_back(each);
        else
            try {
                asked.push_back(tessera::data::Shift::parse(name));
            } catch (const tessera::ConfigError& e) {
                throw tessera::ConfigError("--shifts " + name + ": " + e.what());
            }
    }
    return asked;
}

inline std::vector<tessera::Index> test_images(const tessera::data::FederatedDataset& clients) {
    std::vector<tessera::Index> all;
    for (const auto& share : clients.split().clients) all.insert(all.end(), share.test.begin(), share.test.end());
    return all;
}

// Throws what would be wrong with them, before round one.
inline void check_shifts(const Options& o, const tessera::data::FederatedDataset& clients) {
    const auto asked = shifts_of(o);
    if (asked.empty()) return;
    const std::size_t width = clients.pool().examples().width;
    const auto shape = tessera::data::square_images(width);
    if (shape.size() == 0)
        throw tessera::ConfigError("--shifts needs square images of one or three channels; the data has " +
                                   std::to_string(width) + " features");
    tessera::data::shifted(clients.pool(), shape, asked[0], test_images(clients));
}

// Global-test of the kinds of models a method has. The table has means and deviations over clients, in per cent.
template <bool Global, bool Personal, class Run, class E>
void add_shifts(const Run& run, const Options& o, const E& executor, const std::string& stage,
                tessera::report::RunRecord& record) {
    using namespace tessera::report;
    const auto tests = test_images(run.data());
    const auto shape = tessera::data::square_images(run.data().pool().examples().width);
    Extra table{.id = "shifts",
                .title = "Accuracy on shifted test images",
                .caption = "Every model on the test images of all clients together, shifted; mean over clients, in %, "
                           "and for personal models the deviation over clients.",
                .kind = Kind::table,
                .x = {.title = "shift"}};
    if (Global) table.series.push_back({.name = "global"});
    if (Personal) table.series.insert(table.series.end(), {{.name = "personal"}, {.name = "deviation"}});

    std::vector<ClientCount> of_global, of_personal;  // all shifts together
    bool shifted = false;
    const auto add = [&](std::size_t& column, const auto& result, std::vector<ClientCount>& sums) {
        record.final_evaluations.push_back(result.accuracy(Average::unweighted));
        table.series[column++].y.push_back(100 * result.accuracy(Average::unweighted).value);
        if (&sums == &of_personal) table.series[column++].y.push_back(100 * result.stddev());
        if (!shifted) return;
        sums.resize(result.counts().size());
        for (std::size_t k = 0; k < sums.size(); ++k) {
            sums[k].client = result.counts()[k].client;
            sums[k].correct += result.counts()[k].correct;
            sums[k].n += result.counts()[k].n;
        }
    };
    const auto line = [&](const std::string& name, auto&& results) {
        table.categories.push_back(name);
        std::size_t column = 0;
        if constexpr (Global) add(column, results.template operator()<Which::global>(), of_global);
        if constexpr (Personal) add(column, results.template operator()<Which::personal>(), of_personal);
    };
    if (std::ranges::find(o.shifts, "none") != o.shifts.end())
        line("none", [&]<Which W>() { return tessera::evaluate_on_union<W>(run, executor, stage); });
    shifted = true;
    const auto asked = shifts_of(o);
    for (const auto& shift : asked) {
        const auto images = tessera::data::shifted(run.data().pool(), shape, shift, tests);
        line(shift.name(), [&]<Which W>() {
            return tessera::evaluate_on_shift<W>(run, shift.name(), images, executor, stage);
        });
    }
    if (asked.size() > 1)  // every set has the same size, so this is the mean over the sets
        line("mean", [&]<Which W>() {
            return PerClient<W, tessera::seen(W), SplitOf::test, Whom::all>(
                On::shift("mean of " + std::to_string(asked.size())), Pick::last(), stage,
                W == Which::global ? of_global : of_personal);
        });
    record.add(std::move(table));
}

}  // namespace lab
