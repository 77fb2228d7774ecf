// SPDX-License-Identifier: BSD-3-Clause
// What a stranger's program sees: the umbrella, the version and the components that were asked for.
#include <tessera/tessera.hpp>

#include <cstdio>
#include <cstring>

#if defined(EXPECT_KERNELS) && !defined(TESSERA_LINKED_KERNELS)
#error "tessera::kernels does not define TESSERA_LINKED_KERNELS"
#endif
#if defined(EXPECT_OPENMP) && !TESSERA_HAS_OPENMP
#error "tessera::openmp does not define TESSERA_HAS_OPENMP"
#endif
#if defined(EXPECT_ZLIB) && !TESSERA_HAS_ZLIB
#error "tessera::zlib does not define TESSERA_HAS_ZLIB"
#endif
#if defined(EXPECT_XTENSOR) && !TESSERA_HAS_XTENSOR
#error "tessera::xtensor does not define TESSERA_HAS_XTENSOR"
#endif
#if defined(EXPECT_JSON) && !TESSERA_HAS_JSON
#error "tessera::json does not define TESSERA_HAS_JSON"
#endif

#if defined(EXPECT_ZLIB)
#include <zlib.h>
#endif
#if defined(EXPECT_OPENMP)
#include <omp.h>
#endif
#if defined(EXPECT_JSON)
#include <nlohmann/json.hpp>
#endif

int main() {
    tessera::Stream stream{tessera::Key{1}(tessera::purpose::init)};
    const double u = stream.uniform();
    bool right = u >= 0 && u < 1 && std::strlen(tessera::version) > 0;
    const float x[3] = {1, 2, 3};
    double sum = 0;
    tessera::kernels::sum(x, 3, &sum);  // does not link with tessera::kernels promised and missing
    right = right && sum == 6;
#if defined(EXPECT_ZLIB)
    right = right && crc32(0, reinterpret_cast<const unsigned char*>("123456789"), 9) == 0xCBF43926u;
#endif
#if defined(EXPECT_OPENMP)
    right = right && omp_get_max_threads() > 0;
#endif
    std::printf("tessera %s %s\n", tessera::version, right ? "works" : "is broken");
    return right ? 0 : 1;
}
