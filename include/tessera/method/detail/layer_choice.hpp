// SPDX-License-Identifier: BSD-3-Clause
// Which of two weights each layer of a model uses, drawn from logits that can learn.
//
//   y = softmax((a + G) / tau), G Gumbel;   forward: argmax of y;   backward: as if the weights were y_0 w_0 + y_1 w_1
//
// The straight-through slope of the loss in a_1 is therefore y_0 y_1 / tau <gradient, w_1 - w_0> over the layer, and
// minus that in a_0. A layer is the segments whose names agree up to the last dot.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/random.hpp>

namespace tessera::detail {

// The number of the layer each segment belongs to, from 0.
inline Vec<std::size_t> layers_of(Layout layout) {
    const auto layer = [](const Segment& s) {
        const auto name = s.name.view();
        const auto dot = name.rfind('.');
        return dot == name.npos ? name : name.substr(0, dot);
    };
    Vec<std::size_t> of;
    std::size_t count = 0;
    for (std::size_t i = 0; i < layout.size(); ++i) {
        std::size_t before = 0;
        while (before < i && layer(layout[before]) != layer(layout[i])) ++before;
        of.push_back(before < i ? of[before] : count++);
    }
    return of;
}

// Two logits a layer, first of the common weights, second of the client's own.
using ChoiceLogits = Vec<double>;

inline ChoiceLogits first_logits(Layout layout, double lean) {
    const auto layers = layers_of(layout);
    ChoiceLogits a(layers.empty() ? 0 : 2 * (*std::max_element(layers.begin(), layers.end()) + 1));
    for (std::size_t l = 1; l < a.size(); l += 2) a[l] = lean;
    return a;
}

// Holds both vectors as what is used and what lies idle; a layer that changes its mind swaps its pieces.
template <class R>
class LayerChoice {
public:
    LayerChoice(Layout layout, Vec<R> common, Vec<R> own, ChoiceLogits& logits)
        : layout_(layout), layer_of_(layers_of(layout)), logits_(logits), used_(std::move(common)),
          idle_(std::move(own)), owns_(logits.size() / 2, 0), soft_(logits.size() / 2) {}

    Vec<R>& used() { return used_; }

    void draw(Key key, double temperature) {
        Stream stream(key);
        const auto gumbel = [&] { return -std::log(-std::log(stream.uniform_open())); };
        for (std::size_t l = 0; l < owns_.size(); ++l) {
            const double common = logits_[2 * l] + gumbel(), own = logits_[2 * l + 1] + gumbel();
            soft_[l] = 1 / (1 + std::exp((common - own) / temperature));
            turn(l, own > common);
        }
    }
    // The more probable of each; the common one when both are.
    void settle() {
        for (std::size_t l = 0; l < owns_.size(); ++l) turn(l, logits_[2 * l + 1] > logits_[2 * l]);
    }
    // One step of the logits, given the gradient at what is used.
    void learn(In<R> gradient, double temperature, double rate) {
        for (std::size_t l = 0; l < owns_.size(); ++l) {
            double along = 0;
            for_each_range(l, [&](Range r, bool of_buffers) {
                for (std::size_t j = r.begin; !of_buffers && j < r.end; ++j)  // what those take is no slope
                    along += static_cast<double>(gradient[j]) *
                             (static_cast<double>(used_[j]) - static_cast<double>(idle_[j]));
            });
            const double slope = soft_[l] * (1 - soft_[l]) / temperature * (owns_[l] ? along : -along);
            logits_[2 * l] += rate * slope;
            logits_[2 * l + 1] -= rate * slope;
        }
    }

private:
    template <class F>
    void for_each_range(std::size_t layer, F&& f) const {
        for (std::size_t i = 0; i < layout_.size(); ++i)
            if (layer_of_[i] == layer)
                f(Range{layout_[i].offset, layout_[i].end()}, layout_[i].part == Part::buffer);
    }
    void turn(std::size_t layer, bool own) {
        if (own == (owns_[layer] != 0)) return;
        owns_[layer] = own;
        for_each_range(layer, [&](Range r, bool) {
            std::swap_ranges(used_.data() + r.begin, used_.data() + r.end, idle_.data() + r.begin);
        });
    }

    Layout layout_;
    Vec<std::size_t> layer_of_;
    ChoiceLogits& logits_;
    Vec<R> used_, idle_;
    Vec<unsigned char> owns_;  // whether a layer uses the client's own weights
    Vec<double> soft_;         // y_1 of the last draw
};

}  // namespace tessera::detail
