// SPDX-License-Identifier: BSD-3-Clause
// Group norms of 32 groups with the ReLU behind them, batch 32, as ResNet-18 has them, and a mean pool:
// <channels>@<plane>/<forward or backward>/<tessera, alone, or tessera_crew, with a crew of two>.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tessera/core/arena.hpp>
#include <tessera/core/random.hpp>
#include <tessera/kernels/norm.hpp>
#include <tessera/kernels/pool.hpp>
#include <tessera/kernels/reference/norm.hpp>

#include "support/crew_of_two.hpp"
#include "support/exchange.hpp"
#include "support/verdict.hpp"

namespace {

using namespace tessera;

constexpr std::size_t batch = 32, groups = 32;
// Outputs and slopes are below 10, sums of 32 planes of slopes below 1e3: a few roundings of those.
constexpr double tolerance = 1e-3;

Vec<float> numbers(std::size_t n, std::uint64_t seed) {
    Stream draw(Key{seed});
    Vec<float> x(n);
    for (auto& v : x) v = static_cast<float>(2 * draw.uniform() - 1);
    return x;
}
std::vector<double> wide(const Vec<float>& x) { return std::vector<double>(x.begin(), x.end()); }

class Normed {
public:
    Normed(std::size_t channels, std::size_t plane)
        : channels_(channels), s_(kernels::NormShape::group(batch, channels, plane * plane, groups)) {
        const std::size_t n = batch * channels * plane * plane;
        x_ = numbers(n, 1), dy_ = numbers(n, 2), y_.resize(n), dx_.resize(n);
        scale_ = numbers(channels, 3), shift_ = numbers(channels, 4);
        saved_.resize(2 * s_.count), dscale_.resize(channels), dshift_.resize(channels),
            means_.resize(batch * channels);
        const std::string name = std::to_string(channels) + "@" + std::to_string(plane);
        const auto add = [&](const std::string& what, const auto& error, const auto& work) {
            for (const bool helped : {false, true})
                bench::enter(name + what + (helped ? "/tessera_crew" : "/tessera"), tolerance, error,
                             [work, helped](benchmark::State& state) {
                                 std::unique_ptr<bench::CrewOfTwo> crew;
                                 if (helped) crew = std::make_unique<bench::CrewOfTwo>();
                                 const Crew::Use use(crew.get());
                                 for (auto _ : state) work();
                             })
                    ->Unit(benchmark::kMicrosecond);
        };
        add(
            "/forward", [this] { return forward(), off(); }, [this] { forward(); });
        add(
            "/backward", [this] { return forward(), backward(), off(); }, [this] { backward(); });
        const auto pool = [this, plane] {
            kernels::plane_sums(x_.data(), means_.data(), batch * channels_, plane * plane,
                                1.0f / static_cast<float>(plane * plane));
        };
        add(
            "/mean_pool",
            [this, pool, plane] {
                pool();
                std::vector<double> means(means_.size());
                for (std::size_t i = 0; i < x_.size(); ++i)
                    means[i / (plane * plane)] += static_cast<double>(x_[i]) / static_cast<double>(plane * plane);
                return bench::distance<float>(means_, means);
            },
            pool);
    }

    void write(const std::string& name, const bench::Exchange& out) {
        if (!out.wanted()) return;
        out.write<float>(name + ".x.f32", x_);
        out.write<float>(name + ".dy.f32", dy_);
        out.write<float>(name + ".scale.f32", scale_);
        out.write<float>(name + ".shift.f32", shift_);
        std::vector<double> y(x_.size()), saved(saved_.size()), dx(x_.size()), dscale(channels_), dshift(channels_);
        reference(y, saved, dx, dscale, dshift);
        out.write<double>(name + ".y.f64", y);
        out.write<double>(name + ".dx.f64", dx);
    }

private:
    void reference(std::vector<double>& y, std::vector<double>& saved, std::vector<double>& dx,
                   std::vector<double>& dscale, std::vector<double>& dshift) const {
        const auto x = wide(x_), dy = wide(dy_), scale = wide(scale_), shift = wide(shift_);
        kernels::reference::norm(x.data(), scale.data(), shift.data(), y.data(), saved.data(), s_, 1e-5, true, false);
        kernels::reference::norm_gradient(x.data(), dy.data(), scale.data(), shift.data(), saved.data(), dx.data(),
                                          dscale.data(), dshift.data(), s_, true, false);
    }
    void forward() {
        kernels::norm(x_.data(), scale_.data(), shift_.data(), y_.data(), saved_.data(), s_, 1e-5f, {.relu = true});
    }
    void backward() {
        kernels::norm_gradient<float>(x_.data(), dy_.data(), scale_.data(), shift_.data(), saved_.data(), dx_.data(),
                                      dscale_.data(), dshift_.data(), channels_, s_, {.relu = true});
        done_ = true;
    }
    double off() {
        std::vector<double> y(x_.size()), saved(saved_.size()), dx(x_.size()), dscale(channels_), dshift(channels_);
        reference(y, saved, dx, dscale, dshift);
        double worst = bench::distance<float>(y_, y);
        if (!done_) return worst;
        // Where y is 0 within rounding a slope may go either way: a handful of numbers of a million, none expected.
        worst = std::max(worst, bench::distance<float>(dscale_, dscale));
        return std::max(worst, bench::distance<float>(dx_, dx));
    }

    std::size_t channels_;
    kernels::NormShape s_;
    Vec<float> x_, dy_, y_, dx_, scale_, shift_, saved_, dscale_, dshift_, means_;
    bool done_ = false;
};

}  // namespace

int main(int argc, char** argv) {
    const bench::Exchange out(argc, argv);
    std::vector<std::unique_ptr<Normed>> all;
    for (const auto& [channels, plane] : {std::pair<std::size_t, std::size_t>{64, 32}, {128, 16}, {256, 8}, {512, 4}})
        all.push_back(std::make_unique<Normed>(channels, plane)),
            all.back()->write(std::to_string(channels) + "@" + std::to_string(plane), out);
    if (out.wanted()) return 0;
    benchmark::AddCustomContext("kernel_set", std::string(kernels::active_name()));
    return bench::run(argc, argv);
}
