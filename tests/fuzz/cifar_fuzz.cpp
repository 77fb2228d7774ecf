// SPDX-License-Identifier: BSD-3-Clause
// CIFAR: bytes are refused with an IoError that leaves the records before it alone, or are records that say the same.
#include "driver.hpp"

#include <cstdlib>
#include <span>
#include <vector>

#include <tessera/io/cifar.hpp>

using namespace tessera::io;

bool fuzz_accepted = false;

namespace {

using Input = std::vector<std::uint8_t>;

void require(bool holds) {
    if (!holds) std::abort();
}

const CifarRecords earlier{{1, 2, 3}, {4}};

bool decoded(std::span<const std::uint8_t> bytes, Cifar kind, CifarRecords& out) {
    out = earlier;
    try {
        decode_cifar(std::as_bytes(bytes), kind, "input", out);
        return true;
    } catch (const tessera::IoError& e) {
        fuzz_refused(e, "input");
        require(out == earlier);
        return false;
    }
}

Input encoded(const CifarRecords& first, const CifarRecords* second) {
    Input bytes;
    const std::size_t before = earlier.labels.size();
    for (std::size_t i = before; i < first.labels.size(); ++i) {
        bytes.push_back(static_cast<std::uint8_t>(first.labels[i]));
        if (second) bytes.push_back(static_cast<std::uint8_t>(second->labels[i]));
        const auto* pixels = first.pixels.data() + earlier.pixels.size() + (i - before) * cifar_pixels;
        bytes.insert(bytes.end(), pixels, pixels + cifar_pixels);
    }
    return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Input input(data, data + size);
    CifarRecords ten, coarse, fine;
    const bool is_ten = decoded(input, Cifar::ten, ten);
    const bool is_hundred = decoded(input, Cifar::hundred_coarse, coarse);
    require(decoded(input, Cifar::hundred_fine, fine) == is_hundred);
    if (is_ten) require(encoded(ten, nullptr) == input);
    if (is_hundred) require(encoded(coarse, &fine) == input);
    fuzz_accepted = is_ten || is_hundred;
    return 0;
}

std::vector<Input> fuzz_seeds() {
    Input ten(3 * (1 + cifar_pixels), 7), hundred(2 * (2 + cifar_pixels), 19);
    ten[0] = 9;
    hundred[1] = 99;
    return {ten, hundred, Input(1 + cifar_pixels, 0)};
}
