// SPDX-License-Identifier: BSD-3-Clause
// The mean on the device: the host's bits for the same uploads, whoever of them lies there, and what is said where it is not.
#include <device/cohorts.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <support/bits.hpp>
#include <tessera/codec/quantised.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/exec/serial.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/coded.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>

namespace fold_test {

using namespace cohorts;

constexpr rule::Sgd local{.rate = 0.05};
const std::string by_itself = "on the host: the merge, which does not add uploads up as they come";
const std::string moved = "on the host: the sum of uploads that are not what the device left";
const std::string no_room = "on the host: the sum of uploads that the device has no room for";
const Settings kept{.seed = 3, .batch = 8, .rounds = 5, .keep_uploads = true};

// Rows as walks leave them on a device, without the walks.
struct OnDevice {
    std::shared_ptr<device::SharedContext> device = std::make_shared<device::SharedContext>();
    std::vector<Vec<float>> vectors;
    std::vector<Mask> masks;
    std::vector<double> weights;
    Net net = mclr();
    const std::size_t d = net.layout().back().end(), words = (d + 63) / 64;

    OnDevice(std::size_t n, std::uint64_t seed, bool masked) {
        Stream draw(Key{seed});
        device->on = std::make_unique<device::Context>();
        for (std::size_t k = 0; k < n; ++k) {
            Vec<float> x(d);
            for (float& v : x) v = static_cast<float>(draw.normal() * std::pow(10, 3 * draw.normal()));
            x[k] = 1e-41f;  // too small for the host
            vectors.push_back(std::move(x));
            Mask m(masked ? d : 0);
            for (std::size_t j = 0; j < m.size(); ++j) m.set(j, draw.uniform() < 0.4);
            masks.push_back(std::move(m));
            const double u = draw.uniform();
            weights.push_back(u < 0.2 ? 0 : u < 0.5 ? 7 : std::exp(4 * draw.normal()));
        }
    }
    std::vector<Row<float>> rows() {
        std::vector<Row<float>> all;
        for (std::size_t k = 0; k < vectors.size(); ++k) {
            if (masks[k].size() > 0 && vectors[k].size() == d) {  // packed, as it is sent
                Vec<float> packed;
                for (std::size_t j = 0; j < d; ++j)
                    if (masks[k][j]) packed.push_back(vectors[k][j]);
                vectors[k] = std::move(packed);
            }
            all.push_back({vectors[k], weights[k], masks[k].size() > 0 ? &masks[k] : nullptr});
        }
        return all;
    }
    void keep(device::TrainedRows& there) {
        const bool masked = masks[0].size() > 0;
        auto left = std::make_shared<device::Trained>(
            device::Trained{device::Array<float>(d * vectors.size()),
                            device::Array<unsigned long long>(masked ? words * vectors.size() : 0), d, words});
        for (std::size_t k = 0; k < vectors.size(); ++k) {
            device->on->up(vectors[k].data(), left->x.data() + k * d, d);
            if (masked)
                device->on->up(reinterpret_cast<const unsigned long long*>(masks[k].words().data()),
                               left->masks.data() + k * words, words);
        }
        device->on->finish();
        (void)rows();
        const Batches<float> none(pictures().pool().examples());
        for (std::size_t k = 0; k < vectors.size(); ++k) {
            auto model = net.blueprint();
            if (masked) model.mask = &masks[k];
            const Descent<float> walk{&model, &vectors[k], &none, {}};
            there.keep(left, k, walk);
        }
    }
};

using Mean = fold::Mean;
Mean::Sum<float> lifted(std::span<const Row<float>> rows, const Vec<float>& before, Adder<float>* there) {
    const FlushDenormals flush;  // as the server does
    const Adder<float>::Use use(there);
    Mean::Sum<float> sum;
    Mean{}.lift(Rows<float>(rows.data(), rows.size()), before, sum);
    return sum;
}

TEST_CASE("sums of neighbours, and sums of these, have the host's bits") {
    const Fresh fresh;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        const bool masked = seed % 3 == 0;
        OnDevice all(16, seed, masked);
        device::TrainedRows there(all.device);
        all.keep(there);
        const auto rows = all.rows();
        Vec<float> before(all.d);
        Stream draw(Key{seed}(1));
        for (float& v : before) v = static_cast<float>(draw.normal());
        const std::size_t second = 1 + seed % 8;  // the last group of a cohort is smaller
        const auto a = std::span(rows).first(8), b = std::span(rows).subspan(8, second);
        auto here = lifted(a, before, nullptr), away = lifted(a, before, &there);
        const auto here_too = lifted(b, before, nullptr), away_too = lifted(b, before, &there);
        CHECK(here.total == away.total);
        CHECK(here.largest == away.largest);
        const std::size_t sums = standin::launches("join_sums");
        {
            const FlushDenormals flush;
            Mean{}.add(here, here_too);
            Mean{}.add(away, away_too);
        }
        if (here.largest > 0 && here_too.largest > 0) CHECK(standin::launches("join_sums") == sums + 1);
        CHECK(here.values.size() == away.values.size());
        CHECK(support::same_bits(here.values.here(), away.values.here()));
        CHECK(there.remark().empty());
        // The control: another weight has other bits.
        auto heavier = std::vector(a.begin(), a.end());
        heavier[0].weight = heavier[0].weight == 0 ? 3 : heavier[0].weight * 1.5 + 5;
        const auto other = lifted(heavier, before, nullptr);
        CHECK_FALSE(support::same_bits(other.values.here(), lifted(a, before, nullptr).values.here()));
    }
    CHECK(standin::faults().empty());
}
TEST_CASE("a sum on the device and one at home are added at home") {
    const Fresh fresh;
    OnDevice all(16, 5, false);
    std::ranges::fill(all.weights, 2.0);
    all.weights[3] = 5;
    device::TrainedRows there(all.device);
    all.keep(there);
    all.vectors[12][2] += 1;  // a method has moved what it sends
    const auto rows = all.rows();
    const Vec<float> before(all.d);
    auto away = lifted(std::span(rows).first(8), before, &there);
    const auto home = lifted(std::span(rows).subspan(8), before, &there);
    CHECK(there.remark() == "the sum of uploads that are not what the device left");
    auto expected = lifted(std::span(rows).first(8), before, nullptr);
    Mean{}.add(expected, lifted(std::span(rows).subspan(8), before, nullptr));
    auto other_way = home;
    auto away_too = lifted(std::span(rows).first(8), before, nullptr);
    Mean{}.add(away, home);
    CHECK(support::same_bits(away.values.here(), expected.values.here()));
    // A sum goes over the wire as its numbers.
    Bytes bytes;
    put(bytes, away);
    Bytes same;
    put(same, expected);
    CHECK(bytes == same);
    CHECK(support::same_bits(decode<Mean::Sum<float>>(bytes).values.here(), expected.values.here()));
}

// keep_uploads makes the host fold whole uploads.
template <class Me>
void folds_there(const Me& method, const std::string& name) {
    CAPTURE(name);
    const auto device = left_by(lenet(), method, exec::Device{}), host = left_by(lenet(), method, exec::Device{}, 5, kept);
    CHECK(device.sums == 5);  // seven clients are one group of neighbours
    CHECK(host.sums == 0);
    CHECK(device.state == host.state);  // bit for bit
    CHECK(says_nothing(device));
    for (const auto& r : host.reports) CHECK(r.remarks == std::vector{by_itself});
    CHECK(standin::faults().empty());
    CHECK(standin::in_use() == 0);
}
TEST_CASE("a round's mean has the host's bits") {
    const Fresh fresh;
    folds_there(FedAvg<>{.local = local}, "samples");
    folds_there(FedAvg<>{.local = local, .weights = Weigh::uniform}, "uniform");
    folds_there(FedAvg<rule::Sgd, fold::Relax<>>{.local = local, .fold = {.beta = 0.5}}, "relaxed");
    folds_there(FedAvg<rule::Sgd, fold::ServerMomentum<>>{.local = local}, "server momentum");
    folds_there(Ditto<>{.local = local, .personal = local}, "two walks");
    folds_there(FedAlt<>{.order = {.v = local, .u = local}}, "a part is sent");
}
TEST_CASE("neighbours of different waves are added up together") {
    const Fresh fresh;
    const FedAvg<> method{.local = local};
    const auto at_once = left_by(mclr(), method, exec::Device{}), waves = left_by(mclr(), method, exec::Device{.wave = 2});
    CHECK(waves.sums == 5);
    CHECK(says_nothing(waves));
    CHECK(waves.state == left_by(mclr(), method, exec::Device{.wave = 2}, 5, kept).state);
    CHECK(apart(waves.all, at_once.all) <= 1e-5);
}
TEST_CASE("what is sent otherwise than it was left is added up on the host, and said") {
    const Fresh fresh;
    using Coarse = Coded<FedAvg<>>;
    const Coarse coarse{.inner = {.local = local}};
    const auto left = left_by(mclr(), coarse, exec::Device{});
    CHECK(left.sums == 0);
    for (const auto& r : left.reports) CHECK(r.remarks == std::vector{moved});
    CHECK(left.state == left_by(mclr(), coarse, exec::Device{}, 5, kept).state);
}
TEST_CASE("over the wire, too, what comes up is what was left") {
    const Fresh fresh;
    const FedAvg<> method{.local = local};
    Federation<FedAvg<>, Net> run(mclr(), pictures(), method, settings), wired(mclr(), pictures(), method, settings);
    wired.over_the_wire();
    const exec::Device device{};
    for (int r = 0; r < 3; ++r) {
        run.round(sampler, device);
        CHECK(wired.round(sampler, device).remarks.empty());
    }
    CHECK(wired.fingerprint() == run.fingerprint());
    CHECK(standin::launches("mean_rows") == 6);
}
TEST_CASE("an answer leaves nothing to be added up") {
    const Fresh fresh;
    auto split = pictures().split();
    for (auto& share : split.clients) share.test = share.train;
    using Me = FedAlt<>;
    Federation<Me, Net> run(dnn(), {pictures().pool(), std::move(split)},
                            Me{.order = {.v = local, .u = local}, .tune_epochs = 1, .tune = local}, settings);
    const exec::Device device{};
    CHECK(said(run.round(sampler, device)).empty());
    const std::size_t before = standin::products();
    const auto answers = evaluate<Which::personal>(run, device);
    CHECK(standin::products() > before);  // tuned on the device
    CHECK(answers.accuracy(Average::pooled).value > 0);
    CHECK(said(run.round(sampler, device)).empty());
}
TEST_CASE("without room for a sum the host has the same bits") {
    const Fresh fresh;
    const FedAvg<> method{.local = local};
    const auto there = left_by(mclr(), method, exec::Device{}, 1);
    // The allocation of the sum is the last of the round.
    std::size_t n = 0;
    bool met = false;
    for (n = 0; n < 200 && !met; ++n) {
        standin::reset();
        standin::fail_allocation(n);
        const auto left = left_by(mclr(), method, exec::Device{}, 1);
        met = left.reports[0].remarks == std::vector{no_room} && left.sums == 0;
        if (met) CHECK(left.state == there.state);
    }
    CHECK(met);
}
TEST_CASE("a device that is lost while it adds up ends the round with everything as it was") {
    const FedAvg<> method{.local = local};
    std::size_t work = 0;
    {
        const Fresh fresh;
        Federation<FedAvg<>, Net> run(mclr(), pictures(), method, settings);
        run.round(sampler, exec::Device{});
        work = standin::work_done();
    }
    for (const std::size_t back : {1u, 2u}) {  // the sum comes home; the sum
        const Fresh fresh;
        Federation<FedAvg<>, Net> run(mclr(), pictures(), method, settings);
        const auto before = run.fingerprint();
        standin::lose(work - back);
        const exec::Device device{};
        CHECK_THROWS_AS(run.round(sampler, device), DeviceError);
        CHECK(run.fingerprint() == before);
        CHECK(run.rounds_done() == 0);
        CHECK(run.round(sampler, device).remarks == std::vector<std::string>{"the device was lost; the round ran on the host"});
        Federation<FedAvg<>, Net> host(mclr(), pictures(), method, settings);
        host.round(sampler, exec::Serial{});
        CHECK(host.fingerprint() == run.fingerprint());
    }
}

}  // namespace fold_test
