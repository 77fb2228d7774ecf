// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/core/mask.hpp>

#include <cstddef>
#include <utility>

#include <doctest/doctest.h>

namespace mask_test {

using namespace tessera;

TEST_CASE("a mask is a set of coordinates") {
    Mask m(70);
    CHECK(m.size() == 70);
    CHECK(m.count() == 0);
    m.set(0, true);
    m.set(63, true);
    m.set(64, true);
    m.set(69, true);
    m.set(69, true);  // twice is once
    CHECK(m.count() == 4);
    CHECK(m[63]);
    CHECK(m[64]);
    CHECK_FALSE(m[1]);
    CHECK_FALSE(m[65]);
    m.set(63, false);
    CHECK_FALSE(m[63]);
    CHECK(m[64]);
    CHECK(m.count() == 3);
    CHECK(m.words().size() == 2);
    CHECK(m.words()[0] == 1);
    CHECK(m.words()[1] == 0b100001);
}

TEST_CASE("full and empty masks of every size around a word") {
    for (std::size_t size = 0; size <= 130; ++size) {
        CAPTURE(size);
        const Mask none(size), all(size, true);
        CHECK(none.count() == 0);
        CHECK(all.count() == size);
        CHECK(all.empty() == (size == 0));
        CHECK((none == all) == (size == 0));
        for (std::size_t j = 0; j < size; ++j) {
            CHECK(all[j]);
            CHECK_FALSE(none[j]);
        }
        Mask built(size);
        for (std::size_t j = 0; j < size; ++j) built.set(j, true);
        CHECK(built == all);  // no stray bits beyond the end on either way
    }
    CHECK(Mask().empty());
    CHECK(Mask() == Mask(0));
}

TEST_CASE("a word at once is its bits one by one, and none beyond the end") {
    for (std::size_t size = 1; size <= 200; ++size) {
        CAPTURE(size);
        Mask by_bits(size), by_words(size, true);
        for (std::size_t w = 0; w < by_words.words().size(); ++w) {
            const auto bits = 0x9e3779b97f4a7c15u * (size + w);
            for (std::size_t j = 64 * w; j < 64 * w + 64 && j < size; ++j) by_bits.set(j, (bits >> (j % 64) & 1) != 0);
            by_words.set_word(w, bits);
        }
        REQUIRE(by_words == by_bits);
        std::size_t set = 0;
        for (std::size_t j = 0; j < size; ++j) set += by_bits[j];
        REQUIRE(by_words.count() == set);
        for (std::size_t w = 0; w < by_words.words().size(); ++w) by_words.set_word(w, ~0ull);
        REQUIRE(by_words == Mask(size, true));
        REQUIRE(by_words.count() == size);
    }
}

TEST_CASE("equal masks have equal sizes") {
    CHECK(Mask(3) != Mask(4));
    CHECK(Mask(64) != Mask(65));
}

TEST_CASE("assign takes words that are those of a mask, and refuses others untouched") {
    Mask m(5, true);
    const Mask before = m;
    CHECK_FALSE(m.assign(3, {0b1000}));  // a bit beyond the end
    CHECK_FALSE(m.assign(65, {0}));      // too few words
    CHECK_FALSE(m.assign(64, {0, 0}));   // too many
    CHECK_FALSE(m.assign(0, {0}));
    CHECK_FALSE(m.assign(65, {0, 2}));
    CHECK(m == before);

    CHECK(m.assign(3, {0b101}));
    CHECK(m.size() == 3);
    CHECK(m.count() == 2);
    CHECK(m.assign(64, {~0ull}));
    CHECK(m == Mask(64, true));
    CHECK(m.assign(0, {}));
    CHECK(m == Mask());
}

}  // namespace mask_test
