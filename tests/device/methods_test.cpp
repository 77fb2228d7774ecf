// SPDX-License-Identifier: BSD-3-Clause
// Methods on networks, whose text knows nothing of a device, are trained by one as they are on the host.
#include <device/cohorts.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
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
const char* const by_itself = "on the host: the merge, which does not add uploads up as they come";
template <class F, class L>
const char* const of_mean<Scaffold<F, L>> = by_itself;
template <>
const char* const of_mean<Rsm> = by_itself;
const char* const moved = "on the host: the sum of uploads that are not what the device left";
template <class F, class L>  // its w steps on the host
const char* const of_mean<PFedMe<F, L>> = moved;

template <class Me>
void agrees(const Net& net, const Me& method, const std::string& name, const std::string& remark = of_mean<Me>) {
    CAPTURE(name);
    const Fresh fresh;
    const auto host = left_by(net, method, exec::Serial{});
    const auto device = left_by(net, method, exec::Device{.wave = 256});
    for (const auto& f : standin::faults()) CHECK_MESSAGE(false, f);
    for (const auto& r : device.reports)  // all else was on the device
        CHECK(r.remarks == (remark.empty() ? std::vector<std::string>{} : std::vector{remark}));
    // All of MCLR is a head, and FedAlt shares none of it.
    const bool shares = !std::is_same_v<Me, FedAlt<>> || name != "mclr";
    CHECK((device.sums > 0) == (shares && remark.empty()));
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
    agrees(mclr(), method, "mclr");
    agrees(dnn(), method, "dnn");
    agrees(lenet(), method, "lenet");
    agrees(resnet(), method, "resnet");
}

constexpr rule::Sgd plain{.rate = 0.05};

TEST_CASE("FedAvg") { agrees_everywhere(FedAvg<>{.local = plain}); }
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

// What a step may ask for beside a gradient.
TEST_CASE("decay, momentum and clipping; epochs; a learning rate that falls") {
    agrees(dnn(), FedAvg<>{.local = {.rate = 0.05, .weight_decay = 0.1}, .epochs = 2}, "decay");
    agrees(dnn(), FedAvg<>{.local = {.rate = 0.02, .momentum = 0.9}}, "momentum");
    agrees(lenet(), FedAvg<>{.local = {.rate = 0.05, .clip = 0.7}}, "clip");
    agrees(dnn(), FedProx<>{.local = {.rate = 0.02, .momentum = 0.5, .weight_decay = 0.01, .clip = 1}, .mu = 0.3}, "all");
    agrees(dnn(), Rsm{.masking = {.density = 0.5}, .local = {.rate = 0.05, .momentum = 0.5, .clip = 0.7}}, "masked");
}

// The recipes' own adapters, beside a backbone that nobody trains.
TEST_CASE("adapters, and a frozen backbone") {
    for (const auto kind : {nn::recipe::Beside3x3::parallel, nn::recipe::Beside3x3::bottleneck}) {
        const Net net(picture, nn::recipe::ResNet{.classes = classes,
                                                  .blocks = {1, 1, 0, 0},
                                                  .width = 4,
                                                  .norm = {.groups = {2, 2, 2, 2}},
                                                  .adapters = {.kind = kind, .rank = 2, .deviation = 0.1}});
        // Adapters alone are trained, then all but these; that is many ranges, whose mean is the host's.
        using Own = FedAlt<scope::Adapter>;
        agrees(net, Own{.order = {.v = plain, .u = plain}}, "one's own", moved);
        agrees(net, FedAvg<>{.local = plain}, "everybody's");
    }
}

// More clients than the largest wave. How many clients share a product may decide by which algorithm a GPU does it; the stand-in
// has one, and its waves have the same bits. 1e-5: single precision's noise, as above, of one round.
TEST_CASE("waves of 1, 7, 64 and 256 agree") {
    const Fresh fresh;
    std::vector<std::uint8_t> rows;
    std::vector<std::int32_t> labels;
    data::Split split;
    Stream draw(Key{5});
    for (std::size_t k = 0; k < 300; ++k) {
        data::Share share;
        share.key = k + 1;
        for (std::size_t i = 0; i < 1 + k % 11; ++i) {
            share.train.push_back(static_cast<Index>(labels.size()));
            labels.push_back(static_cast<std::int32_t>(draw.below(classes)));
            for (std::size_t j = 0; j < width; ++j) rows.push_back(static_cast<std::uint8_t>(draw.below(256)));
        }
        split.clients.push_back(std::move(share));
    }
    const data::FederatedDataset many{
        data::Dataset::own(std::move(rows), std::move(labels), classes).normalised(128, 1 / 64.0f), std::move(split)};
    using Run = Federation<FedAvg<>, Net>;
    const FedAvg<> method{.local = plain};
    const auto after = [&](const auto& executor) {
        Run run(mclr(), many, method, settings);
        const auto report = run.round(sample::Uniform{.count = 290}, executor);
        CHECK(report.remarks.empty());
        CHECK(report.trained == 290);
        return std::pair(all_numbers(run), run.fingerprint());
    };
    const auto [whole, bits] = after(exec::Device{.wave = 256});
    for (const std::size_t wave : {1u, 7u, 64u}) {
        CAPTURE(wave);
        const auto [waves, same] = after(exec::Device{.wave = wave});
        CHECK(apart(waves, whole) <= 1e-5);
        CHECK(same == bits);  // of the stand-in
    }
    CHECK(apart(after(exec::Serial{}).first, whole) <= 1e-5);
    // One thread or many compute on the host: no bit changes.
    CHECK(after(exec::Device{.wave = 256, .threads = 1}).second == bits);
    CHECK(standin::launches("mean_rows") == 5 * 37);  // each eight of 290, at any wave
}

// The control: a device that is told something else does something else.
TEST_CASE("another rate is seen") {
    const Fresh fresh;
    const auto host = left_by(dnn(), FedAvg<>{.local = plain}, exec::Serial{});
    const auto device = left_by(dnn(), FedAvg<>{.local = {.rate = 0.0505}}, exec::Device{});
    CHECK(apart(device.all, host.all) > tolerance);
}

}  // namespace methods_test
