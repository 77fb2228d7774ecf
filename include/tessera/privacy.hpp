// SPDX-License-Identifier: BSD-3-Clause
// Differential privacy: what noise costs, and where it comes from.
#pragma once

#include <tessera/privacy/accountant.hpp>
#include <tessera/privacy/budget.hpp>
#include <tessera/privacy/chacha20.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/privacy/sampling.hpp>
