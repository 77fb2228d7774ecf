// SPDX-License-Identifier: BSD-3-Clause
// A run while it goes on, from the file of rounds (--jsonl) that grows with it.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>
#include <tessera/report/evaluation.hpp>

#include "commands.hpp"
#include "interrupt.hpp"
#include "page/run_reader.hpp"

namespace lab {
namespace {

using namespace tessera::report;

void print(const RoundRecord& round) {
    std::printf("round %zu", round.round);
    if (std::isfinite(round.train_loss)) std::printf("  training loss %.4f", round.train_loss);
    for (const auto& e : round.evaluations)
        if (e.metric == Metric::accuracy && e.split == SplitOf::test && e.average == Average::pooled)
            std::printf("  %s%s %.2f %%", e.stage.get().empty() ? "" : (e.stage.get() + " ").c_str(),
                        std::string(word(e.model)).c_str(), 100 * e.value.get());
    if (round.diverged > 0) std::printf("  %zu diverged", round.diverged);
    std::printf("  %.2f s\n", round.seconds);
}

RoundRecord round_in(std::string_view line, const std::string& path) {
    try {
        return round_from_json(line, path);
    } catch (const tessera::IoError&) {  // told below
    }
    throw tessera::ConfigError(path + ": it holds no rounds; watch reads the file that --jsonl writes");
}

}  // namespace

int watch(const std::string& path, bool once) {
    std::size_t told = 0;  // bytes
    while (!interrupted()) {
        const auto bytes = tessera::io::read_file(path);
        std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        if (text.size() < told) told = 0;  // a new run writes there
        text.remove_prefix(told);
        for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
            print(round_in(text.substr(0, end), path));
            told += end + 1;
            text.remove_prefix(end + 1);
        }
        std::fflush(stdout);
        if (once) return 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    return 0;
}

}  // namespace lab
