// SPDX-License-Identifier: BSD-3-Clause
// A team of threads in a program that was built without OpenMP.
// expect: tessera::exec::OpenMp: build with -fopenmp (find_package component openmp)
#include <tessera/exec/openmp.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Workers = exec::Serial;
#else
using Workers = exec::OpenMp;
#endif

void run(Federation<FedAvg<>, nn::Mclr<60, 10>>& federation) { federation.round(sample::Everyone{}, Workers{}); }
