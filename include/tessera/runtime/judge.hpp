// SPDX-License-Identifier: BSD-3-Clause
// What comes from outside, bytes of a message or of a file, before a verb of the method reads it: all numbers finite,
// all lengths as they must be (contracts/method.hpp has the table).
//
// A method that holds another one as `inner` and has the same type of message or state leaves the judgement to it, so
// wrappers inherit the checks of what they wrap.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>

#include <tessera/contracts/fold.hpp>
#include <tessera/contracts/method.hpp>
#include <tessera/contracts/policy.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/form.hpp>

namespace tessera {

// Before round one, of every fold in a policy or method: w is what the server folds.
template <class P, class M>
void check_context(const P& all, const Context<M>& context, const Vec<real<M>>& w) {
    detail::for_each_policy(all, [&]<class Q>(const Q& policy) {
        if constexpr (detail::offers_of<Q>().has(offer::check)) {
            constexpr bool of_fold = requires { policy.check(context, w); };
            constexpr bool of_scope = requires { policy.check(Layout{}); };
            static_assert(of_fold || of_scope, "tessera::Fold: check must be callable as check(context, w) const");
            if constexpr (of_fold) policy.check(context, w);
        }
    });
}

namespace detail {

template <class Me, class R>
concept SharesServer = WrapsMethod<Me> && std::is_same_v<server_t<Me, R>, server_t<inner_t<Me>, R>>;
template <class Me, class M>
concept SharesDownload = WrapsMethod<Me> && std::is_same_v<down_t<Me, real<M>>, down_t<inner_t<Me>, real<M>>>;
template <class Me, class M>
concept SharesUpload = SharesServer<Me, real<M>> && std::is_same_v<up_t<Me, M>, up_t<inner_t<Me>, M>>;

// ---------------------------------------------------------------------------------------------- uploads

// {x, weight}, or {x, weight, mask}, for a server with a w; or nothing at all.
template <class Me, class M>
consteval bool usual_upload() {
    using R = real<M>;
    using U = up_t<Me, M>;
    if constexpr (std::is_same_v<U, Nothing>) return true;
    else if constexpr (requires(const U& u, const server_t<Me, R>& server) { u.x, u.weight, server.w; })
        return std::is_same_v<decltype(U::x), Vec<R>> && std::is_floating_point_v<decltype(U::weight)> &&
               field_count<U> == (requires(const U& u) { u.mask; } ? 3 : 2);
    else return false;
}

template <class Me, class M>
consteval bool admits_fits() {
    using State = server_t<Me, real<M>>;
    using Upload = up_t<Me, M>;
    if constexpr (misfits<Upload>) {
        return false;
    } else if constexpr (offers_of<Me>().has(offer::admits)) {
        constexpr bool callable = requires(const Me& me, const State& server, const Upload& up) {
            { me.admits(server, Id{}, up) } -> std::same_as<bool>;
        };
        static_assert(callable, "tessera::Method: admits must be callable as bool admits(server, from, upload) const");
        return callable;
    } else if constexpr (SharesUpload<Me, M> || (WrapsMethod<Me> && offers_of<Me>().has(offer::decode))) {
        return admits_fits<inner_t<Me>, M>();
    } else {
        static_assert(usual_upload<Me, M>(),
                      "tessera::Method: uploads other than {x, weight} need `bool admits(server, from, upload) const`, "
                      "which says whether one that came from outside may reach `merge`");
        return usual_upload<Me, M>();
    }
}

// Whether an upload of client `from` may reach `merge`; its numbers are finite.
template <class Me, class M>
bool admits_upload(const Me& me, const server_t<Me, real<M>>& server, Id from, const up_t<Me, M>& upload) {
    if constexpr (offers_of<Me>().has(offer::admits)) {
        return me.admits(server, from, upload);
    } else if constexpr (SharesUpload<Me, M>) {
        return admits_upload<inner_t<Me>, M>(inner_of(me), server, from, upload);
    } else if constexpr (requires { row_of(upload).x; }) {
        const auto row = row_of(upload);
        const bool whole = !row.mask && row.x.size() == server.w.size();
        const bool packed = row.mask && row.mask->size() == server.w.size() && row.x.size() == row.mask->count();
        return (whole || packed) && row.weight >= 0;
    } else {
        return true;
    }
}

// What came from outside, as the method that merges reads it: wrappers take off what they put around it, and every
// layer is judged before the next is opened.
enum class Opened : unsigned char { well, not_finite, not_admitted };
template <class Me, class M>
Opened open_upload(const Me& me, const server_t<Me, real<M>>& server, Id from, up_t<Me, M>&& upload,
                   merged_t<Me, M>& out) {
    if constexpr (WrapsMethod<Me> && !names_merge<Me>) {
        if constexpr (offers_of<Me>().has(offer::admits))
            if (!me.admits(server, from, upload)) return Opened::not_admitted;
        if constexpr (offers_of<Me>().has(offer::decode)) {
            up_t<inner_t<Me>, M> within;
            if (!me.decode(server, from, upload, within)) return Opened::not_admitted;
            if (!all_finite(within)) return Opened::not_finite;
            return open_upload<inner_t<Me>, M>(inner_of(me), server, from, std::move(within), out);
        } else {
            return open_upload<inner_t<Me>, M>(inner_of(me), server, from, std::move(upload), out);
        }
    } else {
        if (!admits_upload<Me, M>(me, server, from, upload)) return Opened::not_admitted;
        out = std::move(upload);
        return Opened::well;
    }
}

// ---------------------------------------------------------------------------------------------- downloads

template <class Me, class M>
consteval bool takes_fits() {
    using R = real<M>;
    if constexpr (offers_of<Me>().has(offer::takes)) {
        constexpr bool callable =
            requires(const Me& me, const Context<M>& at, const down_t<Me, R>& received, const client_t<Me, R>& state) {
                { me.takes(at, received, state) } -> std::same_as<bool>;
            };
        static_assert(callable,
                      "tessera::Method: takes must be callable as bool takes(context, received, client) const");
        return callable;
    } else if constexpr (WrapsMethod<Me> && !SharesDownload<Me, M>) {
        constexpr bool owed = somewhere_offers<inner_t<Me>>(offer::takes) && !offers_of<Me>().has(offer::decode);
        static_assert(!owed,
                      "tessera::Method: the method inside this one judges downloads, and what is sent around them "
                      "hides them; offer `takes`, or `decode` them");
        return !owed;
    } else return true;
}

// What is judged by its form: of a wrapper that encodes what is sent, what is inside.
template <class Me, class R>
auto plain_download(const Me& me, const server_t<Me, R>& server, Id client) {
    if constexpr (WrapsMethod<Me>) {
        if constexpr (!names_send<Me> || offers_of<Me>().has(offer::decode))
            return plain_download<inner_t<Me>, R>(inner_of(me), server, client);
        else return send_to<Me, R>(me, server, client);
    } else return send_to<Me, R>(me, server, client);
}
template <class Me, class R>
using plain_down_t =
    decltype(plain_download<Me, R>(std::declval<const Me&>(), std::declval<const server_t<Me, R>&>(), Id{}));

// Why this client cannot read a download, whose numbers are finite; "" if it can. `sent` is the form of what the
// method sends of its first state.
template <class Me, class M>
std::string download_fault(const Me& me, const Context<M>& at, const down_t<Me, real<M>>& received,
                           const client_t<Me, real<M>>& state, const Form& sent) {
    if constexpr (offers_of<Me>().has(offer::takes)) {
        return me.takes(at, received, state) ? "" : "its lengths are not those of what it sends to this client";
    } else if constexpr (SharesDownload<Me, M>) {
        return download_fault<inner_t<Me>, M>(inner_of(me), at, received, state_within<Me>(state), sent);
    } else if constexpr (WrapsMethod<Me> && offers_of<Me>().has(offer::decode)) {
        down_t<inner_t<Me>, real<M>> within;
        if (!me.decode(received, within)) return "it cannot be decoded";
        if (!all_finite(within)) return "it holds a number that is not finite";
        return download_fault<inner_t<Me>, M>(inner_of(me), at, within, state_within<Me>(state), sent);
    } else {
        return form_fault(received, sent);
    }
}

// ---------------------------------------------------------------------------------------------- states

template <class Me, class M>
consteval bool keeps_fits() {
    using State = client_t<Me, real<M>>;
    if constexpr (offers_of<Me>().has(offer::keeps)) {
        constexpr bool callable = requires(const Me& me, const Context<M>& at, const State& state) {
            { me.keeps(at, state, std::size_t{}) } -> std::same_as<bool>;
        };
        static_assert(callable, "tessera::Method: keeps must be callable as bool keeps(context, client, length) const");
        return callable;
    } else if constexpr (SharesClient<Me, real<M>>) {
        return keeps_fits<inner_t<Me>, M>();
    } else {
        static_assert(
            grows_by_numbers<State>(),
            "tessera::Method: a Client with lists, masks or vectors of integers needs `bool keeps(context, client, "
            "length) const`, which says whether one that was read from a file can be right");
        return grows_by_numbers<State>();
    }
}

template <class Me, class R>
struct FoldMemory {
    using type = void;
};
template <class Me, class R>
    requires requires { &Me::fold; }
struct FoldMemory<Me, R> {
    using type = memory_t<std::remove_cvref_t<decltype(Me::fold)>, R>;
};

// Every memory of the fold that lies in a server's state, each beside its w.
template <class Me, class R, class T>
bool keeps_memories(const Me& me, const T& state) {
    using Memory = typename FoldMemory<Me, R>::type;
    bool fits = true;
    if constexpr (!std::is_void_v<Memory>) {
        if constexpr (Growable<T>) {
            if constexpr (std::is_class_v<typename T::value_type>)
                for (const auto& each : state) fits = fits && keeps_memories<Me, R>(me, each);
        } else if constexpr (std::is_class_v<T> && Reflectable<T> && !is_array<T>) {
            if constexpr (requires { requires std::is_same_v<decltype(T::fold), Memory>; state.w.size(); })
                fits = keeps_memory<R>(me.fold, state.fold, state.w.size());
            with_fields(state, [&](const auto&... field) { fits = (fits && ... && keeps_memories<Me, R>(me, field)); });
        }
    }
    return fits;
}

template <class Me, class R>
consteval bool holds_fits() {
    using State = server_t<Me, R>;
    if constexpr (offers_of<Me>().has(offer::holds)) {
        constexpr bool callable = requires(const Me& me, const State& state) {
            { me.holds(state, state) } -> std::same_as<bool>;
        };
        static_assert(callable, "tessera::Method: holds must be callable as bool holds(opened, server) const");
        return callable;
    } else return true;
}

// Whether a state may be the server's; `opened` is what `open` makes of the same model and number of clients.
template <class Me, class R>
bool holds_state(const Me& me, const server_t<Me, R>& opened, const server_t<Me, R>& state) {
    if constexpr (!offers_of<Me>().has(offer::holds) && SharesServer<Me, R>) {
        return holds_state<inner_t<Me>, R>(inner_of(me), opened, state);
    } else {
        if (!all_finite(state) || !keeps_memories<Me, R>(me, state)) return false;
        if constexpr (offers_of<Me>().has(offer::holds)) return me.holds(opened, state);
        else {
            using State = server_t<Me, R>;
            using Memory = typename FoldMemory<Me, R>::type;
            return has_form<State, Memory>(state, form_of<State, Memory>(opened));
        }
    }
}

// ---------------------------------------------------------------------------------------------- the global model

// A server's own declaration does not say which of its numbers are a model.
template <class Me, class R>
consteval bool global_is_said() {
    constexpr bool own = requires { typename Me::template Server<R>; } && !SharesServer<Me, R>;
    constexpr bool gives = offers_of<Me>().has(offer::global), has_none = offers_of<Me>().has(offer::no_global);
    static_assert(!own || gives || has_none,
                  "tessera::Method: with a Server of its own a method needs `Vec<R> global(server, initial) const`, or "
                  "lists `no_global` in `offers`");
    static_assert(!(gives && has_none), "tessera::Method: `global` and `no_global` contradict each other");
    return true;
}

// What a client has spent is spent, also of the method inside a wrapper.
template <class Me, class State>
void keep_spent(const Me& me, State& before, State& after) {
    if constexpr (offers_of<Me>().has(offer::keep_spent)) me.keep_spent(before, after);
    else if constexpr (WrapsMethod<Me> && somewhere_offers<Me>(offer::keep_spent))
        keep_spent(inner_of(me), state_within<Me>(before), state_within<Me>(after));
}
template <class Me>
inline constexpr bool keeps_spent = somewhere_offers<Me>(offer::keep_spent);

}  // namespace detail

}  // namespace tessera
