// SPDX-License-Identifier: BSD-3-Clause
// Layer: a small struct of settings that says what it does to a shape and computes it, in both directions.
//
//   static constexpr Offers offers = offer::nothing;          what it can do beyond the three functions; compulsory
//   constexpr void infer(Spec&) const                         shapes, parameters, what backward reads
//   template <class R> void forward(const Pass<R>&) const     writes y and what it saves
//   template <class R> void backward(const Pass<R>&) const    writes, never adds to, all of dx and dw; null: not wanted
//
// Segments of Part::buffer are running statistics: forward only reads them, and for them backward writes into dw the
// step that they take, whole (core/layout.hpp). Such a layer offers no `backward_update`.
//
// What it may offer (a name that is listed and absent, or there and not listed, does not compile):
//
//   offer::backward_update
//                    void backward_update(const Pass<R>&, R* w, const Update<R>&) const
//                    dx, then gradient and update at once
//   offer::factors   Factors<R> factors(const Pass<R>&, std::size_t example, R* room) const
//                    the weight gradient of one example as a product of two thin matrices, at most `positions` rows
//                    high
//   offer::mixes     void mix_forward(const Pass<R>& g, const Pass<R>& l, R* y, Routing<R>&, std::size_t first) const
//                    void mix_backward(const Pass<R>& g, const Pass<R>& l, const R* dy, Routing<R>&, std::size_t first)
//                    const: a block of routing that asks Spec::asks times by itself (recurrence.hpp)
//
//   offer::blocks    void blocks_forward(const Pass<R>&) const, void blocks_backward(const Pass<R>&) const
//                    the same of a layer without parameters and saved numbers whose numbers lie in blocks of examples
//                    (kernels/sparse_blocks.hpp), between layers on active weights; p.batch is padded to them
//
// A layer that offers nothing still trains in fused steps, is clipped, masked, routed and frozen: the passes (walk.hpp,
// clipped.hpp, masked.hpp, routing.hpp) have an answer for every layer. Sizes come from what a layer reads, so one
// struct serves constant expressions and widths that are known at run time.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/random.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/backend.hpp>
#include <tessera/nn/shape.hpp>

namespace tessera {
template <class R>
class Routing;  // contracts/routable.hpp
}

namespace tessera::nn {

using tessera::Offers;
namespace offer = tessera::offer;

// Where a layer stands in nested recipes: the number of its element in each chain, outermost first. Its random draws
// are keyed by that, so they do not move when a layer is added behind it.
struct Path {
    std::array<std::uint16_t, 12> numbers{};
    std::size_t depth = 0;

    constexpr void enter(std::size_t number) {
        if (depth == numbers.size()) throw ConfigError("nn: recipes nest at most 12 deep");
        numbers[depth++] = static_cast<std::uint16_t>(number);
    }
    constexpr void leave() { --depth; }
    Key draw(Key key) const {
        for (std::size_t i = 0; i < depth; ++i) key = key(numbers[i]);
        return key;
    }
};

// What backward reads beside what was saved, the parameters and dy. A value that nobody reads again gives its room to
// others.
enum class Reads : std::uint8_t { nothing = 0, x = 1, y = 2, both = 3 };

// Filled by infer, in a constant expression or at run time.
struct Spec {
    static constexpr std::size_t most_inputs = 4, most_segments = 6, most_saved = 6;

    std::array<Shape, most_inputs> in{};  // given
    std::size_t inputs = 1;               // given
    Path path{};                          // given
    bool* misfit = nullptr;               // given: where to mark that something does not fit
    Shape out{};
    std::array<Segment, most_segments> segments{};
    std::size_t parts = 0, parameters = 0;  // segments, and the numbers in them
    std::size_t buffers = 0;                // of these numbers, running statistics (Part::buffer)
    std::array<std::size_t, most_saved> saved_sizes{};
    std::size_t saved_kinds = 0, saved = 0;  // kinds of saved numbers, and how many, per example
    std::size_t batch_saved = 0;             // numbers left for backward that belong to the batch
    std::size_t asks = 0;                   // questions to a gate of a layer that mixes by itself (offer::mixes),
    std::size_t holds = 0;                  // and numbers of a branch that it shows at each
    Reads backward_reads = Reads::both;
    bool in_place = false;    // y may lie where x lies, and dx where dy lies
    bool pointwise = false;   // acts number by number, so their order does not matter
    bool affine = false;      // multiplies rows by its first segment and adds its second, if any: active weights may do
    // Of a convolution, else 0: it multiplies what lies under a square of so many pixels a side by its first segment,
    // and adds its second, if any. Active weights may do.
    std::size_t kernel = 0, stride = 1, pad = 0;
    bool apart = true;        // examples do not meet (batch norm: false)
    bool reads_rows = false;  // forward, backward and backward_update take x as `p.rows`, where it may lie in pieces
    bool reads_bytes = false;  // and in bytes
    std::size_t words = 0;     // it reads whole numbers below this, also as bytes or std::int32_t in `p.rows`
    double flops = 0;          // of a forward pass over one example

    constexpr void parameter(Segment s) {
        if (parts == most_segments) throw ConfigError("nn: a layer has at most 6 segments of parameters");
        s.offset = parameters;
        parameters = s.end();
        if (s.part == Part::buffer) buffers += s.size();
        segments[parts++] = s;
    }
    // `n` numbers per example that forward leaves for backward, in p.saved(k) for the k-th call, a row an example.
    constexpr void save(std::size_t n) {
        if (saved_kinds == most_saved) throw ConfigError("nn: a layer leaves at most 6 kinds of numbers for backward");
        saved_sizes[saved_kinds++] = n;
        saved += n;
    }
    // A ConfigError with this sentence, if not. False only where somebody asks whether layers fit at all; infer may
    // then return.
    constexpr bool expect(bool fits, const char* sentence) const {
        if (!fits && misfit) *misfit = true;
        else if (!fits) throw ConfigError(sentence);
        return fits;
    }
    constexpr bool reads(Reads what) const {
        return (static_cast<unsigned>(backward_reads) & static_cast<unsigned>(what)) != 0;
    }
};

// One call of a layer: a batch, where it lies, and who multiplies.
template <class R>
struct Pass {
    const Spec* spec = nullptr;
    const Backend<R>* on = nullptr;
    std::size_t batch = 0;
    bool training = false;
    Key key{};  // of the batch
    const R* w = nullptr;
    Rows<R> rows{};  // the first input
    std::array<const R*, Spec::most_inputs> xs{};
    R* y = nullptr;
    R *saved_base = nullptr, *batch_saved = nullptr;
    std::size_t saved_rows = 0, example = 0;  // examples that `saved_base` has rows for, and the first of this pass
    const R* dy = nullptr;
    std::array<R*, Spec::most_inputs> dxs{};
    R* dw = nullptr;

    const Shape& in(std::size_t k = 0) const { return spec->in[k]; }
    const Shape& out() const { return spec->out; }
    const R* x(std::size_t k = 0) const { return xs[k]; }
    R* dx(std::size_t k = 0) const { return dxs[k]; }
    const R* weight(std::size_t k) const { return w + spec->segments[k].offset; }
    R* slope(std::size_t k) const { return dw ? dw + spec->segments[k].offset : nullptr; }
    R* saved(std::size_t k) const {
        std::size_t before = 0;
        for (std::size_t i = 0; i < k; ++i) before += spec->saved_sizes[i];
        return saved_base + saved_rows * before + example * spec->saved_sizes[k];
    }
    // Numbers in x and in y.
    std::size_t read() const { return batch * in().size(); }
    std::size_t written() const { return batch * out().size(); }
    // The same in forward and backward. It costs a Philox block per level, so ask only if you draw.
    Key draw() const { return spec->path.draw(key); }
};

// What a fused step does to a layer's parameters, pointers counted from its first one.
template <class R>
struct Update {
    kernels::UpdateVectors<R> reads{};
    kernels::UpdateNumbers<R> numbers{};

    Update at(std::size_t begin) const { return {reads.at(begin), numbers}; }
    void operator()(R* w, const R* dw, std::size_t n) const {
        kernels::update(w, dw, reads.prox_center, reads.linear, reads.velocity, n, R(1), numbers);
    }
    // All parameters of a layer; running statistics take their step whole.
    void operator()(const Spec& s, R* w, const R* dw) const {
        if (s.buffers == 0) return (*this)(w, dw, s.parameters);
        for (std::size_t k = 0; k < s.parts; ++k) {
            const Segment& part = s.segments[k];
            if (part.part == Part::buffer)
                for (std::size_t j = part.offset; j < part.end(); ++j) w[j] -= dw[j];
            else at(part.offset)(w + part.offset, dw + part.offset, part.size());
        }
    }
};

// dW = left^T right: `count` rows of `out` and of `in` numbers. The bias, if there is one, has the sum of the left
// rows.
template <class R>
struct Factors {
    std::size_t count = 1;
    const R* left = nullptr;
    const R* right = nullptr;
};

namespace detail {

struct LayerNames {
    int backward_update, factors, mix_forward, mix_backward, blocks_forward, blocks_backward;
};
template <class L>
concept names_backward_update = !requires { &tessera::detail::Probed<L, LayerNames>::backward_update; };
template <class L> concept names_factors = !requires { &tessera::detail::Probed<L, LayerNames>::factors; };
template <class L> concept names_mix_forward = !requires { &tessera::detail::Probed<L, LayerNames>::mix_forward; };
template <class L> concept names_mix_backward = !requires { &tessera::detail::Probed<L, LayerNames>::mix_backward; };
template <class L>
concept names_blocks_forward = !requires { &tessera::detail::Probed<L, LayerNames>::blocks_forward; };
template <class L>
concept names_blocks_backward = !requires { &tessera::detail::Probed<L, LayerNames>::blocks_backward; };

}  // namespace detail

}  // namespace tessera::nn

namespace tessera::detail {
template <class L>
consteval bool layer_is_spelt() {
    if constexpr (StatesOffers<L>) {
        static_assert(
            agrees<L>(nn::detail::names_backward_update<L>, offer::backward_update),
            "tessera::nn: `backward_update` must be a member of the layer and be listed in its `offers`, or neither");
        static_assert(agrees<L>(nn::detail::names_factors<L>, offer::factors),
                      "tessera::nn: `factors` must be a member of the layer and be listed in its `offers`, or neither");
        static_assert(agrees<L>(nn::detail::names_mix_forward<L>, offer::mixes) &&
                          agrees<L>(nn::detail::names_mix_backward<L>, offer::mixes),
                      "tessera::nn: a layer that lists `mixes` in its `offers` has `mix_forward` and `mix_backward`, "
                      "and no other has");
        static_assert(agrees<L>(nn::detail::names_blocks_forward<L>, offer::blocks) &&
                          agrees<L>(nn::detail::names_blocks_backward<L>, offer::blocks),
                      "tessera::nn: a layer that lists `blocks` in its `offers` has `blocks_forward` and "
                      "`blocks_backward`, and no other has");
    }
    return true;
}
}  // namespace tessera::detail

namespace tessera::nn {

// The three functions, one sentence at a time, and the offers.
template <class L, class R>
consteval bool check_layer() {
    constexpr bool infer = requires(const L layer, Spec& s) { layer.infer(s); };
    constexpr bool forward = requires(const L layer, const Pass<R>& p) { layer.forward(p); };
    constexpr bool backward = requires(const L layer, const Pass<R>& p) { layer.backward(p); };
    constexpr bool offers = tessera::detail::StatesOffers<L>;
    static_assert(infer, "tessera::nn: a layer needs `constexpr void infer(Spec&) const`, which says what comes out");
    static_assert(forward, "tessera::nn: a layer needs `template <class R> void forward(const Pass<R>&) const`");
    static_assert(backward,
                  "tessera::nn: a layer needs `template <class R> void backward(const Pass<R>&) const`, which "
                  "writes all of dx and of dw where they are wanted");
    static_assert(std::copyable<L>, "tessera::nn: a layer must be copyable");
    static_assert(offers,
                  "tessera::nn: a layer needs `static constexpr Offers offers = offer::nothing;`, or what it "
                  "offers: backward_update, factors, joined by |");
    static_assert(tessera::detail::layer_is_spelt<L>());
    return infer && forward && backward && offers && std::copyable<L>;
}

template <class L, class R>
concept Layer = std::copyable<L> && tessera::detail::StatesOffers<L> && requires(const L layer, Spec& s,
                                                                                const Pass<R>& p) {
    { layer.infer(s) } -> std::same_as<void>;
    { layer.forward(p) } -> std::same_as<void>;
    { layer.backward(p) } -> std::same_as<void>;
};

// A layer of any type, with what it said about itself. `spec` has its place in a network.
template <class R>
class Op {
public:
    Spec spec{};
    Offers offers{};

    virtual ~Op() = default;
    virtual void forward(const Pass<R>&) const = 0;
    virtual void backward(const Pass<R>&) const = 0;
    virtual void backward_update(const Pass<R>&, R* w, const Update<R>&) const = 0;
    virtual Factors<R> factors(const Pass<R>&, std::size_t example, R* room) const = 0;
    virtual void mix_forward(const Pass<R>& g, const Pass<R>& l, R* y, Routing<R>&, std::size_t first) const = 0;
    virtual void mix_backward(const Pass<R>& g, const Pass<R>& l, const R* dy, Routing<R>&,
                              std::size_t first) const = 0;
    virtual void blocks_forward(const Pass<R>&) const = 0;
    virtual void blocks_backward(const Pass<R>&) const = 0;
};
template <class R, class L>
class OpOf final : public Op<R> {
public:
    explicit OpOf(L layer) : layer_(std::move(layer)) { this->offers = L::offers; }
    const L& layer() const { return layer_; }

    void forward(const Pass<R>& p) const override { layer_.forward(p); }
    void backward(const Pass<R>& p) const override { layer_.backward(p); }
    void backward_update([[maybe_unused]] const Pass<R>& p, [[maybe_unused]] R* w,
                         [[maybe_unused]] const Update<R>& u) const override {
        if constexpr (L::offers.has(offer::backward_update)) layer_.backward_update(p, w, u);
    }
    Factors<R> factors([[maybe_unused]] const Pass<R>& p, [[maybe_unused]] std::size_t example,
                       [[maybe_unused]] R* room) const override {
        if constexpr (L::offers.has(offer::factors)) return layer_.factors(p, example, room);
        else return {};
    }
    void mix_forward([[maybe_unused]] const Pass<R>& g, [[maybe_unused]] const Pass<R>& l, [[maybe_unused]] R* y,
                     [[maybe_unused]] Routing<R>& routing, [[maybe_unused]] std::size_t first) const override {
        if constexpr (L::offers.has(offer::mixes)) layer_.mix_forward(g, l, y, routing, first);
    }
    void mix_backward([[maybe_unused]] const Pass<R>& g, [[maybe_unused]] const Pass<R>& l,
                      [[maybe_unused]] const R* dy, [[maybe_unused]] Routing<R>& routing,
                      [[maybe_unused]] std::size_t first) const override {
        if constexpr (L::offers.has(offer::mixes)) layer_.mix_backward(g, l, dy, routing, first);
    }
    void blocks_forward([[maybe_unused]] const Pass<R>& p) const override {
        if constexpr (L::offers.has(offer::blocks)) layer_.blocks_forward(p);
    }
    void blocks_backward([[maybe_unused]] const Pass<R>& p) const override {
        if constexpr (L::offers.has(offer::blocks)) layer_.blocks_backward(p);
    }

private:
    L layer_;
};

}  // namespace tessera::nn
