// SPDX-License-Identifier: BSD-3-Clause
// How a network of layers runs on the active coordinates of a mask, layer by layer (nn/sparse.hpp). Where it pays, a
// Linear layer uses the sparse kernels, and what flows between such layers stays blocked (kernels/sparse.hpp). Every
// other layer works on zero-filled weights of its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>

#include <tessera/contracts/sparse.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/kernels/sparse.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/sequential.hpp>
#include <tessera/nn/sparse_linear.hpp>

namespace tessera::nn::detail {

template <class L>
inline constexpr bool is_linear = false;
template <std::size_t In, std::size_t Out>
inline constexpr bool is_linear<Linear<In, Out, backend::Simd>> = true;

// Acts number by number, so it does not care in which order they lie.
template <class L>
inline constexpr bool is_pointwise = std::is_same_v<L, Relu> || std::is_same_v<L, LeakyRelu>;

// The fixed table: up to which share of active weights a layer of so many outputs is faster on these alone. Zero-filled
// weights cost a dense step, and filling and gathering beside it. Sparse ones are read once for sixteen examples, or
// for fewer, and 48 are a block of 32 and one of 16. On Zen 4, for whose AVX sets it was made, whole steps are within
// 10 % of the faster way in 72 (AVX-512), 70 (AVX2) and 62 (portable, which would take more on active weights alone) of
// 72 cases (scripts/bench --only sparse_choice).
constexpr bool sparse_pays(std::size_t ones, std::size_t weights, std::size_t outputs, std::size_t batch) {
    const auto tenths = [&]() -> std::size_t {
        if (outputs < 32) return batch >= 8 ? 4 : 1;
        if (batch < 8) return batch >= 4 ? 6 : 3;
        return batch > 32 && batch <= 48 ? 5 : 9;
    };
    return 10 * ones <= tenths() * weights;
}

// Who multiplies a linear layer whose coordinates and widths are known. The first of all needs no input gradient.
inline void plan_linear(SparseLayer& layer, const Mask& mask, bool first, std::size_t batch, Arithmetic how) {
    const std::size_t weights = layer.inputs * layer.outputs, begin = layer.whole.begin;
    layer.weights = count_active(mask, begin, begin + weights);
    layer.sparse = how == Arithmetic::sparse ||
                   (how == Arithmetic::table && sparse_pays(layer.weights, weights, layer.outputs, batch));
    if (layer.sparse)
        layer.pattern = kernels::SparsePattern(mask.words().data(), begin, layer.outputs, layer.inputs, !first);
}

// Networks that are a sequence of layers. What is said of the others: nothing.
template <class M>
struct Layered {
    static constexpr bool exists = false;
};
template <class R, std::size_t Inputs, class... Layers, class Loss>
struct Layered<Network<R, Inputs, Sequential<Layers...>, Loss>> {
    using Net = Network<R, Inputs, Sequential<Layers...>, Loss>;
    static constexpr std::size_t count = sizeof...(Layers);
    static constexpr bool exists = count > 0;
    template <std::size_t I>
    using at = std::tuple_element_t<I, std::tuple<Layers...>>;
    static constexpr auto widths = [] {
        std::array<std::size_t, count + 1> all{Inputs};
        std::size_t i = 0;
        ((all[i + 1] = Layers::width(all[i]), ++i), ...);
        return all;
    }();

    // Empty if no layer goes sparse.
    static Vec<SparseLayer> plan(const Net&, const Mask& mask, std::size_t batch, Arithmetic how) {
        Vec<SparseLayer> all;
        bool any = false;
        std::size_t packed = 0, index = 0;
        const auto look = [&]<class L>(std::type_identity<L>, Range r) {
            auto& layer = all.emplace_back();
            const std::size_t active = count_active(mask, r.begin, r.end);
            layer.whole = r;
            layer.packed = {packed, packed + active};
            packed += active;
            layer.inputs = widths[index];
            layer.outputs = widths[index + 1];
            if constexpr (is_linear<L>) plan_linear(layer, mask, index == 0, batch, how);
            any = any || layer.sparse;
            ++index;
        };
        std::array<Range, count> ranges{};
        std::size_t i = 0;
        Sequential<Layers...>::for_each_layer([&](Range r) { ranges[i++] = r; });
        i = 0;
        (look(std::type_identity<Layers>{}, ranges[i++]), ...);
        if (!any) all.clear();
        return all;
    }

    static double flops(const Net&, const Mask& mask) {
        double sum = 0;
        std::size_t i = 0, begin = 0;
        ((sum += flops_of<Layers>(mask, widths[i++], begin), begin += dimension(Layout(Layers::segments))), ...);
        return sum;
    }

    // The gradient in every coordinate at the zero-filled weights that stand in `w`, and in their place: from the last
    // layer to the first, each reads its weights a last time before its gradient takes their room.
    static double gradient_in_place(const Net& net, const Batch<R>& batch, R* w) {
        const Scratch<R> x(batch.size() * Inputs);
        load_rows(batch, Inputs, x.data());
        return in_place<0>(net, {batch.size(), Inputs, batch.training(), batch.draw()}, batch, x.data(), w, nullptr);
    }

    static void to_predictions(const Net&, Out<R> outputs) { Loss::predict(outputs, widths[count]); }

    // One pass over a batch. Numbers behind layer i are number i + 1.
    class Run {
    public:
        Run(const Net& net, const Mask& mask, const Vec<SparseLayer>& layers, In<R> packed, const Batch<R>& batch)
            : net_(&net), mask_(&mask), layers_(&layers), batch_(&batch),
              call_{batch.size(), Inputs, batch.training(), batch.draw()} {
            for (std::size_t i = 0; i <= count; ++i) {
                numbers_[i].shape(batch.size(), widths[i]);
                slopes_[i].shape(batch.size(), widths[i]);
            }
            forward<0>(packed.data());
        }
        Out<R> outputs() { return {numbers_[count].rows(), batch_->size() * widths[count]}; }
        // Leaves the gradient in the outputs for what follows: in their place, unless the last layer reads them.
        double loss() {
            if constexpr (reads_outputs<at<count - 1>>) {
                const Out<R> z = outputs(), dz(slopes_[count].make(false), z.size());
                std::copy(z.begin(), z.end(), dz.begin());
                return Loss::gradient(*batch_, dz);
            } else {
                return Loss::gradient(*batch_, {numbers_[count].rows_to_write(), outputs().size()});
            }
        }
        // Writes the packed gradient.
        void backward(const R* packed, R* gradient) { backward_from<count>({const_cast<R*>(packed), gradient}); }
        // Moves the packed values.
        void step(R* packed, Update<R> update, const Where& on) {
            update.on = &on;
            backward_from<count>({packed, nullptr, &update});
        }

    private:
        template <std::size_t I>
        R* by_rows() {
            if constexpr (I == 0) return numbers_[0].rows(*batch_);
            else return numbers_[I].rows();
        }
        template <std::size_t I>
        const R* in_blocks() {
            if constexpr (I == 0) return numbers_[0].blocks(*batch_);
            else return numbers_[I].blocks();
        }

        template <std::size_t I>
        void forward(const R* packed) {
            if constexpr (I < count) {
                through<I>(packed);
                forward<I + 1>(packed);
            }
        }
        template <std::size_t I>
        void through(const R* packed) {
            const auto& layer = (*layers_)[I];
            const auto& own = net_->layers().template layer<I>();
            if constexpr (is_linear<at<I>>)
                if (layer.sparse) {
                    const R* x = in_blocks<I>();
                    sparse_forward(layer, *mask_, packed, x, numbers_[I + 1].make(true), call_.batch);
                    return;
                }
            if constexpr (is_pointwise<at<I>>) {
                const bool blocked = numbers_[I].in_blocks();
                const R* x = blocked ? in_blocks<I>() : by_rows<I>();
                own.forward(call_of<I>(blocked), packed, x, numbers_[I + 1].make(blocked), static_cast<R*>(nullptr));
            } else {
                R* notes = notes_[I].emplace(call_.batch * at<I>::notes(widths[I])).data();
                own.forward(call_of<I>(false), filled_weights(layer, *mask_, packed, weights_[I]),
                            static_cast<const R*>(by_rows<I>()), numbers_[I + 1].make(false), notes);
            }
        }
        template <std::size_t I>
        Call call_of(bool blocked) const {
            Call call = call_.child(I, widths[I]);
            if (blocked) call.batch = kernels::padded<R>(call.batch);
            return call;
        }

        template <std::size_t I>
        void backward_from(const Descent<R>& to) {
            if constexpr (I > 0) {
                back_through<I - 1>(to);
                slopes_[I].clear();
                backward_from<I - 1>(to);
            }
        }
        // The gradient behind layer I - 1.
        template <std::size_t I>
        Carried<R>& slopes() {
            if constexpr (I == count && !reads_outputs<at<count - 1>>) return numbers_[I];
            else return slopes_[I];
        }

        template <std::size_t I>
        void back_through(const Descent<R>& to) {
            const auto& layer = (*layers_)[I];
            const auto& own = net_->layers().template layer<I>();
            if constexpr (is_linear<at<I>>)
                if (layer.sparse) {
                    const R* dy = slopes<I + 1>().blocks();
                    const R* x = in_blocks<I>();
                    if constexpr (I > 0) {
                        constexpr bool rows = !is_linear<at<I - 1>> && !is_pointwise<at<I - 1>>;  // it reads them only
                        const Scratch<R> spare(rows ? slopes_[I].size(true) : 0);
                        sparse_backward(layer, *mask_, to, dy, x,
                                        {rows ? spare.data() : slopes_[I].make(true),
                                         rows ? slopes_[I].make(false) : nullptr},
                                        call_.batch);
                    } else {
                        sparse_backward(layer, *mask_, to, dy, x, {}, call_.batch);
                    }
                    return;
                }
            if constexpr (is_pointwise<at<I>>) {
                if constexpr (I > 0) {
                    const bool blocked = numbers_[I].in_blocks();
                    const R* dy = slopes<I + 1>().get(blocked);
                    own.backward(call_of<I>(blocked), to.values(layer), static_cast<const R*>(numbers_[I].get(blocked)),
                                 static_cast<const R*>(nullptr), static_cast<const R*>(nullptr), dy,
                                 slopes_[I].make(blocked), static_cast<R*>(nullptr));
                }
            } else {
                filled_backward(layer, *mask_, to, [&](R* dw) {
                    const R* dy = slopes<I + 1>().rows();
                    own.backward(call_of<I>(false), layer.full() ? to.values(layer) : weights_[I]->data(),
                                 static_cast<const R*>(by_rows<I>()), static_cast<const R*>(by_rows<I + 1>()),
                                 notes_[I]->data(), dy, I > 0 ? slopes_[I].make(false) : nullptr, dw);
                });
            }
        }

        const Net* net_;
        const Mask* mask_;
        const Vec<SparseLayer>* layers_;
        const Batch<R>* batch_;
        Call call_;
        std::array<Carried<R>, count + 1> numbers_{}, slopes_{};
        std::array<std::optional<Scratch<R>>, count> weights_{}, notes_{};
    };

private:
    // x: what layer I reads; w: its weights, with those of later layers behind; dx: where the gradient in x goes.
    template <std::size_t I>
    static double in_place(const Net& net, const Call& call, const Batch<R>& batch, const R* x, R* w, R* dx) {
        constexpr std::size_t out = widths[I + 1], size = dimension(Layout(at<I>::segments));
        const auto& layer = net.layers().template layer<I>();
        const Call own = call.child(I, widths[I]);
        const Scratch<R> notes(call.batch * at<I>::notes(widths[I])), y(call.batch * out);
        constexpr bool apart = I + 1 < count || reads_outputs<at<I>>;
        const Scratch<R> inner(apart ? call.batch * out : 0);
        R* const dy = apart ? inner.data() : y.data();
        layer.forward(own, static_cast<const R*>(w), x, y.data(), notes.data());
        double value = 0;
        if constexpr (I + 1 < count) {
            value = in_place<I + 1>(net, call, batch, y.data(), w + size, inner.data());
        } else {
            if (apart) std::copy(y.begin(), y.end(), dy);
            value = Loss::gradient(batch, Out<R>(dy, y.size()));
        }
        const auto back = [&](R* to_x, R* to_w) {
            layer.backward(own, static_cast<const R*>(w), x, static_cast<const R*>(y.data()),
                           static_cast<const R*>(notes.data()), dy, to_x, to_w);
        };
        if constexpr (is_linear<at<I>>) {  // reads its weights for dx alone
            if (dx) back(dx, nullptr);
            back(nullptr, w);
        } else {
            const Scratch<R> dw(size);
            back(dx, dw.data());
            std::copy_n(dw.data(), size, w);
        }
        return value;
    }

    // 5.5: as many positions as in the dense layer, each with twice its active weights and its active biases.
    template <class L>
    static double flops_of(const Mask& mask, std::size_t in, std::size_t begin) {
        double dense = 0, active = 0;
        for (const Segment& s : L::segments) {
            const double share = s.rank > 1 ? 2 : 1;
            dense += share * static_cast<double>(s.size());
            active += share * static_cast<double>(count_active(mask, begin + s.offset, begin + s.end()));
        }
        return dense > 0 ? L::flops(in) / dense * active : L::flops(in);
    }
};

}  // namespace tessera::nn::detail
