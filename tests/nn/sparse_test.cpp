// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/sparse.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/rule.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/adam.hpp>
#include <tessera/rule/sgd.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/kernel_sets.hpp>
#include <support/masked_place.hpp>
#include <support/toy_numbers.hpp>

namespace sparse_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

// Sparse layers next to each other, layers that work by rows between them, and one that draws.
struct DeepRecipe {
    static constexpr Shape in = 37;
    static constexpr auto layers = chain(Linear{50}, LeakyRelu{}, Linear{33}, Relu{}, Dropout{}, Linear{20}, GroupNorm{},
                                         Relu{}, Linear{5});
};
template <class R>
using Deep = Fixed<DeepRecipe, R>;
template <class R>
using Small = Dnn<9, 7, 4, R>;
struct BehindRecipe {  // a layer without parameters first
    static constexpr Shape in = 12;
    static constexpr auto layers = chain(Relu{}, Linear{6}, Linear{3});
};
template <class R>
using Behind = Fixed<BehindRecipe, R>;
struct AroundRecipe {  // one value read in blocks and by rows, so that slopes are added up in blocks
    static constexpr Shape in = 12;
    static constexpr auto layers = chain(Linear{14}, Relu{}, residual(chain(Linear{14}, Relu{})), Linear{3});
};
template <class R>
using Around = Fixed<AroundRecipe, R>;

}  // namespace

TEST_CASE_TEMPLATE("L-SPA-7: sparse arithmetic is dense arithmetic on zero-filled weights", R, float, double) {
    for_each_kernel_set([&](auto) {
        for (const auto how : {Arithmetic::table, Arithmetic::sparse, Arithmetic::dense})
            for (const double density : {0.05, 0.3, 0.5, 0.9, 1.0}) {
                check_against_dense<Deep<R>>(40, density, how);
                check_against_dense<Small<R>>(3, density, how);
                check_against_dense<Behind<R>>(130, density, how);
                check_against_dense<Around<R>>(20, density, how);
            }
    });
    for (const std::size_t examples : {1u, 16u, 17u, 128u, 129u})
        check_against_dense<Deep<R>>(examples, 0.4, Arithmetic::sparse);
    check_against_dense<Deep<R>>(20, 0, Arithmetic::sparse);  // nothing is left but the loss of constants
}

TEST_CASE("the table looks at the share of active weights, the outputs and the batch") {
    struct Entry {
        std::size_t outputs, batch, tenths;
    };
    for (const auto& [outputs, batch, tenths] : std::vector<Entry>{
             {100, 1, 3}, {100, 3, 3}, {100, 4, 6}, {100, 7, 6}, {31, 1, 1}, {31, 7, 1}, {32, 7, 6}, {10, 8, 4},
             {31, 128, 4}, {32, 8, 9}, {100, 32, 9}, {100, 33, 5}, {10, 48, 4}, {100, 48, 5}, {512, 49, 9}}) {
        CAPTURE(outputs);
        CAPTURE(batch);
        CHECK(nn::detail::sparse_pays(tenths * 10, 100, outputs, batch));
        CHECK_FALSE(nn::detail::sparse_pays(tenths * 10 + 1, 100, outputs, batch));
    }
    // What it says is what runs.
    using Wide = Dnn<37, 50, 40>;
    const auto gradient = [](std::size_t batch, Arithmetic how) {
        const Place<Wide> at(batch, 0.5);
        Vec<float> out(at.packed.size());
        Sparse<Wide>(at.model, at.mask, batch, how).gradient(at.packed, at.batch(), out);
        return out;
    };
    CHECK(same_bits(gradient(2, Arithmetic::table), gradient(2, Arithmetic::dense)));
    CHECK_FALSE(same_bits(gradient(2, Arithmetic::table), gradient(2, Arithmetic::sparse)));
    CHECK(same_bits(gradient(20, Arithmetic::table), gradient(20, Arithmetic::sparse)));
    CHECK_FALSE(same_bits(gradient(20, Arithmetic::table), gradient(20, Arithmetic::dense)));
}

TEST_CASE_TEMPLATE("of no examples the gradient is 0, and a step is its terms alone", R, float, double) {
    for_each_kernel_set([&](auto) {
        for (const auto how : {Arithmetic::sparse, Arithmetic::dense}) {
            Place<Deep<R>> at(1, 0.5);
            at.ids.clear();
            const Sparse<Deep<R>> sparse(at.model, at.mask, 16, how);
            Vec<R> gradient(at.packed.size(), R(7)), all(at.whole.size(), R(7));
            CHECK(sparse.gradient(at.packed, at.batch(), gradient) == 0);
            CHECK(gradient == Vec<R>(gradient.size()));  // 0 of either sign
            sparse.full_gradient(at.packed, at.batch(), all);
            CHECK(all == Vec<R>(all.size()));
            const Step<R> step{.rate = 0.5, .decay = 0.5};
            if (!sparse.fuses(step)) continue;
            Vec<R> moved = at.packed;
            sparse.fused_step(moved, at.batch(), step);
            for (std::size_t j = 0; j < moved.size(); ++j) CHECK(moved[j] == R(0.75) * at.packed[j]);
        }
    });
}

TEST_CASE("another mask is another function") {
    const Place<Deep<double>> one(20, 0.5, 3);
    const Mask other = random_mask(Deep<double>::parameters, 0.5, 4);
    const Sparse<Deep<double>> a(one.model, one.mask, 20), b(one.model, other, 20);
    Vec<double> x(20 * 5), y(20 * 5);
    a.predict(one.packed, one.batch(), x);
    b.predict(packed_of(other, initial_parameters(one.model, Key{7})), one.batch(), y);
    CHECK(distance(x, y) > 1e-3);
}

TEST_CASE("the gradient is the slope of the loss, by differences in each active coordinate") {
    const Place<Deep<double>> at(24, 0.3);
    const auto point = toy_numbers<double>(at.packed.size(), 8);  // no bias is 0, so no ReLU stands at its kink
    for (const auto how : {Arithmetic::sparse, Arithmetic::dense}) {
        const Sparse<Deep<double>> sparse(at.model, at.mask, 24, how);
        Vec<double> gradient(at.packed.size());
        const Key draw{5};
        sparse.gradient(point, at.batch(&draw), gradient);
        const auto slope = finite_differences(
            [&](const std::vector<double>& x) {
                Vec<double> unused(x.size());
                return sparse.gradient(In<double>(x.data(), x.size()), at.batch(&draw), unused);
            },
            point, 1e-5);
        CHECK(relative_error({gradient.begin(), gradient.end()}, slope) < 1e-6);
        auto tampered = std::vector<double>(gradient.begin(), gradient.end());
        tampered[3] += 1e-3;
        CHECK(relative_error(tampered, slope) > 1e-6);
    }
}

TEST_CASE_TEMPLATE("the fused step has the bits of gradient, then update", R, float, double) {
    for_each_kernel_set([&](auto) {
        for (const double density : {0.4, 0.1}) {  // both gradients one after the other, and together
            Place<Deep<R>> at(150, density);
            const Sparse<Deep<R>> sparse(at.model, at.mask, 60, Arithmetic::sparse);
            const TwoPass<Deep<R>> twin{&sparse};
            const Vec<R> prox_center(at.packed.size(), R(0.25)), linear(at.packed.size(), R(0.01));
            const rule::Sgd plain{.rate = 0.1}, heavy{.rate = 0.1, .momentum = 0.9, .weight_decay = 5e-4};
            const Terms<R> pulled{.prox_center = prox_center, .prox_weight = 0.5, .linear = linear};
            CHECK(sparse.fuses(Step<R>{}));
            const auto fused = trained(at, sparse, at.packed, 60, 2, plain);
            // Both add the same terms in the same order: a stored gradient is what the fused step has in a register.
            CHECK(same_bits(fused, trained(at, twin, at.packed, 60, 2, plain)));
            const auto moved = trained(at, sparse, at.packed, 60, 2, heavy, pulled);
            CHECK(same_bits(moved, trained(at, twin, at.packed, 60, 2, heavy, pulled)));
            CHECK(distance(moved, fused) > 1e-3);
        }
    });
}

TEST_CASE("after many steps sparse and dense arithmetic stand at the same point") {
    for_each_kernel_set([&](auto) {
        Place<Deep<float>> at(200, 0.3);
        const Sparse<Deep<float>> sparse(at.model, at.mask, 64, Arithmetic::sparse);
        const Sparse<Deep<float>> dense(at.model, at.mask, 64, Arithmetic::dense);
        const rule::Sgd rule{.rate = 0.05, .weight_decay = 5e-4};
        const auto a = trained(at, sparse, at.packed, 64, 10, rule), b = trained(at, dense, at.packed, 64, 10, rule);
        // 40 steps of 0.05 with gradients that differ by their rounding, below 1e-7 of numbers below 1.
        CHECK(distance(a, b) < 1e-6);
        CHECK(distance(a, at.packed) > 1e-2);
    });
}

TEST_CASE("every rule works on the packed vector: clipping sees the masked gradient, Adam its coordinates") {
    Place<Deep<double>> at(40, 0.3);
    const Sparse<Deep<double>> sparse(at.model, at.mask, 40, Arithmetic::sparse);
    Vec<double> gradient(at.packed.size()), all(at.whole.size());
    sparse.gradient(at.packed, at.batch(), gradient);
    at.model.gradient(at.whole, at.batch(), all);
    const auto norm = [](const Vec<double>& g) {
        double sum = 0;
        for (const double v : g) sum += v * v;
        return std::sqrt(sum);
    };
    const double clip = norm(gradient) / 2, scale = clip / (norm(gradient) + 1e-6);
    CHECK(norm(all) > 1.1 * norm(gradient));  // a norm over inactive coordinates would clip more (D-SPA-2)
    CHECK_FALSE(sparse.fuses(Step<double>{.clip = clip}));
    auto got = at.packed;
    take_step(at.context(40).with(sparse), got, at.batch(), Step<double>{.rate = 0.1, .clip = clip});
    auto expected = at.packed;
    for (std::size_t k = 0; k < expected.size(); ++k) expected[k] -= 0.1 * scale * gradient[k];
    CHECK(distance(got, expected) < 1e-14);

    const Sparse<Deep<double>> dense(at.model, at.mask, 40, Arithmetic::dense);
    const auto a = trained(at, sparse, at.packed, 16, 3, rule::Adam{.rate = 1e-2});
    CHECK(distance(a, trained(at, dense, at.packed, 16, 3, rule::Adam{.rate = 1e-2})) < 1e-10);
    CHECK(distance(a, at.packed) > 1e-3);
}

TEST_CASE("with nothing missing, every bit is the dense model's") {
    for_each_kernel_set([&](auto) {
        Place<Deep<float>> at(100, 1);
        const Sparse<Deep<float>> sparse(at.model, at.mask, 32);
        const rule::Sgd rule{.rate = 0.1, .weight_decay = 5e-4};
        const auto dense = trained(at, at.model, at.whole, 32, 2, rule);
        CHECK(same_bits(trained(at, sparse, at.packed, 32, 2, rule), dense));
        const Sparse<Deep<float>> forced(at.model, at.mask, 32, Arithmetic::sparse);
        CHECK_FALSE(same_bits(trained(at, forced, at.packed, 32, 2, rule), dense));  // other kernels did run
    });
}

TEST_CASE("a scope counts packed coordinates; where it cuts a layer the step is not fused") {
    Place<Small<double>> at(30, 0.5);
    const Sparse<Small<double>> sparse(at.model, at.mask, 30, Arithmetic::sparse);
    const auto head = on<scope::Head>(sparse);
    const auto got = trained(at, sparse, at.packed, 30, 2, rule::Sgd{.rate = 0.1}, {.on = head});
    const std::size_t begin = at.packed.size() - head.size(at.packed.size());
    std::size_t moved = 0;
    for (std::size_t k = 0; k < got.size(); ++k) {
        if (k < begin) CHECK(got[k] == at.packed[k]);
        else moved += got[k] != at.packed[k];
    }
    CHECK(moved == head.size(got.size()));
    CHECK(sparse.fuses(Step<double>{.terms = {.on = head}}));
    CHECK_FALSE(sparse.fuses(Step<double>{.terms = {.on = Coordinates::range(1, 5)}}));
}

TEST_CASE("the layout has the active part of each segment") {
    const Place<Small<float>> at(3, 0.4);
    const Sparse<Small<float>> sparse(at.model, at.mask, 3);
    std::size_t k = 0;
    double flops = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        const Segment& whole = at.model.layout()[i];
        const Segment& part = sparse.layout()[i];
        std::size_t active = 0;
        for (std::size_t j = whole.offset; j < whole.end(); ++j) active += at.mask[j];
        CHECK(part.offset == k);
        CHECK(part.size() == active);
        CHECK(part.name == whole.name);
        CHECK(part.part == whole.part);
        k += active;
        flops += static_cast<double>(i % 2 == 0 ? 2 * active : active);  // 5.5: twice the weights, once the biases
    }
    CHECK(dimension(sparse) == at.packed.size());
    CHECK(sparse.forward_flops() == doctest::Approx(flops).epsilon(1e-12));  // a quotient and a product
    CHECK(sparse.forward_flops() < at.model.forward_flops());
    const Mask all(at.mask.size(), true);
    CHECK(Sparse<Small<float>>(at.model, all, 3).forward_flops() == at.model.forward_flops());
}

TEST_CASE("images stay bytes until they are read") {
    using Net = Deep<float>;
    const Place<Net> at(20, 0.4);
    std::vector<std::uint8_t> bytes(20 * 37);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 % 251);
    std::vector<float> floats(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) floats[i] = (static_cast<float>(bytes[i]) - 127) * 0.0078125f;
    const auto labels = toy_labels(20, 5, 2);
    const Examples raw{.size = 20, .width = 37, .storage = Storage::bytes, .rows = bytes.data(), .shift = 127,
                       .scale = 0.0078125f, .labels = labels.data(), .classes = 5};
    const Examples read{.size = 20, .width = 37, .storage = Storage::float32, .rows = floats.data(),
                        .labels = labels.data(), .classes = 5};
    const Sparse<Net> sparse(at.model, at.mask, 20, Arithmetic::sparse);
    Vec<float> a(100), b(100), c(100);
    sparse.predict(at.packed, Batch<float>(raw, at.ids), a);
    sparse.predict(at.packed, Batch<float>(read, at.ids), b);
    CHECK(same_bits(a, b));
    sparse.predict(at.packed, at.batch(), c);
    CHECK_FALSE(same_bits(a, c));
    Vec<float> dense(at.whole.size()), in_place(dense.size());
    CHECK(sparse.full_gradient(at.packed, Batch<float>(raw, at.ids), in_place) ==
          at.model.gradient(at.whole, Batch<float>(raw, at.ids), dense));
    CHECK(same_bits(in_place, dense));
}

namespace {
// No layers to look at.
struct Parabola {
    using Real = double;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 1> segments{Segment{.name = "w", .shape = {6, 1, 1, 1}}};
    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<double> x, const Batch<double>&, Out<double> out) const {
        double sum = 0;
        for (std::size_t j = 0; j < 6; ++j) {
            out[j] = x[j] - static_cast<double>(j);
            sum += out[j] * out[j] / 2;
        }
        return sum;
    }
    void predict(In<double> x, const Batch<double>&, Out<double> out) const { out[0] = x[0] + x[5]; }
};
}  // namespace

TEST_CASE("any model has a sparse form") {
    static_assert(SparseForm<Sparse<Parabola>> && SparseModel<AnyModel<float>> && !SparseModel<Parabola>);
    Mask mask(6);
    mask.set(1, true);
    mask.set(5, true);
    const Parabola model;
    const auto data = toy_dataset<double>(2, 1, 2);
    const auto ids = first_ids(2);
    const Batch<double> batch(data.examples(), ids);
    const Sparse<Parabola> sparse(model, mask, 2);
    const Vec<double> packed{3, 7};
    Vec<double> out(2), all(6), y(1);
    CHECK(sparse.gradient(packed, batch, out) == 0.5 * (0 + 4 + 4 + 9 + 16 + 4));
    CHECK(out == Vec<double>{2, 2});
    sparse.full_gradient(packed, batch, all);
    CHECK(all == Vec<double>{0, 2, -2, -3, -4, 2});
    sparse.predict(packed, batch, y);
    CHECK(y == Vec<double>{7});
    CHECK_FALSE(sparse.fuses(Step<double>{}));
}

TEST_CASE("a model chosen at run time runs the same kernels") {
    Place<Deep<float>> at(90, 0.3);
    const AnyModel<float> any(at.model);
    const Sparse<Deep<float>> direct(at.model, at.mask, 32, Arithmetic::sparse);
    const Sparse<AnyModel<float>> erased(any, at.mask, 32, Arithmetic::sparse);
    const rule::Sgd rule{.rate = 0.1, .momentum = 0.5};
    CHECK(erased.fuses(Step<float>{}));
    CHECK(same_bits(trained(at, erased, at.packed, 32, 2, rule), trained(at, direct, at.packed, 32, 2, rule)));
    CHECK(erased.forward_flops() == direct.forward_flops());
    CHECK(same_bits(erased.whole(at.packed), at.whole));
    Vec<float> a(450), b(450), dense(450);
    erased.predict(at.packed, at.batch(), a);
    direct.predict(at.packed, at.batch(), b);
    CHECK(same_bits(a, b));
    Sparse<AnyModel<float>>(any, at.mask, 32, Arithmetic::dense).predict(at.packed, at.batch(), dense);
    CHECK_FALSE(same_bits(a, dense));  // sparse was sparse
}

}  // namespace sparse_test
