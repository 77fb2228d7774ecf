// SPDX-License-Identifier: BSD-3-Clause
// expect: tessera::fold::Distill: the teachers are the uploads themselves
#include <tessera/fold/distill.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/privacy/noise.hpp>

#ifdef TESSERA_GOOD
tessera::fold::Distill<tessera::fold::ServerMomentum<>> fold;
#else
tessera::fold::Distill<tessera::fold::ServerMomentum<tessera::fold::PrivateMean<tessera::privacy::Noise>>> fold;
#endif
