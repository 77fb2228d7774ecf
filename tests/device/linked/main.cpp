// SPDX-License-Identifier: BSD-3-Clause
// A program that is built with tessera::cuda and NVIDIA's libraries. Where there is no device or no driver it runs all the same,
// on the host, and says so once.
#include <tessera/device/cublas.hpp>
#include <tessera/device/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include <lab/device.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/exec/serial.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

namespace {

// The lab's --device: work is done where no device is, and one sentence says so.
bool lab_goes_on() {
    const auto device = lab::open_device(1);
    if (!device || device->lost()) return false;
    std::vector<int> done(5);
    std::size_t remarks = 0;
    for (int round = 0; round < 2; ++round) {
        device->for_each(done.size(), [&](std::size_t task, std::size_t) { ++done[task]; });
        remarks += device->remarks().size();
    }
    return done == std::vector<int>(5, 2) && (tessera::device::present() || remarks == 1);
}

}  // namespace

int main() {
    using namespace tessera;
    if (!lab_goes_on()) return 2;
    std::vector<float> rows;
    std::vector<std::int32_t> labels;
    data::Split split;
    for (Index k = 0; k < 3; ++k) {
        data::Share share{.train = {k}, .key = k + 1};
        for (std::size_t j = 0; j < 4; ++j) rows.push_back(j == k ? 1.0f : 0.0f);
        labels.push_back(static_cast<std::int32_t>(k % 2));
        split.clients.push_back(std::move(share));
    }
    const data::FederatedDataset people{data::Dataset::own(std::move(rows), std::move(labels), 2), std::move(split)};
    using Net = nn::Mclr<4, 2>;
    Federation<FedAvg<>, Net> run({}, people, {}), host({}, people, {});
    const exec::Device device{};
    std::size_t remarks = 0;
    for (int r = 0; r < 3; ++r) {
        for (const auto& sentence : run.round(sample::Everyone{}, device).remarks) {
            std::puts(sentence.c_str());
            ++remarks;
        }
        host.round(sample::Everyone{}, exec::Serial{});
    }
    if (device::present()) {  // as near as single precision is
        const device::Context context;
        const backend::Cublas blas(context);
        (void)blas;
        for (std::size_t j = 0; j < run.server().w.size(); ++j)
            if (!(run.server().w[j] - host.server().w[j] < 1e-5f && host.server().w[j] - run.server().w[j] < 1e-5f)) return 1;
        return 0;
    }
    return run.fingerprint() == host.fingerprint() && remarks == 1 ? 0 : 1;
}
