// SPDX-License-Identifier: BSD-3-Clause
// Ditto with 7,850 floats a client and more clients than memory could hold. Driven by scripts/million; prints lines of
// JSON.
//
//   million fill DIR CLIENTS         visits everybody once
//   million rounds DIR CLIENTS       goes on with rounds of 100: warm, in turns with those of 1,000 clients in memory, and
//                                    over all
//   million resume DIR CLIENTS       goes on from the checkpoint of `rounds`
//   million compaction DIR CLIENTS   rounds of 100 until the log has been written over three times
//   million walk DIR CLIENTS ROUNDS  a checkpoint a round, told when it is kept; resumes what is there
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/clock.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/sample/uniform.hpp>
#include <tessera/store/log.hpp>

namespace {

using namespace tessera;
using Net = nn::Mclr<784, 10>;
using Run = Federation<Ditto<>, Net>;

constexpr std::size_t per_round = 100, examples = 50;

// Everybody trains on 50 of the same 5,000 images of noise: what is measured is the states.
data::FederatedDataset people(std::size_t clients) {
    constexpr std::size_t rows = 5000;
    std::vector<std::uint8_t> pixels(rows * 784);
    std::vector<std::int32_t> labels(rows);
    Stream draw(Key{3}(purpose::synthetic));
    for (auto& p : pixels) p = static_cast<std::uint8_t>(draw.word());
    for (auto& l : labels) l = static_cast<std::int32_t>(draw.below(10));
    data::Split split;
    split.clients.resize(clients);
    for (std::size_t k = 0; k < clients; ++k)
        for (std::size_t i = 0; i < examples; ++i)
            split.clients[k].train.push_back(static_cast<Index>((k * 37 + i * 101) % rows));
    return {data::Dataset::own(std::move(pixels), std::move(labels), 10).normalised(127.5f, 1 / 127.5f),
            std::move(split)};
}
Run federation(std::size_t clients) {
    return {
        Net{}, people(clients), Ditto<>{.local = {.rate = 0.01}, .personal = {.rate = 0.01}}, {.seed = 1, .batch = 10}};
}

// Everybody in turn.
struct Turns {
    static constexpr Offers offers{};
    std::size_t count = 1000;
    Plan plan(Key, std::size_t round, std::span<const Candidate> all) const {
        Plan plan;
        for (std::size_t i = round * count; i < std::min(all.size(), (round + 1) * count); ++i)
            plan.push_back({all[i].client});
        return plan;
    }
};
// The plan of `of`, whose time is not that of the round.
struct Timed {
    static constexpr Offers offers{};
    sample::Uniform of;
    double* seconds;
    std::size_t among = 0;  // of the last so many; 0: of all
    Plan plan(Key key, std::size_t round, std::span<const Candidate> all) const {
        const double begin = clock_seconds();
        auto drawn = of.plan(key, round, among > 0 ? all.last(among) : all);
        *seconds = clock_seconds() - begin;
        return drawn;
    }
};

double memory_of_process(const char* what) {  // MB
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(what)) return std::strtod(line.c_str() + line.find(':') + 1, nullptr) / 1024;
    return 0;
}
double disk_of(const std::string& directory) {  // GB
    double bytes = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(directory))
        if (file.is_regular_file()) bytes += static_cast<double>(file.file_size());
    return bytes / 1e9;
}

struct Times {
    std::vector<double> round{}, plan{};
    void add(const Times& more) {
        round.insert(round.end(), more.round.begin(), more.round.end());
        plan.insert(plan.end(), more.plan.begin(), more.plan.end());
    }
    double least() const { return *std::min_element(round.begin(), round.end()); }
    static double median(std::vector<double> all) {
        std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
        return all[all.size() / 2];
    }
};
Times rounds(Run& run, std::size_t count, std::size_t among = 0) {
    Times times;
    for (std::size_t r = 0; r < count; ++r) {
        double planning = 0;
        const auto report = run.round(Timed{{per_round}, &planning, among});
        times.round.push_back(report.seconds - planning);
        times.plan.push_back(planning);
    }
    return times;
}
void tell(const char* what, const Times& t) {
    std::printf(
        "{\"what\": \"%s\", \"least_ms\": %.3f, \"median_ms\": %.3f, \"worst_ms\": %.3f, \"plan_least_ms\": %.3f, "
        "\"memory_MB\": %.0f}\n",
        what, 1e3 * t.least(), 1e3 * Times::median(t.round), 1e3 * *std::max_element(t.round.begin(), t.round.end()),
        1e3 * *std::min_element(t.plan.begin(), t.plan.end()), memory_of_process("VmHWM"));
    std::fflush(stdout);
}
double save(const CheckpointDirectory& to, const Run& run) {
    const double begin = clock_seconds();
    to.save(run, "million");
    return clock_seconds() - begin;
}

int fill(const std::string& directory, std::size_t clients) {
    auto run = federation(clients);
    const double empty = memory_of_process("VmRSS");
    run.keep_in(store::Log{.directory = directory + "/log"});
    const CheckpointDirectory checkpoints(directory + "/checkpoints");
    double begin = clock_seconds(), slowest = 0;
    for (std::size_t r = 0; r * 1000 < clients; ++r) {
        run.round(Turns{});
        if (r % 10 == 9 || (r + 1) * 1000 >= clients) slowest = std::max(slowest, save(checkpoints, run));
    }
    std::printf(
        "{\"what\": \"everybody once\", \"seconds\": %.1f, \"slowest_checkpoint_s\": %.3f, \"disk_GB\": %.2f, "
        "\"memory_without_states_MB\": %.0f, \"memory_MB\": %.0f}\n",
        clock_seconds() - begin, slowest, disk_of(directory), empty, memory_of_process("VmHWM"));
    return 0;
}

int more(const std::string& directory, std::size_t clients) {
    auto run = federation(clients);
    run.keep_in(store::Log{.directory = directory + "/log"});
    const CheckpointDirectory checkpoints(directory + "/checkpoints");
    if (!checkpoints.resume(run, "million")) return 1;
    const std::size_t recent = std::min<std::size_t>(clients, 10'000);
    auto small = federation(1000);
    small.round(Turns{});
    rounds(run, 50, recent);
    rounds(small, 50);
    Times warm, memory;  // in turns, for the machine may have other work
    for (int i = 0; i < 500; ++i) {
        warm.add(rounds(run, 1, recent));
        memory.add(rounds(small, 1));
    }
    tell("warm", warm);
    tell("memory", memory);
    save(checkpoints, run);
    tell("over all clients", rounds(run, 100));
    std::vector<double> kept;
    for (int i = 0; i < 10; ++i) {
        rounds(run, 10, recent);
        kept.push_back(save(checkpoints, run));
    }
    std::printf("{\"what\": \"checkpoint after 10 rounds\", \"median_s\": %.3f, \"worst_s\": %.3f}\n",
                Times::median(kept), *std::max_element(kept.begin(), kept.end()));
    kept.clear();
    for (int i = 0; i < 20; ++i) {
        const auto one = rounds(run, 1, recent);
        kept.push_back(one.round[0] + save(checkpoints, run));
    }
    std::printf("{\"what\": \"round with a checkpoint each\", \"median_ms\": %.1f, \"worst_ms\": %.1f}\n",
                1e3 * Times::median(kept), 1e3 * *std::max_element(kept.begin(), kept.end()));
    std::printf("{\"what\": \"end\", \"state\": \"%s\", \"disk_GB\": %.2f, \"memory_MB\": %.0f}\n",
                run.fingerprint().hex().c_str(), disk_of(directory), memory_of_process("VmHWM"));
    return 0;
}

int resumed(const std::string& directory, std::size_t clients) {
    auto run = federation(clients);
    run.keep_in(store::Log{.directory = directory + "/log"});
    const CheckpointDirectory checkpoints(directory + "/checkpoints");
    const double begin = clock_seconds();
    const bool found = checkpoints.resume(run, "million").has_value();
    std::printf("{\"what\": \"resume\", \"seconds\": %.3f, \"rounds\": %zu, \"state\": \"%s\", \"memory_MB\": %.0f}\n",
                clock_seconds() - begin, run.rounds_done(), run.fingerprint().hex().c_str(),
                memory_of_process("VmHWM"));
    return found ? 0 : 1;
}

int compaction(const std::string& directory, std::size_t clients) {
    auto run = federation(clients);
    run.keep_in(store::Log{.directory = directory + "/log"});
    const CheckpointDirectory checkpoints(directory + "/checkpoints");
    for (std::size_t r = 0; r * 1000 < clients; ++r) run.round(Turns{});
    double most = 0;
    Times all;
    for (std::size_t r = 0; r < 3 * clients / per_round; r += 10) {
        all.add(rounds(run, 10));
        most = std::max(most, disk_of(directory));
        save(checkpoints, run);
    }
    tell("with compaction", all);
    std::printf("{\"what\": \"disk\", \"alive_GB\": %.2f, \"most_GB\": %.2f, \"end_GB\": %.2f}\n",
                static_cast<double>(clients) * 31416e-9, most, disk_of(directory));
    return 0;
}

int walk(const std::string& directory, std::size_t clients, std::size_t count) {
    auto run = federation(clients);
    run.keep_in(
        store::Log{.directory = directory + "/log", .anew = checkpoints_in(directory + "/checkpoints").empty()});
    const CheckpointDirectory checkpoints(directory + "/checkpoints");
    checkpoints.resume(run, "million");
    std::printf("resumed %zu\n", run.rounds_done());
    std::fflush(stdout);
    while (run.rounds_done() < count) {
        run.round(sample::Uniform{20});
        save(checkpoints, run);
        std::printf("kept %zu %s\n", run.rounds_done(), run.fingerprint().hex().c_str());
        std::fflush(stdout);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 2 ? argv[1] : "", last = argc > 2 ? argv[2] : "";
    const auto number = [&](int i) { return argc > i ? std::strtoull(argv[i], nullptr, 10) : 0; };
    try {
        if (what == "fill" && argc == 4) return fill(last, number(3));
        if (what == "rounds" && argc == 4) return more(last, number(3));
        if (what == "resume" && argc == 4) return resumed(last, number(3));
        if (what == "compaction" && argc == 4) return compaction(last, number(3));
        if (what == "walk" && argc == 5) return walk(last, number(3), number(4));
    } catch (const std::exception& e) {
        std::fprintf(stderr, "million: %s\n", e.what());
        return 1;
    }
    std::fprintf(stderr, "million: see scripts/million\n");
    return 2;
}
