// SPDX-License-Identifier: BSD-3-Clause
// What every method owes, asked of one: the conformance kit, and the same state for one, two and three threads, also
// when all clients train and few are merged.
#pragma once

#include <cstddef>
#include <string>

#include <tessera/conformance.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/toy_data.hpp>

namespace tessera::support {

// Empty if all laws hold, else the sentences of those that do not.
template <class Me, class Net = nn::Mclr<Toy::width, Toy::classes>>
std::string broken_laws(const Me& method, const conformance::MethodLaws& laws = {}) {
    std::string all;
    const auto complain = [&](const std::string& sentence) { all.append(all.empty() ? "" : "; ").append(sentence); };
    for (const auto& sentence : conformance::method<Me, Net>(method, Net{}, laws)) complain(sentence);
#ifdef _OPENMP
    const auto state_after = [&](std::size_t threads, bool everyone_trains) {
        Federation<Me, Net> run{{}, toy_data(), method, {.seed = 3, .batch = 5, .rounds = 3}};
        run.run(3, sample::Uniform{.count = 3, .everyone_trains = everyone_trains}, exec::OpenMp{threads});
        return run.fingerprint();
    };
    for (const bool everyone : {false, true})
        for (const std::size_t threads : {std::size_t{2}, std::size_t{3}})
            if (state_after(threads, everyone) != state_after(1, everyone))
                complain(std::to_string(threads) + " threads end in another state than one");
#endif
    return all;
}

}  // namespace tessera::support
