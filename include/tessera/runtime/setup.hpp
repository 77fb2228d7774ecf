// SPDX-License-Identifier: BSD-3-Clause
// What a server and its clients agree on before round one: model, method, settings, initial parameters.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <tessera/contracts/capabilities.hpp>
#include <tessera/contracts/method.hpp>
#include <tessera/contracts/policy.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/client_data.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/reflect.hpp>
#include <tessera/runtime/judge.hpp>

namespace tessera {

struct Settings {
    std::uint64_t seed = 1;    // moves initial parameters, sampling and shuffling
    std::size_t batch = 20;    // 0 takes all data of a client at once
    std::size_t rounds = 0;    // planned number of rounds, read by schedules; 0: not known
    double quorum = 0;         // share of the merged seats that must arrive for a round to count
    bool stateless = false;    // clients forget after each visit
    bool keep_uploads = false; // hold the cohort in memory also where the fold could stream
};

namespace detail {

// Numbers, vectors and masks, and plain structs of these: what can be saved, sent, hashed and counted.
template <class T>
consteval bool storable() {
    if constexpr (Number<T> || std::is_same_v<T, Mask>) {
        return true;
    } else if constexpr (Growable<T> || is_array<T>) {
        return storable<typename T::value_type>();
    } else if constexpr (std::is_class_v<T> && Reflectable<T>) {
        return []<class... F>(Types<F...>*) { return (storable<F>() && ...); }(static_cast<field_types<T>*>(nullptr));
    } else {
        return false;
    }
}

// Which field of a struct is the first that cannot be: the compiler says its name beside the sentence.
template <class T>
consteval std::size_t unstorable() {
    std::size_t number = 0;
    if constexpr (std::is_class_v<T> && Reflectable<T> && !is_array<T> && !Growable<T> && !HasBase<T> && !HasArray<T>)
        []<class... F>(Types<F...>*, std::size_t& n) { (void)((storable<F>() && (++n, true)) && ...); }(
            static_cast<field_types<T>*>(nullptr), number);
    return number;
}
struct NoField {};
template <class T>
inline Ghost<T> shadow{};  // no constant: what cannot be kept may be of no literal type
template <class T>
consteval auto first_unstorable() {
    constexpr std::size_t number = unstorable<T>();
    if constexpr (std::is_class_v<T> && Reflectable<T> && !is_array<T> && !Growable<T> && !HasBase<T> && !HasArray<T>) {
        if constexpr (number < field_count<T>) {
            constexpr auto* address = with_fields(
                shadow<T>.value, [](auto&... field) { return after(std::make_index_sequence<number>{})(&field...); });
            return FieldAddress{address};
        } else return NoField{};
    } else return NoField{};
}
template <class State, auto Field>
struct ClientKeeps {
    static_assert(storable<State>(),
                  "tessera::Method: Client<R> must be a plain struct of numbers, vectors, masks and such structs; "
                  "`Field` ends with the name of the first that is not");
};
template <class State, auto Field>
struct ServerKeeps {
    static_assert(storable<State>(),
                  "tessera::Method: Server<R> must be a plain struct of numbers, vectors, masks and such structs; "
                  "`Field` ends with the name of the first that is not");
};

template <class Me, class M>
consteval bool messages_fit() {
    using R = real<M>;
    static_assert(storable<down_t<Me, R>>(),
                  "tessera::Method: what `send` returns must be made of numbers, vectors, masks and plain structs");
    static_assert(storable<up_t<Me, M>>(),
                  "tessera::Method: what `visit` returns must be made of numbers, vectors, masks and "
                  "plain structs");
    merge_fits<Me, M>();
    serve_fits<Me, M>();
    admits_fits<Me, M>();
    takes_fits<Me, M>();
    keeps_fits<Me, M>();
    holds_fits<Me, R>();
    global_is_said<Me, R>();
    return true;
}
template <class Me, class M>
consteval bool noise_fits() {
    static_assert(!somewhere_offers<Me>(offer::adds_noise) || may_be_apart<M>(),
                  "tessera: examples of a batch meet in this model (a batch norm is one such layer), so no example "
                  "has a gradient of its own to clip; use GroupNorm or LayerNorm where single examples are to be "
                  "private");
    return true;
}

// Asked before any body is compiled, so that the first error is the sentence.
template <class Me, class M>
consteval bool method_fits() {
    static_assert(sizeof(Me) > 0);  // what it says of its own holes, with few lines around it
    if constexpr (Model<M>) {
        using R = real<M>;
        constexpr bool keeps = storable<client_t<Me, R>>() && storable<server_t<Me, R>>();
        (void)ClientKeeps<client_t<Me, R>, first_unstorable<client_t<Me, R>>()>{};
        (void)ServerKeeps<server_t<Me, R>, first_unstorable<server_t<Me, R>>()>{};
        if constexpr (keeps) messages_fit<Me, M>();
    }
    return true;
}

template <class M>
void check_width(const M& model, const ClientData& share, const std::string& who) {
    const std::size_t width = input_width(model);
    require(width == 0 || share.examples->width == width,
            who + " has examples of " + std::to_string(share.examples->width) + " numbers, the model reads " +
                std::to_string(width));
}
// Public data may have classes of its own: its labels are not read.
template <class M>
void check_classes(const M& model, const ClientData& share, const std::string& who) {
    const std::size_t outputs = model.outputs() / positions(model);
    require(!share.examples->labels || share.examples->classes <= outputs,
            who + " has examples of " + std::to_string(share.examples->classes) + " classes, the model has " +
                std::to_string(outputs) + " outputs");
}
template <class M>
void accept(const M& model, const Examples& examples, [[maybe_unused]] bool labelled) {
    if constexpr (JudgingModel<M>) model.accepts(examples, labelled);
}

// Of whatever policy counts on nobody's knowing who was drawn, the key that plans are drawn with.
template <class Me>
Key plan_key(const Me& method, Key key) {
    Key drawn = key;
    for_each_policy(method, [&]<class P>(const P& policy) {
        if constexpr (offers_of<P>().has(offer::cohort_key)) drawn = policy.cohort_key(key);
    });
    return drawn;
}
}  // namespace detail

// Must outlive the endpoints made from it.
template <class Me, class M>
struct Setup {
    static_assert(check_model<M>());
    static_assert(detail::model_is_spelt<M>());
    static_assert(detail::verbs_are_spelt<Me>());
    static_assert(detail::all_are_spelt<Me>());
    static_assert(detail::method_fits<Me, M>());
    static_assert(detail::noise_fits<Me, M>());
    static_assert(detail::is_checked<Me>(),
                  "tessera::Method: a method with constructors or private members must check its settings, and those "
                  "of what it holds, in a `void validate() const` of its own");
    using R = real<M>;

    M model;
    Me method;
    Settings settings;
    Vec<R> initial;
    std::size_t clients;  // of the federation
    Form download_form;   // of what the method sends of its first state

    // A warm start is the vector an earlier stage ended with; empty draws the initial parameters from the seed. A
    // device need not know how many clients there are, unless the lengths of what its method sends depend on it.
    Setup(M m, Me me, Settings s, Vec<R> warm_start = {}, std::size_t all_clients = 1)
        : model(std::move(m)),
          method(std::move(me)),
          settings(s),
          initial(std::move(warm_start)),
          clients(all_clients) {
        detail::validate_all(method);
        detail::require(settings.quorum >= 0 && settings.quorum <= 1,
                        "quorum must lie in [0, 1], not " + std::to_string(settings.quorum));
        detail::require(settings.rounds >= 1 || !detail::reads_rounds(method),
                        "a schedule of this method ends with the run: set Settings::rounds to the number of rounds "
                        "that are planned");
        detail::require(!settings.stateless || detail::needs_memory(method).empty(),
                        "stateless clients forget, and this method needs clients that remember: " +
                            std::string(detail::needs_memory(method)));
        const std::size_t d = dimension(model);
        if (initial.empty()) initial = initial_parameters(model, Key{settings.seed}(purpose::init));
        detail::require(initial.size() == d, "the warm start has " + std::to_string(initial.size()) +
                                                 " parameters, the model has " + std::to_string(d));
        for (const R x : initial)
            detail::require(std::isfinite(x), "the warm start holds a number that is not finite");
        Workspace<R> workspace;
        const Examples none;
        const ClientData nobody{.examples = &none};
        const auto opened = open_at<Me, M>(method, context(nobody, 0, 0, workspace), initial, clients);
        download_form = form_of(detail::plain_download<Me, R>(method, opened, 0));
    }

    // How long a vector of a client's state is, unless the method says otherwise (contracts/method.hpp).
    std::size_t state_length() const {
        if constexpr (std::is_same_v<detail::plain_down_t<Me, R>, Vec<R>>)
            return static_cast<std::size_t>(download_form[0]);
        else return initial.size();
    }

    Context<M> context(const ClientData& data, Id id, std::size_t round, Workspace<R>& workspace) const {
        return {.model = &model,
                .examples = data.examples,
                .ids = data.train,
                .key = Key{settings.seed}(purpose::client)(data.key),
                .batch = settings.batch,
                .id = id,
                .round = round,
                .rounds = settings.rounds,
                .initial = &initial,
                .workspace = &workspace};
    }
};

}  // namespace tessera
