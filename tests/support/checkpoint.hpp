// SPDX-License-Identifier: BSD-3-Clause
// A federation's state as bytes, and back.
#pragma once

#include <doctest/doctest.h>

#include <tessera/core/bytes.hpp>

namespace tessera::support {

template <class Fed>
Bytes saved(const Fed& fed) {
    Bytes bytes;
    fed.save(bytes);
    return bytes;
}
template <class Fed>
void restore(Fed& fed, const Bytes& bytes) {
    Reader in(bytes);
    fed.restore(in);
    CHECK(in.left() == 0);
}

}  // namespace tessera::support
