// SPDX-License-Identifier: BSD-3-Clause
// Flow's routers of language models (Panchal et al., NeurIPS 2023): they read what branches hold, at every position.
//
//   cells           [x; h_g, c_g; h_l, c_l] -> first -> ... -> 2      x: what the lowest cell reads. One net serves all
//   other blocks    [y_g; y_l] -> dense_first -> ... , an exit to 2 behind each of the last widths, one for each block;
//                   y: what the first of these blocks puts out
//
//   States{}                     1032 -> 500 -> 250 -> 100 -> 50 -> 2 (Shakespeare)
//   States{.whole = false}       h alone: 1436 -> ..., and 192 -> 75 -> 30 -> 10 (Stack Overflow)
//
// ReLU and dropout stand behind each hidden layer, ReLU behind exits of other blocks; softmax makes (q0, q1). Dropout
// acts in training batches only. By way of the states a router's slopes reach the branches.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tessera/contracts/gate.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/gate/detail/tower.hpp>

namespace tessera::gate {

struct States {
    static constexpr auto offers = offer::validate | offer::forward_flops;
    std::size_t first = 500, second = 250, third = 100, fourth = 50;    // widths of the cells' router; 0 ends the list
    std::size_t dense_first = 75, dense_second = 30, dense_third = 10;  // of the other blocks' router
    bool whole = true;  // all of a cell's state is read, an LSTM's h and c; false: h, which it puts out
    double dropout = 0.3;

private:
    static constexpr std::size_t widest = 65536;

    // The blocks of a model as the two routers see them.
    struct Plan {
        std::size_t cells = 0, others = 0;
        Shown cell{.asks = 0}, other{.asks = 0};  // the first of each
        detail::TowerShape of_cells{}, of_others{};
        std::size_t read = 0;  // numbers of a cell

        std::size_t questions() const { return cells * cell.asks + others * other.asks; }
    };
    static std::size_t fill(detail::TowerShape& shape, std::array<std::size_t, 4> widths) {
        while (shape.hidden < widths.size() && widths[shape.hidden] > 0) ++shape.hidden;
        shape.widths = widths;
        return shape.hidden;
    }
    Plan plan(const Routes& routes) const {
        Plan p;
        for (const Shown& block : routes.shown) {
            const bool cell = block.recurs;
            Shown& like = cell ? p.cell : p.other;
            if ((cell ? p.cells : p.others)++ == 0) like = block;
            if (block.asks != like.asks || (cell && (block.held != like.held || block.out != like.out)))
                throw ConfigError(cell ? "gate::States: one router serves all cells, so they must hold as many "
                                         "numbers, at as many positions"
                                       : "gate::States: one router serves all blocks that are no cells, so they must "
                                         "be asked alike; a recipe says which are `by_position` and which `unrouted`");
        }
        if (p.questions() == 0 || p.questions() != routes.blocks)
            throw ConfigError("gate::States: it reads what branches hold, and this model shows nothing of that");
        p.read = whole ? p.cell.held : p.cell.out;
        p.of_cells = {.inputs = p.cell.input + 2 * p.read, .exits = p.cells > 0 ? 1u : 0u, .dropout = dropout};
        p.of_others = {.inputs = 2 * p.other.held, .exits = p.others, .dropout = dropout, .bent = true};
        if (p.cells > 0) fill(p.of_cells, {first, second, third, fourth});
        if (p.others > fill(p.of_others, {dense_first, dense_second, dense_third, 0}))
            throw ConfigError("gate::States: " + std::to_string(p.of_others.hidden) +
                              " dense widths have exits for as many blocks, and the model has " +
                              std::to_string(p.others) + " that are no cells");
        if (p.others == 0) p.of_others = {};
        return p;
    }

    template <class R>
    class Asked final : public Routing<R> {
    public:
        Asked(const Plan& plan, const Vec<Shown>& blocks, In<R> psi, const Batch<R>& batch, Out<R> dpsi)
            : p_(plan),
              blocks_(&blocks),
              batch_(batch.size()),
              keeps_(batch.training() || !dpsi.empty()),
              cells_(p_.of_cells, psi.data(), dpsi.data(), p_.cells * p_.cell.asks, batch_, batch.training(),
                     batch.draw()(meaning)(0), keeps_),
              others_(p_.of_others, psi.data() + p_.of_cells.parameters(),
                      dpsi.empty() ? nullptr : dpsi.data() + p_.of_cells.parameters(), p_.other.asks, batch_,
                      batch.training(), batch.draw()(meaning)(1), keeps_),
              words_(p_.cell.asks * batch_ * p_.cell.input),
              dwords_(words_.size()) {
            std::fill_n(dwords_.data(), dwords_.size(), R(0));
        }
        bool wants_gradient() const override { return true; }  // also for the branches' sake
        void ask(std::size_t j, In<R> seen, Out<R> q0) override {
            const Place at = place(j);
            if (at.block->recurs) {
                keep_words(at, seen);
                show_cell(at, seen);
                cells_.forward(at.row(p_));
                cells_.shares(0, at.row(p_), q0);
            } else {
                if (at.number == 0) {
                    show_other(at, seen);
                    others_.forward(at.position);
                }
                others_.shares(at.number, at.position, q0);
            }
        }
        void answer(std::size_t j, In<R> seen, In<R> dq0, Out<R> dseen) override {
            const Place at = place(j);
            const Shown& block = *at.block;
            std::fill(dseen.begin(), dseen.end(), R(0));
            const bool cell = block.recurs;
            if (!cell) others_.answer(at.number, at.position, dq0);
            if (!cell && at.number > 0) return;  // the tower is visited where it was shown something
            const std::size_t x = cell ? p_.cell.input : 0, read = cell ? p_.read : block.held,
                              width = x + 2 * read;
            const Scratch<R> dx(batch_ * width);
            if (cell) {
                if (!keeps_) show_cell(at, seen);
                cells_.answer(0, at.row(p_), dq0);
                cells_.backward(at.row(p_), dx.data());
            } else {
                if (!keeps_) show_other(at, seen);
                others_.backward(at.position, dx.data());
            }
            for (std::size_t i = 0; i < batch_; ++i) {
                const R* from = dx.data() + i * width;
                R *to = dseen.data() + i * block.width(), *dword = words_at(dwords_, at.position, i);
                for (std::size_t k = 0; k < x; ++k) dword[k] += from[k];
                if (at.number == 0) std::copy_n(dword, x, to);
                std::copy_n(from + x, read, to + block.input);
                std::copy_n(from + x + read, read, to + block.input + block.held);
            }
            if (at.number == 0 && at.position == 0) (cell ? cells_ : others_).weights();
        }

    private:
        static constexpr std::uint64_t meaning = 0x737461746573;  // draws that no layer of the model makes

        struct Place {
            const Shown* block;
            std::size_t number;    // of the block among cells, or among the others
            std::size_t position;  // of the question in the block

            std::size_t row(const Plan& p) const { return number * p.cell.asks + position; }
        };
        Place place(std::size_t j) const {
            std::array<std::size_t, 2> number{};
            const Shown* block = blocks_->data();
            for (; j >= block->asks; ++block) {
                j -= block->asks;
                ++number[block->recurs];
            }
            return {block, number[block->recurs], j};
        }
        R* words_at(const Scratch<R>& words, std::size_t position, std::size_t i) const {
            return words.data() + (position * batch_ + i) * p_.cell.input;
        }
        // What the lowest cell reads, which all cells' router reads.
        void keep_words(const Place& at, In<R> seen) const {
            for (std::size_t i = 0; at.number == 0 && i < batch_; ++i)
                std::copy_n(seen.data() + i * at.block->width(), p_.cell.input, words_at(words_, at.position, i));
        }
        void show_cell(const Place& at, In<R> seen) {
            const std::size_t x = p_.cell.input, read = p_.read;
            R* to = cells_.inputs(at.row(p_));
            for (std::size_t i = 0; i < batch_; ++i, to += x + 2 * read) {
                const R* held = seen.data() + i * at.block->width() + at.block->input;
                std::copy_n(words_at(words_, at.position, i), x, to);
                std::copy_n(held, read, to + x);
                std::copy_n(held + at.block->held, read, to + x + read);
            }
        }
        void show_other(const Place& at, In<R> seen) {
            const std::size_t n = 2 * at.block->held;
            R* to = others_.inputs(at.position);
            for (std::size_t i = 0; i < batch_; ++i)
                std::copy_n(seen.data() + i * at.block->width() + at.block->input, n, to + i * n);
        }

        Plan p_;
        const Vec<Shown>* blocks_;
        std::size_t batch_;
        bool keeps_;
        detail::Tower<R> cells_, others_;
        Scratch<R> words_, dwords_;
    };

public:
    Vec<Segment> segments(const Routes& routes) const {
        const Plan p = plan(routes);
        Vec<Segment> all;
        p.of_cells.add_segments("router.cells", all);
        p.of_others.add_segments("router.others", all);
        return all;
    }
    // Asked question by question, while the model runs.
    template <class R>
    Asked<R> route(const Routes& routes, In<R> psi, const Batch<R>& batch, Out<R> dpsi) const {
        return Asked<R>(plan(routes), routes.shown, psi, batch, dpsi);
    }
    double forward_flops(const Routes& routes) const {
        const Plan p = plan(routes);
        return 2.0 * static_cast<double>(p.of_cells.parameters() * p.cells * p.cell.asks +
                                         p.of_others.parameters() * p.other.asks);
    }
    void validate() const {
        tessera::detail::require(first > 0 && dense_first > 0, "a router of states needs a hidden layer; first and "
                                                               "dense_first must be at least 1");
        for (const auto width : {first, second, third, fourth, dense_first, dense_second, dense_third})
            tessera::detail::require(width <= widest, "a router's layer is at most " + std::to_string(widest) +
                                                          " wide, not " + std::to_string(width));
        tessera::detail::require(dropout >= 0 && dropout < 1,
                                 "dropout must lie in [0, 1), not " + std::to_string(dropout));
    }
};

}  // namespace tessera::gate
