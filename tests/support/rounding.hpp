// SPDX-License-Identifier: BSD-3-Clause
// How far a computed sum may be from the exact one (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

namespace tessera::support {

// A type whose own rounding is at least 2^11 times finer: arithmetic in it counts as exact.
template <class R>
using Wide = std::conditional_t<std::is_same_v<R, float>, double, long double>;

// gamma_n = n u / (1 - n u): n roundings in R move a sum by at most gamma_n times the sum of the absolute terms,
// in whatever order the terms are added and whether or not multiplications are fused.
template <class R>
Wide<R> gamma(std::size_t n) {
    const auto nu = static_cast<Wide<R>>(n) * std::numeric_limits<R>::epsilon() / 2;
    return nu / (1 - nu);
}

template <class To, class From>
std::vector<To> converted(const std::vector<From>& x) {
    return std::vector<To>(x.begin(), x.end());
}

template <class R>
std::vector<R> magnitudes(std::vector<R> x) {
    for (R& v : x) v = std::abs(v);
    return x;
}

// |got - exact| <= bound_j for every j; a NaN is within no bound.
template <class R>
bool within(const std::vector<R>& got, const std::vector<Wide<R>>& exact, const std::vector<Wide<R>>& terms,
            std::size_t roundings) {
    if (got.size() != exact.size() || got.size() != terms.size()) return false;
    for (std::size_t j = 0; j < got.size(); ++j)
        if (!(std::abs(static_cast<Wide<R>>(got[j]) - exact[j]) <= gamma<R>(roundings) * terms[j])) return false;
    return true;
}

}  // namespace tessera::support
