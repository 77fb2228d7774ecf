// SPDX-License-Identifier: BSD-3-Clause
// What the command line asks for. Fields that a preset may fill are empty until somebody does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lab {

struct Options {
    std::string algorithm = "fedavg";
    std::string preset;
    std::optional<std::string> data, partition, model, normalise;
    std::optional<std::size_t> clients, rounds, per_round, batch;
    std::vector<std::pair<std::string, std::string>> preset_set, set;  // settings of the method, by name

    std::uint64_t seed = 1;
    std::optional<std::uint64_t> split_seed;  // the seed, unless given
    double validation = 0;
    std::size_t unseen = 0;
    double quorum = 0;
    bool stateless = false, over_the_wire = false;
    bool pooled = false;  // everybody's data in one client
    std::size_t threads = 1;
    std::size_t evaluate_every = 1;

    std::string json, csv, report, models, checkpoint, split_file;
    std::size_t checkpoint_every = 10;
    bool resume = false, quiet = false;
};

}  // namespace lab
