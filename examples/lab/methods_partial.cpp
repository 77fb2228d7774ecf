// SPDX-License-Identifier: BSD-3-Clause
// Splits chosen at run time by --scope.
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedsim.hpp>
#include <tessera/method/ft_part.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {

using tessera::rule::Sgd;
using tessera::scope::Chosen;

std::vector<Entry> partial_methods() {
    using Alternate = tessera::FedAlt<Chosen, Sgd, ServerFold>;
    return {with_codec<Alternate>(entry<Alternate>(
                "fedalt", "FedAlt (Pillutla et al. 2022): the personal part, then the shared one")),
            entry<tessera::FedSim<Chosen, Sgd, ServerFold>>("fedsim",
                                                            "FedSim (Pillutla et al. 2022): both parts at every batch"),
            entry<tessera::FtPart<Chosen, Sgd, ServerFold>>(
                "ft-part", "FT (part.): FedAvg, the personal part fine-tuned at evaluation")};
}

}  // namespace lab
