// SPDX-License-Identifier: BSD-3-Clause
// How a network runs on the active coordinates of a mask (nn/sparse.hpp), layer by layer. Where it pays, an affine
// layer uses the sparse kernels, and what flows between such layers stays blocked (kernels/sparse_blocks.hpp): layers
// that act number by number take blocks as they are. Every other layer works on zero-filled weights of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include <tessera/contracts/sparse.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/kernels/sparse.hpp>
#include <tessera/nn/carried.hpp>
#include <tessera/nn/walk.hpp>

namespace tessera::nn {

namespace detail {

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

// Packed values, and what becomes of their gradient: it is written down, or moves them.
template <class R>
struct PackedDescent {
    R* packed = nullptr;
    R* gradient = nullptr;
    const Update<R>* update = nullptr;
    const Where* on = nullptr;  // of the packed coordinates, for the update

    R* values(const SparseLayer& layer) const { return packed + layer.packed.begin; }
    R* slopes(const SparseLayer& layer) const { return gradient ? gradient + layer.packed.begin : nullptr; }
    bool moves(const SparseLayer& layer) const { return update && on->touches(layer.packed); }
    void move(Range r, const R* slopes) const { update->at(r.begin)(packed + r.begin, slopes, r.size()); }
};

}  // namespace detail

// What nn::Sparse asks of a model that runs by itself on active weights.
template <class M>
struct MaskedForm {
    static constexpr bool exists = true;
    using R = real<M>;
    using SparseLayer = detail::SparseLayer;

    // One entry for each layer; empty if none goes sparse.
    static Vec<SparseLayer> plan(const M& model, const Mask& mask, std::size_t batch, Arithmetic how) {
        const Graph<R>& graph = model.graph();
        Vec<SparseLayer> all;
        bool any = false;
        for (std::size_t i = 0; i < graph.size(); ++i) {
            const Node<R>& n = graph.nodes[i];
            auto& layer = all.emplace_back();
            layer.whole = n.range();
            const std::size_t begin = n.owner < i ? all[n.owner].packed.begin : i == 0 ? 0 : packed_end(all, i);
            layer.packed = {begin, begin + detail::count_active(mask, n.range().begin, n.range().end)};
            layer.inputs = n.spec().in[0].width();
            layer.outputs = n.spec().out.width();
            if (n.spec().affine && n.spec().in[0].positions() == 1 && !n.shared && graph.on == &backend_for<R>())
                plan_affine(layer, mask, graph.from(i)[0] == 0, batch, how);
            any = any || layer.sparse;
        }
        if (!any) all.clear();
        return all;
    }

    // As many positions as in the dense layer, each with twice its active weights and its active biases (FedSpa, 5.5).
    static double flops(const M& model, const Mask& mask) {
        double sum = 0;
        for (const auto& n : model.graph().nodes) {
            double dense = 0, active = 0;
            for (std::size_t k = 0; k < n.spec().parts; ++k) {
                const Segment& s = n.spec().segments[k];
                const double share = s.rank > 1 ? 2 : 1;
                dense += share * static_cast<double>(s.size());
                active += share * static_cast<double>(detail::count_active(mask, n.w + s.offset, n.w + s.end()));
            }
            sum += dense > 0 ? n.spec().flops / dense * active : n.spec().flops;
        }
        return sum;
    }

    // The gradient in every coordinate at the zero-filled weights that stand in `w`, and in their place: from the last
    // layer to the first, each reads its weights a last time before its gradient takes their room.
    static double gradient_in_place(const M& model, const Batch<R>& batch, R* w) {
        const Graph<R>& graph = model.graph();
        const Walk<R> walk(graph, batch, Mode::train);
        const Lane<R> lane = walk.lane(w);
        const Scratch<R> sums(graph.shared_parameters);
        const Begun begun(graph);
        walk.forward(0, graph.size(), lane);
        const double value = walk.loss(lane, [&](Out<R> z) { return model.objective().gradient(batch, z, {graph.positions()}); });
        walk.backward(0, graph.size(), lane, [&](std::size_t i, Pass<R>& p) {
            const Node<R>& n = graph.nodes[i];
            if (n.spec().affine && !n.shared) {  // reads its weights for dx alone
                if (p.dx()) n.op->backward(p);
                Pass<R> own = p;
                own.dxs = {};
                own.dw = w + n.w;
                return n.op->backward(own);
            }
            const Scratch<R> one(n.shared ? 0 : n.spec().parameters);
            R* dw = n.shared ? sums.data() + n.sum : one.data();
            walk.store(i, p, dw, begun);
            if (n.owner == i) std::copy_n(dw, n.spec().parameters, w + n.w);
        });
        return value;
    }

    static void to_predictions(const M& model, Out<R> outputs) {
        model.objective().predict(outputs, model.outputs(), {model.positions()});
    }

    // One pass over a batch.
    class Run {
    public:
        Run(const M& model, const Mask& mask, const Vec<SparseLayer>& layers, In<R> packed, const Batch<R>& batch)
            : graph_(&model.graph()),
              objective_(model.objective()),
              mask_(&mask),
              layers_(&layers),
              batch_(&batch),
              values_(graph_->shapes.size()),
              slopes_(graph_->shapes.size()),
              weights_(graph_->size()),
              notes_(graph_->size()) {
            for (std::size_t v = 0; v < values_.size(); ++v) {
                values_[v].shape(batch.size(), graph_->shapes[v].size());
                slopes_[v].shape(batch.size(), graph_->shapes[v].size());
            }
            for (std::size_t i = 0; i < graph_->size(); ++i) forward(i, packed.data());
        }
        // Raw outputs.
        Out<R> outputs() { return {values_.back().rows(), values_.back().size(false)}; }
        // Leaves the gradient in the outputs for what follows: in their place, unless the last layer reads them.
        double loss() {
            if (!last_reads_outputs())
                return objective_.gradient(*batch_, Out<R>(values_.back().rows_to_write(), outputs().size()),
                                           {graph_->positions()});
            const Out<R> z = outputs(), dz(slopes_.back().make(false), z.size());
            std::copy(z.begin(), z.end(), dz.begin());
            return objective_.gradient(*batch_, dz, {graph_->positions()});
        }
        // Writes the packed gradient.
        void backward(const R* packed, R* gradient) { descend({const_cast<R*>(packed), gradient}); }
        // Moves the packed values.
        void step(R* packed, const Update<R>& update, const Where& on) { descend({packed, nullptr, &update, &on}); }

    private:
        using Descent = detail::PackedDescent<R>;

        bool last_reads_outputs() const { return graph_->nodes.back().spec().reads(Reads::y); }
        R* value(std::size_t v, bool blocked) {
            if (v > 0) return values_[v].get(blocked);
            return blocked ? values_[0].blocks(*batch_) : values_[0].rows(*batch_);
        }
        // The gradient in value v.
        detail::Carried<R>& slope(std::size_t v) {
            return v + 1 == slopes_.size() && !last_reads_outputs() ? values_[v] : slopes_[v];
        }
        bool in_blocks(std::size_t i) const {
            return graph_->nodes[i].spec().pointwise && values_[source(i)].in_blocks();
        }
        std::size_t source(std::size_t i, std::size_t k = 0) const {
            return static_cast<std::size_t>(graph_->from(i)[k]);
        }

        Pass<R> pass(std::size_t i, bool blocked) {
            const Spec& s = graph_->nodes[i].spec();
            Pass<R> p;
            p.spec = &s;
            p.on = graph_->on;
            p.batch = blocked ? kernels::padded<R>(batch_->size()) : batch_->size();
            p.noted = batch_->size();
            p.training = batch_->training();
            p.key = batch_->draw();
            for (std::size_t k = 0; k < s.inputs; ++k) p.xs[k] = value(source(i, k), blocked);
            p.rows.matrix = p.xs[0];
            return p;
        }
        void forward(std::size_t i, const R* packed) {
            const SparseLayer& layer = (*layers_)[i];
            const Node<R>& n = graph_->nodes[i];
            if (layer.sparse) {
                const R *x = value(source(i), true), *w = packed + layer.packed.begin;
                const Scratch<R> bias(layer.outputs);
                fill_bias(layer, w, bias.data());
                kernels::sparse_affine(layer.pattern, w, static_cast<const R*>(bias.data()), x,
                                       values_[i + 1].make(true), batch_->size());
                return;
            }
            const bool blocked = in_blocks(i);
            Pass<R> p = pass(i, blocked);
            p.w = detail::filled_weights(layer, *mask_, packed, weights_[i]);
            p.y = values_[i + 1].make(blocked);
            if (n.spec().notes + n.spec().batch_notes > 0) {
                p.notes = notes_[i].emplace(batch_->size() * n.spec().notes + n.spec().batch_notes).data();
                p.batch_notes = p.notes + batch_->size() * n.spec().notes;
            }
            n.op->forward(p);
        }
        void fill_bias(const SparseLayer& layer, const R* w, R* bias) const {
            if (layer.whole.size() > layer.inputs * layer.outputs)
                detail::fill_active(*mask_, layer.whole.end - layer.outputs, layer.whole.end, w + layer.weights, bias);
            else std::fill_n(bias, layer.outputs, R(0));
        }

        void descend(const Descent& to) {
            const Begun begun(*graph_);
            const Scratch<R> sums(graph_->shared_parameters);
            for (std::size_t i = graph_->size(); i-- > 0;) {
                if (graph_->trains[i + 1]) {
                    if ((*layers_)[i].sparse) sparse_back(i, to);
                    else back(i, to, begun, sums.data());
                }
                slopes_[i + 1].clear();
            }
        }
        // A slope that is added to one that is there already waits in `more`.
        struct Below {
            detail::Carried<R>* to = nullptr;
            bool adds = false;
        };
        Below below(std::size_t i, std::size_t k, detail::Carried<R>& more) {
            const std::size_t v = source(i, k);
            if (v == 0 || !graph_->trains[v]) return {};
            more.shape(batch_->size(), graph_->shapes[v].size());
            const bool first = graph_->first_writer[graph_->nodes[i].first + k];
            return {first ? &slopes_[v] : &more, !first};
        }
        void add(std::size_t i, std::size_t k, const Below& b) {
            if (!b.adds) return;
            const std::size_t v = source(i, k);
            R* to = slopes_[v].rows_to_write();
            kernels::axpy(R(1), static_cast<const R*>(b.to->rows()), to, batch_->size() * graph_->shapes[v].size());
        }

        void sparse_back(std::size_t i, const Descent& to) {
            const SparseLayer& layer = (*layers_)[i];
            const R* dy = slope(i + 1).blocks();
            const R* x = value(source(i), true);
            detail::Carried<R> more;
            const Below dx = below(i, 0, more);
            // A maker that is neither affine nor pointwise reads rows only.
            const bool rows =
                dx.to && !graph_->nodes[source(i) - 1].spec().affine && !graph_->nodes[source(i) - 1].spec().pointwise;
            const Scratch<R> spare(rows ? dx.to->size(true) : 0);
            kernels::SparseOut<R> out;
            if (dx.to) {
                out.blocks = rows ? spare.data() : dx.to->make(true);
                out.rows = rows ? dx.to->make(false) : nullptr;
            }
            R *w = to.values(layer), *g = to.slopes(layer);
            const bool moves = to.moves(layer);
            if (out.blocks && moves)
                kernels::sparse_backward(layer.pattern, dy, x, w, out, batch_->size(),
                                         to.update->pulls.at(layer.packed.begin), to.update->numbers);
            else if (out.blocks)
                kernels::sparse_gradients(layer.pattern, static_cast<const R*>(w), dy, x, out, g, batch_->size());
            else if (g) kernels::sparse_weight_gradient(layer.pattern, dy, x, g, batch_->size());
            else if (moves)
                kernels::sparse_update(layer.pattern, dy, x, w, batch_->size(), to.update->pulls.at(layer.packed.begin),
                                       to.update->numbers);
            if ((g || moves) && layer.whole.size() > layer.inputs * layer.outputs) bias_back(layer, to, dy, g);
            add(i, 0, dx);
        }
        void bias_back(const SparseLayer& layer, const Descent& to, const R* dy, R* g) {
            const Range biases{layer.packed.begin + layer.weights, layer.packed.end};
            const Scratch<R> sums(layer.outputs), active(g ? 0 : biases.size());
            kernels::block_sums(dy, sums.data(), layer.outputs, kernels::padded<R>(batch_->size()));
            detail::gather_active(*mask_, layer.whole.end - layer.outputs, layer.whole.end, sums.data(),
                                  g ? g + layer.weights : active.data());
            if (!g) to.move(biases, active.data());
        }

        void back(std::size_t i, const Descent& to, const Begun& begun, R* sums) {
            const SparseLayer& layer = (*layers_)[i];
            const Node<R>& n = graph_->nodes[i];
            const bool blocked = in_blocks(i);
            Pass<R> p = pass(i, blocked);
            p.w = layer.full() ? to.values(layer) : weights_[i]->data();
            if (n.spec().reads(Reads::y)) p.y = values_[i + 1].get(blocked);
            if (notes_[i]) {
                p.notes = notes_[i]->data();
                p.batch_notes = p.notes + batch_->size() * n.spec().notes;
            }
            p.dy = slope(i + 1).get(blocked);
            std::array<detail::Carried<R>, Spec::most_inputs> more;
            std::array<Below, Spec::most_inputs> dx{};
            for (std::size_t k = 0; k < n.spec().inputs; ++k) {
                dx[k] = below(i, k, more[k]);
                if (dx[k].to) p.dxs[k] = dx[k].to->make(blocked);
            }
            if (n.spec().parameters == 0) n.op->backward(p);
            else filled_back(i, to, p, begun, sums);
            for (std::size_t k = 0; k < n.spec().inputs; ++k) add(i, k, dx[k]);
        }
        // The gradient in zero-filled weights, and of it what is active.
        void filled_back(std::size_t i, const Descent& to, Pass<R>& p, const Begun& begun, R* sums) {
            const SparseLayer& layer = (*layers_)[i];
            const Node<R>& n = graph_->nodes[i];
            R* g = to.slopes(layer);
            const bool moves = to.moves(layer), direct = g && layer.full() && !n.shared;
            const Scratch<R> own((g || moves) && !direct && !n.shared ? layer.whole.size() : 0);
            R* dw = direct ? g : n.shared ? sums + n.sum : own.data();
            store(n, p, g || moves ? dw : nullptr, begun);
            if (direct || !(g || moves) || n.owner != i) return;
            const Scratch<R> active(layer.full() || g ? 0 : layer.packed.size());
            if (!layer.full() || g)
                detail::gather_active(*mask_, layer.whole.begin, layer.whole.end, static_cast<const R*>(dw),
                                      g ? g : active.data());
            if (moves) to.move(layer.packed, layer.full() ? dw : active.data());
        }
        static void store(const Node<R>& n, Pass<R>& p, R* dw, const Begun& begun) {
            if (!dw || !n.shared || begun.first(n.owner)) {
                p.dw = dw;
                return n.op->backward(p);
            }
            const Scratch<R> more(n.spec().parameters);
            p.dw = more.data();
            n.op->backward(p);
            kernels::axpy(R(1), static_cast<const R*>(more.data()), dw, more.size());
        }

        const Graph<R>* graph_;
        [[no_unique_address]] typename M::Objective objective_;
        const Mask* mask_;
        const Vec<SparseLayer>* layers_;
        const Batch<R>* batch_;
        Vec<detail::Carried<R>> values_, slopes_;
        Vec<std::optional<Scratch<R>>> weights_, notes_;
    };

private:
    static std::size_t packed_end(const Vec<SparseLayer>& all, std::size_t i) {
        std::size_t end = 0;  // of the layers before i, which are all but the last entry
        for (std::size_t k = 0; k < i; ++k) end = std::max(end, all[k].packed.end);
        return end;
    }
    // Who multiplies a layer. The first of all needs no input gradient.
    static void plan_affine(SparseLayer& layer, const Mask& mask, bool first, std::size_t batch, Arithmetic how) {
        const std::size_t weights = layer.inputs * layer.outputs, begin = layer.whole.begin;
        layer.weights = detail::count_active(mask, begin, begin + weights);
        layer.sparse = how == Arithmetic::sparse ||
                       (how == Arithmetic::table && detail::sparse_pays(layer.weights, weights, layer.outputs, batch));
        if (layer.sparse)
            layer.pattern = kernels::SparsePattern(mask.words().data(), begin, layer.outputs, layer.inputs, !first);
    }
};

}  // namespace tessera::nn
