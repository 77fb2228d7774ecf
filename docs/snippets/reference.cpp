// SPDX-License-Identifier: BSD-3-Clause
// The fields that docs/reference.md tells of, by the compiler's own word: a page that forgets one does not pass.
#include <tessera/contracts/method.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/runtime/federation.hpp>

#include <cstdio>
#include <string>

using namespace tessera;

template <class T>
void tell(const char* name) {
    std::string line = name;
    for (const auto field : field_names<T>) line += std::string(" ") + std::string(field);
    std::puts(line.c_str());
}

int main() {
    tell<Settings>("Settings:");
    tell<RoundReport>("RoundReport:");
    tell<Outcome>("Outcome:");
    tell<report::ClientCount>("ClientCount:");
    tell<Shared<fold::Mean, float>>("Shared:");
    tell<Up<float>>("Up:");
}
