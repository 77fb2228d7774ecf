// SPDX-License-Identifier: BSD-3-Clause
// Methods on networks, whose text knows nothing of a device, are trained by one as they are on the host.
#include <device/cohorts.hpp>

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

namespace methods_test {

using namespace cohorts;

// Sums have other orders: single precision keeps 6e-8 of a number, a gradient here adds up some hundred of them, and five rounds
// make up to thirty steps of rate 0.05 of these. 1e-4 is what the device promises (docs/policies/device.md).
constexpr double tolerance = 1e-4;

// What is said of a method's mean, if it is not added up on the device.
using Rsm = FedSpa<mask::RandomStatic>;
template <class Me>
const char* const of_mean = "";
const char* const by_itself = "on the host: the mean, which is not added up as uploads come";
template <class F, class L>
const char* const of_mean<Scaffold<F, L>> = by_itself;
template <>
const char* const of_mean<Rsm> = by_itself;
template <class F, class L>  // its w steps on the host
const char* const of_mean<PFedMe<F, L>> = "on the host: the sum of uploads that are not what the device left";

template <class Me>
void agrees(const Net& net, const Me& method, const std::string& name) {
    CAPTURE(name);
    const Fresh fresh;
    const auto host = left_by(net, method, exec::Serial{});
    const auto device = left_by(net, method, exec::Device{.wave = 256});
    for (const auto& f : standin::faults()) CHECK_MESSAGE(false, f);
    const std::string remark = of_mean<Me>;
    for (const auto& r : device.reports)  // all else was on the device
        CHECK(r.remarks == (remark.empty() ? std::vector<std::string>{} : std::vector{remark}));
    CHECK((device.sums > 0) == remark.empty());
    CHECK(device.products > 5);
    CHECK(host.products == 0);
    CHECK(apart(device.all, host.all) <= tolerance);
    CHECK(apart(host.all, left_by(net, method, exec::Serial{}, 1).all) > 100 * tolerance);  // they went somewhere
    for (std::size_t r = 0; r < 5; ++r) {
        CHECK(device.reports[r].train_loss == doctest::Approx(host.reports[r].train_loss).epsilon(1e-4));
        CHECK(device.reports[r].examples == host.reports[r].examples);
        CHECK(device.reports[r].flops == host.reports[r].flops);
        CHECK(device.reports[r].bytes_up == host.reports[r].bytes_up);
    }
    CHECK(left_by(net, method, exec::Device{.wave = 256}).state == device.state);  // bit for bit
    CHECK(standin::in_use() == 0);
}
template <class Me>
void agrees_everywhere(const Me& method) {
    agrees(dnn(), method, "dnn");
    agrees(resnet(), method, "resnet");
}

constexpr rule::Sgd plain{.rate = 0.05};

TEST_CASE("FedAvg") {
    const FedAvg<> method{.local = plain};
    agrees(mclr(), method, "mclr");
    agrees(lenet(), method, "lenet");
    agrees_everywhere(method);
}
TEST_CASE("FedProx") { agrees_everywhere(FedProx<>{.local = plain, .mu = 0.5}); }
TEST_CASE("Ditto") { agrees_everywhere(Ditto<>{.local = plain, .personal = plain, .lambda = 0.7}); }
TEST_CASE("pFedMe") {
    agrees_everywhere(PFedMe<>{.local = {.rate = 0.03}, .alpha_m = 0.05, .steps = 4, .inner_steps = 3});
}
TEST_CASE("FedAlt") { agrees_everywhere(FedAlt<>{.order = {.v = plain, .u = plain}}); }
TEST_CASE("FedSpa with random static masks") { agrees_everywhere(Rsm{.masking = {.density = 0.5}, .local = plain}); }
TEST_CASE("few active weights go to cuSPARSE, to the same numbers") {
    const Fresh fresh;
    for (const rule::Sgd& local : {plain, rule::Sgd{.rate = 0.05, .momentum = 0.5, .weight_decay = 0.01}}) {
        const Rsm few{.masking = {.density = 0.08}, .local = local, .first = FirstMasks::different};
        const auto host = left_by(dnn(), few, exec::Serial{}), dense = left_by(dnn(), few, exec::Device{.sparse_below = 0});
        const auto sparse = left_by(dnn(), few, exec::Device{.sparse_below = 0.3});
        CHECK(dense.sparse_products == 0);
        CHECK(sparse.sparse_products > 20);
        CHECK(apart(dense.all, host.all) <= tolerance);
        CHECK(apart(sparse.all, host.all) <= tolerance);
        CHECK(left_by(dnn(), few, exec::Device{.sparse_below = 0.3}).state == sparse.state);
    }
    for (const auto& f : standin::faults()) CHECK_MESSAGE(false, f);
    CHECK(standin::in_use() == 0);
}
TEST_CASE("SCAFFOLD") { agrees_everywhere(Scaffold<>{.local = plain}); }

// All of them; minutes, so by hand: tests_device --no-skip --test-case="every method on every network".
TEST_CASE("every method on every network" * doctest::skip()) {
    const auto all = [](const auto& method) {
        agrees(mclr(), method, "mclr");
        agrees(lenet(), method, "lenet");
        agrees_everywhere(method);
    };
    all(FedAvg<>{.local = plain});
    all(FedProx<>{.local = plain, .mu = 0.5});
    all(Ditto<>{.local = plain, .personal = plain, .lambda = 0.7});
    all(PFedMe<>{.local = {.rate = 0.03}, .alpha_m = 0.05, .steps = 4, .inner_steps = 3});
    all(FedAlt<>{.order = {.v = plain, .u = plain}});
    all(Rsm{.masking = {.density = 0.5}, .local = plain});
    all(Scaffold<>{.local = plain});
}

// What a step may ask for beside a gradient.
TEST_CASE("decay, momentum and clipping; epochs; a learning rate that falls") {
    agrees(dnn(), FedAvg<>{.local = {.rate = 0.05, .weight_decay = 0.1}, .epochs = 2}, "decay");
    agrees(dnn(), FedAvg<>{.local = {.rate = 0.02, .momentum = 0.9}}, "momentum");
    agrees(lenet(), FedAvg<>{.local = {.rate = 0.05, .clip = 0.7}}, "clip");
    agrees(dnn(), FedProx<>{.local = {.rate = 0.02, .momentum = 0.5, .weight_decay = 0.01, .clip = 1}, .mu = 0.3}, "all");
    agrees(dnn(), Rsm{.masking = {.density = 0.5}, .local = {.rate = 0.05, .momentum = 0.5, .clip = 0.7}}, "masked");
}

TEST_CASE("waves of 1, 7, 64 and 256 agree") {
    const Fresh fresh;
    const FedAvg<> method{.local = plain};
    const auto whole = left_by(lenet(), method, exec::Device{.wave = 256});
    for (const std::size_t wave : {1u, 7u, 64u}) {
        CAPTURE(wave);
        const auto waves = left_by(lenet(), method, exec::Device{.wave = wave});
        CHECK(apart(waves.all, whole.all) <= tolerance);
        CHECK(waves.reports.back().examples == whole.reports.back().examples);
    }
    // One thread or many compute on the host: no bit changes.
    CHECK(left_by(lenet(), method, exec::Device{.wave = 256, .threads = 1}).state == whole.state);
}

// The control: a device that is told something else does something else.
TEST_CASE("another rate is seen") {
    const Fresh fresh;
    const auto host = left_by(dnn(), FedAvg<>{.local = plain}, exec::Serial{});
    const auto device = left_by(dnn(), FedAvg<>{.local = {.rate = 0.0505}}, exec::Device{});
    CHECK(apart(device.all, host.all) > tolerance);
}

}  // namespace methods_test
