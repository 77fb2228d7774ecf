// SPDX-License-Identifier: BSD-3-Clause
// FedBN (Li et al., ICLR 2021): norms are personal, all else is shared, trained together.
//
//   client: E epochs on (rest, norm_k);   server: rest = sum_k p_k rest_k, p_k = n_k / sum n
//
// A network without norms makes it FedAvg.
#pragma once

#include <tessera/method/partial.hpp>
#include <tessera/order/together.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
using FedBn = Partial<scope::IfAny<scope::Norm>, order::Together<Local>, Fold, Weigh::samples>;

}  // namespace tessera
