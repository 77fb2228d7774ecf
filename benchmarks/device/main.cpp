// SPDX-License-Identifier: BSD-3-Clause
// A round of FedAvg with its cohort on a device, against the same round on the host's cores: ratios, for each size of a wave. Says
// "not measured" where there is no device. The answers are held against each other before anything is timed.
#include <tessera/device/executor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include <tessera/core/clock.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

namespace {

using namespace tessera;
using Net = nn::Network<float>;
using Run = Federation<FedAvg<>, Net>;

constexpr std::size_t width = 784, classes = 10, each = 200;
constexpr double tolerance = 1e-4;  // docs/policies/device.md

data::FederatedDataset people(std::size_t clients) {
    Stream draw(Key{1}(purpose::synthetic));
    std::vector<std::uint8_t> rows(clients * each * width);
    std::vector<std::int32_t> labels(clients * each);
    for (auto& pixel : rows) pixel = static_cast<std::uint8_t>(draw.below(256));
    for (auto& label : labels) label = static_cast<std::int32_t>(draw.below(classes));
    data::Split split;
    for (std::size_t k = 0, id = 0; k < clients; ++k) {
        data::Share share;
        for (std::size_t i = 0; i < each; ++i) share.train.push_back(static_cast<Index>(id++));
        split.clients.push_back(std::move(share));
    }
    return {data::Dataset::own(std::move(rows), std::move(labels), classes).normalised(128, 1 / 128.0f), std::move(split)};
}

template <class E>
double best_of_five(Run& run, const E& executor) {
    run.round(sample::Everyone{}, executor);
    double best = HUGE_VAL;
    for (int i = 0; i < 5; ++i) {
        const double begin = clock_seconds();
        run.round(sample::Everyone{}, executor);
        best = std::min(best, clock_seconds() - begin);
    }
    return best;
}

int compare(const char* name, const Net& net, std::size_t wave) {
    const auto data = people(wave);
    const Settings settings{.seed = 1, .batch = 20};
    const exec::Device device{.wave = wave};
    const exec::OpenMp host{.threads = std::max(1u, std::thread::hardware_concurrency())};
    Run there(net, data, {}, settings), here(net, data, {}, settings);
    there.round(sample::Everyone{}, device);
    here.round(sample::Everyone{}, host);
    for (std::size_t j = 0; j < here.server().w.size(); ++j)
        if (!(std::fabs(there.server().w[j] - here.server().w[j]) <= tolerance)) {
            std::printf("%s, %zu clients: wrong answer\n", name, wave);
            return 1;
        }
    const double on_device = best_of_five(there, device), on_host = best_of_five(here, host);
    std::printf("%-16s %5zu clients: device %9.2f ms, host %9.2f ms, ratio %.2f\n", name, wave, 1e3 * on_device, 1e3 * on_host,
                on_host / on_device);
    return 0;
}

}  // namespace

int main() {
    if (!device::present()) {
        std::puts("not measured: no device");
        return 0;
    }
    int wrong = 0;
    for (const std::size_t wave : {16u, 64u, 256u}) {
        wrong += compare("MCLR", Net(width, nn::recipe::mclr(classes)), wave);
        wrong += compare("DNN", Net(width, nn::recipe::dnn(100, classes)), wave);
        wrong += compare("LeNet5", Net({1, 28, 28}, nn::recipe::lenet5(classes)), wave);
    }
    return wrong > 0;
}
