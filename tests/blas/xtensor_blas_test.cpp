// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/xtensor_blas.hpp>

#include <doctest/doctest.h>

#include <support/backend_agreement.hpp>

using namespace tessera;
using namespace tessera::support;

TEST_CASE_TEMPLATE("backend::XtensorBlas agrees with the reference loops", R, float, double) {
    for (const std::size_t batch : {0u, 1u, 3u, 20u})
        for (const std::size_t in : {0u, 1u, 7u, 16u, 33u})
            for (const std::size_t out : {0u, 1u, 5u, 17u}) {
                CAPTURE(batch);
                CAPTURE(in);
                CAPTURE(out);
                CHECK(disagreement<backend::XtensorBlas, R>(batch, in, out) == "");
            }
    CHECK(disagreement<backend::XtensorBlas, R>(3, 7, 5, R(1e-3)) == "affine");
}

TEST_CASE("a network on backend::XtensorBlas takes the same steps") {
    // Five steps of sums of at most 19 terms of size about 1.
    CHECK(step_error<backend::XtensorBlas, double>() < 1e-14);
    CHECK(step_error<backend::XtensorBlas, float>() < 2e-6);
    CHECK(step_error<backend::XtensorBlas, float>() > 0);  // float is not double
}
