// SPDX-License-Identifier: BSD-3-Clause
// The gradients of single examples, each cut to a norm, and summed, without one gradient per example in memory ("ghost
// norms", Goodfellow 2015, Li et al. 2022).
//
//   affine layer   |g_i|^2 = |x_i|^2 |dy_i|^2 for the weights, |dy_i|^2 for the bias; over positions t, t'
//                  |g_i|^2 = sum <dy_t, dy_t'> (<x_t, x_t'> + 1)
//
// One backward pass leaves dy of every layer with parameters and the squared norms. Back-propagation is linear in dy,
// so sum_i c_i g_i is then one weight gradient per layer with the rows of dy scaled by c_i: no second pass. Norms are
// in double. A layer that offers `factors` says its gradient as a product; of any other the gradient is made example by
// example, and kept where it is small and making it again would cost products.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include <tessera/contracts/private.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/walk.hpp>

namespace tessera::nn {

namespace detail {

template <class R>
double squared(const R* x, std::size_t n) {
    double sum = 0;
    kernels::squared_norm(x, n, &sum);
    return sum;
}
template <class R>
double inner(const R* a, const R* b, std::size_t n) {
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += static_cast<double>(a[j]) * static_cast<double>(b[j]);
    return sum;
}

// Numbers below the smallest normal one become 0: rounding there could add a part in 2 to what was clipped.
template <class R>
void scale_rows(R* rows, const double* factors, std::size_t batch, std::size_t width) {
    for (std::size_t i = 0; i < batch; ++i) {
        if (factors[i] == 1) continue;
        for (R* v = rows + i * width; v != rows + (i + 1) * width; ++v) {
            const double scaled = static_cast<double>(*v) * factors[i];
            *v = std::abs(scaled) < static_cast<double>(std::numeric_limits<R>::min()) ? R(0) : static_cast<R>(scaled);
        }
    }
}

template <class R>
class ClippedPass {
public:
    static constexpr double lost = -1;  // for a factor: the gradient is not finite

    ClippedPass(const Graph<R>& graph, const R* w, const Batch<R>& batch, const Clip<R>& clip)
        : graph_(graph),
          clip_(clip),
          walk_(graph, batch, Mode::clip, &clip.on),
          lane_(walk_.lane(w)),
          one_(graph.most_parameters),
          kept_(graph.size()) {}

    // The mean loss; factors[i] becomes what example i is scaled by, or `lost`. False: one of them is lost.
    template <class Loss>
    bool factors(const Loss& loss, double* factors, double* value) {
        const std::size_t batch = walk_.batch();
        std::fill_n(factors, batch, 0.0);
        walk_.forward(0, graph_.size(), lane_);
        *value = walk_.loss(lane_, loss);
        walk_.backward(0, graph_.size(), lane_, [&](std::size_t i, Pass<R>& p) {
            const Node<R>& n = graph_.nodes[i];
            if (n.spec().parameters > 0 && !n.shared && selects(n)) squares(i, p, factors);
            for (const R* dx : p.dxs)
                if (dx) return n.op->backward(p);
        });
        for (std::size_t i = 0; i < graph_.size(); ++i)
            if (graph_.nodes[i].shared && graph_.nodes[i].owner == i && selects(graph_.nodes[i])) shared(i, factors);
        bool finite = true;
        for (std::size_t e = 0; e < batch; ++e) {
            finite = finite && std::isfinite(factors[e]);
            factors[e] = std::isfinite(factors[e]) ? clip_.factor(factors[e]) : lost;
        }
        return finite;
    }
    void sum(const double* factors, R* out) {
        const Begun begun(graph_);
        for (std::size_t i = 0; i < graph_.size(); ++i) {
            const Node<R>& n = graph_.nodes[i];
            if (n.spec().parameters == 0 || !selects(n)) continue;
            if (kept_[i]) {
                std::fill_n(out + n.w, n.spec().parameters, R(0));
                for (std::size_t e = 0; e < walk_.batch(); ++e)
                    kernels::axpy(static_cast<R>(factors[e]), kept_[i]->data() + e * n.spec().parameters, out + n.w,
                                  n.spec().parameters);
                continue;
            }
            R* dy = walk_.slope(lane_, i + 1);
            scale_rows(dy, factors, walk_.batch(), n.spec().out.size());
            Pass<R> p = walk_.pass(i, lane_);
            p.dy = dy;
            walk_.store(i, p, out + n.w, begun);
        }
    }

private:
    static constexpr std::size_t most_kept = std::size_t{4} << 20;  // bytes of gradients of one layer

    bool selects(const Node<R>& n) const { return clip_.on.touches(n.range()); }
    bool selects(const Node<R>& n, std::size_t part) const {
        const Segment& s = n.spec().segments[part];
        return part < n.spec().parts && clip_.on.touches({n.w + s.offset, n.w + s.end()});
    }
    double counted(const Node<R>& n, const R* dw, double sum) const {
        for (std::size_t k = 0; k < n.spec().parts; ++k)
            if (selects(n, k)) sum += squared(dw + n.spec().segments[k].offset, n.spec().segments[k].size());
        return sum;
    }

    void squares(std::size_t i, const Pass<R>& p, double* sums) {
        const Node<R>& n = graph_.nodes[i];
        const Spec& s = n.spec();
        const std::size_t rows = s.in[0].positions(), in = s.in[0].width(), out = s.out.width();
        if (n.op->offers.has(offer::factors) && (rows == 1 || rows * (in + out) <= in * out)) {
            const Scratch<R> room(rows * in);
            for (std::size_t e = 0; e < walk_.batch(); ++e)
                sums[e] += square_of(n.op->factors(p, e, room.data()), in, out, selects(n, 0), selects(n, 1));
            return;
        }
        const bool keep = s.flops > 0 && walk_.batch() * s.parameters * sizeof(R) <= most_kept;
        if (keep) kept_[i].emplace(walk_.batch() * s.parameters);
        for (std::size_t e = 0; e < walk_.batch(); ++e) {
            R* dw = keep ? kept_[i]->data() + e * s.parameters : one_.data();
            n.op->backward(alone(p, e, dw));
            sums[e] = counted(n, dw, sums[e]);
        }
    }
    static double square_of(const Factors<R>& f, std::size_t in, std::size_t out, bool weights, bool bias) {
        if (f.count == 1) return ((weights ? squared(f.right, in) : 0) + (bias ? 1 : 0)) * squared(f.left, out);
        double sum = 0;
        for (std::size_t a = 0; a < f.count; ++a)
            for (std::size_t b = 0; b <= a; ++b) {
                const double right = weights ? inner(f.right + a * in, f.right + b * in, in) : 0;
                sum += (a == b ? 1 : 2) * (right + (bias ? 1 : 0)) * inner(f.left + a * out, f.left + b * out, out);
            }
        return sum;
    }
    // Parameters with several uses: the sum over the uses, example by example.
    void shared(std::size_t owner, double* sums) {
        const Node<R>& n = graph_.nodes[owner];
        const Scratch<R> total(n.spec().parameters);
        for (std::size_t e = 0; e < walk_.batch(); ++e) {
            std::fill_n(total.data(), total.size(), R(0));
            for (std::size_t i = graph_.size(); i-- > owner;) {
                if (!graph_.nodes[i].shared || graph_.nodes[i].owner != owner) continue;
                Pass<R> p = walk_.pass(i, lane_);
                p.dy = walk_.slope(lane_, i + 1);
                graph_.nodes[i].op->backward(alone(p, e, one_.data()));
                kernels::axpy(R(1), static_cast<const R*>(one_.data()), total.data(), total.size());
            }
            sums[e] = counted(n, total.data(), sums[e]);
        }
    }
    // Example e alone.
    static Pass<R> alone(const Pass<R>& p, std::size_t e, R* dw) {
        Pass<R> q = p;
        q.batch = 1;
        for (std::size_t k = 0; k < p.spec->inputs; ++k)
            if (q.xs[k]) q.xs[k] += e * p.spec->in[k].size();
        if (q.rows.matrix) q.rows.matrix += e * p.in().size();
        if (q.rows.table) q.rows.table += e;
        if (q.rows.bytes.examples) q.rows.bytes.ids += e;
        q.y += e * p.out().size();
        q.example = e;
        q.dy += e * p.out().size();
        q.dxs = {};
        q.dw = dw;
        return q;
    }

    const Graph<R>& graph_;
    const Clip<R>& clip_;
    Walk<R> walk_;
    Lane<R> lane_;
    Scratch<R> one_;
    Vec<std::optional<Scratch<R>>> kept_;
};

// sum_i c_i g_i with c_i = clip.factor(|g_i|^2), and the mean loss (contracts/private.hpp).
template <class R, class Loss>
double clipped_sum(const Graph<R>& graph, const R* w, const Batch<R>& batch, const Clip<R>& clip, const Loss& loss,
                   Out<R> out) {
    Vec<double> factors(batch.size());
    {
        ClippedPass<R> pass(graph, w, batch, clip);
        double value = 0;
        // Example by example: the slope of a mean is divided by the batch before the label's 1 is taken off, which of
        // an example that is nearly right leaves other bits, and clipping makes small gradients as large as others.
        const auto of_each = [&](Out<R> z) {
            const std::size_t each = z.size() / batch.size();
            double sum = 0;
            for (std::size_t i = 0; i < batch.size(); ++i) sum += loss(batch.part(i, 1), z.subspan(i * each, each));
            return sum / static_cast<double>(batch.size());
        };
        if (pass.factors(of_each, factors.data(), &value)) {
            pass.sum(factors.data(), out.data());
            return value;
        }
    }
    // As if lost examples were not there: zero times infinity would reach every sum over the batch.
    Vec<Index> others;
    for (std::size_t i = 0; i < factors.size(); ++i)
        if (factors[i] != ClippedPass<R>::lost) others.push_back(batch.ids()[i]);
    if (!others.empty()) return clipped_sum(graph, w, batch.of(others), clip, loss, out);
    std::fill(out.begin(), out.end(), R(0));
    return 0;
}

}  // namespace detail

}  // namespace tessera::nn
