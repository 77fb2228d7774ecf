// SPDX-License-Identifier: BSD-3-Clause
// LeNet5 on 28 x 28 as it is, where methods_test.cpp has its list at a narrow width. The stand-in is a CPU's plain loops, so this is
// passed by unless asked for (`--no-skip`), as the second half of `scripts/test --full` does.
#include <device/cohorts.hpp>

#include <cstddef>

#include <doctest/doctest.h>
#include <tessera/exec/serial.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/pfedme.hpp>
#include <tessera/method/scaffold.hpp>

namespace full_size_test {

using namespace cohorts;

constexpr rule::Sgd plain{.rate = 0.05};
constexpr std::size_t people = 3, least = 3;  // 3, 7 and 11 pictures, by batches of 4

template <class Me>
void agrees(const Net& net, const data::FederatedDataset& on, const Me& method) {
    const Fresh fresh;
    const auto left = [&](const auto& executor, std::size_t rounds = 5) {
        return left_by(net, method, executor, rounds, {.seed = 3, .batch = 4, .rounds = 5}, on, {.count = 2});
    };
    const auto host = left(exec::Serial{});
    const auto device = left(exec::Device{.wave = 256});
    CHECK(standin::faults().empty());
    CHECK(device.products > 5);
    CHECK(apart(device.all, host.all) <= 1e-4);  // what the device promises (docs/policies/device.md)
    CHECK(apart(host.all, left(exec::Serial{}, 1).all) > 1e-2);  // they went somewhere
    CHECK(left(exec::Device{.wave = 256}).state == device.state);
}
void all_methods(const Net& net, const data::FederatedDataset& on) {
    agrees(net, on, FedAvg<>{.local = plain});
    agrees(net, on, FedProx<>{.local = plain, .mu = 0.5});
    agrees(net, on, Ditto<>{.local = plain, .personal = plain, .lambda = 0.7});
    agrees(net, on, PFedMe<>{.local = {.rate = 0.03}, .alpha_m = 0.05, .steps = 2, .inner_steps = 2});
    agrees(net, on, FedAlt<>{.order = {.v = plain, .u = plain}});
    agrees(net, on, FedSpa<mask::RandomStatic>{.masking = {.density = 0.5}, .local = plain});
    agrees(net, on, Scaffold<>{.local = plain});
}

TEST_CASE("LeNet5" * doctest::skip()) {
    const nn::Shape grey(1, 28, 28);
    all_methods(Net(grey, nn::recipe::lenet5(10)), pictures_of(grey, 10, people, least));
}
}  // namespace full_size_test
