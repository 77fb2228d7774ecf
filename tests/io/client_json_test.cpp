// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/client_json.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <support/folder.hpp>

namespace client_json_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using Texts = std::vector<std::string>;

std::vector<ClientText> read(std::string_view text, const std::string& member = "") {
    return decode_client_json(text, {member}, "so.json");
}
std::string refusal(std::string_view text, const std::string& member = "") {
    try {
        read(text, member);
    } catch (const IoError& e) {
        return e.what();
    }
    return {};
}

constexpr std::string_view exported = R"({
  "1001": {"creation_date": ["2010-01-02 03:04:05.1 UTC", "2010-01-03"], "title": ["loops", ""], "score": [3, -1],
           "tokens": ["how do i loop", "like \u00e9 this"], "tags": ["c++|loops", "c++"], "type": ["question", "answer"]},
  "1002": {"tokens": [["one", "two"], [], ["three"]], "title": ["t"]}
})";

}  // namespace

TEST_CASE("clients with their members, as TensorFlow Federated has StackOverflow") {
    const auto all = read(exported);
    REQUIRE(all.size() == 2);
    CHECK(all[0].client == "1001");
    CHECK(all[0].texts == Texts{"how do i loop", "like \xC3\xA9 this"});
    CHECK(all[1].texts == Texts{"one two", "three"});  // words are joined, an empty text says nothing
    CHECK(read(exported, "title")[0].texts == Texts{"loops"});
    CHECK(refusal(exported, "tags") == "so.json: client '1002' has no member 'tags'; it has tokens, title");
    const support::Folder folder;
    folder.write("so.json", exported);
    CHECK(read_client_json(folder / "so.json").size() == 2);
}

TEST_CASE("LEAF's lists, sentences of words in lists") {
    const auto all = read(R"({"users": ["b", "a"], "num_samples": [2, 1], "user_data": {
        "b": {"y": [{"count": 3}, null], "x": [[["<BOS>", "so", "it"], ["goes", "on"]], ["alone"]]},
        "a": {"x": ["whole sentence"], "tokens": ["not these"]}}, "hierarchies": [["all"], 7, {"x": null}]})");
    REQUIRE(all.size() == 2);
    CHECK(all[0].client == "b");
    CHECK(all[0].texts == Texts{"<BOS> so it", "goes on", "alone"});
    CHECK(all[1].texts == Texts{"whole sentence"});
    // A client may be called as one of the lists is, where that does not stand first.
    CHECK(read(R"({"ann": {"tokens": ["a"]}, "users": {"tokens": ["b"]}})")[1].client == "users");
}

TEST_CASE("faults are told with the file and the place") {
    CHECK(refusal(R"({"ann": {"tokens": ["one", 2]}})") ==
          "so.json: client 'ann', text 2 of 'tokens': a number where a text should be");
    CHECK(refusal(R"({"ann": {"tokens": ["one", null]}})").ends_with("text 2 of 'tokens': null where a text should be"));
    CHECK(refusal(R"({"ann": {"tokens": ["one", {"a": 1}]}})").ends_with("text 2 of 'tokens': an object where a text should be"));
    CHECK(refusal(R"({"ann": {"tokens": [["one", ["two"]]]}})").ends_with("text 1 of 'tokens': words beside lists of words"));
    CHECK(refusal(R"({"ann": {"tokens": [[["one"], "two"]]}})").ends_with("text 1 of 'tokens': words beside lists of words"));
    CHECK(refusal(R"({"ann": {"tokens": ["o\u0000ne"]}})").ends_with("text 1 of 'tokens': a NUL byte, which no text has"));
    CHECK(refusal(R"({"ann": {"tokens": "one"}})") == "so.json: client 'ann' has a text as 'tokens', not a list of texts");
    CHECK(refusal(R"({"ann": {"title": ["one"]}})") == "so.json: client 'ann' has no member 'tokens'; it has title");
    CHECK(refusal(R"({"ann": {}})") == "so.json: client 'ann' has no member 'tokens'");
    CHECK(refusal(R"({"ann": ["one"]})") == "so.json: client 'ann' has a list where something else is needed");
    CHECK(refusal(R"({"ann": {"tokens": []}, "ann": {"tokens": []}})") == "so.json: client 'ann' is there twice");
    CHECK(refusal(R"({"ann": {"tokens": [], "tokens": []}})") == "so.json: client 'ann' has two members 'tokens'");
    CHECK(refusal(R"({"": {"tokens": []}})") == "so.json: a client has no name, or a NUL byte in it");
    CHECK(refusal("{}") == "so.json: holds no client");
    CHECK(refusal("[]") == "so.json: is a list, not an object of clients");
    CHECK(refusal("7") == "so.json: is a number, not an object of clients");
    CHECK(refusal("{\"ann\":\n{\"tokens\": [\"one\",\n]}}").starts_with("so.json: is not JSON in line 3 (byte "));
    CHECK(refusal("{\"ann\": {\"tokens\": [\"\xFF\"]}}") == "so.json: is not UTF-8 text in line 1");
    CHECK(refusal("").starts_with("so.json: is not JSON in line 1"));
}

TEST_CASE("lists of LEAF that disagree are refused") {
    const auto leaf = [](std::string_view users, std::string_view counts, std::string_view data) {
        return refusal("{\"users\": " + std::string(users) + ", \"num_samples\": " + std::string(counts) +
                       ", \"user_data\": " + std::string(data) + "}");
    };
    CHECK(leaf(R"(["a"])", "[1]", R"({"a": {"x": ["t"]}})").empty());
    CHECK(leaf(R"(["a"])", "[2]", R"({"a": {"x": ["t"]}})") == "so.json: client 'a' has 1 texts and 2 in num_samples");
    CHECK(leaf(R"(["a", "b"])", "[1]", R"({"a": {"x": ["t"]}})") ==
          "so.json: names 2 users, but counts the examples of 1");
    CHECK(leaf(R"(["b"])", "[1]", R"({"a": {"x": ["t"]}})") == "so.json: client 'b' is not in user_data");
    CHECK(leaf(R"(["a", "a"])", "[1, 1]", R"({"a": {"x": ["t"]}})") == "so.json: names the user 'a' twice");
    CHECK(leaf(R"(["a"])", "[1]", R"({"a": {"x": ["t"]}, "b": {"x": []}})") ==
          "so.json: has data of client 'b', who is not in users");
    CHECK(leaf(R"(["a"])", "[-1]", R"({"a": {"x": ["t"]}})").ends_with("in num_samples, which is not a count"));
    CHECK(leaf(R"([7])", "[1]", R"({"a": {"x": ["t"]}})") == "so.json: 'users' has a number where something else is needed");
    CHECK(leaf(R"(["a"])", "[1]", R"(["a"])") == "so.json: 'user_data' has a list where something else is needed");
    CHECK(refusal(R"({"users": ["a"], "user_data": {"a": {"x": []}}})") ==
          "so.json: has some of 'users', 'num_samples' and 'user_data', and LEAF has them all");
    CHECK(refusal(R"({"users": [], "users": []})") == "so.json: has two members 'users'");
}

TEST_CASE("every cut and every flipped bit of an export is read or refused") {
    std::size_t read_anyway = 0;
    for (std::size_t n = 0; n < exported.size(); ++n) CHECK_FALSE(refusal(exported.substr(0, n)).empty());
    for (std::size_t i = 0; i < exported.size(); ++i)
        for (int bit = 0; bit < 8; ++bit) {
            std::string flipped(exported);
            flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
            read_anyway += refusal(flipped).empty();
        }
    CHECK(read_anyway > 0);  // letters within texts
}

}  // namespace client_json_test
