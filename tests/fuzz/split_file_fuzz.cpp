// SPDX-License-Identifier: BSD-3-Clause
// Split files: an input is refused with an IoError, or is a split without fault that survives being written again.
// Each input is also tried with a checksum that fits, or hardly any mutant would get past it.
#include <tessera/io/split_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "driver.hpp"

#include <tessera/data/partition.hpp>

bool fuzz_accepted = false;

namespace {

using namespace tessera;
using namespace tessera::io;

constexpr std::size_t train_size = 90;

const data::Dataset& pool() {
    static const auto made = [] {
        std::vector<std::int32_t> labels(120);
        for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 3);
        return data::Dataset::own(std::vector<std::uint8_t>(120), std::move(labels), 3);
    }();
    return made;
}

void require(bool holds) {
    if (!holds) std::abort();
}

bool same(const std::vector<data::Share>& a, const std::vector<data::Share>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const data::Share& x, const data::Share& y) {
        return x.train == y.train && x.validation == y.validation && x.test == y.test && x.key == y.key;
    });
}

bool accepted(std::string_view text) {
    data::Split split;
    try {
        split = decode_split(text, "input", pool());
    } catch (const IoError& e) {
        fuzz_refused(e, "input");
        return false;
    }
    require(!data::fault_in(split, pool().size(), data::Tests::shared));
    const auto again = decode_split(encode_split(split, pool()), "input", pool());
    require(same(again.clients, split.clients) && same(again.unseen, split.unseen) && again.server == split.server);
    return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    fuzz_accepted = accepted(text);
    if (fuzz_accepted) return 0;
    const std::string body(text.substr(0, text.rfind("checksum")));
    fuzz_accepted = accepted(body + io::detail::split_checksum(body));
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
    std::vector<std::vector<std::uint8_t>> seeds;
    for (const auto* name : {"iid", "shards:1", "dirichlet:0.3", "dirichlet-unbalanced:1"}) {
        const auto split = data::partition_by_name(
            name, pool(),
            {.clients = 5, .train_size = train_size, .validation = 0.2, .unseen = 1, .allow_empty = true});
        const auto text = encode_split(split, pool());
        seeds.emplace_back(text.begin(), text.end());
    }
    return seeds;
}
