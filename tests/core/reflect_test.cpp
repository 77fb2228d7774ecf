// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/core/reflect.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/arena.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/view.hpp>

namespace reflect_test {

namespace outside {

struct Based : std::array<int, 2> {
    double rate = 0;
};
struct Bare {
    double rate = 0;
    float last[3] = {};
};
struct Pair {
    double left = 0, right = 0;
};
struct Fine {
    Pair pair;
    std::array<float, 3> last{};
    tessera::Vec<double> w;
    std::vector<Pair> pairs;
    tessera::Mask mask;
    const char* text = nullptr;
    double rate = 0;
};
static_assert(tessera::detail::HasBase<Based> && !tessera::detail::HasBase<Fine> && !tessera::detail::HasBase<Pair>);
static_assert(tessera::detail::HasArray<Bare> && !tessera::detail::HasArray<Fine>);
static_assert(!tessera::detail::HasArray<Pair> && !tessera::detail::HasArray<std::array<float, 3>>);

struct Settings {
    double rate = 0.1;
    int steps = 3;
    bool nesterov = false;
};
template <class R>
struct State {
    tessera::Vec<R> w, velocity;
    Settings inner;
};
struct value_holder {  // the word the names are searched by, as a type and as a field
    float value;
    float values_2;
    float v;
};

}  // namespace outside

namespace {

using namespace tessera;

struct Sixteen {
    int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
};
struct Hidden {
    double rate;
    Vec<float> w;
};
struct Everything {
    std::array<double, 3> triple;
    Mask mask;
    std::string text;
    Hidden inner;
    Nothing nothing;
    const int fixed;
};

template <class T>
std::vector<std::string> names() {
    const auto found = field_names<T>;
    return {found.begin(), found.end()};
}

// Counts and names of structs with 1, 2, ... fields of one kind.
// clang-format off
struct F1 { int a; };
struct F2 { int a, b; };
struct F3 { int a, b, c; };
struct F4 { int a, b, c, d; };
struct F5 { int a, b, c, d, e; };
struct F6 { int a, b, c, d, e, f; };
struct F7 { int a, b, c, d, e, f, g; };
struct F8 { int a, b, c, d, e, f, g, h; };
struct F9 { int a, b, c, d, e, f, g, h, i; };
struct F10 { int a, b, c, d, e, f, g, h, i, j; };
struct F11 { int a, b, c, d, e, f, g, h, i, j, k; };
struct F12 { int a, b, c, d, e, f, g, h, i, j, k, l; };
struct F13 { int a, b, c, d, e, f, g, h, i, j, k, l, m; };
struct F14 { int a, b, c, d, e, f, g, h, i, j, k, l, m, n; };
struct F15 { int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o; };
// clang-format on

// Fields of T are visited in order: their addresses grow and their names are a, b, c, ...
template <class T>
bool in_order(std::size_t count) {
    T object{};
    std::size_t seen = 0;
    const int* before = nullptr;
    bool good = true;
    for_each_field(object, [&](std::string_view name, int& field) {
        good = good && name == std::string(1, static_cast<char>('a' + seen)) && &field > before;
        before = &field;
        ++seen;
    });
    return good && seen == count && field_count<T> == count;
}

class Private {
public:
    int shown = 0;
    int sum() const { return shown + hidden; }

private:
    int hidden = 0;
};
struct Constructed {
    Constructed() {}
    int a = 0;
};

}  // namespace

TEST_CASE("fields are found with their names, in order") {
    CHECK(names<outside::Settings>() == std::vector<std::string>{"rate", "steps", "nesterov"});
    CHECK(names<outside::State<float>>() == std::vector<std::string>{"w", "velocity", "inner"});
    CHECK(names<Everything>() == std::vector<std::string>{"triple", "mask", "text", "inner", "nothing", "fixed"});
    CHECK(names<const outside::Settings&>() == names<outside::Settings>());
    static_assert(field_count<Nothing> == 0);
    CHECK(names<Nothing>().empty());
}

TEST_CASE("names do not depend on where a struct is declared or what it is called") {
    struct Local {
        double eta;
        int local_steps;
    };
    CHECK(names<Local>() == std::vector<std::string>{"eta", "local_steps"});
    CHECK(names<Hidden>() == std::vector<std::string>{"rate", "w"});
    CHECK(names<outside::value_holder>() == std::vector<std::string>{"value", "values_2", "v"});
    [] {
        struct InLambda {
            int depth;
        };
        CHECK(names<InLambda>() == std::vector<std::string>{"depth"});
    }();
}

TEST_CASE("every count up to sixteen") {
    CHECK(in_order<F1>(1));
    CHECK(in_order<F2>(2));
    CHECK(in_order<F3>(3));
    CHECK(in_order<F4>(4));
    CHECK(in_order<F5>(5));
    CHECK(in_order<F6>(6));
    CHECK(in_order<F7>(7));
    CHECK(in_order<F8>(8));
    CHECK(in_order<F9>(9));
    CHECK(in_order<F10>(10));
    CHECK(in_order<F11>(11));
    CHECK(in_order<F12>(12));
    CHECK(in_order<F13>(13));
    CHECK(in_order<F14>(14));
    CHECK(in_order<F15>(15));
    CHECK(in_order<Sixteen>(16));
    CHECK_FALSE(in_order<F3>(2));
}

TEST_CASE("fields are references: what is written arrives") {
    outside::Settings s;
    for_each_field(s, [](std::string_view name, auto& field) {
        if (name == "rate") field = static_cast<std::remove_reference_t<decltype(field)>>(2);
        if (name == "nesterov") field = true;
    });
    CHECK(s.rate == 2);
    CHECK(s.steps == 3);
    CHECK(s.nesterov);
    CHECK(with_fields(s, [](double&, int& steps, bool&) { return &steps; }) == &s.steps);

    const outside::Settings fixed{.rate = 7, .steps = 8, .nesterov = true};
    double sum = 0;
    for_each_field(fixed, [&](std::string_view, const auto& field) { sum += static_cast<double>(field); });
    CHECK(sum == 16);
    with_fields(fixed, [](auto& rate, auto&...) { static_assert(std::is_same_v<decltype(rate), const double&>); });
    static_assert(std::is_same_v<field_types<outside::Settings>, detail::Types<double, int, bool>>);
}

TEST_CASE("reading names makes no object") {
    struct Costly {
        Vec<double> first;
        std::string second;
        Costly* itself;
    };
    CHECK(names<Costly>() == std::vector<std::string>{"first", "second", "itself"});
}

TEST_CASE("plain structs are reflectable, others are not") {
    static_assert(Reflectable<outside::Settings>);
    static_assert(Reflectable<const outside::Settings&>);
    static_assert(Reflectable<Nothing>);
    static_assert(!Reflectable<Private>);
    static_assert(!Reflectable<Constructed>);
    static_assert(!Reflectable<Vec<int>>);
    static_assert(!Reflectable<int[3]>);
    static_assert(!Reflectable<double>);
    static_assert(!Reflectable<Mask>);
}

}  // namespace reflect_test
