// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/apfl.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedamp.hpp>
#include <tessera/method/fedem.hpp>
#include <tessera/method/fedfomo.hpp>
#include <tessera/method/mtl.hpp>
#include <tessera/method/per_fedavg.hpp>
#include <tessera/method/pfedbayes.hpp>
#include <tessera/method/pfedhn.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {

using tessera::rule::Sgd;

std::vector<Entry> mixing_methods() {
    return {entry<tessera::PerFedAvg<ServerFold>>("per-fedavg",
                                                  "Per-FedAvg (Fallah et al. 2020): a start one step away"),
            with_codec<tessera::Ditto<Sgd, ServerFold>>(entry<tessera::Ditto<Sgd, ServerFold>>(
                "ditto", "Ditto (Li et al. 2021): own model pulled to the server's")),
            entry<tessera::Apfl<Sgd, ServerFold>>("apfl", "APFL (Deng et al. 2020): own and common model mixed"),
            entry<tessera::Mtl<Sgd>>("mtl", "Mean-regularised multi-task learning: own models pulled to their mean"),
            entry<tessera::FedAmp<Sgd>>("fedamp", "FedAMP (Huang et al. 2021): clients with like models pull each other"),
            entry<tessera::FedFomo<Sgd>>("fedfomo",
                                         "FedFomo (Zhang et al. 2021): each client moves to the models that help it"),
            entry<tessera::FedEm<Sgd, ServerFold>>(
                "fedem", "FedEM (Marfoq et al. 2021): each client is a mixture of the same few models"),
            entry<tessera::PFedBayes<Sgd, ServerFold>>(
                "pfedbayes", "pFedBayes (Zhang et al. 2022): own distributions over models, pulled to a common one"),
            entry<tessera::PFedHn<Sgd>>("pfedhn",
                                        "pFedHN (Shamsian et al. 2021): a network at the server makes every model")};
}

}  // namespace lab
