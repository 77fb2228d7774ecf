// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/eigen.hpp>

#include <doctest/doctest.h>

#include <support/backend_agreement.hpp>

namespace eigen_test {

using namespace tessera;
using namespace tessera::support;

TEST_CASE_TEMPLATE("backend::Eigen agrees with the reference loops", R, float, double) {
    for (const std::size_t batch : {0u, 1u, 3u, 20u})
        for (const std::size_t in : {0u, 1u, 7u, 16u, 33u})
            for (const std::size_t out : {0u, 1u, 5u, 17u}) {
                CAPTURE(batch);
                CAPTURE(in);
                CAPTURE(out);
                CHECK(disagreement<backend::Eigen, R>(batch, in, out) == "");
            }
    CHECK(disagreement<backend::Eigen, R>(3, 7, 5, R(1e-3)) == "affine");
}

TEST_CASE("a network on backend::Eigen takes the same steps") {
    // Five steps of sums of at most 19 terms of size about 1.
    CHECK(step_error<backend::Eigen, double>() < 1e-14);
    CHECK(step_error<backend::Eigen, float>() < 2e-6);
    CHECK(step_error<backend::Eigen, float>() > 0);  // float is not double
    CHECK(step_error<backend::Simd, float>() < 2e-6);
}

}  // namespace eigen_test
