// SPDX-License-Identifier: BSD-3-Clause
// Steps of one layer, batch 128, with unstructured masks of four densities and without one; and the training part of a
// visit, a network 784-512-512-10 with 600 examples, batch 128, 5 epochs: dense as FedAvg's, and on the active
// coordinates as FedSpa's, its masks with densities after Erdos-Renyi. The search for the next mask, which a visit ends
// with, stands beside one dense step.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tessera/contracts/masking.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/mask/dynamic_sparse.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/rule/sgd.hpp>

#include "sparse/problem.hpp"
#include "support/exchange.hpp"
#include "support/peers.hpp"
#include "support/verdict.hpp"

void add_tessera(bench::SparseCompetitors&);

constexpr bench::Peer peers[]{
#define PEER(name, missing) {name, missing},
#include "peers.inc"
#undef PEER
};

namespace {

using namespace tessera;

constexpr std::size_t batch = 128;
// y and dx are sums of at most 1024 terms of about 0.03, which round by 1e-7 of about 1 each time, at random. One
// weight that is left out, or not moved, is off by 1e-3 and more.
constexpr double tolerance = 5e-5;

// Rows begin at a cache line, for everybody.
Vec<float> normals(std::size_t n, double scale, std::uint64_t key) {
    Vec<float> x(n);
    Stream draw(Key{key});
    for (float& v : x) v = static_cast<float>(scale * draw.normal());
    return x;
}

class Entered final : public bench::SparseCompetitors {
public:
    Entered(std::string name, std::size_t in, std::size_t out, double density)
        : name_(std::move(name)), x_(normals(batch * in, 1, 1)), dy_(normals(batch * out, 1, 2)),
          w_(normals(in * out, 0.03, 3)), mask_(in * out) {
        Stream draw(Key{4});
        for (std::size_t j = 0; j < w_.size(); ++j) {
            mask_[j] = draw.uniform() < density;
            if (!mask_[j]) w_[j] = 0;
        }
        task_ = {in, out, batch, 1e-3f, x_.data(), dy_.data(), mask_.data(), density == 1};
    }
    void add(const char* name, Make make) override {
        const std::shared_ptr<bench::SparseStepper> competitor(make(task_));
        const auto error = [this, competitor] {
            expect();
            competitor->load(w_.data());
            competitor->step();
            std::vector<float> w(w_.size());
            competitor->read(w.data());
            return std::max({bench::distance<float>({competitor->y(), y_.size()}, y_),
                             bench::distance<float>({competitor->dx(), dx_.size()}, dx_),
                             bench::distance<float>(w, moved_)});
        };
        bench::enter(name_ + "/" + name, tolerance, error, [this, competitor](benchmark::State& state) {
            competitor->load(w_.data());
            for (auto _ : state) competitor->step();
        })->Unit(benchmark::kMicrosecond);
    }
    const std::string& name() const { return name_; }
    void write(const bench::Exchange& out, const std::string& as) {
        expect();
        out.write<float>(as + ".x.f32", x_);
        out.write<float>(as + ".dy.f32", dy_);
        out.write<float>(as + ".w.f32", w_);
        out.write<std::uint8_t>(as + ".mask.u8", mask_);
        out.write<double>(as + ".y.f64", y_);
        out.write<double>(as + ".dx.f64", dx_);
        out.write<double>(as + ".moved.f64", moved_);
    }

private:
    // The step in double and in plain loops, once somebody asks.
    void expect() {
        if (!moved_.empty()) return;
        const std::size_t in = task_.in, out = task_.out;
        y_.assign(batch * out, 0);
        dx_.assign(batch * in, 0);
        moved_.assign(w_.begin(), w_.end());
        for (std::size_t b = 0; b < batch; ++b)
            for (std::size_t o = 0; o < out; ++o) {
                const double d = static_cast<double>(dy_[b * out + o]);
                for (std::size_t i = 0; i < in; ++i)
                    if (mask_[o * in + i]) {
                        const double w = static_cast<double>(w_[o * in + i]), x = static_cast<double>(x_[b * in + i]);
                        y_[b * out + o] += w * x;
                        dx_[b * in + i] += w * d;
                        moved_[o * in + i] -= static_cast<double>(task_.rate) * d * x;
                    }
            }
    }

    std::string name_;
    Vec<float> x_, dy_, w_;
    std::vector<std::uint8_t> mask_;
    bench::SparseTask task_{};
    std::vector<double> y_, dx_, moved_;
};

// A visit's training part.
struct VisitRecipe {
    static constexpr nn::Shape in = 784;
    static constexpr auto layers =
        nn::chain(nn::Linear{512}, nn::Relu{}, nn::Linear{512}, nn::Relu{}, nn::Linear{10});
};
class Visits {
    using Net = nn::Fixed<VisitRecipe>;

public:
    Visits()
        : rows_(normals(600 * 784, 1, 5)), labels_(labels()), data_(data::Dataset::borrow(rows_, labels_, 10)),
          w_(initial_parameters(net_, Key{6})) {
        for (std::size_t i = 0; i < 600; ++i) ids_.push_back(static_cast<Index>(i));
    }
    void enter() {
        bench::enter("visit/dense/tessera", 0, [] { return 0.0; }, [this](benchmark::State& state) {
            const Arena::Use use(arena_);
            for (auto _ : state) {
                auto w = w_;
                train(net_, w);
            }
        })->Unit(benchmark::kMillisecond);
        bench::enter("search/dense_step/tessera", 0, [] { return 0.0; }, [this](benchmark::State& state) {
            const Arena::Use use(arena_);
            const auto at = context();
            auto w = w_;
            const Step<float> step{.rate = 1e-6};
            const auto batches = at.epochs(1);
            for (auto _ : state) net_.fused_step(w, batches[0], step);
        })->Unit(benchmark::kMillisecond);
        // Layers of 512 and more have this density, the last one and all biases are whole (5.3).
        add("0.50", 141.68);
        add("0.20", 55.08);
    }

private:
    static std::vector<std::int32_t> labels() {
        std::vector<std::int32_t> all(600);
        Stream draw(Key{7});
        for (auto& label : all) label = static_cast<std::int32_t>(draw.below(10));
        return all;
    }
    static Mask erk(double epsilon) {
        Mask mask(Net::parameters, true);
        Stream draw(Key{8});
        for (const Segment& s : Net::segments) {
            if (s.rank < 2 || s.shape[0] < 512) continue;
            const double raw = static_cast<double>(s.shape[0] + s.shape[1]) / static_cast<double>(s.size());
            const double density = epsilon * raw;
            for (std::size_t j = s.offset; j < s.end(); ++j) mask.set(j, draw.uniform() < density);
        }
        return mask;
    }
    Context<Net> context() {
        return {.model = &net_, .examples = &data_.examples(), .ids = ids_, .key = Key{1}, .batch = batch,
                .workspace = &space_};
    }
    template <class Objective>
    void train(const Objective& objective, Vec<float>& x) {
        const auto at = context();
        descend(at.with(objective), x, at.epochs(5), rule::Sgd{.rate = 0.1, .weight_decay = 5e-4});
    }
    Vec<float> visit(const Mask& mask, Arithmetic how) {
        const nn::Sparse<Net> sparse(net_, mask, batch, how);
        Vec<float> x = packed(w_, mask);  // as FedSpa's clients begin
        train(sparse, x);
        return x;
    }
    // A dense gradient of one batch and both selections, at the paper's first rate: half of the weights change places.
    Mask search(const nn::Sparse<Net>& sparse, const Vec<float>& packed, Mask mask) {
        const auto at = context();
        const auto take = [&](Out<float> out) {
            sparse.full_gradient(packed, at.epochs(1, Pass::own)[0].evaluated(), out);
        };
        mask::DynamicSparse{}.next(MaskSearch<float>(net_.layout(), packed, Key{9}, 0, 400, take), mask);
        return mask;
    }
    void add(const std::string& density, double epsilon) {
        const auto mask = std::make_shared<const Mask>(erk(epsilon));
        // 25 steps of rate 0.1 whose gradients differ by their rounding: 1e-6 at most, and no more than tenfold later.
        bench::enter("visit/" + density + "/tessera", 2e-5,
                     [this, mask] {
                         const auto a = visit(*mask, Arithmetic::table), b = visit(*mask, Arithmetic::dense);
                         return bench::distance<float>(a, std::vector<double>(b.begin(), b.end()));
                     },
                     [this, mask](benchmark::State& state) {
                         const Arena::Use use(arena_);
                         for (auto _ : state) visit(*mask, Arithmetic::table);
                     })
            ->Unit(benchmark::kMillisecond);
        const auto sparse = std::make_shared<const nn::Sparse<Net>>(net_, *mask, batch);
        const auto packed = std::make_shared<const Vec<float>>(visit(*mask, Arithmetic::table));
        // As many coordinates as before, and not the same.
        bench::enter("search/" + density + "/tessera", 0,
                     [=, this] {
                         const Mask next = search(*sparse, *packed, *mask);
                         return next.count() == mask->count() && next != *mask ? 0.0 : 1.0;
                     },
                     [=, this](benchmark::State& state) {
                         const Arena::Use use(arena_);
                         for (auto _ : state) benchmark::DoNotOptimize(search(*sparse, *packed, *mask));
                     })
            ->Unit(benchmark::kMillisecond);
    }

    Arena arena_;
    Net net_{};
    Vec<float> rows_;
    std::vector<std::int32_t> labels_;
    data::Dataset data_;
    std::vector<Index> ids_;
    Vec<float> w_;
    Workspace<float> space_{};
};

}  // namespace

int main(int argc, char** argv) {
    const bench::Exchange out(argc, argv);
    const FlushDenormals flush;
    std::vector<std::unique_ptr<Entered>> problems;
    for (const auto& [in, width] : {std::pair<std::size_t, std::size_t>{784, 256}, {1024, 1024}})
        for (const auto& [name, density] :
             {std::pair<const char*, double>{"dense", 1}, {"0.50", 0.5}, {"0.20", 0.2}, {"0.10", 0.1},
              {"0.05", 0.05}}) {
            const std::string layer = std::to_string(in) + "x" + std::to_string(width);
            problems.push_back(std::make_unique<Entered>(layer + "/" + name, in, width, density));
            if (out.wanted() && density != 1) problems.back()->write(out, layer + "." + name);
        }
    if (out.wanted()) return 0;
    for (const auto& problem : problems) {
        add_tessera(*problem);
        bench::add_peers<bench::SparseCompetitors>("sparse", peers, *problem);
    }
    Visits visits;
    visits.enter();
    benchmark::AddCustomContext("kernel_set", std::string(kernels::active_name()));
    return bench::run(argc, argv);
}
