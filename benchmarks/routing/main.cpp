// SPDX-License-Identifier: BSD-3-Clause
// Serving a batch of 1,000 with a routed 784-512-512-512-10 network and a 784-350-150-50 router: hard routing, which
// runs one branch of each block, against soft routing, which runs both, and against what nobody can beat by much: one
// plain network and the router. Two plain passes are what one would do without a routed model.
//
// Goals: hard at most 0.62 of soft, at most 1.10 of the plain network with the router. Batches much smaller than 1,000
// are kinder to the caches of all of them, so only ratios at this size are promised.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/gate/chain.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/nn/routed.hpp>
#include <tessera/nn/zoo.hpp>

#include "support/verdict.hpp"

namespace {

using namespace tessera;

constexpr std::size_t rows = 1000, inputs = 784, hidden = 512, classes = 10, checked = 40;
struct Recipe {
    static constexpr nn::Shape in = inputs;
    static constexpr auto layers = nn::chain(nn::Linear{hidden}, nn::Relu{}, nn::Linear{hidden}, nn::Relu{},
                                             nn::Linear{hidden}, nn::Relu{}, nn::Linear{classes});
};
using Net = nn::Fixed<Recipe>;
using Router = gate::Chain<350, 150, 50>;
constexpr std::size_t blocks = 4;

class Problem {
public:
    Problem()
        : data_(examples()),
          hard_(net_, router_, {}),
          soft_(net_, router_, {.inference = nn::Inference::soft}),
          x_(initial_parameters(hard_, Key{1})),
          q0_(rows * blocks),
          out_(rows * classes) {
        for (std::size_t i = 0; i < rows; ++i) ids_.push_back(static_cast<Index>(i));
        balance();
        hard_.shares(x_, batch(), q0_);
    }
    Batch<float> batch() const { return {data_.examples(), ids_}; }
    void hard() { hard_.predict(x_, batch(), out_); }
    void soft() { soft_.predict(x_, batch(), out_); }
    void plain() { net_.predict(global(), batch(), out_); }
    void router() { hard_.shares(x_, batch(), q0_); }
    void other() { net_.predict(local(), batch(), out_); }

    // How far the first answers are off those in double, example by example; `shares` is q0 or its corner.
    template <class Shares>
    double error(Shares shares) const {
        double worst = 0;
        for (std::size_t i = 0; i < checked; ++i) {
            const auto expected = by_hand(i, shares);
            for (std::size_t c = 0; c < classes; ++c)
                worst = std::max(worst, std::fabs(static_cast<double>(out_[i * classes + c]) - expected[c]));
        }
        return worst;
    }

private:
    static data::Dataset examples() {
        std::vector<float> x(rows * inputs);
        Stream draw(Key{2});
        for (float& v : x) v = static_cast<float>(2 * draw.uniform() - 1);
        return data::Dataset::own(std::move(x), std::vector<std::int32_t>(rows, 0), classes);
    }
    In<float> global() const { return In<float>(x_).first(Net::parameters); }
    In<float> local() const { return In<float>(x_).subspan(x_.size() - Net::parameters); }

    // Moves the biases of the exits so that half of the examples go each way at every block.
    void balance() {
        hard_.shares(x_, batch(), q0_);
        std::size_t j = 0;
        for (const auto& s : router_.segments({inputs, blocks})) {
            if (s.rank != 1 || s.size() != 2) continue;
            std::vector<double> z;
            for (std::size_t i = 0; i < rows; ++i) {
                const auto q = static_cast<double>(q0_[i * blocks + j]);
                z.push_back(std::log(q / (1 - q)));
            }
            std::nth_element(z.begin(), z.begin() + rows / 2, z.end());
            x_[Net::parameters + s.offset] -= static_cast<float>(z[rows / 2]);
            ++j;
        }
    }
    template <class Shares>
    std::vector<double> by_hand(std::size_t i, Shares shares) const {
        Vec<float> row(inputs);
        batch().read(i, row);
        std::vector<double> h(row.begin(), row.end());
        std::size_t at = 0;
        for (std::size_t j = 0; j < blocks; ++j) {
            const std::size_t in = h.size(), out = j + 1 < blocks ? hidden : classes;
            const double q0 = shares(static_cast<double>(q0_[i * blocks + j]));
            std::vector<double> y(out);
            for (std::size_t o = 0; o < out; ++o)
                for (const bool first : {true, false}) {
                    const float* w = (first ? global() : local()).data() + at;
                    double sum = static_cast<double>(w[out * in + o]);
                    for (std::size_t k = 0; k < in; ++k) sum += static_cast<double>(w[o * in + k]) * h[k];
                    y[o] += (first ? q0 : 1 - q0) * sum;
                }
            at += out * in + out;
            for (double& v : y) v = j + 1 < blocks ? std::max(v, 0.0) : v;
            h = std::move(y);
        }
        double sum = 0;
        const double top = *std::max_element(h.begin(), h.end());
        for (const double v : h) sum += std::exp(v - top);
        for (double& v : h) v -= top + std::log(sum);
        return h;
    }

    Arena arena_;
    Arena::Use use_{arena_};
    data::Dataset data_;
    std::vector<Index> ids_;
    Net net_;
    Router router_;
    nn::Routed<Net, Router> hard_, soft_;
    Vec<float> x_;
    std::vector<float> q0_, out_;
};

}  // namespace

int main(int argc, char** argv) {
    Problem problem;
    const auto corner = [](double q0) { return q0 >= 0.5 ? 1.0 : 0.0; };
    const auto enter = [&](const char* name, auto shares, auto run) {
        const auto error = [&problem, shares, run] {
            run(problem);
            return problem.error(shares);
        };
        // Log-probabilities of size 2 after four sums of at most 784 products of size 0.05 in float.
        bench::enter(std::string("dnn3/") + name, 1e-5, error, [&problem, run](benchmark::State& state) {
            for (auto _ : state) run(problem);
        })->Unit(benchmark::kMillisecond);
    };
    enter("hard", corner, [](Problem& p) { p.hard(); });
    enter("soft", [](double q0) { return q0; }, [](Problem& p) { p.soft(); });
    enter("plain_and_router", [](double) { return 1.0; }, [](Problem& p) {
        p.router();
        p.plain();
    });
    enter("two_passes_and_router", [](double) { return 0.0; }, [](Problem& p) {
        p.router();
        p.plain();
        p.other();
    });
    benchmark::AddCustomContext("kernel_set", std::string(kernels::active_name()));
    return bench::run(argc, argv);
}
