// SPDX-License-Identifier: BSD-3-Clause
// FedRep (Collins et al., ICML 2021): personal head, shared body, one after the other.
//
//   client: E_h epochs on head_k with the body fixed, then E_u epochs on the body with head_k fixed
//   server: body = sum_k p_k body_k, p_k = n_k / sum n
//
// E_h and E_u are order.epochs_v and order.epochs_u; unlike FedAlt's, no phase is capped.
#pragma once

#include <tessera/method/partial.hpp>
#include <tessera/order/alternate.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
using FedRep = Partial<scope::Head, order::Alternate<Local, Local, 0>, Fold, Weigh::samples>;

}  // namespace tessera
