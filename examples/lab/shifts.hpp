// SPDX-License-Identifier: BSD-3-Clause
// What --shifts adds to a run: every model on everybody's test images as they look under worse conditions, on published
// images of that kind, or, by the name none, on everybody's test data as they are.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/report/record.hpp>
#include <tessera/runtime/evaluate.hpp>

#include "options.hpp"

namespace lab {

// A set of images by its name, made when it is asked for: one is in memory at a time.
struct ShiftedImages {
    std::string name;
    std::function<tessera::data::Dataset()> make;
};

// `like` are the clients' images as they are read, before copies for training join them.
std::vector<ShiftedImages> shifts_of(const Options& o, const tessera::data::FederatedDataset& clients,
                                     const tessera::data::Dataset& like);

// Throws what would be wrong with them, before round one.
void check_shifts(const Options& o, const tessera::data::FederatedDataset& clients, const tessera::data::Dataset& like);

// Global-test of the kinds of models a method has. The table has means and deviations over clients, in per cent.
template <bool Global, bool Personal, class Run, class E>
void add_shifts(const Run& run, const tessera::data::Dataset& like, const Options& o, const E& executor,
                const std::string& stage, tessera::report::RunRecord& record) {
    using namespace tessera::report;
    Extra table{.id = "shifts",
                .title = "Accuracy on shifted test images",
                .caption = std::string("Every model on ") +
                           (o.shift_dir.empty() ? "the test images of all clients together, shifted"
                                                : "published sets of shifted images") +
                           "; mean over clients, in %, and for personal models the deviation over clients.",
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
    const auto asked = shifts_of(o, run.data(), like);
    for (const auto& shift : asked) {
        const auto images = shift.make();
        line(shift.name,
             [&]<Which W>() { return tessera::evaluate_on_shift<W>(run, shift.name, images, executor, stage); });
    }
    if (asked.size() > 1)  // every set has the same size, so this is the mean over the sets
        line("mean", [&]<Which W>() {
            using Result = decltype(tessera::evaluate_on_union<W>(run, executor, stage));
            return Result(On::shift("mean of " + std::to_string(asked.size())), Pick::last(), stage,
                          W == Which::global ? of_global : of_personal);
        });
    record.add(std::move(table));
}

}  // namespace lab
