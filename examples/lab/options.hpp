// SPDX-License-Identifier: BSD-3-Clause
// What the command line asks for. Fields that a preset may fill are empty until somebody does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lab {

using NamedValues = std::vector<std::pair<std::string, std::string>>;

// A setting for the methods that have it.
struct Offer {
    std::string of;  // algorithms, by how their names begin; empty: all
    std::string name, value;
    std::string from{};  // file and line
    bool concerns(std::string_view algorithm) const;
};

struct Options {
    std::string algorithm, preset;
    std::optional<std::string> data, partition, model, normalise;
    std::optional<std::string> aux;     // public data of the server
    std::string loss, backend;          // empty: what the labels call for; simd
    std::string weights;                // FILE[,new-head][,ignore-extra][,prefix=NAME]: what the first stage begins with
    std::optional<std::size_t> clients, rounds, per_round, batch;
    std::string preset_hash, preset_path;
    std::vector<Offer> offers;          // what a preset sets
    std::optional<std::string> offered_scope;  // for the methods that take one
    NamedValues set;                    // what the user sets: the method must have it
    std::optional<std::string> scope;   // what is personal
    std::optional<std::string> trains;  // all or sampled
    std::string stages;                 // instead of algorithm
    std::string before;                 // stages that a preset puts before the algorithm
    NamedValues evaluate_also;          // settings of serving that every evaluation is repeated with

    std::uint64_t seed = 1;
    std::vector<std::uint64_t> seeds;         // instead of seed: a run for each
    std::optional<std::uint64_t> split_seed;  // the seed, unless given; of several the first
    std::optional<double> validation;
    std::optional<std::size_t> unseen;
    double quorum = 0;
    bool stateless = false, over_the_wire = false, keep_uploads = false;
    std::string codec;    // of uploads; empty: none
    bool pooled = false;  // everybody's data in one client
    std::size_t threads = 1;
    bool device = false;  // rounds on a GPU
    std::size_t evaluate_every = 1, evaluate_last = 0;  // of the last so many rounds; 0: of all
    std::vector<std::string> analyse;
    std::vector<std::string> metrics;  // auc, ece, gradient
    std::vector<std::string> shifts;   // of test images, NAME:SEVERITY or all
    std::string shift_dir;             // where these are files
    std::vector<std::string> augment;  // flip, crop:PIXELS, copies:COUNT

    std::string json, jsonl, csv, tensorboard, report, models, save_weights, trace, checkpoint, split_file;
    bool split_unexplained = false;  // the split file is there and does not say how it was dealt
    std::size_t checkpoint_every = 10;
    std::string store = "memory";  // where clients' states rest: memory, or log, which is kept beside the checkpoints
    bool resume = false, quiet = false, hits = false, trace_kernels = false;

    bool analyses(std::string_view what) const { return std::ranges::find(analyse, what) != analyse.end(); }
    bool measures(std::string_view what) const { return std::ranges::find(metrics, what) != metrics.end(); }
    bool evaluates_after(std::size_t round) const {
        const bool late = evaluate_last == 0 || *rounds - round < evaluate_last;
        return round == *rounds || (late && round % evaluate_every == 0);
    }
};

}  // namespace lab
