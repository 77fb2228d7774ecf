// SPDX-License-Identifier: BSD-3-Clause
// How numbers travel.
#pragma once

#include <tessera/codec/quantised.hpp>
#include <tessera/codec/sign.hpp>
#include <tessera/codec/sparse.hpp>
#include <tessera/codec/whole.hpp>
