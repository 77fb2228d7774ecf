// SPDX-License-Identifier: BSD-3-Clause
// The one walk over a list of layers, and the passes that are made of it.
//
//   Walk walk(graph, batch, mode, scope)
//   walk.forward(first, last, lane)               layers [first, last) in order
//   walk.backward(first, last, lane, take)        in reverse; take(i, pass) runs layer i and says what becomes of dw
//
// A lane is a run of layers with one set of parameters: the network itself, or a branch of a routed block. A layer
// below which nothing trains is not visited.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <tessera/contracts/model.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/function_ref.hpp>
#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/graph.hpp>

namespace tessera::nn {

// A minibatch as the first layer reads it.
template <class R>
class Source {
public:
    Source(const Graph<R>& graph, const Batch<R>& batch);
    Rows<R> rows() const {
        if (raw_.examples) return {nullptr, nullptr, raw_};
        return {x_.data(), table_.size() > 0 ? table_.data() : nullptr, {}};
    }

private:
    static kernels::ByteRows bytes_of(const Graph<R>& graph, const Batch<R>& batch);
    // Rows are read in place when each begins a cache line; others are cheaper to copy than to read in halves again
    // and again (784-100-10, batch 20: 59 against 73 us).
    static bool lies_ready(const Graph<R>& graph, const Batch<R>& batch);
    void load(const Batch<R>& batch, std::size_t i);

    std::size_t width_;
    kernels::ByteRows raw_;
    Scratch<R> x_;
    Scratch<const R*> table_;
};

template <class R>
Source<R>::Source(const Graph<R>& graph, const Batch<R>& batch)
    : width_(graph.inputs()),
      raw_(bytes_of(graph, batch)),
      x_(raw_.examples || lies_ready(graph, batch) ? 0 : batch.size() * width_),
      table_(graph.reads_rows && !raw_.examples ? batch.size() : 0) {
    if (batch.width() != width_)  // the sentence is made on the heap, which a warm step does not ask
        throw ConfigError("examples have " + std::to_string(batch.width()) + " numbers, the model reads " +
                          std::to_string(width_));
    if (raw_.examples) return;
    for (std::size_t i = 0; i < batch.size(); ++i) load(batch, i);
}
template <class R>
kernels::ByteRows Source<R>::bytes_of(const Graph<R>& graph, const Batch<R>& batch) {
    const Examples& e = batch.examples();
    if (graph.reads_words) {  // as they are; numbers that stand for words are converted like any others
        const bool bytes = e.storage == Storage::bytes && e.shift == 0 && e.scale == 1;
        if (!bytes && e.storage != Storage::int32) return {};
        return {static_cast<const std::uint8_t*>(e.rows), batch.ids().data(), 0, 1, bytes_each(e.storage)};
    }
    if constexpr (std::is_same_v<R, float>) {
        if (graph.reads_bytes && e.storage == Storage::bytes && kernels::tiles_read(e.shift, graph.inputs()))
            return {static_cast<const std::uint8_t*>(e.rows), batch.ids().data(), e.shift, e.scale};
    }
    return {};
}
template <class R>
bool Source<R>::lies_ready(const Graph<R>& graph, const Batch<R>& batch) {
    if (!graph.reads_rows || batch.size() == 0 || !batch.row(0)) return false;
    return graph.inputs() * sizeof(R) % alignment == 0 &&
           reinterpret_cast<std::uintptr_t>(batch.row(0)) % alignment == 0;
}
template <class R>
void Source<R>::load(const Batch<R>& batch, std::size_t i) {
    if (table_.size() > 0) table_[i] = x_.size() == 0 ? batch.row(i) : x_.data() + i * width_;
    if (x_.size() == 0) return;
    R* to = x_.data() + i * width_;
    batch.fetch(i + 2);
    if (const R* row = batch.row(i)) std::memcpy(to, row, width_ * sizeof(R));
    else if (const auto* bytes = batch.bytes(i))
        kernels::widen_bytes(bytes, to, width_, R(batch.examples().shift), R(batch.examples().scale));
    else batch.read(i, Out<R>(to, width_));
}

template <class R>
struct Lane {
    const R* w = nullptr;
    std::size_t batch = 0;
    R *room = nullptr, *slopes = nullptr;
    std::size_t index = 0;  // of its places in the plan
    std::size_t first = 0;  // value that it reads
    Rows<R> input{};        // and where that lies
    std::size_t last = 0;   // value that is written to `output`, if there is one
    R* output = nullptr;
    R* input_slope = nullptr;  // null: not wanted
};

// Which shared parameters have a gradient already, so that later uses add to it.
class Begun {
public:
    template <class R>
    explicit Begun(const Graph<R>& graph) : owners_(graph.shared_parameters > 0 ? graph.size() : 0) {
        std::fill_n(owners_.data(), owners_.size(), std::uint8_t(0));
    }
    bool first(std::size_t owner) const { return !std::exchange(owners_[owner], std::uint8_t(1)); }

private:
    Scratch<std::uint8_t> owners_;
};

// The loss of these outputs; it leaves its slope in their place. Passes are compiled once, whatever the loss.
template <class R>
using LossAt = FunctionRef<double(Out<R>)>;

template <class R>
class Walk {
public:
    Walk(const Graph<R>& graph, const Batch<R>& batch, Mode mode, const Coordinates* on = nullptr)
        : Walk(graph, batch, mode, on, nullptr) {}
    // In a room of the caller's, of plan(mode).size(pitch) numbers.
    Walk(const Graph<R>& graph, const Batch<R>& batch, Mode mode, const Coordinates* on, R* room);

    const Graph<R>& graph() const { return *graph_; }
    std::size_t size() const { return graph_->size(); }
    std::size_t batch() const { return batch_.size(); }
    const Rows<R> input() const { return source_.rows(); }

    // The network with these parameters.
    Lane<R> lane(const R* w) const {
        return {.w = w,
                .batch = batch(),
                .room = place_,
                .slopes = slopes_.size() > 0 ? slopes_.data() : place_,
                .input = source_.rows()};
    }
    // What came out of layer v - 1.
    R* value(const Lane<R>& l, std::size_t v) const {
        if (v == l.last && l.output) return l.output;
        return l.room + plan_->value(l.index, v) * pitch_;
    }
    R* slope(const Lane<R>& l, std::size_t v) const {
        return l.slopes + plan_->slope(l.index == 0 ? 0 : 1, v) * pitch_;
    }
    // Where the slope of what a block reads waits, as its second branch has it.
    R* second_slope(const Lane<R>& l, std::size_t v) const { return l.slopes + plan_->slope(2, v) * pitch_; }
    R* outputs(const Lane<R>& l) const { return value(l, size()); }
    R* output_slopes(const Lane<R>& l) const { return slope(l, size()); }
    bool wanted(std::size_t v) const { return wanted_.size() > 0 ? wanted_[v] : graph_->trains[v]; }

    Pass<R> pass(std::size_t i, const Lane<R>& l) const;

    void forward(std::size_t first, std::size_t last, const Lane<R>& l) const;
    double loss(const Lane<R>& l, LossAt<R> f) const;
    void backward(std::size_t first, std::size_t last, const Lane<R>& l,
                  FunctionRef<void(std::size_t, Pass<R>&)> take) const;

    // The parameter gradient of layer i into `to`, null: not wanted; of shared parameters, the sum over their uses.
    void store(std::size_t i, Pass<R>& p, R* to, const Begun& begun) const;

private:
    R* slope_below(const Lane<R>& l, std::size_t v) const { return v == l.first ? l.input_slope : slope(l, v); }

    // Fills what must not be read after this time.
    void forget(int time, const Lane<R>& l) const;

    const Graph<R>* graph_;
    const Plan* plan_;
    const Batch<R>& batch_;
    Source<R> source_;
    std::size_t pitch_;
    Scratch<R> room_, slopes_;
    Scratch<std::uint8_t> wanted_;
    R* place_;
};

template <class R>
Walk<R>::Walk(const Graph<R>& graph, const Batch<R>& batch, Mode mode, const Coordinates* on, R* room)
    : graph_(&graph),
      plan_(&graph.plan(mode)),
      batch_(batch),
      source_(graph, batch),
      pitch_(graph.pitch(batch.size())),
      room_(room ? 0 : plan_->size(pitch_)),
      slopes_(plan_->slopes(pitch_)),
      wanted_(on && !on->everything() ? graph.shapes.size() : 0),
      place_(room ? room : room_.data()) {
    if (graph.poison && !room) std::fill_n(room_.data(), room_.size(), std::numeric_limits<R>::quiet_NaN());
    if (wanted_.size() == 0) return;
    wanted_[0] = 0;
    for (std::size_t i = 0; i < graph.size(); ++i) {
        wanted_[i + 1] = on->touches(graph.nodes[i].range());
        for (const int v : graph.from(i)) wanted_[i + 1] |= wanted_[static_cast<std::size_t>(v)];
    }
}

template <class R>
Pass<R> Walk<R>::pass(std::size_t i, const Lane<R>& l) const {
    const Node<R>& n = graph_->nodes[i];
    const Spec& s = n.spec();
    Pass<R> p;
    p.spec = &s;
    p.on = graph_->on;
    p.batch = l.batch;
    p.training = batch_.training();
    p.key = batch_.draw();
    p.w = l.w + n.w;
    const auto from = graph_->from(i);
    for (std::size_t k = 0; k < from.size(); ++k) {
        const auto v = static_cast<std::size_t>(from[k]);
        p.xs[k] = v == l.first ? l.input.matrix : value(l, v);
    }
    if (static_cast<std::size_t>(from[0]) == l.first) p.rows = l.input;
    else p.rows.matrix = p.xs[0];
    p.y = value(l, i + 1);
    p.saved_base = l.room + plan_->saved(l.index, i) * pitch_;
    p.saved_rows = pitch_;
    p.batch_saved = l.room + plan_->each * pitch_ + plan_->batch_saved(i) + (l.index == 2 ? plan_->once : 0);
    return p;
}

template <class R>
void Walk<R>::forward(std::size_t first, std::size_t last, const Lane<R>& l) const {
    for (std::size_t i = first; i < last; ++i) {
        graph_->nodes[i].op->forward(pass(i, l));
        if (graph_->poison) forget(static_cast<int>(i), l);
    }
}
template <class R>
double Walk<R>::loss(const Lane<R>& l, LossAt<R> f) const {
    R *z = outputs(l), *dz = output_slopes(l);
    const std::size_t n = l.batch * graph_->outputs();
    if (z != dz) std::copy_n(z, n, dz);
    const double value = f(Out<R>(dz, n));
    if (graph_->poison) forget(static_cast<int>(size()), l);
    return value;
}
template <class R>
void Walk<R>::backward(std::size_t first, std::size_t last, const Lane<R>& l,
                       FunctionRef<void(std::size_t, Pass<R>&)> take) const {
    for (std::size_t i = last; i-- > first;) {
        if (!wanted(i + 1)) continue;
        Pass<R> p = pass(i, l);
        p.dy = slope(l, i + 1);
        const auto from = graph_->from(i);
        const std::size_t k0 = graph_->nodes[i].first;
        for (std::size_t k = 0; k < from.size(); ++k) {
            const auto v = static_cast<std::size_t>(from[k]);
            if (v == l.first ? !l.input_slope : !wanted(v)) continue;
            p.dxs[k] = graph_->first_writer[k0 + k] ? slope_below(l, v) : l.slopes + plan_->added(k0 + k) * pitch_;
        }
        take(i, p);
        for (std::size_t k = 0; k < from.size(); ++k) {
            const auto v = static_cast<std::size_t>(from[k]);
            if (p.dxs[k] && !graph_->first_writer[k0 + k])  // all of blocks; rows past the batch are nobody's
                kernels::axpy(R(1), static_cast<const R*>(p.dxs[k]), slope_below(l, v),
                              pitch_ * graph_->shapes[v].size());
        }
        if (graph_->poison) forget(static_cast<int>(2 * size() - i), l);
    }
}

template <class R>
void Walk<R>::store(std::size_t i, Pass<R>& p, R* to, const Begun& begun) const {
    const Node<R>& n = graph_->nodes[i];
    if (n.spec().parameters == 0 || !to) return n.op->backward(p);
    if (!n.shared || begun.first(n.owner)) {
        p.dw = to;
        return n.op->backward(p);
    }
    const Scratch<R> more(n.spec().parameters);
    p.dw = more.data();
    n.op->backward(p);
    kernels::axpy(R(1), static_cast<const R*>(more.data()), to, more.size());
}
template <class R>
void Walk<R>::forget(int time, const Lane<R>& l) const {
    for (const auto& room : plan_->rooms)
        if (room.to == time && l.index == 0)
            std::fill_n((room.slopes ? l.slopes : l.room) + room.at * pitch_, room.size * pitch_,
                        std::numeric_limits<R>::quiet_NaN());
}

namespace detail {

// Loss and gradient; `at_features(value, slope)` is given what the last element of the outermost chain reads and the
// slope in it, which it may change.
template <class R>
double gradient(const Graph<R>& graph, const R* w, const Batch<R>& batch, LossAt<R> loss, R* out,
                FunctionRef<void(const R*, R*)> at_features) {
    const Walk<R> walk(graph, batch, Mode::train);
    const Lane<R> lane = walk.lane(w);
    const Begun begun(graph);
    const auto take = [&](std::size_t i, Pass<R>& p) { walk.store(i, p, out + graph.nodes[i].w, begun); };
    const auto features = static_cast<std::size_t>(graph.features);
    walk.forward(0, graph.size(), lane);
    const double value = walk.loss(lane, loss);
    walk.backward(features, graph.size(), lane, take);
    if (features > 0 && walk.wanted(features)) at_features(walk.value(lane, features), walk.slope(lane, features));
    walk.backward(0, features, lane, take);
    return value;
}
template <class R>
double gradient(const Graph<R>& graph, const R* w, const Batch<R>& batch, LossAt<R> loss, R* out) {
    return gradient<R>(graph, w, batch, loss, out, [](const R*, R*) {});
}

// Values up to and with value `v`, which is written to `out`.
template <class R>
void evaluate(const Graph<R>& graph, const R* w, const Batch<R>& batch, std::size_t v, R* out) {
    const Walk<R> walk(graph, batch, Mode::predict);
    Lane<R> lane = walk.lane(w);
    lane.last = v;
    lane.output = out;
    walk.forward(0, v, lane);
}

// Gradient and update in one walk. A layer that does both at once does; of the others the gradient lives as long as
// their turn. The scope must not cut a layer in two.
template <class R>
double step(const Graph<R>& graph, R* w, const Batch<R>& batch, LossAt<R> loss, const Update<R>& update,
            const Coordinates& on) {
    const Walk<R> walk(graph, batch, Mode::train, &on);
    const Lane<R> lane = walk.lane(w);
    const Scratch<R> sums(graph.shared_parameters);
    const Begun begun(graph);
    walk.forward(0, graph.size(), lane);
    const double value = walk.loss(lane, loss);
    walk.backward(0, graph.size(), lane, [&](std::size_t i, Pass<R>& p) {
        const Node<R>& n = graph.nodes[i];
        if (!on.touches(n.range())) return n.op->backward(p);
        if (n.op->offers.has(offer::backward_update) && !n.shared && n.spec().buffers == 0)
            return n.op->backward_update(p, w + n.w, update.at(n.w));
        const Scratch<R> own(n.shared ? 0 : n.spec().parameters);
        R* dw = n.shared ? sums.data() + n.sum : own.data();
        walk.store(i, p, dw, begun);
        if (n.owner == i) update.at(n.w)(n.spec(), w + n.w, dw);  // the first use is visited last
    });
    return value;
}

#ifdef TESSERA_LINKED_KERNELS
extern template double gradient(const Graph<float>&, const float*, const Batch<float>&, LossAt<float>, float*,
                                FunctionRef<void(const float*, float*)>);
extern template void evaluate(const Graph<float>&, const float*, const Batch<float>&, std::size_t, float*);
extern template double step(const Graph<float>&, float*, const Batch<float>&, LossAt<float>, const Update<float>&,
                            const Coordinates&);
#endif

}  // namespace detail

#ifdef TESSERA_LINKED_KERNELS
extern template class Walk<float>;
extern template class Walk<double>;
#endif

}  // namespace tessera::nn
