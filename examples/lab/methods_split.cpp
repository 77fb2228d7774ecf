// SPDX-License-Identifier: BSD-3-Clause
// Splits that a method's paper fixes.
#include <tessera/method/fedbabu.hpp>
#include <tessera/method/fedbn.hpp>
#include <tessera/method/fedper.hpp>
#include <tessera/method/fedrep.hpp>
#include <tessera/method/lg_fedavg.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {

using tessera::rule::Sgd;

std::vector<Entry> split_methods() {
    return {entry<tessera::FedPer<Sgd, ServerFold>>("fedper", "FedPer (Arivazhagan et al. 2019): personal head"),
            entry<tessera::FedRep<Sgd, ServerFold>>("fedrep", "FedRep (Collins et al. 2021): personal head, then body"),
            entry<tessera::LgFedAvg<Sgd, ServerFold>>("lg-fedavg", "LG-FedAvg (Liang et al. 2019): shared head"),
            entry<tessera::FedBabu<Sgd, ServerFold>>("fedbabu",
                                                     "FedBABU (Oh et al. 2022): frozen head, tuned at evaluation"),
            entry<tessera::FedBn<Sgd, ServerFold>>("fedbn", "FedBN (Li et al. 2021): personal norms")};
}

}  // namespace lab
