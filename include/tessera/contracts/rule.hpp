// SPDX-License-Identifier: BSD-3-Clause
// Rule: one local step. `descend` walks a range of batches with it; `walk` gives the steps one by one.
#pragma once

#include <concepts>

#include <tessera/contracts/context.hpp>
#include <tessera/contracts/descender.hpp>
#include <tessera/contracts/memory.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>

namespace tessera {

template <class Q, class M>
concept Rule =
    std::copyable<Q> && requires(const Q rule, const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b,
                                 const Terms<real<M>>& terms, memory_t<Q, real<M>>& memory) {
        { rule.step(at, x, b, terms, memory) } -> std::convertible_to<double>;  // moves x, returns the batch's loss
    };

namespace detail {
template <class Q, class M>
concept RuleUnlessConst = !Rule<Q, M> && requires(Q rule, const Context<M>& at, Vec<real<M>>& x,
                                                  const Batch<real<M>>& b, const Terms<real<M>>& terms,
                                                  memory_t<Q, real<M>>& memory) { rule.step(at, x, b, terms, memory); };
}  // namespace detail

// A rule whose steps are all alike: a gradient, and one Step with it. (Its velocity is the rule's own memory.)
template <class Q, class M>
concept PlainRule = requires(const Q rule, const Context<M>& at, const Terms<real<M>>& terms) {
    { rule.plain(at, terms) } -> std::same_as<Step<real<M>>>;
};

namespace detail {

struct RuleNames {
    int adds_noise, Sampling, check, plain;
};
template <class Q> concept names_adds_noise = !requires { &Probed<Q, RuleNames>::adds_noise; };
template <class Q> concept names_Sampling = !requires { &Probed<Q, RuleNames>::Sampling; };
template <class Q> concept names_plain = !requires { &Probed<Q, RuleNames>::plain; };
template <class Q> concept names_rule_check = !requires { &Probed<Q, RuleNames>::check; };

template <class Q>
consteval bool rule_is_spelt() {
    static_assert(policy_is_spelt<Q>());
    if constexpr (StatesOffers<Q>) {
        static_assert(!names_adds_noise<Q>, "tessera::Rule: `adds_noise` is no member: list it in `offers`");
        static_assert(agrees<Q>(names_Sampling<Q>, offer::adds_noise),
                      "tessera::Rule: a rule with `Sampling` lists `adds_noise` in `offers`, and no other does; is it "
                      "misspelt?");
        static_assert(agrees<Q>(names_rule_check<Q>, offer::check),
                      "tessera::Rule: `check` must be a member and be listed in `offers`, or neither; is it misspelt?");
        static_assert(agrees<Q>(names_plain<Q>, offer::plain),
                      "tessera::Rule: `plain` must be a member and be listed in `offers`, or neither; is it misspelt?");
    }
    return true;
}

}  // namespace detail

// A rule at a place, with a memory that lives as long as the walk: an optimizer created anew (0.3).
template <Model M, class Q>
class Walk {
    static_assert(detail::rule_is_spelt<Q>());
    static_assert(!detail::RuleUnlessConst<Q, M>,
                  "tessera::Rule: `step` must be const and return the batch's loss; what it changes belongs in "
                  "`template <class R> struct Memory`");
    static_assert(detail::RuleUnlessConst<Q, M> || Rule<Q, M>,
                  "tessera::Rule: a local rule needs `double step(context, x, batch, terms, memory) const` (and, if it "
                  "remembers, `template <class R> struct Memory`)");

public:
    Walk(const Context<M>& at, const Q& rule, const Terms<real<M>>& terms) : at_(at), rule_(rule), terms_(terms) {
        if (terms.prox_weight != 0 && terms.prox_center.empty())
            throw ConfigError("Terms: a pull needs `prox_center`, the vector that it pulls to");
        if constexpr (CountedModel<M>) flops_ = at.model->forward_flops();
    }

    void operator()(Vec<real<M>>& x, const Batch<real<M>>& b) {
        if constexpr (Rule<Q, M>) {
            auto& tally = at_.workspace->tally;
            tally.loss += rule_.step(at_, x, b, terms_, memory_);
            tally.steps += 1;
            tally.examples += b.size();
            if constexpr (CountedModel<M>) {
                tally.counted += b.size();
                tally.forward_flops += flops_ * static_cast<double>(b.size());
            }
        }
    }

private:
    Context<M> at_;
    Q rule_;
    Terms<real<M>> terms_;
    memory_t<Q, real<M>> memory_{};
    double flops_ = 0;  // of a forward pass over one example
};

template <Model M, class Q>
Walk<M, Q> walk(const Context<M>& at, const Q& rule, const Terms<real<M>>& terms = {}) {
    if (auto* const other = Descender<real<M>>::here()) other->stays("a walk that the method takes step by step");
    return {at, rule, terms};
}

namespace detail {

// Whether somebody else has taken this walk (contracts/descender.hpp).
template <Model M, class Q>
bool descends_elsewhere(const Context<M>& at, Vec<real<M>>& x, const Batches<real<M>>& batches, const Q& rule,
                        const Terms<real<M>>& terms) {
    auto* const other = Descender<real<M>>::here();
    if (!other || batches.size() == 0) return false;
    if constexpr (!PlainRule<Q, M>) {
        other->stays("a rule whose steps are not all alike");
        return false;
    } else if constexpr (!BlueprintModel<M>) {
        other->stays("an objective that is not layers and a loss alone");
        return false;
    } else {
        const auto model = at.model->blueprint();
        Descent<real<M>> walk{&model, &x, &batches, rule.plain(at, terms), at.serving};
        if (!other->descend(walk)) return false;
        auto& tally = at.workspace->tally;
        double flops = 0;
        if constexpr (CountedModel<M>) flops = at.model->forward_flops();
        tally.loss += walk.loss;
        tally.steps += batches.size();
        for (const auto b : batches) {
            tally.examples += b.size();
            if constexpr (CountedModel<M>) tally.counted += b.size();
            tally.forward_flops += flops * static_cast<double>(b.size());
        }
        return true;
    }
}

}  // namespace detail

template <Model M, class Q>
void descend(const Context<M>& at, Vec<real<M>>& x, const Batches<real<M>>& batches, const Q& rule,
             const Terms<real<M>>& terms = {}) {
    if (terms.on.empty() || detail::descends_elsewhere(at, x, batches, rule, terms)) return;
    Walk<M, Q> step(at, rule, terms);
    for (const auto b : batches) step(x, b);
}

}  // namespace tessera
