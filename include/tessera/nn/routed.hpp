// SPDX-License-Identifier: BSD-3-Clause
// A model routed by a gate between two sets of parameters (Flow, Eqs. 3 to 5), as an objective over
//
//   x = (w_g, psi, w_l)        or (w_g, psi): both branches are w_g
//
//   J_psi = f(routed; b) - (gamma / L) sum_j mean_x log(q0_j(x) + eps)          J_g = f(routed; b)
//
// Which of the two is meant, and what is computed at all, follows from who moves: a router's objective writes the
// gradient of psi alone, a global one's that of w_g alone, so walk them with the scope `on` they offer. Model and gate
// must outlive it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tessera/contracts/gate.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::nn {

// The regulariser: the paper's, on q0 of every block; or what the released programs minimise (gamma times the mean of
// -log(p^2 + eps)) with p both routes of block 2 (EMNIST), or the local route of every block (CIFAR).
enum class Reg : std::uint8_t { q0_all, code, code_cifar };
constexpr std::array<std::string_view, 3> words_of(Reg) { return {"q0_all", "code", "code_cifar"}; }

// What the global step descends: the routed loss (Eq. 5), or as released that of w_g alone.
enum class GlobalLoss : std::uint8_t { personalized, global };
constexpr std::array<std::string_view, 2> words_of(GlobalLoss) { return {"personalized", "global"}; }

enum class Inference : std::uint8_t { hard, soft };
constexpr std::array<std::string_view, 2> words_of(Inference) { return {"hard", "soft"}; }

struct RoutingTerms {
    static constexpr auto offers = offer::validate;
    double gamma = 1e-3, eps = 1e-6;
    Reg reg = Reg::q0_all;
    GlobalLoss global_loss = GlobalLoss::personalized;
    MixAt mix = MixAt::layer;
    Inference inference = Inference::hard;

    // The regulariser's share of one q0, of block j out of `blocks`, in a batch of n: its value and its slope.
    struct Price {
        double value = 0, slope = 0;
    };
    Price price(double q0, std::size_t j, std::size_t blocks, std::size_t n) const {
        if (gamma == 0) return {};
        const double all = gamma / static_cast<double>(blocks * n), q1 = 1 - q0;
        const auto squared = [&](double p) { return p * p + eps; };
        switch (reg) {
            case Reg::q0_all: return {-all * std::log(q0 + eps), -all / (q0 + eps)};
            case Reg::code_cifar: return {-all * std::log(squared(q1)), 2 * all * q1 / squared(q1)};
            case Reg::code: break;
        }
        if (j != std::min<std::size_t>(1, blocks - 1)) return {};
        const double half = gamma / static_cast<double>(2 * n);
        return {-half * (std::log(squared(q0)) + std::log(squared(q1))),
                2 * half * (q1 / squared(q1) - q0 / squared(q0))};
    }
    void validate() const {
        tessera::detail::require_size(gamma, "gamma");
        tessera::detail::require_size(eps, "eps");
    }
};

// `tied`: w_g, which is both branches.
enum class Moves : std::uint8_t { all, router, global, branches, tied };

// What a routed model can answer with: one branch alone, or both, by the soft or the hard policy.
enum class Along : std::uint8_t { global, local, soft, hard };

// What the router's step leaves for the global step on the same batch: all before the first mix, which knows nothing
// of psi. 784-512-512-512-10 with a 784-350-150-50 router, batch 20: both steps 4.6 instead of 5.1 ms.
template <class R>
struct Reuse {
    RoutedPrefix<R> kept{};
    const Index* ids = nullptr;
    std::size_t size = 0;
    Key draw{};

    void look_at(const Batch<R>& b) {
        kept.holds = kept.holds && ids == b.ids().data() && size == b.size() && draw == b.draw();
        ids = b.ids().data();
        size = b.size();
        draw = b.draw();
    }
};

namespace detail {

// A gate that is asked on the way, with the regulariser added to what it hears; q0 is written down.
template <class R>
class Priced final : public Routing<R> {
public:
    Priced(Routing<R>& inner, const RoutingTerms& terms, std::size_t blocks, bool priced, Out<R> q0 = {})
        : inner_(inner), terms_(terms), blocks_(blocks), priced_(priced), q0_(q0) {}

    double value() const { return value_; }
    bool wants_gradient() const override { return true; }
    bool looks() const override { return inner_.looks(); }
    void ask(std::size_t j, In<R> seen, Out<R> q0) override {
        inner_.ask(j, seen, q0);
        for (std::size_t i = 0; i < q0.size(); ++i) {
            if (priced_) value_ += terms_.price(static_cast<double>(q0[i]), j, blocks_, q0.size()).value;
            if (!q0_.empty()) q0_[i * blocks_ + j] = q0[i];
        }
    }
    void answer(std::size_t j, In<R> seen, In<R> dq0, Out<R> dseen) override {
        Vec<R> total(dq0.begin(), dq0.end());
        for (std::size_t i = 0; priced_ && i < total.size(); ++i)
            total[i] += static_cast<R>(
                terms_.price(static_cast<double>(q0_[i * blocks_ + j]), j, blocks_, total.size()).slope);
        inner_.answer(j, seen, total, dseen);
    }

private:
    Routing<R>& inner_;
    const RoutingTerms& terms_;
    std::size_t blocks_;
    bool priced_;
    Out<R> q0_;
    double value_ = 0;
};

}  // namespace detail

template <RoutableModel M, class G>
class Routed {
    using R = real<M>;
    static_assert(check_gate<G, R>());

public:
    using Real = R;

    Routed(const M& model, const G& gate, const RoutingTerms& terms, Moves moves = Moves::all,
           Reuse<R>* reuse = nullptr)
        : model_(&model), gate_(&gate), terms_(terms), moves_(moves), reuse_(reuse), routes_(model.routes(terms.mix)) {
        const Layout own = model.layout();
        const auto router = gate.segments(routes_);
        d_ = dimension(own);
        p_ = dimension(Layout(router));
        for (const Segment& s : own) segments_.push_back(placed(s, "global.", 0));
        for (Segment s : router) {
            s.part = Part::router;
            s.offset += d_;
            segments_.push_back(s);
        }
        for (const Segment& s : own) segments_.push_back(placed(s, "local.", d_ + p_));
    }

    Layout layout() const { return segments_; }
    std::size_t outputs() const { return model_->outputs(); }
    std::size_t blocks() const { return routes_.blocks; }
    std::size_t router_size() const { return p_; }
    // Both branches and the router, or w_g where its loss alone is descended.
    double forward_flops() const
        requires CountedModel<M>
    {
        if (w_g_alone()) return model_->forward_flops();
        double sum = 2 * model_->forward_flops();
        if constexpr (tessera::detail::offers_of<G>().has(offer::forward_flops)) sum += gate_->forward_flops(routes_);
        return sum;
    }
    // Where its steps act.
    Coordinates on() const {
        switch (moves_) {
            case Moves::all: return {};
            case Moves::router: return Coordinates::range(d_, d_ + p_);
            case Moves::global:
            case Moves::tied: break;
            case Moves::branches: {
                Coordinates both = Coordinates::range(0, d_);
                both.add({d_ + p_, d_ + p_ + d_});
                return both;
            }
        }
        return Coordinates::range(0, d_);
    }
    // (w0, psi) with the router's first parameters.
    Vec<R> start(const Vec<R>& w0, Key key) const {
        Vec<R> x = initial_parameters(*this, key(meaning));
        std::copy(w0.begin(), w0.end(), x.begin());
        x.resize(d_ + p_);
        return x;
    }

    double gradient(In<R> x, const Batch<R>& b, Out<R> out) const {
        const bool tied = x.size() < d_ + p_ + d_;
        if (reuse_) reuse_->look_at(b);
        const double loss =
            w_g_alone() ? model_->gradient(w_g(x), b, out.first(d_)) : routed_gradient(x, b, out, tied);
        if (reuse_ && moves_ != Moves::router) reuse_->kept.holds = false;  // the branches are about to move
        return loss;
    }
    void predict(In<R> x, const Batch<R>& b, Out<R> out) const {
        with_routing(x, b, {}, [&](Routing<R>& routing) {
            if (terms_.inference == Inference::hard) model_->hard_predict(w_g(x), w_l(x), routing, b, out);
            else model_->routed_predict(w_g(x), w_l(x), routing, b, out);
        });
    }
    // q0[i * blocks() + j], as the soft policy has them.
    void shares(In<R> x, const Batch<R>& b, Out<R> q0) const {
        if constexpr (RouteGate<G, R>) {
            Vec<R> out(b.size() * outputs());
            with_routing(x, b, q0, [&](Routing<R>& routing) {
                model_->routed_predict(w_g(x), w_l(x), routing, b, out);
            });
        } else {
            Vec<R> saved(b.size() * tessera::detail::saved_of(*gate_, routes_));
            (*gate_)(routes_, psi(x), b, q0, Out<R>(saved));
        }
    }

    In<R> w_g(In<R> x) const { return x.first(d_); }
    In<R> w_l(In<R> x) const { return x.size() < d_ + p_ + d_ ? x.first(d_) : x.subspan(d_ + p_, d_); }

private:
    static constexpr std::uint64_t meaning = 0x726F75746572;

    In<R> psi(In<R> x) const { return x.subspan(d_, p_); }
    bool w_g_alone() const {
        return moves_ == Moves::tied || (moves_ == Moves::global && terms_.global_loss == GlobalLoss::global);
    }

    double routed_gradient(In<R> x, const Batch<R>& b, Out<R> out, bool tied) const {
        const bool router = moves_ == Moves::all || moves_ == Moves::router, branches = moves_ != Moves::router;
        const Out<R> dw_g = branches ? out.first(d_) : Out<R>{}, dpsi = router ? out.subspan(d_, p_) : Out<R>{};
        Vec<R> second(branches && tied ? d_ : 0);
        Out<R> dw_l{};
        if (moves_ == Moves::all || moves_ == Moves::branches)
            dw_l = tied ? Out<R>(second) : out.subspan(d_ + p_, d_);
        const double loss = with_gate(x, b, router, dpsi, [&](Routing<R>& routing) {
            if (reuse_) routing.kept = &reuse_->kept;
            return model_->routed_gradient(w_g(x), w_l(x), routing, b, dw_g, dw_l);
        });
        for (std::size_t j = 0; j < second.size() && !dw_l.empty(); ++j) dw_g[j] += second[j];
        return loss;
    }
    // f(routing) is the data's loss; the gate's gradient goes to dpsi.
    template <class F>
    double with_gate(In<R> x, const Batch<R>& b, bool priced, Out<R> dpsi, F&& f) const {
        const std::size_t n = b.size(), blocks = routes_.blocks;
        const Scratch<R> q0(n * blocks);
        if constexpr (RouteGate<G, R>) {
            auto inner = gate_->route(routes_, psi(x), b, dpsi);
            detail::Priced<R> routing(inner, terms_, blocks, priced, Out<R>(q0));
            routing.mix = terms_.mix;
            const double loss = f(routing);
            return loss + routing.value();
        } else {
            const Scratch<R> saved(n * tessera::detail::saved_of(*gate_, routes_)), dq0(priced ? n * blocks : 0);
            (*gate_)(routes_, psi(x), b, Out<R>(q0), Out<R>(saved));
            Given<R> routing(In<R>(q0.data(), q0.size()), blocks, Out<R>(dq0));
            routing.mix = terms_.mix;
            double loss = f(routing);
            if (!priced) return loss;
            for (std::size_t k = 0; k < n * blocks; ++k) {
                const auto price = terms_.price(static_cast<double>(q0[k]), k % blocks, blocks, n);
                loss += price.value;
                dq0[k] += static_cast<R>(price.slope);
            }
            gate_->pull_back(routes_, psi(x), b, In<R>(q0.data(), q0.size()), In<R>(saved.data(), saved.size()),
                             In<R>(dq0.data(), dq0.size()), dpsi);
            return loss;
        }
    }
    template <class F>
    void with_routing(In<R> x, const Batch<R>& b, Out<R> q0, F&& f) const {
        if constexpr (RouteGate<G, R>) {
            auto inner = gate_->route(routes_, psi(x), b, {});
            detail::Priced<R> routing(inner, terms_, routes_.blocks, false, q0);
            routing.mix = terms_.mix;
            f(routing);
        } else {
            const Scratch<R> table(b.size() * routes_.blocks);
            const Scratch<R> saved(b.size() * tessera::detail::saved_of(*gate_, routes_));
            (*gate_)(routes_, psi(x), b, Out<R>(table), Out<R>(saved));
            Given<R> routing(In<R>(table.data(), table.size()), routes_.blocks);
            routing.mix = terms_.mix;
            f(routing);
        }
    }

    const M* model_;
    const G* gate_;
    RoutingTerms terms_;
    Moves moves_;
    Reuse<R>* reuse_;
    Routes routes_;
    std::size_t d_ = 0, p_ = 0;
    Vec<Segment> segments_;
};

// A routed model with its parameters; the gate is its own.
template <RoutableModel M, class G>
class RoutedPredictor {
public:
    static constexpr auto offers = offer::segments;
    RoutedPredictor(const M& model, const G& gate, const RoutingTerms& terms, Vec<real<M>> x)
        : model_(&model), gate_(gate), terms_(terms), x_(std::move(x)) {}

    void operator()(const Batch<real<M>>& b, Out<real<M>> out) const { routed().predict(x_, b, out); }
    auto by(Along path) const {
        return [this, path](const Batch<real<M>>& b, Out<real<M>> out) {
            RoutingTerms terms = terms_;
            terms.inference = path == Along::soft ? Inference::soft : Inference::hard;
            const Routed<M, G> both(*model_, gate_, terms);
            if (path == Along::global) model_->predict(both.w_g(x_), b, out);
            else if (path == Along::local) model_->predict(both.w_l(x_), b, out);
            else both.predict(x_, b, out);
        };
    }
    void shares(const Batch<real<M>>& b, Out<real<M>> q0) const { routed().shares(x_, b, q0); }
    std::size_t blocks() const { return model_->routes(terms_.mix).blocks; }
    const Vec<real<M>>& parameters() const { return x_; }  // (w_g, psi, w_l), or (w_g, psi)
    // Of those.
    Vec<Segment> segments() const {
        const auto model = routed();
        Vec<Segment> all;
        for (const Segment& s : model.layout())
            if (s.end() <= x_.size()) all.push_back(s);
        return all;
    }

private:
    Routed<M, G> routed() const { return {*model_, gate_, terms_}; }

    const M* model_;
    G gate_;
    RoutingTerms terms_;
    Vec<real<M>> x_;
};

}  // namespace tessera::nn
