// SPDX-License-Identifier: BSD-3-Clause
// Recipes: values that say which layers a network has and how they are joined. A recipe is anything with
//
//   template <class B> constexpr int add(B& to, int v) const      adds layers behind value v, returns what comes out
//
// and leaves nothing behind but layers, so no pass over a network ever hears of it. The same recipe counts parameters
// in a constant expression and builds a network of widths known at run time:
//
//   constexpr auto dnn = chain(Linear{100}, LeakyRelu{}, Linear{10});
//   static_assert(parameters(784, dnn) == 79'510);
//
//   chain(a, b, ...)         one after the other; parameters are named by their place, "0.weight", "2.1.bias"
//   residual(inner, across)  inner(x) + across(x); without `across`, inner(x) + x
//   adapter(inner, start)    the same with x itself, all parameters of Part::adapter; how they start: LastAtZero, Near
//   bottleneck(rank, start)  x + W2 relu(W1 x + b1) + b2 (Houlsby et al. 2019)
//   horizontal(cut, a, b)    a on the first `cut` numbers, b on the others, side by side; b is of Part::adapter
//   repeat(n, inner)         n of them, each with parameters of its own; n may be known at run time only
//   again(n, inner)          n times the same layer, with the same parameters
//   unrouted(inner)          an element of the outermost chain that is no block of routing: it is the global one's
//   by_position(inner)       one that is mixed at every position of a sequence, each by a question of its own
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/joint.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/linear.hpp>

namespace tessera::nn {

template <class L, class B>
concept Recipe = requires(const L recipe, B& to, int v) {
    { recipe.add(to, v) } -> std::same_as<int>;
};

// Where the parameters of a layer lie that is used more than once. Uses of one Tie share them.
struct Tie {
    std::size_t at = none;
    static constexpr std::size_t none = static_cast<std::size_t>(-1);
};

// What both builders do alike: where a recipe stands, and what its segments are called. Beside that a recipe may ask
//
//   to(layer, v)                      the layer or recipe behind value v
//   to.element(i, layer, v)           element i of a chain. Elements of the outermost chain with parameters are blocks
//                                     of routing, and what its last element reads are the features of the network.
//   to.element(i, name, layer, v)     the same with a name of its own instead of its number
//   to.part(i, name, inner, v)        part i of a recipe that is no chain
//   to.put(layer, {v, ...}, tie)      a layer that reads several values, or shares its parameters with others
//   to.shape(v), to.mark(), to.change(mark, f)
//   to.route(how)                     how the element of the outermost chain that is being added is routed
enum class RoutedAt : std::uint8_t { example, position, nowhere };

class Builder {
public:
    constexpr std::size_t depth() const { return path_.depth; }
    constexpr void route(RoutedAt how) {
        if (depth() != 1)
            throw ConfigError("nn: unrouted and by_position are for elements of the outermost chain, which alone are "
                              "blocks of routing");
        routed_ = how;
    }
    static constexpr Name number_of(std::size_t number) {
        constexpr std::string_view digits = "0123456789";
        Name name = number >= 10 ? number_of(number / 10) : Name();
        name.append(digits.substr(number % 10, 1));
        return name;
    }

protected:
    // What is added from here on is element `number` of a recipe, whose parameters have `name` in theirs, if there is
    // one. Returns what to leave it with.
    constexpr Name enter(std::size_t number, std::string_view name) {
        const Name before = prefix_;
        path_.enter(number);
        if (!name.empty()) {
            prefix_.append(name);
            prefix_.append(".");
        }
        return before;
    }
    constexpr void leave(const Name& before) {
        prefix_ = before;
        path_.leave();
    }

    Path path_{};
    Name prefix_{};
    RoutedAt routed_ = RoutedAt::example;  // the element of the outermost chain
};

namespace detail {

// Segments of one layer share their name up to the last dot.
constexpr std::string_view owner_of(const Segment& s) {
    const auto name = s.name.view();
    return name.substr(0, name.rfind('.') == name.npos ? 0 : name.rfind('.'));
}

// The first layer with parameters is the input part, the last one the head; those of a norm, an adapter or a router
// keep the part that they name.
constexpr void name_parts(std::span<Segment> all) {
    const Segment *first = nullptr, *last = nullptr;
    for (const auto& s : all)
        if (s.part == Part::body) {
            if (!first) first = &s;
            last = &s;
        }
    if (!first) return;
    const Name input(owner_of(*first)), head(owner_of(*last));
    for (auto& s : all) {
        if (s.part != Part::body) continue;
        if (owner_of(s) == head.view()) s.part = Part::head;
        else if (owner_of(s) == input.view()) s.part = Part::input;
    }
}

// Of a layer that reads these values, before it says anything itself.
constexpr Spec spec_before(std::span<const int> from, std::span<const Shape> shapes, const Path& path,
                           bool* misfit = nullptr) {
    Spec s;
    s.misfit = misfit;
    if (from.size() > Spec::most_inputs) throw ConfigError("nn: a layer reads at most 4 values");
    s.inputs = from.size();
    for (std::size_t k = 0; k < from.size(); ++k) s.in[k] = shapes[static_cast<std::size_t>(from[k])];
    s.path = path;
    return s;
}

}  // namespace detail

// The builder for constant expressions: shapes, numbers, and the first `Most` segments.
template <std::size_t Most = 0>
class Outline : public Builder {
public:
    constexpr explicit Outline(Shape in) { shapes_[0] = in; }
    // The same, for whoever only wants to know whether the layers fit.
    constexpr Outline(Shape in, bool* misfit) : misfit_(misfit) { shapes_[0] = in; }

    constexpr int put(const auto& layer, std::span<const int> from, Tie* tie = nullptr) {
        if (misfit_ && *misfit_) return 0;
        Spec s = detail::spec_before(from, shapes_, path_, misfit_);
        layer.infer(s);
        if (misfit_ && *misfit_) return 0;
        if (count_ == shapes_.size()) throw ConfigError("nn: at most 1023 layers are counted in a constant expression");
        flops += s.flops;
        apart = apart && s.apart;
        bytes = bytes || s.reads_bytes;
        large = large || s.parameters >= kernels::least_packed_factor ||
                (s.parameters > 0 && (!s.affine || s.out.size() >= kernels::least_packed_rows));
        for (std::size_t k = 0; k < s.inputs; ++k) sequences = sequences || s.in[k].rank == 2;
        shapes_[count_] = s.out;
        if (tie && tie->at != Tie::none) return static_cast<int>(count_++);
        if (tie) tie->at = parameters;
        for (std::size_t k = 0; k < s.parts; ++k, ++segment_count)
            if (segment_count < Most) segments[segment_count] = placed(s.segments[k], prefix_.view(), parameters);
        parameters += s.parameters;
        return static_cast<int>(count_++);
    }
    template <class L>
    constexpr int operator()(const L& layer, int v) {
        if constexpr (Recipe<L, Outline>) return layer.add(*this, v);
        else return put(layer, std::array{v});
    }
    template <class L>
    constexpr int element(std::size_t number, const L& layer, int v) {
        return element(number, number_of(number).view(), layer, v);
    }
    template <class L>
    constexpr int element(std::size_t number, std::string_view name, const L& layer, int v) {
        if (depth() == 0) last_input = v;
        const Name before = enter(number, name);
        const int out = (*this)(layer, v);
        leave(before);
        return out;
    }
    template <class L>
    constexpr int part(std::size_t number, std::string_view name, const L& layer, int v) {
        const Name before = enter(number, name);
        const int out = (*this)(layer, v);
        leave(before);
        return out;
    }
    constexpr std::size_t mark() const { return segment_count; }
    // f(segment, whether it is of the last layer) for the segments since the mark
    template <class F>
    constexpr void change(std::size_t mark, const F& f) {
        if (segment_count > Most || mark == segment_count) return;
        const Name last(detail::owner_of(segments[segment_count - 1]));
        for (std::size_t k = mark; k < segment_count; ++k) f(segments[k], detail::owner_of(segments[k]) == last.view());
    }
    constexpr const Shape& shape(int v) const { return shapes_[static_cast<std::size_t>(v)]; }
    constexpr const Shape& out() const { return shapes_[count_ - 1]; }

    std::array<Segment, Most> segments{};
    std::size_t segment_count = 0, parameters = 0;
    double flops = 0;
    int last_input = 0;
    bool apart = true;  // no example meets another
    bool sequences = false, bytes = false;  // some layer reads them
    bool large = false;  // some product may be large enough for kernels/packed.hpp

private:
    bool* misfit_ = nullptr;
    std::array<Shape, 1024> shapes_{};
    std::size_t count_ = 1;
};

// Whether the layers can read such inputs.
template <class L>
constexpr bool fits(Shape in, const L& layers) {
    bool misfit = in.size() == 0;
    Outline<> outline(in, &misfit);
    outline(layers, 0);
    return !misfit;
}
template <class L>
constexpr std::size_t parameters(Shape in, const L& layers) {
    Outline<> outline(in);
    outline(layers, 0);
    return outline.parameters;
}
template <class L>
constexpr Shape output(Shape in, const L& layers) {
    Outline<> outline(in);
    outline(layers, 0);
    return outline.out();
}

namespace detail {
// Here, so that a mistake in a layer is told where the layer is named and not inside a network.
template <class L>
consteval bool layer_or_recipe() {
    if constexpr (Recipe<L, Outline<>>) return true;
    else return check_layer<L, float>();
}
}  // namespace detail

template <class... Ls>
struct Chain {
    static_assert((detail::layer_or_recipe<Ls>() && ...));
    std::tuple<Ls...> layers;

    template <class B>
    constexpr int add(B& to, int v) const {
        std::apply(
            [&](const auto&... layer) {
                [[maybe_unused]] std::size_t i = 0;
                ((v = to.element(i++, layer, v)), ...);
            },
            layers);
        return v;
    }
};
template <class... Ls>
constexpr Chain<Ls...> chain(Ls... layers) {
    return {{std::move(layers)...}};
}

// A chain whose length is known at run time only.
template <class L>
struct ChainOf {
    std::vector<L> layers;

    template <class B>
    constexpr int add(B& to, int v) const {
        for (std::size_t i = 0; i < layers.size(); ++i) v = to.element(i, layers[i], v);
        return v;
    }
};

template <class Inner>
struct Repeat {
    std::size_t times;
    Inner inner;

    template <class B>
    constexpr int add(B& to, int v) const {
        for (std::size_t i = 0; i < times; ++i) v = to.element(i, inner, v);
        return v;
    }
};
template <class Inner>
constexpr Repeat<Inner> repeat(std::size_t times, Inner inner) {
    return {times, std::move(inner)};
}

// Uses are not named: their parameters are one layer's.
template <class Inner>
struct Again {
    std::size_t times;
    Inner inner;

    template <class B>
    constexpr int add(B& to, int v) const {
        Tie tie;
        for (std::size_t i = 0; i < times; ++i) v = to.put(inner, std::array{v}, &tie);
        return v;
    }
};
template <class Inner>
constexpr Again<Inner> again(std::size_t times, Inner inner) {
    return {times, std::move(inner)};
}

template <class Inner>
struct Element {
    Inner inner;
    RoutedAt at;

    template <class B>
    constexpr int add(B& to, int v) const {
        to.route(at);
        return to(inner, v);
    }
};
template <class Inner>
constexpr Element<Inner> unrouted(Inner inner) {
    return {std::move(inner), RoutedAt::nowhere};
}
template <class Inner>
constexpr Element<Inner> by_position(Inner inner) {
    return {std::move(inner), RoutedAt::position};
}

struct Identity {
    template <class B>
    constexpr int add(B&, int v) const {
        return v;
    }
};

template <class Inner, class Across = Identity>
struct Residual {
    Inner inner;
    Across across{};

    template <class B>
    constexpr int add(B& to, int v) const {
        const int through = to.part(0, "inner", inner, v), beside = to.part(1, "across", across, v);
        return to.put(Add{}, std::array{beside, through});
    }
};
template <class Inner, class Across = Identity>
constexpr Residual<Inner, Across> residual(Inner inner, Across across = {}) {
    return {std::move(inner), std::move(across)};
}

// The last layer of an adapter is 0: a fresh one does nothing, bit for bit.
struct LastAtZero {
    constexpr void first_values(Segment& s, bool of_last) const {
        if (!of_last) return;
        s.fan_in = 0;
        s.value = s.deviation = 0;
    }
};
// Weights N(0, deviation), biases 0: it does nearly nothing (0.01 in transformers, 1e-4 in PerAda).
struct Near {
    double deviation = 0.01;

    constexpr void first_values(Segment& s, bool) const {
        if (s.fan_in == 0) return;  // a norm starts as norms do
        s.fan_in = 0;
        s.value = 0;
        s.deviation = s.rank > 1 ? deviation : 0;
    }
};

template <class Inner, class Start = LastAtZero>
struct Adapter {
    Inner inner;
    Start start{};

    template <class B>
    constexpr int add(B& to, int v) const {
        const std::size_t mark = to.mark();
        const int through = to.part(0, {}, inner, v);
        to.change(mark, [&](Segment& s, bool of_last) {
            if (s.part == Part::buffer) return;
            s.part = Part::adapter;
            start.first_values(s, of_last);
        });
        return to.put(Add{}, std::array{v, through});
    }
};
template <class Inner, class Start = LastAtZero>
constexpr Adapter<Inner, Start> adapter(Inner inner, Start start = {}) {
    return {std::move(inner), std::move(start)};
}

// Two branches side by side (Pillutla et al., ICML 2022, figure 1c), y = (shared(x[0..cut)), own(x[cut..))). The
// personal branch has part `adapter`, so scope::Adapter keeps private features and what reads them at home.
template <class Shared, class Own>
struct Horizontal {
    std::size_t cut;
    Shared shared;
    Own own;

    template <class B>
    constexpr int add(B& to, int v) const {
        const std::size_t all = to.shape(v).size();
        if (cut == 0 || cut >= all) throw ConfigError("nn::horizontal: the cut must leave numbers on both sides");
        const int left = to.put(Cut{0, cut}, std::array{v}), right = to.put(Cut{cut, all - cut}, std::array{v});
        const int first = to.part(0, "shared", shared, left);
        const std::size_t mark = to.mark();
        const int second = to.part(1, "own", own, right);
        to.change(mark, [](Segment& s, bool) {
            if (s.part != Part::buffer) s.part = Part::adapter;
        });
        return to.put(Concatenate{}, std::array{first, second});
    }
};
template <class Shared, class Own>
constexpr Horizontal<Shared, Own> horizontal(std::size_t cut, Shared shared, Own own) {
    return {cut, std::move(shared), std::move(own)};
}

template <class Start = LastAtZero>
struct Bottleneck {
    std::size_t rank = 1;
    Start start{};

    template <class B>
    constexpr int add(B& to, int v) const {
        return adapter(chain(Linear{rank}, Relu{}, Linear{to.shape(v).width()}), start).add(to, v);
    }
};
template <class Start = LastAtZero>
constexpr Bottleneck<Start> bottleneck(std::size_t rank, Start start = {}) {
    return {rank, std::move(start)};
}

}  // namespace tessera::nn
