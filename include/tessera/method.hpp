// SPDX-License-Identifier: BSD-3-Clause
// Named methods, one per header.
#pragma once

#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/local.hpp>
