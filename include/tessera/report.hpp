// SPDX-License-Identifier: BSD-3-Clause
// Typed evaluations and what a run leaves behind.
#pragma once

#include <tessera/report/csv.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/html.hpp>
#include <tessera/report/html_assets.hpp>
#include <tessera/report/html_figures.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/svg.hpp>
#include <tessera/report/text.hpp>
