// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of ResNet-18 and of the 5 x 5 nets, batch 32:
// <channels>to<out>@<plane>k<kernel>s<stride>/<product>/<who>. `tessera` is the kernel that nn::Conv2d takes, alone,
// `tessera_crew` the same with a crew of two, `tessera_columns` the one over columns of an image.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tessera/core/arena.hpp>
#include <tessera/core/random.hpp>
#include <tessera/kernels/conv.hpp>
#include <tessera/kernels/conv_blocked.hpp>
#include <tessera/kernels/conv_thin.hpp>
#include <tessera/kernels/conv_winograd.hpp>
#include <tessera/kernels/reference/conv.hpp>

#include "conv/problem.hpp"
#include "support/crew_of_two.hpp"
#include "support/peers.hpp"
#include "support/verdict.hpp"

constexpr bench::Peer peers[]{
#define PEER(name, missing) {name, missing},
#include "peers.inc"
#undef PEER
};

namespace {

using namespace tessera;
using bench::ConvProduct;
using bench::ConvTask;

constexpr std::size_t batch = 32;
// Inputs lie in [-1, 1), sums of n terms have a root mean square of sqrt(n) / 3; tiles are off by 1e-5 of it, and a
// wrong tap by far more. In units of that.
constexpr double tolerance = 1e-4;

struct Shape {
    std::size_t channels, out, height, kernel, stride, pad;
};
kernels::ConvShape shape(const ConvTask& t) { return {t.channels, t.height, t.height, t.kernel, t.stride, t.pad}; }
Vec<float> numbers(std::size_t n, std::uint64_t seed) {
    Stream draw(Key{seed});
    Vec<float> x(n);
    for (auto& v : x) v = static_cast<float>(2 * draw.uniform() - 1);
    return x;
}

// As nn::Conv2d chooses, or always columns.
template <bool Columns>
class Ours final : public bench::Convolver {
public:
    explicit Ours(const ConvTask& t) : t_(t), zeros_(t.out) {}
    void run() override {
        const Arena::Use use(arena_);
        const auto s = shape(t_);
        const bool tiled = !Columns && kernels::winograd_pays<float>(s, t_.out);
        const bool blocked = !Columns && kernels::blocks_pay<float>(s, t_.out);
        const bool thin = !Columns && kernels::thin_pays<float>(s, t_.out);
        float* const none = nullptr;
        switch (t_.product) {
            case ConvProduct::forward:
                if (tiled) kernels::winograd_conv(t_.x, t_.w, none, t_.result, t_.batch, s, t_.out);
                else if (blocked) kernels::blocked_conv(t_.x, t_.w, none, t_.result, t_.batch, s, t_.out);
                else if (thin) kernels::thin_conv(t_.x, t_.w, none, t_.result, t_.batch, s, t_.out);
                else kernels::conv<float>(t_.x, t_.w, zeros_.data(), t_.result, t_.batch, s, t_.out);
                return;
            case ConvProduct::inputs:
                if (tiled) kernels::winograd_input_gradient(t_.dy, t_.w, t_.result, t_.batch, s, t_.out);
                else if (blocked) kernels::blocked_input_gradient(t_.dy, t_.w, t_.result, t_.batch, s, t_.out);
                else kernels::conv_input_gradient<float>(t_.dy, t_.w, t_.result, t_.batch, s, t_.out);
                return;
            case ConvProduct::weights:
                if (tiled) kernels::winograd_weight_gradient(t_.dy, t_.x, t_.result, none, t_.batch, s, t_.out);
                else if (blocked) kernels::blocked_weight_gradient(t_.dy, t_.x, t_.result, none, t_.batch, s, t_.out);
                else if (thin) kernels::thin_weight_gradient(t_.dy, t_.x, t_.result, none, t_.batch, s, t_.out);
                else kernels::conv_weight_gradient<float>(t_.dy, t_.x, t_.result, t_.batch, s, t_.out);
                return;
        }
    }
    static bench::Convolver* make(const ConvTask& t) { return new Ours(t); }

private:
    ConvTask t_;
    Vec<float> zeros_;
    Arena arena_;
};
class Helped final : public bench::Convolver {
public:
    explicit Helped(const ConvTask& t) : alone_(t) {}
    void run() override {
        const Crew::Use use(&crew_);
        alone_.run();
    }
    static bench::Convolver* make(const ConvTask& t) { return new Helped(t); }

private:
    Ours<false> alone_;
    bench::CrewOfTwo crew_;
};

class Entered final : public bench::ConvCompetitors {
public:
    Entered(const Shape& s, ConvProduct product) {
        task_ = {product,  batch, s.channels, s.out,   s.height, s.kernel,
                 s.stride, s.pad, nullptr,    nullptr, nullptr,  nullptr};
        const auto c = shape(task_);
        x_ = numbers(batch * c.image(), 1);
        w_ = numbers(s.out * c.taps(), 2);
        dy_ = numbers(batch * s.out * c.pixels(), 3);
        result_.resize((product == ConvProduct::forward  ? dy_
                        : product == ConvProduct::inputs ? x_
                                                         : w_)
                           .size() +
                       s.out);
        task_.x = x_.data(), task_.w = w_.data(), task_.dy = dy_.data(), task_.result = result_.data();
        name_ = std::to_string(s.channels) + "to" + std::to_string(s.out) + "@" + std::to_string(s.height) + "k" +
                std::to_string(s.kernel) + "s" + std::to_string(s.stride) +
                (product == ConvProduct::forward  ? "/forward"
                 : product == ConvProduct::inputs ? "/inputs"
                                                  : "/weights");
    }
    const std::string& name() const { return name_; }
    // Whoever is called is made when it is timed first: crews and layouts of many shapes at once would be too much.
    void add(const char* name, Make make) override {
        const auto one = std::make_shared<std::unique_ptr<bench::Convolver>>();
        const auto error = [this, make, one] {
            one->reset(make(task_));
            if (!*one) return 0.0;
            (*one)->run();
            (*one)->answer();
            return off();
        };
        bench::enter(name_ + "/" + name, tolerance, error, [this, one](benchmark::State& state) {
            if (!*one) return state.SkipWithError("not measured: it has no kernel of this shape");
            for (auto _ : state) (*one)->run();
            const auto s = shape(task_);
            state.counters["flop"] = 2.0 * static_cast<double>(batch * task_.out * s.taps() * s.pixels());
        })->Unit(benchmark::kMillisecond);
    }

private:
    // Of a few numbers spread over the result, each summed here.
    double off() const {
        const auto s = shape(task_);
        const std::size_t side = s.rows(), square = s.kernel * s.kernel;
        const auto tap = [&](std::size_t b, std::size_t c, std::size_t o, std::size_t t, std::size_t p, const auto& f) {
            const std::size_t r = p / side * s.stride + t / s.kernel, q = p % side * s.stride + t % s.kernel;
            if (r < s.pad || q < s.pad || r >= s.height + s.pad || q >= s.width + s.pad) return;
            f((b * s.channels + c) * s.height * s.width + (r - s.pad) * s.width + q - s.pad,
              (o * s.channels + c) * square + t, (b * task_.out + o) * side * side + p);
        };
        const bool forward = task_.product == ConvProduct::forward, inputs = task_.product == ConvProduct::inputs;
        double worst = 0;
        const std::size_t all = (forward ? dy_ : inputs ? x_ : w_).size();
        for (std::size_t i = 0; i < 40; ++i) {
            const std::size_t at = i * (all - 1) / 39;
            double sum = 0, terms = 0;
            const auto count = [&](double term) { sum += term, ++terms; };
            if (forward) {
                const std::size_t b = at / (task_.out * side * side), o = at / (side * side) % task_.out;
                for (std::size_t c = 0; c < s.channels; ++c)
                    for (std::size_t t = 0; t < square; ++t)
                        tap(b, c, o, t, at % (side * side),
                            [&](std::size_t x, std::size_t w, std::size_t) { count(double(x_[x]) * double(w_[w])); });
            } else if (inputs) {
                const std::size_t plane = s.height * s.width, b = at / (s.channels * plane),
                                  c = at / plane % s.channels;
                for (std::size_t o = 0; o < task_.out; ++o)
                    for (std::size_t t = 0; t < square; ++t)
                        for (std::size_t p = 0; p < side * side; ++p)
                            tap(b, c, o, t, p, [&](std::size_t x, std::size_t w, std::size_t y) {
                                if (x == at) count(double(dy_[y]) * double(w_[w]));
                            });
            } else {
                const std::size_t o = at / s.taps(), c = at / square % s.channels;
                for (std::size_t b = 0; b < batch; ++b)
                    for (std::size_t p = 0; p < side * side; ++p)
                        tap(b, c, o, at % square, p,
                            [&](std::size_t x, std::size_t, std::size_t y) { count(double(x_[x]) * double(dy_[y])); });
            }
            const double e = std::abs(double(result_[at]) - sum) / std::sqrt(terms / 9 + 1);
            if (!(e <= worst)) worst = e;
        }
        return worst;
    }

    ConvTask task_{};
    std::string name_;
    Vec<float> x_, w_, dy_, result_;
};

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::unique_ptr<Entered>> all;
    for (const Shape& s : {Shape{64, 64, 32, 3, 1, 1}, Shape{128, 128, 16, 3, 1, 1}, Shape{256, 256, 8, 3, 1, 1},
                           Shape{512, 512, 4, 3, 1, 1}, Shape{64, 128, 32, 3, 2, 1}, Shape{64, 128, 32, 1, 2, 0},
                           Shape{32, 64, 14, 5, 1, 0}, Shape{3, 32, 32, 5, 1, 0}})
        for (const auto product : {ConvProduct::forward, ConvProduct::inputs, ConvProduct::weights}) {
            auto& entered = *all.emplace_back(std::make_unique<Entered>(s, product));
            entered.add("tessera", Ours<false>::make);
            entered.add("tessera_crew", Helped::make);
            entered.add("tessera_columns", Ours<true>::make);
            bench::add_peers<bench::ConvCompetitors>("conv", peers, entered);
        }
    benchmark::AddCustomContext("kernel_set", std::string(kernels::active_name()));
    return bench::run(argc, argv);
}
