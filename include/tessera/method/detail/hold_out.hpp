// SPDX-License-Identifier: BSD-3-Clause
// A client's training data in two, and two predictors held against the smaller piece.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <tessera/contracts/method.hpp>
#include <tessera/core/error.hpp>
#include <tessera/report/score.hpp>

namespace tessera::detail {

// floor(share * n) examples, drawn by the client's key and by nothing else.
class HoldOut {
public:
    template <class M>
    HoldOut(const Context<M>& at, double share) : order_(at.ids.begin(), at.ids.end()) {
        Stream(at.key(purpose::partition)(meaning)).shuffle(std::span<Index>(order_));
        held_ = static_cast<std::size_t>(share * static_cast<double>(order_.size()));
    }
    std::span<const Index> held() const { return std::span<const Index>(order_).first(held_); }
    // The place with the rest as its data; must not outlive this, or what this is moved to.
    template <class M>
    Context<M> rest(Context<M> at) const {
        at.ids = std::span<const Index>(order_).subspan(held_);
        return at;
    }

private:
    static constexpr std::uint64_t meaning = 0x686F6C64;
    Vec<Index> order_;
    std::size_t held_ = 0;
};

// Whether the server of a method has a common vector, whatever the number type.
template <class Me>
concept HasVector = requires(const server_t<Me, float>& server) { server.w.size(); };

// The global model as a client sees it, whole.
template <class Inner, class M, class Down, class State>
Vec<real<M>> global_of(const Inner& inner, const Context<M>& at, const Down& received, const State& me) {
    constexpr bool whole = std::is_convertible_v<Down, Vec<real<M>>>;
    if constexpr (offers_of<Inner>().has(offer::global_at)) {
        return inner.global_at(at, received, me);
    } else if constexpr (WrapsMethod<Inner>) {
        if constexpr (std::is_same_v<Down, down_t<inner_t<Inner>, real<M>>>) {
            return global_of(inner_of(inner), at, received, state_within<Inner>(me));
        } else {
            down_t<inner_t<Inner>, real<M>> within;
            inner.decode(received, within);
            return global_of(inner_of(inner), at, within, state_within<Inner>(me));
        }
    } else {
        static_assert(whole, "tessera::Fallback: the inner method has no global model");
        return received;
    }
}

template <class First, class Second>
struct Either {
    static constexpr auto offers = offer::either;
    First first;
    Second second;
    bool takes_second;
    HoldOut data;  // a predictor may read the examples it was trained on
    void operator()(const auto& batch, auto out) const {
        if (takes_second) second(batch, out);
        else first(batch, out);
    }
};

// The one with more right answers, or where there are no classes with less loss; the first on a tie.
template <class M, class First, class Second>
auto better_of(const Context<M>& at, HoldOut data, First first, Second second) {
    const auto a = score(*at.model, at.id, first, *at.examples, data.held());
    const auto b = score(*at.model, at.id, second, *at.examples, data.held());
    const bool takes_second = at.examples->labels ? b.correct > a.correct : b.loss_sum < a.loss_sum;
    if constexpr (std::is_same_v<First, Second>) return takes_second ? std::move(second) : std::move(first);
    else return Either<First, Second>{std::move(first), std::move(second), takes_second, std::move(data)};
}

}  // namespace tessera::detail
