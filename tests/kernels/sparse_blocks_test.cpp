// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/sparse_blocks.hpp>

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/sparse_blocks.hpp>

#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace sparse_blocks_test {

namespace {

using namespace tessera;
using namespace tessera::support;

template <class R>
std::size_t width_of_set(std::size_t left) {
    switch (kernels::active()) {
        case kernels::Set::portable: return kernels::detail::block_width<R, 16>(left);
        case kernels::Set::avx2: return kernels::detail::block_width<R, 32>(left);
        default: return kernels::detail::block_width<R, 64>(left);
    }
}

// Batches around every register and block of every set; numbers around every register, and none.
const std::vector<std::size_t> batches{0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 127,
                                       128, 129, 200};
const std::vector<std::size_t> widths{0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 50};

// Rows that are no neighbours, in falling order, each one number off the last one's alignment.
template <class R>
struct Rows {
    std::vector<R> numbers;
    std::vector<const R*> rows;

    Rows(std::size_t batch, std::size_t width) : numbers(toy_numbers<R>(batch * (width + 1) + 1, 1)), rows(batch) {
        for (std::size_t i = 0; i < batch; ++i) rows[i] = numbers.data() + 1 + (batch - 1 - i) * (width + 1);
    }
};
constexpr std::size_t behind = 32;  // nothing may be written there

}  // namespace

TEST_CASE_TEMPLATE("every kernel set copies to blocks and back, and adds up, as the plain loops do", R, float, double) {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (const std::size_t batch : batches)
            for (const std::size_t numbers : widths) {
                CAPTURE(batch);
                CAPTURE(numbers);
                const std::size_t examples = kernels::padded<R>(batch);
                const Rows<R> from(batch, numbers);
                std::vector<R> got(examples * numbers + behind, R(7)), should = got;
                kernels::to_blocks(from.rows.data(), got.data(), batch, numbers, examples);
                kernels::reference::to_blocks(from.rows.data(), should.data(), batch, numbers, examples,
                                              width_of_set<R>);
                CHECK(got == should);

                std::vector<R> rows(batch * numbers + behind, R(7)), plain = rows;
                kernels::from_blocks(should.data(), rows.data(), batch, numbers, examples);
                kernels::reference::from_blocks(should.data(), plain.data(), batch, numbers, examples, width_of_set<R>);
                CHECK(rows == plain);
                for (std::size_t i = 0; i < batch; ++i)
                    CHECK(std::vector<R>(from.rows[i], from.rows[i] + numbers) ==
                          std::vector<R>(rows.data() + i * numbers, rows.data() + (i + 1) * numbers));

                std::vector<R> sums(numbers + behind, R(7));
                kernels::block_sums(should.data(), sums.data(), numbers, examples);
                for (std::size_t i = 0; i < behind; ++i) CHECK(sums[numbers + i] == 7);
                sums.resize(numbers);
                const auto wide = converted<Wide<R>>(should), positive = magnitudes(wide);
                std::vector<Wide<R>> exact(numbers), terms(numbers);
                kernels::reference::block_sums(wide.data(), exact.data(), numbers, examples, width_of_set<R>);
                kernels::reference::block_sums(positive.data(), terms.data(), numbers, examples, width_of_set<R>);
                CHECK(within(sums, exact, terms, examples));
            }
    });
}

TEST_CASE("blocks of another set are seen") {
    for_each_kernel_set([&](auto set) {
        if (set == "portable") return;
        const Rows<float> from(96, 5);
        std::vector<float> got(96 * 5), other(96 * 5);
        kernels::to_blocks(from.rows.data(), got.data(), 96, 5, 96);
        kernels::reference::to_blocks(from.rows.data(), other.data(), 96, 5, 96,
                                      kernels::detail::block_width<float, 16>);
        CHECK(got != other);
    });
}

}  // namespace sparse_blocks_test
