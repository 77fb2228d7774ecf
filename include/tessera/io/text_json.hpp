// SPDX-License-Identifier: BSD-3-Clause
// Texts as lines of JSON: {"client": "ann", "text": "to be or not to be"}, an object a line. Members may have other
// names; more of them are passed over. A client's name may be a whole number.
// Needs: nlohmann/json (component `json`).
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/sequences.hpp>
#include <tessera/io/tensor.hpp>
#include <tessera/io/text.hpp>

namespace tessera::io {

struct TextJsonSettings {
    std::string client = "client", text = "text";  // names of the members
};

// Texts keep their order. `name` is what errors call the lines.
inline std::vector<ClientText> decode_text_json(std::string_view text, const TextJsonSettings& settings,
                                                const std::string& name) {
    detail::require_text(text, name);
    detail::Speakers out;
    std::size_t line = 0;
    const auto refuse = [&](const std::string& what) {
        throw IoError(name, "line " + std::to_string(line) + ": " + what);
    };
    while (!text.empty()) {
        ++line;
        const auto end = std::min(text.find('\n'), text.size());
        const auto here = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (here.find_first_not_of(" \t\r") == here.npos) continue;
        auto one = nlohmann::json::parse(here.begin(), here.end(), nullptr, false);
        if (!one.is_object()) refuse("is no JSON object");
        const auto member = [&](const std::string& called) -> nlohmann::json& {
            const auto at = one.find(called);
            if (at == one.end()) refuse("has no member " + detail::in_quotes(called));
            return *at;
        };
        auto &who = member(settings.client), &what = member(settings.text);
        if (!who.is_string() && !who.is_number_integer()) refuse("its client is neither a text nor a whole number");
        if (!what.is_string()) refuse("its text is none");
        auto client = who.is_string() ? who.get<std::string>() : who.dump();
        auto said = what.get<std::string>();
        if (client.empty()) refuse("it names no client");
        if ((client + said).find('\0') != std::string::npos) refuse("a NUL byte, which no text has");
        out.add(client, std::move(said));
    }
    if (line == 0) throw IoError(name, "is empty");
    return std::move(out).clients();
}
inline std::vector<ClientText> read_text_json(const std::string& path, const TextJsonSettings& settings = {}) {
    const auto bytes = read_file(path);
    return decode_text_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, settings, path);
}

}  // namespace tessera::io
