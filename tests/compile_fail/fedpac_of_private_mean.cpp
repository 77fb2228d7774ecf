// SPDX-License-Identifier: BSD-3-Clause
// expect: tessera::FedPac: this fold hides clients
#include <tessera/fold/private_mean.hpp>
#include <tessera/method/fedpac.hpp>
#include <tessera/privacy/noise.hpp>

#ifdef TESSERA_GOOD
tessera::FedPac<tessera::rule::Sgd, tessera::fold::Mean> method;
#else
tessera::FedPac<tessera::rule::Sgd, tessera::fold::PrivateMean<tessera::privacy::Noise>> method;
#endif
