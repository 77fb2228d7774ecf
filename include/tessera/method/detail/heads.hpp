// SPDX-License-Identifier: BSD-3-Clause
// FedPAC's server: what it keeps, and of the cohort's heads the mixture that suits each client.
//
//   a_i = argmin over the simplex of  a' (diag(V) + H_i) a,   H_i[j,l] = <q_i - q_j, q_i - q_l>,  q_j = (p_jc mu_jc)_c
//
// a' H_i a is |q_i - sum_j a_j q_j|^2: a_i weighs how far others' classes lie against how little is known of one's own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include <tessera/contracts/method.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/method/detail/class_statistics.hpp>
#include <tessera/method/detail/simplex.hpp>
#include <tessera/method/detail/split.hpp>

namespace tessera::detail {

template <class R>
struct HeadUpload {
    Vec<R> x;  // the extractor
    double weight = 1;
    Vec<R> head;
    ClassStatistics<R> statistics;
    Id from = 0;
};

template <class Fold, class R>
struct MixedHeads {
    Vec<R> w;  // the extractor
    memory_t<Fold, R> fold{};
    Vec<Range> place{};                // of the extractor in the model
    SharedPart<fold::Mean, R> head{};  // the mean of the last cohort's
    Vec<Vec<R>> heads{};               // each client's mixture; empty: it never came
    nn::Centroids<R> centroids{};

    const Vec<R>& head_of(Id i) const { return i < heads.size() && !heads[i].empty() ? heads[i] : head.w; }
    Vec<R> whole(const Vec<R>& initial) const { return head.with(SharedPart<Fold, R>{w, {}, place}.with(initial)); }
    nn::Centroids<R> known_centroids() const { return centroids.any() ? centroids : nn::Centroids<R>{}; }
    bool like(const MixedHeads& opened) const {
        const auto fits = [&](const Vec<R>& each) { return each.empty() || each.size() == head.w.size(); };
        return w.size() == opened.w.size() && place == opened.place && head.like(opened.head) &&
               heads.size() == opened.heads.size() && std::ranges::all_of(heads, fits) &&
               has_form(centroids, form_of(opened.centroids));
    }
    bool fits(const HeadUpload<R>& up, bool with_head, bool with_statistics) const {
        return up.x.size() == w.size() && up.weight >= 0 &&
               up.head.size() == (with_head ? head.w.size() : 0) && (!with_statistics || up.statistics.fits(centroids));
    }
};

// A download: the extractor, a head where heads travel, and centroids once there are some.
template <class M, class Down>
bool are_parts(const Context<M>& at, const Down& got, bool with_head) {
    const std::size_t d = at.initial->size(), head = on(scope::Head{}, *at.model).size(d);
    const std::size_t classes = at.model->outputs(), rows = classes * at.model->feature_width();
    const auto& c = got.centroids;
    return got.u.size() == d - head && got.head.size() == (with_head ? head : 0) &&
           ((c.rows.empty() && c.known.empty()) || (c.rows.size() == rows && c.known.size() == classes));
}

template <class Fold>
consteval bool shares_heads() {
    static_assert(!hides_clients<Fold>,
                  "tessera::FedPac: this fold hides clients, but the heads and class means they send would still show");
    return true;
}

// What FedPAC asks of a model, and where its server begins.
template <class Fold, class M>
MixedHeads<Fold, real<M>> mixed_heads(const Context<M>& context, const Vec<real<M>>& w0, std::size_t clients) {
    if constexpr (can_align<M>()) {
        require(context.model->aligns(),
                "FedPAC shares what is below the head, and this model has nothing there; take one with a hidden layer");
        auto body = shared_part<Fold>(scope::Head{}, context, w0);
        auto head = shared_part<fold::Mean>(scope::BelowHead{}, context, w0);
        const std::size_t classes = context.model->outputs();
        return {std::move(body.w),          {},
                std::move(body.place),      std::move(head),
                Vec<Vec<real<M>>>(clients), {Vec<real<M>>(classes * context.model->feature_width()), Mask(classes)}};
    } else {
        return {};
    }
}

// All q_j' q_l.
template <class R>
Vec<double> products_of_means(std::span<const HeadUpload<R>> ups) {
    const std::size_t n = ups.size();
    Vec<Vec<double>> q;
    for (const auto& up : ups) q.push_back(up.statistics.joint());
    Vec<double> all(n * n);
    for (std::size_t j = 0; j < n; ++j)
        for (std::size_t l = 0; l <= j; ++l)
            all[j * n + l] = all[l * n + j] = std::inner_product(q[j].begin(), q[j].end(), q[l].begin(), 0.0);
    return all;
}

// H_i is a Gram matrix, so positive semi-definite with V >= 0; but made of differences of products it carries their
// rounding, by which an eigenvalue may be negative. As much on the diagonal makes it semi-definite again, and moves no
// a' H_i a by more than that.
template <class R>
Vec<double> head_weights(const Vec<double>& products, std::span<const HeadUpload<R>> ups, std::size_t i) {
    constexpr double least = 1e-3;
    const std::size_t n = ups.size();
    double largest = 0;
    for (std::size_t j = 0; j < n; ++j) largest = std::max(largest, products[j * n + j]);
    const double doubt = 4 * static_cast<double>(n) * std::numeric_limits<double>::epsilon() * largest;
    Vec<double> h(n * n);
    for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t l = 0; l < n; ++l)
            h[j * n + l] = products[i * n + i] + products[j * n + l] - (products[i * n + j] + products[i * n + l]);
        h[j * n + j] += ups[j].statistics.variance + doubt;
    }
    return without_small(SimplexQuadratic(std::move(h), n).minimise(), least);
}

template <class R>
Vec<R> mixed_head(const Vec<double>& weights, std::span<const HeadUpload<R>> ups) {
    Vec<double> sum(ups[0].head.size());
    for (std::size_t j = 0; j < ups.size(); ++j)
        for (std::size_t k = 0; weights[j] > 0 && k < sum.size(); ++k)
            sum[k] += weights[j] * static_cast<double>(ups[j].head[k]);
    return Vec<R>(sum.begin(), sum.end());
}

// Every client of the cohort gets its mixture, and those who never came the mean.
template <class M, class Fold, class R>
void mix_heads(const Context<M>& context, MixedHeads<Fold, R>& server, std::span<const HeadUpload<R>> ups) {
    const auto products = products_of_means(ups);
    Vec<Row<R>> rows;
    for (std::size_t i = 0; i < ups.size(); ++i) {
        server.heads[ups[i].from] = mixed_head(head_weights(products, ups, i), ups);
        rows.push_back({ups[i].head, ups[i].weight});
    }
    fold_rows(fold::Mean{}, context, server.head.w, Rows<R>(rows), server.head.fold);
}

}  // namespace tessera::detail
