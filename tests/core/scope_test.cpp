// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/core/scope.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace scope_test {

namespace {

using namespace tessera;

// input 0..6, body 6..8, norm 8..10, buffer 10..11, body 11..15, head 15..20
struct Toy {
    static constexpr std::array<Segment, 6> segments{
        Segment{.name = "0.weight", .part = Part::input, .offset = 0, .shape = {2, 3, 1, 1}, .rank = 2},
        Segment{.name = "1.weight", .part = Part::body, .offset = 6, .shape = {2, 1, 1, 1}},
        Segment{.name = "2.scale", .part = Part::norm, .offset = 8, .shape = {2, 1, 1, 1}},
        Segment{.name = "2.mean", .part = Part::buffer, .offset = 10},
        Segment{.name = "10.weight", .part = Part::body, .offset = 11, .shape = {2, 2, 1, 1}, .rank = 2},
        Segment{.name = "11.weight", .part = Part::head, .offset = 15, .shape = {5, 1, 1, 1}}};
    Layout layout() const { return segments; }
};
// The same, known only at run time.
struct Late {
    std::vector<Segment> held{Toy::segments.begin(), Toy::segments.end()};
    Layout layout() const { return held; }
};

using Ranges = std::vector<Range>;
Ranges ranges(const Coordinates& where) {
    Ranges out;
    where.each(20, [&](Range r) { out.push_back(r); });
    return out;
}
Ranges chosen(const char* text) { return ranges(on(scope::Chosen(text), Toy{})); }

// A choice with settings: the first `count` segments.
struct First {
    static constexpr Offers offers{};
    std::size_t count = 1;
    bool selects(const Segment& s) const { return s.offset < Toy::segments[count].offset; }
};
// Client 0 has no norm.
struct Unequal {
    static constexpr auto offers = offer::has;
    static constexpr bool selects(const Segment& s) { return scope::Norm::selects(s) || scope::Head::selects(s); }
    bool has(const Segment& s, Id client) const { return client != 0 || s.part == Part::head; }
};
static_assert(Scope<scope::Head> && Scope<scope::Chosen> && Scope<First> && !Scope<int>);

}  // namespace

TEST_CASE("a scope written down selects parts, segments and sums of them") {
    CHECK(chosen("input") == Ranges{{0, 6}});
    CHECK(chosen("output") == Ranges{{15, 20}});
    CHECK(chosen("head") == chosen("output"));
    CHECK(chosen("body") == Ranges{{6, 8}, {11, 15}});
    CHECK(chosen("norm") == Ranges{{8, 11}});  // with the buffers
    CHECK(chosen("input+output") == Ranges{{0, 6}, {15, 20}});
    CHECK(chosen("all") == Ranges{{0, 20}});
    CHECK(chosen("none").empty());
    CHECK(chosen("none+head") == chosen("head"));
    CHECK(chosen("named:2.mean") == Ranges{{10, 11}});
    CHECK(chosen("named:2") == Ranges{{8, 11}});
    CHECK(chosen("named:1") == Ranges{{6, 8}});  // not 10 and 11
    CHECK(chosen("named:0.weight,10+norm") == Ranges{{0, 6}, {8, 15}});
    CHECK(ranges(on(scope::Chosen{}, Toy{})) == chosen("output"));
    CHECK(scope::Chosen(std::string("norm")).text() == "norm");
    CHECK(scope::Chosen{} == scope::Chosen("output"));
    CHECK_FALSE(scope::Chosen{} == scope::Chosen("head"));
}

TEST_CASE("a word that is none is refused with the words there are") {
    for (const char* text : {"outptu", "", "input+", "+", "input,output", "named:", "named", "Head", " head"})
        CHECK_THROWS_AS(scope::Chosen{text}, ConfigError);
    CHECK_THROWS_WITH_AS(scope::Chosen{std::string(257, 'x')}, "a scope has at most 256 letters, not 257", ConfigError);
    CHECK(scope::Chosen("named:" + std::string(250, 'x')).text().size() == 256);
    CHECK_THROWS_WITH_AS(scope::Chosen{"input+outptu"},
                         "a scope is made of input, output (or head), body, norm, adapter, router, all, none and "
                         "named:<segments>, joined by +; 'outptu' is none of them",
                         ConfigError);
}

TEST_CASE("every piece must find something, and the error lists what the model has") {
    CHECK_THROWS_WITH_AS(
        on(scope::Chosen("input+adapter"), Toy{}),
        "'adapter' in the scope 'input+adapter' selects nothing in this model, which has 0.weight (input), "
        "1.weight (body), 2.scale (norm), 2.mean (buffer), 10.weight (body), 11.weight (head)",
        ConfigError);
    CHECK_THROWS_WITH_AS(on(scope::Chosen("named:2,7"), Toy{}),
                         doctest::Contains("'7' in the scope 'named:2,7' selects nothing"), ConfigError);
    CHECK_THROWS_AS(on(scope::Chosen("named:2.mea"), Toy{}), ConfigError);  // a beginning ends at a dot
    CHECK_THROWS_AS(on(scope::Chosen("named:,2"), Toy{}), ConfigError);
    CHECK_THROWS_AS(on(scope::Router{}, Late{}), ConfigError);  // also a static scope, on a model chosen at run time
    CHECK(on(scope::IfAny<scope::Router>{}, Late{}).empty());
    CHECK(on(scope::IfAny<scope::Router>{}, Toy{}).empty());
    CHECK_THROWS_AS(on(First{0}, Toy{}), ConfigError);
}

TEST_CASE("a scope and what is off it share out every coordinate") {
    const auto check = [](const auto& scope, const Ranges& expected, const Ranges& others) {
        CHECK(ranges(on(scope, Toy{})) == expected);
        CHECK(ranges(off(scope, Toy{})) == others);
        CHECK(ranges(on(scope, Late{})) == expected);
        CHECK(ranges(off(scope, Late{})) == others);
    };
    check(scope::Head{}, {{15, 20}}, {{0, 15}});
    check(scope::Chosen("norm"), {{8, 11}}, {{0, 8}, {11, 20}});
    check(scope::BelowHead{}, {{0, 15}}, {{15, 20}});
    check(First{2}, {{0, 8}}, {{8, 20}});
    check(scope::All{}, {{0, 20}}, {});
    check(scope::None{}, {}, {{0, 20}});
}

TEST_CASE("what a client has and what it lacks") {
    CHECK(ranges(on(Unequal{}, Toy{}, 0)) == Ranges{{15, 20}});
    CHECK(ranges(lacking(Unequal{}, Toy{}, 0)) == Ranges{{8, 11}});
    CHECK(ranges(on(Unequal{}, Toy{}, 1)) == ranges(on(Unequal{}, Toy{})));
    CHECK(lacking(Unequal{}, Toy{}, 1).empty());
    CHECK(lacking(scope::Head{}, Toy{}, 0).empty());
}

}  // namespace scope_test
