// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/privacy/sampling.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/context.hpp>

#include <support/quadratic.hpp>

namespace sampling_test {

using namespace tessera;

namespace {
using Model = support::Quadratic<>;

class Ten {  // ten examples in batches of four
public:
    Ten() : pool_(data::Dataset::regression(std::vector<double>(10, 1.0), std::vector<double>(10, 0.0))) {
        std::iota(ids_.begin(), ids_.end(), Index{0});
    }
    Context<Model> context() const {
        return {.model = &model_, .examples = &pool_.examples(), .ids = ids_, .key = Key{5}, .batch = 4};
    }

private:
    Model model_;
    data::Dataset pool_;
    std::array<Index, 10> ids_{};
};
}  // namespace

TEST_CASE("Poisson: a step is one on a sample of the rate, divided by what is expected") {
    const Ten ten;
    const auto at = ten.context();
    const auto b = at.everything();
    CHECK(sampling::Poisson::expected(at, 0.25) == 2.5);
    const Spent cost = sampling::Poisson::cost(at, 0.25, 1.5, 7);
    CHECK(cost.rate == 0.25);
    CHECK(cost.noise == 1.5);
    CHECK(cost.steps == 1);
    CHECK(sampling::Poisson::draw(at, b, 1, Key{1})[0].size() == 10);
    double sizes = 0;
    bool vary = false;
    for (std::uint64_t k = 0; k < 400; ++k) {
        const std::size_t size = sampling::Poisson::draw(at, b, 0.25, Key{k})[0].size();
        sizes += static_cast<double>(size);
        vary = vary || size != 2;
    }
    CHECK(std::fabs(sizes / 400 - 2.5) < 0.35);  // five deviations of the mean of 400 binomials (10, 1/4)
    CHECK(vary);
}

TEST_CASE("epochs: the batch as it came; three batches are one step on all data with half the noise") {
    const Ten ten;
    const auto at = ten.context();
    const auto batches = at.epochs(1);
    CHECK(sampling::Epochs::draw(at, batches[2], 0.1, Key{1})[0].size() == 2);
    CHECK(sampling::Epochs::expected(at, 0.1) == 4);
    std::uint64_t steps = 0;
    for (std::uint64_t k = 0; k < 6; ++k) {
        const Spent cost = sampling::Epochs::cost(at, 0.1, 3, k);
        CHECK(cost.rate == 1);
        CHECK(cost.noise == 1.5);
        steps += cost.steps;
    }
    CHECK(steps == 2);
}

}  // namespace sampling_test
