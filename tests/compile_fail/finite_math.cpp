// SPDX-License-Identifier: BSD-3-Clause
// A sampler alone, in a program that takes every number for finite.
// expect: tessera: -ffast-math (or -Ofast) breaks the promise of equal bits and the checks for NaN; build without it
// flags: -O1 -ffinite-math-only
#include <tessera/sample/uniform.hpp>
