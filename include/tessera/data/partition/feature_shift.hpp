// SPDX-License-Identifier: BSD-3-Clause
// Clients that see the same kind of examples differently: each turned, under noise or in another contrast.
//
//   rotation   about the middle by most * u degrees, bilinear, the border repeated outwards
//   noise      x + most * u * n, n normal and the same whenever the example is read
//   contrast   m + most^(2u - 1) (x - m), m the example's mean
//
// u is the client's: uniform in [0, 1), or with `groups` one of 0, 1/groups, 2/groups, ... It and n are keyed by the
// client's key, so a client sees the same whoever else is there. Every pair of client and example becomes an
// example of a new pool, so clients that share test examples see each their own; rows are made when they are read.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/arena.hpp>
#include <tessera/core/content.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/shift.hpp>
#include <tessera/data/transform.hpp>

namespace tessera::data {

enum class Feature : std::uint8_t { rotation, noise, contrast };
constexpr std::array<std::string_view, 3> words_of(Feature) { return {"rotation", "noise", "contrast"}; }

// The shape of square images of one or three channels with so many numbers; all zero where there is none.
inline ImageShape square_images(std::size_t numbers) {
    for (const std::size_t channels : {std::size_t{1}, std::size_t{3}}) {
        const auto side = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(numbers / channels))));
        if (side > 0 && side * side * channels == numbers) return {.width = side, .height = side, .channels = channels};
    }
    return {};
}

struct FeatureShift {
    Feature kind = Feature::rotation;
    double most = 45;        // degrees in [0, 360]; a deviation of at least 0; a factor of at least 1
    std::size_t groups = 0;  // 0: every client its own u
    ImageShape shape{};      // read for rotation; left out, images are square

    void validate() const {
        using tessera::detail::require;
        const std::string says = ", not " + std::to_string(most);
        require(kind != Feature::rotation || (most >= 0 && most <= 360),
                "feature shift: a rotation is in [0, 360]" + says);
        require(kind != Feature::noise || (most >= 0 && most <= 1e6), "feature shift: noise is in [0, 1e6]" + says);
        require(kind != Feature::contrast || (most >= 1 && most <= 1e6),
                "feature shift: contrast is in [1, 1e6]" + says);
    }

    // u, from the client's key.
    double position(std::uint64_t client) const {
        Stream draw(Key{client}(purpose::partition)(static_cast<std::uint64_t>(kind)));
        return groups > 0 ? static_cast<double>(draw.below(groups)) / static_cast<double>(groups) : draw.uniform();
    }

    FederatedDataset operator()(const FederatedDataset& clients) const {
        validate();
        struct Seen {
            std::vector<Index> source;
            std::vector<std::uint32_t> viewer;  // a place in `keys`
            std::vector<std::uint64_t> keys;
            std::vector<double> positions;
        };
        const Dataset& pool = clients.pool();
        const auto labels = detail::labels_of(pool, "feature shift");
        const ImageShape images = shape.size() > 0 ? shape : square_images(pool.examples().width);
        tessera::detail::require(kind != Feature::rotation || images.size() == pool.examples().width,
                                 "feature shift: rows of " + std::to_string(pool.examples().width) +
                                     " numbers are not square images; say their shape, or use noise or contrast");
        auto seen = std::make_shared<Seen>();
        std::vector<std::int32_t> kept;
        const auto retell = [&](std::vector<Index>& part) {
            for (Index& i : part) {
                seen->source.push_back(i);
                seen->viewer.push_back(static_cast<std::uint32_t>(seen->keys.size() - 1));
                kept.push_back(labels[i]);
                i = static_cast<Index>(seen->source.size() - 1);
            }
        };
        const auto stands = [&](std::uint64_t key, double u) {
            seen->keys.push_back(key);
            seen->positions.push_back(u);
        };
        Split split = clients.split();
        for (auto* shares : {&split.clients, &split.unseen})
            for (auto& share : *shares) {
                stands(share.key, position(share.key));
                for (auto* part : {&share.train, &share.validation, &share.test}) retell(*part);
            }
        stands(0, untouched);
        retell(split.server);
        tessera::detail::require(seen->source.size() <= std::numeric_limits<Index>::max(),
                                 "feature shift: so many examples have no number of 32 bits");
        const auto fetch = [pool, seen, images, how = *this](std::size_t i, std::span<float> out) {
            detail::read_row(pool.examples(), seen->source[i], out);
            const double u = seen->positions[seen->viewer[i]];
            if (u != untouched)
                how.show(out, images, u, Key{seen->keys[seen->viewer[i]]}(purpose::noise)(seen->source[i]));
        };
        const auto recipe = [pool, seen, images, how = *this] {
            Hasher h;
            h.add(tessera::fingerprint("feature shift"));
            h.add(rows_fingerprint(pool.examples()));
            for (const std::uint64_t number : {static_cast<std::uint64_t>(how.kind), std::uint64_t{images.width},
                                               std::uint64_t{images.height}, std::uint64_t{images.channels}})
                h.word(number);
            h.bytes(&how.most, sizeof how.most);
            const auto all_of = [&](const auto& numbers) {
                h.bytes(numbers.data(), numbers.size() * sizeof numbers[0]);
            };
            all_of(seen->source), all_of(seen->viewer), all_of(seen->keys), all_of(seen->positions);
            return h.finish();
        };
        return {Dataset::from(fetch, pool.examples().width, std::move(kept), pool.examples().classes, recipe),
                std::move(split)};
    }

private:
    static constexpr double untouched = -1;  // as the server sees its own examples

    void show(std::span<float> row, const ImageShape& images, double u, Key key) const {
        if (kind == Feature::rotation) return turn(row, images, most * u);
        if (kind == Feature::noise) {
            Stream draw(key);
            for (float& x : row) x = static_cast<float>(static_cast<double>(x) + most * u * draw.normal());
            return;
        }
        double sum = 0;
        for (const float x : row) sum += static_cast<double>(x);
        const double mean = sum / static_cast<double>(row.size()), factor = std::pow(most, 2 * u - 1);
        for (float& x : row) x = static_cast<float>(mean + factor * (static_cast<double>(x) - mean));
    }

    static void turn(std::span<float> row, const ImageShape& images, double degrees) {
        const double angle = degrees * 0.017453292519943295769, cosine = std::cos(angle), sine = std::sin(angle);
        const double middle_y = static_cast<double>(images.height - 1) / 2,
                     middle_x = static_cast<double>(images.width - 1) / 2;
        // A quarter turn must hit pixels exactly, although the cosine of a right angle is 6e-17.
        const auto place = [](double at, std::size_t size, std::size_t& low, double& share) {
            if (std::abs(at - std::round(at)) < 1e-9) at = std::round(at);
            at = std::clamp(at, 0.0, static_cast<double>(size - 1));
            low = std::min(static_cast<std::size_t>(at), size - 1);
            share = at - static_cast<double>(low);
            return std::min(low + 1, size - 1);
        };
        const std::size_t area = images.width * images.height;
        const Vec<float> before(row.begin(), row.end());
        for (std::size_t y = 0; y < images.height; ++y)
            for (std::size_t x = 0; x < images.width; ++x) {
                const double dy = static_cast<double>(y) - middle_y, dx = static_cast<double>(x) - middle_x;
                std::size_t top = 0, left = 0;
                double below = 0, beside = 0;
                const std::size_t bottom = place(middle_y + cosine * dy + sine * dx, images.height, top, below);
                const std::size_t right = place(middle_x + cosine * dx - sine * dy, images.width, left, beside);
                for (std::size_t c = 0; c < images.channels; ++c) {
                    const auto at = [&](std::size_t line, std::size_t column) {
                        return static_cast<double>(before[c * area + line * images.width + column]);
                    };
                    const double upper = at(top, left) + beside * (at(top, right) - at(top, left));
                    const double lower = at(bottom, left) + beside * (at(bottom, right) - at(bottom, left));
                    row[c * area + y * images.width + x] = static_cast<float>(upper + below * (lower - upper));
                }
            }
    }
};

}  // namespace tessera::data
