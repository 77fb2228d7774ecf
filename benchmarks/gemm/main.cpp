// SPDX-License-Identifier: BSD-3-Clause
// Layers of the sizes that small models have, some that are large, and two cubes. Named
// <batch>x<in>x<out>/<product>/<competitor>; `tessera_crew` is ours with a crew of two.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tessera/core/arena.hpp>
#include <tessera/core/random.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/kernels/reference/dense.hpp>

#include "gemm/problem.hpp"
#include "support/exchange.hpp"
#include "support/peers.hpp"
#include "support/verdict.hpp"

void add_tessera(bench::GemmCompetitors&);
void add_crew(bench::GemmCompetitors&);

constexpr bench::Peer peers[]{
#define PEER(name, missing) {name, missing},
#include "peers.inc"
#undef PEER
};

namespace {

using bench::Product;
using Numbers = tessera::Vec<float>;  // which begin at a cache line, for everybody

// Terms lie in [-1, 1), sums of 1024 of them around 10: 1024 roundings of 6e-7 that walk at random make 2e-5, twice as
// many of sums half as large again three times that. A wrong index is off by 1 and more.
double tolerance(std::size_t terms) { return terms <= 1024 ? 1e-4 : 3e-4; }

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
                (product == Product::forward   ? "/forward"
                 : product == Product::weights ? "/weights"
                                               : "/inputs")),
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
            return off(turn ? turned(result_, s_.in, s_.out) : result_);
        };
        bench::enter(name_ + "/" + name, tolerance(terms()), error, [this, competitor](benchmark::State& state) {
            for (auto _ : state) competitor->run();
            state.counters["flop"] = 2.0 * static_cast<double>(s_.batch * s_.in * s_.out);
        });
    }

    const std::string& name() const { return name_; }
    void write(const bench::Exchange& out) const {
        const std::string n = std::to_string(s_.batch);
        out.write<float>(n + ".x.f32", x_);
        out.write<float>(n + ".w.f32", w_);
        out.write<float>(n + ".dy.f32", dy_);
    }

private:
    // The rows of the answer that are checked: all, or of a large one 64 and the last.
    std::size_t rows() const { return product_ == Product::weights ? s_.out : s_.batch; }
    std::size_t columns() const { return product_ == Product::forward ? s_.out : s_.in; }
    std::size_t terms() const {
        return product_ == Product::weights ? s_.batch : product_ == Product::forward ? s_.in : s_.out;
    }
    std::size_t stride() const { return rows() * s_.in * s_.out < (std::size_t{1} << 28) ? 1 : rows() / 64; }

    double off(const Numbers& answer) {
        const std::size_t n = columns();
        double worst = 0;
        for (std::size_t r = 0; r < rows(); r = r + 1 == rows() ? rows() : std::min(r + stride(), rows() - 1)) {
            auto& exact = expected_[r];
            if (exact.empty()) exact = expected(r);
            const Numbers row(answer.begin() + static_cast<std::ptrdiff_t>(r * n),
                              answer.begin() + static_cast<std::ptrdiff_t>((r + 1) * n));
            worst = std::max(worst, bench::distance<float>(row, exact));
        }
        return worst;
    }
    std::vector<double> expected(std::size_t r) const {
        namespace reference = tessera::kernels::reference;
        const auto part = [](const Numbers& of, std::size_t first, std::size_t count, std::size_t step = 1) {
            std::vector<double> all(count);
            for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<double>(of[first + i * step]);
            return all;
        };
        std::vector<double> exact(columns());
        double* none = nullptr;
        if (product_ == Product::weights) {
            const auto slopes = part(dy_, r, s_.batch, s_.out);
            reference::affine_weight_gradient(slopes.data(), wide_x().data(), exact.data(), none, s_.batch, s_.in, 1);
        } else if (product_ == Product::forward) {
            const auto x = part(x_, r * s_.in, s_.in);
            reference::affine(x.data(), wide_w().data(), static_cast<const double*>(none), exact.data(), 1, s_.in,
                              s_.out);
        } else {
            const auto slopes = part(dy_, r * s_.out, s_.out);
            reference::affine_input_gradient(slopes.data(), wide_w().data(), exact.data(), 1, s_.in, s_.out);
        }
        return exact;
    }
    const std::vector<double>& wide_x() const { return widened(x_); }
    const std::vector<double>& wide_w() const { return widened(w_); }
    const std::vector<double>& widened(const Numbers& of) const {
        if (wide_.empty()) wide_.assign(of.begin(), of.end());
        return wide_;
    }

    Shape s_;
    Product product_;
    std::string name_;
    Numbers x_, w_, w_in_first_, dy_, result_;
    mutable std::vector<double> wide_;  // x or w
    std::map<std::size_t, std::vector<double>> expected_;
};

}  // namespace

int main(int argc, char** argv) {
    const bench::Exchange out(argc, argv);
    std::vector<std::unique_ptr<Entered>> products;
    for (const Shape& shape :
         {Shape{20, 784, 10}, Shape{20, 784, 100}, Shape{20, 100, 10}, Shape{20, 784, 200}, Shape{20, 1024, 1024},
          Shape{1, 784, 100}, Shape{1, 1024, 1024}, Shape{32, 784, 100}, Shape{128, 784, 100}, Shape{128, 784, 200},
          Shape{128, 1024, 1024}, Shape{1024, 1024, 1024}, Shape{2048, 2048, 2048}})
        for (const auto product : {Product::forward, Product::weights, Product::inputs}) {
            auto& entered = *products.emplace_back(std::make_unique<Entered>(shape, product));
            add_tessera(entered);
            if (shape.batch >= 1024) {
                add_crew(entered);
                entered.write(out);
            }
            bench::add_peers<bench::GemmCompetitors>("gemm", peers, entered);
        }
    if (out.wanted()) return 0;
    benchmark::AddCustomContext("kernel_set", std::string(tessera::kernels::active_name()));
    return bench::run(argc, argv);
}
