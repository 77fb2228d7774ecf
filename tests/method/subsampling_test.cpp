// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/subsampling.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>

namespace subsampling_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Dnn<Toy::width, 10, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};

template <class Me>
Federation<Me, Net> federation(const Me& method) {
    return {{}, toy_data(), method, usual};
}

}  // namespace

TEST_CASE("L-SPA-11 D = 1 is FedAvg, bit for bit, by any weights") {
    for (const auto weights : {Weigh::uniform, Weigh::samples})
        for (const bool unbiased : {false, true}) {
            auto all = federation(Subsampling<>{.density = 1, .unbiased = unbiased, .weights = weights});
            auto half = federation(Subsampling<>{.unbiased = unbiased, .weights = weights});
            auto avg = federation(FedAvg<>{.weights = weights});
            for (int r = 0; r < 3; ++r) {
                all.round(sample::Uniform{4});
                half.round(sample::Uniform{4});
                avg.round(sample::Uniform{4});
                if (unbiased)  // w + (x - w) is x but for a rounding a client and round
                    CHECK(support::distance(all.server().w, avg.server().w) < 1e-6);
                else
                    CHECK(same_bits(all.server().w, avg.server().w));
                CHECK(support::distance(half.server().w, avg.server().w) > 1e-3);
            }
        }
}

TEST_CASE("the expected move is D times FedAvg's, or all of it") {
    const auto share = [&](bool unbiased) {
        double moved = 0, whole = 0;
        for (std::uint64_t seed = 0; seed < 60; ++seed) {
            auto settings = usual;
            settings.seed = seed;
            Federation<Subsampling<>, Net> run{{}, toy_data(), {.density = 0.25, .unbiased = unbiased}, settings};
            Federation<FedAvg<>, Net> all{{}, toy_data(), {.weights = Weigh::uniform}, settings};
            run.round(sample::Everyone{});
            all.round(sample::Everyone{});
            for (std::size_t j = 0; j < Net::parameters; ++j) {
                const double step = static_cast<double>(all.server().w[j] - all.setup().initial[j]);
                moved += static_cast<double>(run.server().w[j] - run.setup().initial[j]) * step;
                whole += step * step;
            }
        }
        return moved / whole;
    };
    // 60 seeds of 134 coordinates and 6 clients: a standard deviation of about 0.01.
    CHECK(std::fabs(share(false) - 0.25) < 0.04);
    CHECK(std::fabs(share(true) - 1) < 0.16);
}

TEST_CASE("down goes everything, up the share D; the part is fresh in every round and client") {
    auto run = federation(Subsampling<>{});
    const auto report = run.round(sample::Everyone{});
    CHECK(report.formula_bytes_down == 6 * 4.0 * Net::parameters);
    const double floats = report.formula_bytes_up - 6 * (8 + (Net::parameters + 7) / 8);
    // 6 * 134 draws at one half: a standard deviation of 14 numbers.
    CHECK(std::fabs(floats / 4 - 3.0 * Net::parameters) < 71);

    using Me = Subsampling<>;
    const Setup<Me, Net> setup(Net{}, {}, usual);
    const auto data = toy_data();
    Workspace<float> workspace;
    const auto part = [&](Id k, std::size_t round) {
        return Client<Me, Net>(setup, k, data[k]).visit(setup.initial, round, workspace).mask;
    };
    CHECK(part(0, 0) == part(0, 0));
    CHECK(part(0, 0) != part(0, 1));
    CHECK(part(0, 0) != part(1, 0));
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4") {
    CHECK(support::broken_laws<Subsampling<>, Net>({}) == "");
    CHECK(support::broken_laws<Subsampling<>, Net>({.unbiased = true, .weights = Weigh::samples}) == "");
}

TEST_CASE("wrong settings are refused") {
    CHECK_THROWS_WITH_AS(federation(Subsampling<>{.density = 0}), "density must lie in (0, 1]", ConfigError);
    CHECK_THROWS_AS(federation(Subsampling<>{.density = 1.5}), ConfigError);
}

}  // namespace subsampling_test
