// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/prior/natural.hpp>

#include <doctest/doctest.h>

#include <tessera/divergence/bernoulli.hpp>
#include <tessera/divergence/exponential.hpp>
#include <tessera/divergence/poisson.hpp>
#include <tessera/prior/hybrid.hpp>
#include <tessera/prior/loss_gradient.hpp>

#include <support/bits.hpp>
#include <support/geometry.hpp>

namespace natural_test {

using namespace tessera;

namespace {
// s = grad g*(w) + by.
template <class Divergence>
struct Slope {
    static constexpr auto offers = offer::forgets;
    Divergence divergence{};
    double by = 0;

    template <class R>
    void operator()(const auto&, const Vec<R>& w, const Drawn<R>&, const Personal<R>&, Vec<R>& s) const {
        divergence.gradient(In<R>(w), Out<R>(s));
        for (R& v : s) v += by;
    }
};

template <class G>
double gap_to_identity(G divergence, double by) {
    const FedBreD<prior::Natural<Slope<G>>, G> method{.prior = {{divergence, by}}, .divergence = divergence};
    auto natural = support::geometry_run(method, {0.3, 0.6});
    auto plain = support::geometry_run(FedBreD<prior::Identity, G>{.divergence = divergence}, {0.3, 0.6});
    natural.run(2, sample::Everyone{});
    plain.run(2, sample::Everyone{});
    return support::distance(natural.server().w, plain.server().w);
}
}  // namespace

TEST_CASE("s = grad g*(w) is mu = w in every geometry") {
    // exp(log w) and its like round: 1e-13 over forty steps.
    CHECK(gap_to_identity(divergence::Poisson{}, 0) < 1e-13);
    CHECK(gap_to_identity(divergence::Bernoulli{}, 0) < 1e-13);
    CHECK(gap_to_identity(divergence::Exponential{}, 0) < 1e-13);
    CHECK(gap_to_identity(divergence::Gaussian{}, 0) == 0);
    CHECK(gap_to_identity(divergence::Poisson{}, 0.01) > 1e-5);
    CHECK(gap_to_identity(divergence::Gaussian{}, 0.01) > 1e-5);
}

TEST_CASE("a natural parameter without a mean ends in a diverged visit that changes nothing") {
    using G = divergence::Exponential;
    const FedBreD<prior::Natural<Slope<G>>, G> method{.prior = {{.by = 100}}};
    auto run = support::geometry_run(method, {0.3, 0.6});
    const auto report = run.round(sample::Everyone{});
    CHECK(report.diverged == 1);
    CHECK(run.server().w == Vec<double>{0.3, 0.6});
}

TEST_CASE("what the map says of itself is passed on") {
    CHECK(detail::is_natural<prior::Natural<prior::LossGradient>>);
    CHECK(detail::starts_at_mean<prior::Natural<prior::LossGradient>>);
    CHECK_FALSE(detail::remembers<prior::Natural<prior::LossGradient>>);
    CHECK(detail::remembers<prior::Natural<prior::Hybrid>>);
    CHECK(prior::Natural<prior::Hybrid>{{.mh = prior::Reading::code}}.draws() == 2);
    CHECK_FALSE(detail::is_natural<prior::Identity>);
}

}  // namespace natural_test
