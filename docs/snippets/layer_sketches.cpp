// SPDX-License-Identifier: BSD-3-Clause
// The rest of the zoo against the layer contract: sketches that compile, and whose gradients are checked by
// central differences in double. They show what the contract carries; speed is not their business.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

#include <tessera/contracts/model.hpp>
#include <tessera/kernels/backend.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/sequential.hpp>

namespace sketch {

using namespace tessera;
using nn::Call;
using nn::Linear;
using nn::Sequential;
using Kernels = backend::Simd;

// [batch_norm]
// Running statistics are coordinates of Part::buffer. Forward only reads them. In training, backward writes
// the step they are to take, `momentum * (running - batch)`, where other coordinates get a derivative.
template <std::size_t C, std::size_t Pixels>
struct BatchNorm {
    double momentum = 0.1;

    static constexpr double eps = 1e-5;
    static constexpr std::array<Segment, 4> segments{
        Segment{.name = "weight", .part = Part::norm, .offset = 0, .shape = {C, 1, 1, 1}, .fan_in = 0},
        Segment{.name = "bias", .part = Part::norm, .offset = C, .shape = {C, 1, 1, 1}, .fan_in = 0},
        Segment{.name = "running_mean", .part = Part::buffer, .offset = 2 * C, .shape = {C, 1, 1, 1}, .fan_in = 0},
        Segment{.name = "running_var", .part = Part::buffer, .offset = 3 * C, .shape = {C, 1, 1, 1}, .fan_in = 0}};
    static constexpr std::size_t width(std::size_t in) { return in == C * Pixels ? in : 0; }
    // Statistics belong to the batch, notes to examples; a batch has at least one, so its share is enough.
    static constexpr std::size_t notes(std::size_t) { return 2 * C; }
    static constexpr double flops(std::size_t) { return 0; }

    template <class R>
    void forward(const Call& call, const R* w, const R* x, R* y, R* notes) const {
        for (std::size_t c = 0; c < C; ++c) {
            R mean = w[2 * C + c], variance = w[3 * C + c];
            if (call.training) {
                const R n = static_cast<R>(call.batch * Pixels);
                mean = variance = 0;
                each(call, c, [&](std::size_t at) { mean += x[at] / n; });
                each(call, c, [&](std::size_t at) { variance += (x[at] - mean) * (x[at] - mean) / n; });
            }
            notes[2 * c] = mean;
            notes[2 * c + 1] = variance;
            const R scale = R(1) / std::sqrt(variance + R(eps));
            each(call, c, [&](std::size_t at) { y[at] = w[c] * (x[at] - mean) * scale + w[C + c]; });
        }
    }
    template <class R>
    void backward(const Call& call, const R* w, const R* x, const R*, const R* notes, const R* dy, R* dx,
                  R* dw) const {
        for (std::size_t c = 0; c < C; ++c) {
            const R mean = notes[2 * c], scale = R(1) / std::sqrt(notes[2 * c + 1] + R(eps));
            R sum = 0, along = 0;
            each(call, c, [&](std::size_t at) {
                sum += dy[at];
                along += dy[at] * (x[at] - mean) * scale;
            });
            if (dw) {
                const R n = static_cast<R>(call.batch * Pixels), unbiased = n > 1 ? n / (n - 1) : R(1);
                dw[c] = along;
                dw[C + c] = sum;
                dw[2 * C + c] = call.training ? R(momentum) * (w[2 * C + c] - mean) : R(0);
                dw[3 * C + c] = call.training ? R(momentum) * (w[3 * C + c] - unbiased * notes[2 * c + 1]) : R(0);
            }
            if (!dx) continue;
            const R share = call.training ? R(1) / static_cast<R>(call.batch * Pixels) : R(0);
            each(call, c, [&](std::size_t at) {
                dx[at] = w[c] * scale * (dy[at] - share * (sum + (x[at] - mean) * scale * along));
            });
        }
    }

private:
    template <class F>
    static void each(const Call& call, std::size_t c, F&& f) {
        for (std::size_t b = 0; b < call.batch; ++b)
            for (std::size_t p = 0; p < Pixels; ++p) f((b * C + c) * Pixels + p);
    }
};
// [/batch_norm]

// [buffers]
// What the one door to a step would do with them: coordinates of Part::buffer take the step backward wrote,
// whole. Rate, decay, pull, `also`, momentum and clipping are for the others.
template <class R>
void step(Out<R> x, In<R> g, Layout layout, const Step<R>& s) {
    for (const auto& segment : layout)
        for (std::size_t j = segment.offset; j < segment.end(); ++j)
            x[j] -= segment.part == Part::buffer ? g[j] : static_cast<R>(s.rate) * (g[j] + R(s.decay) * x[j]);
}
// [/buffers]

// [residual]
// y = x + inner(x). The inner layer may want its own output in backward, so that is kept in the notes.
template <class Inner>
struct Residual {
    Inner inner{};

    static constexpr auto segments = Inner::segments;
    static constexpr std::size_t width(std::size_t in) { return Inner::width(in) == in ? in : 0; }
    static constexpr std::size_t notes(std::size_t in) { return in + Inner::notes(in); }
    static constexpr double flops(std::size_t in) { return Inner::flops(in) + static_cast<double>(in); }

    template <class R>
    void forward(const Call& call, const R* w, const R* x, R* y, R* notes) const {
        const std::size_t n = call.batch * call.in;
        inner.forward(call.child(0, call.in), w, x, notes, notes + n);
        for (std::size_t i = 0; i < n; ++i) y[i] = x[i] + notes[i];
    }
    template <class R>
    void backward(const Call& call, const R* w, const R* x, const R*, const R* notes, const R* dy, R* dx,
                  R* dw) const {
        const std::size_t n = call.batch * call.in;
        inner.backward(call.child(0, call.in), w, x, notes, notes + n, dy, dx, dw);
        if (!dx) return;
        for (std::size_t i = 0; i < n; ++i) dx[i] += dy[i];
    }
};
// [/residual]

// [lstm]
// Time is inside the layer: a row is Steps x In numbers, the output Steps x H, every hidden state. The notes
// hold the gates of all steps and then the cells; weights and the two biases are torch's.
template <std::size_t Steps, std::size_t In, std::size_t H>
struct Lstm {
    static constexpr std::size_t hidden = 4 * H * In, bias = hidden + 4 * H * H;
    static constexpr std::array<Segment, 4> segments{
        Segment{.name = "weight_ih", .offset = 0, .shape = {4 * H, In, 1, 1}, .rank = 2, .fan_in = H},
        Segment{.name = "weight_hh", .offset = hidden, .shape = {4 * H, H, 1, 1}, .rank = 2, .fan_in = H},
        Segment{.name = "bias_ih", .offset = bias, .shape = {4 * H, 1, 1, 1}, .fan_in = H},
        Segment{.name = "bias_hh", .offset = bias + 4 * H, .shape = {4 * H, 1, 1, 1}, .fan_in = H}};
    static constexpr std::size_t width(std::size_t in) { return in == Steps * In ? Steps * H : 0; }
    static constexpr std::size_t notes(std::size_t) { return Steps * 5 * H; }
    static constexpr double flops(std::size_t) { return Steps * (8.0 * H * (In + H) + 8.0 * H); }

    template <class R>
    void forward(const Call& call, const R* w, const R* x, R* y, R* notes) const {
        R* cells = notes + call.batch * Steps * 4 * H;
        Kernels::affine(x, w, w + bias, notes, call.batch * Steps, In, 4 * H);
        Vec<R> recurrent(4 * H);
        const Vec<R> zero(H);
        for (std::size_t row = 0; row < call.batch * Steps; ++row) {  // example by example, step by step
            const bool first = row % Steps == 0;
            const R* before = first ? zero.data() : y + (row - 1) * H;
            Kernels::affine(before, w + hidden, w + bias + 4 * H, recurrent.data(), 1, H, 4 * H);
            R* gate = notes + row * 4 * H;
            for (std::size_t j = 0; j < 4 * H; ++j) gate[j] += recurrent[j];
            for (std::size_t j = 0; j < H; ++j) {
                R &i = gate[j], &f = gate[H + j], &g = gate[2 * H + j], &o = gate[3 * H + j];
                i = sigmoid(i), f = sigmoid(f), g = std::tanh(g), o = sigmoid(o);
                R& cell = cells[row * H + j];
                cell = i * g + f * (first ? R(0) : cells[(row - 1) * H + j]);
                y[row * H + j] = o * std::tanh(cell);
            }
        }
    }
    template <class R>
    void backward(const Call& call, const R* w, const R* x, const R* y, const R* notes, const R* dy, R* dx,
                  R* dw) const {
        const R* cells = notes + call.batch * Steps * 4 * H;
        Vec<R> dgates(call.batch * Steps * 4 * H), before(call.batch * Steps * H), dcell(H), dhidden(H);
        for (std::size_t row = call.batch * Steps; row-- > 0;) {
            const bool first = row % Steps == 0, last = row % Steps == Steps - 1;
            if (last) std::fill(dcell.begin(), dcell.end(), R(0)), std::fill(dhidden.begin(), dhidden.end(), R(0));
            const R* gate = notes + row * 4 * H;
            R* dgate = dgates.data() + row * 4 * H;
            for (std::size_t j = 0; j < H; ++j) {
                const R i = gate[j], f = gate[H + j], g = gate[2 * H + j], o = gate[3 * H + j];
                const R dh = dy[row * H + j] + dhidden[j], bent = std::tanh(cells[row * H + j]);
                const R earlier = first ? R(0) : cells[(row - 1) * H + j];
                const R dc = dcell[j] + dh * o * (1 - bent * bent);
                dgate[j] = dc * g * i * (1 - i);
                dgate[H + j] = dc * earlier * f * (1 - f);
                dgate[2 * H + j] = dc * i * (1 - g * g);
                dgate[3 * H + j] = dh * bent * o * (1 - o);
                dcell[j] = dc * f;
                before[row * H + j] = first ? R(0) : y[(row - 1) * H + j];
            }
            Kernels::affine_input_gradient(dgate, w + hidden, dhidden.data(), 1, H, 4 * H);
        }
        const std::size_t rows = call.batch * Steps;
        if (dw) {  // one product over all steps, so that weights shared by steps are summed by the kernel
            Kernels::affine_weight_gradient(dgates.data(), x, dw, dw + bias, rows, In, 4 * H);
            Kernels::affine_weight_gradient(dgates.data(), before.data(), dw + hidden, dw + bias + 4 * H, rows, H, 4 * H);
        }
        if (dx) Kernels::affine_input_gradient(dgates.data(), w, dx, rows, In, 4 * H);
    }

private:
    template <class R>
    static R sigmoid(R v) {
        return R(1) / (R(1) + std::exp(-v));
    }
};
// [/lstm]

// [attention]
// Causal self-attention over T positions of D numbers, without biases. Notes: q, k, v and the context of the
// whole batch, then the probabilities.
template <std::size_t T, std::size_t D, std::size_t Heads>
struct Attention {
    static_assert(D % Heads == 0);
    static constexpr std::size_t each = D / Heads;
    static constexpr std::array<Segment, 4> segments{
        Segment{.name = "q", .offset = 0, .shape = {D, D, 1, 1}, .rank = 2, .fan_in = D},
        Segment{.name = "k", .offset = D * D, .shape = {D, D, 1, 1}, .rank = 2, .fan_in = D},
        Segment{.name = "v", .offset = 2 * D * D, .shape = {D, D, 1, 1}, .rank = 2, .fan_in = D},
        Segment{.name = "o", .offset = 3 * D * D, .shape = {D, D, 1, 1}, .rank = 2, .fan_in = D}};
    static constexpr std::size_t width(std::size_t in) { return in == T * D ? in : 0; }
    static constexpr std::size_t notes(std::size_t) { return 4 * T * D + Heads * T * T; }
    static constexpr double flops(std::size_t) { return 8.0 * T * D * D + 4.0 * T * T * D; }

    template <class R>
    void forward(const Call& call, const R* w, const R* x, R* y, R* notes) const {
        const std::size_t n = call.batch * T * D;
        R *q = notes, *k = q + n, *v = k + n, *context = v + n, *chance = context + n;
        const R* none = nullptr;
        for (std::size_t part = 0; part < 3; ++part)
            Kernels::affine(x, w + part * D * D, none, notes + part * n, call.batch * T, D, D);
        each_head(call, [&](std::size_t from, std::size_t head) {
            for (std::size_t t = 0; t < T; ++t) {
                R* p = chance + (head * T + t) * T;
                R most = -std::numeric_limits<R>::infinity(), sum = 0;
                for (std::size_t s = 0; s <= t; ++s) most = std::max(most, p[s] = dot(q + from, t, k + from, s) * scale<R>());
                for (std::size_t s = 0; s <= t; ++s) sum += p[s] = std::exp(p[s] - most);
                for (std::size_t s = 0; s < T; ++s) p[s] = s <= t ? p[s] / sum : R(0);
                for (std::size_t j = 0; j < each; ++j) {
                    R mixed = 0;
                    for (std::size_t s = 0; s <= t; ++s) mixed += p[s] * v[from + s * D + j];
                    context[from + t * D + j] = mixed;
                }
            }
        });
        Kernels::affine(context, w + 3 * D * D, none, y, call.batch * T, D, D);
    }
    template <class R>
    void backward(const Call& call, const R* w, const R* x, const R*, const R* notes, const R* dy, R* dx,
                  R* dw) const {
        const std::size_t n = call.batch * T * D;
        const R *q = notes, *k = q + n, *v = k + n, *context = v + n, *chance = context + n;
        R* none = nullptr;
        if (dw) Kernels::affine_weight_gradient(dy, context, dw + 3 * D * D, none, call.batch * T, D, D);
        Vec<R> dcontext(n), dqkv(3 * n), dp(T);
        Kernels::affine_input_gradient(dy, w + 3 * D * D, dcontext.data(), call.batch * T, D, D);
        R *dq = dqkv.data(), *dk = dq + n, *dv = dk + n;
        each_head(call, [&](std::size_t from, std::size_t head) {
            for (std::size_t t = 0; t < T; ++t) {
                const R* p = chance + (head * T + t) * T;
                R along = 0;
                for (std::size_t s = 0; s <= t; ++s) along += p[s] * (dp[s] = dot(dcontext.data() + from, t, v + from, s));
                for (std::size_t s = 0; s <= t; ++s)
                    for (std::size_t j = 0; j < each; ++j) {
                        const std::size_t here = from + t * D + j, there = from + s * D + j;
                        const R dscore = p[s] * (dp[s] - along) * scale<R>();
                        dq[here] += dscore * k[there];
                        dk[there] += dscore * q[here];
                        dv[there] += p[s] * dcontext[here];
                    }
            }
        });
        Vec<R> part_of_dx(dx ? n : 0);
        if (dx) std::fill_n(dx, n, R(0));
        for (std::size_t part = 0; part < 3; ++part) {
            const R* d = dqkv.data() + part * n;
            if (dw) Kernels::affine_weight_gradient(d, x, dw + part * D * D, none, call.batch * T, D, D);
            if (!dx) continue;
            Kernels::affine_input_gradient(d, w + part * D * D, part_of_dx.data(), call.batch * T, D, D);
            for (std::size_t i = 0; i < n; ++i) dx[i] += part_of_dx[i];
        }
    }

private:
    template <class R>
    static R scale() {
        return R(1) / std::sqrt(static_cast<R>(each));
    }
    template <class R>
    static R dot(const R* a, std::size_t t, const R* b, std::size_t s) {
        R sum = 0;
        for (std::size_t j = 0; j < each; ++j) sum += a[t * D + j] * b[s * D + j];
        return sum;
    }
    template <class F>
    static void each_head(const Call& call, F&& f) {
        for (std::size_t h = 0; h < call.batch * Heads; ++h) f(h / Heads * T * D + h % Heads * each, h);
    }
};
// [/attention]

// [counts]
static_assert(dimension(Layout(Lstm<80, 8, 256>::segments)) == 272'384);
// [/counts]

// ------------------------------------------------------------------------------------------------------ the checks

template <class L>
constexpr bool is_layer = nn::Layer<L, float> && nn::Layer<L, double>;

static_assert(is_layer<BatchNorm<2, 3>>);
static_assert(is_layer<Residual<Linear<4, 4>>> && is_layer<Lstm<3, 2, 4>> && is_layer<Attention<3, 4, 2>>);

int failures = 0;

void report(const char* what, bool holds, double worst) {
    std::printf("%-34s %s (worst %.1e)\n", what, holds ? "ok" : "FAILED", worst);
    failures += !holds;
}

Vec<double> numbers(std::size_t n, std::uint64_t seed, double size = 1) {
    Stream draw(Key{seed});
    Vec<double> all(n);
    for (auto& v : all) v = size * draw.normal();
    return all;
}

// Descends <c, layer(x)> in both arguments by formula and by central differences; buffers are no derivatives.
template <class L>
void check(const char* what, std::size_t in, bool training = true) {
    const L layer{};
    constexpr std::size_t batch = 3;
    const Call call{batch, in, training, Key{7}};
    const std::size_t d = dimension(Layout(L::segments)), out = L::width(in);
    auto w = numbers(d, 1, 0.5), x = numbers(batch * in, 2);
    for (const auto& s : L::segments)
        for (std::size_t j = s.offset; j < s.end(); ++j)
            if (s.part == Part::norm || s.part == Part::buffer) w[j] = 1 + 0.3 * std::abs(w[j]);
    const auto c = numbers(batch * out, 3);
    Vec<double> y(batch * out), notes(batch * L::notes(in));
    const auto value = [&] {
        layer.forward(call, w.data(), x.data(), y.data(), notes.data());
        return std::inner_product(y.begin(), y.end(), c.begin(), 0.0);
    };
    value();
    Vec<double> dx(x.size(), 99), dw(d, 99), dx_alone(x.size(), 98), dw_alone(d, 98);
    double* none = nullptr;
    layer.backward(call, w.data(), x.data(), y.data(), notes.data(), c.data(), dx.data(), dw.data());
    layer.backward(call, w.data(), x.data(), y.data(), notes.data(), c.data(), dx_alone.data(), none);
    layer.backward(call, w.data(), x.data(), y.data(), notes.data(), c.data(), none, dw_alone.data());

    double worst = 0;
    const auto compare = [&](double& at, double formula) {
        const double step = 1e-6, before = at;
        at = before + step;
        const double more = value();
        at = before - step;
        const double less = value();
        at = before;
        const double difference = (more - less) / (2 * step);
        worst = std::max(worst, std::abs(difference - formula) / (1 + std::abs(difference)));
    };
    for (std::size_t i = 0; i < x.size(); ++i) compare(x[i], dx[i]);
    for (const auto& s : L::segments)
        for (std::size_t j = s.offset; j < s.end() && s.part != Part::buffer; ++j) compare(w[j], dw[j]);
    report(what, worst < 1e-7 && dx == dx_alone && dw == dw_alone, worst);
}

// Training on batches of one distribution brings the running statistics to it, and evaluation reads them.
void check_running_statistics() {
    using L = BatchNorm<2, 3>;
    const L layer;
    const std::size_t in = 6, batch = 4;
    Vec<double> w{1, 1, 0, 0, 0, 0, 1, 1};  // a network would have to start like this
    const auto x = numbers(batch * in, 5);
    Vec<double> y(x.size()), seen(x.size()), notes(batch * L::notes(in)), g(w.size());
    const Call training{batch, in, true, Key{}}, evaluation{batch, in, false, Key{}};
    const Vec<double> flat(x.size());
    for (int s = 0; s < 400; ++s) {
        layer.forward(training, w.data(), x.data(), y.data(), notes.data());
        layer.backward(training, w.data(), x.data(), y.data(), notes.data(), flat.data(), static_cast<double*>(nullptr),
                       g.data());
        step<double>(w, g, L::segments, {.rate = 0.1});
    }
    layer.forward(evaluation, w.data(), x.data(), seen.data(), notes.data());
    const double shrink = std::sqrt(11.0 / 12.0);  // the running variance is the unbiased one
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(seen[i] - shrink * y[i]));
    report("batch norm, running statistics", worst < 1e-4, worst);
}

}  // namespace sketch

int main() {
    using namespace sketch;
    check<BatchNorm<2, 3>>("batch norm, training", 6);
    check<BatchNorm<2, 3>>("batch norm, evaluation", 6, false);
    check<Residual<Sequential<Linear<4, 4>, nn::LeakyRelu, Linear<4, 4>>>>("residual block", 4);
    check<Residual<Sequential<Linear<4, 4>, nn::Dropout, Linear<4, 4>>>>("residual block with dropout", 4);
    check<Lstm<4, 3, 5>>("LSTM over four steps", 12);
    check<Attention<4, 6, 2>>("causal attention, two heads", 24);
    check<Sequential<nn::Conv2d<1, 6, 6, 2, 3>, nn::Relu, nn::MaxPool2d<2, 4, 4>, Linear<8, 3>>>("four in a row", 36);
    check_running_statistics();
    return failures == 0 ? 0 : 1;
}
