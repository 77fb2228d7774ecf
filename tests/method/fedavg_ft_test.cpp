// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/fedavg_ft.hpp>

#include <cmath>
#include <cstddef>

#include <doctest/doctest.h>

#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace tessera {
template class Federation<FedAvgFt<>, nn::Mclr<support::Toy::width, support::Toy::classes, float>>;
template class Federation<FedAvgFt<>, nn::Mclr<support::Toy::width, support::Toy::classes, double>>;
}  // namespace tessera

namespace fedavg_ft_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
// What a quadratic client predicts is its w.
template <class Fed>
double served(const Fed& fed, Id k) {
    Workspace<double> workspace;
    return fed.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
        const auto share = fed.data()[k];
        Vec<double> out(share.train.size());
        client.serve(received, fed.rounds_done(), space)(Batch<double>(*share.examples, share.train), out);
        return out[0];
    });
}
}  // namespace

TEST_CASE("serve tunes a copy of w on the client's own data") {
    const auto data = support::quadratic_data({{{1, 0}}, {{3, 4}}});
    const auto check = [&](std::size_t tune, double first, double second) {
        Federation<FedAvgFt<>, support::Quadratic<>> fed{{}, data, {.tune_epochs = tune}, {.batch = 0}};
        fed.run(300, sample::Everyone{});
        CHECK(fed.server().w[0] == doctest::Approx(3).epsilon(1e-12));
        const auto before = fed.fingerprint();
        // From w = 3: client 0 goes toward 0 by factors 0.9, client 1 toward 4 by factors 0.7.
        CHECK(served(fed, 0) == doctest::Approx(first).epsilon(1e-12));
        CHECK(served(fed, 1) == doctest::Approx(second).epsilon(1e-12));
        CHECK(fed.fingerprint() == before);
    };
    check(0, 3, 3);
    check(1, 3 * 0.9, 4 - 0.7);
    check(2, 3 * 0.81, 4 - 0.49);
}

TEST_CASE("a pull while tuning ends between the client's optimum and w; FedAlt's Ditto has 2 lambda") {
    // From w = 3 with pull p: (a c + p w) / (a + p).
    for (const double pull : {0.0, 1.0, 2.0}) {
        Federation<FedAvgFt<>, support::Quadratic<>> fed{{},
                                                         support::quadratic_data({{{1, 0}}, {{3, 4}}}),
                                                         {.tune_epochs = 400, .tune_prox_weight = pull},
                                                         {.batch = 0}};
        fed.run(300, sample::Everyone{});
        CHECK(std::fabs(served(fed, 0) - pull * 3 / (1 + pull)) < 1e-9);
        CHECK(served(fed, 1) == doctest::Approx((12 + pull * 3) / (3 + pull)).epsilon(1e-9));
    }
    CHECK_THROWS_WITH_AS((Federation<FedAvgFt<>, support::Quadratic<>>{
                             {}, support::quadratic_data({{{1, 0}}}), {.tune_prox_weight = -1}}),
                         doctest::Contains("tune_prox_weight must be 0 or more"), ConfigError);
}

TEST_CASE("tuning brings each client nearer to its own data") {
    Federation<FedAvgFt<>, nn::Mclr<Toy::width, Toy::classes>> fed{
        {}, toy_data(), {.tune_epochs = 5}, {.seed = 3, .batch = 5}};
    fed.run(3, sample::Everyone{});
    Workspace<float> workspace;
    for (Id k = 0; k < 6; ++k) {
        const auto share = fed.data()[k];
        const Batch<float> train(*share.examples, share.train);
        const auto likelihood = [&](const auto& predict) {
            Vec<float> out(share.train.size() * Toy::classes);
            predict(train, out);
            double sum = 0;
            for (std::size_t i = 0; i < share.train.size(); ++i)
                sum += static_cast<double>(out[i * Toy::classes + train.label(i)]);
            return sum;
        };
        const double tuned = fed.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
            return likelihood(client.serve(received, 3, space));
        });
        CHECK(tuned > likelihood(plain(fed.setup().context(share, k, 3, workspace), fed.server().w)));
    }
}

}  // namespace fedavg_ft_test
