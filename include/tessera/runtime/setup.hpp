// SPDX-License-Identifier: BSD-3-Clause
// What a server and its clients agree on before round one: model, method, settings, initial parameters.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <tessera/contracts/method.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/client_data.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/reflect.hpp>

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

// Calls validate() on a policy and on every policy inside it.
template <class P>
void validate_all(const P& policy) {
    if constexpr (requires { policy.validate(); }) policy.validate();
    if constexpr (std::is_class_v<P> && Reflectable<P>)
        with_fields(policy, [](const auto&... field) { (validate_all(field), ...); });
}

// Only a plain struct can be looked into.
template <class P>
consteval bool is_checked() {
    return Reflectable<P> || requires(const P& policy) { policy.validate(); };
}

// Whether a policy, or one inside it, cannot do without the planned number of rounds: `bool reads_rounds() const`.
template <class P>
bool reads_rounds(const P& policy) {
    bool found = false;
    if constexpr (requires { policy.reads_rounds(); }) found = policy.reads_rounds();
    if constexpr (std::is_class_v<P> && Reflectable<P>)
        with_fields(policy, [&](const auto&... field) { found = (found || ... || reads_rounds(field)); });
    return found;
}

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

// Asked before any body is compiled, so that the first error is the sentence.
template <class Me, class M>
consteval bool method_fits() {
    if constexpr (Model<M>) {
        using R = real<M>;
        static_assert(storable<client_t<Me, R>>(),
                      "tessera::Method: Client<R> must be a plain struct of numbers, vectors, masks and such structs");
        static_assert(storable<server_t<Me, R>>(),
                      "tessera::Method: Server<R> must be a plain struct of numbers, vectors, masks and such structs");
        static_assert(storable<down_t<Me, R>>(),
                      "tessera::Method: what `send` returns must be made of numbers, vectors, masks and plain structs");
        static_assert(storable<up_t<Me, M>>(),
                      "tessera::Method: what `visit` returns must be made of numbers, vectors, masks and "
                      "plain structs");
        merge_fits<Me, M>();
        serve_fits<Me, M>();
    }
    return true;
}

}  // namespace detail

// Must outlive the endpoints made from it.
template <class Me, class M>
struct Setup {
    static_assert(check_model<M>());
    static_assert(detail::verbs_are_spelt<Me>());
    static_assert(detail::method_fits<Me, M>());
    static_assert(detail::is_checked<Me>(),
                  "tessera::Method: a method with constructors or private members must check its settings, and those "
                  "of what it holds, in a `void validate() const` of its own");
    using R = real<M>;

    M model;
    Me method;
    Settings settings;
    Vec<R> initial;
    std::size_t download_size = 0;  // of what the default `send` gives; 0 where a method sends its own

    // A warm start is the vector an earlier stage ended with; empty draws the initial parameters from the seed.
    Setup(M m, Me me, Settings s, Vec<R> warm_start = {})
        : model(std::move(m)), method(std::move(me)), settings(s), initial(std::move(warm_start)) {
        detail::validate_all(method);
        detail::require(settings.quorum >= 0 && settings.quorum <= 1,
                        "quorum must lie in [0, 1], not " + std::to_string(settings.quorum));
        detail::require(settings.rounds >= 1 || !detail::reads_rounds(method),
                        "a schedule of this method ends with the run: set Settings::rounds to the number of rounds "
                        "that are planned");
        if constexpr (detail::needs_memory<Me>())
            detail::require(!settings.stateless, "this method needs clients that remember; leave stateless off");
        if constexpr (requires { method.remember; })
            detail::require(!(settings.stateless && method.remember),
                            "stateless clients forget the mask that this method lets them remember; set "
                            "remember=false, which sends its bits at every visit, or leave stateless off");
        const std::size_t d = dimension(model);
        if (initial.empty()) initial = initial_parameters(model, Key{settings.seed}(purpose::init));
        detail::require(initial.size() == d, "the warm start has " + std::to_string(initial.size()) +
                                                 " parameters, the model has " + std::to_string(d));
        for (const R x : initial)
            detail::require(std::isfinite(x), "the warm start holds a number that is not finite");
        if constexpr (!detail::names_send<Me>) {
            Workspace<R> workspace;
            download_size = open_at<Me, M>(method, site({}, 0, 0, workspace), initial, 1).w.size();
        }
    }

    Site<M> site(const ClientData& data, Id id, std::size_t round, Workspace<R>& workspace) const {
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
