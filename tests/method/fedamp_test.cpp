// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/fedamp.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <tessera/method/local.hpp>
#include <tessera/method/mtl.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>

namespace fedamp_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};

server_t<FedAmp<>, double> holding(const std::vector<double>& numbers) {
    server_t<FedAmp<>, double> server{.w = {0}, .all = {}};
    for (const double w : numbers) server.all.push_back({w});
    return server;
}
}  // namespace

TEST_CASE("V-BASE-2 w = (0, 1), alpha_k = sigma = 1: u = (0.3678794412, 0.6321205588)") {
    const FedAmp<> method{.sigma = 1, .alpha_k = 1};
    const auto server = holding({0, 1});
    CHECK(std::fabs(method.send(server, 0).u[0] - 0.3678794412) < 5e-11);  // the digits of the vector
    CHECK(std::fabs(method.send(server, 1).u[0] - 0.6321205588) < 5e-11);
    CHECK(method.send(server, 0).pull == method.lambda);
}

TEST_CASE("L-BASE-7 weights add up to 1; equal models are what everybody gets; a large sigma gives the mean") {
    const FedAmp<> method{.sigma = 2, .alpha_k = 0.5};
    const auto server = holding({0.5, -1, 3, 0.25}), shifted = holding({1.5, 0, 4, 1.25});
    for (Id i = 0; i < 4; ++i)  // of numbers that are all larger by 1 the sum is larger by 1: they count 1 in all
        CHECK(std::fabs(method.send(shifted, i).u[0] - method.send(server, i).u[0] - 1) < 1e-15);
    const auto equal = holding({2, 2, 2, 2});
    for (Id i = 0; i < 4; ++i) CHECK(method.send(equal, i).u[0] == 2);

    const FedAmp<> wide{.sigma = 1e12};  // alpha_k / sigma = 1/N
    for (Id i = 0; i < 4; ++i) CHECK(std::fabs(wide.send(server, i).u[0] - 0.6875) < 1e-10);  // 16 / sigma
    const FedAmp<> narrow{.sigma = 1e-3};
    for (Id i = 0; i < 4; ++i) CHECK(narrow.send(server, i).u[0] == server.all[i][0]);
}

TEST_CASE("HeurFedAMP: by angle, the own share as given, the others in proportion to exp(sigma cos)") {
    server_t<FedAmp<>, double> server{.w = {0, 0}, .all = {{1, 0}, {0, 2}, {-3, 0}, {0, 0}}};
    const auto u = [&](const FedAmp<>& method, Id i) { return method.send(server, i).u; };
    const FedAmp<> method{.sigma = 2, .likeness = Likeness::angle, .own_share = 0.4};
    // Cosines with the first: 0, -1, and 0 of the zero model. exp(2 cos) = 1, e^-2, 1.
    const double all = 2 + std::exp(-2.0);
    CHECK(std::fabs(u(method, 0)[0] - (0.4 + 0.6 * -3 * std::exp(-2.0) / all)) < 1e-15);  // a few roundings of 1
    CHECK(std::fabs(u(method, 0)[1] - 0.6 * 2 / all) < 1e-15);
    // Angles do not know lengths: distances do.
    auto longer = server;
    longer.all[0] = {10, 0};
    CHECK(std::fabs(method.send(longer, 0).u[1] - u(method, 0)[1]) < 1e-15);
    const FedAmp<> by_distance{.sigma = 2};
    CHECK(std::fabs(by_distance.send(longer, 0).u[1] - u(by_distance, 0)[1]) > 1e-3);

    const FedAmp<> selfish{.likeness = Likeness::angle, .own_share = 1};
    for (Id i = 0; i < 4; ++i) CHECK(same_bits(u(selfish, i), server.all[i]));
    const FedAmp<> even{.sigma = 1e-12, .likeness = Likeness::angle};  // 1/N each: the mean
    for (Id i = 0; i < 4; ++i) CHECK(support::distance(u(even, i), Vec<double>{-0.5, 0.5}) < 1e-11);  // of sigma
    const FedAmp<> keen{.sigma = 1e300, .likeness = Likeness::angle, .own_share = 0.5};
    server.all = {{1, 0}, {1, 1}, {0, 1}, {-1, 0}};
    CHECK(support::distance(u(keen, 0), Vec<double>{1, 0.5}) < 1e-15);  // the closest gets all that is not own
    const server_t<FedAmp<>, double> alone{.w = {3}, .all = {{3}}};
    CHECK(even.send(alone, 0).u[0] == 3);
}

TEST_CASE("a visit descends toward u from the client's own model; those alike come together, the others do not") {
    // Two pairs of parabolas around 0 and 10: with sigma = 1 nobody hears of the other pair.
    Federation<FedAmp<>, support::Quadratic<>> run{
        {}, support::quadratic_data({{{1, 0}}, {{1, 0.5}}, {{1, 10}}, {{1, 10.5}}}),
        {.local = {.rate = 0.1}, .lambda = 0.25, .sigma = 1}, {.batch = 0}, Vec<double>{5}};
    run.run(2000, sample::Everyone{});
    // With u = w_i + xi (w_j - w_i): 0 = w_i - c_i + pull xi (w_i - w_j), so w_i - w_j = (c_i - c_j) / (1 + 2 pull xi).
    const double pull = 0.25 * 4, low = run.client(0).w[0], high = run.client(1).w[0];
    const double xi = 0.25 * std::exp(-(high - low) * (high - low));
    CHECK(std::fabs(high - low - 0.5 / (1 + 2 * pull * xi)) < 1e-9);
    CHECK(std::fabs(low + high - 0.5) < 1e-9);
    CHECK(std::fabs(run.client(2).w[0] + run.client(3).w[0] - 20.5) < 1e-9);
    CHECK(std::fabs(run.server().w[0] - 5.25) < 1e-9);
}

TEST_CASE("lambda = 0 is Local, bit for bit; a huge sigma is mean-regularised learning") {
    Federation<FedAmp<>, Net> amp{{}, toy_data(), {.lambda = 0}, usual};
    Federation<Local<>, Net> local{{}, toy_data(), {}, usual};
    Federation<FedAmp<>, Net> wide{{}, toy_data(), {.lambda = 0.2e12 / 6, .sigma = 1e12}, usual};
    Federation<Mtl<>, Net> mtl{{}, toy_data(), {.lambda = 0.2}, usual};
    for (int r = 0; r < 3; ++r) {
        amp.round(sample::Uniform{4}), local.round(sample::Uniform{4});
        wide.round(sample::Uniform{4}), mtl.round(sample::Uniform{4});
    }
    for (Id k = 0; k < amp.size(); ++k) {
        CHECK(same_bits(amp.client(k).w, local.client(k).w));
        if (wide.client(k).w.empty()) continue;
        CHECK(support::distance(wide.client(k).w, mtl.client(k).w) < 1e-5);  // u and wbar round differently
        CHECK_FALSE(same_bits(wide.client(k).w, local.client(k).w));
    }
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    // The server adds models in the order of clients' numbers, which relabelling changes in the last bit.
    CHECK(support::broken_laws(FedAmp<>{}, {.relabels = false}) == "");
    CHECK(support::broken_laws(FedAmp<>{.steps = 3, .lambda = 0.1}, {.relabels = false}) == "");
    CHECK(support::broken_laws(FedAmp<>{.lambda = 0.1, .likeness = Likeness::angle}, {.relabels = false}) == "");
}

TEST_CASE("wrong settings and uploads are refused") {
    using Run = Federation<FedAmp<>, Net>;
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.sigma = 0}}), doctest::Contains("sigma must be positive"), ConfigError);
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.lambda = -1}}), doctest::Contains("lambda must be 0 or more"),
                         ConfigError);
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.sigma = 10, .alpha_k = 2.1}}),
                         doctest::Contains("alpha_k must be at most sigma / (clients - 1), 2.000000 here"), ConfigError);
    CHECK_NOTHROW((Run{{}, toy_data(), {.sigma = 10, .alpha_k = 2}}));
    CHECK_NOTHROW((Run{{}, toy_data(), {.sigma = 10, .alpha_k = 2.1, .likeness = Likeness::angle}}));
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.own_share = 1.5}}), doctest::Contains("own_share must be in (0, 1]"),
                         ConfigError);
    const FedAmp<> method;
    const auto server = holding({0, 1});
    CHECK(method.admits(server, 1, FedAmp<>::Upload<double>{Vec<double>(1), 1}));
    CHECK_FALSE(method.admits(server, 1, FedAmp<>::Upload<double>{Vec<double>(2), 1}));
    CHECK_FALSE(method.admits(server, 1, FedAmp<>::Upload<double>{Vec<double>(1), 2}));
}

}  // namespace fedamp_test
