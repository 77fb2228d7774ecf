// SPDX-License-Identifier: BSD-3-Clause
// A network that puts out the parameters of another one, and its steps.
//
//   h_0 = e,   h_l = relu(W_l h_{l-1} + b_l),   H(e; phi) = W h_L + b
//
// What is descended is <D, H(e)> with a D that came from outside. For one e its gradient is an outer product a layer,
// slope times input, whose norm follows from those of the two: the gradient, a hundred times as large as D, is never
// stored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <tessera/contracts/context.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/form.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/softmax.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::detail {

// Numbers that move by SGD. Without momentum they have no velocity.
template <class R>
struct Moving {
    Vec<R> x, velocity;

    void descend(const R* slope, const kernels::UpdateNumbers<R>& numbers) {
        const R *prox_center = nullptr, *linear = nullptr;
        kernels::update(x.data(), slope, prox_center, linear, speed(), x.size(), R(1), numbers);
    }
    R* speed() { return velocity.empty() ? nullptr : velocity.data(); }
};

// The gradients of <D_i, H(e_i)> for several i, as factors. A matrix has a row for each i.
template <class R>
struct HyperSlopes {
    std::size_t rows = 0;
    Vec<Vec<R>> inputs, slopes;  // of each layer: what it read, and the slopes of what it puts out
    Vec<R> embeddings;           // the slopes of the e_i

    const R* row(const Vec<R>& matrix, std::size_t i) const { return matrix.data() + i * (matrix.size() / rows); }
    const R* embedding(std::size_t i) const { return row(embeddings, i); }

    // Of gradient i, that of phi and of e_i together.
    double norm(std::size_t i) const {
        double sum = squared(embeddings, i);
        for (std::size_t l = 0; l < inputs.size(); ++l)
            sum += squared(slopes[l], i) * (squared(inputs[l], i) + 1);  // 1: the biases
        return std::sqrt(sum);
    }
    // As in rule/step.hpp; 0 does not clip.
    void clip(double most) {
        for (std::size_t i = 0; most > 0 && i < rows; ++i) {
            const double length = norm(i) + 1e-6;
            if (length <= most) continue;
            shorten(embeddings, i, most / length);
            for (auto& matrix : slopes) shorten(matrix, i, most / length);
        }
    }

private:
    double squared(const Vec<R>& matrix, std::size_t i) const {
        double sum = 0;
        kernels::squared_norm(row(matrix, i), matrix.size() / rows, &sum);
        return sum;
    }
    void shorten(Vec<R>& matrix, std::size_t i, double by) const {
        const std::size_t width = matrix.size() / rows;
        for (std::size_t j = i * width; j < (i + 1) * width; ++j) matrix[j] *= static_cast<R>(by);
    }
};

template <class R>
struct HyperNetwork {
    Vec<std::uint64_t> widths;  // of e, of the hidden layers, of what comes out
    Moving<R> phi;              // layer by layer, [out][in] and then out biases

    std::size_t layers() const { return widths.size() - 1; }
    std::size_t in(std::size_t layer) const { return static_cast<std::size_t>(widths[layer]); }
    std::size_t out(std::size_t layer) const { return static_cast<std::size_t>(widths[layer + 1]); }
    std::size_t outputs() const { return out(layers() - 1); }
    std::size_t begin(std::size_t layer) const {
        std::size_t at = 0;
        for (std::size_t l = 0; l < layer; ++l) at += (in(l) + 1) * out(l);
        return at;
    }

    Vec<R> operator()(const Vec<R>& e) const {
        const auto inputs = inputs_of_layers(e, 1);
        Vec<R> w(outputs());
        affine(layers() - 1, inputs.back(), w, 1);
        return w;
    }

    // Rows of e and D, at phi as it stands.
    HyperSlopes<R> slopes(Vec<R> e, Vec<R> d, std::size_t rows) const {
        HyperSlopes<R> all{rows, inputs_of_layers(std::move(e), rows), Vec<Vec<R>>(layers()), {}};
        all.slopes.back() = std::move(d);
        for (std::size_t l = layers(); l-- > 0;) {
            Vec<R> below(rows * in(l));
            kernels::affine_input_gradient(all.slopes[l].data(), phi.x.data() + begin(l), below.data(), rows, in(l),
                                           out(l));
            if (l > 0)
                kernels::leaky_relu_gradient(all.inputs[l].data(), below.data(), below.data(), below.size(), R(0));
            (l > 0 ? all.slopes[l - 1] : all.embeddings) = std::move(below);
        }
        return all;
    }

    // A step along each gradient, one after the other. A few outputs go through all of them while their weights are in
    // the cache; outputs know nothing of each other and go to the crew where there is a millisecond's work for each.
    void descend(const HyperSlopes<R>& along, const kernels::UpdateNumbers<R>& numbers) {
        constexpr std::size_t few = 64;
        const kernels::UpdateVectors<R> reads{nullptr, nullptr, phi.speed()};
        for (std::size_t l = 0; l < layers(); ++l) {
            const std::size_t from = begin(l), blocks = (out(l) + few - 1) / few;
            const std::size_t pieces = std::clamp<std::size_t>(along.rows * in(l) * out(l) >> 21, 1, Crew::size());
            Crew::for_each(pieces, [&](std::size_t piece) {
                for (std::size_t b = blocks * piece / pieces; b < blocks * (piece + 1) / pieces; ++b)
                    for (std::size_t i = 0; i < along.rows; ++i) {
                        const R* input = along.row(along.inputs[l], i);
                        kernels::affine_update_rows(along.row(along.slopes[l], i), &input, phi.x.data() + from, 1,
                                                    in(l), out(l), b * few, std::min(out(l), (b + 1) * few),
                                                    reads.at(from), numbers);
                    }
            });
        }
    }

private:
    void affine(std::size_t layer, const Vec<R>& x, Vec<R>& y, std::size_t rows) const {
        const R* w = phi.x.data() + begin(layer);
        kernels::affine(x.data(), w, w + in(layer) * out(layer), y.data(), rows, in(layer), out(layer));
    }
    Vec<Vec<R>> inputs_of_layers(Vec<R> e, std::size_t rows) const {
        Vec<Vec<R>> all;
        all.push_back(std::move(e));
        for (std::size_t l = 0; l + 1 < layers(); ++l) {
            Vec<R> h(rows * out(l));
            affine(l, all.back(), h, rows);
            kernels::leaky_relu(h.data(), h.data(), h.size(), R(0));
            all.push_back(std::move(h));
        }
        return all;
    }
};

template <class R>
struct HyperServer {
    HyperNetwork<R> network;
    Vec<Moving<R>> embeddings;  // of the clients

    Vec<R> embedding(Id k) const { return k < embeddings.size() ? embeddings[k].x : mean_embedding(); }
    Vec<R> mean_embedding() const {
        Vec<double> sum(network.in(0));
        for (const auto& e : embeddings)
            for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<double>(e.x[j]);
        Vec<R> mean;
        for (const double s : sum) mean.push_back(static_cast<R>(s / static_cast<double>(embeddings.size())));
        return mean;
    }
    template <class Upload>
    HyperSlopes<R> slopes(std::span<const Upload> uploads) const {
        Vec<R> e, d;
        e.reserve(uploads.size() * network.in(0)), d.reserve(uploads.size() * network.outputs());
        for (const auto& up : uploads) {
            const auto& own = embeddings[up.from].x;
            e.insert(e.end(), own.begin(), own.end());
            d.insert(d.end(), up.change.begin(), up.change.end());
        }
        return network.slopes(std::move(e), std::move(d), uploads.size());
    }
    template <class Upload>
    bool admits(Id from, const Upload& up) const {
        return up.from == from && up.change.size() == network.outputs();
    }
    bool like(const HyperServer& opened) const {
        return network.widths == opened.network.widths && has_form(*this, form_of(opened));
    }
};

// Puts out w for every e: last biases w, last weights 0. Hidden layers begin with numbers that keep the size of what
// passes a ReLU (He et al., 2015); with torch's own, which shrink it, clients look alike to the last layer.
template <class R>
HyperNetwork<R> hyper_network_around(const Vec<R>& w, std::size_t embedding, std::size_t hidden, std::size_t width,
                                     Key key, bool momentum) {
    const auto of_layer = [](std::size_t in, std::size_t out) {
        return (static_cast<double>(in) + 1) * static_cast<double>(out);
    };
    const double numbers = hidden == 0 ? of_layer(embedding, w.size())
                                       : of_layer(embedding, width) + of_layer(width, w.size()) +
                                             static_cast<double>(hidden - 1) * of_layer(width, width);
    require(numbers < 0x1p31, "a hypernetwork of " + std::to_string(hidden) + " layers of " + std::to_string(width) +
                                  " is more than memory can hold; make `hidden`, `width` or `embedding` smaller");
    HyperNetwork<R> made;
    made.widths.push_back(embedding);
    made.widths.insert(made.widths.end(), hidden, width);
    made.widths.push_back(w.size());
    auto& phi = made.phi.x;
    phi.resize(made.begin(made.layers()));
    for (std::size_t l = 0; l + 1 < made.layers(); ++l) {
        const double bound = std::sqrt(6 / static_cast<double>(made.in(l)));
        Stream draw(key(l));
        for (std::size_t j = made.begin(l); j < made.begin(l + 1); ++j)
            phi[j] = static_cast<R>((2 * draw.uniform() - 1) * bound);
    }
    std::copy(w.begin(), w.end(), phi.end() - static_cast<std::ptrdiff_t>(w.size()));
    if (momentum) made.phi.velocity.resize(phi.size());
    return made;
}

// Normal, with deviation `spread`.
template <class R>
Vec<Moving<R>> first_embeddings(std::size_t clients, std::size_t width, double spread, Key key, bool momentum) {
    Vec<Moving<R>> all(clients, Moving<R>{Vec<R>(width), Vec<R>(momentum ? width : 0)});
    for (std::size_t k = 0; k < clients; ++k) {
        Stream draw(key(k));
        for (R& x : all[k].x) x = static_cast<R>(spread * draw.normal());
    }
    return all;
}

// Numbers from outside: one that is mistyped by some zeros must not fill the memory.
inline void require_sizes(std::size_t embedding, std::size_t hidden, std::size_t width) {
    constexpr std::size_t widest = 65536, deepest = 64;
    require(embedding <= widest && (hidden == 0 || width <= widest),
            "embedding and width may be at most 65536, not " + std::to_string(std::max(embedding, width)));
    require(hidden <= deepest, "hidden may be at most 64 layers, not " + std::to_string(hidden));
}

inline void require_sgd(double rate, double momentum, double decay, double clip, double pace) {
    require_size(rate, "hyper_rate"), require_size(decay, "hyper_decay"), require_size(pace, "embedding_pace");
    require(momentum >= 0 && momentum < 1, "hyper_momentum must lie in [0, 1), not " + std::to_string(momentum));
    require(clip >= 0, "hyper_clip must be 0 (off) or a positive norm, not " + std::to_string(clip));
}

}  // namespace tessera::detail
