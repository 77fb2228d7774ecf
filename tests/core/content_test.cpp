// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tessera/core/content.hpp>
#include <tessera/core/hash.hpp>

namespace content_test {

using namespace tessera;

namespace {

std::vector<std::byte> some_bytes(std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::uint32_t state = 1;
    for (auto& byte : bytes) byte = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 24);
    return bytes;
}

}  // namespace

TEST_CASE("every bit, every length and every order has its own fingerprint") {
    std::set<std::string> seen;
    std::size_t tried = 0;
    const auto add = [&](const std::vector<std::byte>& bytes) {
        ++tried;
        seen.insert(bulk_fingerprint(bytes).hex());
    };
    auto bytes = some_bytes(200);  // whole blocks of 64 and a rest
    add(bytes);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        const auto flip = static_cast<std::byte>(1u << bit % 8);
        bytes[bit / 8] ^= flip;
        add(bytes);
        bytes[bit / 8] ^= flip;
    }
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8)  // words change places
        for (std::size_t j = 0; j < i; j += 8) {
            auto other = bytes;
            std::swap_ranges(other.begin() + static_cast<std::ptrdiff_t>(i),
                             other.begin() + static_cast<std::ptrdiff_t>(i + 8),
                             other.begin() + static_cast<std::ptrdiff_t>(j));
            add(other);
        }
    for (std::size_t size = 0; size < 200; ++size) add(std::vector<std::byte>(size));  // nothing but zeros
    CHECK(seen.size() == tried);
    CHECK(seen.contains(bulk_fingerprint(some_bytes(200)).hex()));  // the control: equal bytes are equal
}

TEST_CASE("each half of the fingerprint changes with every bit") {
    auto bytes = some_bytes(256);
    const auto before = bulk_fingerprint(bytes);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        const auto after = bulk_fingerprint(bytes);
        CHECK((after.low != before.low && after.high != before.high));
        bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    }
}

TEST_CASE("examples: what is read of them counts, and where they lie does not") {
    const std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6}, same = pixels;
    const std::vector<std::int32_t> labels{0, 1}, others{1, 0};
    const Examples e{.size = 2, .width = 3, .storage = Storage::bytes, .rows = pixels.data(), .labels = labels.data(),
                     .classes = 2};
    Examples other = e;
    other.rows = same.data();
    CHECK(fingerprint(other) == fingerprint(e));
    const auto differs = [&](auto change) {
        Examples changed = e;
        change(changed);
        return fingerprint(changed) != fingerprint(e);
    };
    CHECK(differs([&](Examples& c) { c.labels = others.data(); }));
    CHECK(differs([&](Examples& c) { c.labels = nullptr; }));
    CHECK(differs([&](Examples& c) { c.classes = 3; }));
    CHECK(differs([&](Examples& c) { c.scale = 2; }));
    CHECK(differs([&](Examples& c) { c.size = 3, c.width = 2, c.labels = nullptr; }));
    const auto rows = rows_fingerprint(e);
    other.labels = others.data();
    CHECK(rows_fingerprint(other) == rows);
}

TEST_CASE("threads that ask at once get the answer of one that asks alone") {
    std::vector<float> rows(1 << 14);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
    Examples e{.size = 1 << 7, .width = 1 << 7, .rows = rows.data()};
    const auto alone = fingerprint(e);  // nobody remembers it
    const RowsSeen seen;
    e.seen = &seen;
    std::vector<Fingerprint> found(4);
    {
        std::vector<std::jthread> threads;
        for (auto& each : found) threads.emplace_back([&] { each = fingerprint(e); });
    }
    for (const auto& each : found) CHECK(each == alone);
    rows[0] = -1;
    CHECK(fingerprint(e) == alone);  // remembered, as the header says
    std::vector<float> elsewhere = rows;
    e.rows = elsewhere.data();
    CHECK(fingerprint(e) != alone);  // a view that was pointed elsewhere is read
}

}  // namespace content_test
