// SPDX-License-Identifier: BSD-3-Clause
// Comparing numbers: every bit, or within a stated distance.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/dispatch.hpp>

namespace tessera::support {

template <class R>
bool same_bits(const Vec<R>& a, const Vec<R>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(R)) == 0);
}

// The largest |a - b| / max(1, |b|); infinite when sizes differ or a number is not finite.
template <class R>
double distance(const Vec<R>& a, const Vec<R>& b) {
    if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
    double most = 0;
    for (std::size_t j = 0; j < a.size(); ++j) {
        const double there = static_cast<double>(b[j]);
        const double d = std::fabs(static_cast<double>(a[j]) - there) / std::max(1.0, std::fabs(there));
        if (!std::isfinite(d)) return std::numeric_limits<double>::infinity();
        most = std::max(most, d);
    }
    return most;
}

// While alive, kernels without fused multiply-adds: a loop written by hand then rounds as they do.
class PortableKernels {
public:
    PortableKernels() : before_(kernels::active()) { kernels::active() = kernels::Set::portable; }
    PortableKernels(const PortableKernels&) = delete;
    PortableKernels& operator=(const PortableKernels&) = delete;
    ~PortableKernels() { kernels::active() = before_; }

private:
    kernels::Set before_;
};

}  // namespace tessera::support
