// SPDX-License-Identifier: BSD-3-Clause
// The code of policies/codec.md: codecs around a method, and one of a user's own.
#include <tessera/codec.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/method/coded.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <bit>
#include <cstdint>
#include <cstdio>

using namespace tessera;

namespace mine {

// [codec]
// Halves of floats: the upper 16 bits, rounded to the nearest (bfloat16).
struct Halves {
    static constexpr Offers offers{};
    static constexpr std::size_t per_byte = 1;  // a byte stands for one number at most
    static constexpr bool loses = true, biased = false;

    void encode(In<float> x, Key, Bytes& out, Out<float> read) const {
        for (std::size_t j = 0; j < x.size(); ++j) {
            const auto half = static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x[j]) + 0x8000u) >> 16);
            put(out, half);
            read[j] = value(half);
        }
    }
    void decode(Reader& in, Out<float> x) const {
        for (float& each : x) {
            std::uint16_t half = 0;
            get(in, half);  // WireError where the bytes end; numbers that are not finite are refused behind it
            each = value(half);
        }
    }
    static float value(std::uint16_t half) { return std::bit_cast<float>(std::uint32_t{half} << 16); }
};
// [/codec]

}  // namespace mine

namespace {

using Net = nn::Dnn<60, 20, 10>;
data::FederatedDataset clients() {
    return data::synthetic({.alpha = 0.5, .beta = 0.5, .clients = 12, .seed = 3, .max_examples = 60});
}
template <class Me>
RoundReport after(const char* what, const Me& method) {
    Federation<Me, Net> run{{}, clients(), method, {.seed = 1, .batch = 10, .rounds = 20}};
    RoundReport last;
    for (int r = 0; r < 20; ++r) last = run.round(sample::Uniform{.count = 6});
    const double kilobytes = static_cast<double>(last.bytes_up) / 1000;
    std::printf("%-32s %5.1f kB up, train loss %.2f\n", what, kilobytes, last.train_loss);
    return last;
}

}  // namespace

int main() {
    // [three_lines]
    using Method = Coded<FedAvg<>, codec::Quantised<8>>;
    const Method method{.inner = {.local = {.rate = 0.05}}};
    Federation<Method, Net> run{{}, clients(), method, {.seed = 1, .batch = 10, .rounds = 20}};
    // [/three_lines]
    run.run(2, sample::Uniform{.count = 6});

    // [use]
    const Coded<FedAvg<>, codec::TopK<>> few{.up = {.share = 0.01}};                     // with error feedback
    const Coded<FedAvg<>, codec::TopK<codec::Quantised<8>>> fewer{.up = {.share = 0.01}};  // and 8 bits each
    const Coded<FedAvg<>, codec::Sign, codec::Quantised<8>> both_ways{};                 // a bit up, a byte down
    const Coded<FedAvg<>, mine::Halves> halves{};
    // [/use]

    const auto plain = after("FedAvg", FedAvg<>{}), eight = after("FedAvg, 8 bits", Coded<FedAvg<>>{});
    after("FedAvg, top 1 %", few);
    after("FedAvg, top 1 %, 8 bits each", fewer);
    after("FedAvg, sign up, 8 bits down", both_ways);
    const auto half = after("FedAvg, halves", halves);
    const bool smaller = eight.bytes_up < plain.bytes_up * 3 / 10 && half.bytes_up < plain.bytes_up;
    return smaller && run.rounds_done() == 2 ? 0 : 1;
}
