// SPDX-License-Identifier: BSD-3-Clause
// Adds up a cohort as it arrives, along one binary tree over cohort positions: whatever the order of
// arrival and the number of threads, the additions are the same. Positions may stay empty.
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include <tessera/contracts/fold.hpp>

namespace tessera {

template <class F, class R>
class CohortSum {
public:
    using Sum = sum_t<F, R>;

    void begin(std::size_t positions) {
        positions_ = positions;
        leaves_ = std::bit_ceil(positions > 0 ? positions : 1);
        waiting_.clear();
        waiting_.resize(2 * leaves_);
        here_.assign(2 * leaves_, 0);
        root_ = Sum{};
    }

    // Called once per position, from any thread. Adding happens outside the lock.
    void arrive(const F& fold, std::size_t position, Sum sum) {
        std::size_t node = leaves_ + position, first = position, span = 1;
        while (node > 1) {
            const bool is_left = node % 2 == 0;
            const bool has_sibling = !is_left || first + span < positions_;
            if (has_sibling) {
                Sum sibling;
                {
                    const std::scoped_lock hold(*lock_);
                    if (!here_[node ^ 1]) {
                        here_[node] = 1;
                        waiting_[node] = std::move(sum);
                        return;
                    }
                    sibling = std::move(waiting_[node ^ 1]);
                }
                Sum& left = is_left ? sum : sibling;
                add_sums<R>(fold, left, is_left ? sibling : sum);
                if (!is_left) sum = std::move(sibling);
            }
            if (!is_left) first -= span;
            node /= 2;
            span *= 2;
        }
        root_ = std::move(sum);
    }

    const Sum& total() const { return root_; }

private:
    std::size_t positions_ = 0, leaves_ = 1;
    Vec<Sum> waiting_;
    Vec<unsigned char> here_;
    Sum root_;
    std::unique_ptr<std::mutex> lock_ = std::make_unique<std::mutex>();  // so that a federation can be moved
};

}  // namespace tessera
