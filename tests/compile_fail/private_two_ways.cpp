// SPDX-License-Identifier: BSD-3-Clause
// expect: tessera::Private: all rules must draw their examples in one way
#include <tessera/method/ditto.hpp>
#include <tessera/method/private.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>

using Samples = tessera::rule::DpSgd<tessera::privacy::Noise>;
#ifdef TESSERA_GOOD
using Own = Samples;
#else
using Own = tessera::rule::DpSgd<tessera::privacy::Noise, tessera::sampling::Epochs>;
#endif
tessera::Private<tessera::Ditto<Samples, tessera::fold::Mean, Own>> method;
