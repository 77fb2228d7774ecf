// SPDX-License-Identifier: BSD-3-Clause
// What --metrics asks for beside accuracy and loss, for any method: compiled once, whatever there is to judge.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/report/analysis/auc.hpp>
#include <tessera/report/analysis/calibration.hpp>
#include <tessera/report/score.hpp>

#include "history.hpp"
#include "options.hpp"
#include "tasks.hpp"

namespace lab {

// Refuses names that there are not, and what the labels cannot be asked.
void check_metrics(const Options& options, const tessera::Examples& examples);

// Areas under ROC curves and errors of calibration, client by client; each call writes its own place.
class ModelMetrics {
public:
    ModelMetrics(const Options& options, std::size_t clients, std::size_t outputs);
    explicit operator bool() const { return auc_ || ece_; }
    void judge(tessera::Id client, tessera::detail::Predictor<float> predict, const tessera::Examples& examples,
               std::span<const tessera::Index> ids);
    void put(Score& score) const;

private:
    bool auc_, ece_;
    std::size_t outputs_;
    std::vector<tessera::report::analysis::ClientAuc> areas_;
    std::vector<tessera::report::analysis::Calibration> calibrations_;
};

// Of the mean loss over all training examples, at w; a pass over them.
double gradient_norm(const Model& model, tessera::In<float> w, const tessera::data::FederatedDataset& clients);

}  // namespace lab
