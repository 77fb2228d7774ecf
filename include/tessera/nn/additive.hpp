// SPDX-License-Identifier: BSD-3-Clause
// A shared and a personal model that answer together (Pillutla et al., ICML 2022, figure 2b), a in (0, 1) learnt:
//
//   Mix::probabilities   p = (1-a) p_shared + a p_own       the paper's reading
//   Mix::logits          z = (1-a) z_shared + a z_own
//
// a = 1/(1 + exp(-mix)) and `mix` is the last parameter, 0 at first. The personal half and `mix` have part `adapter`,
// so scope::Adapter is v and all else is u. Both models may be of any kind that gives logits, and differ.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/contracts/model.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/nn/loss.hpp>

namespace tessera::nn {

enum class Mix : std::uint8_t { probabilities, logits };
constexpr std::array<std::string_view, 2> words_of(Mix) { return {"probabilities", "logits"}; }

template <LogitModel Shared, LogitModel Own>
    requires std::same_as<real<Shared>, real<Own>>
class Additive {
    using R = real<Shared>;

public:
    using Real = R;
    static constexpr Offers offers =
        offer::input_width | offer::apart |
        offer::when(CountedModel<Shared> && CountedModel<Own>, offer::forward_flops);

    explicit Additive(Mix mix = Mix::probabilities, Shared shared = {}, Own own = {})
        : mix_(mix),
          shared_(std::move(shared)),
          own_(std::move(own)),
          shared_size_(dimension(shared_)),
          own_size_(dimension(own_)) {
        if (tessera::input_width(shared_) != tessera::input_width(own_))
            throw ConfigError("the shared model reads " + std::to_string(tessera::input_width(shared_)) +
                              " numbers, the personal one " + std::to_string(tessera::input_width(own_)));
        if (shared_.outputs() != own_.outputs())
            throw ConfigError("the shared model has " + std::to_string(shared_.outputs()) +
                              " outputs, the personal one " + std::to_string(own_.outputs()));
        for (const auto& s : shared_.layout()) segments_.push_back(placed(s, "shared.", 0));
        for (Segment s : own_.layout()) {
            if (s.part != Part::buffer) s.part = Part::adapter;
            segments_.push_back(placed(s, "own.", shared_size_));
        }
        segments_.push_back({.name = "mix", .part = Part::adapter, .offset = shared_size_ + own_size_});
    }

    Layout layout() const { return segments_; }
    std::size_t input_width() const { return tessera::input_width(shared_); }
    std::size_t outputs() const { return shared_.outputs(); }
    bool apart() const { return examples_apart(shared_) && examples_apart(own_); }
    double forward_flops() const
        requires(CountedModel<Shared> && CountedModel<Own>)
    {
        return shared_.forward_flops() + own_.forward_flops();
    }

    double gradient(In<R> w, const Batch<R>& batch, Out<R> out) const {
        SoftmaxCrossEntropy::check(batch.examples(), outputs());
        Halves run(*this, w, batch);
        const double loss = mix_ == Mix::logits ? mixed_logits(run, batch) : mixed_probabilities(run, batch);
        shared_.pullback(w.first(shared_size_), batch, run.shared, out.first(shared_size_));
        own_.pullback(w.subspan(shared_size_, own_size_), batch, run.own, out.subspan(shared_size_, own_size_));
        out[shared_size_ + own_size_] = run.da * run.a * (1 - run.a);
        return loss;
    }
    void predict(In<R> w, const Batch<R>& batch, Out<R> out) const {
        Halves run(*this, w, batch);
        const std::size_t classes = outputs();
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const Out<R> z = run.row(run.shared, i, classes), o = run.row(run.own, i, classes);
            const Out<R> to = out.subspan(i * classes, classes);
            if (mix_ == Mix::probabilities) {
                log_softmax(z);
                log_softmax(o);
                for (std::size_t c = 0; c < classes; ++c) to[c] = run.log_mixture(z[c], o[c]);
            } else {
                for (std::size_t c = 0; c < classes; ++c) to[c] = (1 - run.a) * z[c] + run.a * o[c];
                log_softmax(to);
            }
        }
    }

private:
    // Logits of both halves, which the losses below turn into gradients with respect to them.
    struct Halves {
        Vec<R> shared, own;
        R a, da = 0;

        Halves(const Additive& model, In<R> w, const Batch<R>& batch)
            : shared(batch.size() * model.outputs()), own(shared.size()), a(1 / (1 + std::exp(-w.back()))) {
            model.shared_.logits(w.first(model.shared_size_), batch, shared);
            model.own_.logits(w.subspan(model.shared_size_, model.own_size_), batch, own);
        }
        static Out<R> row(Vec<R>& z, std::size_t i, std::size_t classes) {
            return Out<R>(z).subspan(i * classes, classes);
        }
        // log((1-a) exp(s) + a exp(o)), taken from the larger term on
        R log_mixture(R s, R o) const {
            const R x = s + std::log1p(-a), y = o + std::log(a);
            return x > y ? x + std::log1p(std::exp(y - x)) : y + std::log1p(std::exp(x - y));
        }
    };

    double mixed_logits(Halves& run, const Batch<R>& batch) const {
        Vec<R> z(run.shared.size());
        for (std::size_t j = 0; j < z.size(); ++j) z[j] = (1 - run.a) * run.shared[j] + run.a * run.own[j];
        const double loss = SoftmaxCrossEntropy::gradient(batch, Out<R>(z));
        for (std::size_t j = 0; j < z.size(); ++j) {
            run.da += z[j] * (run.own[j] - run.shared[j]);
            run.shared[j] = (1 - run.a) * z[j];
            run.own[j] = run.a * z[j];
        }
        return loss;
    }
    // -log q, q = (1-a) p_shared + a p_own of the label: each half's cross-entropy gradient times its share of q.
    double mixed_probabilities(Halves& run, const Batch<R>& batch) const {
        const std::size_t classes = outputs();
        double loss = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const Out<R> s = run.row(run.shared, i, classes), o = run.row(run.own, i, classes);
            const std::size_t label = batch.label(i);
            const R scale = batch.weight(i) / static_cast<R>(batch.size());
            log_softmax(s);
            log_softmax(o);
            const R log_q = run.log_mixture(s[label], o[label]);
            const R ratio_s = std::exp(s[label] - log_q), ratio_o = std::exp(o[label] - log_q);  // p / q
            loss -= static_cast<double>(scale * log_q);
            run.da += scale * (ratio_s - ratio_o);
            cross_entropy(s, label, scale * (1 - run.a) * ratio_s);
            cross_entropy(o, label, scale * run.a * ratio_o);
        }
        return loss;
    }
    // Log-probabilities to scale * (p - e_label).
    static void cross_entropy(Out<R> row, std::size_t label, R scale) {
        for (R& v : row) v = std::exp(v) * scale;
        row[label] -= scale;
    }

    Mix mix_;
    Shared shared_;
    Own own_;
    std::size_t shared_size_, own_size_;
    std::vector<Segment> segments_;
};

}  // namespace tessera::nn
