// SPDX-License-Identifier: BSD-3-Clause
// Adds up a cohort as it arrives, along one binary tree over cohort positions: whatever the order of
// arrival and the number of threads, the additions are the same; and of ranks. Positions may stay empty.
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include <tessera/contracts/fold.hpp>
#include <tessera/contracts/place.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/runtime/setup.hpp>

namespace tessera {

template <class F, class R>
class CohortSum {
public:
    using Sum = sum_t<F, R>;
    // Whether a partial sum can go from one process to another, as plain structs can.
    static constexpr bool crosses = detail::storable<Sum>();

    void begin(std::size_t positions) {
        positions_ = positions;
        leaves_ = std::bit_ceil(positions > 0 ? positions : 1);
        waiting_.clear();
        waiting_.resize(2 * leaves_);
        here_.assign(2 * leaves_, 0);
        root_ = Sum{};
    }

    // Called once per position, from any thread. Adding happens outside the lock.
    void arrive(const F& fold, std::size_t position, Sum sum) { climb(fold, position, 1, std::move(sum)); }

    // Where the leaves are owned by several ranks, in ranges, and each rank's own have arrived: a right sum whose left
    // one is elsewhere goes there. The additions are those of one process; the total ends on rank 0.
    template <class Owner>
        requires crosses
    void cross(const F& fold, Place& place, Owner&& owner) {
        const std::size_t me = place.rank();
        for (std::size_t span = 1; span < positions_; span *= 2)
            for (std::size_t first = 0; first + span < positions_; first += 2 * span) {
                const std::size_t left = owner(first), right = owner(first + span);
                if (left == right) continue;
                Sum& waits = waiting_[(leaves_ + first + span) / span];
                if (me == right) {
                    place.send(left, encoded(waits));
                    waits = Sum{};
                } else if (me == left) {
                    climb(fold, first + span, span, decode<Sum>(place.receive(right)));
                }
            }
        if (const std::size_t last = positions_ > 0 ? owner(0) : 0; last != 0) {
            if (me == last) place.send(0, encoded(root_));
            if (me == 0) root_ = decode<Sum>(place.receive(last));
        }
    }

    const Sum& total() const { return root_; }

private:
    static Bytes encoded(const Sum& sum) {
        Bytes out;
        out.reserve(wire_size(sum));
        put(out, sum);
        return out;
    }

    // The sum of `span` positions from `first` on.
    void climb(const F& fold, std::size_t first, std::size_t span, Sum sum) {
        std::size_t node = (leaves_ + first) / span;
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

    std::size_t positions_ = 0, leaves_ = 1;
    Vec<Sum> waiting_;
    Vec<unsigned char> here_;
    Sum root_;
    std::unique_ptr<std::mutex> lock_ = std::make_unique<std::mutex>();  // so that a federation can be moved
};

}  // namespace tessera
