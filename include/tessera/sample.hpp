// SPDX-License-Identifier: BSD-3-Clause
// Who takes part in a round.
#pragma once

#include <tessera/sample/everyone.hpp>
#include <tessera/sample/poisson.hpp>
#include <tessera/sample/uniform.hpp>
