// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/core/bytes.hpp>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <tessera/core/batch.hpp>

namespace bytes_test {

namespace {

using namespace tessera;
using doctest::Contains;

enum class Phase : std::uint8_t { warm, cold = 7 };

struct Inner {
    Vec<float> w;
    Mask mask;
    friend bool operator==(const Inner&, const Inner&) = default;
};
struct Outer {
    std::uint32_t round = 0;
    double rate = 0;
    bool frozen = false;
    Phase phase = Phase::warm;
    std::array<std::int16_t, 3> shape{};
    std::string name{};
    Nothing nothing{};
    Vec<Inner> parts{};
    Vec<Vec<double>> ragged{};
    Inner last{};
    friend bool operator==(const Outer&, const Outer&) = default;
};

Mask striped(std::size_t size) {
    Mask m(size);
    for (std::size_t j = 0; j < size; j += 3) m.set(j, true);
    return m;
}

Outer example() {
    return {.round = 0x01020304,
            .rate = 0.5,
            .frozen = true,
            .phase = Phase::cold,
            .shape = {1, -2, 3},
            .name = "ab",
            .parts = {Inner{{1.0f, -0.0f}, striped(65)}, Inner{}},
            .ragged = {{1, 2, 3}, {}, {4}},
            .last = {{7.0f}, striped(3)}};
}

template <class T>
Bytes encoded(const T& value) {
    Bytes out;
    put(out, value);
    return out;
}
Bytes bytes(std::initializer_list<int> values) {
    Bytes out;
    for (const int v : values) out.push_back(static_cast<std::byte>(v));
    return out;
}
template <class T>
Fingerprint hash_of(const T& value) {
    Hasher h;
    hash_into(h, value);
    return h.finish();
}

}  // namespace

TEST_CASE("the wire form, byte by byte") {
    CHECK(encoded(std::uint32_t{0x01020304}) == bytes({4, 3, 2, 1}));
    CHECK(encoded(std::int16_t{-2}) == bytes({0xFE, 0xFF}));
    CHECK(encoded(1.0f) == bytes({0, 0, 0x80, 0x3F}));
    CHECK(encoded(true) == bytes({1}));
    CHECK(encoded(Phase::cold) == bytes({7}));
    CHECK(encoded(Vec<std::uint16_t>{1, 258}) == bytes({2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 1}));
    CHECK(encoded(std::string("ab")) == bytes({2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'}));
    CHECK(encoded(std::array<std::uint8_t, 2>{5, 6}) == bytes({5, 6}));
    CHECK(encoded(Nothing{}).empty());
    Mask m(10);
    m.set(0, true);
    m.set(9, true);
    CHECK(encoded(m) == bytes({10, 0, 0, 0, 0, 0, 0, 0, 1, 2}));
    struct Padded {  // fields only: no padding travels
        std::uint8_t small = 1;
        std::uint32_t large = 2;
    };
    CHECK(encoded(Padded{}) == bytes({1, 2, 0, 0, 0}));
    CHECK(encoded(Cursor{1, 2}) == bytes({1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_CASE("what is put comes back, nested and empty alike") {
    CHECK(decode<Outer>(encoded(example())) == example());
    CHECK(decode<Outer>(encoded(Outer{})) == Outer{});
    CHECK(decode<double>(encoded(-0.0)) == 0);
    CHECK(std::signbit(decode<double>(encoded(-0.0))));
    CHECK(std::isnan(decode<float>(encoded(std::numeric_limits<float>::quiet_NaN()))));
    auto changed = example();
    changed.parts[0].mask.set(64, true);
    CHECK(decode<Outer>(encoded(changed)) != example());
}

TEST_CASE("getting replaces what was there") {
    const auto wire = encoded(Vec<float>{1, 2});
    Vec<float> value(100, 9.0f);
    Reader in(wire);
    get(in, value);
    CHECK(value == Vec<float>{1, 2});

    Vec<Vec<int>> nested(5, Vec<int>(5));
    const auto nested_wire = encoded(Vec<Vec<int>>{{3}});
    Reader again(nested_wire);
    get(again, nested);
    CHECK(nested == Vec<Vec<int>>{{3}});
}

TEST_CASE("several values in a row") {
    Bytes out;
    put(out, std::uint8_t{1});
    put(out, Vec<float>{2});
    put(out, 3.0);
    Reader in(out);
    std::uint8_t a = 0;
    Vec<float> b;
    double c = 0;
    get(in, a);
    CHECK(in.left() == 20);
    CHECK(in.rest().size() == 20);
    get(in, b);
    get(in, c);
    CHECK(in.left() == 0);
    CHECK(a == 1);
    CHECK(b == Vec<float>{2});
    CHECK(c == 3);
}

TEST_CASE("masks of every size around a byte and a word") {
    for (std::size_t size = 0; size <= 130; ++size) {
        CAPTURE(size);
        for (const auto& mask : {Mask(size), Mask(size, true), striped(size)}) {
            const auto wire = encoded(mask);
            CHECK(wire.size() == 8 + (size + 7) / 8);
            CHECK(decode<Mask>(wire) == mask);
        }
        // The unused bits of the last byte must be zero, each of them.
        for (std::size_t bit = size % 8; size % 8 != 0 && bit < 8; ++bit) {
            auto wire = encoded(striped(size));
            wire.back() |= std::byte{1} << bit;
            CHECK_THROWS_WITH_AS(decode<Mask>(wire), Contains("beyond its end"), WireError);
        }
    }
}

TEST_CASE("a message cut short at any byte is refused") {
    const auto wire = encoded(example());
    for (std::size_t size = 0; size < wire.size(); ++size) {
        CAPTURE(size);
        // On the heap and exactly as long, so that AddressSanitizer sees a read past the end.
        const Bytes cut(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(size));
        CHECK_THROWS_AS(decode<Outer>(cut), WireError);
    }
    CHECK_NOTHROW(decode<Outer>(wire));
}

TEST_CASE("a message with bytes behind it is refused") {
    auto wire = encoded(example());
    wire.push_back(std::byte{0});
    CHECK_THROWS_WITH_AS(decode<Outer>(wire), "1 bytes follow the end of the message", WireError);
    CHECK_THROWS_AS(decode<Nothing>(wire), WireError);
}

TEST_CASE("a length that lies is refused before memory is taken") {
    for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{1} << 32, std::uint64_t{1} << 61,
                                       (std::uint64_t{1} << 62) + 2, ~std::uint64_t{0}}) {
        CAPTURE(length);
        Bytes wire;
        put(wire, length);
        put(wire, std::array<float, 2>{1, 2});
        CHECK_THROWS_WITH_AS(decode<Vec<float>>(wire), Contains("does not fit"), WireError);
        CHECK_THROWS_AS(decode<Vec<double>>(wire), WireError);
        CHECK_THROWS_AS(decode<Vec<Vec<float>>>(wire), WireError);
        CHECK_THROWS_AS(decode<Vec<Inner>>(wire), WireError);
        if (length > 8) CHECK_THROWS_AS(decode<std::string>(wire), WireError);
        if (length > 64) CHECK_THROWS_WITH_AS(decode<Mask>(wire), Contains("does not fit"), WireError);
    }
    Bytes honest;
    put(honest, std::uint64_t{2});
    put(honest, std::array<float, 2>{1, 2});
    CHECK(decode<Vec<float>>(honest) == Vec<float>{1, 2});
}

TEST_CASE("a mask one byte too long for its message is refused") {
    auto wire = encoded(Mask(64, true));
    wire[0] = std::byte{65};
    CHECK_THROWS_AS(decode<Mask>(wire), WireError);
    wire[0] = std::byte{72};
    CHECK_THROWS_AS(decode<Mask>(wire), WireError);
    wire[0] = std::byte{56};
    CHECK_THROWS_WITH_AS(decode<Mask>(wire), Contains("follow the end"), WireError);
}

TEST_CASE("a flag is 0 or 1") {
    CHECK(decode<bool>(bytes({1})));
    CHECK_FALSE(decode<bool>(bytes({0})));
    for (const int value : {2, 127, 255})
        CHECK_THROWS_WITH_AS(decode<bool>(bytes({value})), "a flag is neither 0 nor 1", WireError);
}

TEST_CASE("wire_size is the length of what put writes") {
    const auto check = [](const auto& value) { CHECK(wire_size(value) == encoded(value).size()); };
    check(example());
    check(Outer{});
    check(3.0);
    check(true);
    check(std::string("abc"));
    check(Nothing{});
    for (std::size_t size = 0; size <= 130; ++size) check(Mask(size));
    // 4 + 8 + 1 + 1 + 3*2 + (8+2) + 0 + (8 + (8+2*4 + 8+9) + (8+0 + 8+0)) + (8 + (8+24) + 8 + (8+8)) + (8+4 + 8+1)
    CHECK(wire_size(example()) == 4 + 8 + 1 + 1 + 6 + 10 + 0 + 57 + 64 + 21);
}

TEST_CASE("formula_bytes counts as the papers do, by hand") {
    CHECK(formula_bytes(Vec<float>(100)) == 400);
    CHECK(formula_bytes(Vec<double>(100)) == 400);  // 4 per parameter, however it is kept
    CHECK(formula_bytes(1.0f) == 8);
    CHECK(formula_bytes(Mask(10)) == 2);
    CHECK(formula_bytes(Mask(16)) == 2);
    CHECK(formula_bytes(Nothing{}) == 0);
    struct Upload {
        Vec<float> w = Vec<float>(7850);
        double weight = 1;
        Mask mask = Mask(7850);
        Vec<Vec<float>> two{Vec<float>(3), Vec<float>(4)};
    };
    CHECK(formula_bytes(Upload{}) == 4 * 7850 + 8 + 982 + 4 * 7);
}

TEST_CASE("all_finite looks at every number, wherever it lies") {
    const double bad[] = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                          std::numeric_limits<double>::quiet_NaN()};
    CHECK(all_finite(example()));
    CHECK(all_finite(Vec<float>{}));
    CHECK(all_finite(3));
    for (const double b : bad) {
        CHECK_FALSE(all_finite(b));
        CHECK_FALSE(all_finite(static_cast<float>(b)));
        auto outer = example();
        outer.rate = b;
        CHECK_FALSE(all_finite(outer));
        outer = example();
        outer.parts[0].w[1] = static_cast<float>(b);
        CHECK_FALSE(all_finite(outer));
        outer = example();
        outer.ragged[2][0] = b;
        CHECK_FALSE(all_finite(outer));
        for (std::size_t n = 1; n < 40; ++n)
            for (std::size_t at = 0; at < n; ++at) {
                Vec<double> v(n, std::numeric_limits<double>::max());
                CHECK(all_finite(v));  // the sum of these overflows, and must not be what is looked at
                v[at] = b;
                CHECK_FALSE(all_finite(v));
            }
    }
    Vec<double> both{bad[0], bad[1]};
    CHECK_FALSE(all_finite(both));
}

TEST_CASE("for_each_leaf visits numbers, vectors of numbers and masks") {
    std::size_t numbers = 0, vectors = 0, masks = 0;
    for_each_leaf(example(), [&](const auto& leaf) {
        using L = std::remove_cvref_t<decltype(leaf)>;
        if constexpr (std::is_same_v<L, Mask>) ++masks;
        else if constexpr (std::is_arithmetic_v<L> || std::is_enum_v<L>) ++numbers;
        else ++vectors;
    });
    CHECK(numbers == 7);  // round, rate, frozen, phase, three of shape
    CHECK(vectors == 7);  // the name, w of three Inners, three rows
    CHECK(masks == 3);
}

TEST_CASE("hash_into: equal values hash alike, any change shows") {
    CHECK(hash_of(example()) == hash_of(example()));
    const auto base = hash_of(example());
    const auto changed = [&](auto&& change) {
        auto value = example();
        change(value);
        return hash_of(value) != base;
    };
    CHECK(changed([](Outer& o) { o.round ^= 1; }));
    CHECK(changed([](Outer& o) { o.frozen = false; }));
    CHECK(changed([](Outer& o) { o.shape[2] = 4; }));
    CHECK(changed([](Outer& o) { o.name = "aB"; }));
    CHECK(changed([](Outer& o) { o.parts[0].w[1] = 0.0f; }));  // -0 and 0 are other bits
    CHECK(changed([](Outer& o) { o.parts.emplace_back(); }));
    CHECK(changed([](Outer& o) { o.last.mask.set(1, true); }));
    CHECK(changed([](Outer& o) { o.ragged.pop_back(); }));
    CHECK(changed([](Outer& o) {  // an element moves to the neighbour, nothing else
        o.ragged[0].pop_back();
        o.ragged[1].push_back(3);
    }));
}

TEST_CASE("hash_into: lengths count, so that values cannot trade places") {
    struct Two {
        Vec<Vec<float>> a, b;
    };
    CHECK(hash_of(Two{{{1}}, {}}) != hash_of(Two{{}, {{1}}}));
    CHECK(hash_of(Two{{{}}, {}}) != hash_of(Two{{}, {}}));
    CHECK(hash_of(Vec<float>{}) != hash_of(Vec<float>{0}));
    for (std::size_t size = 0; size < 130; ++size) CHECK(hash_of(Mask(size)) != hash_of(Mask(size + 1)));
}

// One declaration and its near-misses.
// clang-format off
namespace {
namespace original { struct S { float rate; Vec<float> w; Inner inner; bool on; }; }
namespace copied { struct T { float rate; Vec<float> w; Inner inner; bool on; }; }
namespace renamed { struct S { float ratio; Vec<float> w; Inner inner; bool on; }; }
namespace reordered { struct S { Vec<float> w; float rate; Inner inner; bool on; }; }
namespace swapped { struct S { float w; Vec<float> rate; Inner inner; bool on; }; }
namespace wider { struct S { double rate; Vec<float> w; Inner inner; bool on; }; }
namespace integral { struct S { std::int32_t rate; Vec<float> w; Inner inner; bool on; }; }
namespace counted { struct S { float rate; Vec<float> w; Inner inner; std::uint8_t on; }; }
namespace in_array { struct S { float rate; std::array<float, 3> w; Inner inner; bool on; }; }
namespace longer { struct S { float rate; Vec<float> w; Inner inner; bool on; int more; }; }
namespace shorter { struct S { float rate; Vec<float> w; Inner inner; }; }
namespace deeper {
struct In { Vec<float> w; Mask masks; };
struct S { float rate; Vec<float> w; In inner; bool on; };
}
}  // namespace
// clang-format on

TEST_CASE("shape_of: the declaration, and nothing but the declaration") {
    const auto shape = shape_of<original::S>();
    CHECK(shape == shape_of<original::S>());
    CHECK(shape == shape_of<copied::T>());  // the type's own name does not count
    CHECK(shape != shape_of<renamed::S>());
    CHECK(shape != shape_of<reordered::S>());
    CHECK(shape != shape_of<swapped::S>());
    CHECK(shape != shape_of<wider::S>());
    CHECK(shape != shape_of<integral::S>());
    CHECK(shape != shape_of<counted::S>());
    CHECK(shape != shape_of<in_array::S>());
    CHECK(shape != shape_of<longer::S>());
    CHECK(shape != shape_of<shorter::S>());
    CHECK(shape != shape_of<deeper::S>());
}

TEST_CASE("shape_of: every kind of number is its own") {
    const Vec<std::uint64_t> shapes{shape_of<bool>(),
                                    shape_of<std::int8_t>(),
                                    shape_of<std::uint8_t>(),
                                    shape_of<std::int16_t>(),
                                    shape_of<std::uint16_t>(),
                                    shape_of<std::int32_t>(),
                                    shape_of<std::uint32_t>(),
                                    shape_of<std::int64_t>(),
                                    shape_of<std::uint64_t>(),
                                    shape_of<float>(),
                                    shape_of<double>(),
                                    shape_of<Phase>(),
                                    shape_of<Mask>(),
                                    shape_of<Vec<float>>(),
                                    shape_of<Vec<Vec<float>>>(),
                                    shape_of<Nothing>(),
                                    shape_of<std::array<float, 2>>(),
                                    shape_of<std::array<float, 3>>()};
    for (std::size_t i = 0; i < shapes.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            CAPTURE(i);
            CAPTURE(j);
            CHECK(shapes[i] != shapes[j]);
        }
}

}  // namespace bytes_test
