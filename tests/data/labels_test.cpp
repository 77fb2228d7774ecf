// SPDX-License-Identifier: BSD-3-Clause
// Examples with several labels or targets, and rows of whole numbers.
#include <tessera/data/dataset.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/data/partition/dirichlet.hpp>
#include <tessera/data/partition/iid.hpp>
#include <tessera/data/shift.hpp>
#include <tessera/data/transform.hpp>

namespace labels_test {

namespace {

using namespace tessera;
using data::Dataset;
using doctest::Contains;

const std::vector<std::int32_t> labels{0, 2, -1, 1, -5, -1};  // three an example

}  // namespace

TEST_CASE("several labels an example are kept, borrowed and read in order") {
    const std::vector<float> rows{1, 2, 3, 4};
    const std::vector<Index> swapped{1, 0};
    for (const auto& data : {Dataset::own(rows, labels, 3, 3), Dataset::borrow(rows, labels, 3, 3)}) {
        CHECK(data.size() == 2);
        CHECK(data.examples().width == 2);
        CHECK(!data.examples().one_label());
        const Batch<double> batch(data.examples(), swapped);
        CHECK(batch.label(0, 0) == 1);
        CHECK(batch.label(0, 1) < 0);
        CHECK(batch.label(1, 1) == 2);
        CHECK(batch.labelled(0) == 1);
        CHECK(batch.labelled() == 3);
        CHECK(batch.part(1, 1).labelled() == 2);
    }
    CHECK_THROWS_WITH_AS(Dataset::own(rows, labels, 3, 4), "data::Dataset: 6 labels are not 4 for each example",
                         ConfigError);
    CHECK_THROWS_WITH_AS(Dataset::own(rows, labels, 2, 3),
                         "data::Dataset: label 2 of example 0 is not a class in 0..2-1", ConfigError);
    CHECK_THROWS_AS(Dataset::own(rows, {0, -1}, 2), ConfigError);  // a lone label must be there
    CHECK_THROWS_AS(Dataset::own(rows, labels, 3, 0), ConfigError);
}

TEST_CASE("what is hashed: every label and target, and how many an example has") {
    const std::vector<float> rows(12);
    const auto of = [&](std::vector<std::int32_t> all, std::size_t each) {
        return Dataset::own(rows, std::move(all), 3, each).fingerprint();
    };
    auto other = labels;
    other[5] = 2;
    CHECK(of(labels, 3) == of(labels, 3));
    CHECK(of(labels, 3) != of(other, 3));
    CHECK(of({0, 1, 2, 0, 1, 2}, 3) != of({0, 1, 2, 0, 1, 2}, 2));
    const auto targets = [&](std::vector<double> all, std::size_t each) {
        return Dataset::regression(rows, std::move(all), each).fingerprint();
    };
    CHECK(targets({1, 2, 3, 4}, 2) != targets({1, 2, 3, 5}, 2));
    CHECK(targets({1, 2, 3, 4}, 2) != targets({1, 2, 3, 4}, 1));
    const auto whole = [](std::vector<std::int32_t> ids) { return Dataset::own(std::move(ids), {0}, 1).fingerprint(); };
    CHECK(whole({1, 2}) != whole({1, 3}));
}

TEST_CASE("several real targets, of rows of any kind") {
    const auto data = Dataset::regression(std::vector<float>{1, 2}, {1, 2, 3, 4}, 2);
    CHECK(data.size() == 2);
    CHECK(data.examples().storage == Storage::float32);
    const std::vector<Index> last{1};
    CHECK(Batch<float>(data.examples(), last).target(0, 1) == 4);
    CHECK_THROWS_WITH_AS(Dataset::regression({1, 2}, {1, 2, std::nan("")}, 3),
                         "data::Dataset: a target of example 0 is not a finite number", ConfigError);
    CHECK_THROWS_WITH_AS(Dataset::regression({1, 2}, {1, 2, 3}, 2),
                         "data::Dataset: 3 targets are not 2 for each example", ConfigError);
}

TEST_CASE("whole numbers are read as they are, also where float has no room for them") {
    const std::vector<std::int32_t> ids{0, 16'777'217, -3, 7};
    const auto data = Dataset::own(ids, {0, 1}, 2);
    CHECK(data.examples().storage == Storage::int32);
    const std::vector<Index> second{1}, first{0};
    CHECK(Batch<double>(data.examples(), second).inputs() == Vec<double>{-3, 7});
    CHECK(Batch<double>(data.examples(), first).inputs() == Vec<double>{0, 16'777'217});
    CHECK(Batch<double>(data.examples(), first).row(0) == nullptr);
    CHECK(Batch<float>(data.examples(), first).bytes(0) == nullptr);
}

TEST_CASE("readings keep the labels, one or several, and targets of their source") {
    const auto several = data::standardised_each(Dataset::own(std::vector<float>{1, 2, 3, 4}, labels, 3, 3));
    CHECK(several.examples().labels_each == 3);
    CHECK(several.examples().labels[1] == 2);
    CHECK(several.examples().storage == Storage::callback);
    const auto real = data::standardised_each(Dataset::regression({1, 2, 3, 4}, {5, 6}));
    CHECK(real.examples().targets[1] == 6);
    const auto marked = data::one_hot(Dataset::multi_label(std::vector<float>{0, 1}, {1, 0, 1, 1}, 2), 2);
    CHECK(marked.examples().multi_hot[3] == 1);
    CHECK(marked.examples().width == 2);
    const data::ImageShape shape{2, 1};
    const auto bright = data::shifted(Dataset::own(std::vector<float>{0, 0.5, 1, 0}, labels, 3, 3), shape,
                                      {data::Corruption::brightness, 1}, std::vector<Index>{1});
    CHECK(bright.size() == 1);
    CHECK(bright.examples().labels_each == 3);
    CHECK(bright.examples().labels[0] == 1);
}

TEST_CASE("what needs one class an example says so") {
    std::vector<std::int32_t> many(60);
    const auto pool = Dataset::own(std::vector<float>(60), many, 2, 3);
    data::PartitionSettings settings;
    settings.clients = 2;
    settings.train_size = 15;
    CHECK_THROWS_WITH_AS(data::Dirichlet{}(pool, settings), Contains("the pool has 3 labels an example"), ConfigError);
    CHECK_NOTHROW(data::Iid{}(pool, settings));
    const data::FederatedDataset clients(pool, data::Iid{}(pool, settings));
    CHECK_THROWS_WITH_AS((data::Augment{.shape = {3, 1}, .padding = 0}(clients)), Contains("3 labels each"),
                         ConfigError);
    CHECK_THROWS_WITH_AS(data::shifted(Dataset::own(std::vector<std::int32_t>{1, 2}, {0}, 1), {2, 1}, {}),
                         "data::shifted: rows of whole numbers are no images", ConfigError);
}

}  // namespace labels_test
