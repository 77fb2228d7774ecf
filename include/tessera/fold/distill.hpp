// SPDX-License-Identifier: BSD-3-Clause
// Distillation at the server (FedDF; PerAda, step 6). The inner fold moves w to w0; then, on public examples x,
//
//   z_t(x) = mean_k logits(x_k; x)            teachers in evaluation mode, once a round for every example that is used
//   R steps of Adam(0.9, 0.999, 1e-8) from w0 on mean_x KL(softmax(z_t / tau) || softmax(z_s / tau)), student training,
//   rate (1 + cos(pi r / R)) / 2, r = 0..R-1
//
// Adam is new in every round. The public examples are the server's data; their labels are not read.
// `best_val_or_init` keeps the student with the most right answers on the server's labelled examples, and w0 unless one
// beats it. One upload, or equal ones in float, change nothing, bit for bit. Neither do answers that are linear in the
// parameters, in exact arithmetic: near a slope of 0 Adam multiplies it by rate / 1e-8 a step, so what rounding leaves
// grows until steps are of size rate (in double, 12 steps of rate 0.01 make 0.009 of 1e-18). `least_lesson` leaves such
// rounds to the inner fold.
//
// Cost: R gradients, and one forward pass per teacher and public example. Keeps the cohort.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <tessera/contracts/judgement.hpp>
#include <tessera/contracts/fold.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/kernels/moments.hpp>
#include <tessera/nn/objective/taught.hpp>

namespace tessera::fold {

// What is averaged over the teachers.
enum class Ensemble : std::uint8_t { logits, probabilities };
constexpr std::array<std::string_view, 2> words_of(Ensemble) { return {"logits", "probabilities"}; }

// Which student is kept.
enum class Select : std::uint8_t { last, best_val_or_init };
constexpr std::array<std::string_view, 2> words_of(Select) { return {"last", "best_val_or_init"}; }

template <class Inner = Mean>
struct Distill {
    static_assert(!hides_clients<Inner>,
                  "tessera::fold::Distill: the teachers are the uploads themselves, which this inner fold is to hide");
    static constexpr auto offers = offer::validate | offer::check | offer::whole_rows;

    std::size_t kd_steps = 500;    // R
    std::size_t kd_batch = 2048;
    double kd_rate = 1e-3;         // the first one
    std::size_t kd_rounds = std::numeric_limits<std::size_t>::max();  // only in the first so many; 0 never
    double temperature = 1;        // tau
    nn::Answer answer = nn::Answer::classes;
    Ensemble ensemble = Ensemble::logits;
    bool weighted = false;         // teachers count as their uploads do; otherwise all the same
    Select select = Select::last;
    std::size_t patience = 1000;   // steps without a better student; then it stops
    std::size_t judge_every = 1;   // steps
    double least_lesson = 0;       // nats; where the student starts nearer to its teachers, the round teaches nothing
    Inner inner{};

    template <class R>
    struct Memory {
        memory_t<Inner, R> inner;
    };

    template <class M>
    void around(const Context<M>& context, Vec<real<M>>& w, Rows<real<M>> rows, auto&, auto&& fold_inner) const {
        fold_inner(w);
        if (context.round >= kd_rounds || kd_steps == 0 || rows.empty()) return;
        check(context, w);
        if constexpr (LogitModel<M>) teach(context, w, rows);
    }

    // The teachers' answers to these examples, `ids` ascending.
    template <class M>
    nn::Answers<real<M>> answers(const Context<M>& context, Rows<real<M>> rows, Vec<Index> ids) const {
        using R = real<M>;
        const std::size_t each = context.model->outputs(), row_size = each / positions(*context.model);
        nn::Answers<R> all{std::move(ids), {}};
        all.q.resize(all.ids.size() * each);
        double total = 0;
        for (const auto& row : rows) total += weighted ? row.weight : 1;
        Crew::for_each((all.ids.size() + chunk - 1) / chunk, [&](std::size_t piece) {
            const std::size_t begin = piece * chunk, count = std::min(chunk, all.ids.size() - begin);
            const Batch<R> batch(*context.examples, std::span<const Index>(all.ids).subspan(begin, count));
            const Out<R> out = Out<R>(all.q).subspan(begin * each, count * each);
            Vec<double> sum(out.size());
            for (const auto& row : rows) {
                context.model->logits(row.x, batch, out);
                if (ensemble == Ensemble::probabilities) softening()(out, row_size);
                const double share = weighted ? row.weight : 1;
                for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += share * static_cast<double>(out[j]);
            }
            for (std::size_t j = 0; j < sum.size(); ++j) out[j] = static_cast<R>(total > 0 ? sum[j] / total : 0);
            if (ensemble == Ensemble::logits) softening()(out, row_size);
        });
        return all;
    }
    nn::Softening softening() const { return {temperature, answer}; }

    template <class M>
    void check(const Context<M>& context, const Vec<real<M>>& w) const {
        constexpr bool has_logits = LogitModel<M>;
        static_assert(has_logits, "tessera::Distill: this model has no `logits` and `pullback`; only models with "
                                  "logits can be taught");
        if (kd_steps == 0 || kd_rounds == 0) return;
        if (w.size() != dimension(*context.model))
            throw ConfigError("distillation asks whole models, and what this method's clients send has " +
                              std::to_string(w.size()) + " of the model's " +
                              std::to_string(dimension(*context.model)) + " parameters: share all of them");
        if (context.ids.empty())
            throw ConfigError(
                "distillation needs public examples at the server: give the federation `aux`, or split the "
                "data with a share for the server");
        if (context.labelled && context.labelled->examples && context.labelled->examples->targets)
            throw ConfigError("distillation asks models for probabilities, and these predict real targets");
        if (select == Select::last) return;
        if (!context.labelled || context.labelled->train.empty() || !context.labelled->examples->labels)
            throw ConfigError("select=best_val_or_init needs labelled examples at the server: split the data with a "
                              "share for it, or keep the last student (select=last)");
    }
    void validate() const {
        detail::require(kd_batch >= 1, "kd_batch must be at least 1");
        detail::require(std::isfinite(kd_rate) && kd_rate >= 0,
                        "kd_rate must be 0 or more, not " + std::to_string(kd_rate));
        detail::require(std::isfinite(temperature) && temperature > 0,
                        "temperature must be positive, not " + std::to_string(temperature));
        detail::require(patience >= 1, "patience must be at least 1 step");
        detail::require(judge_every >= 1, "judge_every must be at least 1 step");
        detail::require(least_lesson >= 0, "least_lesson must be 0 or more nats, not " + std::to_string(least_lesson));
    }

private:
    static constexpr std::size_t chunk = 256;  // examples in a teacher's forward pass
    static constexpr double b1 = 0.9, b2 = 0.999, eps = 1e-8;

    template <class M>
    void teach(const Context<M>& context, Vec<real<M>>& w, Rows<real<M>> rows) const {
        using R = real<M>;
        auto desk = context;
        desk.batch = kd_batch;
        const std::size_t each = desk.batch_count();
        const auto batches = desk.epochs(kd_steps / each + (kd_steps % each != 0));
        const auto said = answers(context, rows, used(batches));
        const nn::Taught<M> lesson{context.model, &said, softening()};
        if (least_lesson > 0 && distance(context, lesson, w) < least_lesson) return;
        Vec<R> g(w.size()), m(w.size()), v(w.size()), best;
        double most = 0;
        std::size_t since = 0;
        if (select == Select::best_val_or_init) {
            best = w;
            most = right_answers(context, w);
        }
        for (std::size_t r = 0; r < kd_steps && since < patience; ++r) {
            lesson.gradient(w, batches[r], g);
            const auto t = static_cast<double>(r), T = static_cast<double>(kd_steps);
            const double falling = (1 + std::cos(3.14159265358979323846 * t / T)) / 2;
            const auto numbers = kernels::unbiased<R>(kd_rate * falling, b1, b2, eps, t + 1);
            const R* none = nullptr;
            kernels::adam(w.data(), g.data(), none, R(0), none, m.data(), v.data(), w.size(), &numbers);
            if (select == Select::last) continue;
            ++since;
            if ((r + 1) % judge_every != 0 && r + 1 != kd_steps) continue;
            if (const auto right = right_answers(context, w); right > most) {
                best = w;
                most = right;
                since = 0;
            }
        }
        if (select == Select::best_val_or_init) w = std::move(best);
    }

    // The mean divergence of w's answers from those that are taught.
    template <class M>
    double distance(const Context<M>& context, const nn::Taught<M>& lesson, const Vec<real<M>>& w) const {
        using R = real<M>;
        const std::span<const Index> ids(lesson.answers->ids);
        Vec<R> z(std::min(chunk, ids.size()) * lesson.outputs());
        double sum = 0;
        for (std::size_t begin = 0; begin < ids.size(); begin += chunk) {
            const Batch<R> batch(*context.examples, ids.subspan(begin, std::min(chunk, ids.size() - begin)));
            const auto out = Out<R>(z).first(batch.size() * lesson.outputs());
            context.model->logits(w, batch, out);
            sum += lesson.slope(batch, out) * static_cast<double>(batch.size());
        }
        return sum / static_cast<double>(ids.size());
    }

    // The examples of the first `kd_steps` batches, each once, ascending.
    template <class R>
    Vec<Index> used(const Batches<R>& batches) const {
        Vec<Index> ids;
        for (std::size_t r = 0; r < kd_steps; ++r)
            for (const Index id : batches[r].ids()) ids.push_back(id);
        std::sort(ids.begin(), ids.end());
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
        return ids;
    }

    template <class M>
    double right_answers(const Context<M>& context, const Vec<real<M>>& w) const {
        using R = real<M>;
        const std::size_t each = context.model->outputs();
        const auto ids = context.labelled->train;
        Vec<R> out(std::min(chunk, ids.size()) * each);
        Judgement all;
        for (std::size_t begin = 0; begin < ids.size(); begin += chunk) {
            const Batch<R> batch(*context.labelled->examples, ids.subspan(begin, std::min(chunk, ids.size() - begin)));
            context.model->predict(w, batch, Out<R>(out).first(batch.size() * each));
            judge(*context.model, batch, In<R>(out).first(batch.size() * each), all);
        }
        return all.right;
    }
};

}  // namespace tessera::fold
