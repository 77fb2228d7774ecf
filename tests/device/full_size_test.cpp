// SPDX-License-Identifier: BSD-3-Clause
// LeNet5 on 28 x 28 and ResNet-8 on 3 x 32 x 32 as they are, where methods_test.cpp has their lists at a narrow width. The stand-in
// is a CPU's plain loops, so this is passed by unless asked for (`--no-skip`), as the second half of `scripts/test --full` does.
#include <device/cohorts.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

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

const nn::Shape colours(3, 32, 32);
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
    CHECK(apart(host.all, left(exec::Serial{}, 1).all) > 2e-3);  // they went somewhere, twenty times as far
    CHECK(left(exec::Device{.wave = 256}).state == device.state);
}
void all_methods(const Net& net, const data::FederatedDataset& on, const rule::Sgd& plain) {
    agrees(net, on, FedAvg<>{.local = plain});
    agrees(net, on, FedProx<>{.local = plain, .mu = 0.5});
    agrees(net, on, Ditto<>{.local = plain, .personal = plain, .lambda = 0.7});
    agrees(net, on, PFedMe<>{.local = {.rate = 0.6 * plain.rate}, .alpha_m = plain.rate, .steps = 2, .inner_steps = 2});
    agrees(net, on, FedAlt<>{.order = {.v = plain, .u = plain}});
    agrees(net, on, FedSpa<mask::RandomStatic>{.masking = {.density = 0.5}, .local = plain});
    agrees(net, on, Scaffold<>{.local = plain});
}

TEST_CASE("LeNet5" * doctest::skip()) {
    const nn::Shape grey(1, 28, 28);
    all_methods(Net(grey, nn::recipe::lenet5(10)), pictures_of(grey, 10, people, least), {.rate = 0.05});
}

// What a round of FedAvg has made of w, with one step for each client on all that it has.
template <class R, class E>
std::vector<double> after_a_step(const data::FederatedDataset& on, const E& executor, double rate) {
    const nn::Network<R> net(colours, nn::recipe::resnet8(10));
    Federation<FedAvg<>, nn::Network<R>> run(net, on, FedAvg<>{.local = {.rate = rate}}, {.seed = 3, .batch = 0, .rounds = 1});
    run.run(1, sample::Uniform{.count = people}, executor);
    return {run.server().w.begin(), run.server().w.end()};
}
// Each layer's gradient, by itself, is that of double precision. 1e-5 of the largest of its numbers: one is a sum of up to 21 x 1024
// terms one after the other, whose roundings (6e-8 each) make 9e-6 together, as the root of their number.
TEST_CASE("ResNet-8: the gradient of every layer" * doctest::skip()) {
    const Fresh fresh;
    const auto on = pictures_of(colours, 10, people, least);
    const auto start = after_a_step<double>(on, exec::Serial{}, 0), fine = after_a_step<double>(on, exec::Serial{}, 1);
    const auto device = after_a_step<float>(on, exec::Device{}, 1);
    CHECK(standin::products() > 20);
    CHECK(standin::faults().empty());
    const Net net(colours, nn::recipe::resnet8(10));
    for (const auto& s : net.layout()) {
        CAPTURE(std::string(s.name.view()));
        double most = 0, off = 0, other = 0;
        for (std::size_t j = s.offset; j < s.end(); ++j) {
            most = std::max(most, std::fabs(fine[j] - start[j]));
            off = std::max(off, std::fabs(device[j] - fine[j]));
            other = std::max(other, std::fabs(device[j] - start[j] - 1.001 * (fine[j] - start[j])));
        }
        CHECK(off <= 1e-5 * most);
        CHECK(other > 1e-5 * most);  // a slope that is a thousandth too large
    }
}
// The rate is a tenth of LeNet5's. Three of a hundred examples have a number in front of some ReLU that is nearer to 0 than single
// precision's noise, and which side it comes out on decides about the slope of a pixel: after a step of 0.05 the host's tiles are
// 7e-5 from the host's plain convolutions or from double precision, the device 2e-7, and later steps make more of it. Of steps of
// 0.005 such a pixel moves 7e-6, and there are few of them.
TEST_CASE("ResNet-8" * doctest::skip()) {
    all_methods(Net(colours, nn::recipe::resnet8(10)), pictures_of(colours, 10, 2, 1), {.rate = 0.005});  // 1 and 5 pictures
}
}  // namespace full_size_test
