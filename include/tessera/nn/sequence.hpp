// SPDX-License-Identifier: BSD-3-Clause
// Small layers between those on sequences, and recipes made of them.
//
//   Scale{c}            y = c x
//   Positions{}         y_t = x_t + p_t, a learnt row for each position
//   Bias{}              y_t = x_t + b, the same at every position
//   Reverse{}           the last position first
//   WordScores{words}   y_t = E x_t with the table E of an Embedding of that width; tie both and they share it
//
//   last_position()     what stands at the last one, as a vector
//   last_word(padding)  what stands at the last word of the network's input that is no padding
//   both_ways(inner)    inner on the sequence and another of its kind on the reverse, side by side
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <tessera/kernels/vector.hpp>
#include <tessera/nn/joint.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/recipe.hpp>

namespace tessera::nn {

struct Scale {
    double factor = 1;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.out = s.in[0];
        s.in_place = s.pointwise = true;
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        for (std::size_t i = 0; i < p.read(); ++i) p.y[i] = static_cast<R>(factor) * p.x()[i];
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        for (std::size_t i = 0; p.dx() && i < p.read(); ++i) p.dx()[i] = static_cast<R>(factor) * p.dy[i];
    }
};

namespace detail {

// y = x + w, where w has `n` numbers that are used again and again.
template <class R>
void add_cyclic(const Pass<R>& p, std::size_t n) {
    if (p.y != p.x()) std::copy_n(p.x(), p.read(), p.y);
    for (std::size_t at = 0; at < p.read(); at += n) kernels::axpy(R(1), p.w, p.y + at, n);
}
template <class R>
void add_cyclic_back(const Pass<R>& p, std::size_t n) {
    if (p.dx() && p.dx() != p.dy) std::copy_n(p.dy, p.read(), p.dx());
    if (!p.dw) return;
    std::fill_n(p.dw, n, R(0));
    for (std::size_t at = 0; at < p.read(); at += n) kernels::axpy(R(1), p.dy + at, p.dw, n);
}

}  // namespace detail

struct Positions {
    double deviation = 1;  // of the first rows, around 0

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        if (!s.expect(s.in[0].rank == 2, "nn::Positions: it reads a sequence")) return;
        s.parameter({.name = "positions",
                     .shape = {s.in[0].positions(), s.in[0].width(), 1, 1},
                     .rank = 2,
                     .deviation = deviation});
        s.out = s.in[0];
        s.in_place = true;
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        detail::add_cyclic(p, p.in().size());
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        detail::add_cyclic_back(p, p.in().size());
    }
};

struct Bias {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.parameter({.name = "bias", .shape = {s.in[0].width(), 1, 1, 1}});
        s.out = s.in[0];
        s.in_place = true;
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        detail::add_cyclic(p, p.in().width());
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        detail::add_cyclic_back(p, p.in().width());
    }
};

struct Reverse {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.expect(s.in[0].rank == 2, "nn::Reverse: it reads a sequence");
        s.out = s.in[0];
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        turn(p, p.x(), p.y);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (p.dx()) turn(p, p.dy, p.dx());
    }

private:
    template <class R>
    static void turn(const Pass<R>& p, const R* from, R* to) {
        const std::size_t steps = p.in().positions(), n = p.in().width();
        for (std::size_t row = 0; row < p.batch * steps; ++row)
            std::copy_n(from + row * n, n, to + (row - row % steps + steps - 1 - row % steps) * n);
    }
};

struct WordScores {
    std::size_t words = 1;

    static constexpr Offers offers = offer::factors;

    constexpr void infer(Spec& s) const {
        const std::size_t n = s.in[0].positions(), in = s.in[0].width();
        if (!s.expect(words > 0 && in > 0, "nn::WordScores: there is at least one word")) return;
        s.parameter({.name = "weight", .shape = {words, in, 1, 1}, .rank = 2, .deviation = 1});
        s.out = s.in[0].rank == 2 ? Shape(n, words) : Shape(words);
        s.backward_reads = Reads::x;
        s.flops = 2.0 * static_cast<double>(n) * static_cast<double>(in) * static_cast<double>(words);
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        p.on->affine(read(p), p.w, nullptr, p.y, rows(p), p.in().width(), words);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (p.dw)
            p.on->affine_weight_gradient(p.dy, read(p), p.dw, nullptr, rows(p), p.in().width(), words);
        if (p.dx()) p.on->affine_input_gradient(p.dy, p.w, p.dx(), rows(p), p.in().width(), words);
    }
    template <class R>
    Factors<R> factors(const Pass<R>& p, std::size_t example, R*) const {
        const std::size_t n = p.in().positions();
        return {n, p.dy + example * n * words, p.x() + example * n * p.in().width()};
    }

private:
    template <class R>
    static Rows<R> read(const Pass<R>& p) {
        return {.matrix = p.x(), .sequence = p.in().positions() > 1};
    }
    template <class R>
    static std::size_t rows(const Pass<R>& p) {
        return p.batch * p.in().positions();
    }
};

// A layer whose parameters others use too: those with the same Tie.
template <class L>
struct Tied {
    L layer;
    Tie* tie;

    template <class B>
    constexpr int add(B& to, int v) const {
        return to.put(layer, std::array{v}, tie);
    }
};

struct LastPosition {
    template <class B>
    constexpr int add(B& to, int v) const {
        const Shape in = to.shape(v);
        return to.put(Cut{(in.positions() - 1) * in.width(), in.width()}, std::array{v});
    }
};
constexpr LastPosition last_position() { return {}; }

// Of a sequence and the words it was made of, what stands at the last word that is not `padding`; at the first position
// where all are.
struct AtLastWord {
    double padding = 0;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.expect(s.inputs == 2 && s.in[0].rank == 2 && s.in[1].size() == s.in[0].positions(),
                 "nn::AtLastWord: it reads a sequence and a word for each of its positions");
        s.out = Shape(s.in[0].width());
        s.backward_reads = Reads::x;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const std::size_t n = p.in().width();
        for (std::size_t e = 0; e < p.batch; ++e) std::copy_n(p.x() + place(p, e) * n, n, p.y + e * n);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const std::size_t n = p.in().width();
        if (p.dx(0)) std::fill_n(p.dx(0), p.read(), R(0));
        if (p.dx(1)) std::fill_n(p.dx(1), p.batch * p.in(1).size(), R(0));  // no number below has a slope
        for (std::size_t e = 0; p.dx(0) && e < p.batch; ++e) std::copy_n(p.dy + e * n, n, p.dx(0) + place(p, e) * n);
    }

private:
    // The row of the last word of an example.
    template <class R>
    std::size_t place(const Pass<R>& p, std::size_t e) const {
        const std::size_t steps = p.in().positions();
        std::size_t t = steps - 1;
        while (t > 0 && p.x(1)[e * steps + t] == static_cast<R>(padding)) --t;
        return e * steps + t;
    }
};
struct LastWord {
    double padding;

    template <class B>
    constexpr int add(B& to, int v) const {
        return to.put(AtLastWord{padding}, std::array{v, 0});
    }
};
constexpr LastWord last_word(double padding = 0) { return {padding}; }

// The second reads from the end to the beginning, and what it puts out is turned round again (torch: bidirectional).
template <class Inner>
struct BothWays {
    Inner inner;

    template <class B>
    constexpr int add(B& to, int v) const {
        const int onward = to.part(0, "forward", inner, v);
        const int back = to.part(1, "backward", inner, to.put(Reverse{}, std::array{v}));
        return to.put(Concatenate{}, std::array{onward, to.put(Reverse{}, std::array{back})});
    }
};
template <class Inner>
constexpr BothWays<Inner> both_ways(Inner inner) {
    return {std::move(inner)};
}

}  // namespace tessera::nn
