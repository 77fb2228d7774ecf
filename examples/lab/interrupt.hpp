// SPDX-License-Identifier: BSD-3-Clause
// The first ctrl-C ends a run after its round, with a checkpoint if there is a place for one; the second ends it at
// once.
#pragma once

#include <csignal>

#include <signal.h>

#include <tessera/core/error.hpp>

namespace lab {

// The run was asked to stop; the sentence says how to go on.
struct Interrupted : tessera::Error {
    using tessera::Error::Error;
};

inline volatile std::sig_atomic_t interrupt_asked = 0;

inline bool interrupted() { return interrupt_asked != 0; }

inline void heed_interrupts() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupt_asked = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // the default comes back, for the second one
    sigaction(SIGINT, &action, nullptr);
}

}  // namespace lab
