// SPDX-License-Identifier: BSD-3-Clause
// Examples in npy: any bytes are refused with an IoError, or are examples that hold the file's numbers, in some order.
#include "driver.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <tessera/io/image_npy.hpp>

using namespace tessera;
using namespace tessera::io;

bool fuzz_accepted = false;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz_accepted = false;
    try {
        const auto tensor = decode_npy(std::as_bytes(std::span(data, size)), "input");
        try {  // as labels, of rows of one number
            const auto alone = NamedTensor::from<float>("x", {tensor.size(), 1}, std::vector<float>(tensor.size()));
            require(decode_npy_dataset(alone, tensor).size() == tensor.size());
            fuzz_accepted = true;
        } catch (const IoError& e) {
            fuzz_refused(e, "");
        }
        const std::size_t count = tensor.shape.empty() || tensor.shape[0] > 1000 ? 0 : tensor.shape[0];
        const auto labels = NamedTensor::from<std::int64_t>("y", {count}, std::vector<std::int64_t>(count, 3));
        const auto pool = decode_npy_dataset(tensor, labels);
        const auto& view = pool.examples();
        require(view.classes == 4 && view.size == count && view.size * view.width == tensor.size());
        if (view.storage == Storage::bytes) {
            auto before = tensor.as<std::uint8_t>();
            const auto* rows = static_cast<const std::uint8_t*>(view.rows);
            std::vector<std::uint8_t> after(rows, rows + before.size());
            std::sort(before.begin(), before.end());
            std::sort(after.begin(), after.end());
            require(before == after);
        }
        fuzz_accepted = true;
    } catch (const IoError& e) {
        fuzz_refused(e, "");
    }
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
    std::vector<std::vector<std::uint8_t>> seeds;
    const auto add = [&seeds](const NamedTensor& tensor) {
        auto& seed = seeds.emplace_back();
        for (const std::byte byte : encode_npy(tensor)) seed.push_back(std::to_integer<std::uint8_t>(byte));
    };
    std::vector<std::uint8_t> pixels(48);
    std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
    add(NamedTensor::from<std::uint8_t>("x", {4, 2, 2, 3}, pixels));
    add(NamedTensor::from<std::uint8_t>("x", {3, 4, 4}, pixels));
    add(NamedTensor::from<float>("x", {2, 3}, std::vector<float>{1, -2, 3, 4, 5, 6}));
    add(NamedTensor::from<std::int64_t>("x", {3}, std::vector<std::int64_t>{1, 0, 2}));
    return seeds;
}
