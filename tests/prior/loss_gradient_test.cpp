// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/prior/loss_gradient.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <support/one_client.hpp>

namespace loss_gradient_test {

using namespace tessera;
using prior::LossGradient;

TEST_CASE("mu = w - eta_a grad f(w; b)") {
    support::OneClient<2> client({{2, 1}});
    Vec<double> w{3, -1};
    const Personal<double> unread{};
    const auto mu = client.mean(LossGradient{.eta_a = 0.25}, w, unread);  // gradient 2 (w - 1) = (4, -4)
    CHECK(mu == Vec<double>{2, 0});
    CHECK(w == Vec<double>{3, -1});
    CHECK(client.tally().examples == 1);  // the work is counted
    CHECK(client.mean(LossGradient{.eta_a = 0}, w, unread) == w);
}

TEST_CASE("Dmu = 1 - eta_a a on a quadratic") {
    support::OneClient<2> client({{2, 1}});
    const auto v = client.pulled_back(LossGradient{.eta_a = 0.25}, {3, -1}, {}, {8, 0});
    CHECK(std::fabs(v[0] - 4) < 1e-9);  // a central difference on a quadratic: rounding over d, 4e-11 relative
    CHECK(std::fabs(v[1]) < 1e-9);
    CHECK(client.pulled_back(LossGradient{.eta_a = 0.25}, {3, -1}, {}, {0, 0}) == Vec<double>{0, 0});
}

TEST_CASE("it starts the prox at mu, remembers nothing and refuses a negative step") {
    CHECK(detail::starts_at_mean<LossGradient>);
    CHECK_FALSE(detail::remembers<LossGradient>);
    CHECK(LossGradient{}.eta_a == 0.01);
    CHECK_THROWS_WITH_AS(LossGradient{.eta_a = -0.1}.validate(), doctest::Contains("eta_a must be 0 or more"),
                         ConfigError);
    CHECK_THROWS_AS(LossGradient{.eta_a = std::nan("")}.validate(), ConfigError);
    CHECK_NOTHROW(LossGradient{.eta_a = 0}.validate());
}

}  // namespace loss_gradient_test
