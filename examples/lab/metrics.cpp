// SPDX-License-Identifier: BSD-3-Clause
#include "metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include <tessera/core/batch.hpp>
#include <tessera/core/error.hpp>
#include <tessera/runtime/evaluate.hpp>

#include "nearest.hpp"

namespace lab {

using namespace tessera::report;

void check_metrics(const Options& o, const tessera::Examples& examples) {
    static const std::vector<std::string> known{"auc", "ece", "gradient"};
    for (const auto& asked : o.metrics) {
        if (std::ranges::find(known, asked) == known.end()) {
            const auto meant = perhaps(asked, known);
            throw tessera::ConfigError("--metrics " + asked + ": there is no such metric" +
                                       (meant.empty() ? "; there are auc, ece and gradient" : meant));
        }
        const bool one_class = examples.labels && examples.one_label();
        if ((asked == "ece" && !one_class) || (asked == "auc" && !one_class && !examples.multi_hot))
            throw tessera::ConfigError("--metrics " + asked + ": it needs classes, " + (asked == "ece" ? "one" : "one or more") +
                                       " an example, and " + *o.data + " is labelled otherwise");
    }
}

ModelMetrics::ModelMetrics(const Options& o, std::size_t clients, std::size_t outputs)
    : auc_(o.measures("auc")), ece_(o.measures("ece")), outputs_(outputs), areas_(auc_ ? clients : 0),
      calibrations_(ece_ ? clients : 0) {}

void ModelMetrics::judge(tessera::Id client, tessera::detail::Predictor<float> predict, const tessera::Examples& examples,
                         std::span<const tessera::Index> ids) {
    if (auc_) {
        tessera::detail::Rankings<float> ranked{outputs_};
        ranked.add(predict, examples, ids);
        areas_[client] = ranked.of(client);
    }
    if (!ece_) return;
    tessera::detail::for_each_answer<float>(
        predict, examples, ids, outputs_, [&](std::size_t, const tessera::Batch<float>& batch, tessera::In<float> rows) {
            for (std::size_t i = 0; i < batch.size(); ++i)
                analysis::add_answer<float>(calibrations_[client], rows.subspan(i * outputs_, outputs_),
                                            static_cast<std::size_t>(batch.label(i)));
        });
}

void ModelMetrics::put(Score& score) const {
    if (auc_) {
        std::vector<Weighted> once, by_size;
        for (const auto& each : areas_) {
            if (std::isnan(each.value)) continue;  // a client of one class has none
            once.push_back({each.value, 1.0});
            by_size.push_back({each.value, static_cast<double>(each.n)});
        }
        score.auc = spread(by_size).mean;
        score.auc_unweighted = spread(once).mean;
    }
    if (ece_) {
        score.ece = analysis::ece_of(calibrations_, Average::pooled);
        score.ece_unweighted = analysis::ece_of(calibrations_, Average::unweighted);
    }
}

double gradient_norm(const Model& model, tessera::In<float> w, const tessera::data::FederatedDataset& clients) {
    constexpr std::size_t chunk = 256;
    std::vector<double> sum(w.size());
    tessera::Vec<float> gradient(w.size());
    double examples = 0;
    for (std::size_t k = 0; k < clients.size(); ++k) {
        const auto data = clients[k];
        for (std::size_t begin = 0; begin < data.train.size(); begin += chunk) {
            const auto ids = data.train.subspan(begin, std::min(chunk, data.train.size() - begin));
            const auto n = static_cast<double>(ids.size());
            model.gradient(w, tessera::Batch<float>(*data.examples, ids).evaluated(), tessera::Out<float>(gradient));
            for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += n * static_cast<double>(gradient[j]);
            examples += n;
        }
    }
    double square = 0;
    for (const double each : sum) square += each * each;
    return examples > 0 ? std::sqrt(square) / examples : absent;
}

}  // namespace lab
