// SPDX-License-Identifier: BSD-3-Clause
// A client's training data in two halves, one for its local model and one for what it shares, and two kinds of steps
// that take turns.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tessera/contracts/context.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>

namespace tessera {

// Batches in stored order, in turns; examples in an order drawn once per client; or all data for both.
enum class SplitBy : std::uint8_t { batch_interleave, sample_random, none };
constexpr std::array<std::string_view, 3> words_of(SplitBy) { return {"batch_interleave", "sample_random", "none"}; }

struct Halving {
    static constexpr auto offers = offer::validate;
    SplitBy split = SplitBy::batch_interleave;
    double ratio = 0.5;  // of the data that is the local model's

    void validate() const {
        detail::require(ratio > 0 && ratio < 1, "ratio must lie in (0, 1), not " + std::to_string(ratio) +
                                                    "; split = none gives all data to both");
    }
};

// Routing and global steps: one each per batch; a pass each in turns; or all of one kind before the other.
enum class Alternate : std::uint8_t { batch, epoch, router_first, global_first };
constexpr std::array<std::string_view, 4> words_of(Alternate) {
    return {"batch", "epoch", "router_first", "global_first"};
}

namespace detail {

// Where the sites' data lies; must outlive them.
class Halves {
public:
    template <class M>
    Halves(const Context<M>& at, const Halving& how) {
        const std::size_t n = at.ids.size();
        if (how.split == SplitBy::none || n < 2) {
            local_.assign(at.ids.begin(), at.ids.end());
            global_ = local_;
        } else if (how.split == SplitBy::sample_random) {
            Vec<Index> order(at.ids.begin(), at.ids.end());
            Stream(at.key(purpose::partition)(meaning)).shuffle(std::span<Index>(order));
            const auto wanted = static_cast<std::size_t>(std::lround(how.ratio * static_cast<double>(n)));
            const std::size_t cut = std::clamp<std::size_t>(wanted, 1, n - 1);
            local_.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(cut));
            global_.assign(order.begin() + static_cast<std::ptrdiff_t>(cut), order.end());
        } else {
            interleave(at.ids, at.batch_size(), how.ratio);
            if (local_.empty() || global_.empty()) interleave(at.ids, 1, how.ratio);  // too few batches for two halves
            if (global_.empty()) {
                global_.push_back(local_.back());
                local_.pop_back();
            }
        }
    }
    Halves(const Halves&) = delete;
    Halves& operator=(const Halves&) = delete;

    template <class M>
    Context<M> local(Context<M> at) const {
        at.ids = local_;
        return at;
    }
    template <class M>
    Context<M> global(Context<M> at) const {
        at.ids = global_;
        return at;
    }

private:
    static constexpr std::uint64_t meaning = 0x68616C66;

    // Piece k is local where k * ratio crosses a whole number: 0, 2, 4, ... for a half; 0, 4, 8, ... for a quarter.
    void interleave(std::span<const Index> ids, std::size_t piece, double ratio) {
        local_.clear();
        global_.clear();
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const auto k = static_cast<double>(i / piece);
            const bool mine = std::ceil((k + 1) * ratio) > std::ceil(k * ratio);
            (mine ? local_ : global_).push_back(ids[i]);
        }
    }

    Vec<Index> local_, global_;
};

// router(x, batch) and global(x, batch) over all batches of some epochs.
template <class R, class Router, class Global>
void take_turns(Alternate how, const Batches<R>& batches, std::size_t per_epoch, Vec<R>& x, Router& router,
                Global& global) {
    const std::size_t all = batches.size();
    const std::size_t turn = how == Alternate::batch ? 1 : how == Alternate::epoch ? per_epoch : all;
    for (std::size_t begin = 0; begin < all; begin += turn)
        for (const bool first : {true, false})
            for (std::size_t i = begin; i < std::min(all, begin + turn); ++i) {
                if (first == (how != Alternate::global_first)) router(x, batches[i]);
                else global(x, batches[i]);
            }
}

}  // namespace detail
}  // namespace tessera
