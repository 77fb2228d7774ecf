// SPDX-License-Identifier: BSD-3-Clause
// Flow and its ablation. The router's widths are first, second, ...: a model of L blocks takes L - 1 of them.
#include <tessera/gate/fixed.hpp>
#include <tessera/gate/states.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/pi_flow.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {

using tessera::rule::Sgd;

// The global parts descend the loss of the global path on all examples, so that w_g is what FedAvg makes of them. By
// Equation 5 on a half of the examples it is trained where it is routed to alone, and is no model by itself: 27.9 % on
// Fashion-MNIST where FedAvg has 81.3 (docs/systems/flow.md has the command). The presets of flow/ set the paper's.
template <class Gate>
struct Usual<tessera::Flow<Gate, Sgd, ServerFold>> {
    static auto method() {
        tessera::Flow<Gate, Sgd, ServerFold> flow;
        flow.routing.global_loss = tessera::nn::GlobalLoss::global;
        flow.halves.split = tessera::SplitBy::none;
        return flow;
    }
};

std::vector<Entry> routing_methods() {
    using Gate = tessera::gate::AnyChain;
    return {entry<tessera::Flow<Gate, Sgd, ServerFold>>(
                "flow", "Flow (Panchal et al. 2023): each example takes the global or the local copy of each block"),
            entry<tessera::Flow<tessera::gate::States, Sgd, ServerFold>>(
                "flow-states", "Flow whose router reads the states of cells, at every position of a text (models of cells)"),
            entry<tessera::Flow<tessera::gate::Fixed, Sgd, ServerFold>>(
                "flow-fixed", "Flow with one q0 for all examples and blocks, its ablation"),
            entry<tessera::PiFlow<Gate, Sgd, ServerFold>>("pi-flow", "Flow with two global branches, its ablation")};
}

}  // namespace lab
