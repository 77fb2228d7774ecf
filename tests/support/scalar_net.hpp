// SPDX-License-Identifier: BSD-3-Clause
// Networks of one number a layer, p = w_L ... w_1 x, with loss 1/2 (p - y)^2, and a gate with nothing but biases: small
// enough to be done on paper.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <tessera/contracts/gate.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/nn/network.hpp>

namespace tessera::support {

struct Times {
    static constexpr Offers offers{};

    constexpr void infer(nn::Spec& s) const {
        s.parameter({.name = "w"});
        s.out = s.in[0];
        s.backward_reads = nn::Reads::x;
        s.flops = 1;
    }
    template <class R>
    void forward(const nn::Pass<R>& p) const {
        for (std::size_t i = 0; i < p.batch; ++i) p.y[i] = p.w[0] * p.x()[i];
    }
    template <class R>
    void backward(const nn::Pass<R>& p) const {
        if (p.dw) p.dw[0] = 0;
        for (std::size_t i = 0; i < p.batch; ++i) {
            if (p.dw) p.dw[0] += p.dy[i] * p.x()[i];
            if (p.dx()) p.dx()[i] = p.dy[i] * p.w[0];
        }
    }
};

struct HalfSquare {
    template <class R>
    static double gradient(const Batch<R>& batch, Out<R> z, nn::Outputs) {
        double loss = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const R miss = z[i] - batch.target(i), share = batch.weight(i) / static_cast<R>(batch.size());
            loss += static_cast<double>(share * miss * miss) / 2;
            z[i] = share * miss;
        }
        return loss;
    }
    template <class R>
    static void predict(Out<R>, std::size_t, nn::Outputs) {}
    template <class R>
    static void judge(const Batch<R>& batch, In<R> predictions, Judgement& to) {
        judge_as_labelled(batch, predictions, to);
    }
    static void check(const Examples&, std::size_t, std::size_t) {}
    static bool speaks_logarithms() { return false; }
};

template <std::size_t Blocks>
struct ScalarNet;
template <>
struct ScalarNet<1> {
    static constexpr nn::Shape in = 1;
    static constexpr auto layers = nn::chain(Times{});
    using type = nn::Fixed<ScalarNet, double, HalfSquare>;
};
template <>
struct ScalarNet<2> {
    static constexpr nn::Shape in = 1;
    static constexpr auto layers = nn::chain(Times{}, Times{});
    using type = nn::Fixed<ScalarNet, double, HalfSquare>;
};

// One client with these examples.
inline data::FederatedDataset scalar_data(std::vector<double> x, std::vector<double> y) {
    data::Split split;
    data::Share share;
    share.key = 1;
    for (std::size_t i = 0; i < x.size(); ++i) share.train.push_back(static_cast<Index>(i));
    share.test = share.train;
    split.clients.push_back(share);
    return {data::Dataset::regression(std::move(x), std::move(y)), std::move(split)};
}

// Two logits a block, the same for every example.
struct Biases {
    static constexpr Offers offers{};
    Vec<Segment> segments(const Routes& routes) const {
        return {{.name = "logits", .shape = {2 * routes.blocks, 1, 1, 1}}};
    }
    template <class R>
    void operator()(const Routes& routes, In<R> psi, const Batch<R>& batch, Out<R> q0, Out<R>) const {
        for (std::size_t k = 0; k < batch.size() * routes.blocks; ++k) {
            const R* z = psi.data() + 2 * (k % routes.blocks);
            q0[k] = 1 / (1 + std::exp(z[1] - z[0]));
        }
    }
    template <class R>
    void pull_back(const Routes& routes, In<R>, const Batch<R>&, In<R> q0, In<R>, In<R> dq0, Out<R> dpsi) const {
        for (R& d : dpsi) d = 0;
        for (std::size_t k = 0; k < q0.size(); ++k) {
            const R slope = dq0[k] * q0[k] * (1 - q0[k]);
            dpsi[2 * (k % routes.blocks)] += slope;
            dpsi[2 * (k % routes.blocks) + 1] -= slope;
        }
    }
};

}  // namespace tessera::support
