// SPDX-License-Identifier: BSD-3-Clause
// Convolutions on the active weights of a mask, batch 32: <channels>to<out>@<plane>k<kernel>/<density>/<product>/<who>.
//
//   forward, inputs, weights   one product of blocks
//   all                        the three and all copies between rows and blocks, as a layer alone among dense ones
//
// `tessera` is alone, `tessera_crew` has a crew of two. Of `all` there are also `columns`, zero-filled weights by the
// columns of an image, and `dense`, zero-filled weights by the kernel that nn::Conv2d takes. The first layer of a network
// has no gradient in its input: its `all` has none. lenet5/<density>/visit/<who> is 5 epochs of FedSpa's LeNet5 over
// 600 examples, lists included, on random masks of every layer; `dense` is the same of the whole network.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tessera/contracts/masking.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/kernels/conv.hpp>
#include <tessera/kernels/sparse_conv.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/rule/sgd.hpp>

#include "support/crew_of_two.hpp"
#include "support/verdict.hpp"

namespace {

using namespace tessera;

constexpr std::size_t batch = 32;
// Inputs lie in [-1, 1); of sums of n terms, whose root mean square is sqrt(n) / 3, rounding moves 1e-6.
constexpr double tolerance = 1e-4;

struct Layer {
    std::size_t channels, out, side, kernel, pad;
    kernels::ConvShape shape() const { return {channels, side, side, kernel, 1, pad}; }
};
struct Density {
    const char* name;
    double share;
};
Vec<float> numbers(std::size_t n, std::uint64_t seed) {
    Stream draw(Key{seed});
    Vec<float> x(n);
    for (auto& v : x) v = static_cast<float>(2 * draw.uniform() - 1);
    return x;
}

// One layer on one mask, by rows and in blocks.
class Problem {
public:
    Problem(const Layer& layer, const Density& density) : s(layer.shape()), out(layer.out), mask_(out * s.taps()) {
        Stream draw(Key{9});
        for (std::size_t j = 0; j < mask_.size(); ++j) mask_.set(j, draw.uniform() < density.share);
        x = numbers(batch * s.image(), 1), dy = numbers(batch * planes(), 3), whole = numbers(mask_.size() + out, 2);
        for (std::size_t j = 0; j < mask_.size(); ++j)
            if (mask_[j]) packed.push_back(whole[j]);
            else whole[j] = 0;
        std::fill_n(whole.end() - static_cast<std::ptrdiff_t>(out), out, 0.0f);
        pattern = {mask_.words().data(), 0, s, out, batch, true};
        y.resize(dy.size()), dx.resize(x.size()), dw.resize(whole.size()), packed_dw.resize(packed.size());
        bx = bdx = Vec<float>(x.size()), by = bdy = Vec<float>(dy.size());
        turn(x, bx, s.image()), turn(dy, bdy, planes());
    }
    std::size_t planes() const { return out * s.pixels(); }

    void forward() { kernels::sparse_conv<float>(pattern, packed.data(), nullptr, bx.data(), by.data(), batch); }
    void inputs() {
        kernels::sparse_conv_input_gradient<float>(pattern, packed.data(), bdy.data(), bdx.data(), batch);
    }
    void weights() {
        kernels::sparse_conv_weight_gradient<float>(pattern, bdy.data(), bx.data(), packed_dw.data(), batch);
    }
    void all() {
        turn(x, bx, s.image());
        forward();
        kernels::from_blocks(by.data(), y.data(), batch, planes(), batch);
        turn(dy, bdy, planes());
        weights();
        if (first()) return;
        inputs();
        kernels::from_blocks(bdx.data(), dx.data(), batch, s.image(), batch);
    }
    void columns() {
        kernels::conv<float>(x.data(), whole.data(), whole.data() + mask_.size(), y.data(), batch, s, out);
        kernels::conv_weight_gradient<float>(dy.data(), x.data(), dw.data(), batch, s, out);
        if (!first()) kernels::conv_input_gradient<float>(dy.data(), whole.data(), dx.data(), batch, s, out);
    }
    void dense() {
        const nn::detail::ConvOn<float> on(nn::backend_for<float>(), s, out);
        on.forward(x.data(), whole.data(), whole.data() + mask_.size(), y.data(), batch);
        on.weight_gradient(dy.data(), x.data(), dw.data(), batch);
        if (!first()) on.input_gradient(dy.data(), whole.data(), dx.data(), batch);
    }
    // Of all three products, over the kernel by columns.
    double error() {
        columns();
        kernels::conv_input_gradient<float>(dy.data(), whole.data(), dx.data(), batch, s, out);
        const auto fine_y = y, fine_dx = dx, fine_dw = packed_of(dw);
        std::fill(y.begin(), y.end(), NAN), std::fill(dx.begin(), dx.end(), NAN);
        std::fill(packed_dw.begin(), packed_dw.end(), NAN);
        all();
        inputs();
        kernels::from_blocks(bdx.data(), dx.data(), batch, s.image(), batch);
        return std::max({off(y, fine_y), off(dx, fine_dx), off(packed_dw, fine_dw)});
    }
    bool first() const { return s.channels == 1; }
    double flop() const { return 2.0 * static_cast<double>(batch * packed.size() * s.pixels()); }

private:
    void turn(const Vec<float>& rows, Vec<float>& blocks, std::size_t n) {
        kernels::to_blocks(kernels::RowTable<float>(rows.data(), batch, n).rows(), blocks.data(), batch, n, batch);
    }
    Vec<float> packed_of(const Vec<float>& w) const {
        Vec<float> p;
        for (std::size_t j = 0; j < mask_.size(); ++j)
            if (mask_[j]) p.push_back(w[j]);
        return p;
    }
    static double off(const Vec<float>& got, const Vec<float>& fine) {
        double worst = 0, squares = 1e-30;
        for (std::size_t i = 0; i < fine.size(); ++i) {
            const double e = std::abs(double(got[i]) - double(fine[i]));
            if (!(e <= worst)) worst = e;
            squares += double(fine[i]) * double(fine[i]) / static_cast<double>(fine.size());
        }
        return worst / std::sqrt(squares);
    }

    kernels::ConvShape s;
    std::size_t out;
    Mask mask_;
    kernels::SparseConvPattern<float> pattern;
    Vec<float> x, dy, whole, packed, y, dx, dw, packed_dw, bx, bdx, by, bdy;
};

void enter(const Layer& layer, const Density& density) {
    const std::string name = std::to_string(layer.channels) + "to" + std::to_string(layer.out) + "@" +
                             std::to_string(layer.side) + "k" + std::to_string(layer.kernel) + "/" + density.name;
    const auto held = std::make_shared<std::unique_ptr<Problem>>();  // made when it is asked first
    const auto add = [&](const char* product, const char* who, double products, bool helped, void (Problem::*run)()) {
        const auto error = [=] {
            if (!*held) *held = std::make_unique<Problem>(layer, density);
            return (*held)->error();
        };
        bench::enter(name + "/" + product + "/" + who, tolerance, error, [=](benchmark::State& state) {
            std::unique_ptr<bench::CrewOfTwo> crew;
            if (helped) crew = std::make_unique<bench::CrewOfTwo>();
            const Crew::Use use(crew.get());
            Arena arena;
            const Arena::Use here(arena);
            for (auto _ : state) ((**held).*run)();
            state.counters["flop"] = products * (*held)->flop();
        })->Unit(benchmark::kMillisecond);
    };
    add("all", "columns", 3, false, &Problem::columns);
    add("all", "dense", 3, false, &Problem::dense);
    for (const bool helped : {false, true}) {
        const char* who = helped ? "tessera_crew" : "tessera";
        add("forward", who, 1, helped, &Problem::forward);
        add("inputs", who, 1, helped, &Problem::inputs);
        add("weights", who, 1, helped, &Problem::weights);
        add("all", who, 3, helped, &Problem::all);
    }
}

// A visit's training part.
class Visits {
    using Net = nn::LeNet5<10>;

public:
    Visits() : rows_(numbers(600 * Net::inputs, 5)), labels_(600), w_(initial_parameters(net_, Key{6})) {
        Stream draw(Key{7});
        for (auto& label : labels_) label = static_cast<std::int32_t>(draw.below(10));
        data_.emplace(data::Dataset::borrow(rows_, labels_, 10));
        for (std::size_t i = 0; i < 600; ++i) ids_.push_back(static_cast<Index>(i));
    }
    void enter() {
        bench::enter("lenet5/1/visit/dense", 0, [] { return 0.0; }, [this](benchmark::State& state) {
            const Arena::Use use(arena_);
            for (auto _ : state) {
                auto w = w_;
                train(net_, w);
            }
        })->Unit(benchmark::kMillisecond);
        for (const Density& d : {Density{"0.5", 0.5}, Density{"0.2", 0.2}, Density{"0.1", 0.1}}) {
            const auto mask = std::make_shared<Mask>(Net::parameters, true);
            Stream draw(Key{8});
            for (const Segment& s : net_.layout())
                for (std::size_t j = s.offset; s.rank > 1 && j < s.end(); ++j) mask->set(j, draw.uniform() < d.share);
            for (const bool helped : {false, true}) {
                // 95 steps of rate 0.01 whose gradients differ by their rounding: 1e-6 at most, and no more than
                // tenfold later.
                const auto error = [=, this] {
                    const auto a = visit(*mask, Arithmetic::table), b = visit(*mask, Arithmetic::dense);
                    return bench::distance<float>(a, std::vector<double>(b.begin(), b.end()));
                };
                bench::enter(std::string("lenet5/") + d.name + "/visit/tessera" + (helped ? "_crew" : ""), 1e-5, error,
                             [=, this](benchmark::State& state) {
                                 std::unique_ptr<bench::CrewOfTwo> crew;
                                 if (helped) crew = std::make_unique<bench::CrewOfTwo>();
                                 const Crew::Use with(crew.get());
                                 const Arena::Use use(arena_);
                                 for (auto _ : state) visit(*mask, Arithmetic::table);
                             })
                    ->Unit(benchmark::kMillisecond);
            }
        }
    }

private:
    template <class Objective>
    void train(const Objective& objective, Vec<float>& x) {
        const Context<Net> at{.model = &net_,
                              .examples = &data_->examples(),
                              .ids = ids_,
                              .key = Key{1},
                              .batch = batch,
                              .workspace = &space_};
        descend(at.with(objective), x, at.epochs(5), rule::Sgd{.rate = 0.01, .weight_decay = 5e-4});
    }
    Vec<float> visit(const Mask& mask, Arithmetic how) {
        const nn::Sparse<Net> sparse(net_, mask, batch, how);
        Vec<float> x = packed(w_, mask);
        train(sparse, x);
        return x;
    }

    Arena arena_;
    Net net_{};
    Vec<float> rows_;
    std::vector<std::int32_t> labels_;
    std::optional<data::Dataset> data_;
    std::vector<Index> ids_;
    Vec<float> w_;
    Workspace<float> space_{};
};

}  // namespace

int main(int argc, char** argv) {
    const FlushDenormals flush;
    // LeNet5's two, the stages of a ResNet-18 or VGG11.
    for (const Layer& layer : {Layer{1, 20, 28, 5, 0}, Layer{20, 50, 12, 5, 0}, Layer{64, 64, 32, 3, 1},
                               Layer{128, 128, 16, 3, 1}, Layer{256, 256, 8, 3, 1}, Layer{512, 512, 4, 3, 1}})
        for (const Density& density :
             {Density{"0.5", 0.5}, Density{"0.2", 0.2}, Density{"0.1", 0.1}, Density{"0.05", 0.05}})
            enter(layer, density);
    Visits visits;
    visits.enter();
    benchmark::AddCustomContext("kernel_set", std::string(kernels::active_name()));
    return bench::run(argc, argv);
}
