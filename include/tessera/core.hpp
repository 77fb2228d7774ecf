// SPDX-License-Identifier: BSD-3-Clause
// Vocabulary: vectors, layouts, batches, masks, random streams, reflected state, errors.
#pragma once

#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/by_name.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/checksum.hpp>
#include <tessera/core/client_data.hpp>
#include <tessera/core/clock.hpp>
#include <tessera/core/content.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/form.hpp>
#include <tessera/core/function_ref.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/reflect.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/core/strict_math.hpp>
#include <tessera/core/view.hpp>
