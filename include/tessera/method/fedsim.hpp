// SPDX-License-Identifier: BSD-3-Clause
// FedSim (Pillutla et al., ICML 2022, Algorithm 1 with LocalSim).
//
//   client: tau steps, at each both partial gradients are taken at (u_k, v_k) and both blocks move
//   server: u = sum_k p_k u_k, p_k = nb_k / sum nb;   v_k never travels
//
// v empty is FedAvg, u empty is Local; v = head is FedPer, v = norms is FedBN.
#pragma once

#include <tessera/method/partial.hpp>
#include <tessera/order/together.hpp>

namespace tessera {

template <class Own = scope::Head, class Local = rule::Sgd, class Fold = fold::Mean,
          class Tune = rule::Sgd>
using FedSim = Partial<Own, order::Together<Local>, Fold, Weigh::batches, Tune>;

}  // namespace tessera
