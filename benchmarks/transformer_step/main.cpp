// SPDX-License-Identifier: BSD-3-Clause
// Steps of a transformer of 4 blocks of 256 over 64 words, with few words and with many. Words share one table for
// reading and for scores.
#include <string>

#include <tessera/nn/text_zoo.hpp>

#include "support/text_steps.hpp"

int main(int argc, char** argv) {
    using namespace tessera;
    const bench::Exchange out(argc, argv);
    const FlushDenormals flush;
    // Parameters are below 4. A number of the inner layers that is 0 but for rounding sends its slope another way.
    constexpr double tolerance = 2e-5;
    bench::TextSteps few("90", 90, 64, nn::recipe::fedalt_transformer(90), 1, tolerance, out);
    bench::TextSteps many("10004", 10'004, 64, nn::recipe::fedalt_transformer(10'004), 1, tolerance, out);
    if (out.wanted()) return 0;
    benchmark::AddCustomContext("kernel_set", std::string(kernels::active_name()));
    return bench::run(argc, argv);
}
