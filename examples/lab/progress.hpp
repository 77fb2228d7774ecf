// SPDX-License-Identifier: BSD-3-Clause
// What the terminal shows: a bar that redraws itself, or plain lines where nobody watches.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "history.hpp"

namespace lab {

// Columns of the terminal, asked anew each time: windows change their size. One that does not say has 80.
inline std::size_t terminal_columns() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// The bar, what it stands for and what is left in one line: a redrawn line that wraps floods the screen. What gives way
// is the bar, down to nothing, then the end of the text.
inline std::string bar_line(const std::string& text, const std::string& left, std::size_t done, std::size_t rounds,
                            std::size_t columns) {
    constexpr std::size_t widest = 24, least = 4, frame = 3;  // brackets and a blank
    const std::size_t room = columns > 0 ? columns - 1 : 0;   // the last column makes some terminals wrap
    const std::size_t words = text.size() + left.size();
    const std::size_t bar = words + frame + least > room ? 0 : std::min(widest, room - words - frame);
    const std::size_t filled = rounds == 0 ? bar : bar * done / rounds;
    const std::string front = bar == 0 ? "" : "[" + std::string(filled, '#') + std::string(bar - filled, '.') + "] ";
    if (front.size() + words <= room) return front + text + left;
    return text.substr(0, room > left.size() ? room - left.size() : room) + (room > left.size() ? left : "");
}

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
        text += measured_;
        if (!measured_.empty() && measured_in_ != line.round) text += " (round " + std::to_string(measured_in_) + ")";
        if (line.diverged > 0) text += "  " + std::to_string(line.diverged) + " diverged";
        const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
        const double left = spent / static_cast<double>(round - first_) * static_cast<double>(rounds_ - round);
        if (terminal_) {
            char number[64];
            std::snprintf(number, sizeof number, "  %.0f s left", left);
            std::fprintf(stderr, "\r%s\033[K", bar_line(text, number, round, rounds_, terminal_columns()).c_str());
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
