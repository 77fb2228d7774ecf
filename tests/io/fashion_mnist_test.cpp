// SPDX-License-Identifier: BSD-3-Clause
// Alone in its file: without the files the whole of it is skipped.
#include <tessera/io/fashion_mnist.hpp>

#include <array>
#include <cstddef>

#include <doctest/doctest.h>

#include <tessera/data/normalise.hpp>

namespace fashion_mnist_test {

using namespace tessera;
using namespace tessera::io;

TEST_CASE("Fashion-MNIST as it is published") {
    const auto directory = find_fashion_mnist();
    if (!directory) {
        MESSAGE("skipped: Fashion-MNIST is not installed (Debian package dataset-fashion-mnist)");
        return;
    }
    const auto pool = load_fashion_mnist(*directory);
    REQUIRE(pool.size() == 70000);
    CHECK(pool.examples().width == 784);
    std::array<std::size_t, 10> train{}, test{};
    for (std::size_t i = 0; i < 70000; ++i)
        ++(i < fashion_mnist_train_size ? train : test)[static_cast<std::size_t>(pool.label(i))];
    for (std::size_t c = 0; c < 10; ++c) {
        CHECK(train[c] == 6000);
        CHECK(test[c] == 1000);
    }
    // The first training image is an ankle boot, the first test image too; widely printed means are 0.2860 and 0.3530.
    CHECK(pool.label(0) == 9);
    CHECK(pool.label(60000) == 9);
    const auto view = data::standardised(pool).examples();
    CHECK(view.shift / 255 == doctest::Approx(0.2861).epsilon(0.002));
    CHECK(1 / view.scale / 255 == doctest::Approx(0.3530).epsilon(0.002));
}

}  // namespace fashion_mnist_test
