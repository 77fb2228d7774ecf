// SPDX-License-Identifier: BSD-3-Clause
// A model of which only a part is trained: its parameters are the coordinates that the scope selects, all others are
// frozen at given values. What methods keep, send and count are the selected coordinates alone.
//
//   const nn::Tuned tuned(net, backbone);       // adapters, norms and head of `net`, the rest as in `backbone`
//
// It starts at the backbone's own values. The backbone is everybody's and is never written; copies share it.
// A step moves the selected coordinates as the same step on the whole vector with `Terms::on` would, bit for bit: each
// thread keeps one vector with the frozen values in place and lays the selected ones into it, so a step copies those
// and nothing else, and fused kernels skip the frozen layers (784-100-10 with an adapter of 32, batch 64: 164 us a
// step, as on the whole vector in that scope; 220 us on all parameters). A gradient is taken whole and cut (240 us).
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tessera/contracts/model.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/contracts/routable.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/scope.hpp>

namespace tessera {

namespace scope {
// What PerAda trains: "adapter" there means adapters, norms and the prediction head.
using Tunable = AnyOf<IfAny<Adapter>, IfAny<Norm>, Head>;
}  // namespace scope

namespace nn {

template <Model M, Scope S = scope::Tunable>
class Tuned {
    using R = real<M>;

public:
    using Real = R;
    static constexpr Offers offers =
        offer::initialize | offer::input_width | offer::when(FusedModel<M>, offer::fused) |
        offer::when(CountedModel<M>, offer::forward_flops) | offer::when(LogitModel<M>, offer::logits) |
        offer::when(ClippingModel<M>, offer::clipped) | offer::when(FeatureModel<M>, offer::features) |
        offer::when(AlignableModel<M>, offer::aligned) | offer::when(RoutableModel<M>, offer::routed) |
        offer::when(JudgingModel<M>, offer::judge) | offer::apart;

    Tuned(M model, Vec<R> backbone, S scope = {}) : model_(std::move(model)) {
        const std::size_t d = dimension(model_);
        tessera::detail::require(backbone.size() == d, "the backbone has " + std::to_string(backbone.size()) +
                                                           " numbers, the model has " + std::to_string(d));
        auto kept = std::make_shared<Frozen>();
        kept->values = std::move(backbone);
        kept->where = on(scope, model_);
        std::size_t offset = 0;
        for (Segment s : model_.layout())
            if (kept->where.covers({s.offset, s.end()})) {
                kept->places.push_back(s.offset);
                s.offset = offset;
                offset = s.end();
                kept->segments.push_back(s);
            }
        kept_ = std::move(kept);
    }

    const M& whole() const { return model_; }
    const Vec<R>& backbone() const { return kept_->values; }
    // The parameters of the whole model.
    Vec<R> assembled(In<R> x) const {
        Vec<R> w = kept_->values;
        kept_->lay(x, w);
        return w;
    }

    Layout layout() const { return kept_->segments; }
    std::size_t outputs() const { return model_.outputs(); }
    std::size_t input_width() const { return tessera::input_width(model_); }
    void initialize(Out<R> x, Key) const { kept_->pick(kept_->values, x); }
    double gradient(In<R> x, const Batch<R>& b, Out<R> out) const {
        Buffers& bench = laid(x);
        bench.g.resize(bench.w.size());
        const double loss = model_.gradient(bench.w, b, bench.g);
        kept_->pick(bench.g, out);
        return loss;
    }
    void predict(In<R> x, const Batch<R>& b, Out<R> out) const { model_.predict(laid(x).w, b, out); }

    std::size_t positions() const
        requires JudgingModel<M>
    {
        return model_.positions();
    }
    void judge(const Batch<R>& b, In<R> predictions, Judgement& to) const
        requires JudgingModel<M>
    {
        model_.judge(b, predictions, to);
    }
    void accepts(const Examples& examples, bool labelled) const
        requires JudgingModel<M>
    {
        model_.accepts(examples, labelled);
    }

    bool fuses(const Step<R>& s) const
        requires FusedModel<M>
    {
        if (s.terms.active) return false;
        Step<R> whole = s;
        whole.terms.on = kept_->placed(s.terms.on);
        return model_.fuses(whole);
    }
    double fused_step(Out<R> x, const Batch<R>& b, const Step<R>& s) const
        requires FusedModel<M>
    {
        Buffers& bench = laid(x);
        const auto widened = [&](In<R> from, Vec<R>& to) {
            to.resize(bench.w.size());
            kept_->lay(from, to);
            return In<R>(to);
        };
        Step<R> whole = s;
        whole.terms.on = kept_->placed(s.terms.on);
        if (s.terms.prox_weight != 0) whole.terms.prox_center = widened(s.terms.prox_center, bench.prox_center);
        if (!s.terms.linear.empty()) whole.terms.linear = widened(s.terms.linear, bench.linear);
        if (s.momentum != 0) {
            widened(*s.velocity, bench.velocity);
            whole.velocity = &bench.velocity;
        }
        const double loss = model_.fused_step(bench.w, b, whole);
        kept_->pick(bench.w, x);
        if (s.momentum != 0) kept_->pick(bench.velocity, *s.velocity);
        return loss;
    }
    double forward_flops() const
        requires CountedModel<M>
    {
        return model_.forward_flops();
    }
    void logits(In<R> x, const Batch<R>& b, Out<R> out) const
        requires LogitModel<M>
    {
        model_.logits(laid(x).w, b, out);
    }
    void pullback(In<R> x, const Batch<R>& b, In<R> dz, Out<R> out) const
        requires LogitModel<M>
    {
        Buffers& bench = laid(x);
        bench.g.resize(bench.w.size());
        model_.pullback(bench.w, b, dz, bench.g);
        kept_->pick(bench.g, out);
    }
    bool apart() const { return examples_apart(model_); }
    bool clips(const Clip<R>& clip) const
        requires ClippingModel<M>
    {
        return !clip.active && model_.clips({clip.norm, kept_->placed(clip.on)});
    }
    double clipped_sum(In<R> x, const Batch<R>& b, const Clip<R>& clip, Out<R> out) const
        requires ClippingModel<M>
    {
        Buffers& bench = laid(x);
        bench.g.resize(bench.w.size());
        const double loss = model_.clipped_sum(bench.w, b, {clip.norm, kept_->placed(clip.on)}, bench.g);
        kept_->pick(bench.g, out);
        return loss;
    }
    std::size_t feature_width() const
        requires FeatureModel<M>
    {
        return model_.feature_width();
    }
    void features(In<R> x, const Batch<R>& b, Out<R> out) const
        requires FeatureModel<M>
    {
        model_.features(laid(x).w, b, out);
    }
    bool aligns() const
        requires AlignableModel<M>
    {
        return model_.aligns();
    }
    double aligned_gradient(In<R> x, const Batch<R>& b, FeatureTerm<R> term, Out<R> out) const
        requires AlignableModel<M>
    {
        Buffers& bench = laid(x);
        bench.g.resize(bench.w.size());
        const double loss = model_.aligned_gradient(bench.w, b, term, bench.g);
        kept_->pick(bench.g, out);
        return loss;
    }

    // Branches that differ where it trains alone; blocks without trained parameters are the same in both.
    Routes routes(MixAt mix) const
        requires RoutableModel<M>
    {
        return model_.routes(mix);
    }
    double routed_gradient(In<R> w_g, In<R> w_l, Routing<R>& routing, const Batch<R>& b, Out<R> dw_g, Out<R> dw_l) const
        requires RoutableModel<M>
    {
        const Vec<R> global = assembled(w_g), local = assembled(w_l);
        Vec<R> dg(dw_g.empty() ? 0 : global.size()), dl(dw_l.empty() ? 0 : local.size());
        const double loss = model_.routed_gradient(global, local, routing, b, dg, dl);
        if (!dw_g.empty()) kept_->pick(dg, dw_g);
        if (!dw_l.empty()) kept_->pick(dl, dw_l);
        return loss;
    }
    void routed_predict(In<R> w_g, In<R> w_l, Routing<R>& routing, const Batch<R>& b, Out<R> out) const
        requires RoutableModel<M>
    {
        model_.routed_predict(assembled(w_g), assembled(w_l), routing, b, out);
    }
    void hard_predict(In<R> w_g, In<R> w_l, Routing<R>& routing, const Batch<R>& b, Out<R> out) const
        requires RoutableModel<M>
    {
        model_.hard_predict(assembled(w_g), assembled(w_l), routing, b, out);
    }

private:
    struct Frozen {
        Vec<R> values;  // of the whole model
        Coordinates where = Coordinates::none();
        std::vector<Segment> segments;    // the trained ones, offsets in their own vector
        std::vector<std::size_t> places;  // and in the whole one

        void lay(In<R> x, Vec<R>& w) const {
            const R* from = x.data();
            where.each(w.size(), [&](Range r) {
                std::copy_n(from, r.size(), w.data() + r.begin);
                from += r.size();
            });
        }
        void pick(const Vec<R>& w, Out<R> x) const {
            R* to = x.data();
            where.each(w.size(), [&](Range r) { to = std::copy_n(w.data() + r.begin, r.size(), to); });
        }
        // Coordinates of the trained vector as coordinates of the whole one.
        Coordinates placed(const Coordinates& trained) const {
            if (trained.everything()) return where;
            Coordinates all = Coordinates::none();
            for (std::size_t i = 0; i < segments.size(); ++i)
                trained.each(dimension(Layout(segments)), [&](Range r) {
                    const std::size_t begin = std::max(r.begin, segments[i].offset);
                    const std::size_t end = std::min(r.end, segments[i].end());
                    if (begin < end)
                        all.add({begin - segments[i].offset + places[i], end - segments[i].offset + places[i]});
                });
            return all;
        }
    };
    // A thread's vectors of the whole size; `w` has the frozen values in place.
    struct Buffers {
        std::shared_ptr<const Frozen> of;
        Vec<R> w, g, prox_center, linear, velocity;
    };

    Buffers& laid(In<R> x) const {
        static thread_local Buffers bench;
        if (bench.of != kept_) {
            bench.w = kept_->values;
            bench.of = kept_;
        }
        kept_->lay(x, bench.w);
        return bench;
    }

    M model_;
    std::shared_ptr<const Frozen> kept_;
};

// First values for `model`, with the layers that are no adapters taken from another model's parameters, in order: how a
// plain network becomes the backbone of an adapted one.
template <Model M>
Vec<real<M>> grafted(const M& model, Key key, Layout donor, const Vec<real<M>>& values) {
    auto w = initial_parameters(model, key);
    const auto plain = [](const Segment& s) { return s.part != Part::adapter; };
    auto from = std::find_if(donor.begin(), donor.end(), plain);
    for (const Segment& s : model.layout()) {
        if (!plain(s)) continue;
        tessera::detail::require(from != donor.end() && from->shape == s.shape,
                                 "the donor has no layer of the shape of " + std::string(s.name.view()) +
                                     " at its place; it has " + tessera::detail::segments_in_words(donor));
        std::copy_n(values.data() + from->offset, s.size(), w.data() + s.offset);
        from = std::find_if(from + 1, donor.end(), plain);
    }
    return w;
}

}  // namespace nn
}  // namespace tessera
