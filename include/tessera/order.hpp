// SPDX-License-Identifier: BSD-3-Clause
// In which order a visit moves the personal and the shared block.
#pragma once

#include <tessera/order/alternate.hpp>
#include <tessera/order/penalty.hpp>
#include <tessera/order/together.hpp>
