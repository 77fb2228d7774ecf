// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/order/together.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/nn/zoo.hpp>
#include <tessera/rule/sgd.hpp>

#include <support/bench.hpp>
#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace together_test {

using namespace tessera;
using support::Coupled;
using support::QuadraticVisit;
using support::same_bits;

namespace {

using Order = order::Together<rule::Sgd>;
const Coordinates u = Coordinates::range(0, 1), v = Coordinates::range(1, 2);

// A rule nobody can look into: two of them are never known to be equal.
class Closed {
public:
    static constexpr Offers offers{};
    explicit Closed(rule::Sgd inner = {}) : inner_(inner) {}
    template <class R>
    using Memory = rule::Sgd::Memory<R>;
    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
                Memory<real<M>>& memory) const {
        return inner_.step(at, x, b, terms, memory);
    }

private:
    rule::Sgd inner_;
};

}  // namespace

TEST_CASE("both blocks move at every batch, from the same point") {
    const auto after = [](Order order) {
        QuadraticVisit<Coupled> bench({{1, 4}});
        Vec<double> w{1, 2};  // residual -1
        order(bench.context(), w, v, u);
        CHECK(bench.steps() == 1);
        CHECK(bench.tally().examples == 1);
        CHECK(bench.tally().loss == 0.5);
        return w;
    };
    CHECK(after({.v = {.rate = 0.5}, .u = {.rate = 0.5}}) == Vec<double>{1.5, 2.5});
    CHECK(after({.v = {.rate = 0.5}, .u = {.rate = 0.25}}) == Vec<double>{1.25, 2.5});  // u sees the old v
    CHECK(after({.v = {.rate = 0.5}, .u = {.rate = 0}}) == Vec<double>{1, 2.5});
    CHECK(after({.v = {.rate = 0}, .u = {.rate = 0.5}}) == Vec<double>{1.5, 2});
}

TEST_CASE("a visit has one budget") {
    const std::vector<support::Parabola> ten(10, {1, 0});
    for (const double other : {0.1, 0.2}) {  // in one pass, and in blocks
        const auto steps = [&](Order order) {
            order.v.rate = other;
            QuadraticVisit<Coupled> bench(ten, 2);  // five batches an epoch
            Vec<double> w{1, 1};
            order(bench.context(), w, v, u);
            CHECK(bench.tally().examples == 2 * bench.steps());
            return bench.steps();
        };
        CHECK(steps({}) == 5);
        CHECK(steps({.epochs = 3}) == 15);
        CHECK(steps({.epochs = 3, .cap = 7}) == 7);
        CHECK(steps({.epochs = 0}) == 0);
    }
}

TEST_CASE("in one pass and in blocks are the same steps") {
    // A network may fuse the pass over everything and then rounds in its own way: 1e-12 relative in double.
    using Net = nn::Dnn<8, 6, 4, double>;
    const auto data = support::toy_data();
    const auto share = data[0];
    const Net net;
    const auto initial = initial_parameters(net, Key{1});
    const auto after = [&](const auto& order) {
        Workspace<double> workspace;
        const Context<Net> at{.model = &net,
                              .examples = share.examples,
                              .ids = share.train,
                              .key = Key{2},
                              .batch = 5,
                              .initial = &initial,
                              .workspace = &workspace};
        auto w = initial;
        const auto head = on<scope::Head>(net);
        order(at, w, head, on<scope::Except<scope::Head>>(net));
        return w;
    };
    const rule::Sgd rule{.rate = 0.2, .momentum = 0.5, .weight_decay = 0.01};
    const auto whole = after(Order{.v = rule, .u = rule, .epochs = 3});
    const auto blocks = after(order::Together<Closed>{.v = Closed(rule), .u = Closed(rule), .epochs = 3});
    CHECK(support::distance(blocks, whole) < 1e-12);
    CHECK(support::distance(whole, initial) > 1e-3);
    CHECK(support::distance(after(Order{.v = rule, .u = {.rate = 0.2}, .epochs = 3}), whole) > 1e-6);
}

TEST_CASE("equal rules clip both blocks as one group, different rules each its own") {
    const auto after = [](double rate_v, double rate_u) {
        QuadraticVisit<Coupled> bench({{1, 4}});
        Vec<double> w{-6, 0};  // both partial gradients are -10, their norm is 14.14
        Order{.v = {.rate = rate_v, .clip = 1}, .u = {.rate = rate_u, .clip = 1}}(bench.context(), w, v, u);
        return w;
    };
    CHECK(after(1, 1)[1] == doctest::Approx(std::sqrt(0.5)).epsilon(1e-6));  // clip/(norm + 1e-6)
    CHECK(after(1, 2)[1] == doctest::Approx(1).epsilon(1e-6));
    CHECK(after(1, 2)[0] == doctest::Approx(-4).epsilon(1e-6));
}

TEST_CASE("the penalty acts on v and has no factor 1/2") {
    QuadraticVisit<Coupled> bench({{1, 4}}, 0, {1, 3});
    Vec<double> w{1, 2};
    Order{.v = {.rate = 0.5}, .u = {.rate = 0.5}, .penalty = {.strength = 0.25}}(bench.context(), w, v, u);
    CHECK(w == Vec<double>{1.5, 2.75});  // v -= 0.5 (-1 + 0.5 (2 - 3)), u -= 0.5 (-1)
}

TEST_CASE("a client that lacks coordinates leaves them alone") {
    QuadraticVisit<Coupled> bench({{1, 4}});
    Vec<double> w{1, 0};
    Order{}(bench.context(), w, Coordinates::none(), u);
    CHECK(w[1] == 0);
    CHECK(w[0] != 1);
    using Wide = nn::Mclr<8, 4, double>;
    const auto data = support::toy_data();
    const auto share = data[0];
    const Wide net;
    const auto initial = initial_parameters(net, Key{1});
    Workspace<double> workspace;
    const Context<Wide> at{.model = &net,
                           .examples = share.examples,
                           .ids = share.train,
                           .key = Key{2},
                           .batch = 5,
                           .initial = &initial,
                           .workspace = &workspace};
    auto x = initial;
    Order{}(at, x, Coordinates::range(0, 4), Coordinates::range(4, 20));
    for (std::size_t j = 0; j < x.size(); ++j) CHECK((x[j] == initial[j]) == (j >= 20));
}

}  // namespace together_test
