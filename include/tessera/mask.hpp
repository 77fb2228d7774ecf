// SPDX-License-Identifier: BSD-3-Clause
// Masks: which coordinates exist on a client, and how that is searched.
#pragma once

#include <tessera/mask/density.hpp>
#include <tessera/mask/dynamic_sparse.hpp>
#include <tessera/mask/random_static.hpp>
