// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/sequences.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <support/folder.hpp>

#if TESSERA_HAS_JSON
#include <tessera/io/leaf.hpp>
#include <tessera/io/text_json.hpp>
#endif

namespace sequences_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using namespace tessera::support;
using doctest::Contains;
using Names = std::vector<std::string>;
using Ids = std::vector<std::int32_t>;
using Texts = std::vector<ClientText>;

Names names(const Texts& clients) {
    Names all;
    for (const auto& each : clients) all.push_back(each.client);
    return all;
}
Ids row(const data::Pool& pool, std::size_t i) {
    const auto& e = pool.examples.examples();
    Ids out;
    for (std::size_t t = 0; t < e.width; ++t)
        out.push_back(e.storage == Storage::bytes
                          ? std::int32_t{static_cast<const std::uint8_t*>(e.rows)[i * e.width + t]}
                          : static_cast<const std::int32_t*>(e.rows)[i * e.width + t]);
    return out;
}
Ids labels(const data::Pool& pool, std::size_t i) {
    const auto& e = pool.examples.examples();
    return {e.labels + i * e.labels_each, e.labels + (i + 1) * e.labels_each};
}
Texts table(std::string_view text, const TextTableSettings& settings = {}) {
    return decode_text_table(text, settings, "some.tsv");
}

}  // namespace

TEST_CASE("the first part of a client's words trains, the rest is tested on, and the vocabulary knows training only") {
    const Texts people{{"b", {"abcdefgh", "xy"}}, {"a", {"zz"}}};
    const auto halves = split_by_time(people, 0.5, TextUnit::characters);
    REQUIRE(halves.train.size() == 2);
    CHECK(halves.train[0].texts == Names{"abcde"});
    CHECK(halves.test[0].texts == Names{"fgh", "xy"});
    const auto words = vocabulary_of(halves.train, {});
    CHECK(words.id("e") != words.unknown());
    CHECK(words.id("f") == words.unknown());
    const auto whole = split_by_time(people, 1, TextUnit::characters);
    CHECK(whole.test.empty());
    CHECK(whole.train[0].texts == people[0].texts);
    const auto of_words = split_by_time(Texts{{"a", {"to be, or not to be"}}}, 0.5, TextUnit::words);
    CHECK(of_words.train[0].texts == Names{"to be,"});  // 3 of 7
    CHECK(of_words.test[0].texts == Names{" or not to be"});
    CHECK_THROWS_WITH_AS(split_by_time(people, 0, TextUnit::words), Contains("(0, 1]"), ConfigError);
}

TEST_CASE("joined texts are one; empty ones leave no trace") {
    const auto one = joined(Texts{{"a", {"x", "", "yz"}}, {"b", {""}}});
    CHECK(one[0].texts == Names{"x\nyz"});
    CHECK(one[1].texts.empty());
}

TEST_CASE("rows: every word is a label once, padding has none, small vocabularies are bytes") {
    const TextHalves halves{{{"b", {"abcdefgh"}}, {"a", {"ab", "c"}}, {"empty", {"x"}}}, {{"b", {"hg"}}, {"new", {"ab"}}}};
    const auto words = vocabulary_of(Texts{{"", {"abcdefgh"}}}, {});
    const auto pool = sequence_pool(halves, words, {.length = 3});
    CHECK(pool.clients == Names{"a", "b"});  // who has no two words to train on, and who is only tested, is left out
    CHECK(pool.client_of == std::vector<Id>{0, 1, 1, 1, 1});
    CHECK(pool.train_size == 4);
    const auto& e = pool.examples.examples();
    CHECK(e.storage == Storage::bytes);
    CHECK(e.labels_each == 3);
    CHECK(row(pool, 0) == Ids{1, 0, 0});  // the last word only follows
    CHECK(labels(pool, 0) == Ids{2, -1, -1});
    CHECK(row(pool, 1) == Ids{1, 2, 3});
    CHECK(labels(pool, 1) == Ids{2, 3, 4});
    CHECK(row(pool, 3) == Ids{7, 0, 0});
    CHECK(labels(pool, 3) == Ids{8, -1, -1});
    CHECK(labels(pool, 4) == Ids{7, -1, -1});
    CHECK(pool.federated()[1].test.size() == 1);

    std::string many;
    for (int i = 0; i < 300; ++i) many += "w" + std::to_string(i) + " ";
    const Texts wordy{{"a", {many}}};
    const auto large = vocabulary_of(wordy, {.unit = TextUnit::words});
    const auto wide = sequence_pool({wordy, {}}, large, {.length = 299});
    CHECK(wide.examples.examples().storage == Storage::int32);
    CHECK(row(wide, 0)[298] == large.id("w298"));
    CHECK(labels(wide, 0)[298] == large.id("w299"));

    const auto framed = sequence_pool({{{"a", {"ab"}}}, {}}, words, {.length = 3, .framed = true});
    CHECK(row(framed, 0) == Ids{words.begin(), 1, 2});
    CHECK(labels(framed, 0) == Ids{1, 2, words.end()});

    CHECK_THROWS_WITH_AS(sequence_pool(halves, words, {.length = 0}), Contains("length"), ConfigError);
    CHECK_THROWS_WITH_AS(sequence_pool({{{"a", {"x"}}}, {}}, words, {}), Contains("no client has two"), ConfigError);
    CHECK_THROWS_WITH_AS(sequence_pool({{{"a", {"ab"}}, {"a", {"ab"}}}, {}}, words, {}),
                         Contains("two clients are called 'a'"), ConfigError);
}

TEST_CASE("tables of texts, by names of columns or by number") {
    const auto people = table("client\ttext\nann\tto be\nbob\tor \"not\nann\tsecond\\nline\\\\ \\x\n\n");
    CHECK(names(people) == Names{"ann", "bob"});
    CHECK(people[0].texts == Names{"to be", "second\nline\\ \\x"});
    CHECK(people[1].texts == Names{"or \"not"});
    const TextTableSettings plain{.client = "2", .text = "1", .header = false};
    CHECK(names(table("to be\tann\r\nor\tbob", plain)) == Names{"ann", "bob"});
    const auto quoted = table("text,x,client\n\"a, \"\"b\"\"\nc\",1,ann\n", {.separator = ','});
    CHECK(quoted[0].texts == Names{"a, \"b\"\nc"});
    CHECK(table("client\ttext\nann\t\n")[0].texts.empty());
    // A line of a megabyte is a line.
    CHECK(table("client\ttext\nann\t" + std::string(1 << 20, 'x'))[0].texts[0].size() == 1 << 20);
}

TEST_CASE("tables that are none are refused with file and line") {
    const auto refused = [](const std::string& text, const char* what, const TextTableSettings& s = {}) {
        CHECK_THROWS_WITH_AS(table(text, s), Contains(what), IoError);
        CHECK_THROWS_WITH_AS(table(text, s), Contains("some.tsv"), IoError);
    };
    refused("", "is empty");
    refused("client\ttext\nann\tgood\nbob\t\xFF\n", "is not UTF-8 text in line 3");
    refused(std::string("client\ttext\nann\tx\0y\n", 21), "a NUL byte in line 2");
    refused("who\ttext\nann\tx\n", "line 1: there is no column 'client'");
    refused("client\ttext\nann\n", "line 2: it has 1 columns, and column 2");
    refused("client\ttext\n\tx\n", "line 2: it names no client");
    refused("ann\tx\n", "called by its number", {.client = "who", .header = false});
    refused("ann\tx\n", "line 1: it has 2 columns, and column 3", {.client = "1", .text = "3", .header = false});
    refused("client,text\nann,\"x\n", "a quote is opened", {.separator = ','});
    refused("client\ttext\n", "same column", {.client = "text"});
}

TEST_CASE("a folder of files a client") {
    const Folder folder;
    make_directories(folder / "bob");
    folder.write("ann.txt", std::string_view("one"));
    folder.write("bob/2.txt", std::string_view("later"));
    folder.write("bob/1.txt", std::string_view("first"));
    const auto read = read_client_texts(folder.path());
    CHECK(names(read) == Names{"ann", "bob"});
    CHECK(read[1].texts == Names{"first", "later"});
    folder.write("bob/3.txt", std::string_view("good\n\xC3"));
    CHECK_THROWS_WITH_AS(read_client_texts(folder.path()), Contains("3.txt: is not UTF-8 text in line 2"), IoError);
}

#if TESSERA_HAS_JSON
TEST_CASE("lines of JSON") {
    const auto read = [](std::string_view text) {
        return decode_text_json(text, {.client = "who", .text = "said"}, "some.jsonl");
    };
    const auto people = read("{\"who\": \"ann\", \"said\": \"to\\nbe\", \"more\": [1]}\n\n{\"said\": \"or\", \"who\": 7}\n");
    CHECK(names(people) == Names{"ann", "7"});
    CHECK(people[0].texts == Names{"to\nbe"});
    const auto refused = [&](std::string_view text, const char* what) {
        CHECK_THROWS_WITH_AS(read(text), Contains(what), IoError);
    };
    refused("", "is empty");
    refused("{\"who\": \"a\", \"said\": \"x\"}\n{\"who\"", "line 2: is no JSON object");
    refused("[1]", "line 1: is no JSON object");
    refused("{\"who\": \"a\"}", "line 1: has no member 'said'");
    refused("{\"who\": 1.5, \"said\": \"x\"}", "neither a text nor a whole number");
    refused("{\"who\": \"a\", \"said\": 3}", "its text is none");
    refused("{\"who\": \"\", \"said\": \"x\"}", "names no client");
    refused("{\"who\": \"a\", \"said\": \"\\u0000\"}", "line 1: a NUL byte");
    refused("{\"who\": \"a\", \"said\": \"\xFF\"}", "is not UTF-8 text in line 1");
}

TEST_CASE("LEAF's texts with a label at every position") {
    const auto users = [](const std::string& x, const std::string& y, int n) {
        return decode_leaf("{\"users\": [\"u\"], \"num_samples\": [" + std::to_string(n) + "], \"user_data\": {\"u\": {\"x\": " + x +
                               (y.empty() ? "" : ", \"y\": " + y) + "}}}",
                           "some.json");
    };
    const auto words = vocabulary_of(Texts{{"", {"abcdef"}}}, {});
    const auto shakespeare = leaf_sequences({users("[\"abc\", \"bcd\"]", "[\"d\", \"e\"]", 2), {}}, words, 3, "some.json");
    CHECK(row(shakespeare, 0) == Ids{1, 2, 3});
    CHECK(labels(shakespeare, 0) == Ids{2, 3, 4});
    CHECK(labels(shakespeare, 1) == Ids{3, 4, 5});
    const auto shifted = leaf_sequences({users("[\"abcd\"]", "[\"bcde\"]", 1), {}}, words, 3, "some.json");
    CHECK(shifted.examples.size() == 2);
    CHECK(labels(shifted, 1) == Ids{5, -1, -1});
    const auto texts = leaf_sequences({users("[\"abcd\"]", "", 1), users("[\"ab\"]", "", 1)}, words, 3, "some.json");
    CHECK(texts.train_size == 1);
    CHECK(labels(texts, 0) == Ids{2, 3, 4});
    CHECK(labels(texts, 1) == Ids{2, -1, -1});
    CHECK_THROWS_WITH_AS(leaf_sequences({users("[\"abcd\"]", "[\"bc\"]", 1), {}}, words, 3, "some.json"),
                         Contains("an answer of 2 words for a text of 4"), IoError);
    CHECK_THROWS_WITH_AS(leaf_sequences({users("[[1, 2]]", "[1]", 1), {}}, words, 3, "some.json"),
                         Contains("user 'u' has numbers"), IoError);
    CHECK_THROWS_WITH_AS(users("[[1, 2]]", "", 1), Contains("1 examples in x, 0 in y"), IoError);
}
#endif

}  // namespace sequences_test
