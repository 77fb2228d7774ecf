// SPDX-License-Identifier: BSD-3-Clause
// Values that are not there.
//
//   filled_by_mean   a NaN is read as the mean of its feature over the examples you name, which have a value there
//
// Name the training examples: a mean that knows the test examples tells of them. A feature without any value is 0.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/transform.hpp>

namespace tessera::data {

inline Dataset filled_by_mean(const Dataset& pool, std::span<const Index> over) {
    tessera::detail::require(!over.empty(), "data::filled_by_mean: no example is named to take the means over");
    const std::size_t width = pool.examples().width;
    std::vector<double> sum(width), count(width);
    std::vector<float> row(width);
    for (const Index i : over) {
        tessera::detail::require(i < pool.size(), "data::filled_by_mean: example " + std::to_string(i) +
                                                      " is not in the pool of " + std::to_string(pool.size()));
        detail::read_row(pool.examples(), i, row);
        for (std::size_t j = 0; j < width; ++j)
            if (!std::isnan(row[j])) sum[j] += static_cast<double>(row[j]), count[j] += 1;
    }
    std::vector<float> mean(width);
    for (std::size_t j = 0; j < width; ++j) mean[j] = count[j] > 0 ? static_cast<float>(sum[j] / count[j]) : 0.0f;
    Hasher settings;
    settings.bytes(mean.data(), width * sizeof(float));
    return detail::reading(pool, width, "data::filled_by_mean", settings.finish(),
                           [mean = std::move(mean)](auto row_in, std::span<float> out) {
                               for (std::size_t j = 0; j < out.size(); ++j)
                                   out[j] = std::isnan(row_in[j]) ? mean[j] : row_in[j];
                           });
}

}  // namespace tessera::data
