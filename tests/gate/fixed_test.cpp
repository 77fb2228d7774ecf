// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/gate/fixed.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <support/toy_numbers.hpp>

namespace fixed_test {

using namespace tessera;

TEST_CASE("one q0 for every example and block, no parameters") {
    const auto data = support::toy_dataset<float>(4, 3, 2);
    const auto ids = support::first_ids(4);
    const Routes routes{3, 2};
    std::vector<float> q0(8);
    gate::Fixed{.q0 = 0.75}(routes, In<float>{}, Batch<float>(data.examples(), ids), Out<float>(q0), {});
    CHECK(q0 == std::vector<float>(8, 0.75f));
    CHECK(gate::Fixed{}.segments(routes).empty());
    CHECK(check_gate<gate::Fixed, double>());
}

TEST_CASE("a share outside [0, 1] is refused") {
    CHECK_THROWS_WITH_AS(gate::Fixed{.q0 = 1.5}.validate(), "q0 must lie in [0, 1], not 1.500000", ConfigError);
    CHECK_THROWS_AS(gate::Fixed{.q0 = -0.1}.validate(), ConfigError);
    CHECK_NOTHROW(gate::Fixed{.q0 = 0}.validate());
}

}  // namespace fixed_test
