// SPDX-License-Identifier: BSD-3-Clause
// Divergences: the geometry of a prior.
#pragma once

#include <tessera/divergence/bernoulli.hpp>
#include <tessera/divergence/exponential.hpp>
#include <tessera/divergence/gaussian.hpp>
#include <tessera/divergence/general.hpp>
#include <tessera/divergence/poisson.hpp>
