// SPDX-License-Identifier: BSD-3-Clause
// Text: every input makes a vocabulary that survives being written, tokens that give the text back, and windows of ids
// below its size; as a vocabulary file it is refused with an IoError or reads back. Each input is also tried as a file
// with a checksum that fits, or hardly any mutant would get past it.
#include "driver.hpp"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/io/text.hpp>

using namespace tessera;
using namespace tessera::io;

bool fuzz_accepted = false;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

bool reads_as_vocabulary(std::string_view text) {
    try {
        const auto v = decode_vocabulary(text, "input");
        require(encode_vocabulary(v) == text);
        return true;
    } catch (const IoError& e) {
        fuzz_refused(e, "input");
        return false;
    }
}

void check_text(std::string_view text) {
    std::string joined;
    for_each_token(text, TextUnit::characters, [&](std::string_view token) { joined += token; });
    require(joined == text);
    for (const auto unit : {TextUnit::characters, TextUnit::words}) {
        const auto v =
            Vocabulary::of(std::vector<std::string_view>{text}, {.unit = unit, .most = 20, .lower_case = true});
        require(decode_vocabulary(encode_vocabulary(v), "written") == v);
        const std::vector<ClientText> people{{"a", {std::string(text)}}};
        try {
            const auto pool = text_pool(people, v, {.length = 7, .stride = 3});
            const auto& view = pool.examples.examples();
            std::vector<float> row(view.width);
            for (std::size_t i = 0; i < view.size; ++i) {
                view.fetch(view.rows, i, row.data());
                for (const float id : row) require(id >= 0 && id < static_cast<float>(v.size()));
            }
        } catch (const ConfigError&) {  // fewer than two tokens
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::size_t sum = io::detail::split_checksum({}).size();
    const std::string body(text.substr(0, text.size() - std::min(text.size(), sum)));
    fuzz_accepted = reads_as_vocabulary(text) || reads_as_vocabulary(body + io::detail::split_checksum(body));
    if (size < 4096) check_text(text);
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
    std::vector<std::vector<std::uint8_t>> seeds;
    const auto add = [&](const std::string& text) { seeds.emplace_back(text.begin(), text.end()); };
    const std::vector<std::string_view> texts{"To be, or not to be: \\that is\nthe question.", "\xC3\xA9t\xC3\xA9"};
    add(encode_vocabulary(Vocabulary::of(texts, {})));
    add(encode_vocabulary(Vocabulary::of(texts, {.unit = TextUnit::words, .lower_case = true})));
    add(std::string(texts[0]));
    return seeds;
}
