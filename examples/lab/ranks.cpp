// SPDX-License-Identifier: BSD-3-Clause
#include "ranks.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <unistd.h>

#include <tessera/core/error.hpp>

#if TESSERA_HAS_MPI
#include <chrono>
#include <thread>

#include <tessera/place/mpi.hpp>
#endif

namespace lab {
namespace {

std::shared_ptr<tessera::Place> place;
int own_stderr = STDERR_FILENO;

// As launchers tell those whom they start: Open MPI, MPICH and others with PMI, Slurm.
std::size_t started_together() {
    for (const auto* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
        if (const char* value = std::getenv(name)) return std::strtoul(value, nullptr, 10);
    return 1;
}

#if TESSERA_HAS_MPI
std::unique_ptr<tessera::place::MpiProgram> program;

// Whether all ranks have come to their end, with a result or without.
bool all_come(std::chrono::seconds patience) {
    MPI_Request open{};
    MPI_Ibarrier(MPI_COMM_WORLD, &open);
    const auto until = std::chrono::steady_clock::now() + patience;
    for (int come = 0; !come;) {
        MPI_Test(&open, &come, MPI_STATUS_IGNORE);
        if (come) return true;
        if (std::chrono::steady_clock::now() > until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
}
#endif

}  // namespace

void join_ranks([[maybe_unused]] int& argc, [[maybe_unused]] char**& argv) {
    const std::size_t started = started_together();
    if (started < 2) return;  // also where MPI is there: who runs alone does not wait for it
#if TESSERA_HAS_MPI
    program = std::make_unique<tessera::place::MpiProgram>(argc, argv);
    place = tessera::place::Mpi::world();
    if (place->ranks() != started)
        throw tessera::ConfigError(std::to_string(started) + " processes were started together, but the MPI of this lab sees " +
                                   std::to_string(place->ranks()) + "; start it with the mpirun of the MPI it was built with");
    if (speaks()) return;
    std::fflush(stdout);
    own_stderr = ::dup(STDERR_FILENO);
    if (!std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr))
        throw tessera::Error("a rank could not be made silent");
#else
    throw tessera::ConfigError(std::to_string(started) + " processes were started together, and this lab was built without "
                               "MPI: install libopenmpi-dev or libmpich-dev and build it again");
#endif
}

std::shared_ptr<tessera::Place> ranks() { return place && place->ranks() > 1 ? place : nullptr; }
std::size_t rank() { return place ? place->rank() : 0; }
bool speaks() { return rank() == 0; }

Options as_rank(Options o) {
    if (speaks()) return o;
    for (auto* path : {&o.json, &o.jsonl, &o.csv, &o.tensorboard, &o.report, &o.save_weights, &o.trace}) path->clear();
    o.trace_kernels = false;
    o.quiet = true;
    return o;
}

int leave_ranks(int code, [[maybe_unused]] const std::string& why) {
#if TESSERA_HAS_MPI
    if (!program) return code;
    // What all know has been said by rank 0, which may be writing what there is; what one knows alone must be said now.
    const std::chrono::seconds patience(code == 0 ? 365 * 24 * 3600 : speaks() ? 5 : 20);
    if (!all_come(patience)) {
        if (!speaks()) ::dprintf(own_stderr, "tessera-lab: rank %zu: %s\n", rank(), why.c_str());
        MPI_Abort(MPI_COMM_WORLD, code);
    }
    place.reset();
    program.reset();
#endif
    return code;
}

}  // namespace lab
