// SPDX-License-Identifier: BSD-3-Clause
// Priors: where a personal model is pulled to.
#pragma once

#include <tessera/prior/hybrid.hpp>
#include <tessera/prior/identity.hpp>
#include <tessera/prior/loss_gradient.hpp>
#include <tessera/prior/memorized.hpp>
#include <tessera/prior/meta_hybrid.hpp>
#include <tessera/prior/meta_step.hpp>
#include <tessera/prior/natural.hpp>
