// SPDX-License-Identifier: BSD-3-Clause
// Noise that every run of a test draws alike; what is shipped is not, unless asked.
#pragma once

#include <tessera/privacy/noise.hpp>

namespace tessera::support {

struct KeyedNoise : privacy::Noise {
    constexpr KeyedNoise() : Noise{privacy::Source::keyed} {}
};

}  // namespace tessera::support
