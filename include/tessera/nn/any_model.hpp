// SPDX-License-Identifier: BSD-3-Clause
// A model chosen at run time: type erasure at the batch boundary, so methods times models do not multiply
// compile time. Every refinement is forwarded and Step is a value, so the same kernels run. A refinement
// the model inside does not have answers with a sentence (ConfigError) when it is used.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <tessera/contracts/judgement.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/contracts/routable.hpp>
#include <tessera/contracts/sparse.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/nn/sparse.hpp>

namespace tessera::nn {

template <class R>
class AnyModel {
public:
    static constexpr auto offers = offer::fused | offer::initialize | offer::forward_flops | offer::input_width |
                                   offer::logits | offer::features | offer::aligned | offer::clipped | offer::sparse |
                                   offer::routed | offer::judge | offer::apart;
    using Real = R;

    template <class M>
        requires(!std::same_as<M, AnyModel>) && Model<M> && std::same_as<real<M>, R>
    AnyModel(M model) : held_(std::make_shared<const Held<M>>(std::move(model))) {}

    Layout layout() const { return held_->layout(); }
    std::size_t outputs() const { return held_->outputs(); }
    std::size_t input_width() const { return held_->input_width(); }
    double gradient(In<R> x, const Batch<R>& b, Out<R> out) const { return held_->gradient(x, b, out); }
    void predict(In<R> x, const Batch<R>& b, Out<R> out) const { held_->predict(x, b, out); }

    std::size_t positions() const { return held_->positions(); }
    void judge(const Batch<R>& b, In<R> predictions, Judgement& to) const { held_->judge(b, predictions, to); }
    void accepts(const Examples& examples, bool labelled) const { held_->accepts(examples, labelled); }

    bool fuses(const Step<R>& s) const { return held_->fuses(s); }
    double fused_step(Out<R> x, const Batch<R>& b, const Step<R>& s) const { return held_->fused_step(x, b, s); }
    void initialize(Out<R> x, Key key) const { held_->initialize(x, key); }
    double forward_flops() const { return held_->forward_flops(); }
    void logits(In<R> x, const Batch<R>& b, Out<R> out) const { held_->logits(x, b, out); }
    void pullback(In<R> x, const Batch<R>& b, In<R> dz, Out<R> out) const { held_->pullback(x, b, dz, out); }
    bool apart() const { return held_->apart(); }
    bool clips(const Clip<R>& clip) const { return held_->clips(clip); }
    double clipped_sum(In<R> x, const Batch<R>& b, const Clip<R>& clip, Out<R> out) const {
        return held_->clipped_sum(x, b, clip, out);
    }
    AnySparse<R> sparse(const Mask& mask, std::size_t batch, Arithmetic how) const {
        return held_->sparse(mask, batch, how);
    }
    std::size_t feature_width() const { return held_->feature_width(); }
    void features(In<R> x, const Batch<R>& b, Out<R> out) const { held_->features(x, b, out); }
    bool aligns() const { return held_->aligns(); }
    double aligned_gradient(In<R> x, const Batch<R>& b, FeatureTerm<R> term, Out<R> out) const {
        return held_->aligned_gradient(x, b, term, out);
    }
    Routes routes(MixAt mix) const { return held_->routes(mix); }
    double routed_gradient(In<R> w_g, In<R> w_l, Routing<R>& q, const Batch<R>& b, Out<R> dw_g, Out<R> dw_l) const {
        return held_->routed_gradient(w_g, w_l, q, b, dw_g, dw_l);
    }
    void routed_predict(In<R> w_g, In<R> w_l, Routing<R>& q, const Batch<R>& b, Out<R> out) const {
        held_->routed_predict(w_g, w_l, q, b, out);
    }
    void hard_predict(In<R> w_g, In<R> w_l, Routing<R>& q, const Batch<R>& b, Out<R> out) const {
        held_->hard_predict(w_g, w_l, q, b, out);
    }

private:
    struct Interface {
        virtual ~Interface() = default;
        virtual Layout layout() const = 0;
        virtual std::size_t outputs() const = 0;
        virtual std::size_t input_width() const = 0;
        virtual double gradient(In<R>, const Batch<R>&, Out<R>) const = 0;
        virtual void predict(In<R>, const Batch<R>&, Out<R>) const = 0;
        virtual std::size_t positions() const = 0;
        virtual void judge(const Batch<R>&, In<R>, Judgement&) const = 0;
        virtual void accepts(const Examples&, bool) const = 0;
        virtual bool fuses(const Step<R>&) const = 0;
        virtual double fused_step(Out<R>, const Batch<R>&, const Step<R>&) const = 0;
        virtual void initialize(Out<R>, Key) const = 0;
        virtual double forward_flops() const = 0;
        virtual void logits(In<R>, const Batch<R>&, Out<R>) const = 0;
        virtual void pullback(In<R>, const Batch<R>&, In<R>, Out<R>) const = 0;
        virtual bool apart() const = 0;
        virtual bool clips(const Clip<R>&) const = 0;
        virtual double clipped_sum(In<R>, const Batch<R>&, const Clip<R>&, Out<R>) const = 0;
        virtual AnySparse<R> sparse(const Mask&, std::size_t, Arithmetic) const = 0;
        virtual std::size_t feature_width() const = 0;
        virtual void features(In<R>, const Batch<R>&, Out<R>) const = 0;
        virtual bool aligns() const = 0;
        virtual double aligned_gradient(In<R>, const Batch<R>&, FeatureTerm<R>, Out<R>) const = 0;
        virtual Routes routes(MixAt) const = 0;
        virtual double routed_gradient(In<R>, In<R>, Routing<R>&, const Batch<R>&, Out<R>, Out<R>) const = 0;
        virtual void routed_predict(In<R>, In<R>, Routing<R>&, const Batch<R>&, Out<R>) const = 0;
        virtual void hard_predict(In<R>, In<R>, Routing<R>&, const Batch<R>&, Out<R>) const = 0;
    };

    [[noreturn]] static void lacks(const std::string& what) {
        throw ConfigError("this model has no " + what + ", which the method needs");
    }

    template <class M>
    struct Held final : Interface {
        M model;
        explicit Held(M m) : model(std::move(m)) {}

        Layout layout() const override { return model.layout(); }
        std::size_t outputs() const override { return model.outputs(); }
        std::size_t input_width() const override { return tessera::input_width(model); }
        double gradient(In<R> x, const Batch<R>& b, Out<R> out) const override { return model.gradient(x, b, out); }
        void predict(In<R> x, const Batch<R>& b, Out<R> out) const override { model.predict(x, b, out); }
        std::size_t positions() const override { return tessera::positions(model); }
        void judge(const Batch<R>& b, In<R> predictions, Judgement& to) const override {
            tessera::judge(model, b, predictions, to);
        }
        void accepts([[maybe_unused]] const Examples& examples, [[maybe_unused]] bool labelled) const override {
            if constexpr (JudgingModel<M>) model.accepts(examples, labelled);
        }
        bool fuses([[maybe_unused]] const Step<R>& s) const override {
            if constexpr (FusedModel<M>) return model.fuses(s);
            else return false;
        }
        double fused_step([[maybe_unused]] Out<R> x, [[maybe_unused]] const Batch<R>& b,
                          [[maybe_unused]] const Step<R>& s) const override {
            if constexpr (FusedModel<M>) return model.fused_step(x, b, s);
            else lacks("fused step");
        }
        void initialize(Out<R> x, Key key) const override {
            const auto values = initial_parameters(model, key);
            std::copy(values.begin(), values.end(), x.begin());
        }
        double forward_flops() const override {
            if constexpr (CountedModel<M>) return model.forward_flops();
            else return 0;
        }
        void logits([[maybe_unused]] In<R> x, [[maybe_unused]] const Batch<R>& b,
                    [[maybe_unused]] Out<R> out) const override {
            if constexpr (LogitModel<M>) model.logits(x, b, out);
            else lacks("logits");
        }
        void pullback([[maybe_unused]] In<R> x, [[maybe_unused]] const Batch<R>& b, [[maybe_unused]] In<R> dz,
                      [[maybe_unused]] Out<R> out) const override {
            if constexpr (LogitModel<M>) model.pullback(x, b, dz, out);
            else lacks("pullback of logits");
        }
        bool apart() const override { return examples_apart(model); }
        bool clips([[maybe_unused]] const Clip<R>& clip) const override {
            if constexpr (ClippingModel<M>) return model.clips(clip);
            else return false;
        }
        double clipped_sum(In<R> x, const Batch<R>& b, const Clip<R>& clip, Out<R> out) const override {
            if constexpr (tessera::detail::may_be_apart<M>()) return tessera::clipped_sum(model, x, b, clip, out);
            else throw ConfigError(tessera::detail::examples_meet);
        }
        AnySparse<R> sparse(const Mask& mask, std::size_t batch, Arithmetic how) const override {
            return AnySparse<R>::of(model, mask, batch, how);
        }
        std::size_t feature_width() const override {
            if constexpr (FeatureModel<M>) return model.feature_width();
            else lacks("features");
        }
        void features([[maybe_unused]] In<R> x, [[maybe_unused]] const Batch<R>& b,
                      [[maybe_unused]] Out<R> out) const override {
            if constexpr (FeatureModel<M>) model.features(x, b, out);
            else lacks("features");
        }
        bool aligns() const override {
            if constexpr (AlignableModel<M>) return model.aligns();
            else return false;
        }
        double aligned_gradient([[maybe_unused]] In<R> x, [[maybe_unused]] const Batch<R>& b,
                                [[maybe_unused]] FeatureTerm<R> term, [[maybe_unused]] Out<R> out) const override {
            if constexpr (AlignableModel<M>) return model.aligned_gradient(x, b, term, out);
            else lacks("features that its parameters move");
        }
        Routes routes([[maybe_unused]] MixAt mix) const override {
            if constexpr (RoutableModel<M>) return model.routes(mix);
            else lacks("blocks to route between");
        }
        double routed_gradient([[maybe_unused]] In<R> w_g, [[maybe_unused]] In<R> w_l, [[maybe_unused]] Routing<R>& q,
                               [[maybe_unused]] const Batch<R>& b, [[maybe_unused]] Out<R> dw_g,
                               [[maybe_unused]] Out<R> dw_l) const override {
            if constexpr (RoutableModel<M>) return model.routed_gradient(w_g, w_l, q, b, dw_g, dw_l);
            else lacks("blocks to route between");
        }
        void routed_predict([[maybe_unused]] In<R> w_g, [[maybe_unused]] In<R> w_l, [[maybe_unused]] Routing<R>& q,
                            [[maybe_unused]] const Batch<R>& b, [[maybe_unused]] Out<R> out) const override {
            if constexpr (RoutableModel<M>) model.routed_predict(w_g, w_l, q, b, out);
            else lacks("blocks to route between");
        }
        void hard_predict([[maybe_unused]] In<R> w_g, [[maybe_unused]] In<R> w_l, [[maybe_unused]] Routing<R>& q,
                          [[maybe_unused]] const Batch<R>& b, [[maybe_unused]] Out<R> out) const override {
            if constexpr (RoutableModel<M>) model.hard_predict(w_g, w_l, q, b, out);
            else lacks("blocks to route between");
        }
    };

    std::shared_ptr<const Interface> held_;
};

}  // namespace tessera::nn
