// SPDX-License-Identifier: BSD-3-Clause
// How a policy of one's own is put to the conformance kit. Without the kit this file has nothing to say.
#if __has_include(<tessera/conformance.hpp>)

#include <utility>

#include <tessera/conformance.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/nn/zoo.hpp>

using namespace tessera;

int main() {
    using namespace tessera::conformance;
    // [kit]
    conformance::fold<fold::Relax<fold::Mean>>();  // empty, single and equal cohorts, order, scaling, streaming
    conformance::method<FedProx<>>();              // threads, wire, resume, relabelling, rate 0
    check_gradients(nn::Dnn<8, 5, 3, double>{});   // by central differences
    // [/kit]
    return 0;
}

#else
int main() { return 0; }
#endif
