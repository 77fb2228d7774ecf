// SPDX-License-Identifier: BSD-3-Clause
// Layers of the sizes that small models have, and two that are large. Named <batch>x<in>x<out>/<product>/<competitor>.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tessera/core/arena.hpp>
#include <tessera/core/random.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/kernels/reference/dense.hpp>

#include "gemm/problem.hpp"
#include "support/peers.hpp"
#include "support/verdict.hpp"

void add_tessera(bench::GemmCompetitors&);

constexpr bench::Peer peers[]{
#define PEER(name, missing) {name, missing},
#include "peers.inc"
#undef PEER
};

namespace {

using bench::Product;
using Numbers = tessera::Vec<float>;  // which begin at a cache line, for everybody

// Terms lie in [-1, 1), sums of 1024 of them around 10: 1024 roundings of 6e-7 that walk at random make 2e-5. A wrong
// index is off by 1 and more.
constexpr double tolerance = 1e-4;

Numbers numbers(std::size_t n, std::uint64_t seed) {
    tessera::Stream draw(tessera::Key{seed});
    Numbers x(n);
    for (auto& v : x) v = static_cast<float>(2 * draw.uniform() - 1);
    return x;
}

Numbers turned(const Numbers& w, std::size_t rows, std::size_t columns) {
    Numbers t(w.size());
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) t[c * rows + r] = w[r * columns + c];
    return t;
}

struct Shape {
    std::size_t batch, in, out;
};

// One product of one layer: its operands, its answer in double, its competitors.
class Entered final : public bench::GemmCompetitors {
public:
    Entered(const Shape& s, Product product)
        : s_(s),
          product_(product),
          name_(std::to_string(s.batch) + "x" + std::to_string(s.in) + "x" + std::to_string(s.out) +
                (product == Product::forward ? "/forward" : product == Product::weights ? "/weights" : "/inputs")),
          x_(numbers(s.batch * s.in, 1)),
          w_(numbers(s.in * s.out, 2)),
          w_in_first_(turned(w_, s.out, s.in)),
          dy_(numbers(s.batch * s.out, 3)),
          result_(product == Product::forward   ? s.batch * s.out
                  : product == Product::weights ? s.in * s.out
                                                : s.batch * s.in) {}

    void add(const char* name, bool in_first, Make make) override {
        const bench::GemmTask task{.product = product_,
                                   .batch = s_.batch,
                                   .in = s_.in,
                                   .out = s_.out,
                                   .x = x_.data(),
                                   .w = in_first ? w_in_first_.data() : w_.data(),
                                   .dy = dy_.data(),
                                   .result = result_.data()};
        const std::shared_ptr<bench::Multiplier> competitor(make(task));
        if (!competitor) return bench::enter_missing(name_, name, "it has no kernel of this size");
        const auto error = [this, competitor, in_first] {
            std::fill(result_.begin(), result_.end(), 0.0f);
            competitor->run();
            const bool turn = in_first && product_ == Product::weights;
            const auto answer = turn ? turned(result_, s_.in, s_.out) : result_;
            return bench::distance<float>(answer, expected());
        };
        bench::enter(name_ + "/" + name, tolerance, error, [this, competitor](benchmark::State& state) {
            for (auto _ : state) competitor->run();
            state.counters["flop"] = 2.0 * static_cast<double>(s_.batch * s_.in * s_.out);
        });
    }

    const std::string& name() const { return name_; }

private:
    const std::vector<double>& expected() {
        if (!expected_.empty()) return expected_;
        const std::vector<double> x(x_.begin(), x_.end()), w(w_.begin(), w_.end()), dy(dy_.begin(), dy_.end());
        expected_.resize(result_.size());
        namespace reference = tessera::kernels::reference;
        double* none = nullptr;
        switch (product_) {
            case Product::forward:
                reference::affine(x.data(), w.data(), static_cast<const double*>(none), expected_.data(), s_.batch,
                                  s_.in, s_.out);
                break;
            case Product::weights:
                reference::affine_weight_gradient(dy.data(), x.data(), expected_.data(), none, s_.batch, s_.in, s_.out);
                break;
            case Product::inputs:
                reference::affine_input_gradient(dy.data(), w.data(), expected_.data(), s_.batch, s_.in, s_.out);
                break;
        }
        return expected_;
    }

    Shape s_;
    Product product_;
    std::string name_;
    Numbers x_, w_, w_in_first_, dy_, result_;
    std::vector<double> expected_;
};

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::unique_ptr<Entered>> products;
    for (const Shape& shape : {Shape{20, 784, 10}, Shape{20, 784, 100}, Shape{20, 100, 10}, Shape{20, 784, 200},
                               Shape{20, 1024, 1024}, Shape{1, 784, 100}, Shape{1, 1024, 1024}, Shape{32, 784, 100},
                               Shape{128, 784, 100}, Shape{128, 784, 200}, Shape{128, 1024, 1024}})
        for (const auto product : {Product::forward, Product::weights, Product::inputs}) {
            auto& entered = *products.emplace_back(std::make_unique<Entered>(shape, product));
            add_tessera(entered);
        bench::add_peers<bench::GemmCompetitors>("gemm", peers, entered);
        }
    benchmark::AddCustomContext("kernel_set", std::string(tessera::kernels::active_name()));
    return bench::run(argc, argv);
}
