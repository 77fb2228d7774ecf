// SPDX-License-Identifier: BSD-3-Clause
// How a network of layers runs on the active coordinates of a mask, layer by layer (nn/sparse.hpp). Where it pays, a
// Linear layer uses the sparse kernels, and what flows between such layers stays blocked (kernels/sparse.hpp). Every
// other layer works on zero-filled weights of its own.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tessera/contracts/sparse.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/kernels/sparse.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/sequential.hpp>

namespace tessera::nn::detail {

inline std::size_t count_active(const Mask& mask, std::size_t begin, std::size_t end) {
    std::size_t n = 0;
    kernels::each_word(mask.words().data(), begin, end, [&](std::size_t, std::uint64_t bits) {
        n += static_cast<std::size_t>(std::popcount(bits));
    });
    return n;
}
// packed = what is active of dense, and back; both begin at coordinate `begin`.
template <class R>
void gather_active(const Mask& mask, std::size_t begin, std::size_t end, const R* dense, R* packed) {
    kernels::each_word(mask.words().data(), begin, end, [&](std::size_t base, std::uint64_t bits) {
        for (; bits != 0; bits &= bits - 1)
            *packed++ = dense[base + static_cast<std::size_t>(std::countr_zero(bits)) - begin];
    });
}
template <class R>
void fill_active(const Mask& mask, std::size_t begin, std::size_t end, const R* packed, R* dense) {
    std::fill_n(dense, end - begin, R(0));
    kernels::each_word(mask.words().data(), begin, end, [&](std::size_t base, std::uint64_t bits) {
        for (; bits != 0; bits &= bits - 1)
            dense[base + static_cast<std::size_t>(std::countr_zero(bits)) - begin] = *packed++;
    });
}

// One layer of a network: its coordinates, its packed values, and the pattern of its weights if those go sparse.
struct SparseLayer {
    Range whole{}, packed{};
    std::size_t weights = 0;  // of the packed ones
    bool sparse = false;
    kernels::SparsePattern pattern{};

    bool full() const { return whole.size() == packed.size(); }
};

template <class L>
inline constexpr bool is_linear = false;
template <std::size_t In, std::size_t Out>
inline constexpr bool is_linear<Linear<In, Out, backend::Simd>> = true;

// Acts number by number, so it does not care in which order they lie.
template <class L>
inline constexpr bool is_pointwise = std::is_same_v<L, Relu> || std::is_same_v<L, LeakyRelu>;

// The fixed table: up to which share of active weights a layer of so many outputs is faster on these alone. Zero-filled
// weights cost a dense step, and filling and gathering beside it. Sparse ones are read once for sixteen examples, or
// for fewer, and 48 are a block of 32 and one of 16. Of 780 choices (784x10 to 784x512, 1 to 128 examples, by hand on
// Zen 4) it misses the faster one by more than 10 % in 1.5 % of them with AVX-512, 1 % with AVX2, 5 % with neither.
constexpr bool sparse_pays(std::size_t ones, std::size_t weights, std::size_t outputs, std::size_t batch) {
    const auto tenths = [&]() -> std::size_t {
        if (batch >= 8) return batch > 32 && batch <= 48 ? 6 : 9;
        if (outputs < 32) return 1;
        return batch >= 4 ? 5 : batch >= 2 ? 3 : 2;
    };
    return 10 * ones <= tenths() * weights;
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
    static Vec<SparseLayer> plan(const Mask& mask, std::size_t batch, Arithmetic how) {
        Vec<SparseLayer> all;
        bool any = false, first = true;
        std::size_t packed = 0, index = 0;
        const auto look = [&]<class L>(std::type_identity<L>, Range r) {
            auto& layer = all.emplace_back();
            const std::size_t active = count_active(mask, r.begin, r.end);
            layer.whole = r;
            layer.packed = {packed, packed + active};
            packed += active;
            if constexpr (is_linear<L>) {
                const std::size_t weights = L::segments[0].size();
                layer.weights = count_active(mask, r.begin, r.begin + weights);
                layer.sparse = how == Arithmetic::sparse ||
                               (how == Arithmetic::table &&
                                sparse_pays(layer.weights, weights, widths[index + 1], batch));
                if (layer.sparse)
                    layer.pattern = kernels::SparsePattern(mask.words().data(), r.begin, widths[index + 1],
                                                           widths[index], !first);
                any = any || layer.sparse;
            }
            first = false;
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

    static double flops(const Mask& mask) {
        double sum = 0;
        std::size_t i = 0, begin = 0;
        ((sum += flops_of<Layers>(mask, widths[i++], begin), begin += dimension(Layout(Layers::segments))), ...);
        return sum;
    }

    // The gradient in every coordinate at the zero-filled weights that stand in `w`, and in their place: from the last
    // layer to the first, each reads its weights a last time before its gradient takes their room.
    static double gradient_in_place(const Net& net, const Batch<R>& batch, R* w) {
        const Scratch<R> x(batch.size() * Inputs);
        load(batch, x.data());
        return in_place<0>(net, {batch.size(), Inputs, batch.training(), batch.draw()}, batch, x.data(), w, nullptr);
    }

    static double loss(const Batch<R>& batch, Out<R> outputs) { return Loss::gradient(batch, outputs); }
    static void to_predictions(Out<R> outputs) { Loss::predict(outputs, widths[count]); }

    // One pass over a batch. Numbers behind layer i stand in slot i + 1, by rows, in blocks, or both.
    class Run {
    public:
        Run(const Net& net, const Mask& mask, const Vec<SparseLayer>& layers, In<R> packed, const Batch<R>& batch)
            : net_(&net), mask_(&mask), layers_(&layers), batch_(&batch),
              call_{batch.size(), Inputs, batch.training(), batch.draw()}, examples_(kernels::padded<R>(batch.size())) {
            forward<0>(packed.data());
        }
        // Raw outputs, and later their gradient.
        Out<R> outputs() { return {by_rows<count>(), batch_->size() * widths[count]}; }

        // The gradient of the outputs stands in their place. Writes the packed gradient.
        void backward(const R* packed, R* gradient) { backward_from<count>(const_cast<R*>(packed), gradient, nullptr); }
        // Moves the packed values.
        void step(R* packed, const Update<R>& update) { backward_from<count>(packed, nullptr, &update); }

    private:
        using Slot = std::optional<Scratch<R>>;

        template <std::size_t I>
        R* make(Slot& slot, bool blocked) {
            return slot.emplace((blocked ? examples_ : call_.batch) * widths[I]).data();
        }
        template <std::size_t I>
        R* by_rows() {
            if (!rows_[I]) {
                make<I>(rows_[I], false);
                if constexpr (I == 0) load(*batch_, rows_[0]->data());
                else kernels::from_blocks(blocks_[I]->data(), rows_[I]->data(), call_.batch, widths[I], examples_);
            }
            return rows_[I]->data();
        }
        template <std::size_t I>
        const R* in_blocks() {
            if (!blocks_[I]) {
                const bool in_place = I == 0 && call_.batch > 0 && batch_->row(0);
                const Scratch<const R*> rows(call_.batch);
                for (std::size_t i = 0; i < call_.batch; ++i)
                    rows[i] = in_place ? batch_->row(i) : by_rows<I>() + i * widths[I];
                kernels::to_blocks(rows.data(), make<I>(blocks_[I], true), call_.batch, widths[I], examples_);
            }
            return blocks_[I]->data();
        }
        // Zero-filled weights of a layer that works on those, or the packed ones where none is missing.
        template <std::size_t I>
        const R* filled(const R* packed) {
            const auto& layer = (*layers_)[I];
            if (layer.full()) return packed + layer.packed.begin;
            R* w = weights_[I].emplace(layer.whole.size()).data();
            fill_active(*mask_, layer.whole.begin, layer.whole.end, packed + layer.packed.begin, w);
            return w;
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
                    const R* w = packed + layer.packed.begin;
                    const Scratch<R> bias(widths[I + 1]);
                    fill_active(*mask_, layer.whole.end - widths[I + 1], layer.whole.end, w + layer.weights,
                                bias.data());
                    kernels::sparse_affine(layer.pattern, w, bias.data(), x, make<I + 1>(blocks_[I + 1], true),
                                           call_.batch);
                    return;
                }
            if constexpr (is_pointwise<at<I>>) {
                const bool blocked = blocks_[I].has_value();
                Slot& to = blocked ? blocks_[I + 1] : rows_[I + 1];
                own.forward(call_of<I>(blocked), packed, blocked ? in_blocks<I>() : by_rows<I>(),
                            make<I + 1>(to, blocked), static_cast<R*>(nullptr));
            } else {
                R* notes = notes_[I].emplace(call_.batch * at<I>::notes(widths[I])).data();
                own.forward(call_of<I>(false), filled<I>(packed), static_cast<const R*>(by_rows<I>()),
                            make<I + 1>(rows_[I + 1], false), notes);
            }
        }
        template <std::size_t I>
        Call call_of(bool blocked) const {
            Call call = call_.child(I, widths[I]);
            if (blocked) call.batch = examples_;
            return call;
        }

        // The gradient behind layer I - 1 stands in `rows_d_[I]` or `blocks_d_[I]`.
        template <std::size_t I>
        void backward_from(R* packed, R* gradient, const Update<R>* update) {
            if constexpr (I > 0) {
                back_through<I - 1>(packed, gradient, update);
                rows_d_[I].reset();
                blocks_d_[I].reset();
                backward_from<I - 1>(packed, gradient, update);
            }
        }
        template <std::size_t I>
        const R* d_by_rows() {
            if constexpr (I == count) return rows_[I]->data();
            else {
                if (!rows_d_[I])
                    kernels::from_blocks(blocks_d_[I]->data(), make<I>(rows_d_[I], false), call_.batch, widths[I],
                                         examples_);
                return rows_d_[I]->data();
            }
        }
        template <std::size_t I>
        const R* d_in_blocks() {
            if (!blocks_d_[I])
                kernels::to_blocks(kernels::RowTable<R>(d_by_rows<I>(), call_.batch, widths[I]).rows(),
                                   make<I>(blocks_d_[I], true), call_.batch, widths[I], examples_);
            return blocks_d_[I]->data();
        }

        template <std::size_t I>
        void back_through(R* packed, R* gradient, const Update<R>* update) {
            const auto& layer = (*layers_)[I];
            const auto& own = net_->layers().template layer<I>();
            R* w = packed + layer.packed.begin;
            R* g = gradient ? gradient + layer.packed.begin : nullptr;
            const bool moves = update && update->on->touches(layer.packed);
            if constexpr (is_linear<at<I>>)
                if (layer.sparse) {
                    const R* dy = d_in_blocks<I + 1>();
                    const R* x = in_blocks<I>();
                    if constexpr (I > 0) {
                        constexpr bool rows = !is_linear<at<I - 1>> && !is_pointwise<at<I - 1>>;  // it reads them only
                        const Scratch<R> spare(rows ? examples_ * widths[I] : 0);
                        const kernels::SparseOut<R> dx{rows ? spare.data() : make<I>(blocks_d_[I], true),
                                                       rows ? make<I>(rows_d_[I], false) : nullptr};
                        if (moves)
                            kernels::sparse_backward(layer.pattern, dy, x, w, dx, call_.batch,
                                                     update->pulls.at(layer.packed.begin), update->numbers);
                        else
                            kernels::sparse_gradients(layer.pattern, static_cast<const R*>(w), dy, x, dx, g,
                                                      call_.batch);
                    } else if (g) {
                        kernels::sparse_weight_gradient(layer.pattern, dy, x, g, call_.batch);
                    } else if (moves) {
                        kernels::sparse_update(layer.pattern, dy, x, w, call_.batch,
                                               update->pulls.at(layer.packed.begin), update->numbers);
                    }
                    if (g || moves) bias_gradient<I>(dy, w, g, update);
                    return;
                }
            if constexpr (is_pointwise<at<I>>) {
                if constexpr (I > 0) {
                    const bool blocked = blocks_[I].has_value();
                    Slot& to = blocked ? blocks_d_[I] : rows_d_[I];
                    own.backward(call_of<I>(blocked), w, blocked ? in_blocks<I>() : by_rows<I>(),
                                 static_cast<const R*>(nullptr), static_cast<const R*>(nullptr),
                                 blocked ? d_in_blocks<I + 1>() : d_by_rows<I + 1>(), make<I>(to, blocked),
                                 static_cast<R*>(nullptr));
                }
            } else {
                R* dx = nullptr;
                if constexpr (I > 0) dx = make<I>(rows_d_[I], false);
                const bool kept = g || moves, direct = g && layer.full();
                const Scratch<R> own_gradient(kept && !direct ? layer.whole.size() : 0);
                R* dw = direct ? g : kept && layer.whole.size() > 0 ? own_gradient.data() : nullptr;
                own.backward(call_of<I>(false), layer.full() ? w : weights_[I]->data(),
                             static_cast<const R*>(by_rows<I>()), by_rows<I + 1>(), notes_[I]->data(),
                             d_by_rows<I + 1>(), dx, dw);
                if (!dw || direct) return;
                const Scratch<R> active(layer.full() ? 0 : layer.packed.size());
                if (!layer.full())
                    gather_active(*mask_, layer.whole.begin, layer.whole.end, dw, g ? g : active.data());
                if (moves) apply(w, layer.full() ? dw : active.data(), layer.packed, *update);
            }
        }
        template <std::size_t I>
        void bias_gradient(const R* dy, R* w, R* g, const Update<R>* update) {
            const auto& layer = (*layers_)[I];
            const Scratch<R> sums(widths[I + 1]), active(layer.packed.size() - layer.weights);
            kernels::block_sums(dy, sums.data(), widths[I + 1], examples_);
            gather_active(*mask_, layer.whole.end - widths[I + 1], layer.whole.end, sums.data(),
                          g ? g + layer.weights : active.data());
            const Range biases{layer.packed.begin + layer.weights, layer.packed.end};
            if (!g) apply(w + layer.weights, active.data(), biases, *update);
        }
        static void apply(R* w, const R* gradient, Range r, const Update<R>& update) {
            const auto pulls = update.pulls.at(r.begin);
            kernels::update(w, gradient, pulls.toward, pulls.also, pulls.velocity, r.size(), R(1), update.numbers);
        }

        const Net* net_;
        const Mask* mask_;
        const Vec<SparseLayer>* layers_;
        const Batch<R>* batch_;
        Call call_;
        std::size_t examples_;  // of the batch, with padding
        std::array<Slot, count + 1> rows_{}, blocks_{}, rows_d_{}, blocks_d_{};
        std::array<Slot, count> weights_{}, notes_{};
    };

private:
    static void load(const Batch<R>& batch, R* to) {
        for (std::size_t i = 0; i < batch.size(); ++i, to += Inputs) {
            batch.fetch(i + 2);
            if (const auto* bytes = batch.bytes(i))
                kernels::widen_bytes(bytes, to, Inputs, R(batch.examples().shift), R(batch.examples().scale));
            else
                batch.read(i, Out<R>(to, Inputs));
        }
    }

    // x: what layer I reads; w: its weights, with those of later layers behind; dx: where the gradient in x goes.
    template <std::size_t I>
    static double in_place(const Net& net, const Call& call, const Batch<R>& batch, const R* x, R* w, R* dx) {
        constexpr std::size_t out = widths[I + 1], size = dimension(Layout(at<I>::segments));
        const auto& layer = net.layers().template layer<I>();
        const Call own = call.child(I, widths[I]);
        const Scratch<R> notes(call.batch * at<I>::notes(widths[I])), y(call.batch * out);
        const Scratch<R> inner(I + 1 < count ? call.batch * out : 0);
        layer.forward(own, static_cast<const R*>(w), x, y.data(), notes.data());
        double value = 0;
        if constexpr (I + 1 < count) value = in_place<I + 1>(net, call, batch, y.data(), w + size, inner.data());
        else value = loss(batch, Out<R>(y.data(), y.size()));
        const R* dy = I + 1 < count ? inner.data() : y.data();
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
