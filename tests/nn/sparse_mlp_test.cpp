// SPDX-License-Identifier: BSD-3-Clause
// Run-time widths on the active coordinates of a mask: every bit of the network compiled for them.
#include <tessera/nn/sparse_mlp.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/masking.hpp>
#include <tessera/contracts/sparse.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/mlp.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/kernel_sets.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace sparse_mlp_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;
using doctest::Contains;

static_assert(SparseModel<Mlp<float>> && SparseModel<Mlp<double>>);
static_assert(SparseForm<Sparse<Mlp<float>>> && SparseForm<Sparse<Mlp<double>>>);

constexpr std::size_t inputs = 37, classes = 5;
template <class R>
using Deep =
    Network<R, inputs, Sequential<Linear<inputs, 21>, LeakyRelu, Linear<21, 34>, LeakyRelu, Linear<34, classes>>>;

bool same_layout(Layout a, Layout b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Segment& x, const Segment& y) {
        return x.name == y.name && x.part == y.part && x.offset == y.offset && x.shape == y.shape && x.rank == y.rank &&
               x.fan_in == y.fan_in && x.value == y.value && x.deviation == y.deviation;
    });
}

// share(segment): of its coordinates that are active.
template <class F>
Mask mask_of(Layout layout, std::uint64_t seed, F&& share) {
    Mask mask(dimension(layout));
    Stream draw(Key{seed});
    for (const Segment& s : layout)
        for (std::size_t j = s.offset; j < s.end(); ++j) mask.set(j, draw.uniform() < share(s));
    return mask;
}
Mask one_of_each_tensor(Layout layout) {
    Mask mask(dimension(layout));
    for (const Segment& s : layout) mask.set(s.offset + s.size() / 2, true);
    return mask;
}
std::vector<std::pair<std::string, Mask>> masks_of(Layout layout) {
    const auto weights = [](const Segment& s) { return s.rank > 1; };
    const auto first = [&](const Segment& s) { return s.offset < layout[2 % layout.size()].offset; };
    return {{"all", Mask(dimension(layout), true)},
            {"half", mask_of(layout, 3, [](auto&) { return 0.5; })},
            {"a tenth", mask_of(layout, 4, [](auto&) { return 0.1; })},
            {"one of each tensor", one_of_each_tensor(layout)},
            {"a third and every bias", mask_of(layout, 5, [&](auto& s) { return weights(s) ? 0.3 : 1; })},
            {"a third and no bias", mask_of(layout, 5, [&](auto& s) { return weights(s) ? 0.3 : 0; })},
            {"every weight and some biases", mask_of(layout, 6, [&](auto& s) { return weights(s) ? 1 : 0.5; })},
            {"all of the first layer", mask_of(layout, 7, [&](auto& s) { return first(s) ? 1 : 0.4; })},
            {"all but the first layer", mask_of(layout, 8, [&](auto& s) { return first(s) ? 0.4 : 1; })},
            {"nearly all of the first layer", mask_of(layout, 9, [&](auto& s) { return first(s) ? 0.95 : 0.4; })}};
}
constexpr Arithmetic every_arithmetic[] = {Arithmetic::table, Arithmetic::sparse, Arithmetic::dense};

template <class R, class F>
Vec<R> written(std::size_t n, F&& f) {
    Vec<R> out(n, std::numeric_limits<R>::quiet_NaN());
    f(Out<R>(out));
    return out;
}

// Both forms of one mask, and a point.
template <class M, class Loose>
struct Pair {
    using R = real<M>;
    M fixed{};
    Loose loose;
    Mask mask;
    Vec<R> packed;
    Sparse<M> a;
    Sparse<Loose> b;

    Pair(const Loose& model, Mask m, std::size_t batch, Arithmetic how)
        : loose(model), mask(std::move(m)), packed(tessera::packed(initial_parameters(fixed, Key{7}), mask)),
          a(fixed, mask, batch, how), b(loose, mask, batch, how) {
        const auto shifts = toy_numbers<R>(packed.size(), 8);  // biases are 0 else
        for (std::size_t k = 0; k < packed.size(); ++k) packed[k] += R(0.1) * shifts[k];
    }

    void check_shapes() const {
        CHECK(same_layout(b.layout(), a.layout()));
        CHECK(b.outputs() == a.outputs());
        CHECK(b.forward_flops() == a.forward_flops());
        CHECK(same_bits(b.whole(packed), a.whole(packed)));
    }
    // f(form, where numbers go) of either form.
    template <class F>
    void check_same(std::size_t n, const F& f) const {
        double one = 0, other = 1;
        const auto x = written<R>(n, [&](Out<R> out) { one = f(a, out); });
        const auto y = written<R>(n, [&](Out<R> out) { other = f(b, out); });
        CHECK(one == other);
        CHECK(same_bits(x, y));
    }
    void check_passes(const Batch<R>& batch) const {
        check_same(packed.size(), [&](const auto& f, Out<R> out) { return f.gradient(packed, batch, out); });
        check_same(mask.size(), [&](const auto& f, Out<R> out) { return f.full_gradient(packed, batch, out); });
        check_same(batch.size() * a.outputs(), [&](const auto& f, Out<R> out) {
            f.predict(packed, batch, out);
            return 0;
        });
    }
    void check_step(const Batch<R>& batch, const Step<R>& s) const {
        Vec<R> u(packed.size(), R(0.5)), v = u;
        auto one = s, other = s;
        one.velocity = &u;
        other.velocity = &v;
        REQUIRE(a.fuses(one) == b.fuses(other));
        if (!a.fuses(one)) return;
        auto x = packed, y = packed;
        CHECK(a.step(x, batch, one) == b.step(y, batch, other));
        CHECK(same_bits(x, y));
        CHECK(same_bits(u, v));
    }
    void check_steps(const Batch<R>& batch) const {
        const Vec<R> toward(packed.size(), R(0.25)), also(packed.size(), R(0.01));
        check_step(batch, {.rate = 0.05});
        check_step(batch, {.rate = 0.05, .decay = 0.01});
        check_step(batch, {.rate = 0.05, .decay = 0.01, .momentum = 0.9});
        check_step(batch, {.terms = {.toward = toward, .pull = 0.3, .also = also}, .rate = 0.05, .momentum = 0.9});
        check_step(batch, {.terms = {.on = select<scope::Head>(a.layout())}, .rate = 0.05});
        check_step(batch, {.terms = {.on = select<scope::Input>(a.layout())}, .rate = 0.05, .decay = 0.01});
        check_step(batch, {.rate = 0.05, .clip = 1});
        check_step(batch, {.terms = {.on = Where::range(1, 3)}, .rate = 0.05});
    }
};

template <class M>
void check_same_bits(const Mlp<real<M>>& loose, const data::Dataset& pool, std::vector<std::size_t> batches) {
    using R = real<M>;
    const auto ids = first_ids(pool.size());
    for (const auto& [name, mask] : masks_of(M{}.layout()))
        for (const Arithmetic how : every_arithmetic)
            for (const std::size_t size : batches) {
                CAPTURE(name);
                CAPTURE(static_cast<int>(how));
                CAPTURE(size);
                const Pair<M, Mlp<R>> pair(loose, mask, size, how);
                const Batch<R> batch(pool.examples(), std::span(ids).first(size));
                pair.check_shapes();
                pair.check_passes(batch);
                pair.check_steps(batch);
            }
}

data::Dataset bytes_dataset(std::size_t size, std::size_t width) {
    std::vector<std::uint8_t> pixels(size * width);
    Stream draw(Key{4});
    for (auto& p : pixels) p = static_cast<std::uint8_t>(draw.below(256));
    return data::Dataset::own(std::move(pixels), toy_labels(size, classes, 2), classes).normalised(80.0f, 0.01f);
}

}  // namespace

TEST_CASE_TEMPLATE("run-time widths on a mask have the bits of compiled ones", R, float, double) {
    const std::vector<std::size_t> batches{0, 1, 5, 16, 20, 33};
    const auto pool = toy_dataset<R>(33, inputs, classes);
    check_same_bits<Mclr<inputs, classes, R>>(Mlp<R>({inputs, classes}), pool, batches);
    check_same_bits<Dnn<inputs, 50, classes, R>>(Mlp<R>({inputs, 50, classes}), pool, batches);
    check_same_bits<Deep<R>>(Mlp<R>({inputs, 21, 34, classes}), pool, batches);
}

TEST_CASE("in every kernel set, and of bytes and of numbers of another size") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        check_same_bits<Deep<float>>(Mlp<float>({inputs, 21, 34, classes}), bytes_dataset(20, inputs), {20});
        check_same_bits<Deep<float>>(Mlp<float>({inputs, 21, 34, classes}), toy_dataset<double>(20, inputs, classes),
                                     {20});
        check_same_bits<Dnn<96, 64, classes>>(Mlp<float>({96, 64, classes}), bytes_dataset(9, 96), {9});  // tiles pay
    });
}

TEST_CASE("weights of examples and another slope count as in the model itself") {
    const auto pool = toy_dataset<double>(20, inputs, classes);
    const auto ids = first_ids(20);
    const auto weights = toy_numbers<double>(20, 5);
    const Batch<double> weighted(pool.examples(), ids, weights);
    const Mask mask = mask_of(Mlp<double>({inputs, 50, classes}).layout(), 3, [](auto&) { return 0.3; });
    using Two = Pair<Dnn<inputs, 50, classes, double>, Mlp<double>>;
    const Two same(Mlp<double>({inputs, 50, classes}), mask, 20, Arithmetic::sparse);
    same.check_passes(weighted);
    const Two steeper(Mlp<double>({inputs, 50, classes}, 0.3), mask, 20, Arithmetic::sparse);
    Vec<double> x(same.packed.size()), y = x, z(mask.size());
    const double loss = steeper.b.gradient(same.packed, weighted, x);
    CHECK(loss != same.b.gradient(same.packed, weighted, y));
    CHECK(distance(x, y) > 1e-4);
    const double dense = steeper.loose.gradient(steeper.b.whole(same.packed), weighted, z);
    CHECK(loss == doctest::Approx(dense).epsilon(1e-13));
    CHECK(distance(x, packed(z, mask)) < 1e-13);
}

TEST_CASE_TEMPLATE("sparse and dense arithmetic are other kernels and the same function", R, float, double) {
    const Mlp<R> model({inputs, 50, classes});
    const Mask mask = mask_of(model.layout(), 3, [](auto&) { return 0.3; });
    const auto pool = toy_dataset<R>(33, inputs, classes);
    const auto ids = first_ids(33);
    const Batch<R> batch(pool.examples(), ids);
    const Vec<R> point = packed(initial_parameters(model, Key{7}), mask);
    const auto gradient = [&](Arithmetic how) {
        return written<R>(point.size(), [&](Out<R> out) {
            Sparse<Mlp<R>>(model, mask, 33, how).gradient(point, batch, out);
        });
    };
    const auto sparse = gradient(Arithmetic::sparse), dense = gradient(Arithmetic::dense);
    CHECK_FALSE(same_bits(sparse, dense));
    CHECK(distance(sparse, dense) < (std::is_same_v<R, float> ? 1e-6 : 1e-14));  // sums of 50 numbers below 1
    CHECK(same_bits(gradient(Arithmetic::table), sparse));
}

TEST_CASE("a model chosen at run time runs the same kernels") {
    const Mask mask = mask_of(Mlp<float>({inputs, 50, classes}).layout(), 3, [](auto&) { return 0.3; });
    const auto pool = toy_dataset<float>(20, inputs, classes);
    const auto ids = first_ids(20);
    const Batch<float> batch(pool.examples(), ids);
    for (const Arithmetic how : every_arithmetic) {
        const Pair<Dnn<inputs, 50, classes>, AnyModel<float>> pair(Mlp<float>({inputs, 50, classes}), mask, 20, how);
        pair.check_shapes();
        pair.check_passes(batch);
        pair.check_steps(batch);
        CHECK(pair.b.fuses({.rate = 1}) == (how != Arithmetic::dense));
    }
}

TEST_CASE("FedSpa of run-time widths ends in the bits of the compiled ones, also behind AnyModel") {
    const auto people = toy_data();
    const auto end_of = [&](auto method, auto model) {
        Federation<decltype(method), decltype(model)> run{model, people, method, {.seed = 3, .batch = 5, .rounds = 4}};
        run.run(4, sample::Everyone{});
        return run.fingerprint().hex();
    };
    const auto check = [&](auto method) {
        const auto compiled = end_of(method, Dnn<Toy::width, 10, Toy::classes>{});
        CHECK(end_of(method, Mlp<float>({Toy::width, 10, Toy::classes})) == compiled);
        CHECK(end_of(method, AnyModel<float>(Mlp<float>({Toy::width, 10, Toy::classes}))) == compiled);
        return compiled;
    };
    check(FedSpa<mask::RandomStatic>{});
    const auto sparse = check(FedSpa<>{.arithmetic = Arithmetic::sparse});
    CHECK(check(FedSpa<>{.arithmetic = Arithmetic::dense}) != sparse);
}

TEST_CASE("examples of another width are refused with a sentence") {
    const Mlp<float> model({8, 6, 3});
    const Mask mask = mask_of(model.layout(), 3, [](auto&) { return 0.5; });
    const auto pool = toy_dataset<float>(4, 9, 3);
    const auto ids = first_ids(4);
    const Batch<float> batch(pool.examples(), ids);
    const Vec<float> point(mask.count());
    Vec<float> out(mask.size());
    for (const Arithmetic how : every_arithmetic) {
        const Sparse<Mlp<float>> sparse(model, mask, 4, how);
        const auto sentence = Contains("examples have 9 numbers, the model reads 8");
        CHECK_THROWS_WITH_AS(sparse.gradient(point, batch, out), sentence, ConfigError);
        CHECK_THROWS_WITH_AS(sparse.full_gradient(point, batch, out), sentence, ConfigError);
    }
}

}  // namespace sparse_mlp_test
