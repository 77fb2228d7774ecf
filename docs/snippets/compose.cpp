// SPDX-License-Identifier: BSD-3-Clause
// The code of policies/codec.md: policies that meet in one type, none of which knows the others.
#include <tessera/codec.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/fold/grouped.hpp>
#include <tessera/mask.hpp>
#include <tessera/method/coded.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/masked.hpp>
#include <tessera/method/pfedme.hpp>
#include <tessera/method/privacy_statement.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/rule/sgd.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
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

// [trimmed]
// Coordinate by coordinate the mean without the largest and the smallest share (Yin et al., ICML 2018).
struct TrimmedMean {
    static constexpr Offers offers{};
    double share = 0.1;
    template <class M>
    void fold(const Site<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        const auto cut = static_cast<std::size_t>(share * static_cast<double>(rows.size()));
        Vec<real<M>> column(rows.size());
        for (std::size_t j = 0; j < w.size() && rows.size() > 2 * cut; ++j) {
            for (std::size_t k = 0; k < rows.size(); ++k) column[k] = rows[k].x[j];
            std::sort(column.begin(), column.end());
            double sum = 0;
            for (std::size_t k = cut; k < column.size() - cut; ++k) sum += static_cast<double>(column[k]);
            w[j] = static_cast<real<M>>(sum / static_cast<double>(column.size() - 2 * cut));
        }
    }
};
// [/trimmed]

// [sam]
// Sharpness-aware minimisation (Foret et al., ICLR 2021): the slope where the loss is worst nearby, taken from here.
struct Sam {
    static constexpr Offers offers{};
    double rate = 0.01, radius = 0.05;
    template <class M>
    double step(const Site<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
                Nothing&) const {
        using R = real<M>;
        Vec<R> g(x.size());
        const double loss = at.gradient(x, b, g);
        double square = 0;
        for (const R v : g) square += static_cast<double>(v) * static_cast<double>(v);
        const auto reach = static_cast<R>(radius / (std::sqrt(square) + 1e-12));
        Vec<R> worst = x;
        for (std::size_t j = 0; j < x.size(); ++j) worst[j] += reach * g[j];
        at.gradient(worst, b, g);
        terms.on.each(x.size(), [&](Range r) {
            for (std::size_t j = r.begin; j < r.end; ++j) {
                const R pull = terms.pull != 0 ? static_cast<R>(terms.pull) * (x[j] - terms.toward[j]) : R(0);
                x[j] -= static_cast<R>(rate) * (g[j] + pull + (terms.also.empty() ? R(0) : terms.also[j]));
            }
        });
        return loss;
    }
};
// [/sam]

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

    // [strangers]
    // 8-bit Ditto under differential privacy: noise first, then the codec.
    using Noisy = rule::DpSgd<privacy::Noise>;
    const Noisy noisy{.rate = 0.05, .clip = 1, .noise = 1};
    const Coded<Private<Ditto<Noisy>>> private_ditto{.inner = {.inner = {.local = noisy, .personal = noisy}}};
    // A trimmed mean in FedAlt, SAM in pFedMe.
    const FedAlt<scope::Head, rule::Sgd, mine::TrimmedMean> robust{.fold = {.share = 0.2}};
    const PFedMe<fold::Relax<>, mine::Sam> flat{.local = {.rate = 0.01}};
    // A sparse head of each client's own; what is shared travels in 8 bits.
    const Coded<Masked<FedAlt<>, mask::DynamicSparse, scope::Head>> sparse_head{.inner = {.masking = {.density = 0.2}}};
    // Trimmed below the head, the head by the usual mean.
    const FedAvg<rule::Sgd, fold::Grouped<scope::BelowHead, mine::TrimmedMean>> grouped{};
    // [/strangers]

    const auto plain = after("FedAvg", FedAvg<>{}), eight = after("FedAvg, 8 bits", Coded<FedAvg<>>{});
    after("FedAvg, top 1 %", few);
    after("FedAvg, top 1 %, 8 bits each", fewer);
    after("FedAvg, sign up, 8 bits down", both_ways);
    const auto half = after("FedAvg, halves", halves);
    after("Ditto, private, 8 bits", private_ditto);
    after("FedAlt, trimmed mean", robust);
    after("pFedMe with SAM", flat);
    after("FedAlt, sparse head, 8 bits", sparse_head);
    after("FedAvg, trimmed below the head", grouped);
    const bool smaller = eight.bytes_up < plain.bytes_up * 3 / 10 && half.bytes_up < plain.bytes_up;
    return smaller && run.rounds_done() == 2 ? 0 : 1;
}
