// SPDX-License-Identifier: BSD-3-Clause
// DST, FedSpa's dynamic sparse training: after a visit each tensor loses its k smallest weights and gains k others.
//
//   alpha_t = alpha_0/2 (1 + cos(pi t / (T-1)))         (`code` divides by T)
//   k = ceil(alpha_t nnz)
//   prune: of the active coordinates, the k smallest |w|
//   grow:  of those inactive after pruning, the k largest |G|, or k at random
//
// A pruned coordinate may come back at once. Ties go to the lower index. nnz of a tensor never changes, and a tensor
// that is full stays as it is.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tessera/core/offers.hpp>
#include <tessera/kernels/mask_words.hpp>
#include <tessera/kernels/select.hpp>
#include <tessera/mask/density.hpp>

namespace tessera::mask {

enum class Grow : std::uint8_t { gradient, random };
constexpr std::array<std::string_view, 2> words_of(Grow) { return {"gradient", "random"}; }

// What t is divided by: T - 1, so that the last round exchanges nothing, or T (D-SPA-1).
enum class Annealing : std::uint8_t { paper, code };
constexpr std::array<std::string_view, 2> words_of(Annealing) { return {"paper", "code"}; }

struct DynamicSparse {
    static constexpr auto offers = offer::validate | offer::reads_rounds;
    double density = 0.5;  // in (0, 1]
    Distribution distribution = Distribution::erk;
    MaskScope mask_scope = MaskScope::all;
    double prune_rate = 0.5;  // alpha_0, in [0, 1]
    Annealing annealing = Annealing::paper;
    Grow grow = Grow::gradient;

    double rate(std::size_t round, std::size_t rounds) const {
        const auto last = static_cast<double>(annealing == Annealing::paper ? rounds - 1 : rounds);
        if (last == 0) return prune_rate;
        const double t = std::min(static_cast<double>(round), last);
        return prune_rate / 2 * (1 + std::cos(3.14159265358979323846 * t / last));
    }

    Mask first(Layout layout, Key key) const { return drawn(layout, density, distribution, key, mask_scope); }

    template <class R>
    void next(const MaskSearch<R>& at, Mask& mask) const {
        const double alpha = rate(at.round, at.rounds);
        std::size_t place = 0;  // of the tensor's first value
        for (std::size_t l = 0; l < at.layout.size(); ++l) {
            const Range tensor = range_of(at.layout[l]);
            const std::size_t active = kernels::count_active(mask, tensor);
            const auto k = static_cast<std::size_t>(std::ceil(alpha * static_cast<double>(active)));
            const In<R> values = at.values.subspan(place, active);
            place += active;
            if (k == 0 || active == tensor.size()) continue;
            kernels::drop_smallest(values, mask, tensor, k);
            if (grow == Grow::gradient) kernels::add_largest(In<R>(at.gradient()), mask, tensor, k);
            else grow_random(at.key(l), tensor, k, mask);
        }
    }

    bool reads_rounds() const { return prune_rate > 0; }  // T must be known
    void validate() const {
        require_density(density);
        tessera::detail::require(prune_rate >= 0 && prune_rate <= 1,
                                 "prune_rate must lie in [0, 1], not " + std::to_string(prune_rate));
    }

private:
    static void grow_random(Key key, Range tensor, std::size_t k, Mask& mask) {
        detail::draw_some(
            Stream(key), tensor.size() - count_in(mask, tensor), k,
            [&](auto&& candidate) {
                for (std::size_t j = tensor.begin; j < tensor.end; ++j)
                    if (!mask[j]) candidate(j);
            },
            [&](std::size_t j) { mask.set(j, true); });
    }
};

}  // namespace tessera::mask
