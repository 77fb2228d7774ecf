// SPDX-License-Identifier: BSD-3-Clause
// Method: a plain struct with four verbs and the holes it has.
//
//   send(server, id)               -> what travels down          default: server.w
//   visit(context, received, me&)  -> what goes up               compulsory
//   merge(context, server&, ups)   moves the server              default: this->fold over the uploads
//   serve(context, received, me)   -> predict(batch, out)        default: the model with what was received
//   open(context, w0, clients)     -> the server's first state   default: {w0}
//
// `Server<R>` and `Client<R>` declare what is kept. A verb that is left to its default must be listed:
//   static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
// so a misspelt verb is an error and never a silent default. Whatever else a method has is listed too
// (core/offers.hpp):
//   static constexpr auto offers = offer::validate | offer::admits;
//
// What comes from outside is judged before a verb reads it. Every number is finite, and the lengths are right:
//
//   what                 by default                                                           else the method offers
//   download             of the same form as what `send` gives of the first state            takes
//   upload               x as long as the server's w (or packed by its mask), weight >= 0     admits; owed if it is
//                                                                                             not {x, weight}
//   client's state       every vector empty, or as long as the download (of the model, if     keeps; owed if it holds
//                        that is no vector)                                                   lists, masks, integers
//   server's state       of the same form as `open` made it; a fold's memory as the fold says holds
//
// A method around another one holds it as `inner`, or makes it, `auto inner() const`. Verbs left to their default are
// the inner method's, also `visit`; so are Server, Client and offers that are not declared. A Client of its own keeps
// that method's as `own`. If something else goes up, `decode` opens it, and the server merges as for `inner`.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tessera/contracts/context.hpp>
#include <tessera/contracts/detail/method_names.hpp>
#include <tessera/contracts/fold.hpp>
#include <tessera/contracts/policy.hpp>
#include <tessera/core/form.hpp>
#include <tessera/core/offers.hpp>

namespace tessera {

struct Verbs {
    unsigned bits = 0;
    constexpr bool has(Verbs other) const { return (bits & other.bits) != 0; }
    friend constexpr Verbs operator|(Verbs a, Verbs b) { return {a.bits | b.bits}; }
};
namespace verb {
inline constexpr Verbs open{1}, send{2}, merge{4}, serve{8}, visit{16};
}

// The usual upload, the usual server, the usual predictor.
template <class R>
struct Up {
    Vec<R> x;
    double weight = 1;
};
template <class M>
Up<real<M>> up(const Context<M>& at, Vec<real<M>> x, Weigh by = Weigh::samples) {
    return {std::move(x), at.weight(by)};
}
template <class Fold, class R>
struct Shared {
    Vec<R> w;
    memory_t<Fold, R> fold{};
};
// The model with these parameters.
template <class M>
struct Plain {
    static constexpr auto offers = offer::parameters;
    const M* model;
    Vec<real<M>> parameters;
    void operator()(const Batch<real<M>>& b, Out<real<M>> out) const { model->predict(parameters, b, out); }
};
template <class M>
Plain<M> plain(const Context<M>& at, Vec<real<M>> parameters) {
    return {at.model, std::move(parameters)};
}

template <class U>
    requires requires(const U& u) { u.x, u.weight; }
auto row_of(const U& upload) {
    using R = typename decltype(U::x)::value_type;
    Row<R> row{upload.x, upload.weight};
    if constexpr (requires { upload.mask; }) row.mask = &upload.mask;
    return row;
}
template <class U>
auto rows_of(std::span<const U> uploads) {
    Vec<decltype(row_of(uploads[0]))> rows;
    for (const auto& upload : uploads) rows.push_back(row_of(upload));
    return rows;
}

namespace detail {

// Stands for what a wrong method would have given. Nothing is asked of it, so one mistake makes one error.
struct Misfit {};
template <class T>
inline constexpr bool misfits = std::is_same_v<T, Misfit>;

template <class Me>
concept WrapsMethod = requires { &Me::inner; };
template <WrapsMethod Me>
constexpr decltype(auto) inner_of(const Me& me) {
    if constexpr (requires { me.inner(); }) return me.inner();
    else return (me.inner);
}
template <WrapsMethod Me>
using inner_t = std::remove_cvref_t<decltype(inner_of(std::declval<const Me&>()))>;

// The method whose `merge` the server runs: the innermost one that wrappers leave it to.
template <class Me>
constexpr decltype(auto) merger_of(const Me& me) {
    if constexpr (!WrapsMethod<Me> || names_merge<Me>) return (me);
    else if constexpr (requires { me.inner(); }) {
        auto made = merger_of(me.inner());
        return made;
    } else return merger_of(me.inner);
}
template <class Me>
using merger_t = std::remove_cvref_t<decltype(merger_of(std::declval<const Me&>()))>;

// Whether clients have models of their own.
template <class Me>
consteval bool serves_own() {
    if constexpr (WrapsMethod<Me> && !names_serve<Me>) return serves_own<inner_t<Me>>();
    else return names_serve<Me> && !offers_of<Me>().has(offer::serves_global);
}
// What a method says of its model, or where it says nothing the one that it is around.
template <class Me>
consteval bool gives_global() {
    if constexpr (offers_of<Me>().has(offer::global)) return true;
    else if constexpr (WrapsMethod<Me> && !offers_of<Me>().has(offer::no_global)) return gives_global<inner_t<Me>>();
    else return false;
}
template <class Me>
consteval bool has_no_global() {
    if constexpr (offers_of<Me>().has(offer::no_global)) return true;
    else if constexpr (WrapsMethod<Me> && !offers_of<Me>().has(offer::global)) return has_no_global<inner_t<Me>>();
    else return false;
}
template <class Me, class S, class R>
auto global_in(const Me& me, const S& server, const Vec<R>& initial) {
    if constexpr (offers_of<Me>().has(offer::global)) return me.global(server, initial);
    else return global_in(inner_of(me), server, initial);
}
// Why clients must remember, of a method or of the one that it is around; "" if they need not.
template <class Me>
std::string_view needs_memory(const Me& method) {
    if constexpr (offers_of<Me>().has(offer::needs_memory)) return method.needs_memory();
    else if constexpr (WrapsMethod<Me>) return needs_memory(inner_of(method));
    else return {};
}
template <class Me>
constexpr Verbs defaults_of() {
    if constexpr (requires { Me::by_default; }) return Me::by_default;
    else return {};
}

template <class Me>
consteval bool verbs_are_spelt() {
    static_assert(method_is_spelt<Me>());
    constexpr bool visits = names_visit<Me> || (WrapsMethod<Me> && defaults_of<Me>().has(verb::visit));
    static_assert(visits, "tessera::Method: a method needs `visit`; is it misspelt?");
    static_assert(!names_visit<Me> || !defaults_of<Me>().has(verb::visit),
                  "tessera::Method: `visit` must be a member or, around a method, be listed in `by_default`, not both");
    static_assert(names_send<Me> != defaults_of<Me>().has(verb::send),
                  "tessera::Method: `send` must be a member or be listed in `by_default`, not both; is it misspelt?");
    static_assert(names_merge<Me> != defaults_of<Me>().has(verb::merge),
                  "tessera::Method: `merge` must be a member or be listed in `by_default`, not both; is it misspelt?");
    static_assert(names_serve<Me> != defaults_of<Me>().has(verb::serve),
                  "tessera::Method: `serve` must be a member or be listed in `by_default`, not both; is it misspelt?");
    static_assert(names_open<Me> != defaults_of<Me>().has(verb::open),
                  "tessera::Method: `open` must be a member or be listed in `by_default`, not both; is it misspelt?");
    return true;
}

template <class Me, class R>
struct ServerOf {
    static_assert(sizeof(Me) == 0,
                  "tessera::Method: a method needs a member `fold`, or a `Server<R>` and a `merge` of its own");
    using type = Misfit;
};
template <class Me, class R>
    requires(WrapsMethod<Me> && !requires { typename Me::template Server<R>; })
struct ServerOf<Me, R> : ServerOf<inner_t<Me>, R> {};
template <class Me, class R>
    requires(requires { &Me::fold; } && !WrapsMethod<Me> && !requires { typename Me::template Server<R>; })
struct ServerOf<Me, R> {
    using type = Shared<std::remove_cvref_t<decltype(Me::fold)>, R>;
};
template <class Me, class R>
    requires requires { typename Me::template Server<R>; }
struct ServerOf<Me, R> {
    using type = typename Me::template Server<R>;
};
template <class Me, class R>
struct ClientOf {
    static_assert(verbs_are_spelt<Me>());  // here, because whoever uses a method asks for its client's state first
    using type = Nothing;
};
template <class Me, class R>
    requires(WrapsMethod<Me> && !requires { typename Me::template Client<R>; })
struct ClientOf<Me, R> : ClientOf<inner_t<Me>, R> {
    static_assert(verbs_are_spelt<Me>());
};
template <class Me, class R>
    requires requires { typename Me::template Client<R>; }
struct ClientOf<Me, R> {
    static_assert(verbs_are_spelt<Me>());
    using type = typename Me::template Client<R>;
};

}  // namespace detail

template <class Me, class R>
using server_t = typename detail::ServerOf<Me, R>::type;
template <class Me, class R>
using client_t = typename detail::ClientOf<Me, R>::type;

namespace detail {

// What a wrapper keeps for the method inside it: the whole state, or `own` of a Client that it declares.
template <WrapsMethod Me, class State>
auto& state_within(State& state) {
    if constexpr (std::is_same_v<client_t<Me, float>, client_t<inner_t<Me>, float>>) {
        return state;
    } else {
        static_assert(requires { state.own; },
                      "tessera::Method: around another method, a Client keeps that method's own state as `own`");
        return state.own;
    }
}

}  // namespace detail

template <class Me, class M>
server_t<Me, real<M>> open_at(const Me& me, const Context<M>& context, Vec<real<M>> w0, std::size_t clients) {
    if constexpr (detail::names_open<Me>) {
        constexpr bool callable = requires { server_t<Me, real<M>>(me.open(context, std::move(w0), clients)); };
        static_assert(callable,
                      "tessera::Method: open must be callable as open(context, w0, clients) const and return Server");
        if constexpr (callable) return me.open(context, std::move(w0), clients);
        else return {};
    } else if constexpr (detail::WrapsMethod<Me>) {
        return open_at<detail::inner_t<Me>, M>(detail::inner_of(me), context, std::move(w0), clients);
    } else if constexpr (requires { server_t<Me, real<M>>{std::move(w0)}; }) {
        return {std::move(w0)};
    } else {
        return {};
    }
}

template <class Me, class R>
auto send_to(const Me& me, const server_t<Me, R>& server, Id client) {
    if constexpr (requires { me.template send<R>(server, client); }) {
        return me.template send<R>(server, client);
    } else if constexpr (detail::names_send<Me>) {
        constexpr bool callable = requires { me.send(server, client); };
        static_assert(callable, "tessera::Method: send must be callable as send(const Server&, Id) const");
        if constexpr (callable) return me.send(server, client);
        else return detail::Misfit{};
    } else if constexpr (detail::WrapsMethod<Me>) {
        return send_to<detail::inner_t<Me>, R>(detail::inner_of(me), server, client);
    } else {
        constexpr bool has_w = requires { server.w; };
        static_assert(has_w || detail::misfits<server_t<Me, R>>,
                      "tessera::Method: the default `send` needs a Server with a member `w`");
        if constexpr (has_w) return server.w;
        else return detail::Misfit{};
    }
}
template <class Me, class R>
using down_t = decltype(send_to<Me, R>(std::declval<const Me&>(), std::declval<const server_t<Me, R>&>(), Id{}));

template <class Me, class M>
auto visit_at(const Me& me, const Context<M>& at, down_t<Me, real<M>> received, client_t<Me, real<M>>& state) {
    if constexpr (detail::misfits<down_t<Me, real<M>>>) {
        return detail::Misfit{};
    } else if constexpr (!detail::names_visit<Me>) {
        if constexpr (detail::WrapsMethod<Me>)
            return visit_at<detail::inner_t<Me>, M>(detail::inner_of(me), at, std::move(received),
                                                    detail::state_within<Me>(state));
        else return detail::Misfit{};
    } else {
        constexpr bool callable = requires { me.visit(at, std::move(received), state); };
        static_assert(callable, "tessera::Method: visit must be callable as visit(context, received, Client&) const "
                                "and return what goes up");
        if constexpr (callable) {
            constexpr bool gives = !std::is_void_v<decltype(me.visit(at, std::move(received), state))>;
            static_assert(gives, "tessera::Method: visit must return what goes up (Nothing{} if nothing does)");
            if constexpr (gives) return me.visit(at, std::move(received), state);
            else return detail::Misfit{};
        } else {
            return detail::Misfit{};
        }
    }
}
template <class Me, class M>
using up_t = decltype(visit_at<Me, M>(std::declval<const Me&>(), std::declval<const Context<M>&>(),
                                      std::declval<down_t<Me, real<M>>>(), std::declval<client_t<Me, real<M>>&>()));

namespace detail {

template <class Me, class M>
consteval bool merge_fits() {
    using State = server_t<Me, real<M>>;
    using Upload = up_t<Me, M>;
    if constexpr (misfits<Upload>) {
        return false;
    } else if constexpr (names_merge<Me>) {
        constexpr bool callable = requires(const Me& me, const Context<M>& context, State& server,
                                           std::span<const Upload> ups) { me.merge(context, server, ups); };
        static_assert(callable,
                      "tessera::Method: merge must be callable as merge(context, Server&, span<const Upload>) const");
        return callable;
    } else if constexpr (WrapsMethod<Me>) {
        constexpr bool shares = std::is_same_v<State, server_t<inner_t<Me>, real<M>>>;
        constexpr bool opens = offers_of<Me>().has(offer::decode) || std::is_same_v<Upload, up_t<inner_t<Me>, M>>;
        static_assert(shares, "tessera::Method: around another method, the default `merge` needs its Server");
        static_assert(opens, "tessera::Method: what goes up is not the inner method's upload, so the default `merge` "
                             "needs `bool decode(server, from, upload, inner_upload&) const`");
        return shares && opens && merge_fits<inner_t<Me>, M>();
    } else {
        constexpr bool has_fold = requires(const Me& me, State& server) { me.fold, server.w, server.fold; };
        constexpr bool has_rows = requires(const Upload& upload) { row_of(upload); };
        static_assert(has_fold,
                      "tessera::Method: the default `merge` needs a member `fold` and a Server with `w` and `fold`");
        static_assert(has_rows, "tessera::Method: the default `merge` needs uploads with members `x` and `weight`");
        if constexpr (has_fold && has_rows) {
            using F = std::remove_cvref_t<decltype(Me::fold)>;
            constexpr bool masks_fit = accepts_masks<F> || !requires(const Upload& upload) { upload.mask; };
            static_assert(masks_fit,
                          "tessera::Method: these uploads have masks, but this aggregator does not understand rows "
                          "with masks");
            return check_fold<F, M>() && Fold<F, M> && masks_fit;
        }
        return false;
    }
}

template <class Me, class M>
consteval bool serve_fits() {
    using Down = down_t<Me, real<M>>;
    using State = client_t<Me, real<M>>;
    if constexpr (misfits<Down>) {
        return false;
    } else if constexpr (names_serve<Me>) {
        constexpr bool callable = requires(const Me& me, const Context<M>& at, Down received, State state) {
            me.serve(at, std::move(received), std::move(state));
        };
        static_assert(callable,
                      "tessera::Method: serve must be callable as serve(context, received, Client) const and return "
                      "predict(batch, out)");
        return callable;
    } else if constexpr (WrapsMethod<Me>) {
        return serve_fits<inner_t<Me>, M>();
    } else {
        constexpr bool whole = std::is_convertible_v<Down, Vec<real<M>>>;
        static_assert(whole, "tessera::Method: the default `serve` needs `send` to give the model's parameters");
        return whole;
    }
}

}  // namespace detail

template <class Me, class M>
void merge_at(const Me& me, const Context<M>& context, server_t<Me, real<M>>& server,
              std::span<const up_t<Me, M>> ups) {
    if constexpr (!detail::merge_fits<Me, M>()) {
    } else if constexpr (detail::names_merge<Me>) {
        me.merge(context, server, ups);
    } else if constexpr (detail::WrapsMethod<Me>) {
        merge_at<detail::inner_t<Me>, M>(detail::inner_of(me), context, server, ups);
    } else {
        const auto rows = rows_of(ups);
        fold_rows(me.fold, context, server.w, Rows<real<M>>(rows), server.fold);
    }
}

// Client state comes by value: evaluation, also with adaptation, cannot disturb training.
template <class Me, class M>
auto serve_at(const Me& me, const Context<M>& at, down_t<Me, real<M>> received, client_t<Me, real<M>> state) {
    if constexpr (!detail::serve_fits<Me, M>()) {
    } else if constexpr (detail::names_serve<Me>) {
        return me.serve(at, std::move(received), std::move(state));
    } else if constexpr (detail::WrapsMethod<Me>) {
        return serve_at<detail::inner_t<Me>, M>(detail::inner_of(me), at, std::move(received),
                                                std::move(detail::state_within<Me>(state)));
    } else {
        return plain(at, std::move(received));
    }
}

namespace detail {
template <class Me, class R>
concept SharesClient = WrapsMethod<Me> && std::is_same_v<client_t<Me, R>, client_t<inner_t<Me>, R>>;

// Whether a state from outside may be this client's; a wrapper asks the method inside it. `length` is of a download
// that is one vector, else of the model.
template <class Me, class M>
bool keeps_state(const Me& me, const Context<M>& at, const client_t<Me, real<M>>& state, std::size_t length) {
    if (!all_finite(state)) return false;
    if constexpr (offers_of<Me>().has(offer::keeps)) return me.keeps(at, state, length);
    else if constexpr (SharesClient<Me, real<M>>) return keeps_state<inner_t<Me>, M>(inner_of(me), at, state, length);
    else return fresh_or(state, length);
}

template <class Me, class M>
concept StreamsItself = !names_merge<Me> && LinearFold<decltype(Me::fold), M> &&
                        requires(const up_t<Me, M>& u) { row_of(u); };
}  // namespace detail

// What the server keeps of an upload until it is merged.
template <class Me, class M>
using merged_t = up_t<detail::merger_t<Me>, M>;

// The cohort can be folded as it arrives, without being kept.
template <class Me, class M>
concept StreamingMethod = detail::StreamsItself<detail::merger_t<Me>, M>;

}  // namespace tessera
