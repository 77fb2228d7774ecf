// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <tessera/core/by_name.hpp>

#include <array>
#include <string>
#include <string_view>

namespace by_name_test {

using namespace tessera;

namespace {

enum class Colour : unsigned char { red, green };
constexpr std::array<std::string_view, 2> words_of(Colour) { return {"red", "green"}; }

struct Inner {
    double rate = 0.5;
    bool on = false;
};
struct Policy {
    Inner local{}, personal{};
    std::size_t epochs = 1;
    Colour colour = Colour::red;
};

}  // namespace

TEST_CASE("settings are listed by full name, in order, with their values") {
    const auto all = settings_of(Policy{});
    REQUIRE(all.size() == 6);
    CHECK(all[0] == std::pair<std::string, std::string>("local.rate", "0.5"));
    CHECK(all[3] == std::pair<std::string, std::string>("personal.on", "false"));
    CHECK(all[5] == std::pair<std::string, std::string>("colour", "red"));
}

TEST_CASE("a short name sets every field of that name, a full name one of them") {
    Policy p;
    CHECK(set_by_name(p, "rate", "0.25"));
    CHECK(p.local.rate == 0.25);
    CHECK(p.personal.rate == 0.25);
    CHECK(set_by_name(p, "personal.rate", "1e-3"));
    CHECK(p.local.rate == 0.25);
    CHECK(p.personal.rate == 1e-3);
    CHECK(set_by_name(p, "colour", "green"));
    CHECK(p.colour == Colour::green);
    CHECK(set_by_name(p, "local.on", "true"));
    CHECK(p.local.on);
    CHECK_FALSE(set_by_name(p, "ate", "1"));  // the end of a name is not the name
    CHECK_FALSE(set_by_name(p, "local", "1"));
}

TEST_CASE("of two names that mean a setting the more qualified one is the more specific") {
    CHECK(detail::qualifiers_of("rate") == 0);
    CHECK(detail::qualifiers_of("local.rate") == 1);
    CHECK(detail::qualifiers_of("order.v.rate") == 2);
    for (const auto& [name, value] : settings_of(Policy{}))  // a full name means one, and has the most of them
        CHECK(detail::qualifiers_of(name) == (name.find('.') == name.npos ? 0u : 1u));
}

TEST_CASE("a value that does not fit is a sentence, and nothing changes") {
    Policy p;
    CHECK_THROWS_WITH_AS(set_by_name(p, "local.rate", "fast"), "local.rate is a number, not 'fast'", ConfigError);
    CHECK_THROWS_WITH_AS(set_by_name(p, "epochs", "1.5"), "epochs is a whole number, not '1.5'", ConfigError);
    CHECK_THROWS_WITH_AS(set_by_name(p, "epochs", "-1"), "epochs is a whole number, not '-1'", ConfigError);
    CHECK_THROWS_WITH_AS(set_by_name(p, "colour", "blue"), "colour is one of red, green, not 'blue'", ConfigError);
    CHECK_THROWS_WITH_AS(set_by_name(p, "local.on", "1"), "local.on is true or false, not '1'", ConfigError);
    CHECK(settings_of(p) == settings_of(Policy{}));
}

}  // namespace by_name_test
