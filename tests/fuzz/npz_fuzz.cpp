// SPDX-License-Identifier: BSD-3-Clause
// npz: any bytes give arrays that survive being written and read again, or an IoError.
#include "driver.hpp"

#include <cstdlib>

#include <tessera/io/npz.hpp>

using namespace tessera::io;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz_accepted = false;
    std::vector<NamedTensor> tensors;
    try {
        tensors = decode_npz(std::as_bytes(std::span(data, size)), "fuzz", 1 << 24);
    } catch (const tessera::IoError& e) {
        fuzz_refused(e, "fuzz");
        return 0;
    }
    fuzz_accepted = true;
    if (decode_npz(encode_npz(tensors), "fuzz") != tensors) std::abort();
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
    std::vector<std::vector<std::uint8_t>> seeds;
    const auto add = [&seeds](std::span<const NamedTensor> tensors) {
        auto& seed = seeds.emplace_back();
        for (const std::byte byte : encode_npz(tensors)) seed.push_back(std::to_integer<std::uint8_t>(byte));
    };
    const std::vector<float> numbers{1, -2, 3, 4, 5, 6};
    const auto weights = NamedTensor::from<float>("layer/0/w", {2, 3}, numbers);
    const auto none = NamedTensor::from<std::uint8_t>("\xC3\xBC", {0}, {});
    add({});
    add(std::vector{weights});
    add(std::vector{weights, none});
    return seeds;
}
