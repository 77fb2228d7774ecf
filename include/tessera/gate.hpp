// SPDX-License-Identifier: BSD-3-Clause
// Gates: which branch an example takes at each block.
#pragma once

#include <tessera/gate/any_chain.hpp>
#include <tessera/gate/chain.hpp>
#include <tessera/gate/features.hpp>
#include <tessera/gate/fixed.hpp>
#include <tessera/gate/states.hpp>
