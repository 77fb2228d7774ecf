// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/core/layout.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace layout_test {

namespace {

using namespace tessera;

// input 0..6, body 6..8, norm 8..10, buffer 10..11, adapter 11..15, head 15..20
struct Toy {
    static constexpr std::array<Segment, 6> segments{
        Segment{.name = "0.weight", .part = Part::input, .offset = 0, .shape = {2, 3, 1, 1}, .rank = 2},
        Segment{.name = "1.weight", .part = Part::body, .offset = 6, .shape = {2, 1, 1, 1}},
        Segment{.name = "2.scale", .part = Part::norm, .offset = 8, .shape = {2, 1, 1, 1}},
        Segment{.name = "2.mean", .part = Part::buffer, .offset = 10},
        Segment{.name = "3.weight", .part = Part::adapter, .offset = 11, .shape = {2, 2, 1, 1}, .rank = 2},
        Segment{.name = "4.weight", .part = Part::head, .offset = 15, .shape = {5, 1, 1, 1}}};
    Layout layout() const { return segments; }
};

// The same, known only at run time.
struct Late {
    std::vector<Segment> held;
    Layout layout() const { return held; }
};

std::vector<Range> ranges(const Coordinates& where, std::size_t d = 20) {
    std::vector<Range> out;
    where.each(d, [&](Range r) { out.push_back(r); });
    return out;
}
template <class Scope>
std::vector<Range> ranges() {
    return ranges(on<Scope>(Toy{}));
}
using Ranges = std::vector<Range>;

Vec<float> counting(std::size_t n) {
    Vec<float> x(n);
    for (std::size_t j = 0; j < n; ++j) x[j] = static_cast<float>(j);
    return x;
}

}  // namespace

TEST_CASE("a layout's dimension is where its last segment ends") {
    static_assert(dimension(Layout(Toy::segments)) == 20);
    static_assert(Toy::segments[0].size() == 6 && Toy::segments[4].end() == 15);
    CHECK(dimension(Layout{}) == 0);
}

TEST_CASE("a name that is too long is refused, never cut") {
    const std::string longest(47, 'a');
    CHECK(Name(longest).view() == longest);
    CHECK_THROWS_WITH_AS(Name(longest + "b"),
                         ("the name of a segment has at most 47 letters; '" + longest + "b' is longer").c_str(),
                         ConfigError);
    CHECK_THROWS_AS(placed({.name = "weight"}, longest + ".", 0), ConfigError);
    static_assert(Name("0.weight").view() == "0.weight");
}

TEST_CASE("parts have names") {
    CHECK(name_of(Part::input) == "input");
    CHECK(name_of(Part::body) == "body");
    CHECK(name_of(Part::head) == "head");
    CHECK(name_of(Part::norm) == "norm");
    CHECK(name_of(Part::buffer) == "buffer");
    CHECK(name_of(Part::adapter) == "adapter");
    CHECK(name_of(Part::router) == "router");
}

TEST_CASE("a name is held by value, up to 47 characters") {
    static_assert(Name("0.weight") == Name("0.weight"));
    static_assert(Name("0.weight") != Name("0.bias"));
    static_assert(Name().view().empty());
    Name name("12.");
    name.append("weight");
    CHECK(name == Name("12.weight"));
    CHECK(Name(std::string(47, 'x')).view() == std::string(47, 'x'));
}

TEST_CASE("where: all, none, and ranges whose neighbours are merged") {
    CHECK(Coordinates().everything());
    CHECK_FALSE(Coordinates().empty());
    CHECK(Coordinates().size(20) == 20);
    CHECK(ranges(Coordinates()) == Ranges{{0, 20}});

    CHECK(Coordinates::none().empty());
    CHECK_FALSE(Coordinates::none().everything());
    CHECK(Coordinates::none().size(20) == 0);
    CHECK(ranges(Coordinates::none()).empty());

    Coordinates w = Coordinates::range(2, 5);
    w.add({5, 7});
    CHECK(ranges(w) == Ranges{{2, 7}});
    w.add({9, 10});
    CHECK(ranges(w) == Ranges{{2, 7}, {9, 10}});
    w.add({10, 10});  // nothing
    w.add({15, 12});
    CHECK(ranges(w) == Ranges{{2, 7}, {9, 10}});
    CHECK(w.size(20) == 6);
    CHECK(Coordinates::range(3, 3).empty());
    CHECK_FALSE(Coordinates::range(0, 20).everything());  // a range is a range, whatever the dimension turns out to be
}

namespace {
// Every third coordinate, from the first.
constexpr Coordinates thirds(std::size_t count) {
    Coordinates w = Coordinates::none();
    for (std::size_t i = 0; i < count; ++i) w.add({3 * i, 3 * i + 1});
    return w;
}
constexpr bool as_one_would_count(const Coordinates& w, std::size_t count) {
    bool right = w.size(1000) == count && !w.everything() && w.empty() == (count == 0);
    for (std::size_t at = 0; at < 3 * count + 5; ++at) {
        const bool in = at % 3 == 0 && at < 3 * count, next = (at + 1) % 3 == 0 && at + 1 < 3 * count;
        right = right && w.covers({at, at + 1}) == in && w.touches({at, at + 1}) == in;
        right = right && w.touches({at, at + 2}) == (in || next) && !w.covers({at, at + 2});
    }
    std::size_t seen = 0;
    w.each(1000, [&](Range r) { right = right && r == Range{3 * seen, 3 * seen + 1}, ++seen; });
    return right && seen == count;
}
static_assert(as_one_would_count(thirds(2), 2) && as_one_would_count(thirds(70), 70));
}  // namespace

TEST_CASE("where: any number of ranges, copied, moved and assigned") {
    for (const std::size_t count : {0u, 1u, 31u, 32u, 33u, 64u, 65u, 300u}) {
        const Coordinates w = thirds(count);
        CHECK(as_one_would_count(w, count));
        Coordinates copy = w, other = thirds(40), third = thirds(3);
        CHECK(as_one_would_count(copy, count));
        other = w;
        third = w;
        CHECK(as_one_would_count(other, count));
        CHECK(as_one_would_count(third, count));
        copy.add({3 * count + 1, 3 * count + 2});  // of its own, not of w
        CHECK(copy.size(5000) == count + 1);
        CHECK(w.size(5000) == count);
        const Coordinates moved = std::move(copy);
        CHECK(moved.size(5000) == count + 1);
        other = thirds(2);
        CHECK(as_one_would_count(other, 2));
        other = Coordinates{};
        CHECK(other.everything());
    }
    Coordinates merged = thirds(40);
    merged.add({118, 120});  // behind the last, 117..118
    CHECK(merged.covers({117, 120}));
    CHECK(merged.size(1000) == 42);
    Coordinates back = thirds(40);  // not in order: found all the same
    back.add({1, 2});
    CHECK(back.covers({1, 2}));
    CHECK(back.touches({1, 2}));
    CHECK(!back.touches({2, 3}));
}

TEST_CASE("where: covers all of a range, touches any of it") {
    Coordinates w = Coordinates::range(2, 5);
    w.add({8, 10});
    CHECK(w.covers({2, 5}));
    CHECK(w.covers({3, 4}));
    CHECK(w.covers({9, 10}));
    CHECK_FALSE(w.covers({2, 6}));
    CHECK_FALSE(w.covers({1, 3}));
    CHECK_FALSE(w.covers({2, 10}));  // there is a hole
    CHECK(w.touches({0, 3}));
    CHECK(w.touches({4, 6}));
    CHECK(w.touches({0, 20}));
    CHECK_FALSE(w.touches({0, 2}));
    CHECK_FALSE(w.touches({5, 8}));
    CHECK_FALSE(w.touches({10, 20}));
    CHECK(Coordinates().covers({0, 20}));
    CHECK(Coordinates().touches({0, 1}));
    CHECK_FALSE(Coordinates::none().touches({0, 20}));
    CHECK_FALSE(Coordinates::none().covers({0, 1}));
    // Nothing is covered by everything and touched by nothing.
    CHECK(w.covers({6, 6}));
    CHECK_FALSE(w.touches({6, 6}));
    CHECK_FALSE(Coordinates().touches({3, 3}));
}

TEST_CASE("scopes select by part") {
    CHECK(ranges<scope::Input>() == Ranges{{0, 6}});
    CHECK(ranges<scope::Head>() == Ranges{{15, 20}});
    CHECK(ranges<scope::Norm>() == Ranges{{8, 11}});  // with the buffers, merged
    CHECK(ranges<scope::Adapter>() == Ranges{{11, 15}});
    CHECK(ranges<scope::All>() == Ranges{{0, 20}});
    CHECK(ranges<scope::None>().empty());
    CHECK(ranges<scope::Is<Part::input, Part::head>>() == Ranges{{0, 6}, {15, 20}});
}

TEST_CASE("scopes combine") {
    CHECK(ranges<scope::Except<scope::Head>>() == Ranges{{0, 15}});
    CHECK(ranges<scope::Except<scope::Norm>>() == Ranges{{0, 8}, {11, 20}});
    CHECK(ranges<scope::Except<scope::All>>().empty());
    CHECK(ranges<scope::Except<scope::Except<scope::Head>>>() == ranges<scope::Head>());
    CHECK(ranges<scope::AnyOf<scope::Input, scope::Head>>() == Ranges{{0, 6}, {15, 20}});
    CHECK(ranges<scope::AnyOf<scope::Input, scope::Named<"1.weight">>>() == Ranges{{0, 8}});
    CHECK(ranges<scope::AnyOf<scope::None, scope::None>>().empty());
}

TEST_CASE("scopes select by name, and only by the whole name") {
    CHECK(ranges<scope::Named<"2.mean">>() == Ranges{{10, 11}});
    CHECK(ranges<scope::Named<"0.weight", "4.weight">>() == Ranges{{0, 6}, {15, 20}});
    static_assert(select<scope::Named<"weight">>(Toy::segments).empty());
    static_assert(select<scope::Named<"2.mea">>(Toy::segments).empty());
}

TEST_CASE("scopes work on layouts known only at run time") {
    const Late late{{Toy::segments.begin(), Toy::segments.end()}};
    CHECK(ranges(on<scope::Head>(late)) == ranges<scope::Head>());
    CHECK(ranges(on<scope::Router>(late)).empty());
    CHECK(on<scope::Head>(Late{}).empty());
}

TEST_CASE("scopes that may find nothing say so") {
    const auto may = [](auto scope) { return decltype(scope)::offers.has(offer::may_be_empty); };
    CHECK_FALSE(may(scope::Head{}));
    CHECK_FALSE(may(scope::Named<"x">{}));
    CHECK(may(scope::All{}));
    CHECK(may(scope::None{}));
    CHECK(may(scope::Except<scope::Head>{}));
    CHECK_FALSE(may(scope::AnyOf<scope::None, scope::Head>{}));
    CHECK(may(scope::AnyOf<scope::None, scope::All>{}));
}

TEST_CASE("gather reads a scope, scatter writes it back and nothing else") {
    const auto x = counting(20);
    const auto where = on<scope::Is<Part::input, Part::norm, Part::head>>(Toy{});
    const auto part = gather(x, where);
    CHECK(part == Vec<float>{0, 1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 18, 19});

    Vec<float> y(20, -1.0f);
    scatter(part, where, y);
    CHECK(y == Vec<float>{0, 1, 2, 3, 4, 5, -1, -1, 8, 9, -1, -1, -1, -1, -1, 15, 16, 17, 18, 19});
    CHECK(gather(y, where) == part);

    // A scope and its complement carry everything.
    const auto rest = on<scope::Except<scope::Is<Part::input, Part::norm, Part::head>>>(Toy{});
    CHECK(where.size(20) + rest.size(20) == 20);
    scatter(gather(x, rest), rest, y);
    CHECK(y == x);
}

TEST_CASE("gather and scatter of all and of nothing") {
    const auto x = counting(7);
    CHECK(gather(x, Coordinates()) == x);
    CHECK(gather(x, Coordinates::none()).empty());
    Vec<float> y(7, -1.0f);
    scatter(Vec<float>{}, Coordinates::none(), y);
    CHECK(y == Vec<float>(7, -1.0f));
    scatter(x, Coordinates(), y);
    CHECK(y == x);
    CHECK(gather(Vec<float>{}, Coordinates()).empty());
}

}  // namespace layout_test
