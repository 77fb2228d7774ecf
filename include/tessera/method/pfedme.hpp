// SPDX-License-Identifier: BSD-3-Clause
// pFedMe (Dinh et al., NeurIPS 2020): pFedBreD with mu = w and half the squared distance.
//
//   for r = 1..R:  theta = K steps of rate alpha on f(.; b) + lambda/2 |. - w_i|^2, from w_i
//                  w_i -= alpha_m lambda (w_i - theta)
//   server:        w = (1 - beta) w + beta sum_k p_k w_k
//
// All clients train in every round and S of them are merged: sample::Uniform{S, true}.
#pragma once

#include <tessera/method/pfedbred.hpp>

namespace tessera {

template <class Fold = fold::Relax<fold::Mean>, class Local = rule::Sgd>
using PFedMe = FedBreD<prior::Identity, divergence::Gaussian, Fold, Local>;

// As its authors' program runs: theta decays and goes on from the step before; w_i is evaluated.
inline PFedMe<> pfedme_as_released(PFedMe<> method = {}) {
    method.local.weight_decay = 1e-3;
    method.prox_init = ProxInit::theta_prev;
    method.eval_model = EvalModel::w_local;
    return method;
}

}  // namespace tessera
