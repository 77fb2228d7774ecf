// SPDX-License-Identifier: BSD-3-Clause

#include <tessera/core/error.hpp>

#include "methods.hpp"
#include "nearest.hpp"

namespace lab {

const std::vector<Entry>& catalogue() {
    static const std::vector<Entry> all = [] {
        std::vector<Entry> list;
        for (auto&& part : {averaging_methods(), partial_methods(), split_methods(), prior_methods(), mixing_methods(),
                            sparse_methods(), neighbour_methods(), adapter_methods(), routing_methods(),
                            private_methods()})
            list.insert(list.end(), part.begin(), part.end());
        return list;
    }();
    return all;
}

const Entry& entry_of(const std::string& algorithm, const std::string& flag) {
    std::vector<std::string> known;
    for (const auto& e : catalogue()) {
        if (e.name == algorithm) return e;
        known.push_back(e.name);
    }
    const auto meant = perhaps(algorithm, known);
    throw tessera::ConfigError(flag + " " + algorithm + ": there is no such algorithm" + meant +
                               (meant.empty() ? ";" : "") + " `tessera-lab list` names all");
}

}  // namespace lab
