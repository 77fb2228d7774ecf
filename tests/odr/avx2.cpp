// SPDX-License-Identifier: BSD-3-Clause
// Compiled with -mavx2 where the compiler knows the flag.
#include "facts.hpp"

odr::Facts odr::avx2() { return facts(); }
