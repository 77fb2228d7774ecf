// SPDX-License-Identifier: BSD-3-Clause
// Prior: where a client's personal model is pulled to, mu = mu_i(w).
//
//   void operator()(context, w, batches, me, mu) const   writes mu, which has the size of w; may move w itself
//
// and lists in `offers` (core/offers.hpp), where it matters,
//   draws            std::size_t draws() const: batches of a local step (1); the prox reads the last one
//   pull_back        void pull_back(context, w, batches, me, v) const: v leaves as Dmu(w)' v
//   starts_at_mean   the prox starts at mu unless told otherwise (at w)
//   forgets          me.w_last is not read, so clients need not keep it
//   natural          what is written is s = grad g*(mu), not mu
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <tessera/contracts/context.hpp>
#include <tessera/core/offers.hpp>

namespace tessera {

// What a client keeps: its model, w at the end of its last visit, its place in its stream of batches.
template <class R>
struct Personal {
    Vec<R> theta, w_last;
    Cursor cursor;
};

// Where the steps of the proximal map begin. Automatic: at mu if the prior says so, else at w.
enum class ProxInit : std::uint8_t { automatic, mu, w, theta_prev };
constexpr std::array<std::string_view, 4> words_of(ProxInit) { return {"auto", "mu", "w", "theta_prev"}; }

// Dmu in the outer step: the identity, or I - eta Hess Phi by Hessian-vector products.
enum class Jacobian : std::uint8_t { identity, hvp };
constexpr std::array<std::string_view, 2> words_of(Jacobian) { return {"identity", "hvp"}; }

// What is called the personal model: theta, or w at the end of the last visit (what pFedMe's program evaluates).
enum class EvalModel : std::uint8_t { theta, w_local };
constexpr std::array<std::string_view, 2> words_of(EvalModel) { return {"theta", "w_local"}; }

// The batches that one local step draws.
template <class R>
class Drawn {
public:
    Drawn(const Batches<R>& all, std::size_t begin, std::size_t count) : all_(&all), begin_(begin), count_(count) {}

    std::size_t size() const { return count_; }
    Batch<R> operator[](std::size_t i) const { return (*all_)[begin_ + i]; }
    Batch<R> last() const { return (*this)[count_ - 1]; }

private:
    const Batches<R>* all_;
    std::size_t begin_, count_;
};

// The next local steps of a client, each with the batches it draws; none if the client has no data.
template <class R>
class LocalSteps {
public:
    LocalSteps(Batches<R> all, std::size_t each) : all_(std::move(all)), each_(each) {}

    std::size_t size() const { return all_.size() / each_; }
    Drawn<R> operator[](std::size_t r) const { return {all_, r * each_, each_}; }

    struct Iterator {
        const LocalSteps* steps;
        std::size_t r;
        Drawn<R> operator*() const { return (*steps)[r]; }
        Iterator& operator++() {
            ++r;
            return *this;
        }
        bool operator!=(const Iterator& other) const { return r != other.r; }
    };
    Iterator begin() const { return {this, 0}; }
    Iterator end() const { return {this, size()}; }

private:
    Batches<R> all_;
    std::size_t each_;
};

template <class P, class M>
concept Prior =
    std::copyable<P> && requires(const P prior, const Context<M>& at, Vec<real<M>>& w, const Drawn<real<M>>& batches,
                                 const Personal<real<M>>& me, Vec<real<M>>& mu) {
        { prior(at, w, batches, me, mu) } -> std::same_as<void>;
    };

template <class P, class M>
concept DifferentiablePrior =
    Prior<P, M> && detail::offers_of<P>().has(offer::pull_back) &&
    requires(const P prior, const Context<M>& at, const Vec<real<M>>& w, const Drawn<real<M>>& batches,
             const Personal<real<M>>& me, Vec<real<M>>& v) { prior.pull_back(at, w, batches, me, v); };

namespace detail {

struct PriorNames {
    int draws, pull_back, starts_at_mean, remembers, forgets, natural;
};
template <class P> concept names_draws = !requires { &Probed<P, PriorNames>::draws; };
template <class P> concept names_pull_back = !requires { &Probed<P, PriorNames>::pull_back; };
template <class P> concept names_starts_at_mean = !requires { &Probed<P, PriorNames>::starts_at_mean; };
template <class P> concept names_remembers = !requires { &Probed<P, PriorNames>::remembers; };
template <class P> concept names_natural = !requires { &Probed<P, PriorNames>::natural; };

template <class P>
consteval bool prior_is_spelt() {
    static_assert(policy_is_spelt<P>());
    if constexpr (StatesOffers<P>) {
        static_assert(
            agrees<P>(names_draws<P>, offer::draws),
            "tessera::Prior: `draws` must be a member and be listed in `offers`, or neither; is it misspelt?");
        static_assert(agrees<P>(names_pull_back<P>, offer::pull_back),
                      "tessera::Prior: `pull_back` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(
            !names_starts_at_mean<P> && !names_natural<P> && !names_remembers<P>,
            "tessera::Prior: `starts_at_mean`, `natural` and `forgets` are no members: list them in `offers`");
    }
    return true;
}

}  // namespace detail

// The same in one sentence, for whoever writes one.
template <class P, class M>
consteval bool check_prior() {
    static_assert(detail::prior_is_spelt<P>());
    constexpr bool fits = Prior<P, M>;
    static_assert(fits,
                  "tessera::Prior: a prior needs `void operator()(context, w, batches, me, mu) const`, which writes "
                  "mu_i(w) into mu");
    return true;
}

namespace detail {
template <class P>
inline constexpr bool starts_at_mean = offers_of<P>().has(offer::starts_at_mean);
template <class P>
inline constexpr bool remembers = !offers_of<P>().has(offer::forgets);
template <class P>
inline constexpr bool is_natural = offers_of<P>().has(offer::natural);

template <class P>
std::size_t draws_of(const P& prior) {
    if constexpr (offers_of<P>().has(offer::draws)) return prior.draws();
    else return 1;
}
}  // namespace detail

template <class M, class P>
LocalSteps<real<M>> local_steps(const Context<M>& at, Cursor& cursor, std::size_t steps, const P& prior) {
    const std::size_t each = detail::draws_of(prior);
    return {at.stream(cursor, steps * each), each};
}

}  // namespace tessera
