// SPDX-License-Identifier: BSD-3-Clause
// Aggregators and their decorators.
#pragma once

#include <tessera/fold/distill.hpp>
#include <tessera/fold/grouped.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/fold/owners_mean.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>
