// SPDX-License-Identifier: BSD-3-Clause
// How many coordinates of each tensor exist when a share D of all do, and which.
//
//   uniform   density(l) = D
//   erk       density(l) = eps raw(l), raw(l) = (s_1 + ... + s_r) / (s_1 ... s_r)    Erdos-Renyi-Kernel
//             with eps such that sum_l density(l) n_l = D sum_l n_l; a tensor that would be more than full is full, and
//             eps is found anew for the others
//
// All tensors count, biases and norms included; or vectors stay full and the shares are those of the other tensors.
// Running statistics stay full and count for nothing. A
// tensor has floor(density n) active coordinates, a uniform random subset drawn from a stream of its own.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tessera/contracts/masking.hpp>
#include <tessera/core/error.hpp>

namespace tessera::mask {

enum class Distribution : std::uint8_t { erk, uniform };
constexpr std::array<std::string_view, 2> words_of(Distribution) { return {"erk", "uniform"}; }

// Which tensors masks thin out: all of them, or those that are no vectors.
enum class MaskScope : std::uint8_t { all, weights };
constexpr std::array<std::string_view, 2> words_of(MaskScope) { return {"all", "weights"}; }

namespace detail {

inline double erk_raw(const Segment& s) {
    double sum = 0;
    for (std::size_t i = 0; i < s.rank; ++i) sum += static_cast<double>(s.shape[i]);
    return sum / static_cast<double>(s.size());
}

// `take` of the candidates, each subset equally likely (selection sampling).
template <class Each, class Take>
void draw_some(Stream draw, std::size_t candidates, std::size_t take, Each&& each_candidate, Take&& chosen) {
    each_candidate([&](std::size_t j) {
        if (take > 0 && draw.below(candidates) < take) {
            chosen(j);
            --take;
        }
        --candidates;
    });
}

}  // namespace detail

inline void require_density(double density) {
    tessera::detail::require(density > 0 && density <= 1,
                             "density must lie in (0, 1], not " + std::to_string(density));
}

// One number a tensor, in the order of the layout.
inline Vec<double> densities(Layout layout, double density, Distribution how, MaskScope scope = MaskScope::all) {
    require_density(density);
    Vec<double> out(layout.size(), density);
    Vec<unsigned char> full(layout.size(), 0);
    const auto spared = [&](std::size_t l) {
        return layout[l].part == Part::buffer || (scope == MaskScope::weights && layout[l].rank == 1);
    };
    std::size_t thinned = 0;
    for (std::size_t l = 0; l < layout.size(); ++l) {
        thinned += !spared(l);
        if (spared(l)) {
            full[l] = 1;
            out[l] = 1;
        }
    }
    tessera::detail::require(thinned > 0 || layout.empty(),
                             "this model has no weights to mask: biases, norms and running statistics stay whole");
    if (how == Distribution::uniform) return out;
    for (;;) {
        double wanted = 0, divisor = 0, most = 0;
        for (std::size_t l = 0; l < layout.size(); ++l) {
            if (spared(l)) continue;
            const auto n = static_cast<double>(layout[l].size());
            if (full[l]) {
                wanted -= (1 - density) * n;
            } else {
                wanted += density * n;
                divisor += detail::erk_raw(layout[l]) * n;
                most = std::max(most, detail::erk_raw(layout[l]));
            }
        }
        const double epsilon = divisor > 0 ? wanted / divisor : 0;
        const bool saturates = epsilon * most > 1;
        for (std::size_t l = 0; l < layout.size(); ++l) {
            if (full[l]) continue;
            const double raw = detail::erk_raw(layout[l]);
            out[l] = epsilon * raw;
            if (saturates && raw == most) {
                full[l] = 1;
                out[l] = 1;
            }
        }
        if (!saturates) return out;
    }
}

// floor(density n). A product that is a whole number but for rounding counts as that number: an ERK density is a
// quotient of sums and may come out one bit low.
inline std::size_t active_count(double density, std::size_t n) {
    return std::min(n, static_cast<std::size_t>(density * static_cast<double>(n) * (1 + 1e-12)));
}

// A mask with the counts that belong to a density.
inline Mask drawn(Layout layout, double density, Distribution how, Key key, MaskScope scope = MaskScope::all) {
    const auto shares = densities(layout, density, how, scope);
    Mask mask(dimension(layout));
    for (std::size_t l = 0; l < layout.size(); ++l) {
        const Segment& s = layout[l];
        const std::size_t count = active_count(shares[l], s.size());
        tessera::detail::require(count > 0 || s.size() == 0,
                                 "a density of " + std::to_string(density) + " leaves no active weight in " +
                                     std::string(s.name.view()) + " (" + std::to_string(s.size()) +
                                     " weights); raise the density or choose another distribution");
        if (count == s.size()) {
            for (std::size_t j = s.offset; j < s.end(); ++j) mask.set(j, true);
            continue;
        }
        detail::draw_some(
            Stream(key(l)), s.size(), count,
            [&](auto&& candidate) {
                for (std::size_t j = s.offset; j < s.end(); ++j) candidate(j);
            },
            [&](std::size_t j) { mask.set(j, true); });
    }
    return mask;
}

}  // namespace tessera::mask
