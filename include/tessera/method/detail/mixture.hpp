// SPDX-License-Identifier: BSD-3-Clause
// Several models that share a client's examples: who explains which of them, and their answers together.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <tessera/contracts/context.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/report/score.hpp>

namespace tessera::detail {

// q_i(m), which is pi_m p_m(y_i | x_i) divided by its sum over the models, and pi, their mean over the examples. Where
// an example has several labels, p_m(y_i | x_i) is the product over them.
template <class R>
struct Explained {
    Vec<Vec<R>> by;  // [model][example of the pool]; 0 for examples of others
    Vec<double> pi;
};

template <class M, class R = real<M>>
Explained<R> explained(const Context<M>& at, const Vec<Vec<R>>& models, const Vec<double>& prior) {
    require(at.examples->labels, "FedEM: models explain classes, these examples have none");
    if (models.empty() || models.size() != prior.size())
        throw WireError("the download holds " + std::to_string(models.size()) +
                        " models, this client knows shares of " + std::to_string(prior.size()));
    Explained<R> all{Vec<Vec<R>>(models.size()), Vec<double>(models.size())};
    Vec<Vec<double>> joint(models.size());  // log pi_m p_m(y_i | x_i), by place in at.ids
    for (std::size_t m = 0; m < models.size(); ++m) {
        const auto predict = [&](const Batch<R>& b, Out<R> out) { at.model->predict(models[m], b, out); };
        const std::size_t outputs = at.model->outputs();
        for_each_answer<R>(predict, *at.examples, at.ids, outputs, [&](std::size_t, const Batch<R>& b, In<R> log_p) {
            const std::size_t each = at.examples->labels_each;
            for (std::size_t i = 0; i < b.size(); ++i) {
                double sum = std::log(prior[m]);
                for (std::size_t t = 0; t < each; ++t)
                    if (const std::int32_t label = b.label(i, t); label >= 0)
                        sum += static_cast<double>(
                            log_p[i * outputs + t * (outputs / each) + static_cast<std::size_t>(label)]);
                joint[m].push_back(sum);
            }
        });
        all.by[m].resize(at.examples->size);
    }
    for (std::size_t i = 0; i < at.ids.size(); ++i) {
        double top = joint[0][i], sum = 0;
        for (const auto& of_model : joint) top = std::max(top, of_model[i]);
        for (const auto& of_model : joint) sum += std::exp(of_model[i] - top);
        for (std::size_t m = 0; m < models.size(); ++m) {
            const double q = std::exp(joint[m][i] - top) / sum;
            all.by[m][at.ids[i]] = static_cast<R>(q);
            all.pi[m] += q;
        }
    }
    for (double& share : all.pi) share /= static_cast<double>(at.ids.size());
    if (at.ids.empty()) all.pi = prior;
    return all;
}

inline Vec<double> even_shares(std::size_t models) { return Vec<double>(models, 1 / static_cast<double>(models)); }

// log sum_m pi_m p_m
template <class M>
struct Mixture {
    const M* model;
    Vec<Vec<real<M>>> models;
    Vec<double> pi;

    void operator()(const Batch<real<M>>& b, Out<real<M>> out) const {
        Vec<double> sum(out.size());
        for (std::size_t m = 0; m < models.size(); ++m) {
            model->predict(models[m], b, out);
            if (models.size() == 1) return;
            for (std::size_t i = 0; i < out.size(); ++i) sum[i] += pi[m] * std::exp(static_cast<double>(out[i]));
        }
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<real<M>>(std::log(sum[i]));
    }
};

}  // namespace tessera::detail
