// SPDX-License-Identifier: BSD-3-Clause
// expect: tessera::Scaffold: this fold hides clients
#include <tessera/fold/private_mean.hpp>
#include <tessera/method/scaffold.hpp>
#include <tessera/privacy/noise.hpp>

#ifdef TESSERA_GOOD
tessera::Scaffold<tessera::fold::Mean> method;
#else
tessera::Scaffold<tessera::fold::PrivateMean<tessera::privacy::Noise>> method;
#endif
