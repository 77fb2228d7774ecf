// SPDX-License-Identifier: BSD-3-Clause
// Every method the lab knows, by name. A new one is a line in one of the methods_*.cpp, which compile by themselves.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "session.hpp"

namespace lab {

struct Entry {
    std::string name, what;
    NamedValues settings;      // and their defaults
    bool scoped = false;       // takes --scope
    bool trains_all = false;   // all clients train in every round, unless told otherwise
    std::function<void(const Options&)> check;  // throws ConfigError for settings that cannot be
    std::function<std::unique_ptr<Session>(const Stage&, const Task&, tessera::Vec<float> warm_start)> open;
    bool takes_codec = false;  // uploads go through --codec
    std::string own{};  // what is personal, in the words of --scope, of a method whose paper fixes it
};

std::vector<Entry> averaging_methods();
std::vector<Entry> partial_methods();
std::vector<Entry> split_methods();
std::vector<Entry> prior_methods();
std::vector<Entry> mixing_methods();
std::vector<Entry> sparse_methods();
std::vector<Entry> neighbour_methods();
std::vector<Entry> adapter_methods();
std::vector<Entry> routing_methods();
std::vector<Entry> private_methods();

inline constexpr const char* usual_algorithm = "fedavg";

// The same method on adapters, norms and head alone.
Entry on_adapters(Entry e);
inline bool is_private(const std::string& algorithm) { return algorithm.ends_with("-dp"); }
// What --dp asks for: the private kin of the algorithm, with these settings.
void make_private(Options& o, const NamedValues& settings);

const std::vector<Entry>& catalogue();
// `flag` is named in the sentence that is thrown where there is no such algorithm.
const Entry& entry_of(const std::string& algorithm, std::string_view flag = "--algorithm");

}  // namespace lab
