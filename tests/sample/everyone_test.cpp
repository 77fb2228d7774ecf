// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/sample/everyone.hpp>

#include <cstddef>
#include <set>
#include <vector>

#include <doctest/doctest.h>

namespace everyone_test {

using namespace tessera;

TEST_CASE("every candidate once, merged, in the order of a uniform draw") {
    static_assert(Sampler<sample::Everyone>);
    for (const std::size_t n : {0u, 1u, 2u, 17u}) {
        std::vector<Candidate> all;
        for (std::size_t k = 0; k < n; ++k)
            all.push_back({static_cast<Id>(2 * k), 50 + k});  // gaps: clients without data
        for (std::size_t round = 0; round < 4; ++round) {
            const auto plan = sample::Everyone{}.plan(Key{5}, round, all);
            const auto uniform = sample::Uniform{n}.plan(Key{5}, round, all);
            std::set<Id> seen;
            CHECK(plan.size() == n);
            for (std::size_t i = 0; i < plan.size(); ++i) {
                seen.insert(plan[i].client);
                CHECK(plan[i].merged);
                CHECK(plan[i].client % 2 == 0);
                CHECK(plan[i].client == uniform[i].client);
            }
            CHECK(seen.size() == n);
        }
    }
}

TEST_CASE("the order changes from round to round") {
    std::vector<Candidate> all;
    for (Id k = 0; k < 17; ++k) all.push_back({k, k});
    const auto first = sample::Everyone{}.plan(Key{5}, 0, all), second = sample::Everyone{}.plan(Key{5}, 1, all);
    bool differs = false;
    for (std::size_t i = 0; i < 17; ++i) differs = differs || first[i].client != second[i].client;
    CHECK(differs);
}

}  // namespace everyone_test
