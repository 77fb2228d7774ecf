// SPDX-License-Identifier: BSD-3-Clause
// Two sets of parameters, mixed per example behind every block (contracts/routable.hpp):
//
//   h = q0 G(x) + (1 - q0) Lam(x),   dG = q0 dh,   dLam = (1 - q0) dh,   dq0 = <dh, G(x) - Lam(x)>
//
// Every element of the outermost chain with parameters is a block, whatever it is made of; those without, and those
// that a recipe calls `unrouted`, stay between blocks as the global model has them. A block asks once for an example,
// `by_position` once for each of its positions. Draws (dropout) are those of the plain network, so with q0 = 1 every
// number is the plain network's.
//
// A block of one layer that offers `mixes` (a recurrence) asks at every position and mixes its states itself. Where
// such a block follows another, its local branch goes on from what the local branch before it put out.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include <tessera/contracts/routable.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/walk.hpp>

namespace tessera::nn {

constexpr Mode mode_of(MixAt mix) { return mix == MixAt::output ? Mode::route_all : Mode::route; }

template <class R>
class MixedPass {
public:
    // `kept`, where there is one, holds all up to the first mix if it says so; it will afterwards.
    MixedPass(const Graph<R>& graph, const R* w_g, const R* w_l, Routing<R>& routing, const Batch<R>& batch,
              RoutedPrefix<R>* kept = nullptr)
        : graph_(graph),
          mode_(mode_of(routing.mix)),
          w_g_(w_g),
          w_l_(w_l),
          routing_(routing),
          batch_(batch),
          walk_(graph, batch, mode_, nullptr, room_in(kept, graph.plan(mode_), batch.size())),
          main_(walk_.lane(w_g)),
          q0_(batch.size() * graph.blocks(mode_)) {
        forward(kept && kept->holds);
        if (kept) kept->holds = true;
    }
    R* outputs() const { return walk_.outputs(main_); }
    double loss(LossAt<R> f) const { return walk_.loss(main_, f); }
    // Null: not wanted.
    void backward(R* dw_g, R* dw_l) const {
        const Begun begun_g(graph_), begun_l(graph_);
        const auto stages = graph_.stages_of(mode_);
        std::size_t j = graph_.blocks(mode_);
        Vec<R> local_slope;  // in what a local branch put out, where another goes on from it
        for (std::size_t s = stages.size(); s-- > 0;) {
            const Stage& stage = stages[s];
            j -= graph_.questions(mode_, stage);
            if (graph_.mixes(mode_, stage)) {
                mixed_back(s, j, dw_g, dw_l, local_slope);
            } else if (stage.block) {
                Told told;
                if (routing_.wants_gradient()) tell(j, stage, told);
                branches_back(j, stage, told, dw_g, dw_l, begun_g, begun_l);
            } else {
                walk_.backward(stage.first, stage.last, main_, [&](std::size_t i, Pass<R>& p) {
                    const Node<R>& n = graph_.nodes[i];
                    walk_.store(i, p, dw_g ? dw_g + n.w : nullptr, begun_g);
                    if (dw_l && (!n.shared || begun_l.first(n.owner)))  // the local model has no part in it
                        std::fill_n(dw_l + n.w, n.spec().parameters, R(0));
                });
            }
        }
    }

private:
    // Null: the walk takes one of its own, which nobody has to fill with zeros first.
    static R* room_in(RoutedPrefix<R>* kept, const Plan& plan, std::size_t batch) {
        if (!kept) return nullptr;
        kept->numbers.resize(plan.size(batch));
        return kept->numbers.data();
    }
    const R* q0(std::size_t j) const { return q0_.data() + j * walk_.batch(); }
    std::size_t width(const Stage& s) const { return graph_.shapes[s.last].size(); }

    Lane<R> branch(const Stage& s, bool local) const {
        Lane<R> l = main_;
        l.w = local ? w_l_ : w_g_;
        l.index = local ? 2 : 1;
        l.first = s.first;
        if (s.first > 0) l.input = {walk_.value(main_, s.first), nullptr, {}};
        return l;
    }
    // Whether the local branch of stage s reads what that of the stage before put out.
    bool goes_on(std::size_t s) const {
        const auto stages = graph_.stages_of(mode_);
        return s > 0 && graph_.mixes(mode_, stages[s]) && graph_.mixes(mode_, stages[s - 1]);
    }
    Lane<R> branch_of(std::size_t s, bool local) const {
        const Stage& stage = graph_.stages_of(mode_)[s];
        Lane<R> l = branch(stage, local);
        if (local && goes_on(s)) l.input = {walk_.value(l, stage.first), nullptr, {}};
        return l;
    }
    void forward(bool known) {
        std::size_t j = 0, number = 0;
        for (const Stage& s : graph_.stages_of(mode_)) {
            const std::size_t at = number++;
            if (graph_.mixes(mode_, s)) {
                const Pass<R> g = walk_.pass(s.first, branch_of(at, false)),
                              l = walk_.pass(s.first, branch_of(at, true));
                graph_.nodes[s.first].op->mix_forward(g, l, walk_.value(main_, s.last), routing_, j);
                j += graph_.questions(mode_, s);
                continue;
            }
            const bool done = known && j == 0;
            if (!s.block) {
                if (!done) walk_.forward(s.first, s.last, main_);
                continue;
            }
            const Lane<R> g = branch(s, false), l = branch(s, true);
            if (!done) {
                walk_.forward(s.first, s.last, g);
                walk_.forward(s.first, s.last, l);
            }
            R* share = q0_.data() + j * walk_.batch();
            const std::size_t n = graph_.questions(mode_, s);
            ask(j, s, share);
            detail::mix_rows<R>(walk_.value(g, s.last), walk_.value(l, s.last), share, walk_.value(main_, s.last),
                                walk_.batch() * n, width(s) / n);
            j += n;
        }
    }
    // What a block showed means for what it read and for both branches; empty where nobody looked.
    struct Told {
        Vec<R> input, global, local;
    };
    // What block s shows at question t.
    class Sight {
    public:
        Sight(const MixedPass& pass, const Stage& s)
            : shown_(pass.graph_.shown(pass.mode_, s)),
              batch_(pass.walk_.batch()),
              looks_(pass.routing_.looks()),
              first_(looks_ && s.first == 0 ? batch_ * pass.graph_.inputs() : 0),
              rows_(looks_ ? batch_ * shown_.width() : 0) {
            if (!looks_) return;
            for (std::size_t i = 0; i < (s.first == 0 ? batch_ : 0); ++i)
                pass.batch_.read(i, Out<R>(first_.data() + i * pass.graph_.inputs(), pass.graph_.inputs()));
            from_[0] = s.first == 0 ? first_.data() : pass.walk_.value(pass.main_, s.first);
            from_[1] = pass.walk_.value(pass.branch(s, false), s.last);
            from_[2] = pass.walk_.value(pass.branch(s, true), s.last);
        }
        bool looks() const { return looks_; }
        std::size_t size(std::size_t part) const { return looks_ ? batch_ * shown_.asks * width(part) : 0; }
        In<R> at(std::size_t t) {
            if (looks_)
                each(t, [&](std::size_t part, std::size_t there, std::size_t here) {
                    std::copy_n(from_[part] + there, width(part), rows_.data() + here);
                });
            return {rows_.data(), rows_.size()};
        }
        // Takes apart what was said about it.
        void give(std::size_t t, const R* slopes, std::array<R*, 3> to) const {
            each(t, [&](std::size_t part, std::size_t there, std::size_t here) {
                std::copy_n(slopes + here, width(part), to[part] + there);
            });
        }

    private:
        std::size_t width(std::size_t part) const { return part == 0 ? shown_.input : shown_.held; }
        // f(part, where its row of an example begins, where in what is shown)
        template <class F>
        void each(std::size_t t, const F& f) const {
            for (std::size_t i = 0; i < batch_; ++i) {
                std::size_t here = i * shown_.width();
                for (std::size_t part = 0; part < 3; here += width(part++))
                    f(part, (i * shown_.asks + t) * width(part), here);
            }
        }

        Shown shown_;
        std::size_t batch_;
        bool looks_;
        Scratch<R> first_, rows_;
        std::array<const R*, 3> from_{};
    };
    // Of row i * asks + t of block s, which begins at question j.
    void ask(std::size_t j, const Stage& s, R* share) {
        const std::size_t batch = walk_.batch(), n = graph_.questions(mode_, s);
        Sight sight(*this, s);
        const Scratch<R> q0(n > 1 ? batch : 0);
        for (std::size_t t = 0; t < n; ++t) {
            routing_.ask(j + t, sight.at(t), Out<R>(n > 1 ? q0.data() : share, batch));
            for (std::size_t i = 0; n > 1 && i < batch; ++i) share[i * n + t] = q0[i];
        }
    }
    void tell(std::size_t j, const Stage& s, Told& told) const {
        const std::size_t batch = walk_.batch(), asks = graph_.questions(mode_, s), n = width(s) / asks;
        const R *dto = walk_.slope(main_, s.last), *global = walk_.value(branch(s, false), s.last),
                *local = walk_.value(branch(s, true), s.last);
        Sight sight(*this, s);
        told = {Vec<R>(sight.size(0)), Vec<R>(sight.size(1)), Vec<R>(sight.size(2))};
        const Scratch<R> dq0(batch);
        Vec<R> dseen(sight.looks() ? sight.at(0).size() : 0);
        for (std::size_t t = asks; t-- > 0;) {
            for (std::size_t i = 0; i < batch; ++i) {
                double sum = 0;
                for (std::size_t k = (i * asks + t) * n; k < (i * asks + t + 1) * n; ++k)
                    sum +=
                        static_cast<double>(dto[k]) * (static_cast<double>(global[k]) - static_cast<double>(local[k]));
                dq0[i] = static_cast<R>(sum);
            }
            std::fill(dseen.begin(), dseen.end(), R(0));
            routing_.answer(j + t, sight.at(t), In<R>(dq0.data(), batch), Out<R>(dseen));
            if (sight.looks()) sight.give(t, dseen.data(), {told.input.data(), told.global.data(), told.local.data()});
        }
    }
    void mixed_back(std::size_t at, std::size_t j, R* dw_g, R* dw_l, Vec<R>& local_slope) const {
        const Stage& s = graph_.stages_of(mode_)[at];
        const Node<R>& n = graph_.nodes[s.first];
        const bool below = s.first > 0 && graph_.trains[s.first];
        Pass<R> g = walk_.pass(s.first, branch_of(at, false)), l = walk_.pass(s.first, branch_of(at, true));
        const Vec<R> own = std::move(local_slope);
        local_slope = {};
        l.dy = own.empty() ? nullptr : own.data();
        g.dw = dw_g ? dw_g + n.w : nullptr;
        l.dw = dw_l ? dw_l + n.w : nullptr;
        R* dx = below ? walk_.slope(main_, s.first) : nullptr;
        g.dxs[0] = dx;
        if (below && goes_on(at)) {
            local_slope.resize(walk_.batch() * graph_.shapes[s.first].size());
            l.dxs[0] = local_slope.data();
        } else if (below) {
            l.dxs[0] = walk_.second_slope(main_, s.first);
        }
        n.op->mix_backward(g, l, walk_.slope(main_, s.last), routing_, j);
        if (below && !goes_on(at))
            kernels::axpy(R(1), static_cast<const R*>(l.dxs[0]), dx, walk_.batch() * graph_.shapes[s.first].size());
    }
    // Nothing below the first block is asked for a gradient.
    void branches_back(std::size_t j, const Stage& s, const Told& told, R* dw_g, R* dw_l, const Begun& begun_g,
                       const Begun& begun_l) const {
        const bool below = s.first > 0 && graph_.trains[s.first];
        const auto back = [&](bool local, R* dw, R* dx, const Begun& begun) {
            if (!dx && !dw) return;
            Lane<R> l = branch(s, local);
            l.input_slope = dx;
            const std::size_t asks = graph_.questions(mode_, s), n = width(s) / asks;
            const R *share = q0(j), *dto = walk_.slope(main_, s.last);
            R* part = walk_.slope(l, s.last);
            for (std::size_t i = 0; i < walk_.batch() * asks; ++i) {
                const R q = local ? 1 - share[i] : share[i];
                for (std::size_t k = i * n; k < (i + 1) * n; ++k) part[k] = q * dto[k];
            }
            const Vec<R>& more = local ? told.local : told.global;
            if (!more.empty()) kernels::axpy(R(1), more.data(), part, more.size());
            walk_.backward(s.first, s.last, l, [&](std::size_t i, Pass<R>& p) {
                walk_.store(i, p, dw ? dw + graph_.nodes[i].w : nullptr, begun);
            });
        };
        R* dx = below ? walk_.slope(main_, s.first) : nullptr;
        R* second = below ? walk_.second_slope(main_, s.first) : nullptr;
        back(false, dw_g, dx, begun_g);
        back(true, dw_l, second, begun_l);
        if (below)
            kernels::axpy(R(1), static_cast<const R*>(second), dx, walk_.batch() * graph_.shapes[s.first].size());
        if (below && !told.input.empty()) kernels::axpy(R(1), told.input.data(), dx, told.input.size());
    }

    const Graph<R>& graph_;
    Mode mode_;
    const R *w_g_, *w_l_;
    Routing<R>& routing_;
    const Batch<R>& batch_;
    Walk<R> walk_;
    Lane<R> main_;
    Scratch<R> q0_;
};

// The answers of a gate as choices: 1 or 0. A tie is global.
template <class R>
class Chosen final : public Routing<R> {
public:
    explicit Chosen(Routing<R>& asked) : asked_(asked) { this->mix = asked.mix; }
    bool wants_gradient() const override { return false; }
    bool looks() const override { return asked_.looks(); }
    void ask(std::size_t j, In<R> seen, Out<R> q0) override {
        asked_.ask(j, seen, q0);
        for (R& q : q0) q = q >= R(0.5) ? R(1) : R(0);
    }
    void answer(std::size_t, In<R>, In<R>, Out<R>) override {}

private:
    Routing<R>& asked_;
};

// Of each block and example the chosen branch alone. Rows go through each block in two groups, read where they lie;
// only the outputs return to the order of the batch.
template <class R>
class HardPass {
public:
    HardPass(const Graph<R>& graph, const R* w_g, const R* w_l, Routing<R>& routing, const Batch<R>& batch)
        : graph_(graph), w_g_(w_g), w_l_(w_l), routing_(routing), walk_(graph, batch, Mode::predict) {}

    void operator()(R* out) const {
        const std::size_t batch = walk_.batch();
        const auto stages = graph_.stages_of(mode_of(routing_.mix));
        std::size_t widest = 0, j = 0;
        for (const Stage& s : stages) widest = std::max(widest, graph_.shapes[s.last].size());
        const Scratch<R> one(batch * widest), other(batch * widest);
        const Scratch<Index> order(batch), rows(batch), next(batch);
        for (std::size_t i = 0; i < batch; ++i) order[i] = static_cast<Index>(i);
        Rows<R> x = walk_.input();
        R* h = one.data();
        for (const Stage& s : stages) {
            const std::size_t n = graph_.shapes[s.last].size();
            if (s.block) {
                const std::size_t global = grouped(j++, order.data(), rows.data(), next.data());
                some_rows(s, w_g_, x, rows.data(), global, h);
                some_rows(s, w_l_, x, rows.data() + global, batch - global, h + global * n);
                std::copy_n(next.data(), batch, order.data());
            } else {
                run(s, w_g_, x, batch, h);
            }
            x = {h, nullptr, {}};
            h = h == one.data() ? other.data() : one.data();
        }
        const std::size_t n = graph_.outputs();
        for (std::size_t r = 0; r < batch; ++r) std::copy_n(x.matrix + r * n, n, out + order[r] * n);
    }

private:
    void run(const Stage& s, const R* w, const Rows<R>& x, std::size_t batch, R* y) const {
        if (batch == 0) return;
        Lane<R> l = walk_.lane(w);
        l.batch = batch;
        l.first = s.first;
        l.input = x;
        l.last = s.last;
        l.output = y;
        walk_.forward(s.first, s.last, l);
    }
    // Which rows go to the global branch (their number is returned), then which to the local one. A tie is global.
    std::size_t grouped(std::size_t j, const Index* order, Index* rows, Index* next) const {
        const Scratch<R> q0(walk_.batch());
        routing_.ask(j, {}, Out<R>(q0.data(), walk_.batch()));
        std::size_t n = 0, global = 0;
        for (const bool wanted : {true, false}) {
            for (std::size_t r = 0; r < walk_.batch(); ++r)
                if ((q0[order[r]] >= R(0.5)) == wanted) {
                    rows[n] = static_cast<Index>(r);
                    next[n++] = order[r];
                }
            if (wanted) global = n;
        }
        return global;
    }
    void some_rows(const Stage& s, const R* w, const Rows<R>& x, const Index* rows, std::size_t count, R* y) const {
        const std::size_t width = graph_.shapes[s.first].size();
        if (x.bytes.examples) {
            const Scratch<Index> ids(count);
            for (std::size_t i = 0; i < count; ++i) ids[i] = x.bytes.ids[rows[i]];
            kernels::ByteRows some = x.bytes;
            some.ids = ids.data();
            return run(s, w, {nullptr, nullptr, some}, count, y);
        }
        const auto row = [&](std::size_t i) { return x.table ? x.table[rows[i]] : x.matrix + rows[i] * width; };
        if (graph_.reads_rows_at(s.first)) {
            const Scratch<const R*> table(count);
            for (std::size_t i = 0; i < count; ++i) table[i] = row(i);
            return run(s, w, {nullptr, table.data(), {}}, count, y);
        }
        const Scratch<R> copy(count * width);
        for (std::size_t i = 0; i < count; ++i) std::copy_n(row(i), width, copy.data() + i * width);
        run(s, w, {copy.data(), nullptr, {}}, count, y);
    }

    const Graph<R>& graph_;
    const R *w_g_, *w_l_;
    Routing<R>& routing_;
    Walk<R> walk_;
};

}  // namespace tessera::nn
