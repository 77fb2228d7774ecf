// SPDX-License-Identifier: BSD-3-Clause
// Partitioners: from a pool of examples to who holds what. Each is a const value with its
// settings as fields, called with the pool and what all of them are told:
//
//   Split split = Dirichlet{.alpha = 0.3}(pool, {.clients = 100, .seed = 1, .train_size = 60000});
//
// Equal arguments give equal splits on every machine. None can loop without end.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include <tessera/core/error.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/dirichlet.hpp>
#include <tessera/data/partition/fault.hpp>
#include <tessera/data/partition/iid.hpp>
#include <tessera/data/partition/lognormal.hpp>
#include <tessera/data/partition/natural.hpp>
#include <tessera/data/partition/settings.hpp>
#include <tessera/data/partition/shards.hpp>

namespace tessera::data {

// What partition_by_name reads; K is a whole number, A a number above 0.
constexpr std::array<std::string_view, 7> partition_names() {
    return {"iid", "shards:K", "lognormal:K", "natural", "dirichlet:A", "dirichlet-fixed:A", "dirichlet-unbalanced:A"};
}

namespace detail {

template <class T>
T partition_number(std::string_view text, std::string_view whole) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(error == std::errc{} && end == text.data() + text.size(),
            "partition '" + std::string(whole) + "': '" + std::string(text) + "' is not a " +
                (std::is_integral_v<T> ? "whole number" : "number"));
    return value;
}

}  // namespace detail

// "lognormal:2" and the like, with the other settings of that partitioner at their defaults.
inline Split partition_by_name(std::string_view name, const Dataset& pool, const PartitionSettings& settings) {
    const auto colon = name.find(':');
    const bool numbered = colon != std::string_view::npos;
    const auto kind = name.substr(0, colon), number = numbered ? name.substr(colon + 1) : std::string_view{};
    const auto count = [&] { return detail::partition_number<std::size_t>(number, name); };
    const auto real = [&] { return detail::partition_number<double>(number, name); };

    if (numbered) {
        if (kind == "shards") return Shards{.pieces = count()}(pool, settings);
        if (kind == "lognormal") return LogNormal{.labels = count()}(pool, settings);
        if (kind == "dirichlet") return Dirichlet{.alpha = real()}(pool, settings);
        if (kind == "dirichlet-fixed") return DirichletFixed{.alpha = real()}(pool, settings);
        if (kind == "dirichlet-unbalanced") return DirichletUnbalanced{.alpha = real()}(pool, settings);
    } else {
        if (kind == "iid") return Iid{}(pool, settings);
        if (kind == "natural") return Natural{}(pool, settings);
    }
    std::string known;
    for (const auto each : partition_names()) known += (known.empty() ? "" : ", ") + std::string(each);
    throw ConfigError("partition '" + std::string(name) + "' is not one of " + known);
}

}  // namespace tessera::data
