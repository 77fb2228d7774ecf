// SPDX-License-Identifier: BSD-3-Clause
// A set of coordinates as bits: which parameters exist on a client.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include <tessera/core/arena.hpp>

namespace tessera {

class Mask {
public:
    Mask() = default;
    explicit Mask(std::size_t size, bool value = false) : size_(size), words_((size + 63) / 64, value ? ~0ull : 0ull) {
        if (value && size % 64 != 0) words_.back() = (1ull << (size % 64)) - 1;
    }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    bool operator[](std::size_t j) const { return (words_[j / 64] >> (j % 64) & 1) != 0; }
    void set(std::size_t j, bool value) {
        const std::uint64_t bit = 1ull << (j % 64);
        words_[j / 64] = value ? words_[j / 64] | bit : words_[j / 64] & ~bit;
    }
    // Coordinates 64 w to 64 w + 63 at once; bits beyond size() are dropped.
    void set_word(std::size_t w, std::uint64_t bits) {
        const std::size_t here = size_ - 64 * w;
        words_[w] = here < 64 ? bits & ((1ull << here) - 1) : bits;
    }
    std::size_t count() const {
        std::size_t n = 0;
        for (const auto w : words_) n += static_cast<std::size_t>(std::popcount(w));
        return n;
    }

    const Vec<std::uint64_t>& words() const { return words_; }
    // Bits beyond size() must be zero, else the words are not those of a mask and false is returned.
    bool assign(std::size_t size, Vec<std::uint64_t> words) {
        if (words.size() != (size + 63) / 64) return false;
        if (size % 64 != 0 && words.back() >> (size % 64) != 0) return false;
        size_ = size;
        words_ = std::move(words);
        return true;
    }
    friend bool operator==(const Mask&, const Mask&) = default;

private:
    std::size_t size_ = 0;
    Vec<std::uint64_t> words_;
};

}  // namespace tessera
