// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/runtime/ensemble.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/toy_data.hpp>

namespace ensemble_test {

using namespace tessera;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes, double>;
constexpr Settings usual{.seed = 3, .batch = 5};
}  // namespace

TEST_CASE("the distance of tables of probabilities, by hand") {
    using report::analysis::mean_distance;
    const std::vector<double> a{0.5, 0.5, 1, 0}, b{0.25, 0.75, 0, 1};
    CHECK(mean_distance(a, b, 2) == (0.5 + 2) / 2);
    CHECK(mean_distance(a, a, 2) == 0);
    CHECK_THROWS_AS(mean_distance(a, std::vector<double>{1}, 2), ConfigError);
}

TEST_CASE("clients that do not move are the server's model; those that do are further away than their mean") {
    const auto public_data = toy_data({.clients = 1, .train = 40, .seed = 9});
    const auto measured = [&](double rate) {
        Federation<Ditto<>, Net> run{{}, toy_data(), {.local = {.rate = rate}, .personal = {.rate = rate}}, usual};
        run.run(3, sample::Everyone{});
        const auto before = run.fingerprint();
        const auto d = ensemble_distance(run, public_data[0]);
        CHECK(run.fingerprint() == before);
        CHECK(d.local.size() == run.size());
        CHECK(d.personal.size() == run.size());
        return d;
    };
    const auto still = measured(0);
    // The mean of equal doubles may round by a unit in the last place, and so may its logarithm.
    CHECK(still.ensemble < 1e-14);
    CHECK(still.mean_personal() < 1e-14);
    const auto moved = measured(0.2);
    double furthest = 0;
    for (const double each : moved.local) furthest = std::max(furthest, each);
    CHECK(moved.ensemble > 1e-4);
    CHECK(moved.ensemble < furthest);
    CHECK(moved.mean_personal() > 1e-3);
    CHECK(furthest < 2);
    const auto figure = report::analysis::ensemble_figure(moved);
    CHECK_NOTHROW(figure.validate());
    CHECK(figure.series.size() == 2);
}

TEST_CASE("the mean of the models answers as the mean of the answers where logits are linear, and not elsewhere") {
    const auto public_data = toy_data({.clients = 1, .train = 40, .seed = 9});
    const auto lesson = [&]<class M>(M, double rate) {
        Federation<FedAvg<>, M> run{{}, toy_data(), {.local = {.rate = rate}, .epochs = 5}, usual};
        run.round(sample::Everyone{});
        const auto d = ensemble_distance(run, public_data[0]);
        CHECK(report::analysis::ensemble_figure(d).caption.find("begin with a divergence of") != std::string::npos);
        return d.lesson;
    };
    const double linear = lesson(Net{}, 0.5), bent = lesson(nn::Dnn<Toy::width, 6, Toy::classes, double>{}, 0.5);
    CHECK(std::fabs(linear) < 1e-14);  // of doubles near 1
    CHECK(bent > 1e-3);
    CHECK(std::fabs(lesson(nn::Dnn<Toy::width, 6, Toy::classes, double>{}, 0)) < 1e-14);  // nobody moved
}

TEST_CASE("one client is its own ensemble; a method without personal models has no personal distances") {
    Federation<FedAvg<>, Net> run{{}, toy_data({.clients = 1}), {}, usual};
    run.round(sample::Everyone{});
    const auto d = ensemble_distance(run, run.data()[0]);
    CHECK(d.ensemble == d.local[0]);
    CHECK(d.ensemble > 0);
    CHECK(d.personal.empty());
    CHECK(report::analysis::ensemble_figure(d).series.size() == 1);
    CHECK_THROWS_AS(ensemble_distance(run, run.public_data()), ConfigError);
}

}  // namespace ensemble_test
