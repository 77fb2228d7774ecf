// SPDX-License-Identifier: BSD-3-Clause
// IDX: an input is refused with an IoError, or is an array that encodes to the same bytes; and wrapped in gzip it
// is judged the same.
#include <tessera/io/idx.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include <zlib.h>

#include "driver.hpp"

bool fuzz_accepted = false;

namespace {

using namespace tessera;
using namespace tessera::io;
using Input = std::vector<std::uint8_t>;

void require(bool holds) {
    if (!holds) std::abort();
}

std::optional<IdxArray> decoded(std::span<const std::uint8_t> bytes) {
    try {
        return decode_idx(bytes, "input");
    } catch (const IoError& e) {
        fuzz_refused(e, "input");
        return std::nullopt;
    }
}

Input encoded(const IdxArray& array) {
    Input bytes{0, 0, 8, static_cast<std::uint8_t>(array.shape.size())};
    for (const std::size_t d : array.shape)
        for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(d >> shift));
    bytes.insert(bytes.end(), array.bytes.begin(), array.bytes.end());
    return bytes;
}

Input gzipped(Input bytes, int level) {
    z_stream stream{};
    require(deflateInit2(&stream, level, Z_DEFLATED, 9 + 16, 1, Z_DEFAULT_STRATEGY) == Z_OK);
    Input out(deflateBound(&stream, bytes.size()) + 64);
    stream.next_in = bytes.data();
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = out.data();
    stream.avail_out = static_cast<uInt>(out.size());
    require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

bool is_gzip(std::span<const std::uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span input(data, size);
    const auto array = decoded(input);
    fuzz_accepted = array.has_value();
    if (array) {
        const Input plain =
            is_gzip(input) ? decode_gzip(input, "input", std::size_t{1} << 24) : Input(input.begin(), input.end());
        require(encoded(*array) == plain);
    }
    constexpr std::size_t never_a_bomb = 1 << 16;
    if (!is_gzip(input) && size < never_a_bomb)
        require(decoded(gzipped(Input(input.begin(), input.end()), 1)) == array);
    return 0;
}

std::vector<Input> fuzz_seeds() {
    const Input labels = encoded({{5}, {0, 1, 2, 3, 4}});
    const Input images = encoded({{3, 4, 5}, Input(60, 7)});
    const Input deep = encoded({{1, 2, 1, 2, 1, 2, 1, 2}, Input(16, 1)});
    return {labels, images, deep, gzipped(labels, 0), gzipped(images, 9), gzipped(encoded({{40, 50}, Input(2000)}), 9)};
}
