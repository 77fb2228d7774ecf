// SPDX-License-Identifier: BSD-3-Clause
// What privacy of single examples needs to know: how far one of them may move a sum, which noisy steps were taken, how
// examples were drawn, and which of a method's rules are behind what leaves a client.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include <tessera/contracts/model.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>

namespace tessera {

// `steps` Gaussian steps on samples of `rate` of the data, each with noise of `noise` times what one example can move.
struct Spent {
    double rate = 1, noise = 0;
    std::uint64_t steps = 0;
};
inline void validate(const Spent& s) {  // a sentence is made only when it is needed: steps take nothing from the heap
    if (!(s.rate >= 0 && s.rate <= 1))
        throw ConfigError("a sampling rate lies in [0, 1], not " + std::to_string(s.rate));
    if (!(s.noise >= 0 && std::isfinite(s.noise)))
        throw ConfigError("a noise multiplier is 0 or more, not " + std::to_string(s.noise));
}
// No run makes so many; a ledger that claims more would begin anew at 0, and a double could not count them.
inline constexpr std::uint64_t most_steps = std::uint64_t{1} << 53;
// Of a ledger that was read from a file: each entry is what `spend` would have made.
inline bool valid(const Vec<Spent>& all) {
    for (const Spent& s : all)
        if (!(s.rate >= 0 && s.rate <= 1 && s.noise >= 0 && std::isfinite(s.noise) && s.steps > 0 &&
              s.steps <= most_steps))
            return false;
    return true;
}
// One entry for each rate and noise, so a ledger is as long as a client has settings, not steps.
inline void spend(Vec<Spent>& all, const Spent& more) {
    validate(more);
    if (more.steps == 0) return;
    for (Spent& s : all)
        if (s.rate == more.rate && s.noise == more.noise) {
            s.steps += std::min(more.steps, most_steps - s.steps);
            return;
        }
    all.push_back({more.rate, more.noise, std::min(more.steps, most_steps)});
}

// What a client would have spent with one more visit, and may not.
struct Overdraft {
    Id client = 0;
    double epsilon = 0, budget = 0;
};
// A client would have passed its budget. Nothing of the visit was sent, so nothing is spent. Clients are left out
// round after round without one: its sentence takes from the heap.
struct BudgetError : Error {
    explicit BudgetError(const Overdraft& refused)
        : Error("client " + std::to_string(refused.client) + " would have spent an epsilon of " +
                std::to_string(refused.epsilon) + " with this visit and may spend " + std::to_string(refused.budget) +
                ": keep what the rounds before have made, or begin with more noise or fewer rounds"),
          client(refused.client),
          epsilon(refused.epsilon) {}
    Id client;
    double epsilon;
};

// The most one example may add, over the coordinates that train. Contributions are cut to the norm less 2^-20 of it,
// so that rounding them to float (2^-24) leaves them within; one that is not finite counts as zero.
template <class R>
struct Clip {
    double norm = std::numeric_limits<double>::infinity();
    Coordinates on{};
    const Mask* active = nullptr;

    double factor(double squared) const {
        if (!std::isfinite(squared)) return 0;
        const double length = std::sqrt(squared), most = norm * (1 - 0x1p-20);
        return length <= most ? 1 : most / length;
    }
};

// Refinement: sum_i c_i g_i, c_i = clip.factor(|g_i|^2), without one gradient per example in memory. Writes where
// clip.on selects, other coordinates of out may hold anything. Returns the mean loss.
template <class M>
concept ClippingModel =
    Model<M> && requires(const M model, In<real<M>> x, const Batch<real<M>>& b, const Clip<real<M>>& clip,
                         Out<real<M>> out) {
        { model.clips(clip) } -> std::same_as<bool>;
        { model.clipped_sum(x, b, clip, out) } -> std::convertible_to<double>;
    };

// Whether no example of a batch changes the gradient of another. A model may say so by `bool apart() const`, a constant
// where it is known when compiling; one with running statistics has seen a batch as a whole.
template <Model M>
bool examples_apart(const M& model) {
    if constexpr (requires { model.apart(); }) return model.apart() && !has_buffers(model.layout());
    else return !has_buffers(model.layout());
}
namespace detail {
inline constexpr const char* examples_meet =
    "examples of a batch meet in this model (a batch norm is one such layer), so no example has a gradient of its own "
    "to clip; use GroupNorm or LayerNorm where single examples are to be private";

// False: known when compiling that they meet.
template <class M>
consteval bool may_be_apart() {
    if constexpr (requires { typename std::bool_constant<M::apart()>; }) return M::apart();
    else return true;
}
}  // namespace detail

// The same for any model: one gradient after the other, each under a draw of its own, so that no example's dropout is
// another's, and which others are there does not change it.
template <Model M>
double clipped_sum_one_by_one(const M& model, In<real<M>> x, const Batch<real<M>>& b, const Clip<real<M>>& clip,
                              Out<real<M>> out) {
    using R = real<M>;
    const auto selected = [&](auto&& f) {
        clip.on.each(x.size(), [&](Range r) {
            for (std::size_t j = r.begin; j < r.end; ++j)
                if (!clip.active || (*clip.active)[j]) f(j);
        });
    };
    for (R& sum : out) sum = 0;
    Vec<R> g(x.size());
    double loss = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
        const Key draw = b.draw()(b.ids()[i]);
        const double own = model.gradient(x, b.part(i, 1).drawn(draw), g);
        double squared = 0;
        selected([&](std::size_t j) { squared += static_cast<double>(g[j]) * static_cast<double>(g[j]); });
        if (!std::isfinite(squared)) continue;  // by selection: 0 * Inf would be NaN
        const double factor = clip.factor(squared);
        selected([&](std::size_t j) { out[j] += static_cast<R>(factor * static_cast<double>(g[j])); });
        loss += own;
    }
    return b.size() > 0 ? loss / static_cast<double>(b.size()) : 0;
}
template <Model M>
double clipped_sum(const M& model, In<real<M>> x, const Batch<real<M>>& b, const Clip<real<M>>& clip,
                   Out<real<M>> out) {
    static_assert(detail::may_be_apart<M>(),
                  "tessera: examples of a batch meet in this model (a batch norm is one such layer), so no example has "
                  "a gradient of its own to clip; use GroupNorm or LayerNorm where single examples are to be private");
    if (!examples_apart(model)) throw ConfigError(detail::examples_meet);
    if constexpr (ClippingModel<M>)
        if (model.clips(clip)) return model.clipped_sum(x, b, clip, out);
    return clipped_sum_one_by_one(model, x, b, clip, out);
}

// How a private step comes by its examples decides what it costs: there is no way to count the one as the other. A
// rule's type `Sampling` (privacy/sampling.hpp has two) says so:
//
//   draw(at, b, rate, key)       the batches of this step, given the one that the method passed
//   expected(at, rate)           what the sum is divided by, never the size that happened to come
//   cost(at, rate, noise, step)  of step number `step` of a walk
//   words, adjacency             how a report calls it, and what is protected
//
// A method that can be private says which of its rules are behind what a client sends, or behind anything that reads,
// and which are behind what it keeps and nothing sent ever reads:
//
//   using Released = Trained<Local>;
//   using Kept = Trained<Own>;
//
// A rule is private if it offers `adds_noise`; it then has a type `Sampling` and, somewhere inside it, a source of
// noise.
template <class... Rules>
struct Trained {};

namespace detail {
template <class Q>
consteval bool noisy() {
    return offers_of<Q>().has(offer::adds_noise);
}
template <class List>
inline constexpr bool all_noisy = false;
template <class... Rules>
inline constexpr bool all_noisy<Trained<Rules...>> = (noisy<Rules>() && ...);
}  // namespace detail

}  // namespace tessera
