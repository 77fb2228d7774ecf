// SPDX-License-Identifier: BSD-3-Clause
// Runs a check under every kernel set this CPU has; the set that was active comes back at the end.
#pragma once

#include <cstddef>
#include <string_view>

#include <tessera/kernels/dispatch.hpp>

namespace tessera::support {

template <class F>
void for_each_kernel_set(F&& check) {
    struct Restore {
        kernels::Set before = kernels::active();
        ~Restore() { kernels::active() = before; }
    } restore;
    for (std::size_t i = 0; i < kernels::set_names.size(); ++i) {
        if (!kernels::supported(kernels::Set(i))) continue;
        kernels::active() = kernels::Set(i);
        check(kernels::active_name());
    }
}

}  // namespace tessera::support
