// SPDX-License-Identifier: BSD-3-Clause
// A gate that reads features: each block is routed by what it is about to read, which the block below has made of both
// branches, and not by the raw example (only the lowest block reads that).
//
//   h_j, what block j reads  ->  hidden, ReLU, dropout  ->  2, softmax: (q0, q1)
//
// One small net for each block; on a convolutional net its inputs are planes of features, far fewer than pixels behind
// some pooling, or more. By way of what blocks read a router's slopes reach the branches below.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include <tessera/contracts/gate.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/gate/detail/tower.hpp>

namespace tessera::gate {

struct Features {
    static constexpr auto offers = offer::validate | offer::forward_flops;
    std::size_t hidden = 32;  // width of each block's net
    double dropout = 0.3;     // in training batches only

    Vec<Segment> segments(const Routes& routes) const {
        Vec<Segment> all;
        std::size_t block = 0, questions = 0;
        for (const Shown& shown : routes.shown) {
            shape(shown).add_segments("router." + std::to_string(block++), all);
            questions += shown.asks;
        }
        tessera::detail::require(
            questions == routes.blocks && block > 0,
            "gate::Features: it reads what blocks read, and this model shows nothing of that; a gate "
            "for its raw examples is gate::AnyChain");
        return all;
    }
    template <class R>
    auto route(const Routes& routes, In<R> psi, const Batch<R>& batch, Out<R> dpsi) const {
        return Asked<R>(*this, routes.shown, psi, batch, dpsi);
    }
    double forward_flops(const Routes& routes) const {
        double sum = 0;
        for (const Shown& shown : routes.shown)
            sum += static_cast<double>(2 * shown.asks) * static_cast<double>(shape(shown).parameters());
        return sum;
    }
    void validate() const {
        tessera::detail::require(hidden > 0 && hidden <= 65536,
                                 "hidden lies in 1 .. 65536, not " + std::to_string(hidden));
        tessera::detail::require(dropout >= 0 && dropout < 1,
                                 "dropout must lie in [0, 1), not " + std::to_string(dropout));
    }

private:
    detail::TowerShape shape(const Shown& shown) const {
        detail::TowerShape s{.inputs = shown.input, .hidden = 1, .exits = 1, .dropout = dropout};
        s.widths[0] = hidden;
        return s;
    }

    template <class R>
    class Asked final : public Routing<R> {
    public:
        Asked(const Features& gate, const Vec<Shown>& blocks, In<R> psi, const Batch<R>& batch, Out<R> dpsi)
            : blocks_(blocks), batch_(batch.size()), keeps_(batch.training() || !dpsi.empty()) {
            std::size_t at = 0, number = 0;
            for (const Shown& shown : blocks_) {
                const auto s = gate.shape(shown);
                nets_.emplace_back(s, psi.data() + at, dpsi.empty() ? nullptr : dpsi.data() + at, shown.asks, batch_,
                                   batch.training(), batch.draw()(meaning)(number++), keeps_);
                at += s.parameters();
            }
        }
        bool wants_gradient() const override { return true; }  // also for the branches' sake
        void ask(std::size_t j, In<R> seen, Out<R> q0) override {
            const auto [block, question] = place(j);
            show(block, question, seen);
            nets_[block].forward(question);
            nets_[block].shares(0, question, q0);
        }
        void answer(std::size_t j, In<R> seen, In<R> dq0, Out<R> dseen) override {
            const auto [block, question] = place(j);
            const Shown& shown = blocks_[block];
            if (!keeps_) show(block, question, seen);
            const Scratch<R> dx(batch_ * shown.input);
            nets_[block].answer(0, question, dq0);
            nets_[block].backward(question, dx.data());
            std::fill(dseen.begin(), dseen.end(), R(0));
            for (std::size_t i = 0; i < batch_; ++i)
                std::copy_n(dx.data() + i * shown.input, shown.input, dseen.data() + i * shown.width());
            if (question == 0) nets_[block].weights();  // the last one of the block
        }

    private:
        static constexpr std::uint64_t meaning = 0x6665617475726573;  // draws that no layer of the model makes

        struct Place {
            std::size_t block, question;
        };
        Place place(std::size_t j) const {
            std::size_t block = 0;
            while (j >= blocks_[block].asks) j -= blocks_[block++].asks;
            return {block, j};
        }
        void show(std::size_t block, std::size_t question, In<R> seen) {
            const Shown& shown = blocks_[block];
            R* to = nets_[block].inputs(question);
            for (std::size_t i = 0; i < batch_; ++i)
                std::copy_n(seen.data() + i * shown.width(), shown.input, to + i * shown.input);
        }

        const Vec<Shown>& blocks_;
        std::size_t batch_;
        bool keeps_;
        std::deque<detail::Tower<R>, ArenaAllocator<detail::Tower<R>>> nets_;
    };
};

}  // namespace tessera::gate
