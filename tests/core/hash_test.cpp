// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/core/hash.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace hash_test {

namespace {

using namespace tessera;

// Both halves, so that a half that stands still is noticed.
class Distinct {
public:
    void add(Fingerprint f) {
        low_.insert(f.low);
        high_.insert(f.high);
        ++count_;
    }
    bool all() const { return low_.size() == count_ && high_.size() == count_; }

private:
    std::set<std::uint64_t> low_, high_;
    std::size_t count_ = 0;
};

std::vector<std::byte> pattern(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
    return bytes;
}

}  // namespace

TEST_CASE("fingerprint: a function of the bytes, wherever they lie") {
    const auto bytes = pattern(40);
    const auto expected = fingerprint(std::span(bytes));
    for (std::size_t offset = 0; offset < 9; ++offset) {
        std::vector<std::byte> moved(offset + bytes.size());
        std::copy(bytes.begin(), bytes.end(), moved.begin() + static_cast<std::ptrdiff_t>(offset));
        CHECK(fingerprint(std::span(moved).subspan(offset)) == expected);
    }
    CHECK(fingerprint(std::string("abc")) == fingerprint(std::as_bytes(std::span("abc", 3))));
    CHECK(fingerprint(std::span<const std::byte>{}) == fingerprint(std::string()));
}

TEST_CASE("fingerprint: every single bit of every length shows, and so does the length") {
    Distinct seen;
    for (std::size_t size = 0; size <= 33; ++size) {
        auto bytes = pattern(size);
        seen.add(fingerprint(std::span(bytes)));
        for (std::size_t bit = 0; bit < 8 * size; ++bit) {
            bytes[bit / 8] ^= std::byte{1} << bit % 8;
            seen.add(fingerprint(std::span(bytes)));
            bytes[bit / 8] ^= std::byte{1} << bit % 8;
        }
    }
    CHECK(seen.all());
    seen.add(fingerprint(std::string()));  // was there: the check can fail
    CHECK_FALSE(seen.all());
}

TEST_CASE("fingerprint: bit flips in zeros and in ones, near and far from the end") {
    for (const char fill : {'\0', '\xFF'}) {
        Distinct seen;
        std::string text(1024, fill);
        seen.add(fingerprint(text));
        for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
            text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
            seen.add(fingerprint(text));
            text[bit / 8] = fill;
        }
        CHECK(seen.all());
    }
}

TEST_CASE("fingerprint: lengths of zeros differ") {
    Distinct seen;
    for (std::size_t size = 0; size < 200; ++size) seen.add(fingerprint(std::string(size, '\0')));
    CHECK(seen.all());
}

TEST_CASE("hasher: where one piece ends and the next begins is part of what is hashed") {
    const auto pieces = [](const std::string& a, const std::string& b) {
        Hasher h;
        h.bytes(a.data(), a.size());
        h.bytes(b.data(), b.size());
        return h.finish();
    };
    CHECK(pieces("ab", "c") == pieces("ab", "c"));
    CHECK(pieces("ab", "c") != pieces("a", "bc"));
    CHECK(pieces("ab", "c") != pieces("c", "ab"));
    CHECK(pieces("abc", "") != pieces("", "abc"));
    Hasher h;
    h.word(1);
    const auto early = h.finish();
    CHECK(h.finish() == early);  // finishing does not end it
    h.word(1);
    CHECK(h.finish() != early);
}

TEST_CASE("hasher: order of words matters") {
    Distinct seen;
    std::array<std::uint64_t, 4> words{1, 2, 3, 4};
    do {
        Hasher h;
        for (const auto w : words) h.word(w);
        seen.add(h.finish());
    } while (std::next_permutation(words.begin(), words.end()));
    CHECK(seen.all());
}

TEST_CASE("fingerprints add up to that of a set: any order, and parts can be taken out") {
    std::vector<Fingerprint> parts;
    for (int i = 0; i < 5; ++i) parts.push_back(fingerprint(std::string(static_cast<std::size_t>(i + 1), 'x')));
    const auto sum = [](const std::vector<Fingerprint>& of) {
        Fingerprint total;
        for (const auto& f : of) total += f;
        return total;
    };
    const auto all = sum(parts);
    auto reversed = parts;
    std::reverse(reversed.begin(), reversed.end());
    CHECK(sum(reversed) == all);

    auto without = all;
    without -= parts[2];
    CHECK(without != all);
    CHECK(without == sum({parts[0], parts[1], parts[3], parts[4]}));
    without += parts[2];
    CHECK(without == all);
    without += parts[2];  // a part counts as often as it is there
    CHECK(without != all);
    auto nothing = all;
    nothing -= all;
    CHECK(nothing == Fingerprint{});
}

TEST_CASE("hex: 32 digits, high half first") {
    CHECK(Fingerprint{}.hex() == "00000000000000000000000000000000");
    CHECK(Fingerprint{.low = 0xFEDCBA9876543210, .high = 0x0123456789ABCDEF}.hex() ==
          "0123456789abcdeffedcba9876543210");
}

}  // namespace hash_test
