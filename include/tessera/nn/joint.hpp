// SPDX-License-Identifier: BSD-3-Clause
// Where ways through a network part and meet again.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/nn/layer.hpp>

namespace tessera::nn {

namespace detail {

// Exact where it can be: q0 = 1 gives the first branch, q0 = 0 the second, equal branches give themselves.
template <class R>
void mix_rows(const R* global, const R* local, const R* q0, R* to, std::size_t rows, std::size_t width) {
    for (std::size_t i = 0; i < rows; ++i, global += width, local += width, to += width) {
        const bool more = q0[i] >= R(0.5);
        const R *near = more ? global : local, *far = more ? local : global;
        const R share = more ? 1 - q0[i] : q0[i];
        for (std::size_t k = 0; k < width; ++k) to[k] = near[k] + share * (far[k] - near[k]);
    }
}

}  // namespace detail

// y = x(0) + x(1)
struct Add {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.expect(s.inputs == 2 && s.in[0] == s.in[1],
                 "nn::Add: what is added up must have one shape; does the inner layer keep it?");
        s.out = s.in[0];
        s.pointwise = true;
        s.backward_reads = Reads::nothing;
        s.flops = static_cast<double>(s.out.size());
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const R *a = p.x(0), *b = p.x(1);
        for (std::size_t i = 0; i < p.read(); ++i) p.y[i] = a[i] + b[i];
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        for (const std::size_t k : {0u, 1u})
            if (p.dx(k) && p.dx(k) != p.dy) std::copy_n(p.dy, p.read(), p.dx(k));
    }
};

// Numbers [begin, begin + count) of an example, as a vector.
struct Cut {
    std::size_t begin = 0, count = 1;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.expect(count > 0 && begin + count <= s.in[0].size(), "nn::Cut: an example has fewer numbers");
        s.out = Shape(count);
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        for (std::size_t b = 0; b < p.batch; ++b)
            std::copy_n(p.x() + b * p.in().size() + begin, count, p.y + b * count);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (!p.dx()) return;
        std::fill_n(p.dx(), p.read(), R(0));
        for (std::size_t b = 0; b < p.batch; ++b)
            std::copy_n(p.dy + b * count, count, p.dx() + b * p.in().size() + begin);
    }
};

// y = (x(0), x(1)): of two sequences of one length position by position, else a vector.
struct Concatenate {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.expect(s.inputs == 2, "nn::Concatenate: it joins two values");
        const bool sequences = s.in[0].rank == 2 && s.in[1].rank == 2 && s.in[0].positions() == s.in[1].positions();
        s.out = sequences ? Shape(s.in[0].positions(), s.in[0].width() + s.in[1].width())
                          : Shape(s.in[0].size() + s.in[1].size());
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        each(p, [&](std::size_t k, std::size_t from, std::size_t to, std::size_t n) {
            std::copy_n(p.x(k) + from, n, p.y + to);
        });
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        each(p, [&](std::size_t k, std::size_t from, std::size_t to, std::size_t n) {
            if (p.dx(k)) std::copy_n(p.dy + to, n, p.dx(k) + from);
        });
    }

private:
    // f(input, where its row begins, where in y, numbers) for each row of both
    template <class R, class F>
    static void each(const Pass<R>& p, const F& f) {
        const std::size_t rows = p.out().positions(), left = p.in(0).size() / rows, right = p.in(1).size() / rows;
        for (std::size_t r = 0; r < p.batch * rows; ++r) {
            f(0, r * left, r * (left + right), left);
            f(1, r * right, r * (left + right) + left, right);
        }
    }
};

}  // namespace tessera::nn
