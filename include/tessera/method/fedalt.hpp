// SPDX-License-Identifier: BSD-3-Clause
// FedAlt (Pillutla et al., ICML 2022, Algorithm 1 with LocalAlt).
//
//   client: tau_v steps on v_k with u fixed, then tau_u steps on u with the new v_k fixed
//   server: u = sum_k p_k u_k, p_k = nb_k / sum nb;   v_k never travels
//
// v empty is FedAvg, u empty is Local; v = head is FedRep.
#pragma once

#include <tessera/method/partial.hpp>
#include <tessera/order/alternate.hpp>

namespace tessera {

template <class Own = scope::Head, class Local = rule::Sgd, class Fold = fold::Mean,
          class Tune = rule::Sgd>
using FedAlt = Partial<Own, order::Alternate<Local>, Fold, Weigh::batches, Tune>;

}  // namespace tessera
