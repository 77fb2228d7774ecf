// SPDX-License-Identifier: BSD-3-Clause
// The executor: what it leaves to the host and says, what happens without memory, without a device, and when it is lost.
#include <device/cohorts.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <support/folder.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/exec/serial.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/nn/batch_norm.hpp>
#include <tessera/rule/adam.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/sample/everyone.hpp>

namespace executor_test {

using namespace cohorts;

const FedAvg<> method{.local = {.rate = 0.05}};
using Run = Federation<FedAvg<>, Net>;

// On the host the bits are the host's, whoever executes.
void stays_on_the_host(const auto& net, const auto& me, const std::string& why) {
    const Fresh fresh;
    CAPTURE(why);
    const auto host = left_by(net, me, exec::Serial{}, 2);
    const auto device = left_by(net, me, exec::Device{}, 2);
    CHECK(device.state == host.state);
    CHECK(says(device, why));
    CHECK(device.products == 0);
}

// A layer of one's own, in plain loops.
struct Doubled {
    static constexpr nn::Offers offers = nn::offer::nothing;
    constexpr void infer(nn::Spec& s) const { s.out = s.in[0]; }
    template <class R>
    void forward(const nn::Pass<R>& p) const {
        for (std::size_t i = 0; i < p.read(); ++i) p.y[i] = 2 * p.x()[i];
    }
    template <class R>
    void backward(const nn::Pass<R>& p) const {
        for (std::size_t i = 0; p.dx() && i < p.read(); ++i) p.dx()[i] = 2 * p.dy[i];
    }
};

TEST_CASE("what a device cannot take is said in a sentence, and runs on the host") {
    using nn::chain;
    using nn::Linear;
    stays_on_the_host(Net(picture, chain(Linear{5}, Doubled{}, Linear{classes})), method, "layer 2 has no kernels");
    stays_on_the_host(Net(picture, chain(Linear{5}, nn::Dropout{0.5}, Linear{classes})), method, "layer 2 has no kernels");
    stays_on_the_host(Net(picture, chain(nn::Conv2d{.outputs = 2}, nn::BatchNorm{}, Linear{classes})), method,
                      "layer 2 has no kernels");
    stays_on_the_host(nn::Network<double>(picture, nn::recipe::mclr(classes)), method, "double precision");
    stays_on_the_host(mclr(), FedAvg<rule::Adam>{}, "a rule whose steps are not all alike");
}
TEST_CASE("a mask is searched on the host, and trained with on the device") {
    const Fresh fresh;
    const FedSpa<> me{.masking = {.density = 0.5}, .local = {.rate = 0.05}};
    const auto host = left_by(dnn(), me, exec::Serial{}, 2), device = left_by(dnn(), me, exec::Device{}, 2);
    CHECK(says(device, "the gradient that a mask is searched by"));
    CHECK(device.products > 0);
    CHECK(device.reports[0].examples == host.reports[0].examples);
}

TEST_CASE("without a device the run is on the host, and says so once") {
    const Fresh fresh;
    standin::present(false);
    const auto host = left_by(dnn(), method, exec::Serial{});
    const auto device = left_by(dnn(), method, exec::Device{});
    CHECK(device.state == host.state);
    CHECK(device.reports[0].remarks == std::vector<std::string>{"there is no device, or no driver for it; the run is on the host"});
    for (std::size_t r = 1; r < 5; ++r) CHECK(device.reports[r].remarks.empty());
}

TEST_CASE("without memory half as many clients train at once, to the same numbers") {
    const Fresh fresh;
    const auto whole = left_by(lenet(), method, exec::Device{});
    const std::size_t most = standin::most_in_use(), context = std::size_t{32} << 20;
    standin::reset();
    standin::memory(context + (most - context) * 6 / 10);
    const auto halved = left_by(lenet(), method, exec::Device{});
    CHECK(says(halved, "the device has room for 3 clients at once, not 7"));
    CHECK(apart(halved.all, whole.all) <= 1e-6);  // the same sums, product by product; a GPU may choose another algorithm
    CHECK(halved.reports[4].examples == whole.reports[4].examples);
    CHECK(halved.reports[4].remarks.empty());  // it remembers
    // With room for nobody the host trains.
    standin::reset();
    standin::memory(context + 15000);  // the pictures are 13,608 bytes of it
    const auto nobody = left_by(lenet(), method, exec::Device{}, 2);
    CHECK(nobody.state == left_by(lenet(), method, exec::Serial{}, 2).state);
    CHECK(says(nobody, "no room for"));
    CHECK(standin::faults().empty());
}

TEST_CASE("a lost device ends the round with everything as it was, and the run goes on on the host") {
    for (const bool launch : {true, false}) {
        const Fresh fresh;
        Run run(dnn(), pictures(), method, settings), same(dnn(), pictures(), method, settings);
        const exec::Device device{};
        run.round(sampler, device);
        const auto before = run.fingerprint();
        if (launch) standin::fail_launch(20);
        else standin::lose(20);
        CHECK_THROWS_AS(run.round(sampler, device), DeviceError);
        CHECK(run.fingerprint() == before);
        CHECK(run.rounds_done() == 1);
        const auto report = run.round(sampler, device);  // the host goes on from there
        CHECK(report.remarks == std::vector<std::string>{"the device was lost; the round ran on the host"});
        CHECK(report.outcome.counted);
        standin::reset();
        same.round(sampler, exec::Device{});
        REQUIRE(same.fingerprint() == before);
        same.round(sampler, exec::Serial{});
        CHECK(same.fingerprint() == run.fingerprint());
    }
}
TEST_CASE("after a loss the run goes on from its checkpoint, with the bits of one that lost nothing") {
    const support::Folder folder;
    const std::string file = folder / "run.ckpt";
    Fingerprint whole;
    {
        const Fresh fresh;
        Run run(dnn(), pictures(), method, settings);
        run.run(4, sampler, exec::Device{});
        whole = run.fingerprint();
    }
    {
        const Fresh fresh;
        Run run(dnn(), pictures(), method, settings);
        const exec::Device device{};
        run.run(2, sampler, device);
        write_checkpoint(file, run, "test");
        standin::lose(30);
        CHECK_THROWS_AS(run.round(sampler, device), DeviceError);
    }
    {  // another process, where the device answers again
        const Fresh fresh;
        Run run(dnn(), pictures(), method, settings);
        (void)read_checkpoint(file, run, "test");
        CHECK(run.rounds_done() == 2);
        run.run(2, sampler, exec::Device{});
        CHECK(run.fingerprint() == whole);
    }
    {  // or one where there is none: it goes on on the host, from the same state
        const Fresh fresh;
        standin::present(false);
        Run run(dnn(), pictures(), method, settings), near(dnn(), pictures(), method, settings);
        (void)read_checkpoint(file, run, "test");
        run.run(2, sampler, exec::Device{});
        (void)read_checkpoint(file, near, "test");
        near.run(2, sampler, exec::Serial{});
        CHECK(run.fingerprint() == near.fingerprint());
    }
}
TEST_CASE("a new session asks a device that answers again; the old one does not") {
    const Fresh fresh;
    Run run(dnn(), pictures(), method, settings);
    exec::Device device{};
    standin::lose(30);
    CHECK_THROWS_AS(run.round(sampler, device), DeviceError);
    standin::reset();
    CHECK(said(run.round(sampler, device)) == "the device was lost; the round ran on the host; ");
    CHECK(standin::products() == 0);
    device.session = std::make_shared<device::Session>();
    CHECK(said(run.round(sampler, device)).empty());
    CHECK(standin::products() > 0);
}

// Descends, and on some clients throws before it, after it, or never gets there.
struct Stumbles {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr auto offers = offer::nothing;
    rule::Sgd local{.rate = 0.05};
    fold::Mean fold{};
    std::size_t before = 1000, after = 1000, never = 1000;
    template <class R>
    struct Client {
        Cursor cursor;
    };
    auto visit(const auto& at, auto w, auto& me) const {
        if (at.id == before) throw Error("before");
        if (at.id != never) descend(at, w, at.work(1, 0, me.cursor), local);
        if (at.id == after) throw Error("after");
        return up(at, std::move(w), Weigh::samples);
    }
};
TEST_CASE("a visit that throws lets the others go, and the round has not happened") {
    const Fresh fresh;
    const sample::Everyone all;
    for (const std::size_t wave : {1u, 4u, 256u})
        for (const std::size_t threads : {1u, 3u}) {
            const exec::Device device{.wave = wave, .threads = threads};
            for (const bool early : {true, false}) {
                Stumbles me;
                (early ? me.before : me.after) = 3;
                Federation<Stumbles, Net> run(mclr(), pictures(), me, settings);
                const auto begin = run.fingerprint();
                CHECK_THROWS_WITH(run.round(all, device), early ? "before" : "after");
                CHECK(run.fingerprint() == begin);
                CHECK_THROWS_WITH(run.round(all, device), early ? "before" : "after");  // the device is still there
            }
            Stumbles lazy;
            lazy.never = 5;  // somebody who does not descend is waited for by nobody
            Federation<Stumbles, Net> run(mclr(), pictures(), lazy, settings), host(mclr(), pictures(), lazy, settings);
            const auto report = run.round(all, device);
            CHECK(said(report) == "on the host: the sum of uploads that are not what the device left; ");
            host.round(all, exec::Serial{});
            CHECK(apart(all_numbers(run), all_numbers(host)) <= 1e-5);
        }
    CHECK(standin::faults().empty());
}
TEST_CASE("two devices at once, and two runs on one") {
    const Fresh fresh;
    const auto once = left_by(dnn(), method, exec::Device{}, 3).state;
    for (const bool shared : {false, true}) {
        const exec::Device first{}, second = shared ? first : exec::Device{};
        std::array<Fingerprint, 2> states{};
        {
            std::jthread a([&] { states[0] = left_by(dnn(), method, first, 3).state; });
            std::jthread b([&] { states[1] = left_by(dnn(), method, second, 3).state; });
        }
        CHECK(states == std::array{once, once});
    }
    CHECK(standin::faults().empty());
    CHECK(standin::in_use() == 0);
}
TEST_CASE("rounds on a device, on cores and on one thread follow each other") {
    const Fresh fresh;
    Run run(lenet(), pictures(), method, settings), host(lenet(), pictures(), method, settings);
    const exec::Device device{};
    run.round(sampler, device);
    run.round(sampler, exec::OpenMp{.threads = 3});
    run.round(sampler, device);
    host.run(3, sampler, exec::Serial{});
    CHECK(apart(all_numbers(run), all_numbers(host)) <= 1e-5);
    CHECK(standin::faults().empty());
}
TEST_CASE("a mistake of the device's is no wrong number") {
    const Fresh fresh;
    Run run(dnn(), pictures(), method, settings);
    const auto before = run.fingerprint();
    standin::fail_allocation(0);  // not even a context
    const auto report = run.round(sampler, exec::Device{});
    CHECK(report.remarks.size() == 1);
    Run host(dnn(), pictures(), method, settings);
    CHECK(before == host.fingerprint());
    host.round(sampler, exec::Serial{});
    CHECK(run.fingerprint() == host.fingerprint());
}
TEST_CASE("what a visit throws reaches the caller, and the lowest of them") {
    const exec::Device device{.wave = 3};
    std::array<int, 8> seen{};
    CHECK_THROWS_WITH(device.for_each(8,
                                      [&](std::size_t task, std::size_t worker) {
                                          CHECK(worker < 3);
                                          seen[task] = 1;
                                          if (task == 1 || task == 2) throw Error("visit " + std::to_string(task));
                                      }),
                      "visit 1");
    CHECK(seen == std::array{1, 1, 1, 0, 0, 0, 0, 0});
}
TEST_CASE("settings are judged") {
    Run run(mclr(), pictures(), method, settings);
    CHECK_THROWS_AS(run.round(sampler, exec::Device{.wave = 0}), ConfigError);
    CHECK_THROWS_AS(run.round(sampler, exec::Device{.wave = 5000}), ConfigError);
    CHECK_THROWS_AS(run.round(sampler, exec::Device{.session = nullptr}), ConfigError);
}

TEST_CASE("coarser products are named in the report, and are coarser") {
    const Fresh fresh;
    const auto fine = left_by(dnn(), method, exec::Device{});
    for (const auto& [precision, word, most] : {std::tuple{device::Precision::tf32, "tf32", 1e-2},
                                                std::tuple{device::Precision::bf16, "bf16", 5e-2}}) {
        const auto coarse = left_by(dnn(), method, exec::Device{.precision = precision});
        for (const auto& r : coarse.reports)
            CHECK(r.remarks == std::vector<std::string>{std::string("products on the device are rounded to ") + word});
        CHECK(apart(coarse.all, fine.all) > 1e-5);
        CHECK(apart(coarse.all, fine.all) < most);  // 10 and 7 bits of a factor, steps of 0.05
    }
}

TEST_CASE("examples are sent once, and again when they are others") {
    const Fresh fresh;
    Run run(mclr(), pictures(), method, settings);
    const exec::Device device{};
    run.round(sample::Everyone{}, device);
    const std::size_t first = standin::work_done();
    run.round(sample::Everyone{}, device);
    CHECK(standin::work_done() - first == first - 1);  // all but the examples
    std::vector<float> rows(pictures().pool().examples().size * width, 0.25f);
    std::vector<std::int32_t> labels(pictures().pool().examples().size, 1);
    const data::FederatedDataset other{data::Dataset::own(std::move(rows), std::move(labels), classes),
                                       pictures().split()};
    Run elsewhere(mclr(), other, method, settings), host(mclr(), other, method, settings);
    elsewhere.round(sampler, device);
    host.round(sampler, exec::Serial{});
    CHECK(apart(all_numbers(elsewhere), all_numbers(host)) <= 1e-5);
}

}  // namespace executor_test
