// SPDX-License-Identifier: BSD-3-Clause
// safetensors: any bytes give tensors and metadata that survive being written and read again, or an IoError.
#include "driver.hpp"

#include <cstdlib>
#include <string>

#include <tessera/io/safetensors.hpp>

using namespace tessera::io;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz_accepted = false;
    Safetensors file;
    try {
        file = decode_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
    } catch (const tessera::IoError& e) {
        fuzz_refused(e, "fuzz");
        return 0;
    }
    fuzz_accepted = true;
    if (decode_safetensors(encode_safetensors(file.tensors, file.metadata), "fuzz") != file) std::abort();
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
    std::vector<std::vector<std::uint8_t>> seeds;
    const auto add = [&seeds](std::span<const std::byte> bytes) {
        auto& seed = seeds.emplace_back();
        for (const std::byte byte : bytes) seed.push_back(std::to_integer<std::uint8_t>(byte));
    };
    const std::vector<float> numbers{1, -2, 3, 4, 5, 6};
    const std::vector<std::uint8_t> three{1, 2, 3};
    const auto weights = NamedTensor::from<float>("w", {2, 3}, numbers);
    const auto bytes = NamedTensor::from<std::uint8_t>("b", {3}, three);
    const auto none = NamedTensor::from<std::int64_t>("n", {0, 9}, {});
    add(encode_safetensors({}));
    add(encode_safetensors(std::vector{bytes, weights, none}));
    add(encode_safetensors(std::vector{weights}, {{"format", "pt"}, {"\xC3\xBC", "tab\t \"quoted\" \\"}}));
    const std::string header = R"({"__metadata__":{"k":"\ud83d\ude00\u00e9\/"}})";
    const std::string escaped = static_cast<char>(header.size()) + std::string(7, '\0') + header;
    add(std::as_bytes(std::span(escaped)));
    return seeds;
}
