// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/draws.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/random.hpp>

#include <support/kernel_sets.hpp>

namespace draws_test {

using namespace tessera;
using namespace tessera::support;

TEST_CASE("every set draws what the streams of the names would, bit for bit") {
    const Key keys[] = {Key{}, Key{5}(purpose::sampling)(2), Key{~std::uint64_t{}}(purpose::client)};
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        for (const Key& key : keys)
            for (const std::size_t n : {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 1000u}) {
                CAPTURE(n);
                std::vector<std::uint64_t> names(n + 1), drawn(n + 2, 7);  // off any vector's alignment
                for (std::size_t i = 0; i <= n; ++i) names[i] = i < 3 ? i - 1 : key(i).key;
                kernels::first_draws(&key, names.data() + 1, drawn.data() + 1, n);
                std::size_t right = 0;
                for (std::size_t i = 0; i < n; ++i) right += drawn[i + 1] == Stream(key(names[i + 1])).word64();
                REQUIRE(right == n);
                REQUIRE(drawn[0] == 7);
                REQUIRE(drawn[n + 1] == 7);
            }
    });
}

}  // namespace draws_test
