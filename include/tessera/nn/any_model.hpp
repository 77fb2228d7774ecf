// SPDX-License-Identifier: BSD-3-Clause
// A model chosen at run time: type erasure at the batch boundary, so methods times models do not multiply
// compile time. Every refinement is forwarded and Step is a value, so the same kernels run. A refinement
// the model inside does not have answers with a sentence (ConfigError) when it is used.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <tessera/contracts/model.hpp>
#include <tessera/core/error.hpp>

namespace tessera::nn {

template <class R>
class AnyModel {
public:
    using Real = R;

    template <class M>
        requires(!std::same_as<M, AnyModel>) && Model<M> && std::same_as<real<M>, R>
    AnyModel(M model) : held_(std::make_shared<const Held<M>>(std::move(model))) {}

    Layout layout() const { return held_->layout(); }
    std::size_t outputs() const { return held_->outputs(); }
    double gradient(In<R> x, const Batch<R>& b, Out<R> out) const { return held_->gradient(x, b, out); }
    void predict(In<R> x, const Batch<R>& b, Out<R> out) const { held_->predict(x, b, out); }

    bool fuses(const Step<R>& s) const { return held_->fuses(s); }
    double step(Out<R> x, const Batch<R>& b, const Step<R>& s) const { return held_->step(x, b, s); }
    void initialize(Out<R> x, Key key) const { held_->initialize(x, key); }
    double forward_flops() const { return held_->forward_flops(); }
    void logits(In<R> x, const Batch<R>& b, Out<R> out) const { held_->logits(x, b, out); }
    void pullback(In<R> x, const Batch<R>& b, In<R> dz, Out<R> out) const { held_->pullback(x, b, dz, out); }
    std::size_t feature_width() const { return held_->feature_width(); }
    void features(In<R> x, const Batch<R>& b, Out<R> out) const { held_->features(x, b, out); }

private:
    struct Interface {
        virtual ~Interface() = default;
        virtual Layout layout() const = 0;
        virtual std::size_t outputs() const = 0;
        virtual double gradient(In<R>, const Batch<R>&, Out<R>) const = 0;
        virtual void predict(In<R>, const Batch<R>&, Out<R>) const = 0;
        virtual bool fuses(const Step<R>&) const = 0;
        virtual double step(Out<R>, const Batch<R>&, const Step<R>&) const = 0;
        virtual void initialize(Out<R>, Key) const = 0;
        virtual double forward_flops() const = 0;
        virtual void logits(In<R>, const Batch<R>&, Out<R>) const = 0;
        virtual void pullback(In<R>, const Batch<R>&, In<R>, Out<R>) const = 0;
        virtual std::size_t feature_width() const = 0;
        virtual void features(In<R>, const Batch<R>&, Out<R>) const = 0;
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
        double gradient(In<R> x, const Batch<R>& b, Out<R> out) const override { return model.gradient(x, b, out); }
        void predict(In<R> x, const Batch<R>& b, Out<R> out) const override { model.predict(x, b, out); }
        bool fuses([[maybe_unused]] const Step<R>& s) const override {
            if constexpr (FusedModel<M>) return model.fuses(s);
            else return false;
        }
        double step([[maybe_unused]] Out<R> x, [[maybe_unused]] const Batch<R>& b,
                    [[maybe_unused]] const Step<R>& s) const override {
            if constexpr (FusedModel<M>) return model.step(x, b, s);
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
        std::size_t feature_width() const override {
            if constexpr (FeatureModel<M>) return model.feature_width();
            else lacks("features");
        }
        void features([[maybe_unused]] In<R> x, [[maybe_unused]] const Batch<R>& b,
                      [[maybe_unused]] Out<R> out) const override {
            if constexpr (FeatureModel<M>) model.features(x, b, out);
            else lacks("features");
        }
    };

    std::shared_ptr<const Interface> held_;
};

}  // namespace tessera::nn
