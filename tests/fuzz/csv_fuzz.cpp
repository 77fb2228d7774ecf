// SPDX-License-Identifier: BSD-3-Clause
// CSV: any text is refused with an IoError, or is a table that survives being written with all cells quoted.
#include "driver.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/io/csv.hpp>

using namespace tessera;
using namespace tessera::io;

bool fuzz_accepted = false;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

const CsvSettings settings{.label = "y", .client = "who"};

std::string quoted(std::string_view cell) {
    std::string out = "\"";
    for (const char c : cell) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
}

std::string encoded(const CsvTable& table) {
    std::string text = "y,who";
    for (const auto& name : table.features) text += "," + quoted(name);
    const auto& view = table.pool.examples.examples();
    for (std::size_t i = 0; i < view.size; ++i) {
        text += "\r\n" + quoted(table.classes[static_cast<std::size_t>(view.labels[i])]) + "," +
                quoted(table.pool.clients[table.pool.client_of[i]]);
        for (std::size_t j = 0; j < view.width; ++j) {
            char digits[32];
            const auto end =
                std::to_chars(digits, digits + sizeof digits, static_cast<const float*>(view.rows)[i * view.width + j])
                    .ptr;
            text += "," + quoted({digits, static_cast<std::size_t>(end - digits)});
        }
    }
    return text;
}

bool same(const CsvTable& a, const CsvTable& b) {
    const auto &x = a.pool.examples.examples(), &y = b.pool.examples.examples();
    return a.features == b.features && a.classes == b.classes && a.pool.clients == b.pool.clients &&
           a.pool.client_of == b.pool.client_of && x.size == y.size && x.width == y.width &&
           std::equal(x.labels, x.labels + x.size, y.labels) &&
           std::equal(static_cast<const float*>(x.rows), static_cast<const float*>(x.rows) + x.size * x.width,
                      static_cast<const float*>(y.rows));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz_accepted = false;
    CsvTable table;
    try {
        table = decode_csv({reinterpret_cast<const char*>(data), size}, settings, "input");
    } catch (const IoError& e) {
        fuzz_refused(e, "input");
        return 0;
    }
    fuzz_accepted = true;
    require(table.pool.client_of.size() == table.pool.examples.size());
    require(same(decode_csv(encoded(table), settings, "written"), table));
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
    std::vector<std::vector<std::uint8_t>> seeds;
    for (const std::string_view text :
         {"a,y,who,b\n1,2,ann,3\n-1.5,10,bob,1e3\n0,2,ann,4\n",
          "\"who\",\"y\",\"x,\"\"z\"\r\n\"a\nb\",low,1\r\nc,high,2\r\n", "y,x,who\n0,1,2"})
        seeds.emplace_back(text.begin(), text.end());
    return seeds;
}
