// SPDX-License-Identifier: BSD-3-Clause
// Networks, clients and steps that nobody chose: the device's numbers are the host's.
#include <device/cohorts.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <tessera/exec/serial.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/nn/layer_norm.hpp>

namespace fuzz_test {

using namespace cohorts;

// Layers at random, the same ones whenever it is asked; what it is made of may fail to fit nowhere.
struct Drawn {
    std::uint64_t seed;
    std::size_t outputs;

    struct Inside {  // of a residual block: shapes stay
        std::uint64_t seed;
        std::size_t channels;
        template <class B>
        int add(B& to, int v) const {
            Stream draw(Key{seed});
            v = to.part(0, "0", nn::Conv2d{.outputs = channels, .kernel = 3, .pad = 1, .bias = draw.uniform() < 0.5}, v);
            if (draw.uniform() < 0.5) v = to.part(1, "1", nn::GroupNorm{.groups = 1}, v);
            if (draw.uniform() < 0.7) v = to.part(2, "2", nn::Relu{}, v);
            return v;
        }
    };
    template <class B>
    int add(B& to, int v) const {
        static constexpr std::array<std::string_view, 10> names{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
        Stream draw(Key{seed});
        const auto below = [&](std::size_t n) { return static_cast<std::size_t>(draw.below(static_cast<std::uint32_t>(n))); };
        std::size_t at = 0;
        const auto put = [&](const auto& layer) { v = to.part(at, names[at], layer, v), ++at; };
        const std::size_t layers = below(7);
        for (std::size_t i = 0; i < layers; ++i) {
            const nn::Shape s = to.shape(v);
            const std::size_t what = below(8);
            if (what == 0) put(nn::Relu{});
            else if (what == 1) put(nn::LeakyRelu{.slope = 0.2});
            else if (s.rank == 1 && what < 6) put(nn::Linear{2 + below(6), below(2) == 1});
            else if (s.rank == 1) put(nn::LayerNorm{});
            else if (what == 2 && s.sizes[1] >= 2 && s.sizes[2] >= 2) put(nn::MaxPool2d{2});
            else if (what == 3) put(nn::MeanPool{});
            else if (what == 4) put(nn::GroupNorm{.groups = s.sizes[0] % 2 == 0 ? 1 + below(2) : 1});
            else if (what == 5) put(nn::residual(Inside{seed + i, s.sizes[0]}));
            else {
                const std::size_t kernel = 1 + below(std::min<std::size_t>(3, std::min(s.sizes[1], s.sizes[2])));
                put(nn::Conv2d{.outputs = 1 + below(4), .kernel = kernel, .stride = 1 + below(2), .pad = below(2),
                               .bias = below(2) == 1});
            }
        }
        put(nn::Linear{outputs});
        return v;
    }
};

data::FederatedDataset people(Stream& draw, std::size_t width, std::size_t classes) {
    const bool bytes = draw.uniform() < 0.5;
    std::vector<std::uint8_t> pixels;
    std::vector<float> numbers;
    std::vector<std::int32_t> labels;
    data::Split split;
    const std::size_t clients = 1 + draw.below(11);
    for (std::size_t k = 0; k < clients; ++k) {
        data::Share share;
        share.key = 7 + k;
        const std::size_t some = 1 + draw.below(k % 3 == 0 ? 4 : 23);
        for (std::size_t i = 0; i < some; ++i) {
            share.train.push_back(static_cast<Index>(labels.size()));
            labels.push_back(static_cast<std::int32_t>(draw.below(static_cast<std::uint32_t>(classes))));
            for (std::size_t j = 0; j < width; ++j) {
                if (bytes) pixels.push_back(static_cast<std::uint8_t>(draw.below(256)));
                else numbers.push_back(static_cast<float>(draw.normal()));
            }
        }
        split.clients.push_back(std::move(share));
    }
    if (bytes)
        return {data::Dataset::own(std::move(pixels), std::move(labels), classes).normalised(128, 1 / 64.0f), std::move(split)};
    return {data::Dataset::own(std::move(numbers), std::move(labels), classes), std::move(split)};
}

TEST_CASE("any network, any clients, any steps") {
    std::size_t whole = 0, partial = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        const Fresh fresh;
        Stream draw(Key{2024}(seed));
        const auto one_of = [&](auto... all) {
            const std::array some{all...};
            return some[draw.below(static_cast<std::uint32_t>(some.size()))];
        };
        const std::size_t outputs = 2 + draw.below(4);
        const nn::Shape in(1 + draw.below(3), 4 + draw.below(4), 4 + draw.below(4));
        const Net net(in, Drawn{seed, outputs});
        const auto data = people(draw, in.size(), outputs);
        const FedProx<> method{.local = {.rate = 0.01,
                                         .momentum = one_of(0.0, 0.0, 0.6),
                                         .weight_decay = one_of(0.0, 0.01),
                                         .clip = one_of(0.0, 0.0, 0.5)},
                               .epochs = static_cast<std::size_t>(1 + draw.below(2)),
                               .mu = one_of(0.0, 0.4),
                               .weights = one_of(Weigh::samples, Weigh::uniform)};
        const Settings how{.seed = seed, .batch = static_cast<std::size_t>(1 + draw.below(9)), .rounds = 2};
        const sample::Uniform some{.count = 1 + draw.below(static_cast<std::uint32_t>(data.size()))};
        using Run = Federation<FedProx<>, Net>;
        Run host(net, data, method, how), device(net, data, method, how);
        const exec::Device there{.wave = static_cast<std::size_t>(1 + draw.below(9)),
                                 .patches = one_of(std::size_t{1} << 20, std::size_t{1})};  // one example's patches at a time
        for (int r = 0; r < 2; ++r) {
            const auto a = host.round(some, exec::Serial{}), b = device.round(some, there);
            CHECK(b.remarks == std::vector<std::string>{});
            CHECK(b.examples == a.examples);
            CHECK(b.train_loss == doctest::Approx(a.train_loss).epsilon(1e-4));
        }
        for (const auto& f : standin::faults()) CHECK_MESSAGE(false, f);
        // As in methods_test: sums in another order, steps of 0.01, at most a hundred of them.
        const double d = apart(all_numbers(device), all_numbers(host));
        CHECK(d <= 1e-4);
        partial += d > 0;
        whole += standin::launches("mean_rows");
    }
    CHECK(whole > 60);     // all of it went that way
    CHECK(partial > 30);   // and other sums were done
}

}  // namespace fuzz_test
