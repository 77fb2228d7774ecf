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
        std::string coded;
        for (const auto& e : list)
            if (e.takes_codec) coded.append(coded.empty() ? "" : ", ").append(e.name);
        for (auto& e : list)
            if (!e.takes_codec)
                e.check = [check = e.check, name = e.name, coded](const Options& o) {
                    if (!o.codec.empty())
                        throw tessera::ConfigError("--codec: in the lab the uploads of " + name +
                                                   " travel whole; it is taken by " + coded);
                    check(o);
                };
        return list;
    }();
    return all;
}

const Entry& entry_of(const std::string& algorithm, std::string_view flag) {
    std::vector<std::string> known;
    for (const auto& e : catalogue()) {
        if (e.name == algorithm) return e;
        known.push_back(e.name);
    }
    const auto meant = perhaps(algorithm, known);
    throw tessera::ConfigError(std::string(flag) + " " + algorithm + ": there is no such algorithm" + meant +
                               (meant.empty() ? ";" : "") + " `tessera-lab list` names all");
}

}  // namespace lab
