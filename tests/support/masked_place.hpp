// SPDX-License-Identifier: BSD-3-Clause
// A model on toy data with a random mask, at whose zero-filled point sparse and dense arithmetic are compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/rule.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/random.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/sparse.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace tessera::support {

using nn::Arithmetic, nn::Sparse;

// Of sums of 50 numbers near 1, four layers deep.
template <class R>
inline constexpr double rounding = std::is_same_v<R, float> ? 2e-5 : 1e-13;

inline Mask random_mask(std::size_t size, double density, std::uint64_t seed) {
    Mask mask(size);
    Stream draw(Key{seed});
    for (std::size_t j = 0; j < size; ++j) mask.set(j, draw.uniform() < density);
    return mask;
}
template <class R>
Vec<R> packed_of(const Mask& mask, const Vec<R>& whole) {
    Vec<R> packed;
    for (std::size_t j = 0; j < mask.size(); ++j)
        if (mask[j]) packed.push_back(whole[j]);
    return packed;
}
template <class R>
Vec<R> masked(const Mask& mask, Vec<R> x) {
    for (std::size_t j = 0; j < mask.size(); ++j)
        if (!mask[j]) x[j] = 0;
    return x;
}

template <class M>
struct Place {
    using R = real<M>;
    M model{};
    data::Dataset data;
    std::vector<Index> ids;
    Mask mask;
    Vec<R> whole, packed;
    Workspace<R> space{};

    Place(std::size_t examples, double density, std::uint64_t seed = 3)
        : data(toy_dataset<R>(examples, M::inputs, model.outputs())), ids(first_ids(examples)),
          mask(random_mask(M::parameters, density, seed)),
          whole(masked(mask, initial_parameters(model, Key{7}))), packed(packed_of(mask, whole)) {}
    Batch<R> batch(const Key* draw = nullptr) const { return Batch<R>(data.examples(), ids, {}, draw); }
    Context<M> context(std::size_t size) {
        return {.model = &model, .examples = &data.examples(), .ids = ids, .key = Key{1}, .batch = size,
                .workspace = &space};
    }
};

// Loss, masked gradient and predictions against the dense model at the zero-filled point.
template <class M>
void check_against_dense(std::size_t examples, double density, Arithmetic how, std::uint64_t seed = 3) {
    using R = real<M>;
    CAPTURE(examples);
    CAPTURE(density);
    CAPTURE(static_cast<int>(how));
    const Place<M> at(examples, density, seed);
    const Sparse<M> sparse(at.model, at.mask, examples, how);
    const Key draw{99};
    for (const Key* key : {static_cast<const Key*>(nullptr), &draw}) {
        Vec<R> dense(at.whole.size()), got(at.packed.size());
        const double loss = at.model.gradient(at.whole, at.batch(key), dense);
        CHECK(sparse.gradient(at.packed, at.batch(key), got) == doctest::Approx(loss).epsilon(rounding<R>));
        CHECK(distance(got, packed_of(at.mask, dense)) < rounding<R>);
        Vec<R> all(at.whole.size());
        CHECK(sparse.full_gradient(at.packed, at.batch(key), all) == loss);
        CHECK(same_bits(all, dense));
    }
    Vec<R> expected(examples * at.model.outputs()), got(expected.size());
    at.model.predict(at.whole, at.batch(), expected);
    sparse.predict(at.packed, at.batch(), got);
    CHECK(distance(got, expected) < rounding<R>);
    CHECK(same_bits(sparse.whole(at.packed), at.whole));
}

template <class Q, class Objective, class M>
Vec<real<M>> trained(Place<M>& at, const Objective& objective, Vec<real<M>> x, std::size_t batch, std::size_t epochs,
                     const Q& rule, const Terms<real<M>>& terms = {}) {
    const auto here = at.context(batch);
    descend(here.with(objective), x, here.epochs(epochs), rule, terms);
    return x;
}

// The same objective without its step: rules then take the gradient first.
template <class M>
struct TwoPass {
    using Real = real<M>;
    static constexpr Offers offers{};
    const Sparse<M>* form;
    Layout layout() const { return form->layout(); }
    std::size_t outputs() const { return form->outputs(); }
    double gradient(In<Real> x, const Batch<Real>& b, Out<Real> out) const { return form->gradient(x, b, out); }
    void predict(In<Real> x, const Batch<Real>& b, Out<Real> out) const { form->predict(x, b, out); }
};

}  // namespace tessera::support
