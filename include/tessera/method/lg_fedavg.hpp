// SPDX-License-Identifier: BSD-3-Clause
// LG-FedAvg (Liang et al., 2019): personal representation, shared head, trained together.
//
//   client: E epochs on (body_k, head);   server: head = sum_k p_k head_k, p_k = n_k / sum n
//
// The original starts from a FedAvg model: pass its w as the federation's warm start.
#pragma once

#include <tessera/method/partial.hpp>
#include <tessera/order/together.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
using LgFedAvg = Partial<scope::BelowHead, order::Together<Local>, Fold, Weigh::samples>;

}  // namespace tessera
