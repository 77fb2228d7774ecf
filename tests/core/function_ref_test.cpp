// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/core/function_ref.hpp>

#include <memory>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

namespace function_ref_test {

using tessera::FunctionRef;

namespace {

int twice(int x) { return 2 * x; }
int applied(FunctionRef<int(int)> f, int x) { return f(x); }

}  // namespace

TEST_CASE("it calls what it was given, and nothing is copied") {
    int calls = 0;
    auto counting = [&calls, only_one = std::make_unique<int>(1)](int x) {  // cannot be copied
        ++calls;
        return x + *only_one;
    };
    CHECK(applied(counting, 4) == 5);
    CHECK(applied(std::as_const(counting), 5) == 6);
    CHECK(applied([](int x) { return -x; }, 3) == -3);
    int (*pointer)(int) = twice;
    CHECK(applied(pointer, 21) == 42);
    CHECK(calls == 2);
}

TEST_CASE("a copy means the same function, also one with a state of its own") {
    auto counter = [n = 0]() mutable { return ++n; };
    const FunctionRef<int()> first = counter, second = first;
    CHECK(first() == 1);
    CHECK(second() == 2);
    CHECK(counter() == 3);
}

TEST_CASE("arguments arrive as they are: references and what can only be moved") {
    int x = 1;
    const auto set = [](int& to, std::unique_ptr<int> from) { to = *from; };
    FunctionRef<void(int&, std::unique_ptr<int>)>{set}(x, std::make_unique<int>(7));
    CHECK(x == 7);
}

TEST_CASE("only what can be called so") {
    static_assert(std::is_constructible_v<FunctionRef<int(int)>, int (*&)(int)>);
    static_assert(!std::is_constructible_v<FunctionRef<int(int)>, int (*&)(int*)>);
    static_assert(!std::is_constructible_v<FunctionRef<int(int)>, const int&>);
}

}  // namespace function_ref_test
