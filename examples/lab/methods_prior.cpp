// SPDX-License-Identifier: BSD-3-Clause
// pFedBreD by its priors. All clients train in every round; --per-round of them are merged.
#include <tessera/method/pfedme.hpp>
#include <tessera/prior/hybrid.hpp>
#include <tessera/prior/loss_gradient.hpp>
#include <tessera/prior/memorized.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {

template <class Prior>
using Bregman = tessera::FedBreD<Prior, tessera::divergence::Gaussian, ServerFold>;

std::vector<Entry> prior_methods() {
    namespace prior = tessera::prior;
    return {entry<Bregman<prior::LossGradient>>("pfedbred-lg",
                                                "pFedBreD (Shi et al. 2023), prior by the loss gradient", true),
            entry<Bregman<prior::Memorized>>("pfedbred-meg", "pFedBreD, prior by the memorized gradient", true),
            entry<Bregman<prior::Hybrid>>("pfedbred-mh", "pFedBreD, both; mh=paper or code", true),
            entry<Bregman<prior::Identity>>("pfedme", "pFedMe (Dinh et al. 2020): Moreau envelopes around w", true)};
}

}  // namespace lab
