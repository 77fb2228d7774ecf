// SPDX-License-Identifier: BSD-3-Clause
// Every cell of a grid is trained without the validation shares and judged on them; the best is run again on all
// training data. Test data are looked at once, at the end.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/io/file.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/seeds.hpp>
#include <tessera/version.hpp>

#include "commands.hpp"
#include "counts.hpp"
#include "interrupt.hpp"
#include "methods.hpp"
#include "outputs.hpp"
#include "page/run_reader.hpp"
#include "runs.hpp"
#include "settings.hpp"
#include "stages.hpp"
#include "tasks.hpp"

namespace lab {
namespace {

using tessera::ConfigError;
using namespace tessera::report;

constexpr double usual_validation = 0.2;
constexpr std::size_t most_cells = 10'000;

struct Cell {
    NamedValues settings;
    std::vector<std::string> left_out;  // flags for a server optimizer that other cells have
    Options options;
    std::string hash;  // of all that decides its numbers
    std::string file;  // where it is kept; empty: nowhere
};

struct Judged {
    std::vector<double> values;  // validation accuracy, for each seed
    std::size_t diverged = 0;    // visits
    std::string failed;          // what was thrown
    bool sound() const {
        return failed.empty() && diverged == 0 && !values.empty() && std::isfinite(spread(values).mean);
    }
};

std::string in_words(const NamedValues& settings) {
    std::string text;
    for (const auto& [name, value] : settings) text.append(text.empty() ? "" : " ").append(name + "=" + value);
    return text;
}

// Of two names for the same settings one would have no effect.
bool mean_the_same(const std::vector<std::string>& algorithms, const std::string& one, const std::string& other) {
    bool met = one == other;
    for (const auto& algorithm : algorithms)
        for (const auto& [full, usual] : entry_of(algorithm).settings) {
            const bool meant = tessera::detail::means(full, one);
            if (meant != tessera::detail::means(full, other)) return false;
            met = met || meant;
        }
    return met;
}

void check_names(const NamedValues& grid, const std::vector<std::string>& algorithms) {
    for (std::size_t i = 0; i < grid.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (mean_the_same(algorithms, grid[j].first, grid[i].first))
                throw ConfigError("--grid: " + grid[j].first + " and " + grid[i].first +
                                  " are the same; write all values behind one name");
}

std::vector<NamedValues> product_of(const std::vector<std::string>& grid, const std::vector<std::string>& algorithms) {
    std::vector<NamedValues> all{{}};
    const auto named = named_values("--grid", grid);
    check_names(named, algorithms);
    for (const auto& [name, values] : named) {
        std::vector<NamedValues> longer;
        for (const auto& cell : all) {
            std::vector<std::string> tried;
            std::istringstream each(values);
            for (std::string value; std::getline(each, value, ',');) {
                if (value.empty()) throw ConfigError("--grid " + name + ": a value is empty");
                if (std::ranges::find(tried, value) != tried.end())
                    throw ConfigError("--grid " + name + ": " + value + " stands twice");
                tried.push_back(value);
                if (longer.size() == most_cells)
                    throw ConfigError("--grid: more than " + std::to_string(most_cells) + " cells; try fewer values");
                longer.push_back(cell);
                longer.back().emplace_back(name, value);
            }
        }
        if (longer.empty()) throw ConfigError("--grid " + name + ": write NAME=VALUE,VALUE,...");
        all = std::move(longer);
    }
    if (grid.empty()) throw ConfigError("--grid: write NAME=VALUE,VALUE,... for what is to be tried");
    return all;
}

Options with(Options o, const NamedValues& settings, const std::vector<std::string>& left_out = {}) {
    for (const auto& [name, value] : settings) put_setting("--grid", name, value, o);
    std::erase_if(o.set, [&](const auto& s) { return std::ranges::find(left_out, s.first) != left_out.end(); });
    return o;
}

Options without_outputs(Options o) {
    for (auto* path : {&o.json, &o.jsonl, &o.csv, &o.tensorboard, &o.report, &o.models, &o.save_weights, &o.trace,
                       &o.checkpoint})
        path->clear();
    o.analyse.clear();
    o.shifts.clear();
    o.evaluate_also.clear();
    o.resume = o.hits = o.trace_kernels = false;
    o.quiet = true;
    return o;
}

// The mean of the last evaluated rounds on validation data, of the model that a client is served.
double validation_accuracy(const RunRecord& run, const std::string& stage) {
    double found = absent;
    for (const auto& e : run.final_evaluations)
        if (e.split == SplitOf::validation && (e.metric == Metric::accuracy || e.metric == Metric::r2) &&
            e.average == Average::pooled &&
            e.stage == stage && e.pick.word().starts_with("mean_last") &&
            (e.model == Which::personal || std::isnan(found)))
            found = e.value;
    return found;
}

Judged judge(const Cell& cell, const Task& task) {
    Judged result;
    try {
        FailedOutputs none;  // a cell writes no file
        const auto runs = run_seeds(cell.options, task, none);
        if (runs.stopped) std::rethrow_exception(runs.stopped);
        for (const auto& run : runs.all) {
            result.values.push_back(validation_accuracy(run, stages_of(cell.options).back().name));
            for (const auto& round : run.rounds) result.diverged += round.diverged;
        }
    } catch (const Interrupted&) {
        throw;
    } catch (const std::bad_alloc&) {
        result = {.values = {}, .failed = "memory ran out"};
    } catch (const std::exception& e) {
        result = {.values = {}, .failed = e.what()};
    }
    return result;
}

// What all cells of a sweep share and only the files themselves can say.
std::vector<std::pair<std::string, std::string>> origin_of(const Task& task) {
    return {{"version", tessera::version},
            {"data", task.fingerprints.data},
            {"split", task.fingerprints.split},
            {"aux", task.fingerprints.aux}};
}

void keep(const Cell& cell, const Judged& result, const Task& task) {
    if (cell.file.empty()) return;
    std::string text;
    JsonWriter json(text);
    json.object([&] {
        json.member("cell", in_words(cell.settings));
        for (const auto& [name, value] : origin_of(task)) json.member(name, value);
        json.key("values").array([&] {
            for (const double value : result.values) json.value(value);
        });
        json.member("diverged", result.diverged);
        json.member("failed", result.failed);
    });
    write_text(cell.file, text + "\n");
}

Json read_cell(const std::string& file) {
    const auto bytes = tessera::io::read_file(file);
    return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
}

// Cells of another grid may lie beside ours; cells of other data or another library are of another sweep.
void check_origin(const std::string& cells, const Task& task) {
    for (const auto& file : tessera::io::list_files(cells)) {
        if (!file.ends_with(".json")) continue;
        const Json cell = read_cell(cells + "/" + file);
        for (const auto& [name, ours] : origin_of(task))
            if (const auto theirs = text_in(member(cell, name)); theirs != ours)
                throw ConfigError("--resume: " + cells + "/" + file + " is of a sweep with another " + name +
                                  " (it has " + (theirs.empty() ? "none" : theirs) + ", this sweep " + ours +
                                  "); name another --checkpoint");
    }
}

std::optional<Judged> kept(const Cell& cell) {
    if (cell.file.empty() || !tessera::io::exists(cell.file)) return {};
    const Json all = read_cell(cell.file);
    Judged result;
    for (const auto& value : items_in(member(all, "values"))) result.values.push_back(number_in(value, absent));
    result.diverged = number_in(member(all, "diverged"), std::size_t{0});
    result.failed = text_in(member(all, "failed"));
    return result;
}

std::string verdict(const Judged& result) {
    char text[96];
    if (!result.failed.empty()) return "failed: " + result.failed;
    if (result.diverged > 0) return "diverged, in " + std::to_string(result.diverged) + " visits";
    if (!result.sound()) return "no validation accuracy";
    const double mean = 100 * spread(result.values).mean;
    if (result.values.size() == 1) std::snprintf(text, sizeof text, "%.2f %%", mean);
    else std::snprintf(text, sizeof text, "%.2f \xC2\xB1 %.2f %%", mean, 100 * sample_deviation(result.values));
    return text;
}

Extra table_of(const std::vector<Cell>& cells, const std::vector<Judged>& results, std::size_t chosen) {
    Extra out{.id = "sweep",
              .title = "Settings that were tried",
              .caption =
                  "Accuracy on validation data, pooled, mean of the last evaluated rounds. The best was run again on "
                  "all training data: " +
                  in_words(cells[chosen].settings) + ".",
              .kind = Kind::table,
              .x = {.title = "cell"},
              .series = {{.name = "validation accuracy (%)"}}};
    for (std::size_t i = 0; i < cells.size(); ++i) {
        out.categories.push_back(in_words(cells[i].settings));
        out.series[0].y.push_back(results[i].sound() ? 100 * spread(results[i].values).mean : absent);
        out.series[0].texts.push_back(verdict(results[i]) + (i == chosen ? ", chosen" : ""));
    }
    return out;
}

std::optional<double> number_in(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// The different values of a setting in the order of their numbers, or as they come where one is none.
std::vector<std::string> values_of(const std::vector<Cell>& cells, std::size_t setting) {
    std::vector<std::string> values;
    bool numbers = true;
    for (const auto& cell : cells) {
        const auto& value = cell.settings[setting].second;
        numbers = numbers && number_in(value);
        if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
    if (numbers) std::ranges::stable_sort(values, {}, [](const std::string& value) { return *number_in(value); });
    return values;
}

// What the grid does not answer: a best value at its edge may be better beyond it.
std::vector<std::string> edges_of(const std::vector<Cell>& cells, std::size_t chosen) {
    std::vector<std::string> notes;
    for (std::size_t s = 0; s < cells[chosen].settings.size(); ++s) {
        const auto& [name, value] = cells[chosen].settings[s];
        const auto values = values_of(cells, s);
        const bool numbers = std::ranges::all_of(values, [](const auto& v) { return number_in(v).has_value(); });
        if (!numbers || values.size() < 2 || (value != values.front() && value != values.back())) continue;
        notes.push_back("the best " + name + ", " + value + ", lies at the edge of the grid; try " +
                        (value == values.front() ? "smaller" : "larger") + " values too");
    }
    return notes;
}

// Two settings that were tried together: a map of the cells.
std::optional<Extra> map_of(const std::vector<Cell>& cells, const std::vector<Judged>& results) {
    if (cells[0].settings.size() != 2) return std::nullopt;
    const auto rows = values_of(cells, 0), columns = values_of(cells, 1);
    if (rows.size() < 2 || columns.size() < 2) return std::nullopt;
    const auto &row_name = cells[0].settings[0].first, &column_name = cells[0].settings[1].first;
    Extra out{.id = "sweep-map",
              .title = "Validation accuracy over the grid",
              .caption = "Points against the mean of the cells that ended; a cell that failed or diverged is empty.",
              .kind = Kind::heat,
              .x = {.title = column_name},
              .y = {.title = row_name, .unit = "points"},
              .categories = columns};
    for (const auto& row : rows) out.series.push_back({.name = row, .y = std::vector<double>(columns.size(), absent)});
    std::vector<double> sound;
    for (const auto& result : results)
        if (result.sound()) sound.push_back(100 * spread(result.values).mean);
    const double middle = sound.empty() ? 0 : spread(sound).mean;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (!results[i].sound()) continue;
        const auto row = std::ranges::find(rows, cells[i].settings[0].second) - rows.begin();
        const auto column = std::ranges::find(columns, cells[i].settings[1].second) - columns.begin();
        out.series[static_cast<std::size_t>(row)].y[static_cast<std::size_t>(column)] =
            100 * spread(results[i].values).mean - middle;
    }
    return out;
}

// Runs f, whose complaints are about a cell.
template <class F>
auto naming_cell(const NamedValues& settings, F&& f) {
    try {
        return f();
    } catch (const ConfigError& e) {
        throw ConfigError("--grid, cell " + in_words(settings) + ": " + e.what());
    }
}

// What no cell reads stays, to be refused.
std::vector<Cell> planned(const Options& o, const std::vector<NamedValues>& product) {
    std::vector<Cell> cells;
    for (const auto& settings : product) {
        auto unread = naming_cell(settings, [&] { return unread_settings(with(o, settings)); });
        cells.push_back({settings, std::move(unread), {}, "", ""});
    }
    std::vector<std::string> nowhere = cells[0].left_out;
    for (const auto& cell : cells)
        std::erase_if(nowhere, [&](const auto& name) {
            return std::ranges::find(cell.left_out, name) == cell.left_out.end();
        });
    for (auto& cell : cells) {
        std::erase_if(cell.left_out,
                      [&](const auto& name) { return std::ranges::find(nowhere, name) != nowhere.end(); });
        cell.options = with(without_outputs(o), cell.settings, cell.left_out);
    }
    return cells;
}

// Where nobody can tell two cells apart, choosing between them would be an answer to nothing.
void check_apart(const std::vector<Cell>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            if (cells[j].hash != cells[i].hash) continue;
            std::string names;
            for (std::size_t k = 0; k < cells[i].settings.size(); ++k)
                if (cells[j].settings[k] != cells[i].settings[k])
                    names.append(names.empty() ? "" : " and ").append(cells[i].settings[k].first);
            throw ConfigError("--grid: cells " + in_words(cells[j].settings) + " and " + in_words(cells[i].settings) +
                              " are the same run; a more specific setting or a stage's own wins over " + names +
                              ", or it is not read, or the values are equal");
        }
}

bool runs_with(const Options& o, const std::string& name, const std::string& value) {
    if (name == "rounds") return count_in(value) == o.rounds;
    if (name == "per_round") return count_in(value) == o.per_round;
    if (name == "batch") return count_in(value) == o.batch;
    if (name == "scope") return o.scope == value;
    if (name == "trains") return o.trains == value;
    if (name == "batch_size") return count_in(value) == o.batch;
    const auto usual = usual_name(name);
    return std::ranges::any_of(entry_of(o.algorithm).settings, [&](const auto& setting) {
        const bool meant = tessera::detail::means(setting.first, name) ||
                           (!usual.empty() && tessera::detail::means(setting.first, usual));
        return meant && asked_for(setting.first, o) == value;
    });
}

// A cell says what is run.
void check_in_effect(const std::vector<Cell>& cells) {
    for (const auto& cell : cells) {
        const auto stages = stages_of(cell.options);
        for (const auto& setting : cell.settings) {
            const auto& [name, value] = setting;
            if (std::ranges::find(cell.left_out, name) != cell.left_out.end()) continue;
            if (std::ranges::none_of(stages, [&](const Stage& s) {
                    return runs_with(s.options, setting.first, setting.second);
                }))
                throw ConfigError("--grid " + name + "=" + value +
                                  ": it would not be run, since a more specific setting or a stage's own wins over " +
                                  name + "; leave one of the two out");
        }
    }
}

std::vector<Cell> cells_of(const Options& o, const SweepOptions& sweep, const Task& task) {
    auto cells = planned(o, product_of(sweep.grid, algorithms_of(o)));
    for (auto& cell : cells) {
        // opened once, so that a mistake in the last cell is known before the first begins
        auto identity = naming_cell(cell.settings, [&] { return open_stages(stages_of(cell.options), task); });
        for (const auto seed : o.seeds) identity += "seed=" + std::to_string(seed) + "\n";
        identity += "evaluated=" + std::to_string(o.evaluate_every) + "," + std::to_string(o.evaluate_last) + "\n";
        cell.hash = tessera::fingerprint(identity).hex();
        if (!o.checkpoint.empty()) cell.file = o.checkpoint + "/cells/" + cell.hash + ".json";
    }
    check_apart(cells);
    check_in_effect(cells);
    return cells;
}

// As of a run: what another sweep left is gone on with, or left alone.
void check_unused(const Options& o) {
    if (o.resume || o.checkpoint.empty()) return;
    namespace fs = std::filesystem;
    const std::string cells = o.checkpoint + "/cells";
    if ((fs::is_directory(cells) && !tessera::io::list_files(cells).empty()) || fs::exists(o.checkpoint + "/chosen"))
        throw ConfigError("--checkpoint " + o.checkpoint +
                          ": cells of an earlier sweep are there; go on from them with --resume, name another "
                          "directory, or remove this one");
}

}  // namespace

int sweep(Options o, const SweepOptions& sweep) {
    if (sweep.select != "validation")
        throw ConfigError("--select " + sweep.select + ": settings are chosen on validation data, and on nothing else");
    if (!o.split_file.empty())
        throw ConfigError("--split-file " + o.split_file +
                          ": a sweep needs the split with and without validation shares; use --split-seed");
    complete(o);
    check_unused(o);
    settle_normalisation(o);
    if (*o.validation == 0) o.validation = usual_validation;
    Options whole = o;
    whole.validation = 0;
    const Task task = make_task(o), all_data = make_task(whole);
    if (task.fingerprints.test != all_data.fingerprints.test)
        throw ConfigError("--validation " + std::to_string(*o.validation) + ": with --partition " + *o.partition +
                          " the shares change the test data, so a sweep cannot choose on them");
    const auto cells = cells_of(o, sweep, task);
    check_outputs(o);
    std::optional<tessera::io::DirectoryLock> lock;
    if (!o.checkpoint.empty()) {
        tessera::io::make_directories(o.checkpoint + "/cells");
        lock.emplace(o.checkpoint + "/cells");
        tessera::io::sweep_temporaries(o.checkpoint + "/cells");
        if (o.resume) check_origin(o.checkpoint + "/cells", task);
    }

    FailedOutputs failed;
    std::vector<Judged> results;
    for (const auto& cell : cells) {
        auto result = o.resume ? kept(cell) : std::nullopt;
        if (!result) {
            try {
                result = judge(cell, task);
            } catch (const Interrupted&) {
                throw Interrupted("interrupted in cell " + in_words(cell.settings) +
                                  (o.checkpoint.empty()
                                       ? "; no cell was kept, with --checkpoint DIR a sweep can be resumed"
                                       : "; the cells before it are kept in " + o.checkpoint +
                                             ", the same command with --resume goes on"));
            }
            failed.unless_written([&] { keep(cell, *result, task); });
        }
        if (!o.quiet) {
            std::printf("%s  %s\n", in_words(cell.settings).c_str(), verdict(*result).c_str());
            std::fflush(stdout);
        }
        results.push_back(std::move(*result));
    }
    std::optional<std::size_t> chosen;
    for (std::size_t i = 0; i < cells.size(); ++i)
        if (results[i].sound() && (!chosen || spread(results[i].values).mean > spread(results[*chosen].values).mean))
            chosen = i;
    if (!chosen) throw tessera::Error("no cell of the grid ended without diverging; there is nothing to choose");
    const auto edges = edges_of(cells, *chosen);
    if (!o.quiet) {
        std::printf("chosen on validation data: %s\n", in_words(cells[*chosen].settings).c_str());
        for (const auto& edge : edges) std::printf("%s\n", edge.c_str());
    }

    Options best = with(whole, cells[*chosen].settings, cells[*chosen].left_out);
    if (!best.checkpoint.empty())
        best.checkpoint += "/chosen/" + cells[*chosen].hash;  // a larger grid may choose another
    auto runs = run_seeds(best, all_data, failed);
    for (auto& run : runs.all) {
        run.add(table_of(cells, results, *chosen));
        if (auto map = map_of(cells, results)) run.add(std::move(*map));
        run.notes.insert(run.notes.end(), edges.begin(), edges.end());
    }
    tell(runs, best, failed);
    return 0;
}

}  // namespace lab
