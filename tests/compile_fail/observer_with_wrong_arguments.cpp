// SPDX-License-Identifier: BSD-3-Clause
// An observer that would never be called.
// expect: tessera::Federation: an observer must be callable as observer(const RoundReport&)
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

void run(Federation<FedAvg<>, nn::Mclr<60, 10>>& federation) {
    federation.run(3, sample::Everyone{});
#ifdef TESSERA_GOOD
    federation.run(3, sample::Everyone{}, exec::Serial{}, [](const RoundReport&) {});
#else
    federation.run(3, sample::Everyone{}, exec::Serial{}, [](RoundReport&) {});
#endif
}
