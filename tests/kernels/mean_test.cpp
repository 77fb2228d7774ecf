// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/mean.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/random.hpp>
#include <tessera/kernels/reference/expand.hpp>
#include <tessera/kernels/reference/mean.hpp>

#include <support/kernel_sets.hpp>
#include <support/toy_numbers.hpp>

namespace mean_test {

namespace {

using namespace tessera;
using namespace tessera::support;

// Around one vector, one line, one word of a mask and one tile.
const std::vector<std::size_t> sizes{0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 511, 512, 513, 1300};
const std::vector<std::size_t> counts{1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 40, 63, 65, 100};

enum class Weights { equal, mixed, some_zero };

// Rows with storage. Every vector ends where its memory ends and begins one element off any alignment.
template <class R>
struct Cohort {
    std::vector<std::vector<R>> values;
    std::vector<std::vector<std::uint64_t>> masks;
    std::vector<kernels::MeanRow<R>> rows;

    Cohort(std::size_t count, std::size_t n, Weights weights, double masked, std::uint64_t seed)
        : values(count), masks(count) {
        Stream draw(Key{seed});
        for (std::size_t k = 0; k < count; ++k) {
            const bool mask = draw.uniform() < masked;
            const double density = draw.uniform();
            std::size_t active = n;
            if (mask) {
                active = 0;
                masks[k].resize((n + 63) / 64);
                for (std::size_t j = 0; j < n; ++j)
                    if (draw.uniform() < density) {
                        masks[k][j / 64] |= std::uint64_t{1} << (j % 64);
                        ++active;
                    }
            }
            values[k] = toy_numbers<R>(active + 1, draw.word64());
            double weight = 3;
            if (weights != Weights::equal) weight = draw.uniform() < 0.3 ? 7 : draw.uniform();
            if (weights == Weights::some_zero && draw.uniform() < 0.5) weight = 0;
            rows.push_back({values[k].data() + 1, weight, mask ? masks[k].data() : nullptr});
        }
    }
};

template <class R>
bool same_bits(const std::vector<R>& a, const std::vector<R>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(R)) == 0);
}

template <class R>
std::vector<R> by_kernel(const Cohort<R>& cohort, std::size_t n, std::size_t cut = 0) {
    auto memory = toy_numbers<R>(n + 1, 9);
    const kernels::MeanPlan<R> plan(cohort.rows);
    if (cut > 0) plan.run(memory.data() + 1, cut, n);  // the later piece first
    plan.run(memory.data() + 1, 0, cut > 0 ? cut : n);
    return {memory.begin() + 1, memory.end()};
}

template <class R>
std::vector<R> by_recursion(const Cohort<R>& cohort, std::size_t n) {
    auto memory = toy_numbers<R>(n + 1, 9);
    kernels::reference::mean(std::span<const kernels::MeanRow<R>>(cohort.rows), memory.data() + 1, n);
    return {memory.begin() + 1, memory.end()};
}

}  // namespace

TEST_CASE_TEMPLATE("mean: worked by hand", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t n : {1u, 16u, 19u, 600u}) {
            const std::vector<R> a(n, 2), b(n, 5), c(n, 100);
            const std::vector<std::uint64_t> nowhere((n + 63) / 64);
            std::vector<kernels::MeanRow<R>> rows{{a.data(), 1}, {b.data(), 2}, {c.data(), 0}};
            std::vector<R> w(n, 8);
            kernels::MeanPlan<R>(rows).run(w.data(), 0, n);
            CHECK(w == std::vector<R>(n, 4));
            rows[1].mask = nowhere.data();  // reads 4, as w was
            kernels::MeanPlan<R>(rows).run(w.data(), 0, n);
            CHECK(std::abs(static_cast<double>(w[n - 1]) - 10.0 / 3) < 1e-6);
        }
    });
}

TEST_CASE_TEMPLATE("mean: every set gives the bits of the recursion", R, float, double) {
    for (const auto count : counts)
        for (const auto weights : {Weights::equal, Weights::mixed, Weights::some_zero})
            for (const double masked : {0.0, 0.5, 1.0}) {
                const std::size_t n = 70;
                const Cohort<R> cohort(count, n, weights, masked, count);
                const auto expected = by_recursion(cohort, n);
                for_each_kernel_set([&](std::string_view set) {
                    CAPTURE(set);
                    CAPTURE(count);
                    CAPTURE(masked);
                    REQUIRE(same_bits(by_kernel(cohort, n), expected));
                });
            }
}

TEST_CASE_TEMPLATE("mean: around every width and tile, whole or cut between tiles", R, float, double) {
    for (const auto n : sizes)
        for (const double masked : {0.0, 0.7}) {
            const Cohort<R> cohort(11, n, Weights::mixed, masked, n + 1);
            const auto expected = by_recursion(cohort, n);
            for_each_kernel_set([&](std::string_view set) {
                CAPTURE(set);
                CAPTURE(n);
                REQUIRE(same_bits(by_kernel(cohort, n), expected));
                for (std::size_t cut = kernels::mean_tile; cut < n; cut += kernels::mean_tile)
                    REQUIRE(same_bits(by_kernel(cohort, n, cut), expected));
            });
        }
}

// mean_fetch() for the length of a scope.
class Fetched {
public:
    explicit Fetched(kernels::MeanFetch how) : before_(std::exchange(kernels::mean_fetch(), how)) {}
    Fetched(const Fetched&) = delete;
    Fetched& operator=(const Fetched&) = delete;
    ~Fetched() { kernels::mean_fetch() = before_; }

private:
    kernels::MeanFetch before_;
};

TEST_CASE_TEMPLATE("mean: the same bits whichever cache rows are fetched into, around both tiles", R, float, double) {
    for (const std::size_t n : {70u, 1023u, 1025u, 4095u, 4096u, 4097u, 5300u}) {
        const Cohort<R> cohort(19, n, Weights::mixed, 0, n + 1);
        const auto expected = by_recursion(cohort, n);
        for (const auto how : {kernels::near_fetch, kernels::far_fetch}) {
            const Fetched fetched(how);
            for_each_kernel_set([&](std::string_view set) {
                CAPTURE(set);
                CAPTURE(n);
                CAPTURE(how.near);
                REQUIRE(same_bits(by_kernel(cohort, n), expected));
                for (std::size_t cut = kernels::mean_tile; cut < n; cut += kernels::mean_tile)
                    REQUIRE(same_bits(by_kernel(cohort, n, cut), expected));
            });
        }
    }
}

TEST_CASE_TEMPLATE("mean: widen, join and divide one after the other give the same bits", R, float, double) {
    struct Sum {
        std::vector<double> values;
        kernels::MeanWeight weight;
    };
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const auto n : sizes) {
            CAPTURE(n);
            const Cohort<R> cohort(11, n, Weights::mixed, 0, n + 1);
            std::vector<Sum> sums;
            for (const auto& row : cohort.rows) {
                sums.push_back({std::vector<double>(n), {1, row.weight}});
                kernels::widen(row.x, sums.back().values.data(), n);
            }
            for (std::size_t wide = 1; wide < sums.size(); wide *= 2)
                for (std::size_t k = 0; k + wide < sums.size(); k += 2 * wide) {
                    const auto s = kernels::join(sums[k].weight, sums[k + wide].weight);
                    kernels::join_sums(sums[k].values.data(), s.left, sums[k + wide].values.data(), s.right, n);
                }
            std::vector<R> w(n);
            kernels::quotient(sums[0].values.data(), sums[0].weight.total, w.data(), n);
            REQUIRE(same_bits(w, by_kernel(cohort, n)));
        }
    });
}

TEST_CASE("mean: the comparison notices another tree and another weight") {
    Cohort<double> cohort(11, 200, Weights::mixed, 0, 5);
    const auto expected = by_recursion(cohort, 200);
    std::swap(cohort.rows[2], cohort.rows[9]);
    CHECK_FALSE(same_bits(by_kernel(cohort, 200), expected));
    std::swap(cohort.rows[2], cohort.rows[9]);
    cohort.rows[4].weight *= 1 + 1e-12;
    CHECK_FALSE(same_bits(by_kernel(cohort, 200), expected));
}

TEST_CASE_TEMPLATE("mean: zeros keep their sign, and nothing is in the way of infinities", R, float, double) {
    const R infinity = std::numeric_limits<R>::infinity();
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t count : {1u, 3u, 9u, 20u}) {
            const std::vector<R> minus(70, R(-0.0)), huge(70, infinity);
            std::vector<kernels::MeanRow<R>> rows(count, {minus.data(), 0});
            rows[count / 2].weight = 2;
            std::vector<R> w(70, 1);
            kernels::MeanPlan<R>(rows).run(w.data(), 0, 70);
            for (const R x : w) CHECK((x == 0 && std::signbit(x)));
            for (auto& row : rows)
                if (row.weight == 0) row.x = huge.data();  // not even looked at
            kernels::MeanPlan<R>(rows).run(w.data(), 0, 70);
            for (const R x : w) CHECK((x == 0 && std::signbit(x)));
        }
        std::vector<R> w(70, 3);
        kernels::MeanPlan<R>(std::span<const kernels::MeanRow<R>>{}).run(w.data(), 0, 70);
        CHECK(w == std::vector<R>(70, 3));
    });
}

TEST_CASE_TEMPLATE("expand: packed numbers find their places in every set", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const auto n : sizes)
            for (const double density : {0.0, 0.1, 0.5, 1.0}) {
                CAPTURE(n);
                CAPTURE(density);
                Stream draw(Key{n});
                std::vector<std::uint64_t> mask((n + 63) / 64);
                std::size_t active = 0;
                for (std::size_t j = 0; j < n; ++j)
                    if (draw.uniform() < density) {
                        mask[j / 64] |= std::uint64_t{1} << (j % 64);
                        ++active;
                    }
                const auto before = toy_numbers<R>(n, 1), packed = toy_numbers<R>(active, 2);
                std::vector<R> out(n), expected(n);
                const R *from = packed.data(), *by_loop = packed.data();
                kernels::expand(&from, mask.data(), before.data(), out.data(), n);
                kernels::reference::expand(&by_loop, mask.data(), before.data(), expected.data(), n);
                REQUIRE(out == expected);
                REQUIRE(from == by_loop);
                if (n > 30 && density == 0.5) REQUIRE(out != before);
            }
    });
}

}  // namespace mean_test
