// SPDX-License-Identifier: BSD-3-Clause
// npy: any bytes give an array that survives being written and read again, or an IoError.
#include "driver.hpp"

#include <cstdlib>
#include <string>

#include <tessera/io/npy.hpp>

using namespace tessera::io;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz_accepted = false;
    NamedTensor tensor;
    try {
        tensor = decode_npy(std::as_bytes(std::span(data, size)), "fuzz");
    } catch (const tessera::IoError& e) {
        fuzz_refused(e, "fuzz");
        return 0;
    }
    fuzz_accepted = true;
    if (decode_npy(encode_npy(tensor), "fuzz") != tensor) std::abort();
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
    std::vector<std::vector<std::uint8_t>> seeds;
    const auto add = [&seeds](std::span<const std::byte> bytes) {
        auto& seed = seeds.emplace_back();
        for (const std::byte byte : bytes) seed.push_back(std::to_integer<std::uint8_t>(byte));
    };
    const std::vector<float> numbers{1, -2, 3, 4, 5, 6};
    const std::vector<std::int64_t> one{-1};
    add(encode_npy(NamedTensor::from<float>("w", {2, 3}, numbers)));
    add(encode_npy(NamedTensor::from<std::int64_t>("w", {}, one)));
    add(encode_npy(NamedTensor::from<std::uint8_t>("w", {0, 1'000'000}, {})));
    const std::string header = "{\"shape\":(1,),\"descr\":\"<i2\",\"fortran_order\":False}\n";
    const std::string version_2 =
        std::string("\x93NUMPY\x02\x00", 8) + static_cast<char>(header.size()) + std::string(3, '\0') + header + "ab";
    add(std::as_bytes(std::span(version_2)));
    return seeds;
}
