// SPDX-License-Identifier: BSD-3-Clause
// The layout of a model's one flat parameter vector, and scopes: which of its coordinates are meant.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/view.hpp>

namespace tessera {

enum class Part : std::uint8_t { input, body, head, norm, buffer, adapter, router };

constexpr std::string_view name_of(Part part) {
    constexpr std::array<std::string_view, 7> names{"input", "body", "head", "norm", "buffer", "adapter", "router"};
    return names[static_cast<std::size_t>(part)];
}

// A short name held by value, so that layouts are constant expressions.
struct Name {
    std::array<char, 48> text{};

    constexpr Name() = default;
    constexpr Name(std::string_view s) { append(s); }
    constexpr Name(const char* s) : Name(std::string_view(s)) {}
    constexpr void append(std::string_view s) {
        std::size_t n = view().size();
        if (n + s.size() >= text.size())
            throw ConfigError("the name of a segment has at most 47 letters; '" + std::string(view()) + std::string(s) +
                              "' is longer");
        for (const char c : s) text[n++] = c;
    }
    constexpr std::string_view view() const {
        std::size_t n = 0;
        while (n < text.size() && text[n] != 0) ++n;
        return {text.data(), n};
    }
    friend constexpr bool operator==(const Name&, const Name&) = default;
};

// Segments called `ours`, or whose names begin with it and a dot, are called `theirs` in another program.
struct Renamed {
    std::string_view ours, theirs;
};

// One named tensor inside the flat vector. It starts uniform in +-1/sqrt(fan_in) (the torch default of linear and
// convolution layers) or, where fan_in is 0, normal around `value` (a norm's scale is 1, an embedding N(0, 1)).
struct Segment {
    Name name{};
    Part part = Part::body;
    std::size_t offset = 0;
    std::array<std::size_t, 4> shape{1, 1, 1, 1};
    std::size_t rank = 1;
    std::size_t fan_in = 0;
    double value = 0, deviation = 0;

    constexpr std::size_t size() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
    constexpr std::size_t end() const { return offset + size(); }
};

using Layout = std::span<const Segment>;

// The segment as part of a larger vector.
constexpr Segment placed(Segment s, std::string_view prefix, std::size_t offset) {
    Name name(prefix);
    name.append(s.name.view());
    s.name = name;
    s.offset += offset;
    return s;
}

constexpr std::size_t dimension(Layout layout) {
    std::size_t d = 0;
    for (const auto& s : layout) d = std::max(d, s.end());
    return d;
}

struct Range {
    std::size_t begin = 0, end = 0;
    constexpr std::size_t size() const { return end - begin; }
    friend constexpr bool operator==(Range, Range) = default;
};

// A set of coordinates as ranges, neighbours merged. The default means all of them. Up to 32 ranges stand in place, as
// those of nearly every scope do; more of them in a block of the arena.
class Coordinates {
public:
    constexpr Coordinates() = default;
    constexpr Coordinates(const Coordinates& other)
        : ranges_(other.ranges_), count_(other.count_), all_(other.all_), ascending_(other.ascending_) {
        if (!other.many_) return;
        many_ = block(room_ = count_);
        std::copy_n(other.many_, count_, many_);
    }
    constexpr Coordinates(Coordinates&& other) noexcept
        : ranges_(other.ranges_),
          many_(std::exchange(other.many_, nullptr)),
          room_(other.room_),
          count_(std::exchange(other.count_, 0)),
          all_(other.all_),
          ascending_(other.ascending_) {}
    constexpr Coordinates& operator=(const Coordinates& other) {
        if (other.many_) return *this = Coordinates(other);
        if (many_) release();
        many_ = nullptr;
        take(other);
        return *this;
    }
    constexpr Coordinates& operator=(Coordinates&& other) noexcept {
        std::swap(many_, other.many_);
        std::swap(room_, other.room_);
        take(other);
        return *this;
    }
    constexpr ~Coordinates() {
        if (many_) release();
    }
    static constexpr Coordinates none() {
        Coordinates w;
        w.all_ = false;
        return w;
    }
    static constexpr Coordinates range(std::size_t begin, std::size_t end) {
        Coordinates w = none();
        w.add({begin, end});
        return w;
    }

    constexpr void add(Range r) {
        all_ = false;
        if (r.begin >= r.end) return;
        if (count_ > 0 && data()[count_ - 1].end == r.begin) {
            data()[count_ - 1].end = r.end;
            return;
        }
        if (count_ == (many_ ? room_ : ranges_.size())) grow(2 * count_);
        ascending_ = ascending_ && (count_ == 0 || data()[count_ - 1].end < r.begin);
        data()[count_++] = r;
    }
    constexpr bool everything() const { return all_; }
    constexpr bool empty() const { return !all_ && count_ == 0; }
    constexpr std::size_t size(std::size_t dimension) const {
        if (all_) return dimension;
        std::size_t n = 0;
        for (std::size_t i = 0; i < count_; ++i) n += data()[i].size();
        return n;
    }
    constexpr bool covers(Range r) const {  // all of r
        if (all_ || r.begin >= r.end) return true;
        for (std::size_t i = first_behind(r.begin); i < count_; ++i)
            if (data()[i].begin <= r.begin && r.end <= data()[i].end) return true;
            else if (many_ && ascending_) return false;
        return false;
    }
    constexpr bool touches(Range r) const {  // any of r
        if (all_) return r.begin < r.end;
        for (std::size_t i = first_behind(r.begin); i < count_; ++i)
            if (data()[i].begin < r.end && r.begin < data()[i].end) return true;
            else if (many_ && ascending_) return false;
        return false;
    }
    template <class F>
    constexpr void each(std::size_t dimension, F&& f) const {
        if (all_) {
            f(Range{0, dimension});
            return;
        }
        for (std::size_t i = 0; i < count_; ++i) f(data()[i]);
    }

private:
    constexpr void take(const Coordinates& other) {  // all but the block
        ranges_ = other.ranges_;
        count_ = other.count_;
        all_ = other.all_;
        ascending_ = other.ascending_;
    }
    constexpr const Range* data() const { return many_ ? many_ : ranges_.data(); }
    constexpr Range* data() { return many_ ? many_ : ranges_.data(); }
    // Of many, the first that ends behind a coordinate; of few, where to begin to look.
    constexpr std::size_t first_behind(std::size_t coordinate) const {
        if (!many_ || !ascending_) return 0;
        const auto ends = [](const Range& r, std::size_t at) { return r.end <= at; };
        return static_cast<std::size_t>(std::lower_bound(many_, many_ + count_, coordinate, ends) - many_);
    }
    static constexpr Range* block(std::size_t room) {
        return std::is_constant_evaluated() ? new Range[room] : ArenaAllocator<Range>().allocate(room);
    }
    constexpr void grow(std::size_t room) {
        Range* const wider = block(room);
        std::copy_n(data(), count_, wider);
        if (many_) release();
        many_ = wider;
        room_ = room;
    }
    constexpr void release() {
        if (std::is_constant_evaluated()) delete[] many_;
        else ArenaAllocator<Range>().deallocate(many_, room_);
    }

    std::array<Range, 32> ranges_{};
    Range* many_ = nullptr;  // all of them, once there are more
    std::size_t room_ = 0, count_ = 0;
    bool all_ = true, ascending_ = true;
};

// Running statistics (Part::buffer) are no parameters that descend: what stands for them in a gradient is the step they
// take, whole, x <- x - g. No rate, decay, pull, momentum, clipping or mask is theirs.
constexpr bool has_buffers(Layout layout) {
    for (const auto& s : layout)
        if (s.part == Part::buffer && s.size() > 0) return true;
    return false;
}
// f(range, of buffers) for what `on` selects of n coordinates, in order, cut where buffers begin and end.
template <class F>
constexpr void each_piece(const Coordinates& on, Layout layout, std::size_t n, F&& f) {
    on.each(n, [&](Range r) {
        while (r.begin < r.end) {
            Range next{r.end, r.end};
            for (const auto& s : layout)
                if (s.part == Part::buffer && s.offset < next.begin && s.end() > r.begin)
                    next = {std::max(s.offset, r.begin), std::min(s.end(), r.end)};
            if (r.begin < next.begin) f(Range{r.begin, next.begin}, false);
            if (next.begin < next.end) f(next, true);
            r.begin = next.end;
        }
    });
}

namespace scope {

template <Part... Parts>
struct Is {
    static constexpr Offers offers{};
    static constexpr bool selects(const Segment& s) { return ((s.part == Parts) || ...); }
};
using Input = Is<Part::input>;
using Head = Is<Part::head>;
using Norm = Is<Part::norm, Part::buffer>;
using Adapter = Is<Part::adapter>;
using Router = Is<Part::router>;

struct All {
    static constexpr auto offers = offer::may_be_empty;
    static constexpr bool selects(const Segment&) { return true; }
};
struct None {
    static constexpr auto offers = offer::may_be_empty;
    static constexpr bool selects(const Segment&) { return false; }
};
template <class Scope>
struct Except {
    static constexpr auto offers = offer::may_be_empty;
    static constexpr bool selects(const Segment& s) { return !Scope::selects(s); }
};
template <class... Scopes>
struct AnyOf {
    static constexpr Offers offers =
        offer::when((detail::offers_of<Scopes>().has(offer::may_be_empty) && ...), offer::may_be_empty);
    static constexpr bool selects(const Segment& s) { return (Scopes::selects(s) || ...); }
};
template <Name... Names>
struct Named {
    static constexpr Offers offers{};
    static constexpr bool selects(const Segment& s) { return ((s.name == Names) || ...); }
};

}  // namespace scope

template <class Scope>
constexpr Coordinates select(Layout layout) {
    Coordinates w = Coordinates::none();
    for (const auto& s : layout)
        if (Scope::selects(s)) w.add({s.offset, s.end()});
    return w;
}

namespace detail {
template <class S>
constexpr bool may_find_nothing() {
    return offers_of<S>().has(offer::may_be_empty);
}
}  // namespace detail

// The scope's coordinates in this model; a scope that finds nothing where something was meant does not compile.
template <class Scope, class M>
constexpr Coordinates on(const M& model) {
    if constexpr (requires { M::segments; }) {
        constexpr bool finds = detail::may_find_nothing<Scope>() || !select<Scope>(M::segments).empty();
        static_assert(finds, "tessera: this scope selects nothing in this model (is there no such layer?)");
    }
    return select<Scope>(model.layout());
}

template <class R>
Vec<R> gather(const Vec<R>& x, const Coordinates& where) {
    Vec<R> out;
    out.reserve(where.size(x.size()));
    where.each(x.size(), [&](Range r) { out.insert(out.end(), x.data() + r.begin, x.data() + r.end); });
    return out;
}
template <class R>
void scatter(const Vec<R>& part, const Coordinates& where, Vec<R>& x) {
    const R* from = part.data();
    where.each(x.size(), [&](Range r) {
        std::copy_n(from, r.size(), x.data() + r.begin);
        from += r.size();
    });
}

}  // namespace tessera
