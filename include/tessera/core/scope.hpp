// SPDX-License-Identifier: BSD-3-Clause
// Scopes as values: what a method holds to say which coordinates are meant.
//
//   bool selects(const Segment&)              compulsory; static (known when compiling) or const (a value's choice)
//
// and, listed in `offers` (core/offers.hpp),
//   may_be_empty     finding nothing is no mistake
//   has              bool has(const Segment&, Id) const: of what it selects, what this client has; the rest reads 0
//   check            void check(Layout) const: throws ConfigError if the model cannot be meant
//
// A static scope that finds nothing in a network does not compile; any other scope, and any model chosen at run
// time, gets a ConfigError that lists what the model has.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/offers.hpp>

namespace tessera {

template <class S>
concept Scope = std::copyable<S> && requires(const S scope, const Segment& segment) {
    { scope.selects(segment) } -> std::convertible_to<bool>;
};

namespace detail {

template <class S>
concept StaticScope = requires(const Segment& segment) { S::selects(segment); };

// False: a scope and a model known when compiling do not go together.
template <class S, class M>
consteval bool finds() {
    if constexpr (StaticScope<S> && !may_find_nothing<S>() && requires { M::segments; })
        return !tessera::select<S>(M::segments).empty();
    else return true;
}

struct ScopeNames {
    int may_be_empty, has, check;
};
template <class S> concept names_may_be_empty = !requires { &Probed<S, ScopeNames>::may_be_empty; };
template <class S> concept names_has = !requires { &Probed<S, ScopeNames>::has; };
template <class S> concept names_scope_check = !requires { &Probed<S, ScopeNames>::check; };

template <class S>
consteval bool scope_is_spelt() {
    static_assert(policy_is_spelt<S>());
    if constexpr (StatesOffers<S>) {
        static_assert(!names_may_be_empty<S>, "tessera::Scope: `may_be_empty` is no member: list it in `offers`");
        static_assert(agrees<S>(names_has<S>, offer::has),
                      "tessera::Scope: `has` must be a member and be listed in `offers`, or neither; is it misspelt?");
        static_assert(
            agrees<S>(names_scope_check<S>, offer::check),
            "tessera::Scope: `check` must be a member and be listed in `offers`, or neither; is it misspelt?");
    }
    return true;
}

// "0.weight (input), 0.bias (input), 2.weight (head)"
inline std::string segments_in_words(Layout layout) {
    std::string all;
    for (const auto& s : layout)
        all.append(all.empty() ? "" : ", ").append(s.name.view()).append(" (").append(name_of(s.part)).append(")");
    return all.empty() ? "no parameters" : all;
}

// f(piece) for each piece of a text between separators.
template <class F>
void for_each_piece(std::string_view text, char separator, F&& f) {
    for (;;) {
        const auto end = text.find(separator);
        f(text.substr(0, end));
        if (end == text.npos) return;
        text.remove_prefix(end + 1);
    }
}

}  // namespace detail

namespace scope {

// The same scope, where finding nothing is no mistake.
template <class S>
struct IfAny {
    static constexpr auto offers = offer::may_be_empty;
    static constexpr bool selects(const Segment& s) { return S::selects(s); }
};

// All that feeds the head.
struct BelowHead {
    static constexpr Offers offers{};
    static constexpr bool selects(const Segment& s) { return s.part != Part::head; }
};

// Written down at run time: parts and segments joined by +, as in "input", "output+norm", "named:0.weight,2".
// A segment is named in full or by the beginning of its name up to a dot. Every piece must find something.
class Chosen {
public:
    static constexpr auto offers = offer::may_be_empty | offer::check;  // check() has asked piece by piece

    constexpr Chosen() = default;  // "output"
    Chosen(std::string_view text) : text_{} {
        if (text.size() > text_.size())
            throw ConfigError("a scope has at most " + std::to_string(text_.size()) + " letters, not " +
                              std::to_string(text.size()));
        std::copy(text.begin(), text.end(), text_.begin());
        size_ = text.size();
        detail::for_each_piece(text, '+', [&](std::string_view piece) {
            for (const auto& word : words)
                if (piece == word.text) return;
            if (!piece.starts_with(named) || piece.size() == named.size())
                throw ConfigError(
                    "a scope is made of input, output (or head), body, norm, adapter, router, all, none "
                    "and named:<segments>, joined by +; '" +
                    std::string(piece) + "' is none of them");
        });
    }
    Chosen(const char* text) : Chosen(std::string_view(text)) {}
    Chosen(const std::string& text) : Chosen(std::string_view(text)) {}

    std::string_view text() const { return {text_.data(), size_}; }
    bool selects(const Segment& s) const {
        bool found = false;
        for_each_word([&](std::string_view, auto&& fits) { found = found || fits(s); });
        return found;
    }
    void check(Layout layout) const {
        for_each_word([&](std::string_view word, auto&& fits) {
            bool found = word == "none" || word == "all";
            for (const auto& s : layout) found = found || fits(s);
            if (!found)
                throw ConfigError("'" + std::string(word) + "' in the scope '" + std::string(text()) +
                                  "' selects nothing in this model, which has " + detail::segments_in_words(layout));
        });
    }
    friend bool operator==(const Chosen&, const Chosen&) = default;

private:
    struct Word {
        std::string_view text;
        bool (*selects)(const Segment&);
    };
    static constexpr std::array<Word, 9> words{{{"input", Input::selects},
                                                {"output", Head::selects},
                                                {"head", Head::selects},
                                                {"body", Is<Part::body>::selects},
                                                {"norm", Norm::selects},
                                                {"adapter", Adapter::selects},
                                                {"router", Router::selects},
                                                {"all", All::selects},
                                                {"none", None::selects}}};
    static constexpr std::string_view named = "named:";

    // f(word, does it select a segment) for each part and each name in the text.
    template <class F>
    void for_each_word(F&& f) const {
        detail::for_each_piece(text(), '+', [&](std::string_view piece) {
            for (const auto& word : words)
                if (piece == word.text) return f(piece, word.selects);
            detail::for_each_piece(piece.substr(named.size()), ',', [&](std::string_view name) {
                f(name, [name](const Segment& s) {
                    const auto full = s.name.view();
                    return full == name || (full.starts_with(name) && full[name.size()] == '.');
                });
            });
        });
    }

    // In place, so that a scope is a plain value: Clang 16 reflects no policy that holds a std::string.
    std::array<char, 256> text_{'o', 'u', 't', 'p', 'u', 't'};
    std::size_t size_ = 6;
};

}  // namespace scope

template <Scope S>
constexpr Coordinates select(const S& scope, Layout layout) {
    Coordinates w = Coordinates::none();
    for (const auto& s : layout)
        if (scope.selects(s)) w.add({s.offset, s.end()});
    return w;
}

// The scope's coordinates in this model.
template <Scope S, class M>
Coordinates on(const S& scope, const M& model) {
    static_assert(detail::finds<S, M>(), "tessera: this scope selects nothing in this model (is there no such layer?)");
    const Layout layout = model.layout();
    static_assert(detail::scope_is_spelt<S>());
    if constexpr (detail::offers_of<S>().has(offer::check)) scope.check(layout);
    const Coordinates found = select(scope, layout);
    if (found.empty() && !detail::may_find_nothing<S>())
        throw ConfigError("the scope selects nothing in this model, which has " + detail::segments_in_words(layout));
    return found;
}
// All others.
template <Scope S, class M>
Coordinates off(const S& scope, const M& model) {
    Coordinates w = Coordinates::none();
    for (const auto& s : model.layout())
        if (!scope.selects(s)) w.add({s.offset, s.end()});
    return w;
}

// Those this client has, and those it lacks.
template <Scope S, class M>
Coordinates on(const S& scope, const M& model, Id client) {
    static_assert(detail::finds<S, M>(), "tessera: this scope selects nothing in this model (is there no such layer?)");
    Coordinates w = on(scope, model);
    if constexpr (detail::offers_of<S>().has(offer::has)) {
        w = Coordinates::none();
        for (const auto& s : model.layout())
            if (scope.selects(s) && scope.has(s, client)) w.add({s.offset, s.end()});
    }
    return w;
}
template <Scope S, class M>
Coordinates lacking(const S& scope, const M& model, Id client) {
    Coordinates w = Coordinates::none();
    if constexpr (detail::offers_of<S>().has(offer::has))
        for (const auto& s : model.layout())
            if (scope.selects(s) && !scope.has(s, client)) w.add({s.offset, s.end()});
    return w;
}

}  // namespace tessera
