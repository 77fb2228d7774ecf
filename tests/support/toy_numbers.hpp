// SPDX-License-Identifier: BSD-3-Clause
// Small made-up inputs that are the same on every run: numbers, labels, examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>

namespace tessera::support {

// Uniform in [-1, 1).
template <class R>
std::vector<R> toy_numbers(std::size_t n, std::uint64_t seed) {
    Stream draw(Key{seed});
    std::vector<R> x(n);
    for (R& v : x) v = static_cast<R>(2 * draw.uniform() - 1);
    return x;
}

inline std::vector<std::int32_t> toy_labels(std::size_t n, std::size_t classes, std::uint64_t seed) {
    Stream draw(Key{seed});
    std::vector<std::int32_t> labels(n);
    for (auto& label : labels) label = static_cast<std::int32_t>(draw.below(classes));
    return labels;
}

template <class R>
data::Dataset toy_dataset(std::size_t size, std::size_t width, std::size_t classes, std::uint64_t seed = 1) {
    return data::Dataset::own(toy_numbers<R>(size * width, seed), toy_labels(size, classes, seed + 1), classes);
}

inline std::vector<Index> first_ids(std::size_t n) {
    std::vector<Index> ids(n);
    std::iota(ids.begin(), ids.end(), Index{0});
    return ids;
}

}  // namespace tessera::support
