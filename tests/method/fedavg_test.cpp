// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/fedavg.hpp>

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace tessera {
template class Federation<FedAvg<>, nn::Mclr<support::Toy::width, support::Toy::classes, float>>;
template class Federation<FedAvg<>, nn::Mclr<support::Toy::width, support::Toy::classes, double>>;
}  // namespace tessera

namespace fedavg_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};
}  // namespace

TEST_CASE("it learns: the loss of the pool falls") {
    Federation<FedAvg<>, Net> fed{{}, toy_data(), {}, usual};
    double first = 0, last = 0;
    for (int r = 0; r < 20; ++r) (r == 0 ? first : last) = fed.round(sample::Everyone{}).train_loss;
    CHECK(last < 0.8 * first);
    Federation<FedAvg<>, Net> still{{}, toy_data(), {.local = {.rate = 0}}, usual};
    for (int r = 0; r < 20; ++r) (r == 0 ? first : last) = still.round(sample::Everyone{}).train_loss;
    CHECK(last > 0.99 * first);
}

TEST_CASE("the server's vector is the weighted mean of what its clients send") {
    Federation<FedAvg<>, Net> fed{{}, toy_data(), {.epochs = 2}, usual};
    std::vector<Up<float>> ups;
    Workspace<float> workspace;
    std::vector<Candidate> candidates;
    for (Id k = 0; k < 6; ++k) candidates.push_back({k, fed.data()[k].key});
    for (const auto& seat : sample::Uniform{4}.plan(Key{usual.seed}, 0, candidates))
        fed.at_client(seat.client, workspace, [&](auto client, auto received, auto& space) {
            CHECK(same_bits(received, fed.server().w));
            ups.push_back(client.visit(received, 0, space));
            CHECK(ups.back().weight == static_cast<double>(fed.data()[seat.client].train.size()));
        });
    Vec<float> expected = fed.server().w;
    Nothing none;
    const auto rows = rows_of(std::span<const Up<float>>(ups));
    fold_rows(fold::Mean{}, Context<Net>{}, expected, Rows<float>(rows), none);
    fed.round(sample::Uniform{4});
    CHECK(same_bits(fed.server().w, expected));
    ups.pop_back();
    const auto fewer = rows_of(std::span<const Up<float>>(ups));
    fold_rows(fold::Mean{}, Context<Net>{}, expected, Rows<float>(fewer), none);
    CHECK_FALSE(same_bits(fed.server().w, expected));
}

TEST_CASE("with `steps` a visit takes that many batches of the client's stream, which goes on where it stopped") {
    const auto data = toy_data({.clients = 1, .train = 12});
    const auto end = [&](std::size_t steps, std::size_t rounds) {
        Federation<FedAvg<>, Net> fed{{}, data, {.steps = steps}, usual};
        for (std::size_t r = 0; r < rounds; ++r) {
            const auto report = fed.round(sample::Everyone{});
            CHECK(report.outcome.merged == 1);
        }
        return fed.server().w;
    };
    // 12 examples in batches of 5: three batches a pass. One client, no momentum: only the sequence of batches counts.
    CHECK(same_bits(end(2, 6), end(3, 4)));
    CHECK(same_bits(end(12, 1), end(1, 12)));
    CHECK_FALSE(same_bits(end(2, 6), end(2, 5)));
    Settings forgetful = usual;
    forgetful.stateless = true;
    Federation<FedAvg<>, Net> again{{}, data, {.steps = 2}, forgetful};
    again.run(6, sample::Everyone{});
    CHECK_FALSE(same_bits(again.server().w, end(2, 6)));  // cannot go on where the stream stopped
}

TEST_CASE("no epochs and no steps move nothing") {
    Federation<FedAvg<>, Net> fed{{}, toy_data(), {.epochs = 0}, usual};
    fed.run(2, sample::Everyone{});
    CHECK(same_bits(fed.server().w, fed.setup().initial));
}

}  // namespace fedavg_test
