// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/recurrence.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/batch_norm.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/layer_norm.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/recurrent.hpp>
#include <tessera/nn/routed.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/one_layer.hpp>
#include <support/toy_numbers.hpp>

namespace recurrence_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

constexpr std::size_t steps = 4, width = 3, hidden = 2, batch = 5;
constexpr auto cell = recurrence(LstmCore{hidden}, Linear{4 * hidden});
// What the last position holds.
constexpr Cut last(std::size_t n) { return {(steps - 1) * n, n}; }

// Linear that counts how often it is asked, and over how many rows its weight gradient was made.
struct Counting {
    static constexpr Offers offers{};
    std::size_t outputs = 1;
    static inline std::size_t forwards = 0, weights = 0, rows = 0;

    constexpr void infer(Spec& s) const { Linear{outputs}.infer(s), s.reads_rows = s.reads_bytes = s.affine = false; }
    template <class R>
    void forward(const nn::Pass<R>& p) const {
        ++forwards;
        Linear{outputs}.forward(p);
    }
    template <class R>
    void backward(const nn::Pass<R>& p) const {
        if (p.dw) ++weights, rows = p.batch;
        Linear{outputs}.backward(p);
    }
};

// q0 = sigmoid(<psi, (seen, 1)>), one set of weights for all questions, and of what blocks show the first few numbers.
struct ReadsStates {
    static constexpr Offers offers{};
    static constexpr std::size_t seen_width = width + 4 * hidden;
    struct Asked final : Routing<double> {
        In<double> psi;
        Out<double> dpsi;
        Asked(In<double> p, Out<double> d) : psi(p), dpsi(d) {
            for (double& g : dpsi) g = 0;
        }
        static std::size_t shown(In<double> seen, std::size_t rows) { return seen.size() / rows; }
        double at(const double* seen, std::size_t n) const {
            double z = psi[seen_width];
            for (std::size_t k = 0; k < n; ++k) z += psi[k] * seen[k];
            return 1 / (1 + std::exp(-z));
        }
        bool wants_gradient() const override { return true; }
        void ask(std::size_t, In<double> seen, Out<double> q0) override {
            const std::size_t all = shown(seen, q0.size()), n = std::min(all, seen_width);
            for (std::size_t i = 0; i < q0.size(); ++i) q0[i] = at(seen.data() + i * all, n);
        }
        void answer(std::size_t, In<double> seen, In<double> dq0, Out<double> dseen) override {
            const std::size_t all = shown(seen, dq0.size()), n = std::min(all, seen_width);
            for (std::size_t i = 0; i < dq0.size(); ++i) {
                const double* row = seen.data() + i * all;
                const double q = at(row, n), dz = dq0[i] * q * (1 - q);
                for (std::size_t k = 0; k < n; ++k) dseen[i * all + k] = dz * psi[k];
                for (std::size_t k = 0; k < n && !dpsi.empty(); ++k) dpsi[k] += dz * row[k];
                if (!dpsi.empty()) dpsi[seen_width] += dz;
            }
        }
    };
    Vec<Segment> segments(const Routes&) const {
        return {{.name = "states", .shape = {seen_width + 1, 1, 1, 1}, .fan_in = seen_width}};
    }
    template <class R>
    Asked route(const Routes&, In<R> psi, const Batch<R>&, Out<R> dpsi) const {
        return {psi, dpsi};
    }
};

template <class R = double>
class Sequences {
public:
    explicit Sequences(Shape in = Shape(steps, width))
        : pool_(toy_dataset<R>(batch, in.size(), 3)), ids_(first_ids(batch)) {}
    Batch<R> all() const { return Batch<R>(pool_.examples(), ids_); }

private:
    data::Dataset pool_;
    std::vector<Index> ids_;
};

template <class R>
Vec<R> numbers(std::size_t n, std::uint64_t seed) {
    const auto x = toy_numbers<R>(n, seed);
    return {x.begin(), x.end()};
}

template <class R>
std::vector<R> soft(const Network<R>& net, const Vec<R>& g, const Vec<R>& l, const Batch<R>& b, std::vector<R> q0,
                    bool hard = false) {
    const std::size_t blocks = net.routes(MixAt::layer).blocks;
    std::vector<R> out(b.size() * net.outputs());
    Given<R> given(q0, blocks);
    if (hard) net.hard_predict(g, l, given, b, out);
    else net.routed_predict(g, l, given, b, out);
    return out;
}
template <class R>
std::vector<R> plain(const Network<R>& net, const Vec<R>& w, const Batch<R>& b) {
    std::vector<R> out(b.size() * net.outputs());
    net.predict(w, b, out);
    return out;
}
// q0 of every example: one number for each question.
template <class R>
std::vector<R> table(std::vector<R> row) {
    std::vector<R> all;
    for (std::size_t i = 0; i < batch; ++i) all.insert(all.end(), row.begin(), row.end());
    return all;
}

}  // namespace

TEST_CASE("an LSTM cell in a recurrence is the LSTM layer") {
    const std::size_t all = 4 * hidden, in = width;
    const auto ih = toy_numbers<double>(all * in, 1), hh = toy_numbers<double>(all * hidden, 2),
               b1 = toy_numbers<double>(all, 3), b2 = toy_numbers<double>(all, 4),
               x = toy_numbers<double>(batch * steps * in, 5), dy = toy_numbers<double>(batch * steps * hidden, 6);
    std::vector<double> joined, apart(ih);
    for (std::size_t r = 0; r < all; ++r) {
        joined.insert(joined.end(), ih.data() + r * in, ih.data() + (r + 1) * in);
        joined.insert(joined.end(), hh.data() + r * hidden, hh.data() + (r + 1) * hidden);
    }
    for (std::size_t r = 0; r < all; ++r) joined.push_back(b1[r] + b2[r]);
    for (const auto& part : {hh, b1, b2}) apart.insert(apart.end(), part.begin(), part.end());
    OneLayer<std::remove_const_t<decltype(cell)>> one(cell, Shape(steps, in), joined, x);
    OneLayer<Lstm> other(Lstm{hidden}, Shape(steps, in), apart, x);
    CHECK(relative_error(one.y(), other.y()) < 1e-14);  // sums of five products in another order
    const auto [dx, dw] = one.backward(dy);
    const auto [lstm_dx, lstm_dw] = other.backward(dy);
    CHECK(relative_error(dx, lstm_dx) < 1e-13);
    for (std::size_t r = 0; r < all; ++r) {
        for (std::size_t j = 0; j < in + hidden; ++j) {
            const double there = j < in ? lstm_dw[r * in + j] : lstm_dw[all * in + r * hidden + j - in];
            CHECK(dw[r * (in + hidden) + j] == doctest::Approx(there).epsilon(1e-12));
        }
        CHECK(dw[all * (in + hidden) + r] == doctest::Approx(lstm_dw[all * (in + hidden) + r]).epsilon(1e-12));
    }
    CHECK(one.spec().segments[0].name == Name("0.weight"));
}

TEST_CASE("it keeps the law of layers, whatever its layers and core are") {
    const conformance::Complaints none;
    CHECK(conformance::layer(cell, Shape(steps, width)) == none);
    CHECK(conformance::layer(recurrence(TanhCore{3}, Linear{4}, Gelu{}, LayerNorm{}, Linear{3}), Shape(3, 2)) == none);
    CHECK(conformance::layer(recurrence(LstmCore{2}, Dropout{0.4}, Linear{8, false}), Shape(3, 4)) == none);
    CHECK(conformance::layer(cell, Shape(1, width)) == none);
}

TEST_CASE("T visits of the data, one of the weights, over all rows") {
    const Network<double> net(Shape(steps, width), chain(recurrence(TanhCore{hidden}, Counting{hidden}), last(hidden), Linear{3}));
    const Sequences<> data;
    const auto w = numbers<double>(dimension(net), 4);
    Vec<double> g(w.size());
    Counting::forwards = Counting::weights = 0;
    net.gradient(w, data.all(), g);
    CHECK(Counting::forwards == steps);
    CHECK(Counting::weights == 1);
    CHECK(Counting::rows == steps * batch);
}

TEST_CASE_TEMPLATE("norms of single examples have the terms between steps", R, float, double) {
    const Network<R> net(Shape(steps, width), chain(cell, recurrence(TanhCore{3}, Linear{3}), last(3), Linear{3}));
    const Sequences<R> data;
    const auto w = numbers<R>(dimension(net), 4);
    for (const double norm : {1e-4, 0.5, 1e6}) {
        Vec<R> ghost(w.size()), slow(w.size());
        REQUIRE(net.clips({.norm = norm}));
        net.clipped_sum(w, data.all(), {.norm = norm}, ghost);
        clipped_sum_one_by_one(net, In<R>(w), data.all(), Clip<R>{.norm = norm}, Out<R>(slow));
        const std::vector<double> a(ghost.begin(), ghost.end()), b(slow.begin(), slow.end());
        CHECK(relative_error(a, b) < (sizeof(R) == 4 ? 1e-6 : 1e-13));  // five examples, in two orders
    }
}

TEST_CASE("routed: the gate sees both states at every position; all gradients are those of differences") {
    const Sequences<> data;
    const conformance::Complaints none;
    const auto check = [&](const auto& layers) {
        const Network<double> net(Shape(steps, width), layers);
        for (const auto reg : {Reg::q0_all, Reg::code}) {
            const Routed<Network<double>, ReadsStates> objective(net, ReadsStates{}, {.gamma = 0.1, .reg = reg});
            CHECK(conformance::check_gradients(objective, data.all()) == none);
        }
        CHECK(conformance::check_gradients(net, data.all()) == none);
    };
    CHECK(Network<double>(Shape(steps, width), chain(cell, last(hidden), Linear{3})).routes(MixAt::layer).blocks == steps + 1);
    CHECK(Network<double>(Shape(steps, width), chain(cell, last(hidden), Linear{3})).routes(MixAt::output).blocks == 1);
    check(chain(cell, last(hidden), Linear{3}));
    check(chain(Linear{width}, Relu{}, cell, last(hidden), Linear{3}));
}

TEST_CASE("routed: gradients of both branches and of q0, through two cells in a row and a residual block") {
    const Sequences<> data;
    const auto check = [&](const auto& layers) {
        const Network<double> net(Shape(steps, width), layers);
        const std::size_t blocks = net.routes(MixAt::layer).blocks, d = dimension(net);
        const auto b = data.all();
        auto g = numbers<double>(d, 1), l = numbers<double>(d, 2);
        auto q0 = toy_numbers<double>(batch * blocks, 3);
        for (double& q : q0) q = 0.5 + 0.4 * q;
        Vec<double> dg(d), dl(d), other_g(d), other_l(d);
        std::vector<double> dq(q0.size()), unused(q0.size());
        Given<double> given(q0, blocks, dq);
        net.routed_gradient(g, l, given, b, dg, dl);
        const auto slope = [&](double& at) {
            const double kept = at, step = 1e-6;
            const auto loss = [&](double to) {
                at = to;
                Given<double> again(q0, blocks, unused);
                return net.routed_gradient(g, l, again, b, other_g, other_l);
            };
            const double difference = (loss(kept + step) - loss(kept - step)) / (2 * step);
            at = kept;
            return difference;
        };
        double worst = 0;
        for (std::size_t j = 0; j < d; ++j) worst = std::max(worst, std::fabs(slope(g[j]) - dg[j]));
        for (std::size_t j = 0; j < d; ++j) worst = std::max(worst, std::fabs(slope(l[j]) - dl[j]));
        for (std::size_t j = 0; j < q0.size(); ++j) worst = std::max(worst, std::fabs(slope(q0[j]) - dq[j]));
        CHECK(worst < 1e-8);  // 1e-6 squared, and rounding of losses near 1 over 1e-6
        CHECK(*std::max_element(dq.begin(), dq.end()) > 1e-4);
    };
    check(chain(cell, last(hidden), Linear{3}));
    check(chain(cell, recurrence(TanhCore{3}, Linear{3}), last(3), Linear{3}));
    check(chain(cell, Relu{}, recurrence(LstmCore{1}, Linear{4}), recurrence(TanhCore{2}, Linear{2}), last(2), Linear{3}));
    check(chain(residual(chain(Linear{width}, GroupNorm{}, Gelu{}, Linear{width})), cell, last(hidden), Linear{3}));
    check(chain(residual(recurrence(LstmCore{width}, Linear{4 * width})), last(width), Linear{3}));  // one question for the block
}

TEST_CASE("q0 = 1 is the global network, 0 the local one, bit for bit; only the global state is replaced") {
    const Network<float> net(Shape(steps, width), chain(cell, last(hidden), Linear{3}));
    const Sequences<float> data;
    const auto b = data.all();
    const auto g = numbers<float>(dimension(net), 1), l = numbers<float>(dimension(net), 2);
    const auto out = [&](float first, float later, float head, bool hard = false) {
        return soft<float>(net, g, l, b, table<float>({first, later, later, later, head}), hard);
    };
    CHECK(out(1, 1, 1) == plain(net, g, b));
    CHECK(out(0, 0, 0) == plain(net, l, b));
    CHECK(out(0.5f, 0, 0) == plain(net, l, b));  // the local cell never saw a mixed state
    CHECK(out(0.5f, 1, 1) != plain(net, g, b));
    for (const float first : {0.2f, 0.5f, 0.9f})
        CHECK(out(first, 0.7f, 0.1f, true) == out(first >= 0.5f ? 1.0f : 0.0f, 1, 0));
    Vec<float> routed(g.size()), dl(g.size()), direct(g.size());
    const auto ones = table<float>({1, 1, 1, 1, 1});
    Given<float> given(ones, steps + 1);
    const double loss = net.routed_gradient(g, l, given, b, routed, dl);
    CHECK(net.gradient(g, b, direct) == loss);
    CHECK(same_bits(routed, direct));
    CHECK(std::all_of(dl.begin(), dl.end(), [](float v) { return v == 0; }));
}

TEST_CASE("a local cell behind a local cell is fed by that one, not by the mixture") {
    const auto above = recurrence(TanhCore{3}, Linear{3});
    const Sequences<float> data;
    const auto b = data.all();
    const auto run = [&](const auto& layers) {
        const Network<float> net(Shape(steps, width), layers);
        const auto g = numbers<float>(dimension(net), 1), l = numbers<float>(dimension(net), 2);
        std::vector<float> q0(steps, 0.5f);
        q0.resize(2 * steps + 1, 0.0f);
        return soft<float>(net, g, l, b, table(q0)) == plain(net, l, b);
    };
    CHECK(run(chain(cell, above, Linear{3})));
    CHECK_FALSE(run(chain(cell, LeakyRelu{1}, above, Linear{3})));  // between them stands a layer, which reads the mixture
}

TEST_CASE("what a cell cannot be is said") {
    const auto refuses = [](const auto& layers, Shape in) { return !fits(in, layers); };
    CHECK(refuses(recurrence(LstmCore{2}, Linear{7}), Shape(3, 4)));
    CHECK(refuses(cell, Shape(12)));
    CHECK(refuses(recurrence(TanhCore{2}, Linear{2}, BatchNorm{}), Shape(3, 4)));
    CHECK_FALSE(refuses(cell, Shape(3, 4)));
    static_assert(parameters(Shape(80, 8), recurrence(LstmCore{256}, Linear{1024})) == 1024 * (8 + 256) + 1024);
}

}  // namespace recurrence_test
