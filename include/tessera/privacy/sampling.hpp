// SPDX-License-Identifier: BSD-3-Clause
// How private steps come by their examples, and what one therefore costs (contracts/private.hpp).
//
//   Poisson   each example by itself
//   Epochs    the batches of shuffled passes
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tessera/contracts/private.hpp>

namespace tessera::sampling {

// Each example by itself, with probability `rate`; batches vary and may be empty. The batch of the method is only its
// place in time.
struct Poisson {
    static constexpr std::string_view words = "Poisson samples", adjacency = "one example added or removed";

    template <class S, class B>
    static auto draw(const S& at, const B&, double rate, Key key) {
        return at.poisson(rate, 1, key);
    }
    template <class S>
    static double expected(const S& at, double rate) {
        return rate * static_cast<double>(at.ids.size());
    }
    template <class S>
    static Spent cost(const S&, double rate, double noise, std::uint64_t) {
        return {rate, noise, 1};
    }
};

// The batches of shuffled passes, as they come. They are not Poisson samples and must not be counted so (Chua et al.,
// ICML 2024): an example is in one batch of each pass, so a pass costs one step on all data. An example that is
// replaced moves a sum by twice the norm.
struct Epochs {
    static constexpr std::string_view words = "shuffled passes, no amplification",
                                      adjacency = "one example replaced";

    template <class S, class B>
    static auto draw(const S&, const B& b, double, Key key) {
        decltype(S{}.epochs(1)) one(b.examples());
        one.append(b.ids(), key);
        return one;
    }
    template <class S>
    static double expected(const S& at, double) {
        return static_cast<double>(std::min(at.batch_size(), at.ids.size()));
    }
    template <class S>
    static Spent cost(const S& at, double, double noise, std::uint64_t step) {
        return {1, noise / 2, step % at.batch_count() == 0 ? 1u : 0u};
    }
};

}  // namespace tessera::sampling
