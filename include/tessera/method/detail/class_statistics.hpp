// SPDX-License-Identifier: BSD-3-Clause
// A client's features as FedPAC tells them: the mean and the number of each class, and how far a mean is to be trusted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/nn/objective/aligned.hpp>

namespace tessera::detail {

template <class R>
struct ClassStatistics {
    Vec<R> means;               // mu_c, one row a class; 0 where the class has no example
    Vec<std::uint32_t> counts;  // n_c
    double variance = 0;        // V

    double examples() const {
        double sum = 0;
        for (const auto n : counts) sum += n;
        return sum;
    }
    bool fits(const nn::Centroids<R>& centroids) const {
        return counts.size() == centroids.known.size() && means.size() == centroids.rows.size() && examples() > 0 &&
               variance >= 0;
    }
    // p_c mu_c, all classes in one vector.
    Vec<double> joint() const {
        Vec<double> q(means.size());
        const std::size_t width = means.size() / counts.size();
        const double n = examples();
        for (std::size_t j = 0; j < q.size(); ++j) q[j] = counts[j / width] / n * static_cast<double>(means[j]);
        return q;
    }
};

// Of the training data at w; V = (sum_c p_c tr E[zz'|c] - p_c^2 |mu_c|^2) / n. Its first sum is the mean of |z|^2.
template <class M, class R = real<M>>
ClassStatistics<R> class_statistics(const Context<M>& at, const Vec<R>& w) {
    require(at.examples->labels, "FedPAC: features are compared class by class, these examples have no classes");
    require(at.examples->one_label(), "FedPAC: features are compared class by class, these examples have several");
    constexpr std::size_t chunk = 256;
    const std::size_t width = at.model->feature_width(), classes = at.model->outputs();
    Vec<double> sums(classes * width);
    Vec<R> z(std::min(chunk, at.ids.size()) * width);
    ClassStatistics<R> found{Vec<R>(classes * width), Vec<std::uint32_t>(classes)};
    double squares = 0;
    for (std::size_t begin = 0; begin < at.ids.size(); begin += chunk) {
        const auto b = at.everything().part(begin, std::min(chunk, at.ids.size() - begin));
        at.model->features(w, b, Out<R>(z).first(b.size() * width));
        for (std::size_t i = 0; i < b.size(); ++i) {
            ++found.counts[b.label(i)];
            for (std::size_t j = 0; j < width; ++j) {
                const auto each = static_cast<double>(z[i * width + j]);
                sums[b.label(i) * width + j] += each;
                squares += each * each;
            }
        }
    }
    const double n = static_cast<double>(at.ids.size());
    double explained = 0;
    for (std::size_t j = 0; j < sums.size(); ++j) {
        explained += sums[j] / n * (sums[j] / n);
        if (const auto count = found.counts[j / width]; count > 0) found.means[j] = static_cast<R>(sums[j] / count);
    }
    found.variance = std::max(0.0, squares / n - explained) / n;  // of equal features the difference may round below 0
    return found;
}

// Centroids of the cohort's features by class counts; a class that nobody brings keeps its own.
template <class R, class Upload>
void take_centroids(nn::Centroids<R>& centroids, std::span<const Upload> ups) {
    const std::size_t classes = centroids.known.size(), width = centroids.rows.size() / classes;
    Vec<double> sum(width);
    for (std::size_t c = 0; c < classes; ++c) {
        double count = 0;
        std::fill(sum.begin(), sum.end(), 0.0);
        for (const auto& up : ups) {
            const auto& [means, counts, variance] = up.statistics;
            count += counts[c];
            for (std::size_t j = 0; j < width; ++j) sum[j] += counts[c] * static_cast<double>(means[c * width + j]);
        }
        if (count == 0) continue;
        centroids.known.set(c, true);
        for (std::size_t j = 0; j < width; ++j) centroids.rows[c * width + j] = static_cast<R>(sum[j] / count);
    }
}

template <class M>
consteval bool can_align() {
    constexpr bool alignable = AlignableModel<M>;
    static_assert(alignable, "tessera::FedPac: this model has no `aligned_gradient`; it needs layers below its head");
    return alignable;
}

// As `descend`, with features pulled to these centroids if there are any.
template <class M, class Q, class R = real<M>>
void descend_aligned(const Context<M>& at, Vec<R>& w, const Batches<R>& batches, const Q& rule, const Coordinates& on,
                     const nn::Centroids<R>& centroids, double lambda) {
    if (!centroids.any()) return descend(at, w, batches, rule, {.on = on});
    const std::size_t classes = at.model->outputs(), numbers = classes * at.model->feature_width();
    if (centroids.known.size() != classes || centroids.rows.size() != numbers)
        throw WireError("the centroids have " + std::to_string(centroids.rows.size()) + " numbers for " +
                        std::to_string(centroids.known.size()) + " classes, the features of this model want " +
                        std::to_string(numbers) + " for " + std::to_string(classes));
    if constexpr (can_align<M>()) {
        const nn::Aligned<M> pulled{at.model, &centroids, lambda};
        descend(at.with(pulled), w, batches, rule, {.on = on});
    }
}

}  // namespace tessera::detail
