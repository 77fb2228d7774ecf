// SPDX-License-Identifier: BSD-3-Clause
// Typed evaluations and what a run leaves behind.
#pragma once

#include <tessera/report/analysis/auc.hpp>
#include <tessera/report/analysis/calibration.hpp>
#include <tessera/report/analysis/class_loss.hpp>
#include <tessera/report/analysis/clients.hpp>
#include <tessera/report/analysis/coherence_curve.hpp>
#include <tessera/report/analysis/cost.hpp>
#include <tessera/report/analysis/ensemble.hpp>
#include <tessera/report/analysis/masks.hpp>
#include <tessera/report/analysis/memory.hpp>
#include <tessera/report/analysis/privacy.hpp>
#include <tessera/report/analysis/ranking.hpp>
#include <tessera/report/analysis/routing.hpp>
#include <tessera/report/analysis/runs.hpp>
#include <tessera/report/coherence.hpp>
#include <tessera/report/compare.hpp>
#include <tessera/report/compare_figures.hpp>
#include <tessera/report/csv.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/score.hpp>
#include <tessera/report/seeds.hpp>
#include <tessera/report/spread.hpp>
#include <tessera/report/text.hpp>
