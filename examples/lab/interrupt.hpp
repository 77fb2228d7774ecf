// SPDX-License-Identifier: BSD-3-Clause
// Ctrl-C, SIGTERM and SIGHUP end a run after its round, with a checkpoint if there is a place for one, and what there
// is of its outputs; a second one of the same kind ends it at once.
#pragma once

#include <csignal>
#include <string>

#include <signal.h>

#include <tessera/core/error.hpp>

namespace lab {

// The run was asked to stop; the sentence says how to go on.
struct Interrupted : tessera::Error {
    using tessera::Error::Error;
};

inline volatile std::sig_atomic_t interrupt_asked = 0;  // the signal that asked

inline bool interrupted() { return interrupt_asked != 0; }
// As a shell tells of a program that a signal ended.
inline int exit_of_interrupted() { return 128 + interrupt_asked; }
inline std::string interrupted_by() {
    return interrupt_asked == SIGINT ? "ctrl-C" : interrupt_asked == SIGTERM ? "SIGTERM" : "SIGHUP";
}

inline void heed_interrupts() {
    struct sigaction action {};
    action.sa_handler = [](int signal) {
        if (interrupt_asked == 0) interrupt_asked = signal;
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the default comes back, for the second one
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction before {};
        sigaction(signal, nullptr, &before);
        // Under nohup a run goes on when its terminal is gone.
        if (signal != SIGHUP || before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
    }
}

}  // namespace lab
