// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/mask/random_static.hpp>

#include <doctest/doctest.h>

#include <support/sparse_nets.hpp>

namespace random_static_test {

using namespace tessera;

TEST_CASE("a static mask is drawn once and stays") {
    const auto net = support::dnn_784_100_10();
    const mask::RandomStatic policy{.density = 0.2};
    const Mask first = policy.first(net.layout, Key{4});
    CHECK(first.count() < 15902 + 1);  // D d, less what flooring takes
    CHECK(first.count() > 15902 - 4);
    Mask mask = first;
    Vec<float> values(mask.count(), 1);
    const auto never = [](Out<float>) { FAIL("a static mask takes no gradient"); };
    policy.next(MaskSearch<float>(net.layout, values, Key{1}, 0, 10, never), mask);
    CHECK(mask == first);
    CHECK(policy.first(net.layout, Key{5}) != first);
}

TEST_CASE("a density outside (0, 1] is refused") {
    CHECK_THROWS_WITH_AS(mask::RandomStatic{.density = 0}.validate(), "density must lie in (0, 1], not 0.000000",
                         ConfigError);
    CHECK_THROWS_AS(mask::RandomStatic{.density = 1.1}.validate(), ConfigError);
    CHECK_NOTHROW(mask::RandomStatic{.density = 1}.validate());
}

}  // namespace random_static_test
