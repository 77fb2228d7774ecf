// SPDX-License-Identifier: BSD-3-Clause
// The round, the endpoints, evaluation, checkpoints.
#pragma once

#include <tessera/runtime/at_home.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/runtime/class_loss.hpp>
#include <tessera/runtime/client.hpp>
#include <tessera/runtime/cohort.hpp>
#include <tessera/runtime/controls.hpp>
#include <tessera/runtime/ensemble.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/export.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/runtime/judge.hpp>
#include <tessera/runtime/long_first.hpp>
#include <tessera/runtime/ranks.hpp>
#include <tessera/runtime/round_report.hpp>
#include <tessera/runtime/routing.hpp>
#include <tessera/runtime/routing_theory.hpp>
#include <tessera/runtime/server.hpp>
#include <tessera/runtime/setup.hpp>
#include <tessera/runtime/store.hpp>
#include <tessera/runtime/store_parts.hpp>
#include <tessera/runtime/theory.hpp>
#include <tessera/runtime/visit.hpp>
