// SPDX-License-Identifier: BSD-3-Clause
// A model on the active coordinates of a mask, as an objective in those alone: f(m o w) in the packed values of w.
//
// Parameters, gradients and messages are packed, so every rule works on them as they are, and clipping sees the masked
// gradient (D-SPA-2). Made once a visit; model and mask must outlive it. A network becomes one over the packed
// values (nn/masked.hpp); any other model, and one no layer of which gains by it, runs on zero-filled weights.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <tessera/contracts/masking.hpp>
#include <tessera/contracts/sparse.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/expand.hpp>
#include <tessera/nn/masked.hpp>
#include <tessera/nn/network.hpp>

namespace tessera::nn {

using tessera::Arithmetic;

namespace detail {

// The layout of the packed vector: the model's, each segment as long as its active part.
inline Vec<Segment> packed_layout(Layout layout, const Mask& mask) {
    Vec<Segment> segments;
    for (Segment s : layout) {
        const std::size_t active = count_active(mask, s.offset, s.end());
        s.offset = count_active(mask, 0, s.offset);
        s.shape = {active, 1, 1, 1};
        s.rank = 1;
        segments.push_back(s);
    }
    return segments;
}

template <class M>
concept Listed = requires(const M model) { model.graph(); };

// The network of a list, as a model.
template <class M>
struct ListedForm {
    using type = Network<real<M>, typename M::Objective>;
};
struct NoForm {};

}  // namespace detail

template <Model M>
class Sparse {
    static constexpr bool listed = detail::Listed<M>;
    using Form = typename std::conditional_t<listed, detail::ListedForm<M>, std::type_identity<detail::NoForm>>::type;

public:
    using Real = real<M>;
    static constexpr auto offers =
        offer::fused | offer::forward_flops | offer::when(BlueprintModel<M>, offer::blueprint);

    // For batches of about that size (nn/masked.hpp).
    Sparse(const M& model, const Mask& mask, [[maybe_unused]] std::size_t batch,
           [[maybe_unused]] Arithmetic how = Arithmetic::table)
        : model_(&model), mask_(&mask), segments_(detail::packed_layout(model.layout(), mask)), active_(mask.count()) {
        require_buffers(mask, model.layout());
        if constexpr (listed)
            if (auto list = detail::masked(model.graph(), mask, batch, how))
                form_.emplace(std::move(list), model.objective());
    }

    Layout layout() const { return segments_; }
    std::size_t outputs() const { return model_->outputs(); }
    double forward_flops() const {
        if constexpr (listed) return detail::masked_flops(model_->graph(), *mask_);
        else if constexpr (CountedModel<M>)
            return model_->forward_flops() * static_cast<double>(active_) / static_cast<double>(mask_->size());
        else return 0;
    }

    double gradient(In<Real> packed, const Batch<Real>& batch, Out<Real> out) const {
        if constexpr (listed)
            if (form_) return form_->gradient(packed, batch, out);
        if (full()) return model_->gradient(packed, batch, out);
        Vec<Real> dense(mask_->size());
        const double loss = filled_gradient(packed, batch, dense);
        detail::Active{mask_, {0, mask_->size()}}.gather(static_cast<const Real*>(dense.data()), out.data());
        return loss;
    }
    void predict(In<Real> packed, const Batch<Real>& batch, Out<Real> out) const {
        if constexpr (listed)
            if (form_) return form_->predict(packed, batch, out);
        if (full()) model_->predict(packed, batch, out);
        else model_->predict(whole(packed), batch, out);
    }

    Blueprint<Real> blueprint() const
        requires BlueprintModel<M>
    {
        auto whole = model_->blueprint();
        whole.mask = mask_;
        return whole;
    }

    // Where layers run by themselves, or nothing is missing. A scope must not cut a layer in two.
    bool fuses([[maybe_unused]] const Step<Real>& s) const {
        if constexpr (listed)
            if (form_) return form_->fuses(s);
        if constexpr (FusedModel<M>) return full() && model_->fuses(s);
        else return false;
    }
    double fused_step(Out<Real> packed, const Batch<Real>& batch, const Step<Real>& s) const {
        if constexpr (listed)
            if (form_) return form_->fused_step(packed, batch, s);
        if constexpr (FusedModel<M>) return model_->fused_step(packed, batch, s);
        else return 0;
    }

    // The gradient in every coordinate of the model, at the point with zeros in place: what a mask search ranks. A
    // network needs no second vector of its size.
    double full_gradient(In<Real> packed, const Batch<Real>& batch, Out<Real> dense) const {
        if constexpr (listed) {
            fill(packed, dense.data());
            const auto loss = [&](Out<Real> z) {
                return model_->objective().gradient(batch, z, {model_->positions()});
            };
            return detail::gradient_in_place(model_->graph(), batch, loss, dense.data());
        } else {
            return filled_gradient(packed, batch, dense);
        }
    }
    Vec<Real> whole(In<Real> packed) const {
        Vec<Real> dense(mask_->size());
        fill(packed, dense.data());
        return dense;
    }

private:
    double filled_gradient(In<Real> packed, const Batch<Real>& batch, Out<Real> dense) const {
        const Scratch<Real> at(mask_->size());
        fill(packed, at.data());
        return model_->gradient(In<Real>(at.data(), at.size()), batch, dense);
    }
    void fill(In<Real> packed, Real* dense) const {
        const Real* from = packed.data();
        for (std::size_t j = 0; j < mask_->size(); j += 4096) {  // zeros stay in the first cache
            const std::size_t n = std::min<std::size_t>(4096, mask_->size() - j);
            std::fill_n(dense + j, n, Real(0));
            kernels::expand(&from, mask_->words().data() + j / 64, dense + j, dense + j, n);
        }
    }
    bool full() const { return active_ == mask_->size(); }

    const M* model_;
    const Mask* mask_;
    Vec<Segment> segments_;
    std::size_t active_;
    std::optional<Form> form_;
};

// A model that brings its own form is asked for it.
template <SparseModel M>
class Sparse<M> {
public:
    using Real = real<M>;
    static constexpr auto offers = offer::fused | offer::forward_flops;

    Sparse(const M& model, const Mask& mask, std::size_t batch, Arithmetic how = Arithmetic::table)
        : form_(model.sparse(mask, batch, how)) {}

    Layout layout() const { return form_.layout(); }
    std::size_t outputs() const { return form_.outputs(); }
    double forward_flops() const { return form_.forward_flops(); }
    double gradient(In<Real> packed, const Batch<Real>& b, Out<Real> out) const {
        return form_.gradient(packed, b, out);
    }
    void predict(In<Real> packed, const Batch<Real>& b, Out<Real> out) const { form_.predict(packed, b, out); }
    bool fuses(const Step<Real>& s) const { return form_.fuses(s); }
    double fused_step(Out<Real> packed, const Batch<Real>& b, const Step<Real>& s) const {
        return form_.fused_step(packed, b, s);
    }
    double full_gradient(In<Real> packed, const Batch<Real>& b, Out<Real> dense) const {
        return form_.full_gradient(packed, b, dense);
    }
    Vec<Real> whole(In<Real> packed) const { return form_.whole(packed); }

private:
    std::invoke_result_t<decltype(&M::sparse), const M&, const Mask&, std::size_t, Arithmetic> form_;
};

// The sparse form of a model chosen at run time. It comes from the arena, so a warm round asks nothing of the heap.
template <class R>
class AnySparse {
public:
    using Real = R;
    static constexpr auto offers = offer::fused | offer::forward_flops;

    template <class M>
    static AnySparse of(const M& model, const Mask& mask, std::size_t batch, Arithmetic how) {
        AnySparse any;
        any.held_ = std::allocate_shared<const Held<M>>(ArenaAllocator<Held<M>>(), model, mask, batch, how);
        return any;
    }

    Layout layout() const { return held_->layout(); }
    std::size_t outputs() const { return held_->outputs(); }
    double forward_flops() const { return held_->forward_flops(); }
    double gradient(In<R> packed, const Batch<R>& b, Out<R> out) const { return held_->gradient(packed, b, out); }
    void predict(In<R> packed, const Batch<R>& b, Out<R> out) const { held_->predict(packed, b, out); }
    bool fuses(const Step<R>& s) const { return held_->fuses(s); }
    double fused_step(Out<R> packed, const Batch<R>& b, const Step<R>& s) const {
        return held_->fused_step(packed, b, s);
    }
    double full_gradient(In<R> packed, const Batch<R>& b, Out<R> dense) const {
        return held_->full_gradient(packed, b, dense);
    }
    Vec<R> whole(In<R> packed) const { return held_->whole(packed); }

private:
    struct Interface {
        virtual ~Interface() = default;
        virtual Layout layout() const = 0;
        virtual std::size_t outputs() const = 0;
        virtual double forward_flops() const = 0;
        virtual double gradient(In<R>, const Batch<R>&, Out<R>) const = 0;
        virtual void predict(In<R>, const Batch<R>&, Out<R>) const = 0;
        virtual bool fuses(const Step<R>&) const = 0;
        virtual double fused_step(Out<R>, const Batch<R>&, const Step<R>&) const = 0;
        virtual double full_gradient(In<R>, const Batch<R>&, Out<R>) const = 0;
        virtual Vec<R> whole(In<R>) const = 0;
    };
    template <class M>
    struct Held final : Interface {
        Sparse<M> form;
        Held(const M& model, const Mask& mask, std::size_t batch, Arithmetic how) : form(model, mask, batch, how) {}

        Layout layout() const override { return form.layout(); }
        std::size_t outputs() const override { return form.outputs(); }
        double forward_flops() const override { return form.forward_flops(); }
        double gradient(In<R> x, const Batch<R>& b, Out<R> out) const override { return form.gradient(x, b, out); }
        void predict(In<R> x, const Batch<R>& b, Out<R> out) const override { form.predict(x, b, out); }
        bool fuses(const Step<R>& s) const override { return form.fuses(s); }
        double fused_step(Out<R> x, const Batch<R>& b, const Step<R>& s) const override {
            return form.fused_step(x, b, s);
        }
        double full_gradient(In<R> x, const Batch<R>& b, Out<R> dense) const override {
            return form.full_gradient(x, b, dense);
        }
        Vec<R> whole(In<R> x) const override { return form.whole(x); }
    };

    std::shared_ptr<const Interface> held_;
};

}  // namespace tessera::nn
