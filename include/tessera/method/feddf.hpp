// SPDX-License-Identifier: BSD-3-Clause
// FedDF (Lin et al., NeurIPS 2020).
//
//   client: as FedAvg
//   server: w = sum_k p_k w_k, then R steps toward the clients' mean answer on public data
//
// R = 0 (kd_steps) is FedAvg; so is every R with uniform weights where answers are linear in the
// parameters.
#pragma once

#include <tessera/fold/distill.hpp>
#include <tessera/method/fedavg.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Inner = fold::Mean>
using FedDf = FedAvg<Local, fold::Distill<Inner>>;

}  // namespace tessera
