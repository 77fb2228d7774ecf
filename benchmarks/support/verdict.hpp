// SPDX-License-Identifier: BSD-3-Clause
// A competitor is timed only if its answer is right. A wrong one stands in the output as an error, and the program
// ends with 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <benchmark/benchmark.h>

namespace bench {

inline int wrong_answers = 0;

// The largest distance to the reference; not finite counts as infinitely far.
template <class T>
double distance(std::span<const T> answer, std::span<const double> reference) {
    double worst = answer.size() == reference.size() ? 0 : INFINITY;
    for (std::size_t i = 0; i < std::min(answer.size(), reference.size()); ++i) {
        const double d = std::abs(static_cast<double>(answer[i]) - reference[i]);
        worst = d <= worst ? worst : (d < INFINITY ? d : INFINITY);
    }
    return worst;
}

// Registers a competitor. `error` is asked once, before the first timing, how far the answer is off the reference.
template <class Error, class Time>
benchmark::internal::Benchmark* enter(const std::string& name, double tolerance, Error error, Time time) {
    const auto answered = std::make_shared<std::optional<double>>();
    return benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) mutable {
        if (!*answered) {
            *answered = error();
            if (!(**answered <= tolerance)) {
                ++wrong_answers;
                std::fprintf(stderr, "%s: wrong answer\n", name.c_str());
            }
        }
        if (**answered <= tolerance) {
            time(state);
            state.counters["error"] = **answered;
            return;
        }
        char text[160];
        std::snprintf(text, sizeof text, "wrong answer: off the reference by %.3g, allowed are %.3g", **answered,
                      tolerance);
        state.SkipWithError(text);
    });
}

inline int run(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return wrong_answers > 0 ? 1 : 0;
}

}  // namespace bench
