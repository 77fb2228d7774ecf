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
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/dirichlet.hpp>
#include <tessera/data/partition/fault.hpp>
#include <tessera/data/partition/feature_shift.hpp>
#include <tessera/data/partition/iid.hpp>
#include <tessera/data/partition/lognormal.hpp>
#include <tessera/data/partition/natural.hpp>
#include <tessera/data/partition/settings.hpp>
#include <tessera/data/partition/shards.hpp>

namespace tessera::data {

// What partition_by_name reads; K is a whole number, A a number above 0. The last four are feature shifts: alone,
// examples are dealt as iid does, and behind another name as that one does ("dirichlet:0.3+rotation:45").
constexpr std::array<std::string_view, 11> partition_names() {
    return {"iid",         "shards:K",          "lognormal:K",            "natural",
            "dirichlet:A", "dirichlet-fixed:A", "dirichlet-unbalanced:A", "rotation:A",
            "rotations:K", "noise:A",           "contrast:A"};
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

[[noreturn]] inline void unknown_partition(std::string_view name) {
    std::string known;
    for (const auto each : partition_names()) known += (known.empty() ? "" : ", ") + std::string(each);
    throw ConfigError("partition '" + std::string(name) + "' is not one of " + known);
}

inline std::optional<FeatureShift> feature_shift(std::string_view piece, std::string_view whole) {
    const auto colon = piece.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto kind = piece.substr(0, colon), number = piece.substr(colon + 1);
    if (kind == "rotations") {  // evenly spaced over the whole circle
        const auto groups = partition_number<std::size_t>(number, whole);
        require(groups > 0, "partition '" + std::string(whole) + "': rotations is 0; it must be at least 1");
        return FeatureShift{.most = 360, .groups = groups};
    }
    for (std::size_t i = 0; i < words_of(Feature{}).size(); ++i)
        if (kind == words_of(Feature{})[i])
            return FeatureShift{.kind = static_cast<Feature>(i), .most = partition_number<double>(number, whole)};
    return std::nullopt;
}

}  // namespace detail

// The shifts of "dirichlet:0.3+rotation:45": what follows a partition, or all of the name.
inline std::vector<FeatureShift> feature_shifts(std::string_view name) {
    std::vector<FeatureShift> shifts;
    bool first = true;
    tessera::detail::for_each_piece(name, '+', [&](std::string_view piece) {
        if (const auto shift = detail::feature_shift(piece, name)) shifts.push_back(*shift);
        else if (!first) detail::unknown_partition(name);
        first = false;
    });
    for (const auto& shift : shifts) shift.validate();
    return shifts;
}

// "lognormal:2" and the like, with the other settings of that partitioner at their defaults.
inline Split partition_by_name(std::string_view name, const Dataset& pool, const PartitionSettings& settings) {
    if (!feature_shifts(name).empty()) {
        const auto base = name.substr(0, name.find('+'));
        return detail::feature_shift(base, name) ? Iid{}(pool, settings) : partition_by_name(base, pool, settings);
    }
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
    detail::unknown_partition(name);
}

// The clients of a split as the feature shifts of its name let them see their examples.
inline FederatedDataset seen_by_name(std::string_view name, FederatedDataset clients) {
    for (const auto& shift : feature_shifts(name)) clients = shift(clients);
    return clients;
}

}  // namespace tessera::data
