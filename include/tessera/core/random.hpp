// SPDX-License-Identifier: BSD-3-Clause
// Random numbers keyed by what they are for, not by when they are drawn.
//
// Philox4x32-10 (Salmon et al., SC 2011) is a function from (key, counter) to four words, so a stream
// has no state to save and does not depend on threads, ranks or the order of visits. A Key is derived
// by naming its meaning, `Key{seed}(purpose::shuffle)(client)(round)(role)`; a Stream reads one key.
// The distributions are our own: those of <random> differ between standard libraries.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tessera/core/arena.hpp>

namespace tessera {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
        const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
        counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
                   static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
        key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
    }
    return counter;
}

enum class purpose : std::uint64_t {
    init, sampling, shuffle, dropout, mask, noise, partition, synthetic, client, codec
};

// The name of a stream: 128 bits, one half in Philox's key, the other in the upper half of its counter.
struct Key {
    std::uint64_t key = 0, salt = 0;

    constexpr Key() = default;
    constexpr explicit Key(std::uint64_t seed) : key(seed) {}

    constexpr Key operator()(std::uint64_t meaning) const {
        const auto block = words(meaning, salt | derived);
        Key next;
        next.key = block[0] | std::uint64_t{block[1]} << 32;
        next.salt = block[2] | std::uint64_t{block[3]} << 32;
        return next;
    }
    constexpr Key operator()(purpose meaning) const { return (*this)(static_cast<std::uint64_t>(meaning)); }

    constexpr PhiloxBlock block(std::uint64_t index) const { return words(index, salt & ~derived); }

    friend constexpr bool operator==(Key, Key) = default;

private:
    static constexpr std::uint64_t derived = std::uint64_t{1} << 63;  // children and draws never share a counter

    constexpr PhiloxBlock words(std::uint64_t low, std::uint64_t high) const {
        return philox({static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                       static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)},
                      {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
    }
};

class Stream {
public:
    explicit Stream(Key key) : key_(key) {}

    std::uint32_t word() {
        if (used_ == 4) {
            block_ = key_.block(next_++);
            used_ = 0;
        }
        return block_[used_++];
    }
    std::uint64_t word64() {
        const std::uint64_t low = word();
        return low | std::uint64_t{word()} << 32;
    }

    double uniform() { return static_cast<double>(word64() >> 11) * 0x1p-53; }           // [0, 1)
    double uniform_open() { return (static_cast<double>(word64() >> 12) + 0.5) * 0x1p-52; }  // (0, 1)

    // Uniform in [0, n), without bias (Lemire 2019).
    std::uint64_t below(std::uint64_t n) {
        __extension__ typedef unsigned __int128 Wide;
        Wide product = Wide{word64()} * n;
        if (static_cast<std::uint64_t>(product) < n) {
            const std::uint64_t reject = (0 - n) % n;
            while (static_cast<std::uint64_t>(product) < reject) product = Wide{word64()} * n;
        }
        return static_cast<std::uint64_t>(product >> 64);
    }

    double normal() {  // Box-Muller; the second number of the pair is kept
        if (has_spare_) {
            has_spare_ = false;
            return spare_;
        }
        const double radius = std::sqrt(-2.0 * std::log(uniform_open()));
        const double angle = 6.283185307179586476925 * uniform();
        spare_ = radius * std::sin(angle);
        has_spare_ = true;
        return radius * std::cos(angle);
    }
    double lognormal(double mean, double sigma) { return std::exp(mean + sigma * normal()); }

    // ln of a Gamma(shape, 1) draw (Marsaglia and Tsang 2000). The logarithm, because draws at a
    // shape of 0.01 are smaller than any double.
    double log_gamma(double shape) {
        if (shape < 1) {
            const double boost = std::log(uniform_open()) / shape;
            return log_gamma(shape + 1) + boost;
        }
        const double d = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
        for (;;) {
            const double x = normal(), t = 1 + c * x;
            if (t <= 0) continue;
            const double v = t * t * t;
            if (std::log(uniform_open()) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v);
        }
    }

    // Symmetric Dirichlet(alpha, ..., alpha); sums to one also for alpha near zero.
    void dirichlet(double alpha, std::span<double> out) {
        if (out.empty()) return;
        for (auto& p : out) p = log_gamma(alpha);
        const double most = *std::max_element(out.begin(), out.end());
        double total = 0;
        for (auto& p : out) total += p = std::exp(p - most);
        for (auto& p : out) p /= total;
    }

    template <class T>
    void shuffle(std::span<T> items) {
        for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
    }

private:
    Key key_;
    std::uint64_t next_ = 0;
    PhiloxBlock block_{};
    unsigned used_ = 4;
    bool has_spare_ = false;
    double spare_ = 0;
};

}  // namespace tessera
