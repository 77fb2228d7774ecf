// SPDX-License-Identifier: BSD-3-Clause
// What is wrong with a split, as a sentence, or nothing.
//
// Every index is in the pool; within a client train, validation and test are disjoint and without repetition;
// an example somebody trains on, or that the server holds, is nobody else's. Two clients may hold the same
// test example only under Tests::shared (label-matched test sets). No two clients have one key.
// Cost: one pass, four bytes and a bit per example of the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>

namespace tessera::data {

enum class Tests : std::uint8_t { disjoint, shared };

inline std::optional<std::string> fault_in(const Split& split, std::size_t examples, Tests tests) {
    const std::size_t everyone = split.clients.size() + split.unseen.size();
    const auto name = [&](std::size_t who) { return detail::holder_in(split, who); };

    constexpr auto nobody = static_cast<std::uint32_t>(-1);
    std::vector<std::uint32_t> holder(examples, nobody);
    std::vector<bool> trained(examples);
    const auto fault_of = [&](std::size_t who, const std::vector<Index>& part,
                              bool is_test) -> std::optional<std::string> {
        for (const Index i : part) {
            if (i >= examples)
                return name(who) + " holds example " + std::to_string(i) + ", but the pool has " +
                       std::to_string(examples);
            if (holder[i] == who) return name(who) + " holds example " + std::to_string(i) + " twice";
            const bool may_share = is_test && tests == Tests::shared && !trained[i];
            if (holder[i] != nobody && !may_share)
                return name(who) + " holds example " + std::to_string(i) + ", which " + name(holder[i]) +
                       " holds already";
            holder[i] = static_cast<std::uint32_t>(who);
            if (!is_test) trained[i] = true;
        }
        return std::nullopt;
    };

    for (std::size_t who = 0; who < everyone; ++who) {
        const auto& share = detail::share_in(split, who);
        if (auto fault = fault_of(who, share.train, false)) return fault;
        if (auto fault = fault_of(who, share.validation, false)) return fault;
        if (auto fault = fault_of(who, share.test, true)) return fault;
    }
    if (auto fault = fault_of(everyone, split.server, false)) return fault;
    return detail::shared_key_in(split);
}

}  // namespace tessera::data
