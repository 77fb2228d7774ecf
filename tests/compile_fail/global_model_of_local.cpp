// SPDX-License-Identifier: BSD-3-Clause
// With Local nothing travels, so there is no global model.
// expect: tessera::evaluate: this method has no global model to evaluate
#include <tessera/method/local.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>

using namespace tessera;

auto judge(const Federation<Local<>, nn::Mclr<60, 10>>& federation) {
#ifdef TESSERA_GOOD
    return evaluate<Which::personal>(federation);
#else
    return evaluate<Which::global>(federation);
#endif
}
