// SPDX-License-Identifier: BSD-3-Clause
// What a policy with these settings is told before round one; nothing where they are in order.
#pragma once

#include <string>

#include <tessera/core/error.hpp>
#include <tessera/runtime/setup.hpp>

namespace tessera::support {

template <class Policy>
std::string complaint(const Policy& policy) {
    try {
        tessera::detail::validate_all(policy);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

}  // namespace tessera::support
