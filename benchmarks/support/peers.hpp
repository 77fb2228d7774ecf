// SPDX-License-Identifier: BSD-3-Clause
// Opens the libraries of the peers, which lie beside the program. One that cannot be had is entered as "not measured".
#pragma once

#include <cstdio>
#include <span>
#include <string>

#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <unistd.h>

namespace bench {

struct Peer {
    const char* name;
    const char* missing;  // why there is no library; empty if there should be one
};

inline void enter_missing(const std::string& problem, const std::string& peer, const std::string& why) {
    benchmark::RegisterBenchmark((problem + "/" + peer).c_str(), [why](benchmark::State& state) {
        state.SkipWithError(("not measured: " + why).c_str());
    });
}

// The peer's add_peer(all), or why there is none. Libraries stay open until the program ends.
template <class Competitors>
std::string add_peer(const std::string& program, const Peer& peer, Competitors& all) {
    if (*peer.missing) return peer.missing;
    char self[4096];
    const auto length = ::readlink("/proc/self/exe", self, sizeof self);
    const std::string here(self, length > 0 ? static_cast<std::size_t>(length) : 0);
    const std::string path = here.substr(0, here.rfind('/')) + "/libbench_" + program + "_" + peer.name + ".so";
    if (::access(path.c_str(), R_OK) != 0) return "it could not be built here";
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        std::fprintf(stderr, "%s: %s\n", peer.name, ::dlerror());
        return "its library could not be opened here";
    }
    reinterpret_cast<void (*)(Competitors&)>(::dlsym(library, "add_peer"))(all);
    return {};
}

// Enters every peer into every problem of a program.
template <class Competitors, class Problem>
void add_peers(const std::string& program, std::span<const Peer> peers, Problem& problem) {
    for (const auto& peer : peers)
        if (const auto why = add_peer<Competitors>(program, peer, problem); !why.empty())
            enter_missing(problem.name(), peer.name, why);
}

}  // namespace bench
