// SPDX-License-Identifier: BSD-3-Clause
// Executors.
#pragma once

#include <tessera/exec/openmp.hpp>
#include <tessera/exec/serial.hpp>
