// SPDX-License-Identifier: BSD-3-Clause
// How a policy of one's own is put to the conformance kit.
#include <utility>

#include <tessera/conformance.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/nn/zoo.hpp>

using namespace tessera;

int main() {
    using namespace tessera::conformance;
    // [kit]
    require(conformance::fold<fold::Relax<>>());            // empty, single and equal cohorts, order, scaling, streaming
    require(conformance::method<FedProx<>>());              // threads, wire, resume, relabelling, rate 0
    require(check_gradients(nn::Dnn<8, 5, 3, double>{}));   // by central differences
    // [/kit]
    return 0;
}
