// SPDX-License-Identifier: BSD-3-Clause
// The smallest program of the component `kernels`: it uses one of them.
#include <tessera/kernels/vector.hpp>

int main() {
    const float x[4] = {1, 2, 3, 4};
    float y[4] = {};
    tessera::kernels::axpy(2.0f, x, y, 4);
    return y[3] == 8 ? 0 : 1;
}
