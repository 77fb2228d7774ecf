// SPDX-License-Identifier: BSD-3-Clause
// What methods share that route between two branches, x = (w_g, psi, w_l): their objectives, the local and the joint
// phase, what of x is the global model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tessera/contracts/prior.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/form.hpp>
#include <tessera/method/detail/halves.hpp>
#include <tessera/nn/prox.hpp>
#include <tessera/nn/routed.hpp>

namespace tessera {

// Where w_l starts: at the w_g received, or at the mean of the clients' local models (which then travel too).
enum class LocalInit : std::uint8_t { from_global, averaged_local };
constexpr std::array<std::string_view, 2> words_of(LocalInit) { return {"from_global", "averaged_local"}; }

// The two branches of PI-Flow: separate, or one set of weights.
enum class Pi : std::uint8_t { two_global, tied };
constexpr std::array<std::string_view, 2> words_of(Pi) { return {"two_global", "tied"}; }

namespace detail {

template <class Me, class M>
auto routed(const Me& method, const Context<M>& at, nn::Moves moves = nn::Moves::all,
            nn::Reuse<real<M>>* reuse = nullptr) {
    constexpr bool fits = check_routable<M>();
    using Gate = std::remove_cvref_t<decltype(method.gate)>;
    if constexpr (fits) return nn::Routed<M, Gate>(*at.model, method.gate, method.routing, moves, reuse);
}

inline void require_pulls(double lambda, double mu) {
    require_size(lambda, "lambda");
    require_size(mu, "mu");
}
template <class R>
bool is_kept_by_prior(const Personal<R>& me, std::size_t d) {
    return fresh_or(me.theta, d) && fresh_or(me.w_last, d);
}

// x arrives with a w_l where those are averaged, and leaves with one that was trained. `me` is what the prior
// remembers.
template <class Me, class M, class Memory>
void train_local(const Me& method, const Context<M>& zeta_l, Vec<real<M>>& x, Memory& me) {
    using R = real<M>;
    const auto d = static_cast<std::ptrdiff_t>(zeta_l.initial->size());
    const bool own = method.local_init == LocalInit::averaged_local;
    Vec<real<M>> w_l(own ? x.end() - d : x.begin(), own ? x.end() : x.begin() + d);
    const auto batches = zeta_l.epochs(method.local_epochs, Pass::own);
    if (method.lambda == 0) {
        descend(zeta_l, w_l, batches, method.local);
    } else {
        Personal<R> none;
        Personal<R>* kept = &none;
        if constexpr (std::is_same_v<Memory, Personal<R>>) kept = &me;
        const Vec<R> w_g(x.begin(), x.begin() + d);
        nn::descend_toward(zeta_l, w_g, w_l, LocalSteps<R>(batches, draws_of(method.prior)), method.local, method.prior,
                           method.divergence, method.lambda, *kept);
    }
    if (own) x.resize(x.size() - w_l.size());
    x.insert(x.end(), w_l.begin(), w_l.end());
}

// Steps that do nothing where nothing can move, or nothing shall.
template <Model Objective, class Rule>
class Steps {
public:
    template <class M>
    Steps(const Context<M>& at, const Objective& objective, const Rule& rule, bool wanted = true,
          Terms<real<Objective>> terms = {})
        : idle_(!wanted || objective.on().empty()), walk_(at.with(objective), rule, on(objective, terms)) {}
    void operator()(Vec<real<Objective>>& x, const Batch<real<Objective>>& b) {
        if (!idle_) walk_(x, b);
    }

private:
    static Terms<real<Objective>> on(const Objective& objective, Terms<real<Objective>> terms) {
        terms.on = objective.on();
        return terms;
    }

    bool idle_;
    Walk<Objective, Rule> walk_;
};

// Who moves in the joint phase: psi by J_psi, and by J_g what the method says is global, pulled to where it began.
struct Joint {
    bool router = true, global = true;
    nn::Moves by_j_g = nn::Moves::global;
    double prox_weight = 0;
};
template <class Me, class M>
void train_joint(const Me& method, const Context<M>& zeta_g, Vec<real<M>>& x, const Joint& who) {
    if constexpr (check_routable<M>()) {
        nn::Reuse<real<M>> reuse;
        const auto j_psi = routed(method, zeta_g, nn::Moves::router, &reuse);
        const auto j_g = routed(method, zeta_g, who.by_j_g, &reuse);
        const Vec<real<M>> received = who.prox_weight != 0 ? x : Vec<real<M>>{};
        Steps router(zeta_g, j_psi, method.local, who.router),
            global(zeta_g, j_g, method.local, who.global, {.prox_center = received, .prox_weight = who.prox_weight});
        take_turns(method.alternate, zeta_g.epochs(method.joint_epochs), zeta_g.batch_count(), x, router, global);
    }
}

template <class Me, class M>
auto routed_predictor(const Me& method, const Context<M>& at, Vec<real<M>> x) {
    using Gate = std::remove_cvref_t<decltype(method.gate)>;
    if constexpr (check_routable<M>())
        return nn::RoutedPredictor<M, Gate>(*at.model, method.gate, method.routing, std::move(x));
}

}  // namespace detail
}  // namespace tessera
