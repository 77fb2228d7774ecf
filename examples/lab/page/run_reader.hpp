// SPDX-License-Identifier: BSD-3-Clause
// Runs back from their JSON: for pages and for comparing files long after the runs ended. What a file lacks reads as absent.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>

namespace lab {

using Json = nlohmann::ordered_json;  // settings keep their order

// `where` names the text in what is thrown: a file. Nested at most 64 deep.
Json parse_json(std::string_view text, const std::string& where);

// The member of that name; null where it is missing, or there is no object.
const Json& member(const Json& object, std::string_view name);
// "" unless it is a text.
std::string text_in(const Json& value);
// The elements of an array; none of anything else.
const Json& items_in(const Json& value);

// A number; `otherwise` where there is none, or one that the type cannot hold.
template <class T>
T number_in(const Json& value, T otherwise) {
    if constexpr (std::floating_point<T>) {
        return value.is_number() ? value.get<T>() : otherwise;
    } else {
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<T>::max()) return otherwise;
        return static_cast<T>(value.get<std::uint64_t>());
    }
}

// The runs of a file: one, or one for each seed.
std::vector<tessera::report::RunRecord> runs_from_json(std::string_view text, const std::string& where);
std::vector<tessera::report::RunRecord> runs_in(const std::string& path);
// Figures that belong to no run.
std::vector<tessera::report::Extra> figures_in(const std::string& path);
// A line of the file of rounds.
tessera::report::RoundRecord round_from_json(std::string_view line, const std::string& where);

}  // namespace lab
