// SPDX-License-Identifier: BSD-3-Clause
// Where clients' states rest between visits.
#pragma once

#include <tessera/store/log.hpp>
#include <tessera/store/log_check.hpp>
