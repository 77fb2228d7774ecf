// SPDX-License-Identifier: BSD-3-Clause
// The mask of the 200,000 largest magnitudes of a million normal numbers. The floor is two passes over the numbers: one
// to find the threshold, if one could know where to look, and one to compare with it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/random.hpp>
#include <tessera/kernels/dispatch.hpp>

#include "select/problem.hpp"
#include "support/exchange.hpp"
#include "support/peers.hpp"
#include "support/verdict.hpp"

void add_tessera(bench::SelectCompetitors&);

constexpr bench::Peer peers[]{
#define PEER(name, missing) {name, missing},
#include "peers.inc"
#undef PEER
};

namespace {

constexpr std::size_t size = 1'000'000 / 64 * 64, keep = size / 5;

// Normal numbers whose magnitudes are all different: equal ones would make the answer a matter of taste.
std::vector<float> numbers() {
    std::vector<float> x(size);
    tessera::Stream draw(tessera::Key{3});
    std::vector<std::pair<float, std::size_t>> order;
    for (std::size_t j = 0; j < size; ++j) {
        x[j] = static_cast<float>(draw.normal());
        order.emplace_back(std::fabs(x[j]), j);
    }
    std::sort(order.begin(), order.end());
    for (std::size_t i = 1; i < size; ++i) {
        const float least = std::nextafter(std::fabs(x[order[i - 1].second]), INFINITY);
        float& here = x[order[i].second];
        if (std::fabs(here) < least) here = std::copysign(least, here);
    }
    return x;
}

// By sorting everything.
std::vector<std::uint64_t> expected_mask(const std::vector<float>& x) {
    std::vector<std::size_t> order(x.size());
    for (std::size_t j = 0; j < x.size(); ++j) order[j] = j;
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return std::fabs(x[a]) > std::fabs(x[b]); });
    std::vector<std::uint64_t> mask(x.size() / 64);
    for (std::size_t i = 0; i < keep; ++i) mask[order[i] / 64] |= std::uint64_t{1} << (order[i] % 64);
    return mask;
}

class Entered final : public bench::SelectCompetitors {
public:
    Entered() : x_(numbers()), expected_(expected_mask(x_)), mask_(size / 64) {}
    void add(const char* name, bench::Select select) override {
        const auto wrong_bits = [this, select] {
            select({x_.data(), size, keep}, mask_.data());
            double wrong = 0;
            for (std::size_t i = 0; i < mask_.size(); ++i) wrong += std::popcount(mask_[i] ^ expected_[i]);
            return wrong;
        };
        bench::enter(name_ + "/" + name, 0, wrong_bits, [this, select](benchmark::State& state) {
            for (auto _ : state) select({x_.data(), size, keep}, mask_.data());
        })->Unit(benchmark::kMicrosecond);
    }
    const std::string& name() const { return name_; }
    void write(const bench::Exchange& out) const {
        out.write<float>("x.f32", x_);
        std::vector<std::uint8_t> bits(size);
        for (std::size_t j = 0; j < size; ++j) bits[j] = expected_[j / 64] >> (j % 64) & 1;
        out.write<std::uint8_t>("expected.u8", bits);
    }

private:
    std::string name_ = "top20";
    std::vector<float> x_;
    std::vector<std::uint64_t> expected_, mask_;
};

}  // namespace

int main(int argc, char** argv) {
    const bench::Exchange out(argc, argv);
    Entered problem;
    if (out.wanted()) {
        problem.write(out);
        return 0;
    }
    add_tessera(problem);
    bench::add_peers<bench::SelectCompetitors>("select", peers, problem);
    benchmark::AddCustomContext("kernel_set", std::string(tessera::kernels::active_name()));
    return bench::run(argc, argv);
}
