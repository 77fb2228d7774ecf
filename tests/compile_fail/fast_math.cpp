// SPDX-License-Identifier: BSD-3-Clause
// A model alone, in a program that lets the compiler reorder sums.
// expect: tessera: -ffast-math (or -Ofast) breaks the promise of equal bits and the checks for NaN; build without it
// flags: -ffast-math
#include <tessera/nn/zoo.hpp>
