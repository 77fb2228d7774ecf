// SPDX-License-Identifier: BSD-3-Clause
// What the terminal shows: a bar that redraws itself, or plain lines where nobody watches.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "history.hpp"

namespace lab {

class Progress {
public:
    Progress(const std::string& stage, std::size_t done, std::size_t rounds, bool quiet)
        : stage_(stage.empty() ? "" : stage + ", "),
          first_(done),
          rounds_(rounds),
          quiet_(quiet),
          terminal_(isatty(STDERR_FILENO) == 1) {}
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress() {
        if (drawn_) std::fputc('\n', stderr);
    }

    void show(const Line& line) {
        if (quiet_) return;
        keep(line);
        const auto round = static_cast<std::size_t>(line.round);
        const std::size_t every = std::max<std::size_t>(1, rounds_ / 20);
        if (!terminal_ && round % every != 0 && round != rounds_) return;
        std::string text = stage_ + "round " + std::to_string(round) + "/" + std::to_string(rounds_);
        char number[64];
        text += measured_;
        if (!measured_.empty() && measured_in_ != line.round) text += " (round " + std::to_string(measured_in_) + ")";
        if (line.diverged > 0) text += "  " + std::to_string(line.diverged) + " diverged";
        const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
        const double left = spent / static_cast<double>(round - first_) * static_cast<double>(rounds_ - round);
        if (terminal_) {
            const std::size_t filled = 24 * round / rounds_;
            std::snprintf(number, sizeof number, "  %.0f s left", left);
            std::fprintf(stderr, "\r[%s%s] %s%s\033[K", std::string(filled, '#').c_str(),
                         std::string(24 - filled, '.').c_str(), text.c_str(), number);
            drawn_ = true;
        } else {
            std::fprintf(stderr, "%s\n", text.c_str());
        }
    }

private:
    // The last accuracies there were, for the rounds until the next.
    void keep(const Line& line) {
        if (line.scores.empty()) return;
        measured_.clear();
        measured_in_ = line.round;
        char number[64];
        for (const auto& s : line.scores) {
            if (s.split != tessera::report::SplitOf::test || s.served != 0) continue;
            const std::string model(word(s.model));
            if (is_share(s.quality))
                std::snprintf(number, sizeof number, "  %s %.2f %%", model.c_str(), 100 * s.pooled);
            else std::snprintf(number, sizeof number, "  %s R2 %.4f", model.c_str(), s.pooled);
            measured_ += number;
        }
    }

    std::string stage_, measured_;
    std::uint64_t measured_in_ = 0;
    std::size_t first_, rounds_;
    bool quiet_, terminal_, drawn_ = false;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace lab
