// SPDX-License-Identifier: BSD-3-Clause
// Examples with an owner, and a population of clients that share one pool of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/core/client_data.hpp>
#include <tessera/core/content.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>

namespace tessera::data {

// Either keeps its rows or borrows yours; `examples()` is valid while this object lives. Copies share.
class Dataset {
    struct Unknown {};

public:
    // Rows you own: row-major, numbers or bytes or the names of words (whole numbers), each with a label; they must
    // outlive the dataset, and stay as they are. With `each` labels an example, one a position, a negative one is none.
    static Dataset borrow(std::span<const float> rows, std::span<const std::int32_t> labels, std::size_t classes,
                          std::size_t each = 1) {
        return borrowed(storage_of<float>, rows.data(), rows.size(), labels, classes, each);
    }
    static Dataset borrow(std::span<const double> rows, std::span<const std::int32_t> labels, std::size_t classes,
                          std::size_t each = 1) {
        return borrowed(storage_of<double>, rows.data(), rows.size(), labels, classes, each);
    }
    static Dataset borrow(std::span<const std::uint8_t> rows, std::span<const std::int32_t> labels, std::size_t classes,
                          std::size_t each = 1) {
        return borrowed(storage_of<std::uint8_t>, rows.data(), rows.size(), labels, classes, each);
    }
    static Dataset borrow(std::span<const std::int32_t> rows, std::span<const std::int32_t> labels, std::size_t classes,
                          std::size_t each = 1) {
        return borrowed(storage_of<std::int32_t>, rows.data(), rows.size(), labels, classes, each);
    }
    static Dataset own(std::vector<float> rows, std::vector<std::int32_t> labels, std::size_t classes,
                       std::size_t each = 1) {
        return owned(std::move(rows), std::move(labels), classes, each);
    }
    static Dataset own(std::vector<double> rows, std::vector<std::int32_t> labels, std::size_t classes,
                       std::size_t each = 1) {
        return owned(std::move(rows), std::move(labels), classes, each);
    }
    static Dataset own(std::vector<std::uint8_t> rows, std::vector<std::int32_t> labels, std::size_t classes,
                       std::size_t each = 1) {
        return owned(std::move(rows), std::move(labels), classes, each);
    }
    static Dataset own(std::vector<std::int32_t> rows, std::vector<std::int32_t> labels, std::size_t classes,
                       std::size_t each = 1) {
        return owned(std::move(rows), std::move(labels), classes, each);
    }
    // Rows that lie somewhere as long as `keeper` lives, in a mapped file for example; they must stay as they are.
    template <class T>
    static Dataset kept_by(std::shared_ptr<const void> keeper, std::span<const T> rows,
                           std::vector<std::int32_t> labels, std::size_t classes) {
        struct Holder {
            std::shared_ptr<const void> keeper;
            std::vector<std::int32_t> labels;
        };
        auto kept = std::make_shared<Holder>(Holder{std::move(keeper), std::move(labels)});
        Dataset d = borrow(rows, kept->labels, classes);
        d.keep_ = std::move(kept);
        return d;
    }
    // Several classes an example, or none: `classes` numbers for each row, 1 or 0 (multi-hot).
    template <class T>
    static Dataset multi_label(std::vector<T> rows, std::vector<std::uint8_t> multi_hot, std::size_t classes) {
        struct Holder {
            std::vector<T> rows;
            std::vector<std::uint8_t> multi_hot;
        };
        detail::require(classes > 0 && multi_hot.size() % classes == 0,
                        "data::Dataset: " + std::to_string(multi_hot.size()) + " multi-hot labels are not " +
                            std::to_string(classes) + " for each example");
        detail::require(std::all_of(multi_hot.begin(), multi_hot.end(), [](std::uint8_t mark) { return mark <= 1; }),
                        "data::Dataset: a mark must be 1 or 0");
        auto kept = std::make_shared<Holder>(Holder{std::move(rows), std::move(multi_hot)});
        Dataset d;
        const std::size_t size = kept->multi_hot.size() / classes;
        d.view_ = {.size = size,
                   .width = width_of(kept->rows.size(), size),
                   .storage = storage_of<T>,
                   .rows = kept->rows.data(),
                   .multi_hot = kept->multi_hot.data(),
                   .classes = classes};
        d.keep(std::move(kept));
        return d;
    }
    // Rows made on demand: fetch(i, out) writes `width` floats. Called from several threads at once. Their fingerprint
    // takes a pass over all of them, unless recipe() says what they are made of, and how.
    template <class Fetch, class Recipe = Unknown>
        requires std::invocable<const Fetch&, std::size_t, std::span<float>>
    static Dataset from(Fetch fetch, std::size_t width, std::vector<std::int32_t> labels, std::size_t classes,
                        Recipe recipe = {}) {
        struct Holder {
            Fetch fetch;
            std::size_t width;
            std::vector<std::int32_t> labels;
            Recipe recipe;
        };
        auto kept = std::make_shared<Holder>(Holder{std::move(fetch), width, std::move(labels), std::move(recipe)});
        Dataset d;
        d.view_ = {.size = kept->labels.size(),
                   .width = width,
                   .storage = Storage::callback,
                   .rows = kept.get(),
                   .fetch =
                       [](const void* self, std::size_t i, float* out) {
                           const auto& k = *static_cast<const Holder*>(self);
                           k.fetch(i, std::span<float>(out, k.width));
                       },
                   .labels = kept->labels.data(),
                   .classes = classes};
        d.check_labels();
        if constexpr (std::is_same_v<Recipe, Unknown>) d.keep(std::move(kept));
        else d.keep(std::move(kept), [](const void* self) { return static_cast<const Holder*>(self)->recipe(); });
        return d;
    }
    // The examples of another dataset, whose rows fetch(i, out) makes on demand, as above.
    template <class Fetch, class Recipe>
        requires std::invocable<const Fetch&, std::size_t, std::span<float>>
    static Dataset reading(const Dataset& of, Fetch fetch, std::size_t width, Recipe recipe) {
        struct Holder {
            Dataset of;
            Fetch fetch;
            std::size_t width;
            Recipe recipe;
        };
        auto kept = std::make_shared<Holder>(Holder{of, std::move(fetch), width, std::move(recipe)});
        Dataset d;
        d.view_ = of.view_;
        d.view_.width = width;
        d.view_.storage = Storage::callback;
        d.view_.rows = kept.get();
        d.view_.fetch = [](const void* self, std::size_t i, float* out) {
            const auto& k = *static_cast<const Holder*>(self);
            k.fetch(i, std::span<float>(out, k.width));
        };
        d.view_.shift = 0;
        d.view_.scale = 1;
        d.keep(std::move(kept), [](const void* self) { return static_cast<const Holder*>(self)->recipe(); });
        return d;
    }
    // Real targets instead of classes, `each` for an example (regression, test objectives).
    template <class T>
    static Dataset regression(std::vector<T> rows, std::vector<double> targets, std::size_t each = 1) {
        struct Holder {
            std::vector<T> rows;
            std::vector<double> targets;
        };
        auto kept = std::make_shared<Holder>(Holder{std::move(rows), std::move(targets)});
        Dataset d;
        const std::size_t size = examples_in(kept->targets.size(), each, "targets");
        d.view_ = {.size = size,
                   .width = width_of(kept->rows.size(), size),
                   .storage = storage_of<T>,
                   .rows = kept->rows.data(),
                   .targets = kept->targets.data(),
                   .targets_each = each};
        for (std::size_t i = 0; i < kept->targets.size(); ++i)
            detail::require(std::isfinite(kept->targets[i]), "data::Dataset: a target of example " +
                                                                 std::to_string(i / each) + " is not a finite number");
        d.keep(std::move(kept));
        return d;
    }
    static Dataset regression(std::vector<double> rows, std::vector<double> targets, std::size_t each = 1) {
        return regression<double>(std::move(rows), std::move(targets), each);
    }

    // The same rows under other targets.
    Dataset with_targets(std::vector<double> targets) const {
        struct Holder {
            Dataset of;
            std::vector<double> targets;
        };
        detail::require(view_.targets && targets.size() == view_.size * view_.targets_each,
                        "data::Dataset: there must be one target for each that the examples have");
        auto kept = std::make_shared<Holder>(Holder{*this, std::move(targets)});
        Dataset d;
        d.view_ = view_;
        d.view_.targets = kept->targets.data();
        d.keep(std::move(kept));
        return d;
    }

    const Examples& examples() const { return view_; }
    std::size_t size() const { return view_.size; }
    std::int32_t label(std::size_t i) const { return view_.labels[i]; }  // of examples with one
    // Of rows and labels as they are read; the rows are looked at once, however often it is asked.
    Fingerprint fingerprint() const { return tessera::fingerprint(view_); }

    // Bytes read as (byte - shift) * scale from now on.
    Dataset normalised(float shift, float scale) const {
        Dataset d = *this;
        d.view_.shift = shift;
        d.view_.scale = scale;
        return d;
    }

    // Labels 1 .. words name words, and others the marks of a vocabulary: unknown, begin, end.
    Dataset of_words(std::size_t words) const {
        detail::require(words < view_.classes, "data::Dataset: there are more words than classes");
        Dataset d = *this;
        d.view_.words = words;
        return d;
    }

private:
    template <class T>
    static constexpr Storage storage_of = [] {
        if constexpr (std::is_same_v<T, float>) return Storage::float32;
        else if constexpr (std::is_same_v<T, double>) return Storage::float64;
        else if constexpr (std::is_same_v<T, std::int32_t>) return Storage::int32;
        else {
            static_assert(std::is_same_v<T, std::uint8_t>,
                          "tessera::data::Dataset: rows are float, double, std::uint8_t or std::int32_t");
            return Storage::bytes;
        }
    }();

    static std::size_t width_of(std::size_t numbers, std::size_t rows) {
        detail::require(rows > 0 && numbers % rows == 0,
                        "data::Dataset: " + std::to_string(numbers) + " numbers cannot be cut into " +
                            std::to_string(rows) + " rows of equal width");
        return numbers / rows;
    }
    static std::size_t examples_in(std::size_t numbers, std::size_t each, const char* what) {
        detail::require(each > 0 && numbers % each == 0, "data::Dataset: " + std::to_string(numbers) + " " + what +
                                                             " are not " + std::to_string(each) + " for each example");
        return numbers / each;
    }
    static Dataset borrowed(Storage storage, const void* rows, std::size_t numbers,
                            std::span<const std::int32_t> labels, std::size_t classes, std::size_t each) {
        Dataset d;
        const std::size_t size = examples_in(labels.size(), each, "labels");
        d.view_ = {.size = size,
                   .width = width_of(numbers, size),
                   .storage = storage,
                   .rows = rows,
                   .labels = labels.data(),
                   .labels_each = each,
                   .classes = classes};
        d.check_labels();
        d.keep(nullptr);
        return d;
    }
    template <class T>
    static Dataset owned(std::vector<T> rows, std::vector<std::int32_t> labels, std::size_t classes, std::size_t each) {
        struct Holder {
            std::vector<T> rows;
            std::vector<std::int32_t> labels;
        };
        auto kept = std::make_shared<Holder>(Holder{std::move(rows), std::move(labels)});
        Dataset d = borrow(std::span<const T>(kept->rows), kept->labels, classes, each);
        d.keep_ = std::move(kept);
        return d;
    }
    // Where there are several, a negative one is none.
    void check_labels() const {
        const std::size_t each = view_.labels_each;
        for (std::size_t i = 0; i < view_.size * each; ++i) {
            const std::int32_t label = view_.labels[i];
            detail::require((label < 0 && each > 1) || (label >= 0 && static_cast<std::size_t>(label) < view_.classes),
                            "data::Dataset: label " + std::to_string(label) + " of example " +
                                std::to_string(i / each) + " is not a class in 0.." + std::to_string(view_.classes) +
                                "-1");
        }
    }

    void keep(std::shared_ptr<const void> rows, RowsSeen::Recipe recipe = nullptr) {
        keep_ = std::move(rows);
        seen_ = std::make_shared<const RowsSeen>(recipe);
        view_.seen = seen_.get();
    }

    Examples view_;
    std::shared_ptr<const void> keep_;
    std::shared_ptr<const RowsSeen> seen_;
};

// Which examples of the pool a client holds.
struct Share {
    std::vector<Index> train{}, validation{}, test{};
    std::uint64_t key = 0;  // names its random streams; 0: a FederatedDataset gives it one by its number in the split
};
struct Split {
    std::vector<Share> clients{};  // take part in training
    std::vector<Share> unseen{};   // held out: only ever evaluated
    std::vector<Index> server{};   // held by the server itself, to validate or distil on
};

// Who holds what, under which key; without what the server holds.
inline Fingerprint fingerprint(const Split& split) {
    Hasher h;
    for (const auto* shares : {&split.clients, &split.unseen}) {
        h.word(shares->size());
        for (const auto& share : *shares) {
            h.word(share.key);
            for (const auto* part : {&share.train, &share.validation, &share.test})
                h.bytes(part->data(), part->size() * sizeof(Index));
        }
    }
    return h.finish();
}

namespace detail {

using tessera::detail::require;

// Those who take part, then the held-out ones, then the server.
inline std::string holder_in(const Split& split, std::size_t who) {
    const std::size_t clients = split.clients.size(), everyone = clients + split.unseen.size();
    if (who < clients) return "client " + std::to_string(who);
    return who < everyone ? "unseen client " + std::to_string(who - clients) : std::string("the server");
}
inline const Share& share_in(const Split& split, std::size_t who) {
    return who < split.clients.size() ? split.clients[who] : split.unseen[who - split.clients.size()];
}

// The streams of clients with one key are the same, and so is their luck in every draw of a cohort.
inline std::optional<std::string> shared_key_in(const Split& split) {
    std::vector<std::pair<std::uint64_t, std::size_t>> keys;
    for (std::size_t who = 0; who < split.clients.size() + split.unseen.size(); ++who)
        if (const auto key = share_in(split, who).key; key != 0) keys.emplace_back(key, who);
    std::sort(keys.begin(), keys.end());
    for (std::size_t k = 1; k < keys.size(); ++k)
        if (keys[k].first == keys[k - 1].first)
            return holder_in(split, keys[k - 1].second) + " and " + holder_in(split, keys[k].second) +
                   " have the same key " + std::to_string(keys[k].first) + "; give each its own, or none";
    return std::nullopt;
}

inline void require_in_pool(std::span<const Index> part, std::size_t examples, const std::string& who) {
    const auto most = std::max_element(part.begin(), part.end());
    if (most != part.end() && *most >= examples)
        throw ConfigError(who + " holds example " + std::to_string(*most) + ", but the pool has " +
                          std::to_string(examples));
}

// A lone client needs no name: 0 is one like any other.
inline Split named_by_number(Split split) {
    if (split.clients.size() + split.unseen.size() == 1) return split;
    const Key names = Key{}(purpose::client);
    std::uint64_t number = 0;
    for (auto* shares : {&split.clients, &split.unseen})
        for (auto& share : *shares) {
            if (share.key == 0) share.key = names(number).key;
            ++number;
        }
    return split;
}

}  // namespace detail

// The population a federation runs on. Copies share the pool and the split.
class FederatedDataset {
public:
    FederatedDataset(Dataset pool, Split split)
        : inner_(std::make_shared<const Inner>(Inner{std::move(pool), detail::named_by_number(std::move(split))})) {
        const Split& s = inner_->split;
        for (std::size_t who = 0; who < s.clients.size() + s.unseen.size(); ++who)
            for (const auto& part : {&Share::train, &Share::validation, &Share::test})
                detail::require_in_pool(detail::share_in(s, who).*part, inner_->pool.size(), detail::holder_in(s, who));
        detail::require_in_pool(s.server, inner_->pool.size(), "the server");
        if (const auto fault = detail::shared_key_in(s)) throw ConfigError(*fault);
    }

    std::size_t size() const { return inner_->split.clients.size(); }
    ClientData operator[](std::size_t k) const { return view(inner_->split.clients[k]); }
    std::size_t unseen() const { return inner_->split.unseen.size(); }
    ClientData unseen(std::size_t k) const { return view(inner_->split.unseen[k]); }

    const Dataset& pool() const { return inner_->pool; }
    const Split& split() const { return inner_->split; }
    // Of the split, looked at once, however often it is asked. Two who ask first at once write the same bits.
    Fingerprint split_fingerprint() const {
        const Inner& all = *inner_;
        if (!__atomic_load_n(&all.seen, __ATOMIC_ACQUIRE)) {
            const Fingerprint found = fingerprint(all.split);
            __atomic_store_n(&all.print.low, found.low, __ATOMIC_RELAXED);
            __atomic_store_n(&all.print.high, found.high, __ATOMIC_RELAXED);
            __atomic_store_n(&all.seen, true, __ATOMIC_RELEASE);
        }
        return {__atomic_load_n(&all.print.low, __ATOMIC_RELAXED), __atomic_load_n(&all.print.high, __ATOMIC_RELAXED)};
    }

private:
    struct Inner {
        Dataset pool;
        Split split;
        mutable Fingerprint print{};
        mutable bool seen = false;
    };
    ClientData view(const Share& share) const {
        return {&inner_->pool.examples(), share.train, share.validation, share.test, share.key};
    }
    std::shared_ptr<const Inner> inner_;
};

}  // namespace tessera::data
