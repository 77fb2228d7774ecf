// SPDX-License-Identifier: BSD-3-Clause
// Examples by name: what --data and --aux read.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <tessera/data/pool.hpp>

namespace lab {

inline constexpr auto data_names = std::to_array<std::string_view>(
    {"fashion-mnist", "synthetic:ALPHA,BETA", "cifar10:DIR", "cifar100:DIR", "cifar100-coarse:DIR", "idx:IMAGES,LABELS",
     "npy:FEATURES,LABELS", "leaf:DIR", "csv:FILE,label=COLUMN,client=COLUMN", "text:DIR"});

// Whether the files name the clients, as far as the name tells.
bool comes_with_clients(const std::string& data);
// Read once, however often it is asked for. `flag` is named in the sentence that is thrown where it cannot be read.
const tessera::data::Pool& pool_of(const std::string& data, const std::string& flag = "--data");

}  // namespace lab
