// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/cache.hpp>

#include <cstddef>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include <tessera/kernels/mean.hpp>

namespace cache_test {

namespace {

// What Linux says of the first data cache of level 1; 0 where it says nothing.
std::size_t ways_by_linux() {
    const std::string caches = "/sys/devices/system/cpu/cpu0/cache/index";
    for (const char* index : {"0", "1", "2"}) {
        std::string type;
        std::size_t level = 0, ways = 0;
        std::ifstream(caches + index + "/type") >> type;
        std::ifstream(caches + index + "/level") >> level;
        std::ifstream(caches + index + "/ways_of_associativity") >> ways;
        if (level == 1 && (type == "Data" || type == "Unified")) return ways;
    }
    return 0;
}

}  // namespace

TEST_CASE("cache: the CPU's word on its ways is Linux's") {
    const std::size_t ways = tessera::kernels::l1_ways();
    CHECK(ways > 0);
    if (const std::size_t linux = ways_by_linux(); linux > 0) CHECK(ways == linux);
    else MESSAGE("Linux does not say here");
}

TEST_CASE("cache: a mean's rows are fetched far on Zen 4, which has 8 ways, and near on the Xeon, which has 12") {
    using namespace tessera::kernels;
    CHECK_FALSE(fetch_for(8).near);
    CHECK(fetch_for(12).near);
    CHECK(mean_fetch().near == fetch_for(l1_ways()).near);
    for (const MeanFetch how : {near_fetch, far_fetch}) CHECK(how.tile % mean_tile == 0);
}

}  // namespace cache_test
