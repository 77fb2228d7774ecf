// SPDX-License-Identifier: BSD-3-Clause
// Flow and its ablation. The router's widths are first, second, ...: a model of L blocks takes L - 1 of them.
#include <tessera/gate/fixed.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/pi_flow.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {

using tessera::rule::Sgd;

std::vector<Entry> routing_methods() {
    using Gate = tessera::gate::AnyChain;
    return {entry<tessera::Flow<Gate, Sgd, ServerFold>>(
                "flow", "Flow (Panchal et al. 2023): each example takes the global or the local copy of each block"),
            entry<tessera::Flow<tessera::gate::Fixed, Sgd, ServerFold>>(
                "flow-fixed", "Flow with one q0 for all examples and blocks, its ablation"),
            entry<tessera::PiFlow<Gate, Sgd, ServerFold>>("pi-flow", "Flow with two global branches, its ablation")};
}

}  // namespace lab
