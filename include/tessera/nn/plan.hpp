// SPDX-License-Identifier: BSD-3-Clause
// Where the numbers of a pass lie: one room for all of them, planned once.
//
// Every value, slope and saved number has a life on one clock: layer i runs forward at i, the loss at N, layer i
// backward at 2N - i. Two whose lives do not meet may share a place. Places are counted in numbers per example and
// rounded to 16, so one plan serves every batch size and each begins a cache line. Buffers are placed largest first,
// each at the lowest place that is free in all its life. ResNet-18 needs 153 MiB at batch 32; all values and slopes are
// 496 MiB.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tessera/core/arena.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

//   predict   a value dies with its last reader
//   train     what backward reads stays until then
//   clip      slopes and inputs of layers with parameters stay to the end
//   route     two branches in every block, values stay; slopes lie in a room of their own
//   route_all the same with one block over the whole network
enum class Mode : std::uint8_t { predict, train, clip, route, route_all };
inline constexpr std::size_t modes = 5;

// Layers [first, last) that are one element of the outermost chain; a block has parameters and is routed, by as many
// questions for an example.
struct Stage {
    std::size_t first = 0, last = 0;
    bool block = false;
    std::size_t asks = 1;
};

// One layer of the list, and the values it reads. Layer i makes value i + 1; value 0 is the input.
struct Use {
    const Spec* spec = nullptr;
    std::span<const int> from{};
};

struct Plan {
    using Offset = std::uint32_t;

    // Whose places there are, one after the other. Lane 0 is the network; lanes 1 and 2 are the branches of a block.
    // Their slopes share the places of lane 1; in lane 2 is what the second branch says about the input of its block.
    struct Index {
        std::size_t values = 0, layers = 0, sources = 0;

        std::size_t value(std::size_t lane, std::size_t v) const { return lane * values + v; }
        std::size_t slope(std::size_t lane, std::size_t v) const { return (3 + lane) * values + v; }
        std::size_t saved(std::size_t lane, std::size_t i) const { return 6 * values + lane * layers + i; }
        // By source: where a slope waits that is added to another.
        std::size_t added(std::size_t k) const { return 6 * values + 3 * layers + k; }
        // Behind all that is counted per example.
        std::size_t batch_saved(std::size_t i) const { return added(sources) + i; }
    };
    Index of{};
    Vec<Offset> places{};
    std::size_t each = 0, once = 0;   // numbers per example, numbers per batch
    std::size_t branches = 1;         // with numbers per batch of their own
    std::size_t each_slope = 0;       // of the room for slopes, where they have one

    // For tests: what may be overwritten once the clock has passed `to`.
    struct Room {
        int to;
        Offset at, size;
        bool slopes;
    };
    Vec<Room> rooms{};

    Offset value(std::size_t lane, std::size_t v) const { return places[of.value(lane, v)]; }
    Offset slope(std::size_t lane, std::size_t v) const { return places[of.slope(lane, v)]; }
    Offset saved(std::size_t lane, std::size_t i) const { return places[of.saved(lane, i)]; }
    Offset added(std::size_t k) const { return places[of.added(k)]; }
    Offset batch_saved(std::size_t i) const { return places[of.batch_saved(i)]; }
    std::size_t size(std::size_t batch) const { return batch * each + branches * once; }
    std::size_t slopes(std::size_t batch) const { return batch * each_slope; }
};

namespace detail {

class Planner {
public:
    Planner(Mode mode, std::span<const Use> uses, std::span<const Shape> shapes, std::span<const Stage> stages,
            int features, std::span<const std::uint8_t> first_writer)
        : mode_(mode),
          uses_(uses),
          shapes_(shapes),
          stages_(stages),
          features_(features),
          first_writer_(first_writer),
          end_(2 * static_cast<int>(uses.size()) + 1),
          of_{shapes.size(), uses.size(), first_writer.size()},
          lives_(of_.batch_saved(0)) {
        values();
        if (keeps()) slopes();
        if (!routes()) join();
    }
    Plan plan() {
        Plan p{.of = of_};
        p.each = place(false);
        p.branches = routes() ? 2 : 1;
        p.each_slope = routes() ? place(true) : 0;
        p.places.reserve(of_.batch_saved(uses_.size()));
        for (std::size_t k = 0; k < lives_.size(); ++k) p.places.push_back(lives_[root(k)].at);
        for (const Use& use : uses_) {
            p.places.push_back(static_cast<Plan::Offset>(p.once));
            p.once += padded(use.spec->batch_saved);
        }
        for (const Life& l : lives_)
            if (l.with < 0 && l.size > 0) p.rooms.push_back({l.to, l.at, l.size, l.slope && routes()});
        return p;
    }

private:
    struct Life {
        int from = 0, to = -1;
        Plan::Offset size = 0, at = 0;
        int with = -1;  // lies where that one lies
        bool slope = false;
    };

    static Plan::Offset padded(std::size_t n) { return static_cast<Plan::Offset>((n + 15) / 16 * 16); }
    bool keeps() const { return mode_ != Mode::predict; }
    bool routes() const { return mode_ == Mode::route || mode_ == Mode::route_all; }
    int layers() const { return static_cast<int>(uses_.size()); }
    int back(std::size_t i) const { return 2 * layers() - static_cast<int>(i); }
    std::size_t root(std::size_t k) const {
        while (lives_[k].with >= 0) k = static_cast<std::size_t>(lives_[k].with);
        return k;
    }
    bool stays(std::size_t i) const { return mode_ == Mode::clip && uses_[i].spec->parameters > 0; }
    // The block that layer i is in, if there is one.
    const Stage* block_of(std::size_t i) const {
        for (const Stage& s : stages_)
            if (s.block && s.first <= i && i < s.last) return &s;
        return nullptr;
    }
    std::size_t last_reader(std::size_t v) const {
        for (std::size_t i = uses_.size(); i-- > 0;)
            for (const int from : uses_[i].from)
                if (static_cast<std::size_t>(from) == v) return i;
        return uses_.size();  // the loss
    }

    void values() {
        const std::size_t last = shapes_.size() - 1;
        for (std::size_t i = 0; i < uses_.size(); ++i) {
            const Spec& s = *uses_[i].spec;
            const std::size_t v = i + 1;
            const Plan::Offset size = padded(s.out.size()), saved_rows = padded(s.saved);
            if (routes()) {  // stays, so that a later pass may use it again
                const Stage* block = block_of(i);
                for (std::size_t lane = block ? 1 : 0; lane < (block ? 3u : 1u); ++lane) {
                    lives_[of_.value(lane, v)] = {0, end_, size};
                    lives_[of_.saved(lane, i)] = {0, end_, saved_rows};
                }
                if (block && v == block->last) lives_[of_.value(0, v)] = {0, end_, size};
                continue;
            }
            int to = v == last ? (keeps() ? layers() : end_) : static_cast<int>(i);
            if (keeps() && s.reads(Reads::y)) to = stays(i) ? end_ : back(i);
            if (keeps() && static_cast<int>(v) == features_) to = std::max(to, back(v));
            lives_[of_.value(0, v)] = {static_cast<int>(i), to, size};
            lives_[of_.saved(0, i)] = {static_cast<int>(i),
                                   stays(i)  ? end_
                                   : keeps() ? back(i)
                                             : static_cast<int>(i),
                                   saved_rows};
            for (const int from : uses_[i].from) {
                Life& x = lives_[of_.value(0, static_cast<std::size_t>(from))];
                const bool again = keeps() && s.reads(Reads::x);
                if (from > 0) x.to = std::max(x.to, again ? (stays(i) ? end_ : back(i)) : static_cast<int>(i));
            }
        }
    }
    void slopes() {
        for (std::size_t v = 1; v < shapes_.size(); ++v) {
            const Stage* made = routes() ? block_of(v - 1) : nullptr;
            const Plan::Offset size = padded(shapes_[v].size());
            if (made) {
                lives_[of_.slope(1, v)] = {back(made->last - 1), back(made->first), size, 0, -1, true};
                if (v != made->last) continue;
            }
            const std::size_t reader = last_reader(v);
            const Stage* read = routes() && reader < uses_.size() ? block_of(reader) : nullptr;
            const int from = read ? back(read->last - 1) : back(reader);
            lives_[of_.slope(0, v)] = {from, made ? back(made->first) : stays(v - 1) ? end_ : back(v - 1), size, 0, -1,
                                   true};
        }
        for (const Stage& s : stages_)  // what the second branch says about the input of its block
            if (routes() && s.block && s.first > 0)
                lives_[of_.slope(2, s.first)] = {
                    back(s.last - 1), back(s.first), padded(shapes_[s.first].size()), 0, -1, true};
        std::size_t k = 0;
        for (std::size_t i = 0; i < uses_.size(); ++i)
            for (const int from : uses_[i].from) {
                if (from > 0 && !first_writer_[k])
                    lives_[of_.added(k)] = {back(i), back(i), padded(shapes_[static_cast<std::size_t>(from)].size()),
                                        0,       -1,      true};
                ++k;
            }
    }

    void lie(std::size_t b, std::size_t a) {  // b where a lies
        a = root(a);
        lives_[b].with = static_cast<int>(a);
        lives_[a].from = std::min(lives_[a].from, lives_[b].from);
        lives_[a].to = std::max(lives_[a].to, lives_[b].to);
        lives_[a].size = std::max(lives_[a].size, lives_[b].size);
    }
    // The slope of the outputs lies where they lie, unless the last layer reads them; what may be in place is.
    void join() {
        const std::size_t last = shapes_.size() - 1;
        if (keeps() && !uses_.back().spec->reads(Reads::y) && static_cast<int>(last) != features_)
            lie(of_.slope(0, last), of_.value(0, last));
        std::size_t k = 0;
        for (std::size_t i = 0; i < uses_.size(); k += uses_[i++].from.size()) {
            const auto v = static_cast<std::size_t>(uses_[i].from[0]), o = i + 1;
            if (!uses_[i].spec->in_place || v == 0) continue;
            const int forward = static_cast<int>(i);
            if (lives_[of_.value(0, v)].to <= forward && lives_[root(of_.value(0, v))].to <= forward)
                lie(of_.value(0, o), of_.value(0, v));
            const Life &dy = lives_[of_.slope(0, o)], &dx = lives_[of_.slope(0, v)];
            if (keeps() && first_writer_[k] && dy.with < 0 && dx.with < 0 && dy.to <= back(i) && dx.from >= back(i))
                lie(of_.slope(0, v), of_.slope(0, o));
        }
    }

    std::size_t place(bool slopes) {
        Vec<std::size_t> order, done;
        for (std::size_t k = 0; k < lives_.size(); ++k)
            if (lives_[k].with < 0 && lives_[k].size > 0 && (!routes() || lives_[k].slope == slopes))
                order.push_back(k);
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {  // stable_sort asks the heap
            return lives_[a].size != lives_[b].size ? lives_[a].size > lives_[b].size : a < b;
        });
        std::size_t most = 0;
        for (const std::size_t k : order) {
            Life& own = lives_[k];
            for (const std::size_t other : done) {  // by their places
                const Life& l = lives_[other];
                if (l.to < own.from || own.to < l.from) continue;
                if (own.at + own.size <= l.at) break;
                own.at = std::max(own.at, l.at + l.size);
            }
            most = std::max<std::size_t>(most, own.at + own.size);
            std::size_t at = done.size();
            while (at > 0 && lives_[done[at - 1]].at > own.at) --at;
            done.insert(done.begin() + static_cast<std::ptrdiff_t>(at), k);
        }
        return most;
    }

    Mode mode_;
    std::span<const Use> uses_;
    std::span<const Shape> shapes_;
    std::span<const Stage> stages_;
    int features_;
    std::span<const std::uint8_t> first_writer_;
    int end_;
    Plan::Index of_;
    Vec<Life> lives_;
};

}  // namespace detail

}  // namespace tessera::nn
