// SPDX-License-Identifier: BSD-3-Clause
// Refuses compilers that were told to treat numbers loosely. Whatever holds, reads or judges numbers includes it.
#pragma once

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ != 0)
#error "tessera: -ffast-math (or -Ofast) breaks the promise of equal bits and the checks for NaN; build without it"
#endif
