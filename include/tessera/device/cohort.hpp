// SPDX-License-Identifier: BSD-3-Clause
// Many clients' walks of one network, step by step together on a device.
//
// Parameters, velocity, pulls and masks lie there from the first step to the last. Clients are ordered by their number
// of steps, so those that still have one are the first so many, and products are of these. A batch that is short is
// filled up with rows that cost nothing.
//
//   plain steps       the product that makes a layer's gradient also takes the step: w = 1 w - rate dy' x
//   others            (momentum, clipping, a scope that cuts a layer in two) the gradient first, then rule/step.hpp's
//   update
//
// A mask is dense weights that are zero where nothing is active and are made so again after every step; linear layers
// with less than `sparse_below` of their weights active use cuSPARSE beside them (device/sparse.hpp).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <tessera/contracts/descender.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/device/fold.hpp>
#include <tessera/device/pool.hpp>
#include <tessera/device/program.hpp>
#include <tessera/device/runtime.hpp>
#include <tessera/device/sparse.hpp>

namespace tessera::device {

class Cohort {
public:
    // Walks of one network that agree in all but their numbers; the longest comes first. All memory is taken here, so
    // that OutOfMemory finds everything as it was. Patches of convolutions have `room` bytes.
    Cohort(const Context& on, const Program& program, const Pool& pool, std::span<Descent<float>* const> walks,
           std::size_t room, const SparseHandle* sparse = nullptr, double sparse_below = 0)
        : on_(on),
          program_(program),
          graph_(program.graph()),
          pool_(pool),
          walks_(walks),
          step_(walks.front()->step),
          clients_(walks.size()),
          examples_(largest(walks)),
          steps_(walks.front()->batches->size()),
          numbers_(graph_.parameters),
          plain_(step_.clip == 0 && step_.momentum == 0 && !cuts_a_layer()),
          pitch_(clients_ * examples_),
          x_(clients_ * numbers_),
          prox_center_(step_.terms.prox_weight != 0 ? x_.size() : 0),
          linear_(step_.terms.linear.empty() ? 0 : x_.size()),
          velocity_(step_.momentum != 0 ? x_.size() : 0),
          slopes_(plain_ ? 0 : x_.size()),
          masks_(walks.front()->model->mask ? clients_ * words() : 0),
          ids_(steps_ * pitch_),
          labels_(ids_.size()),
          shares_(ids_.size()),
          input_(pitch_ * graph_.inputs()),
          places_(graph_.plan(nn::Mode::train).size(pitch_)),
          losses_(pitch_),
          totals_(clients_),
          parts_(step_.clip != 0 ? clients_ * norm_parts : 0),
          scales_(step_.clip != 0 ? clients_ : 0),
          room_examples_(program.room() == 0 ? 1
                                             : std::clamp<std::size_t>(
                                                   room / sizeof(float) / (clients_ * program.room()), 1, examples_)),
          room_(program.room() * clients_ * room_examples_) {
        if (sparse && masks_.size() > 0) find_sparse(*sparse, sparse_below);
        if (step_.terms.on.everything()) return;
        wanted_.assign(graph_.shapes.size(), 0);
        for (std::size_t i = 0; i < graph_.size(); ++i) {
            wanted_[i + 1] = step_.terms.on.touches(graph_.nodes[i].range());
            for (const int v : graph_.from(i)) wanted_[i + 1] |= wanted_[static_cast<std::size_t>(v)];
        }
    }

    // To the end of all walks, and what they leave. DeviceError leaves numbers of walks that nobody may use.
    Trained run() && {
        bring();
        for (std::size_t s = 0; s < steps_; ++s) one(s);
        fetch();
        return {std::move(x_), std::move(masks_), numbers_, words()};
    }

private:
    static constexpr std::size_t norm_parts = 256;

    static std::size_t largest(std::span<Descent<float>* const> walks) {
        std::size_t most = 1;
        for (const auto* w : walks)
            for (const auto b : *w->batches) most = std::max(most, b.size());
        return most;
    }
    bool cuts_a_layer() const {
        const Coordinates& on = step_.terms.on;
        return std::ranges::any_of(graph_.nodes,
                                   [&](const auto& n) { return !on.covers(n.range()) && on.touches(n.range()); });
    }
    std::size_t words() const { return (numbers_ + 63) / 64; }
    // Each linear layer by the mean share of what is active in it.
    void find_sparse(const SparseHandle& blas, double below) {
        std::vector<const Mask*> masks;
        for (const auto* w : walks_) masks.push_back(w->model->mask);
        active_.resize(graph_.size());
        for (std::size_t i = 0; i < graph_.size(); ++i) {
            if (!program_.layer(i).is_linear()) continue;
            const nn::Spec& s = graph_.nodes[i].spec();
            const std::size_t in = s.in[0].width(), out = s.out.width(), begin = graph_.nodes[i].w;
            std::size_t ones = 0;
            for (const Mask* m : masks)
                for (std::size_t j = begin; j < begin + in * out; ++j) ones += (*m)[j];
            const double share = static_cast<double>(ones) / static_cast<double>(clients_ * in * out);
            if (share < below)
                active_[i] = std::make_unique<ActiveWeights>(on_, blas, masks, begin, numbers_, out, in,
                                                             examples_ * s.in[0].positions());
        }
    }

    template <class From>
    bool all_alike(const From& from) const {
        const In<float> first = from(*walks_[0]);
        return std::ranges::all_of(walks_, [&](const auto* w) {
            return !w->model->mask && std::memcmp(from(*w).data(), first.data(), first.size() * sizeof(float)) == 0;
        });
    }
    // What is packed by a mask, and what is not, as all coordinates. What all begin with crosses the bus once.
    template <class From>
    void stage(std::vector<float>& host, Array<float>& device, const From& from) {
        if (device.size() == 0) return;
        if (all_alike(from)) {
            on_.up(from(*walks_[0]).data(), device.data(), numbers_);
            for (std::size_t have = 1; have < clients_; have *= 2)
                on_.across(device.data(), device.data() + have * numbers_, std::min(have, clients_ - have) * numbers_);
            return;
        }
        host.assign(device.size(), 0);
        for (std::size_t c = 0; c < clients_; ++c) {
            const In<float> given = from(*walks_[c]);
            float* const to = host.data() + c * numbers_;
            const Mask* const mask = walks_[c]->model->mask;
            if (!mask) std::copy(given.begin(), given.end(), to);
            else each_active(*mask, [&, i = std::size_t{0}](std::size_t j) mutable { to[j] = given[i++]; });
        }
        on_.up(host.data(), device.data(), host.size());
    }
    template <class F>
    static void each_active(const Mask& mask, F&& f) {
        for (std::size_t w = 0; w < mask.words().size(); ++w)
            for (std::uint64_t bits = mask.words()[w]; bits != 0; bits &= bits - 1)
                f(64 * w + static_cast<std::size_t>(std::countr_zero(bits)));
    }

    void bring() {
        std::vector<float> x, prox_center, linear;
        stage(x, x_, [](const auto& w) { return In<float>(*w.x); });
        stage(prox_center, prox_center_, [](const auto& w) { return w.step.terms.prox_center; });
        stage(linear, linear_, [](const auto& w) { return w.step.terms.linear; });
        on_.zero(velocity_.data(), velocity_.size());
        on_.zero(totals_.data(), totals_.size());
        std::vector<unsigned long long> masks;
        if (masks_.size() > 0)
            for (const auto* w : walks_)
                masks.insert(masks.end(), w->model->mask->words().begin(), w->model->mask->words().end());
        on_.up(masks.data(), masks_.data(), masks.size());

        std::vector<int> ids(ids_.size(), -1), labels(ids_.size(), 0);
        std::vector<float> shares(ids_.size(), 0);
        for (std::size_t c = 0; c < clients_; ++c)
            for (std::size_t s = 0; s < walks_[c]->batches->size(); ++s) {
                const auto b = (*walks_[c]->batches)[s];
                const std::size_t at = s * pitch_ + c * examples_;
                const float share = 1.0f / static_cast<float>(std::max<std::size_t>(1, b.labelled()));
                for (std::size_t i = 0; i < b.size(); ++i) {
                    ids[at + i] = static_cast<int>(b.ids()[i]);
                    labels[at + i] = std::max(0, b.label(i, 0));
                    shares[at + i] = b.label(i, 0) < 0 ? 0 : b.weight(i) * share;
                }
            }
        on_.up(ids.data(), ids_.data(), ids.size());
        on_.up(labels.data(), labels_.data(), labels.size());
        on_.up(shares.data(), shares_.data(), shares.size());
        on_.finish();  // what was staged may go
    }
    void fetch() {
        std::vector<float> x(x_.size());
        std::vector<double> totals(clients_);
        on_.down(x_.data(), x.data(), x.size());
        on_.down(totals_.data(), totals.data(), clients_);
        on_.finish();
        for (std::size_t c = 0; c < clients_; ++c) {
            Descent<float>& w = *walks_[c];
            const float* const from = x.data() + c * numbers_;
            w.loss = totals[c];
            if (!w.model->mask) std::copy_n(from, numbers_, w.x->begin());
            else each_active(*w.model->mask, [&, to = w.x->data()](std::size_t j) mutable { *to++ = from[j]; });
        }
    }

    float* value(std::size_t v) const { return places_.data() + plan().value(0, v) * pitch_; }
    float* slope(std::size_t v) const { return places_.data() + plan().slope(0, v) * pitch_; }
    const nn::Plan& plan() const { return graph_.plan(nn::Mode::train); }
    bool wanted(std::size_t v) const { return wanted_.empty() ? graph_.trains[v] != 0 : wanted_[v] != 0; }

    Call call(std::size_t i, std::size_t clients) const {
        Call c{.on = &on_, .clients = clients, .examples = examples_, .stride = numbers_, .w = x_.data()};
        const auto from = graph_.from(i);
        for (std::size_t k = 0; k < from.size(); ++k) {
            const auto v = static_cast<std::size_t>(from[k]);
            c.xs[k] = v == 0 ? input_.data() : value(v);
        }
        c.y = value(i + 1);
        c.saved = places_.data() + plan().saved(0, i) * pitch_;
        c.active = active_.empty() ? nullptr : active_[i].get();
        c.room = room_.data();
        c.room_examples = room_examples_;
        return c;
    }

    void one(std::size_t s) {
        std::size_t clients = clients_;
        while (walks_[clients - 1]->batches->size() <= s) --clients;
        const std::size_t rows = clients * examples_, classes = graph_.outputs(), last = graph_.size();
        pool_.gather(on_, ids_.data() + s * pitch_, input_.data(), rows);
        for (std::size_t i = 0; i < last; ++i) program_.layer(i).forward(call(i, clients));
        if (value(last) != slope(last)) on_.across(value(last), slope(last), rows * classes);
        must(kernel::tessera_softmax(static_cast<Long>(rows), slope(last), labels_.data() + s * pitch_,
                                     shares_.data() + s * pitch_, static_cast<Long>(classes), losses_.data(),
                                     on_.stream()));
        must(kernel::tessera_add_losses(static_cast<Long>(clients), losses_.data(), totals_.data(),
                                        static_cast<Long>(examples_), on_.stream()));
        for (std::size_t i = last; i-- > 0;)
            if (wanted(i + 1)) backward(i, clients);
        if (!plain_) take_step(clients);
    }
    void backward(std::size_t i, std::size_t clients) {
        Call c = call(i, clients);
        c.dy = slope(i + 1);
        const auto from = graph_.from(i);
        const std::size_t k0 = graph_.nodes[i].first;
        const auto target = [&](std::size_t k) {
            const auto v = static_cast<std::size_t>(from[k]);
            if (v == 0 || !wanted(v)) return static_cast<float*>(nullptr);
            return graph_.first_writer[k0 + k] ? slope(v) : places_.data() + plan().added(k0 + k) * pitch_;
        };
        for (std::size_t k = 0; k < from.size(); ++k) c.dxs[k] = target(k);
        program_.layer(i).back_input(c);
        for (std::size_t k = 0; k < from.size(); ++k) {
            if (!c.dxs[k] || graph_.first_writer[k0 + k]) continue;
            const auto v = static_cast<std::size_t>(from[k]);
            must(kernel::tessera_add(static_cast<Long>(c.rows() * graph_.shapes[v].size()), slope(v), c.dxs[k],
                                     slope(v), on_.stream()));
        }
        const Range own = graph_.nodes[i].range();
        if (own.size() == 0 || !step_.terms.on.touches(own)) return;
        if (!plain_) return program_.layer(i).back_weights(c, {slopes_.data(), 1, 0});
        if (step_.decay != 0 || prox_center_.size() > 0 || linear_.size() > 0) update(own, nullptr, clients);
        program_.layer(i).back_weights(c, {x_.data(), -static_cast<float>(step_.rate), 1});
        if (masks_.size() > 0)
            must(kernel::tessera_keep_active(threads(own, clients), x_.data(), masks_.data(),
                                             static_cast<Long>(words()), place(own), on_.stream()));
    }
    // From the whole gradient.
    void take_step(std::size_t clients) {
        const auto each = [&](const auto& f) { step_.terms.on.each(numbers_, f); };
        if (step_.clip != 0) {
            on_.zero(parts_.data(), parts_.size());
            const auto parts = static_cast<Long>(norm_parts);
            each([&](Range r) {
                must(kernel::tessera_squares(static_cast<Long>(clients) * parts, slopes_.data(), masks_.data(),
                                             static_cast<Long>(words()), place(r), parts, parts_.data(), on_.stream()));
            });
            must(kernel::tessera_clip_scales(static_cast<Long>(clients), parts_.data(), parts, step_.clip,
                                             scales_.data(), on_.stream()));
        }
        each([&](Range r) { update(r, slopes_.data(), clients); });
    }
    void update(Range r, const float* g, std::size_t clients) {
        must(kernel::tessera_update(threads(r, clients), x_.data(), g, prox_center_.data(), linear_.data(),
                                    velocity_.data(), scales_.data(), masks_.data(), static_cast<Long>(words()),
                                    place(r),
                                    {static_cast<float>(step_.rate), static_cast<float>(step_.decay),
                                     static_cast<float>(step_.terms.prox_weight), static_cast<float>(step_.momentum)},
                                    on_.stream()));
    }
    kernel::Place place(Range r) const {
        return {static_cast<Long>(r.begin), static_cast<Long>(r.size()), static_cast<Long>(numbers_)};
    }
    static Long threads(Range r, std::size_t clients) { return static_cast<Long>(r.size() * clients); }

    const Context& on_;
    const Program& program_;
    const nn::Graph<float>& graph_;
    const Pool& pool_;
    std::span<Descent<float>* const> walks_;
    const Step<float>& step_;
    std::size_t clients_, examples_, steps_, numbers_;
    bool plain_;
    std::size_t pitch_;
    Array<float> x_, prox_center_, linear_, velocity_, slopes_;
    Array<unsigned long long> masks_;
    Array<int> ids_, labels_;
    Array<float> shares_, input_, places_;
    Array<double> losses_, totals_, parts_;
    Array<float> scales_;
    std::size_t room_examples_;
    Array<float> room_;
    std::vector<std::uint8_t> wanted_;
    std::vector<std::unique_ptr<ActiveWeights>> active_;
};

}  // namespace tessera::device
