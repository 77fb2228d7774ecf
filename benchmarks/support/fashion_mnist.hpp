// SPDX-License-Identifier: BSD-3-Clause
// The data of the benchmarks: real pixels or nothing.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <tessera/data/normalise.hpp>
#include <tessera/io/fashion_mnist.hpp>

namespace bench {

inline tessera::data::Dataset fashion_mnist() {
    const auto directory = tessera::io::find_fashion_mnist();
    if (!directory) {
        std::fputs("not measured: Fashion-MNIST is not installed (Debian: dataset-fashion-mnist)\n", stderr);
        std::exit(3);
    }
    return tessera::data::standardised(tessera::io::load_fashion_mnist(*directory));
}

}  // namespace bench
