// SPDX-License-Identifier: BSD-3-Clause
// Graph: a network as one list of layers with shapes, parameters and planned memory. Built once from a recipe; const
// and shared from then on, by threads too.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tessera/contracts/routable.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/nn/backend.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/plan.hpp>
#include <tessera/nn/recipe.hpp>

namespace tessera::nn {

// A layer of the list. Its parameters begin at w; uses of the same ones name the first of them as owner.
template <class R>
struct Node {
    std::shared_ptr<const Op<R>> op;
    std::size_t first = 0;  // of its sources
    std::size_t w = 0;
    std::size_t owner = 0;
    bool shared = false;  // its parameters have several uses
    std::size_t sum = 0;  // where the sum over these uses lies among such sums

    const Spec& spec() const { return op->spec; }
    Range range() const { return {w, w + op->spec.parameters}; }
};

namespace detail {
// A layer for the list; what it says of itself is not asked yet.
template <class R, class L>
std::shared_ptr<Op<R>> op_of(L layer) {
    return std::allocate_shared<OpOf<R, L>>(ArenaAllocator<OpOf<R, L>>(), std::move(layer));
}
}  // namespace detail

template <class R>
class Graph : public Builder {
public:
    template <class L>
    Graph(Shape in, const L& layers, const Backend<R>& who = backend_for<R>()) : on(&who) {
        begin(in);
        (*this)(layers, 0);
        finish(Mode::route_all);
    }

    // A rewrite: another list with the input and the backend of `of`, whose layers f(list) adds. It trains and
    // predicts; nobody asks it for features, clipped sums or routes. masked.hpp is one; neighbours that become one
    // layer would be another.
    template <class F>
    Graph(const Graph& of, const F& f) : on(of.on) {
        begin(of.shapes.front());
        f(*this);
        finish(Mode::train);
    }
    Graph(const Graph&) = default;
    ~Graph();

    // What recipes ask of a builder (recipe.hpp).
    template <class L>
    int put(L layer, std::span<const int> from, Tie* tie = nullptr) {
        if constexpr (check_layer<L, R>()) {
            Spec spec = detail::spec_before(from, shapes, path_);
            layer.infer(spec);
            auto op = detail::op_of<R>(std::move(layer));
            op->spec = spec;
            return add(std::move(op), from, tie);
        }
        return 0;
    }
    // A layer that knows its shapes.
    int add(std::shared_ptr<const Op<R>> op, std::span<const int> from, Tie* tie = nullptr);
    template <class L>
    int operator()(const L& layer, int v) {
        if constexpr (Recipe<L, Graph>) return layer.add(*this, v);
        else return put(layer, std::array{v});
    }
    template <class L>
    int element(std::size_t number, const L& layer, int v) {
        return element(number, number_of(number).view(), layer, v);
    }
    template <class L>
    int element(std::size_t number, std::string_view name, const L& layer, int v) {
        const Within within = enter_element(number, name);
        const int out = (*this)(layer, v);
        leave_element(within, v, out);
        return out;
    }
    template <class L>
    int part(std::size_t number, std::string_view name, const L& layer, int v) {
        const Name before = enter(number, name);
        const int out = (*this)(layer, v);
        leave(before);
        return out;
    }
    std::size_t mark() const { return segments.size(); }
    template <class F>
    void change(std::size_t mark, const F& f) {
        if (mark == segments.size()) return;
        const Name last(detail::owner_of(segments.back()));
        for (std::size_t k = mark; k < segments.size(); ++k)
            f(segments[k], detail::owner_of(segments[k]) == last.view());
    }
    const Shape& shape(int v) const { return shapes[static_cast<std::size_t>(v)]; }

    // The list.
    std::size_t size() const { return nodes.size(); }
    std::span<const int> from(std::size_t i) const {
        return {sources.data() + nodes[i].first, nodes[i].op->spec.inputs};
    }
    std::size_t inputs() const { return shapes.front().size(); }
    std::size_t outputs() const { return shapes.back().size(); }
    std::size_t positions() const { return shapes.back().positions(); }
    // Examples that rooms are for.
    std::size_t pitch(std::size_t batch) const {
        return lanes == 1 ? batch : std::max<std::size_t>((batch + lanes - 1) / lanes, 1) * lanes;
    }
    const Plan& plan(Mode m) const { return plans[static_cast<std::size_t>(m)]; }
    std::span<const Stage> stages_of(Mode m) const {
        return m == Mode::route_all ? std::span<const Stage>(&whole, 1) : std::span<const Stage>(stages);
    }
    std::size_t blocks(Mode m) const {
        std::size_t n = 0;
        for (const Stage& s : stages_of(m)) n += questions(m, s);
        return n;
    }
    // Whether a stage is one layer that mixes by itself, and how often a stage asks its gate.
    bool mixes(Mode m, const Stage& s) const {
        return m == Mode::route && s.block && s.last == s.first + 1 && nodes[s.first].spec().asks > 0;
    }
    bool mixes(Mode m) const {
        for (const Stage& s : stages_of(m))
            if (mixes(m, s)) return true;
        return false;
    }
    std::size_t questions(Mode m, const Stage& s) const {
        return mixes(m, s) ? nodes[s.first].spec().asks : s.block ? s.asks : 0;
    }
    // What a block shows its gate.
    Shown shown(Mode m, const Stage& s) const {
        const Shape &in = shapes[s.first], &out = shapes[s.last];
        if (mixes(m, s)) return {questions(m, s), in.width(), nodes[s.first].spec().holds, out.width(), true};
        const std::size_t n = out.size() / s.asks;
        return {s.asks, in.size() / s.asks, n, n, false};
    }
    Vec<Shown> shown(Mode m) const {
        Vec<Shown> all;
        for (const Stage& s : stages_of(m))
            if (s.block) all.push_back(shown(m, s));
        return all;
    }
    // Whether layer i alone reads what comes before it, and takes rows where they lie.
    bool reads_rows_at(std::size_t i) const {
        return readers[i] == 1 && nodes[i].spec().reads_rows && on->reads_rows();
    }
    double flops() const;

    // Before round one: ConfigError if these rows are not what the first layer reads.
    void accepts(const Examples& examples) const;

    const Backend<R>* on;
    Vec<Node<R>> nodes;
    Vec<int> sources;
    Vec<Shape> shapes;
    Vec<Segment> segments;
    Vec<Stage> stages;
    Stage whole{};
    int features = 0;  // the value that the last element of the outermost chain reads
    std::size_t parameters = 0;
    Vec<std::uint32_t> readers;      // by value
    Vec<std::uint8_t> first_writer;  // by source: this reader is the first to write the slope
    Vec<std::uint8_t> trains;        // by value: something at or below it has parameters
    std::array<Plan, modes> plans{};
    std::size_t most_parameters = 0, shared_parameters = 0;
    std::size_t lanes = 1;    // rooms are for a multiple of so many examples
    bool apart = true;        // no example meets another
    bool reads_rows = false;  // the one reader of the input takes rows where they lie
    bool reads_bytes = false;
    std::size_t words = 0;     // 0: the input holds numbers; else whole numbers below this
    bool reads_words = false;  // by its one reader, where they lie
    bool poison = false;  // for tests: rooms are filled with NaN as soon as nobody should read them

private:
    struct Within {
        Name before;
        std::size_t first;  // layer of the element
    };
    void begin(Shape in);
    Within enter_element(std::size_t number, std::string_view name);
    void leave_element(const Within& within, int in, int out);
    std::size_t asks(int in, int out) const;
    void finish(Mode last);
    void check_words(const Examples& examples) const;
};

// Not in the class, so not inline: where networks are linked (linked.cpp) the compiler passes over all of this.

template <class R>
Graph<R>::~Graph() = default;

template <class R>
void Graph<R>::begin(Shape in) {
    if (in.size() == 0) throw ConfigError("nn: a width is 0; each must be at least 1");
    shapes.push_back(in);
}

template <class R>
int Graph<R>::add(std::shared_ptr<const Op<R>> op, std::span<const int> from, Tie* tie) {
    const Spec& s = op->spec;  // of the heap, so it stays where it is
    Node<R> node{std::move(op), sources.size(), parameters, nodes.size()};
    if (tie && tie->at != Tie::none) {
        node.owner = tie->at;
        node.w = nodes[tie->at].w;
        node.shared = nodes[tie->at].shared = true;
        if (nodes[tie->at].spec().parameters != s.parameters)
            throw ConfigError("nn: layers that share parameters must have the same ones; does the shape change?");
    } else {
        if (tie) tie->at = nodes.size();
        if (s.parameters > std::numeric_limits<std::size_t>::max() / 64 - parameters)
            throw ConfigError("nn: these are more parameters than memory can hold");
        for (std::size_t k = 0; k < s.parts; ++k)
            segments.push_back(placed(s.segments[k], prefix_.view(), parameters));
        parameters += s.parameters;
    }
    shapes.push_back(s.out);
    sources.insert(sources.end(), from.begin(), from.end());
    nodes.push_back(std::move(node));
    return static_cast<int>(nodes.size());
}

template <class R>
typename Graph<R>::Within Graph<R>::enter_element(std::size_t number, std::string_view name) {
    if (depth() == 0) routed_ = RoutedAt::example;
    return {enter(number, name), nodes.size()};
}
template <class R>
void Graph<R>::leave_element(const Within& within, int in, int out) {
    leave(within.before);
    if (depth() > 0) return;
    features = in;
    bool block = false;  // also where it uses parameters that another element has
    for (std::size_t i = within.first; i < nodes.size(); ++i) block = block || nodes[i].spec().parameters > 0;
    if (within.first < nodes.size())
        stages.push_back({within.first, nodes.size(), block && routed_ != RoutedAt::nowhere, asks(in, out)});
}
template <class R>
std::size_t Graph<R>::asks(int in, int out) const {
    if (routed_ != RoutedAt::position) return 1;
    const Shape &from = shape(in), &to = shape(out);  // words are numbers of a vector, one a position
    if (to.rank != 2 || (from.rank == 2 ? from.positions() : from.size()) != to.positions())
        throw ConfigError("nn::by_position: it is for layers that read a sequence and put one out, of as many "
                          "positions");
    return to.positions();
}

// With plans for all modes up to `last`.
template <class R>
void Graph<R>::finish(Mode last) {
    if (nodes.empty()) throw ConfigError("nn: a network needs at least one layer");
    detail::name_parts(segments);
    first_writer.assign(sources.size(), 0);
    trains.assign(shapes.size(), 0);
    readers.assign(shapes.size(), 0);
    Vec<Use> uses;
    for (std::size_t i = 0; i < size(); ++i) {
        Node<R>& n = nodes[i];
        uses.push_back({&n.op->spec, from(i)});
        most_parameters = std::max(most_parameters, n.spec().parameters);
        apart = apart && n.spec().apart;
        trains[i + 1] = n.spec().parameters > 0;
        if (const std::size_t named = n.spec().words; named > 0 && from(i)[0] == 0)
            words = words == 0 ? named : std::min(words, named);
        for (const int v : from(i)) {
            ++readers[static_cast<std::size_t>(v)];
            trains[i + 1] = trains[i + 1] || trains[static_cast<std::size_t>(v)];
        }
        if (n.shared && n.owner == i) {
            n.sum = shared_parameters;
            shared_parameters += n.spec().parameters;
        } else if (n.shared) {
            n.sum = nodes[n.owner].sum;
        }
    }
    Vec<std::uint8_t> written(shapes.size(), 0);
    for (std::size_t k = sources.size(); k-- > 0;)
        first_writer[k] = !std::exchange(written[static_cast<std::size_t>(sources[k])], std::uint8_t{1});
    for (std::size_t v = 1; v < size(); ++v)
        if (readers[v] == 0)
            throw ConfigError("nn: nobody reads what layer " + std::to_string(v - 1) + " puts out");
    reads_rows = reads_rows_at(0);
    reads_bytes = readers[0] == 1 && nodes[0].spec().reads_bytes && on->reads_bytes();
    reads_words = readers[0] == 1 && nodes[0].spec().words > 0;
    whole = {0, size(), parameters > 0};
    if (stages.empty()) stages.push_back(whole);
    for (std::size_t m = 0; m <= static_cast<std::size_t>(last); ++m) {
        const auto mode = static_cast<Mode>(m);
        plans[m] = detail::Planner(mode, uses, shapes, stages_of(mode), features, first_writer).plan();
    }
}

template <class R>
double Graph<R>::flops() const {
    double sum = 0;
    for (const auto& n : nodes) sum += n.spec().flops;
    return sum;
}

template <class R>
void Graph<R>::accepts(const Examples& examples) const {
    if (examples.width != inputs())
        throw ConfigError("examples have " + std::to_string(examples.width) + " numbers, the model reads " +
                          std::to_string(inputs()));
    if (words == 0 || examples.storage == Storage::callback) return;  // of those nothing is known; the layer looks
    if (examples.storage == Storage::bytes) {
        if (examples.shift != 0 || examples.scale != 1)
            throw ConfigError("nn: bytes that name words must be read as they are, and these are normalised");
        if (words >= 256) return;
    }
    check_words(examples);
}
template <class R>
void Graph<R>::check_words(const Examples& examples) const {
    const auto number = [&](std::size_t i) {
        switch (examples.storage) {
            case Storage::bytes: return static_cast<double>(static_cast<const std::uint8_t*>(examples.rows)[i]);
            case Storage::int32: return static_cast<double>(static_cast<const std::int32_t*>(examples.rows)[i]);
            case Storage::float32: return static_cast<double>(static_cast<const float*>(examples.rows)[i]);
            default: return static_cast<const double*>(examples.rows)[i];
        }
    };
    const bool whole = examples.storage == Storage::bytes || examples.storage == Storage::int32;
    for (std::size_t i = 0; i < examples.size * examples.width; ++i) {
        const double word = number(i);
        if (word >= 0 && word < static_cast<double>(words) && word == static_cast<double>(static_cast<long>(word)))
            continue;
        throw ConfigError("nn: example " + std::to_string(i / examples.width) + " holds " +
                          (whole ? std::to_string(static_cast<long>(word)) : std::to_string(word)) +
                          ", which is no word: the model knows " + std::to_string(words) + ", named from 0");
    }
}

#ifdef TESSERA_LINKED_KERNELS
extern template class Graph<float>;
extern template class Graph<double>;
namespace detail {
extern template std::shared_ptr<Op<float>> op_of<float>(Linear);
extern template std::shared_ptr<Op<float>> op_of<float>(LeakyRelu);
extern template std::shared_ptr<Op<float>> op_of<float>(Relu);
}  // namespace detail
#endif

// What a model made of layers says of itself to whoever walks it elsewhere (contracts/descender.hpp): its list, whether
// its loss is the softmax cross-entropy, and a mask, if its parameters are the active ones alone, packed.
template <class R>
struct Blueprint {
    const Graph<R>* graph;
    bool softmax;
    const Mask* mask = nullptr;
};

}  // namespace tessera::nn
