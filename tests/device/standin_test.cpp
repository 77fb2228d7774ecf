// SPDX-License-Identifier: BSD-3-Clause
// The stand-in catches the mistakes that a program for a GPU makes and a CPU forgives; each is planted here. Beside each is the
// same without the mistake.
#include <tessera/device/runtime.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <device/standin/standin.hpp>
#include <doctest/doctest.h>

namespace standin_test {

using namespace tessera;
using device::Array;
using device::Context;

struct Fresh {
    Fresh() { standin::reset(); }
    ~Fresh() { standin::reset(); }
};

bool told(const std::string& words) {
    for (const auto& fault : standin::faults())
        if (fault.find(words) != std::string::npos) return true;
    return false;
}

// a 2 x 3, b 3 x 4; a' b is what the tests below ask for, with a mistake.
struct Problem {
    Context on;
    std::vector<float> a{1, 2, 3, 4, 5, 6}, b{1, 0, 2, 0, 0, 1, 0, 3, 1, 1, 1, 1}, c = std::vector<float>(8);
    Array<float> da{6}, db{12}, dc{8};

    Problem() {
        on.up(a.data(), da.data(), 6);
        on.up(b.data(), db.data(), 12);
        on.finish();
    }
    std::vector<float> result() {
        on.down(dc.data(), c.data(), c.size());
        on.finish();
        return c;
    }
};
const std::vector<float> right{4, 5, 5, 9, 10, 11, 14, 21};

TEST_CASE("a product lies row by row") {
    const Fresh fresh;
    Problem p;
    p.on.product({p.da.data(), 3}, {p.db.data(), 4}, p.dc.data(), 4, 0, 2, 4, 3);
    CHECK(p.result() == right);
    CHECK(standin::faults().empty());
    CHECK(standin::products() == 1);
}

TEST_CASE("a host pointer") {
    const Fresh fresh;
    Problem p;
    p.on.product({p.a.data(), 3}, {p.db.data(), 4}, p.dc.data(), 4, 0, 2, 4, 3);
    CHECK_THROWS_AS(p.on.finish(), DeviceError);
    CHECK(told("does not lie in device memory"));
    CHECK_THROWS_AS(p.on.zero(p.dc.data(), 8), DeviceError);  // as on a device, nothing works afterwards
}
TEST_CASE("a host pointer for a kernel") {
    const Fresh fresh;
    Problem p;
    device::must(device::kernel::tessera_add(6, p.da.data(), p.a.data(), p.da.data(), p.on.stream()));
    CHECK_THROWS_AS(p.on.finish(), DeviceError);
    CHECK(told("not the device's"));
}
TEST_CASE("a missing synchronisation: what is read too early is not there") {
    const Fresh fresh;
    Problem p;
    p.on.product({p.da.data(), 3}, {p.db.data(), 4}, p.dc.data(), 4, 0, 2, 4, 3);
    p.on.down(p.dc.data(), p.c.data(), 8);
    CHECK(std::isnan(p.c[0]));
    p.on.finish();
    CHECK(p.c == right);
}
TEST_CASE("a missing synchronisation: what is changed too early") {
    const Fresh fresh;
    Problem p;
    std::vector<float> more{1, 2, 3};
    p.on.up(more.data(), p.dc.data(), 3);
    more[1] = 7;
    CHECK_THROWS_AS(p.on.finish(), DeviceError);
    CHECK(told("the host changed numbers"));
}
TEST_CASE("a missing synchronisation: another stream knows nothing of this one") {
    const Fresh fresh;
    Problem p;
    const Context other;
    p.on.product({p.da.data(), 3}, {p.db.data(), 4}, p.dc.data(), 4, 0, 2, 4, 3);
    other.down(p.dc.data(), p.c.data(), 8);
    CHECK_THROWS_AS(other.finish(), DeviceError);
    CHECK(told("nobody wrote"));
}
TEST_CASE("a leading dimension that is one too small, or one too large") {
    const Fresh fresh;
    {
        Problem p;
        CHECK_THROWS_AS(p.on.product({p.da.data(), 2}, {p.db.data(), 4}, p.dc.data(), 4, 0, 2, 4, 3), DeviceError);
        CHECK(told("leading dimension"));
    }
    standin::reset();
    Problem p;
    p.on.product({p.da.data(), 4}, {p.db.data(), 4}, p.dc.data(), 4, 0, 2, 4, 3);
    CHECK_THROWS_AS(p.on.finish(), DeviceError);
    CHECK(told("beyond its allocation"));
}
TEST_CASE("a read of numbers that nobody wrote") {
    const Fresh fresh;
    Problem p;
    const Array<float> empty(12);
    p.on.product({p.da.data(), 3}, {empty.data(), 4}, p.dc.data(), 4, 0, 2, 4, 3);
    CHECK_THROWS_AS(p.on.finish(), DeviceError);
    CHECK(told("nobody wrote"));
}
TEST_CASE("adding to numbers that nobody wrote; beta 0 reads nothing") {
    const Fresh fresh;
    Problem p;
    p.on.product({p.da.data(), 3}, {p.db.data(), 4}, p.dc.data(), 4, 0, 2, 4, 3, 1, 1, 1);
    CHECK_THROWS_AS(p.on.finish(), DeviceError);
    CHECK(told("adds to numbers that nobody wrote"));
}
TEST_CASE("an output over an input") {
    const Fresh fresh;
    Problem p;
    p.on.product({p.da.data(), 3}, {p.db.data(), 4}, p.db.data(), 4, 0, 2, 4, 3);
    CHECK_THROWS_AS(p.on.finish(), DeviceError);
    CHECK(told("writes where it reads"));
}
TEST_CASE("outputs of a batch over each other") {
    const Fresh fresh;
    Problem p;
    p.on.product({p.da.data(), 3}, {p.db.data(), 1}, p.dc.data(), 1, 1, 2, 1, 3, 2);
    CHECK_THROWS_AS(p.on.finish(), DeviceError);
    CHECK(told("overlap"));
}
TEST_CASE("a transposed operand: sizes that do not fit are refused, and where they fit numbers are others") {
    const Fresh fresh;
    {
        Problem p;
        CHECK_THROWS_AS(p.on.product({p.da.data(), 3}, {p.db.data(), 2, 0, true}, p.dc.data(), 4, 0, 2, 4, 3), DeviceError);
    }
    standin::reset();
    Problem p;
    const auto two_by_two = [&](bool turned) {
        p.on.product({p.da.data(), 2, 0, turned}, {p.db.data(), 2}, p.dc.data(), 2, 0, 2, 2, 2);
        p.on.zero(p.dc.data() + 4, 4);
        return p.result();
    };
    const auto straight = two_by_two(false), other = two_by_two(true);
    CHECK(straight == std::vector<float>{5, 0, 11, 0, 0, 0, 0, 0});
    CHECK(other == std::vector<float>{7, 0, 10, 0, 0, 0, 0, 0});
}
TEST_CASE("a kernel that writes behind the end") {
    const Fresh fresh;
    Problem p;
    device::must(device::kernel::tessera_add(7, p.db.data(), p.db.data(), p.da.data(), p.on.stream()));
    CHECK_THROWS_AS(p.on.finish(), DeviceError);
    CHECK(told("behind the end"));
}

TEST_CASE("it fails on demand") {
    const Fresh fresh;
    standin::memory(std::size_t{40} << 20);  // a context takes 32 MiB of it
    {
        Problem p;
        CHECK_THROWS_AS(Array<float>(std::size_t{4} << 20), device::OutOfMemory);
        CHECK_NOTHROW(p.on.finish());  // nothing has happened
        standin::fail_allocation(1);
        CHECK_NOTHROW(Array<float>(4));
        CHECK_THROWS_AS(Array<float>(4), device::OutOfMemory);
        CHECK_NOTHROW(Array<float>(4));
        standin::fail_launch(1);
        CHECK_NOTHROW(p.on.zero(p.dc.data(), 8));
        CHECK_THROWS_AS(p.on.zero(p.dc.data(), 8), DeviceError);
        CHECK_THROWS_AS(p.on.finish(), DeviceError);
    }
    standin::reset();
    Problem p;
    standin::lose(0);
    CHECK_THROWS_AS(p.on.zero(p.dc.data(), 8), DeviceError);
    CHECK_THROWS_AS(Array<float>(4), DeviceError);
    CHECK_FALSE(device::present());
}
TEST_CASE("without a driver there is no device") {
    const Fresh fresh;
    CHECK(device::present());
    standin::present(false);
    CHECK_FALSE(device::present());
    CHECK_THROWS_AS(Context(), DeviceError);
}
TEST_CASE("what is freed comes back") {
    const Fresh fresh;
    { const Problem p; }
    CHECK(standin::in_use() == 0);
    CHECK(standin::most_in_use() > 0);
}

}  // namespace standin_test
