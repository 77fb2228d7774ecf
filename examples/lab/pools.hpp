// SPDX-License-Identifier: BSD-3-Clause
// Examples by name: what --data and --aux read.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/data/pool.hpp>
#include <tessera/io/text.hpp>

namespace lab {

inline constexpr auto data_names = std::to_array<std::string_view>(
    {"fashion-mnist", "synthetic:ALPHA,BETA", "cifar10:DIR", "cifar100:DIR", "cifar100-coarse:DIR", "idx:IMAGES,LABELS",
     "npy:FEATURES,LABELS", "leaf:DIR", "csv:FILE,label=COLUMN,client=COLUMN", "text:DIR",
     "tsv:FILE,client=COLUMN,text=COLUMN", "jsonl:FILE,client=MEMBER,text=MEMBER", "json:FILE,text=MEMBER"});

struct ReadPool : tessera::data::Pool {
    bool tokens = false;                  // features name characters or words
    std::vector<std::string> left_out{};  // clients of the files that have nothing to train on
    std::vector<std::string> classes{}, features{};  // their names, where they have some
    bool holes = false;                              // features that are NaN, to be filled in
    std::shared_ptr<const tessera::io::Vocabulary> vocabulary{};  // of texts
    std::string remarks{};  // on what was made of the files, for the line that says what was read
};

// Files that are read: one, or those of a directory with this ending.
struct DataPlace {
    std::string path, ending{};
};

// Whether the files name the clients, as far as the name tells.
bool comes_with_clients(const std::string& data);
std::vector<DataPlace> places_of(const std::string& data);
// Read once, however often it is asked for. `flag` is named in the sentence that is thrown where it cannot be read.
const ReadPool& pool_of(const std::string& data, std::string_view flag = "--data");

// Of texts that are read as ids; else null.
inline const tessera::io::Vocabulary* vocabulary_of(const std::string& data) {
    return data.starts_with("synthetic") ? nullptr : pool_of(data).vocabulary.get();
}
// Whether rows name words, so that a model of them can go on.
inline bool speaks(const tessera::Examples& examples) {
    return examples.storage == tessera::Storage::int32 || examples.storage == tessera::Storage::bytes;
}

}  // namespace lab
