// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/fedprox.hpp>

#include <doctest/doctest.h>

#include <limits>

#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace tessera {
template class Federation<FedProx<>, nn::Mclr<support::Toy::width, support::Toy::classes, float>>;
template class Federation<FedProx<>, nn::Mclr<support::Toy::width, support::Toy::classes, double>>;
}  // namespace tessera

namespace fedprox_test {

using namespace tessera;
using support::Toy;
using support::toy_data;

TEST_CASE("two steps on a quadratic, by hand") {
    // f = 1/2 (w - 4)^2 from w = 0, rate 0.1, mu = 2: first step 0.4, second 0.4 - 0.1 ((0.4 - 4) + 2 * 0.4) = 0.68.
    Federation<FedProx<>, support::Quadratic<>> fed{
        {}, support::quadratic_data({{{1, 4}}}), {.epochs = 2, .mu = 2}, {.batch = 0}};
    fed.round(sample::Everyone{});
    CHECK(support::distance(fed.server().w, {0.68}) < 1e-15);
    fed.round(sample::Everyone{});  // the pull is toward what was received, not toward the first w
    // 0.68 + 0.332 = 1.012; 1.012 - 0.1 ((1.012 - 4) + 2 (1.012 - 0.68)) = 1.2444
    CHECK(support::distance(fed.server().w, {1.2444}) < 1e-15);
}

TEST_CASE("the stronger the pull, the less clients drift") {
    const auto drift = [](double mu) {
        Federation<FedProx<>, nn::Mclr<Toy::width, Toy::classes>> fed{
            {}, toy_data(), {.local = {.rate = 0.05}, .epochs = 8, .mu = mu}, {.seed = 3, .batch = 5}};
        fed.round(sample::Everyone{});
        return support::distance(fed.server().w, fed.setup().initial);
    };
    CHECK(drift(0) > drift(1));
    CHECK(drift(1) > drift(5));
    CHECK(drift(5) > 0);
}

TEST_CASE("a mu that is negative or infinite is refused") {
    CHECK_THROWS_AS((Federation<FedProx<>, support::Quadratic<>>{{},
                                                                 support::quadratic_data({{{1, 4}}}),
                                                                 {.mu = std::numeric_limits<double>::infinity()}}),
                    ConfigError);
    CHECK_THROWS_WITH_AS(
        (Federation<FedProx<>, support::Quadratic<>>{{}, support::quadratic_data({{{1, 4}}}), {.mu = -1}}),
        doctest::Contains("mu must be 0 or more"), ConfigError);
    CHECK_THROWS_AS((Federation<FedProx<>, support::Quadratic<>>{
                        {}, support::quadratic_data({{{1, 4}}}), {.local = {.momentum = 1}}}),
                    ConfigError);  // policies inside are asked too
}

}  // namespace fedprox_test
