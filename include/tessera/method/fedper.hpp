// SPDX-License-Identifier: BSD-3-Clause
// FedPer (Arivazhagan et al., 2019): personal head, shared body, trained together.
//
//   client: E epochs on (body, head_k);   server: body = sum_k p_k body_k, p_k = n_k / sum n
#pragma once

#include <tessera/method/partial.hpp>
#include <tessera/order/together.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
using FedPer = Partial<scope::Head, order::Together<Local>, Fold, Weigh::samples>;

}  // namespace tessera
