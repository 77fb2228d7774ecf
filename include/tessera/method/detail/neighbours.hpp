// SPDX-License-Identifier: BSD-3-Clause
// The classes of a query's nearest stored examples, by features, mixed with what a model says.
//
// Dot products come from the kernels and only propose: whatever may be among the k nearest is measured again from
// differences in double, so who the neighbours are does not depend on a kernel's rounding. Equal distances go to the
// example that was stored first.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include <tessera/contracts/context.hpp>
#include <tessera/core/error.hpp>
#include <tessera/kernels/dense.hpp>

namespace tessera {

// What a neighbour's vote fades with: exp(-D / bandwidth), or exp(-D^2 / (feature width * bandwidth)).
enum class Fade : std::uint8_t { distance, squared };
constexpr std::array<std::string_view, 2> words_of(Fade) { return {"distance", "squared"}; }

namespace detail {

struct Vote {
    std::size_t neighbours = 10;
    double lambda = 0.5;  // share of the vote
    Fade fade = Fade::distance;
    double bandwidth = 1;

    void validate() const {
        require(neighbours > 0, "neighbours must be at least 1");
        require(lambda >= 0 && lambda <= 1, "lambda must lie in [0, 1], not " + std::to_string(lambda));
        require_positive(bandwidth, "bandwidth");
    }
};

// Examples as the last layer sees them, in rows of one matrix, with their classes.
template <class R>
struct Datastore {
    std::size_t width = 0;
    Vec<R> features, half_norms;  // the latter negative: a query's dot product with it is largest where it is nearest
    Vec<std::int32_t> labels;
    double largest = 0;  // squared norm

    std::size_t size() const { return labels.size(); }
    const R* row(std::size_t i) const { return features.data() + i * width; }
};

// At most `capacity` examples (0: all), drawn by the client's key and by nothing else.
template <class M>
Datastore<real<M>> remember(const Context<M>& at, In<real<M>> w, std::size_t capacity) {
    constexpr bool featured = FeatureModel<M>;
    static_assert(featured, "tessera::KnnPer: this model has no `features`, by which neighbours are found");
    using R = real<M>;
    constexpr std::uint64_t meaning = 0x73746F7265;
    Vec<Index> ids(at.ids.begin(), at.ids.end());
    if (capacity > 0 && capacity < ids.size()) {
        Stream(at.key(purpose::sampling)(meaning)).shuffle(std::span<Index>(ids));
        ids.resize(capacity);
    }
    Datastore<R> store;
    store.width = at.model->feature_width();
    if (ids.empty()) return store;
    require(at.examples->labels, "kNN-Per: neighbours vote with their classes, these examples have none");
    require(at.examples->one_label(), "kNN-Per: neighbours vote with their class, these examples have several labels");
    store.features.resize(ids.size() * store.width);
    constexpr std::size_t chunk = 256;
    for (std::size_t i = 0; i < ids.size(); i += chunk) {
        const std::size_t n = std::min(chunk, ids.size() - i);
        at.model->features(w, Batch<R>(*at.examples, std::span<const Index>(ids).subspan(i, n)),
                           Out<R>(store.features).subspan(i * store.width, n * store.width));
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
        double squares = 0;
        for (std::size_t j = 0; j < store.width; ++j)
            squares += static_cast<double>(store.row(i)[j]) * static_cast<double>(store.row(i)[j]);
        store.largest = std::max(store.largest, squares);
        store.half_norms.push_back(static_cast<R>(-squares / 2));
        store.labels.push_back(at.examples->labels[ids[i]]);
    }
    return store;
}

struct Neighbour {
    double squared_distance = 0;
    std::size_t place = 0;  // in the datastore
    friend bool operator<(const Neighbour& a, const Neighbour& b) {
        return a.squared_distance != b.squared_distance ? a.squared_distance < b.squared_distance : a.place < b.place;
    }
};

// The k nearest of the store, given q . f - |f|^2 / 2 = (|q|^2 - D^2) / 2 for each of them.
template <class R>
void nearest(const Datastore<R>& store, const R* query, const R* proposal, std::size_t k, Vec<Neighbour>& found) {
    const Scratch<R> best(k);
    std::partial_sort_copy(proposal, proposal + store.size(), best.begin(), best.end(), [](R a, R b) { return a > b; });
    double norm = 0;
    for (std::size_t j = 0; j < store.width; ++j)
        norm += static_cast<double>(query[j]) * static_cast<double>(query[j]);
    // A sum of n products is off by at most about n u |q| |f|, and so is a rounded half norm by u |f|^2.
    const double unit = static_cast<double>(std::numeric_limits<R>::epsilon()) / 2;
    const double products = std::sqrt(norm * store.largest) + store.largest;
    const double doubt = static_cast<double>(store.width + 2) * unit * products;
    const double least = static_cast<double>(best[k - 1]) - 2 * doubt;
    found.clear();
    for (std::size_t i = 0; i < store.size(); ++i) {
        if (!(static_cast<double>(proposal[i]) >= least)) continue;
        double sum = 0;
        for (std::size_t j = 0; j < store.width; ++j) {
            const double apart = static_cast<double>(query[j]) - static_cast<double>(store.row(i)[j]);
            sum += apart * apart;
        }
        found.push_back({sum, i});
    }
    std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(std::min(k, found.size())),
                      found.end());
    found.resize(std::min(k, found.size()));
}

// log( lambda p_knn + (1 - lambda) p_model ). A class that nobody votes for keeps the model's term alone.
template <class M>
struct Neighbours {
    using R = real<M>;
    const M* model;
    Vec<R> w;
    Datastore<R> store;
    Vote vote;

    void operator()(const Batch<R>& batch, Out<R> out) const {
        model->predict(w, batch, out);
        const std::size_t k = std::min(vote.neighbours, store.size()), classes = model->outputs();
        if (vote.lambda == 0 || k == 0) return;
        constexpr std::size_t chunk = 64;
        Vec<double> share(classes);
        Vec<Neighbour> found;
        for (std::size_t begin = 0; begin < batch.size(); begin += chunk) {
            const auto part = batch.part(begin, std::min(chunk, batch.size() - begin));
            const Scratch<R> queries(part.size() * store.width), proposals(part.size() * store.size());
            model->features(w, part, Out<R>(queries.data(), queries.size()));
            kernels::affine(queries.data(), store.features.data(), store.half_norms.data(), proposals.data(),
                            part.size(), store.width, store.size());
            for (std::size_t i = 0; i < part.size(); ++i) {
                nearest(store, queries.data() + i * store.width, proposals.data() + i * store.size(), k, found);
                mix(found, share, out.subspan((begin + i) * classes, classes));
            }
        }
    }

private:
    void mix(const Vec<Neighbour>& found, Vec<double>& share, Out<R> row) const {
        if (found.empty()) return;  // features that are not finite are near nothing
        std::fill(share.begin(), share.end(), 0.0);
        double total = 0;
        const double nearest_one = faded(found[0]);  // counts 1, so that far neighbours still have weights
        for (const auto& each : found) {
            const double weight = std::exp(faded(each) - nearest_one);
            total += weight;
            if (const auto c = static_cast<std::size_t>(store.labels[each.place]); c < share.size()) share[c] += weight;
        }
        for (std::size_t c = 0; c < row.size(); ++c) {
            const double knn = std::log(vote.lambda * share[c] / total);
            const double own = std::log1p(-vote.lambda) + static_cast<double>(row[c]);
            const double more = std::max({own, knn, impossible});
            row[c] = static_cast<R>(more + std::log1p(std::exp(std::min(own, knn) - more)));
        }
    }
    double faded(const Neighbour& n) const {
        return vote.fade == Fade::distance ? -std::sqrt(n.squared_distance) / vote.bandwidth
                                           : -n.squared_distance / (static_cast<double>(store.width) * vote.bandwidth);
    }
    // With lambda = 1 a class may have no vote at all; its log-probability stays a number.
    static inline const double impossible = std::log(static_cast<double>(std::numeric_limits<R>::min()));
};

}  // namespace detail
}  // namespace tessera
