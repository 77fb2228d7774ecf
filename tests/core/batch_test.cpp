// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/core/batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/context.hpp>

namespace batch_test {

namespace {

using namespace tessera;

// Four rows of three numbers that all storages can hold.
const std::vector<std::uint8_t> as_bytes{0, 1, 2, 10, 11, 12, 20, 21, 22, 255, 128, 64};
const std::vector<float> as_floats(as_bytes.begin(), as_bytes.end());
const std::vector<double> as_doubles(as_bytes.begin(), as_bytes.end());
const std::vector<std::int32_t> as_words(as_bytes.begin(), as_bytes.end());
const std::vector<std::int32_t> labels{3, 1, 4, 0};

Examples stored(Storage storage) {
    Examples e{.size = 4, .width = 3, .storage = storage, .labels = labels.data(), .classes = 5};
    switch (storage) {
        case Storage::float32: e.rows = as_floats.data(); break;
        case Storage::float64: e.rows = as_doubles.data(); break;
        case Storage::bytes: e.rows = as_bytes.data(); break;
        case Storage::int32: e.rows = as_words.data(); break;
        case Storage::callback:
            e.rows = as_floats.data();
            e.fetch = [](const void* rows, std::size_t example, float* out) {
                std::copy_n(static_cast<const float*>(rows) + 3 * example, 3, out);
            };
            break;
    }
    return e;
}
constexpr Storage storages[] = {Storage::float32, Storage::float64, Storage::bytes, Storage::int32, Storage::callback};

template <class R>
std::vector<R> plain(const Vec<R>& x) {
    return {x.begin(), x.end()};
}
std::vector<Index> ids_of(const Batch<double>& b) { return {b.ids().begin(), b.ids().end()}; }

// A context needs a model only to know its type of numbers.
struct Unused {
    using Real = double;
    static constexpr Offers offers{};
};
struct Client {
    std::vector<Index> ids;
    Examples examples = stored(Storage::float64);
    Context<Unused> context(std::size_t batch, std::size_t round = 0) const {
        return {.examples = &examples, .ids = ids, .key = Key{5}, .batch = batch, .round = round};
    }
};
std::vector<std::vector<Index>> walk(const Batches<double>& batches) {
    std::vector<std::vector<Index>> out;
    for (const auto& batch : batches) out.push_back(ids_of(batch));
    return out;
}
std::vector<Index> joined(const std::vector<std::vector<Index>>& batches, std::size_t begin, std::size_t end) {
    std::vector<Index> out;
    for (std::size_t i = begin; i < end; ++i) out.insert(out.end(), batches[i].begin(), batches[i].end());
    return out;
}
std::vector<Index> sorted(std::vector<Index> ids) {
    std::sort(ids.begin(), ids.end());
    return ids;
}
using Lists = std::vector<std::vector<Index>>;

std::vector<std::pair<std::uint64_t, std::uint64_t>> draws(const Batches<double>& batches) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
    for (const auto& batch : batches) out.emplace_back(batch.draw().key, batch.draw().salt);
    return out;
}
template <class T>
std::size_t distinct(const std::vector<T>& items) {
    return std::set<T>(items.begin(), items.end()).size();
}

}  // namespace

TEST_CASE_TEMPLATE("a batch reads the same numbers from every storage", R, float, double) {
    const std::vector<Index> ids{3, 1, 1};  // in this order, and again
    for (const Storage storage : storages) {
        CAPTURE(static_cast<int>(storage));
        const Examples examples = stored(storage);
        const Batch<R> batch(examples, ids);
        CHECK(batch.size() == 3);
        CHECK(batch.width() == 3);
        CHECK(plain(batch.inputs()) == std::vector<R>{255, 128, 64, 10, 11, 12, 10, 11, 12});
        std::vector<R> row(3, R(-1));
        batch.read(0, row);
        CHECK(row == std::vector<R>{255, 128, 64});
        CHECK(batch.label(0) == 0);
        CHECK(batch.label(1) == 1);
        CHECK(batch.target(0) == 0);
        CHECK(batch.target(2) == 1);
    }
}

TEST_CASE("a row is lent where it lies only when it is of the batch's type") {
    const std::vector<Index> ids{2};
    for (const Storage storage : storages) {
        CAPTURE(static_cast<int>(storage));
        const Examples examples = stored(storage);
        const Batch<float> narrow(examples, ids);
        const Batch<double> wide(examples, ids);
        CHECK(narrow.row(0) == (storage == Storage::float32 ? as_floats.data() + 6 : nullptr));
        CHECK(wide.row(0) == (storage == Storage::float64 ? as_doubles.data() + 6 : nullptr));
        CHECK(narrow.bytes(0) == (storage == Storage::bytes ? as_bytes.data() + 6 : nullptr));
        for (const std::size_t i : {0u, 1u, 1000000u}) CHECK_NOTHROW(narrow.fetch(i));  // nothing is read beyond ids
    }
}

TEST_CASE_TEMPLATE("a batch over converted rows reads those, and forgets them for other examples", R, float, double) {
    const auto examples = stored(Storage::bytes);
    const std::vector<Index> ids{3, 0, 2}, others{1};
    const Key draw = Key{9}(1);
    const Batch<R> batch(examples, ids, {}, &draw);
    const std::vector<R> rows{9, 8, 7, 6, 5, 4, 3, 2, 1};  // not what the bytes say: one sees which are read
    const Batch<R> over = batch.over(rows.data());
    CHECK(plain(over.inputs()) == rows);
    CHECK(over.row(1) == rows.data() + 3);
    CHECK(over.bytes(1) == nullptr);
    CHECK_NOTHROW(over.fetch(0));
    CHECK(over.label(0) == 0);
    CHECK(over.draw() == draw);
    CHECK(over.part(1, 2).row(1) == rows.data() + 6);
    CHECK(over.evaluated().row(2) == rows.data() + 6);
    CHECK(over.drawn(Key{3}).row(2) == rows.data() + 6);
    CHECK(plain(over.of(others).inputs()) == std::vector<R>{10, 11, 12});
    CHECK(plain(batch.inputs()) == std::vector<R>{255, 128, 64, 0, 1, 2, 20, 21, 22});
}

TEST_CASE("bytes are shifted and scaled when read; other storages are not") {
    const std::vector<Index> ids{1};
    for (const Storage storage : storages) {
        auto examples = stored(storage);
        examples.shift = 8;
        examples.scale = 0.5f;
        const auto read = plain(Batch<double>(examples, ids).inputs());
        if (storage == Storage::bytes) CHECK(read == std::vector<double>{1, 1.5, 2});
        else CHECK(read == std::vector<double>{10, 11, 12});
    }
}

TEST_CASE("real targets come before labels") {
    const std::vector<double> targets{0.5, 1.5, 2.5, 3.5};
    auto examples = stored(Storage::float64);
    examples.targets = targets.data();
    const std::vector<Index> ids{2, 0};
    const Batch<double> batch(examples, ids);
    CHECK(batch.target(0) == 2.5);
    CHECK(batch.target(1) == 0.5);
    CHECK(batch.label(0) == 4);
}

TEST_CASE("weights belong to examples, not to positions") {
    const auto examples = stored(Storage::float64);
    const std::vector<Index> ids{3, 0, 3};
    const std::vector<double> weights{10, 11, 12, 13};
    const Batch<double> batch(examples, ids, weights);
    CHECK(batch.weighted());
    CHECK(batch.weight(0) == 13);
    CHECK(batch.weight(1) == 10);
    CHECK(batch.weight(2) == 13);
    CHECK(batch.part(1, 2).weight(0) == 10);
    CHECK(batch.evaluated().weight(0) == 13);
    const Batch<double> without(examples, ids);
    CHECK_FALSE(without.weighted());
    CHECK(without.weight(1) == 1);
}

TEST_CASE("a batch with a draw is for training, without one for evaluation") {
    const auto examples = stored(Storage::float64);
    const std::vector<Index> ids{0, 1};
    const Key draw = Key{9}(1);
    const Batch<double> training(examples, ids, {}, &draw), evaluation(examples, ids);
    CHECK(training.training());
    CHECK(training.draw() == draw);
    CHECK_FALSE(evaluation.training());
    CHECK_FALSE(training.evaluated().training());
    CHECK(training.evaluated().draw() == Key{});
    CHECK(ids_of(training.evaluated()) == ids);
    CHECK(training.part(1, 1).training());
    CHECK(training.part(1, 1).draw() == draw);
}

TEST_CASE("a part of a batch is a batch") {
    const auto examples = stored(Storage::float64);
    const std::vector<Index> ids{3, 2, 1, 0};
    const Batch<double> batch(examples, ids);
    CHECK(ids_of(batch.part(1, 2)) == std::vector<Index>{2, 1});
    CHECK(plain(batch.part(3, 1).inputs()) == std::vector<double>{0, 1, 2});
    CHECK(batch.part(2, 0).size() == 0);
    CHECK(batch.part(4, 0).inputs().empty());
    CHECK(batch.size() == 4);
}

TEST_CASE("a list of batches cuts its order where it was appended") {
    const auto examples = stored(Storage::float64);
    Batches<double> batches(examples);
    CHECK(walk(batches).empty());
    const std::vector<Index> a{2, 0}, b{1}, c{3, 3, 3};
    batches.append(a, Key{1});
    batches.append(b, Key{2});
    batches.append(c, Key{3});
    CHECK(batches.size() == 3);
    CHECK(walk(batches) == Lists{a, b, c});
    CHECK(ids_of(batches[2]) == c);
}

TEST_CASE("every batch of a list is for training, under the draw it came with") {
    const auto examples = stored(Storage::float64);
    Batches<double> batches(examples);
    const std::vector<Index> same{0, 1};
    for (std::uint64_t i = 0; i < 3; ++i) batches.append(same, Key{9}(i));
    for (const auto& batch : batches) CHECK(batch.training());
    for (std::uint64_t i = 0; i < 3; ++i) CHECK(batches[i].draw() == Key{9}(i));

    const std::vector<double> weights{4, 5, 6, 7};
    CHECK_FALSE(batches[0].weighted());
    const auto weighted = std::move(batches).weighted(weights);
    CHECK(weighted.size() == 3);
    CHECK(weighted[2].weight(1) == 5);
}

TEST_CASE("epochs: each pass is a new permutation, cut into batches, the short last one kept") {
    const Client client{{0, 2, 3, 1, 0, 2, 3}};  // examples may be there twice
    const auto batches = walk(client.context(3).epochs(2));
    REQUIRE(batches.size() == 6);
    for (std::size_t i = 0; i < 6; ++i) CHECK(batches[i].size() == (i % 3 == 2 ? 1 : 3));
    CHECK(sorted(joined(batches, 0, 3)) == sorted(client.ids));
    CHECK(sorted(joined(batches, 3, 6)) == sorted(client.ids));

    const Client large{[] {
        std::vector<Index> ids(100);
        for (std::size_t i = 0; i < 100; ++i) ids[i] = static_cast<Index>(i);
        return ids;
    }()};
    const auto passes = walk(large.context(0).epochs(2));  // batch 0: all at once
    REQUIRE(passes.size() == 2);
    CHECK(passes[0] != passes[1]);
    CHECK(passes[0] != large.ids);
    CHECK(sorted(passes[1]) == large.ids);
    CHECK(walk(large.context(0).epochs(2)) == passes);            // a function of the key
    CHECK(walk(large.context(0).epochs(1)) == Lists{passes[0]});  // whatever comes after
    CHECK(walk(large.context(0, 1).epochs(1))[0] != passes[0]);   // another round
    CHECK(walk(large.context(0).epochs(1, Pass::own))[0] != passes[0]);
    CHECK(walk(Client{}.context(3).epochs(2)).empty());

    // Each batch has its own draw; a longer walk begins with the shorter one's.
    const auto three = draws(large.context(30).epochs(3)), two = draws(large.context(30).epochs(2));
    CHECK(three.size() == 12);
    CHECK(distinct(three) == 12);
    CHECK(std::equal(two.begin(), two.end(), three.begin()));
    CHECK(draws(large.context(30, 1).epochs(1)) != draws(large.context(30).epochs(1)));
    CHECK(draws(large.context(30).epochs(1, Pass::own)) != draws(large.context(30).epochs(1)));
}

TEST_CASE("stream: infinite, reshuffled at each refill, and it remembers its place") {
    const Client client{{0, 1, 2, 3, 4, 5, 6}};
    const auto context = client.context(3);
    Cursor at;
    const auto all = walk(context.stream(at, 9));
    REQUIRE(all.size() == 9);
    CHECK(at.pass == 3);
    CHECK(at.at == 0);
    for (std::size_t pass = 0; pass < 3; ++pass) {
        CHECK(all[3 * pass + 2].size() == 1);  // the short last batch is delivered as is
        CHECK(sorted(joined(all, 3 * pass, 3 * pass + 3)) == client.ids);
    }
    CHECK(joined(all, 0, 3) != joined(all, 3, 6));

    // In pieces, across rounds: the same batches under the same draws.
    Cursor pieces, whole;
    Lists collected;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> collected_draws;
    for (const std::size_t steps : {1u, 4u, 0u, 2u, 2u}) {
        const auto part = client.context(3, collected.size()).stream(pieces, steps);
        for (const auto& batch : walk(part)) collected.push_back(batch);
        for (const auto& draw : draws(part)) collected_draws.push_back(draw);
    }
    CHECK(collected == all);
    CHECK(collected_draws == draws(context.stream(whole, 9)));
    CHECK(distinct(collected_draws) == 9);
    CHECK(pieces.pass == at.pass);
    CHECK(pieces.at == at.at);

    // Each pass has a stream of its own, and `work` reads the one it is asked for.
    Cursor own, shared, asked;
    const auto other = context.stream(own, 9, Pass::own);
    CHECK(walk(other) != all);
    CHECK(sorted(joined(walk(other), 0, 3)) == client.ids);
    for (const auto& draw : draws(other))
        CHECK(std::ranges::find(collected_draws, draw) == collected_draws.end());
    CHECK(walk(context.work(1, 9, shared)) == all);
    CHECK(walk(context.work(1, 9, asked, Pass::own)) == walk(other));

    Cursor nowhere;
    CHECK(walk(Client{}.context(3).stream(nowhere, 5)).empty());
    CHECK(nowhere.pass == 0);
}

TEST_CASE("a context's weights and counts") {
    const Client client{{0, 1, 2, 3, 0, 1, 2}};
    CHECK(client.context(3).weight(Weigh::samples) == 7);
    CHECK(client.context(3).weight(Weigh::batches) == 3);
    CHECK(client.context(3).weight(Weigh::uniform) == 1);
    CHECK(client.context(7).batch_count() == 1);
    CHECK(client.context(8).batch_count() == 1);
    CHECK(client.context(0).batch_count() == 1);
    CHECK(client.context(1).batch_count() == 7);
    CHECK(client.context(std::numeric_limits<std::size_t>::max()).batch_count() == 1);
    CHECK(Client{}.context(3).batch_count() == 0);
    CHECK(Client{}.context(0).weight(Weigh::batches) == 0);
    CHECK(client.context(2).everything().size() == 7);
    CHECK_FALSE(client.context(2).everything().training());
}

}  // namespace batch_test
