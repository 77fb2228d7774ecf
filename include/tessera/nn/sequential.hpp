// SPDX-License-Identifier: BSD-3-Clause
// Layers one after the other; itself a layer, so blocks nest.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

template <class... Layers>
class Sequential {
    static constexpr std::size_t count = sizeof...(Layers);
    template <std::size_t I>
    using at = std::tuple_element_t<I, std::tuple<Layers...>>;

    static constexpr std::array<char, 10> digits{'0', '1', '2', '3', '4', '5', '6', '7', '8', '9'};
    template <class X, class R>
    static constexpr bool Reads = [] {
        if constexpr (std::is_same_v<X, Gathered<R>>) {
            if constexpr (count > 0) return GatheringLayer<at<0>, R>;
            else return false;
        } else if constexpr (std::is_same_v<X, GatheredBytes>) {
            if constexpr (count > 0) return ByteLayer<at<0>, R>;
            else return false;
        } else {
            return std::is_convertible_v<X, const R*>;
        }
    }();
    static_assert(count < 100, "tessera::nn::Sequential: at most 99 layers; nest some of them");

public:
    constexpr Sequential() = default;
    constexpr explicit Sequential(Layers... layers)
        requires(sizeof...(Layers) > 0)
        : layers_(std::move(layers)...) {}

    static constexpr auto segments = [] {
        std::array<Segment, (std::size_t{0} + ... + Layers::segments.size())> all{};
        std::size_t n = 0, offset = 0, index = 0;
        [[maybe_unused]] auto take = [&](const auto& own) {
            Name number;
            if (index >= 10) number.append({&digits[index / 10 % 10], 1});
            number.append({&digits[index % 10], 1});
            number.append(".");
            std::size_t end = 0;
            for (const auto& s : own) {
                end = s.end() > end ? s.end() : end;
                all[n++] = placed(s, number.view(), offset);
            }
            offset += end;
            ++index;
        };
        (take(Layers::segments), ...);
        return all;
    }();

    static constexpr std::size_t width(std::size_t in) {
        ((in = Layers::width(in)), ...);
        return in;
    }
    static constexpr double flops([[maybe_unused]] std::size_t in) {
        double sum = 0;
        ((sum += Layers::flops(in), in = Layers::width(in)), ...);
        return sum;
    }
    // Each layer's notes, and the output of each but the last.
    static constexpr std::size_t notes([[maybe_unused]] std::size_t in) {
        std::size_t sum = 0, index = 0;
        ((sum += Layers::notes(in), in = Layers::width(in), sum += ++index < count ? in : 0), ...);
        return sum;
    }

    // x is a matrix; it may also be a gathered minibatch, of numbers or bytes, where the first layer reads one.
    template <class R, class X>
        requires Reads<X, R>
    void forward(const Call& call, const R* w, X x, R* y, R* notes) const {
        if constexpr (count == 0) std::copy_n(x, call.batch * call.in, y);  // no layers: the identity
        forward_from<0>(call, call.in, w, x, y, notes);
    }
    template <class R, class X>
        requires Reads<X, R>
    void backward(const Call& call, const R* w, X x, const R* y, const R* notes, const R* dy, R* dx, R* dw) const {
        if constexpr (count == 0)
            if (dx) std::copy_n(dy, call.batch * call.in, dx);
        backward_from<0>(call, call.in, w, x, y, notes, dy, dx, dw, [](const R*, R*) {});
    }
    // The same; at_last(input, slope) is given what the last layer reads and the slope in it, which it may change.
    template <class R, class X, class AtLast>
        requires(Reads<X, R> && count > 1)
    void backward(const Call& call, const R* w, X x, const R* y, const R* notes, const R* dy, R* dx, R* dw,
                  const AtLast& at_last) const {
        backward_from<0>(call, call.in, w, x, y, notes, dy, dx, dw, at_last);
    }

    // Offered when every layer with parameters can do it.
    template <class R, class X>
        requires((Steppable<Layers, R> && ...) && Reads<X, R>)
    void step(const Call& call, R* w, X x, const R* y, const R* notes, const R* dy, R* dx,
              const Update<R>& update) const {
        step_from<0>(call, call.in, w, x, y, notes, dy, dx, update);
    }
    // f(range of parameters) for each layer.
    template <class F>
    static constexpr void for_each_layer(F&& f) {
        std::size_t begin = 0;
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            ((f(Range{begin, begin + parameters<I>()}), begin += parameters<I>()), ...);
        }(std::make_index_sequence<count>{});
    }

    template <std::size_t I>
    const at<I>& layer() const {
        return std::get<I>(layers_);
    }

    static constexpr bool reads_outputs = [] {
        if constexpr (count > 0) return nn::reads_outputs<at<count - 1>>;
        else return false;
    }();
    // What the last layer reads, left in the notes; a single layer reads the input itself.
    static constexpr bool reads_input_last = count <= 1;
    template <class R>
    static const R* last_input(const Call& call, const R* notes)
        requires(count > 1)
    {
        std::size_t in = call.in, index = 0;
        const R* input = nullptr;
        (([&] {
             const R* own = notes + call.batch * Layers::notes(in);
             in = Layers::width(in);
             if (++index < count) {
                 input = own;
                 notes = own + call.batch * in;
             }
         }()),
         ...);
        return input;
    }
    static constexpr std::size_t last_width(std::size_t in) {
        std::size_t index = 0;
        ((in = ++index < count ? Layers::width(in) : in), ...);
        return in;
    }

private:
    template <std::size_t I>
    static constexpr std::size_t parameters() {
        std::size_t end = 0;
        for (const auto& s : at<I>::segments) end = s.end() > end ? s.end() : end;
        return end;
    }

    template <std::size_t I, class R, class X>
    void forward_from(const Call& call, std::size_t in, const R* w, X x, R* y, R* notes) const {
        if constexpr (I < count) {
            R* own = notes;
            R* after = notes + call.batch * at<I>::notes(in);
            const std::size_t out = at<I>::width(in);
            R* to = I + 1 < count ? after : y;
            std::get<I>(layers_).forward(call.child(I, in), w, x, to, own);
            if constexpr (I + 1 < count)  // behind the last there are no notes, where it is alone not even a place
                forward_from<I + 1>(call, out, w + parameters<I>(), static_cast<const R*>(to), y,
                                    after + call.batch * out);
        }
    }

    template <std::size_t I, class R, class X, class AtLast>
    void backward_from(const Call& call, std::size_t in, const R* w, X x, const R* y, const R* notes,
                       const R* dy, R* dx, R* dw, const AtLast& at_last) const {
        if constexpr (I < count) {
            const R* after = notes + call.batch * at<I>::notes(in);
            const std::size_t out = at<I>::width(in);
            const R* to = I + 1 < count ? after : y;
            const R* dto = dy;
            const Scratch<R> inner(I + 1 < count ? call.batch * out : 0);
            if constexpr (I + 1 < count) {
                backward_from<I + 1>(call, out, w + parameters<I>(), to, y, after + call.batch * out, dy, inner.data(),
                                     dw ? dw + parameters<I>() : nullptr, at_last);
                if constexpr (I + 2 == count) at_last(to, inner.data());
                dto = inner.data();
            }
            std::get<I>(layers_).backward(call.child(I, in), w, x, to, notes, dto, dx, dw);
        }
    }

    template <std::size_t I, class R, class X>
    void step_from(const Call& call, std::size_t in, R* w, X x, const R* y, const R* notes, const R* dy, R* dx,
                   const Update<R>& update) const {
        if constexpr (I < count) {
            const R* after = notes + call.batch * at<I>::notes(in);
            const std::size_t out = at<I>::width(in);
            const R* to = I + 1 < count ? after : y;
            const R* dto = dy;
            const Scratch<R> inner(I + 1 < count ? call.batch * out : 0);
            if constexpr (I + 1 < count) {
                step_from<I + 1>(call, out, w + parameters<I>(), to, y, after + call.batch * out, dy, inner.data(),
                                 update.at(parameters<I>()));
                dto = inner.data();
            }
            const auto& layer = std::get<I>(layers_);
            if constexpr (at<I>::segments.empty())
                layer.backward(call.child(I, in), w, x, to, notes, dto, dx, static_cast<R*>(nullptr));
            else
                layer.step(call.child(I, in), w, x, to, notes, dto, dx, update);
        }
    }

    // Each layer by itself: GCC 12 zeroes settings when a tuple of layers that share an empty base is
    // value-initialised as a whole.
    std::tuple<Layers...> layers_{Layers()...};
};

}  // namespace tessera::nn
