// SPDX-License-Identifier: BSD-3-Clause
// Sub-FedAvg's pruning: what magnitudes leave of a mask, and when that is taken.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include <tessera/contracts/masking.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/select.hpp>
#include <tessera/report/score.hpp>

namespace tessera::detail {

// Weights of layers that are no norm; biases are never pruned.
inline bool prunable(const Segment& s) { return s.rank > 1 && s.part != Part::norm && s.part != Part::buffer; }

// Of n what lies strictly below an interpolated percentile of distinct numbers, never all.
inline std::size_t below_percentile(double share, std::size_t n) {
    return static_cast<std::size_t>(std::ceil(share * static_cast<double>(n - 1)));
}

// Whole filters of a convolution [out][in][rows][columns]: those whose active weights have the smallest sums of
// magnitudes, of equal ones the first. `values` are the active weights.
template <class R>
void drop_filters(const Segment& s, In<R> values, Mask& mask, double share) {
    const std::size_t each = s.size() / s.shape[0];
    Vec<std::pair<double, std::size_t>> filters;
    std::size_t place = 0;
    for (std::size_t begin = s.offset; begin < s.end(); begin += each) {
        const std::size_t n = count_in(mask, {begin, begin + each});
        double sum = 0;
        for (const R v : values.subspan(place, n)) sum += std::abs(static_cast<double>(v));
        place += n;
        if (n > 0) filters.emplace_back(std::isnan(sum) ? std::numeric_limits<double>::infinity() : sum, begin);
    }
    const auto last = filters.begin() + static_cast<std::ptrdiff_t>(below_percentile(share, filters.size()));
    std::partial_sort(filters.begin(), last, filters.end());
    for (auto filter = filters.begin(); filter != last; ++filter)
        for (std::size_t j = 0; j < each; ++j) mask.set(filter->second + j, false);
}

// Without what lies below the percentile of the active magnitudes, tensor by tensor; of convolutions, if asked for,
// whole filters.
template <class R>
Mask pruned(Layout layout, In<R> x, Mask mask, double share, bool channels = false) {
    std::size_t place = 0;
    for (const Segment& s : layout) {
        const std::size_t n = count_in(mask, range_of(s));
        const In<R> values = x.subspan(place, n);
        place += n;
        if (!prunable(s) || n == 0) continue;
        if (channels && s.rank == 4) drop_filters(s, values, mask, share);
        else kernels::drop_smallest(values, mask, range_of(s), below_percentile(share, n));
    }
    return mask;
}

// Mean over the tensors that can be pruned of the share of coordinates in which two masks differ.
inline double mask_distance(Layout layout, const Mask& a, const Mask& b) {
    double sum = 0, tensors = 0;
    for (const Segment& s : layout)
        if (prunable(s)) {
            sum += static_cast<double>(hamming(a, b, range_of(s))) / static_cast<double>(s.size());
            tensors += 1;
        }
    return tensors > 0 ? sum / tensors : 0;
}

// x, which is packed by `mask`, without what `kept` lacks: zeros in its place, or packed anew.
template <class R>
Vec<R> cut(const Vec<R>& x, const Mask& mask, const Mask& kept, bool zeros) {
    Vec<R> out;
    out.reserve(zeros ? x.size() : kept.count());
    std::size_t i = 0;
    for_each_active(mask, {0, mask.size()}, [&](std::size_t j) {
        if (kept[j]) out.push_back(x[i]);
        else if (zeros) out.push_back(0);
        ++i;
    });
    return out;
}

template <class M, class Form>
double training_accuracy(const Context<M>& at, const Form& form, In<real<M>> x) {
    const auto predict = [&](const auto& b, auto out) { form.predict(x, b, out); };
    require(!at.examples->targets, "Sub-FedAvg: accuracy decides what is pruned, and real targets have none");
    const auto count = score(*at.model, at.id, predict, *at.examples, at.ids);
    return count.n == 0 ? 0 : static_cast<double>(count.correct) / static_cast<double>(count.n);
}

// Descends over all batches; gives back what x was after the first epoch.
template <class M, class Local>
Vec<real<M>> after_first(const Context<M>& at, Vec<real<M>>& x, const Batches<real<M>>& batches, const Local& local) {
    Vec<real<M>> first;
    std::size_t done = 0;
    auto step = walk(at, local);
    for (const auto b : batches) {
        step(x, b);
        if (++done == at.batch_count()) first = x;
    }
    return first.empty() ? x : first;
}

}  // namespace tessera::detail

namespace tessera {

struct Pruning {
    static constexpr auto offers = offer::validate;
    double prune_rate = 0.05;  // share of a tensor's active weights in one go, in [0, 1)
    double distance = 1e-4;    // of the masks after the first and the last epoch, at least
    double target = 0.5;       // density at which pruning ends
    double accuracy = 0.5;     // on the training data, at least
    bool channels = false;     // convolutions lose whole filters

    // The mask after a visit; `first` and `last` are the numbers after the first and the last epoch.
    template <class M, class Form>
    Mask next(const Context<M>& at, const Form& form, const Vec<real<M>>& first, const Vec<real<M>>& last,
              const Mask& mask) const {
        using R = real<M>;
        const Layout layout = at.model->layout();
        const Mask c1 = detail::pruned<R>(layout, first, mask, prune_rate, channels);
        const Mask c2 = detail::pruned<R>(layout, last, mask, prune_rate, channels);
        const double density = static_cast<double>(mask.count()) / static_cast<double>(mask.size());
        const bool prunes = detail::mask_distance(layout, c1, c2) > distance && density > target &&
                            detail::training_accuracy(at, form, detail::cut(last, mask, c2, true)) > accuracy;
        return prunes ? c2 : mask;
    }
    void validate() const {
        const auto check = [](double value, const char* name) {
            detail::require(value >= 0 && value <= 1,
                            std::string(name) + " must lie in [0, 1], not " + std::to_string(value));
        };
        detail::require(prune_rate >= 0 && prune_rate < 1,
                        "prune_rate must lie in [0, 1), not " + std::to_string(prune_rate));
        check(distance, "distance");
        check(target, "target");
        check(accuracy, "accuracy");
    }
};

}  // namespace tessera
