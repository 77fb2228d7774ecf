// SPDX-License-Identifier: BSD-3-Clause
// expect: tessera::HypCluster: this fold hides clients
#include <tessera/fold/private_mean.hpp>
#include <tessera/method/hyp_cluster.hpp>
#include <tessera/privacy/noise.hpp>

#ifdef TESSERA_GOOD
tessera::HypCluster<tessera::rule::Sgd, tessera::fold::Mean> method;
#else
tessera::HypCluster<tessera::rule::Sgd, tessera::fold::PrivateMean<tessera::privacy::Noise>> method;
#endif
