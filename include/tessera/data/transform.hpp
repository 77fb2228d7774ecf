// SPDX-License-Identifier: BSD-3-Clause
// Other readings of the same examples: made when a row is read, so nothing is copied and any storage will do.
//
//   standardised_by_feature   (x_j - mean_j) / (deviation_j + 0.001), taken over the examples you name
//   standardised_each         (x - mean) / (deviation + 0.001) of each example by itself
//   one_hot                   ids 0 .. symbols-1 as rows of zeros with a one; any other number is all zeros
//   Augment                   flipped and cropped copies of what clients train on
//
// The deviation is that of the whole (divided by n). A reading keeps its source alive, with its labels,
// multi-hot labels or targets. Augment needs one class an example.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/content.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/shift.hpp>

namespace tessera::data {

namespace detail {

inline void read_row(const Examples& from, std::size_t example, std::span<float> out) {
    const auto id = static_cast<Index>(example);
    Batch<float>(from, {&id, 1}).read(0, out);
}

inline std::vector<std::int32_t> labels_of(const Dataset& pool, const std::string& who) {
    const auto* labels = pool.examples().labels;
    tessera::detail::require(labels != nullptr, who + ": the examples have no class labels");
    tessera::detail::require(pool.examples().labels_each == 1,
                             who + ": the examples have " + std::to_string(pool.examples().labels_each) +
                                 " labels each, and one is needed");
    return {labels, labels + pool.size()};
}

// Rows of `width` numbers, f(row of the source, row to write). `settings` is the fingerprint of all else that f reads.
template <class F>
Dataset reading(const Dataset& pool, std::size_t width, const std::string& who, Fingerprint settings, F f) {
    const auto fetch = [pool, f = std::move(f)](std::size_t i, std::span<float> out) {
        Vec<float> row(pool.examples().width);
        read_row(pool.examples(), i, row);
        f(std::span<const float>(row), out);
    };
    const auto recipe = [pool, settings, name = tessera::fingerprint(who)] {
        Hasher h;
        for (const auto part : {name, settings, rows_fingerprint(pool.examples())}) h.add(part);
        return h.finish();
    };
    return Dataset::reading(pool, fetch, width, recipe);
}

}  // namespace detail

// What standardised_by_feature reads a feature with: (x_j - shift_j) * scale_j.
struct FeatureScale {
    std::vector<float> shift, scale;
};

inline FeatureScale feature_scale(const Dataset& pool, std::span<const Index> over) {
    tessera::detail::require(!over.empty(),
                             "data::standardised_by_feature: no example is named to take the means over");
    const std::size_t width = pool.examples().width;
    std::vector<double> mean(width), square(width);
    std::vector<float> row(width);
    for (const Index i : over) {
        tessera::detail::require(i < pool.size(), "data::standardised_by_feature: example " + std::to_string(i) +
                                                      " is not in the pool of " + std::to_string(pool.size()));
        detail::read_row(pool.examples(), i, row);
        for (std::size_t j = 0; j < width; ++j) mean[j] += static_cast<double>(row[j]);
    }
    for (double& m : mean) m /= static_cast<double>(over.size());
    for (const Index i : over) {  // a second pass, since a mean square less a squared mean cancels
        detail::read_row(pool.examples(), i, row);
        for (std::size_t j = 0; j < width; ++j) {
            const double d = static_cast<double>(row[j]) - mean[j];
            square[j] += d * d;
        }
    }
    FeatureScale all{std::vector<float>(width), std::vector<float>(width)};
    for (std::size_t j = 0; j < width; ++j) {
        all.shift[j] = static_cast<float>(mean[j]);
        all.scale[j] = static_cast<float>(1 / (std::sqrt(square[j] / static_cast<double>(over.size())) + 0.001));
    }
    return all;
}

inline Dataset standardised_by_feature(const Dataset& pool, FeatureScale by) {
    const std::size_t width = pool.examples().width;
    tessera::detail::require(by.shift.size() == width && by.scale.size() == width,
                             "data::standardised_by_feature: a shift and a scale for each feature are needed");
    Hasher settings;
    for (const auto* numbers : {&by.shift, &by.scale}) settings.bytes(numbers->data(), width * sizeof(float));
    return detail::reading(pool, width, "data::standardised_by_feature", settings.finish(),
                           [by = std::move(by)](auto row_in, std::span<float> out) {
                               for (std::size_t j = 0; j < out.size(); ++j)
                                   out[j] = (row_in[j] - by.shift[j]) * by.scale[j];
                           });
}
inline Dataset standardised_by_feature(const Dataset& pool, std::span<const Index> over) {
    return standardised_by_feature(pool, feature_scale(pool, over));
}

// (t - shift) * scale of each real target, so that a step does not depend on its unit: prices diverge where hundreds of
// them do not. The means and deviations are those of the training examples; a target that never changes is only moved.
struct TargetScale {
    std::vector<double> shift, scale;
};
inline TargetScale target_scale(const Dataset& pool, std::span<const Index> over) {
    const auto& e = pool.examples();
    tessera::detail::require(e.targets && !over.empty(),
                             "data::target_scale: there are no real targets, or no example to take the means over");
    TargetScale all{std::vector<double>(e.targets_each), std::vector<double>(e.targets_each)};
    for (std::size_t j = 0; j < e.targets_each; ++j) {
        double sum = 0, square = 0;
        const auto n = static_cast<double>(over.size());
        for (const Index i : over) {
            tessera::detail::require(i < e.size, "data::target_scale: example " + std::to_string(i) +
                                                     " is not in the pool of " + std::to_string(e.size));
            sum += e.targets[i * e.targets_each + j];
        }
        all.shift[j] = sum / n;
        for (const Index i : over) {
            const double d = e.targets[i * e.targets_each + j] - all.shift[j];
            square += d * d;
        }
        all.scale[j] = square > 0 ? 1 / std::sqrt(square / n) : 1;
    }
    return all;
}
inline Dataset standardised_targets(const Dataset& pool, const TargetScale& by) {
    const auto& e = pool.examples();
    tessera::detail::require(e.targets && by.shift.size() == e.targets_each && by.scale.size() == e.targets_each,
                             "data::standardised_targets: a shift and a scale for each target is needed");
    std::vector<double> all(e.size * e.targets_each);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = (e.targets[i] - by.shift[i % e.targets_each]) * by.scale[i % e.targets_each];
    return pool.with_targets(std::move(all));
}

inline Dataset standardised_each(const Dataset& pool) {
    return detail::reading(pool, pool.examples().width, "data::standardised_each", {},
                           [](std::span<const float> row, std::span<float> out) {
                               const auto n = static_cast<double>(row.size());
                               double sum = 0, square = 0;
                               for (const float x : row) sum += static_cast<double>(x);
                               const double mean = sum / n;
                               for (const float x : row)
                                   square += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
                               const double scale = 1 / (std::sqrt(square / n) + 0.001);
                               for (std::size_t j = 0; j < out.size(); ++j)
                                   out[j] = static_cast<float>((static_cast<double>(row[j]) - mean) * scale);
                           });
}

inline Dataset one_hot(const Dataset& ids, std::size_t symbols) {
    tessera::detail::require(symbols > 0 && symbols <= std::size_t{1} << 24,
                             "data::one_hot: symbols is " + std::to_string(symbols) + "; it must be in 1..2^24");
    return detail::reading(
        ids, ids.examples().width * symbols, "data::one_hot", {.low = symbols},
        [symbols](std::span<const float> row, std::span<float> out) {
            std::fill(out.begin(), out.end(), 0.0f);
            for (std::size_t j = 0; j < row.size(); ++j)
                if (row[j] >= 0 && row[j] < static_cast<float>(symbols) && row[j] == std::floor(row[j]))
                    out[j * symbols + static_cast<std::size_t>(row[j])] = 1;
        });
}

// Copy v of example i is flipped left to right with probability 1/2 and moved by up to `padding` pixels each way, black
// coming in (the usual crop of a padded image); both are keyed by seed, example and v, so a copy is the same whenever
// it is read. Only training examples get copies; they stand behind the pool, and epochs become copies + 1 times as
// long.
struct Augment {
    ImageShape shape{};
    bool flip = true;
    std::size_t padding = 4;
    std::size_t copies = 1;
    std::uint64_t seed = 0;

    void validate() const {
        using tessera::detail::require;
        require(shape.size() > 0, "data::Augment: shape must say how wide, high and deep the images are");
        require(padding < shape.width && padding < shape.height,
                "data::Augment: padding is " + std::to_string(padding) + ", which moves whole images away");
        require(copies > 0, "data::Augment: copies is 0; it must be at least 1");
        require(flip || padding > 0, "data::Augment: without flip and padding copies are no different");
    }

    // Of each example; originals and copies are numbered together.
    static std::size_t most_copies(std::size_t examples) {
        return std::max<std::size_t>(1, std::numeric_limits<Index>::max() / std::max<std::size_t>(1, examples)) - 1;
    }

    FederatedDataset operator()(const FederatedDataset& clients) const {
        validate();
        const Dataset& pool = clients.pool();
        const Examples& view = pool.examples();
        tessera::detail::require(shape.size() == view.width,
                                 "data::Augment: images of " + std::to_string(shape.size()) +
                                     " numbers do not fit rows of " + std::to_string(view.width));
        tessera::detail::require(copies <= most_copies(pool.size()),
                                 "data::Augment: copies is " + std::to_string(copies) + "; of " +
                                     std::to_string(pool.size()) + " examples at most " +
                                     std::to_string(most_copies(pool.size())) + " have a number of 32 bits");
        const auto labels = detail::labels_of(pool, "data::Augment");
        std::vector<std::int32_t> all;
        for (std::size_t v = 0; v <= copies; ++v) all.insert(all.end(), labels.begin(), labels.end());
        const float black = view.storage == Storage::bytes ? (0 - view.shift) * view.scale : shape.black;
        const auto fetch = [pool, black, how = *this](std::size_t i, std::span<float> out) {
            const std::size_t v = i / pool.size();
            if (v == 0) return detail::read_row(pool.examples(), i, out);
            Vec<float> row(out.size());
            detail::read_row(pool.examples(), i % pool.size(), row);
            how.copy(Key{how.seed}(purpose::synthetic)(i % pool.size())(v), row, black, out);
        };
        Split split = clients.split();
        for (auto& share : split.clients) {
            const std::size_t own = share.train.size();
            for (std::size_t v = 1; v <= copies; ++v)
                for (std::size_t i = 0; i < own; ++i)
                    share.train.push_back(static_cast<Index>(share.train[i] + v * pool.size()));
        }
        const auto recipe = [pool, black, how = *this] {
            Hasher h;
            h.add(tessera::fingerprint("data::Augment"));
            h.add(rows_fingerprint(pool.examples()));
            for (const std::uint64_t number : {std::uint64_t{how.flip}, std::uint64_t{how.padding},
                                               std::uint64_t{how.copies}, how.seed, std::uint64_t{how.shape.width},
                                               std::uint64_t{how.shape.height}, std::uint64_t{how.shape.channels}})
                h.word(number);
            h.bytes(&black, sizeof black);
            return h.finish();
        };
        return {Dataset::from(fetch, view.width, std::move(all), view.classes, recipe), std::move(split)};
    }

private:
    void copy(Key key, std::span<const float> in, float black, std::span<float> out) const {
        Stream draw(key);
        const bool mirrored = flip && draw.below(2) == 1;
        const std::size_t right = draw.below(2 * padding + 1), down = draw.below(2 * padding + 1);
        for (std::size_t c = 0; c < shape.channels; ++c)
            for (std::size_t y = 0; y < shape.height; ++y)
                for (std::size_t x = 0; x < shape.width; ++x) {
                    const std::size_t from_y = y + down, from_x = x + right;  // in the padded image
                    const bool inside = from_y >= padding && from_y < padding + shape.height && from_x >= padding &&
                                        from_x < padding + shape.width;
                    const std::size_t column = mirrored ? shape.width - 1 - (from_x - padding) : from_x - padding;
                    out[(c * shape.height + y) * shape.width + x] =
                        inside ? in[(c * shape.height + from_y - padding) * shape.width + column] : black;
                }
    }
};

}  // namespace tessera::data
