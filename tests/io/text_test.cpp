// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/text.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <support/folder.hpp>

namespace text_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using namespace tessera::support;
using doctest::Contains;
using Names = std::vector<std::string>;
using Ids = std::vector<std::int32_t>;

Vocabulary vocabulary_of(std::string_view text, const TextSettings& settings) {
    return Vocabulary::of(std::vector<std::string_view>{text}, settings);
}

std::vector<float> window(const data::Pool& pool, std::size_t i) {
    const auto& view = pool.examples.examples();
    std::vector<float> out(view.width);
    view.fetch(view.rows, i, out.data());
    return out;
}

void refused(const std::string& body, const char* what) {
    const std::string text = body + io::detail::split_checksum(body);
    CHECK_THROWS_WITH_AS(decode_vocabulary(text, "some.txt"), Contains(what), IoError);
}

}  // namespace

TEST_CASE("a vocabulary: the most frequent first, four ids of its own") {
    const auto v = vocabulary_of("abracadabra", {.most = 3});
    CHECK(v.tokens() == Names{"a", "b", "r"});  // b and r are equally frequent
    CHECK(v.size() == 7);
    CHECK(v.ids("abc") == Ids{1, 2, 4});
    CHECK(v.unknown() == 4);
    CHECK(v.begin() == 5);
    CHECK(v.end() == 6);
    CHECK(vocabulary_of("\xC3\xA9t\xC3\xA9", {}).tokens() == Names{"\xC3\xA9", "t"});  // a code point is one character

    const auto words = vocabulary_of("To be, or not to be!", {.unit = TextUnit::words, .lower_case = true});
    CHECK(words.tokens() == Names{"be", "to", "!", ",", "not", "or"});
    CHECK(words.ids("TO BE\tor\nwhat?") == Ids{2, 1, 6, 7, 7});
    CHECK(vocabulary_of("To to", {.unit = TextUnit::words}).tokens() == Names{"To", "to"});
}

TEST_CASE("a vocabulary on disk reads back, damaged ones are refused") {
    const Folder folder;
    for (const auto& v : {vocabulary_of("a\nb\\c\r d", {}), vocabulary_of("x y\\n .", {.unit = TextUnit::words}),
                          vocabulary_of("", {}), vocabulary_of("A b", {.lower_case = true})}) {
        write_vocabulary(folder / "v.txt", v);
        CHECK(read_vocabulary(folder / "v.txt") == v);
    }
    const auto text = encode_vocabulary(vocabulary_of("a\nb\\c\r d", {}));
    for (std::size_t n = 0; n < text.size(); ++n)
        CHECK_THROWS_AS(decode_vocabulary(std::string_view(text).substr(0, n), "x"), IoError);
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto flipped = text;
        flipped[i] = static_cast<char>(flipped[i] ^ 1);
        CHECK_THROWS_AS(decode_vocabulary(flipped, "x"), IoError);
    }
    const std::string head = "tessera-vocabulary 1 characters as-is ";
    refused("tessera-split 1\n", "is not a tessera vocabulary");
    refused("tessera-vocabulary 1 lines as-is 0\n", "'characters ' is expected");
    refused("tessera-vocabulary 1 words loud 0\n", "'as-is ' is expected");
    refused(head + "2\na\n", "token 2 of 2 is not there");
    refused(head + "18446744073709551615\na\n", "token 2 of 18446744073709551615 is not there");
    refused(head + "1\na\nb\n", "more tokens than the 1");
    refused(head + "2\na\na\n", "token 2 is there twice");
    refused(head + "1\nab\n", "token 1 is none of characters");
    refused(head + "1\n\n", "token 1 is none of characters");
    refused(head + "1\n\\x\n", "stray backslash");
    refused(head + "1\n\\\n", "stray backslash");
    refused(head + "1\n\r\n", "a carriage return that is not written");  // one text, one file
    refused("tessera-vocabulary 1 words as-is 1\na b\n", "token 1 is none of words");
    refused("tessera-vocabulary 1 words as-is 1", "the line should end here");
}

TEST_CASE("windows: the next token is the label, and no test label was read in training") {
    std::string text;
    for (int i = 0; i < 40; ++i) text += static_cast<char>('A' + i);
    const std::vector<ClientText> people{{"b", {text}}, {"a", {"xy"}}, {"empty", {"", "z"}}};
    const auto v = vocabulary_of(text + "xy", {});
    const auto pool = text_pool(people, v, {.length = 5, .train_share = 0.5});
    CHECK(pool.clients == Names{"a", "b"});  // who has no two tokens has no example
    CHECK(pool.examples.examples().classes == v.size());
    // 40 characters hold 35 windows of 5 and a label: 17 train, 4 overlap, 14 test; and the padded one of "xy".
    CHECK(pool.train_size == 18);
    CHECK(pool.examples.size() == 18 + 14);
    CHECK(window(pool, 0) == std::vector<float>{0, 0, 0, 0, static_cast<float>(v.id("x"))});
    CHECK(pool.examples.label(0) == v.id("y"));
    const auto begin = static_cast<float>(v.id("A"));
    CHECK(window(pool, 1) == std::vector<float>{begin, begin + 1, begin + 2, begin + 3, begin + 4});
    CHECK(pool.examples.label(1) == v.id("F"));
    std::int32_t last = 0;
    for (std::size_t i = 1; i < pool.train_size; ++i) last = std::max(last, pool.examples.label(i));
    CHECK(window(pool, 18).front() == static_cast<float>(last));  // LEAF's gap: the first test input is the last label
    const auto clients = pool.federated();
    CHECK(clients[1].train.size() == 17);
    CHECK(clients[1].test.size() == 14);

    CHECK(text_pool(people, v, {.length = 5, .stride = 5}).examples.size() < pool.examples.size());
    const auto framed = text_pool(std::vector<ClientText>{{"a", {"x"}}}, v, {.length = 2, .framed = true});
    CHECK(window(framed, 0) == std::vector<float>{static_cast<float>(v.begin()), static_cast<float>(v.id("x"))});
    CHECK(framed.examples.label(0) == v.end());
}

TEST_CASE("windows that cannot be, and files that are no text, are refused") {
    const std::vector<ClientText> people{{"a", {"xyz"}}};
    const auto v = vocabulary_of("xyz", {});
    CHECK_THROWS_WITH_AS(text_pool(people, v, {.length = 0}), Contains("length"), ConfigError);
    CHECK_THROWS_WITH_AS(text_pool(people, v, {.stride = 0}), Contains("stride"), ConfigError);
    CHECK_NOTHROW(WindowSettings{.length = std::size_t{1} << 20}.validate());
    CHECK_THROWS_WITH_AS((WindowSettings{.length = (std::size_t{1} << 20) + 1}.validate()), Contains("1..2^20"), ConfigError);
    CHECK_THROWS_WITH_AS(text_pool(people, v, {.train_share = 0}), Contains("train_share"), ConfigError);
    CHECK_THROWS_WITH_AS(text_pool({}, v, {}), Contains("no text has two tokens"), ConfigError);
    const std::vector<ClientText> twins{{"a", {"xyz"}}, {"a", {"zyx"}}};
    CHECK_THROWS_WITH_AS(text_pool(twins, v, {}), Contains("two clients are called 'a'"), ConfigError);

    const Folder folder;
    CHECK_THROWS_WITH_AS(read_client_texts(folder.path()), Contains("holds no .txt file"), IoError);
    folder.write("washington.txt", std::string_view("Fellow citizens"));
    folder.write("notes.md", std::string_view("left out"));
    const auto read = read_client_texts(folder.path());
    REQUIRE(read.size() == 1);
    CHECK(read[0].client == "washington");
    CHECK(read[0].texts == Names{"Fellow citizens"});
    folder.write("z.txt", std::string_view("\xFF\xFE"));
    CHECK_THROWS_WITH_AS(read_client_texts(folder.path()), Contains("z.txt: is not UTF-8"), IoError);
}

}  // namespace text_test
