// SPDX-License-Identifier: BSD-3-Clause
// Steps of two layers of LSTM over 80 characters, 80 of them known, a score for each at every position.
#include <string>

#include <tessera/nn/text_zoo.hpp>

#include "support/text_steps.hpp"

int main(int argc, char** argv) {
    using namespace tessera;
    const bench::Exchange out(argc, argv);
    const FlushDenormals flush;
    // Parameters are below 4 and three steps round them by 2.4e-7 each; slopes of 80 steps add as much again.
    constexpr double tolerance = 2e-6;
    bench::TextSteps narrow("2x128", 80, 80, nn::recipe::char_lstm(80, 128), 3, tolerance, out);
    bench::TextSteps wide("2x256", 80, 80, nn::recipe::char_lstm(80, 256), 3, tolerance, out);
    if (out.wanted()) return 0;
    benchmark::AddCustomContext("kernel_set", std::string(kernels::active_name()));
    return bench::run(argc, argv);
}
