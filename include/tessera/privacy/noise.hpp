// SPDX-License-Identifier: BSD-3-Clause
// Where noise and samples come from.
//
//   Source::system   ChaCha20 under a fresh key of the operating system for each draw: for release, and what one gets
//                    unless one asks for the other. No two runs agree.
//   Source::keyed    ChaCha of 8 rounds under a key of the run's seed: the same bits in every run, for experiments and
//                    tests. Whoever knows the seed can take the noise away, so nothing released with it is private.
//
// Both are Box and Muller's. Floats have a radius of 64 bits and end at 9.4 deviations (kernels/noise.hpp), doubles one
// of 53 bits and end at 8.6: what is missing has mass 1e-17 a number at most, nothing beside any delta in use. A radius
// of 32 bits would end at 6.7 and miss 3e-11 a number, a delta of 1e-5 after four steps of 79,510 parameters. Gaussians
// of floating-point numbers have gaps that an adversary who sees every digit may use (Mironov 2012); a discrete
// Gaussian, which has none, is not offered.
//
// 79,510 floats take 0.08 and 0.13 ms (one core, AVX-512).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tessera/core/arena.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>
#include <tessera/kernels/noise.hpp>
#include <tessera/kernels/normal.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/privacy/chacha20.hpp>
#include <tessera/privacy/sampling.hpp>  // for whoever takes a source takes private steps

namespace tessera::privacy {

enum class Source : std::uint8_t { keyed, system };
constexpr std::array<std::string_view, 2> words_of(Source) { return {"keyed", "system"}; }

struct Noise {
    static constexpr auto offers = offer::draws_noise;
    Source source = Source::system;

    // x += deviation * N(0, I). A place names the draw once and for all.
    void add(Key place, double deviation, Out<float> x) const {
        const bool keyed = source == Source::keyed;
        const auto words = keyed ? of_key(place) : ChaCha20::from_system();
        kernels::add_noise(words.state(), keyed ? 8 : 20, static_cast<float>(deviation), x);
    }
    void add(Key place, double deviation, Out<double> x) const {
        const Scratch<double> normal(x.size());
        if (source == Source::keyed) kernels::fill_normal(place, Out<double>(normal.data(), normal.size()));
        else fill_from_system(Out<double>(normal.data(), normal.size()));
        kernels::axpy(deviation, normal.data(), x.data(), x.size());
    }
    // The key of a sample that must not be guessed. Inclusion is all that is drawn with it, and is never shown.
    Key sample_key(Key place) const {
        if (source == Source::keyed) return place;
        std::array<std::uint8_t, 16> bytes;
        system_random(bytes);
        Key fresh;
        for (std::size_t i = 0; i < 8; ++i) {
            fresh.key |= std::uint64_t{bytes[i]} << 8 * i;
            fresh.salt |= std::uint64_t{bytes[8 + i]} << 8 * i;
        }
        return fresh;
    }
    constexpr bool replayable() const { return source == Source::keyed; }
    constexpr std::string_view words() const {
        return source == Source::keyed ? "replayable from the seed: an experiment, NOT PRIVATE if released"
                                       : "ChaCha20 under keys of the system";
    }

private:
    static ChaCha20 of_key(Key place) {
        ChaCha20::Key key;
        for (std::size_t i = 0; i < key.size(); ++i) key[i] = place.block(i / 4)[i % 4];
        return ChaCha20(key);
    }
    static void fill_from_system(Out<double> out) {
        auto words = ChaCha20::from_system();
        for (std::size_t j = 0; j < out.size();)
            for (const auto& block : words.next())
                for (std::size_t i = 0; i < block.size() && j < out.size(); i += 4) {
                    const auto bits = [&](std::size_t at) { return block[at] | std::uint64_t{block[at + 1]} << 32; };
                    const double u = (static_cast<double>(bits(i) >> 12) + 0.5) * 0x1p-52;
                    const double radius = std::sqrt(-2 * std::log(u));
                    const double angle = 6.283185307179586476925 * 0x1p-53 * static_cast<double>(bits(i + 2) >> 11);
                    out[j++] = radius * std::cos(angle);
                    if (j < out.size()) out[j++] = radius * std::sin(angle);
                }
    }
};

}  // namespace tessera::privacy
