// SPDX-License-Identifier: BSD-3-Clause
// The same questions, asked in each translation unit.
#pragma once

#include <tessera/tessera.hpp>

#include "shared.hpp"

namespace odr {

inline Facts facts() {
    tessera::Stream stream{tessera::Key{7}(tessera::purpose::shuffle)(3)};
    Facts result{};
    for (int i = 0; i < 1000; ++i) result.words = result.words * 31 + stream.word();
    for (int i = 0; i < 1000; ++i) result.uniform += stream.uniform();
    result.sizes = sizeof(tessera::Stream) * 1000 + sizeof(tessera::Key) * 10 + sizeof(tessera::Nothing);
    result.identity = reinterpret_cast<const void*>(&facts);
    return result;
}

}  // namespace odr
