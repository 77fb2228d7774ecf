// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/leaf.hpp>

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <support/folder.hpp>

namespace leaf_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using namespace tessera::support;
using doctest::Contains;
using Names = std::vector<std::string>;

LeafUsers users_of(std::string_view text) { return decode_leaf(text, "some.json"); }

void refused(std::string_view text, const char* what) { CHECK_THROWS_WITH_AS(users_of(text), Contains(what), IoError); }

// One user 'u' with this x and y, said to have n examples.
std::string one(const std::string& x, const std::string& y, const std::string& n) {
    return R"({"users":["u"],"num_samples":[)" + n + R"(],"user_data":{"u":{"x":)" + x + R"(,"y":)" + y + "}}}";
}

constexpr std::string_view train = R"({
  "hierarchies": [["a", {"deep": [1, null, true]}], "b"],
  "users": ["zoe", "ann"], "num_samples": [2, 1],
  "user_data": {"zoe": {"x": [[1, 2.5], [-3, 4e1]], "y": [0, 2], "raw": {"x": [7]}}, "ann": {"y": [1], "x": [[5, 6]]}}})";

}  // namespace

TEST_CASE("LEAF: users sorted by name, other members passed over") {
    const auto users = users_of(train);
    REQUIRE(users.size() == 2);
    CHECK(users.begin()->first == "ann");
    CHECK(users.at("zoe").numbers == std::vector<float>{1, 2.5, -3, 40});
    CHECK(users.at("zoe").labels == std::vector<std::int32_t>{0, 2});
    CHECK(users.at("zoe").width == 2);
    CHECK(users.at("ann").rows() == 1);
    CHECK(users_of(R"({"users":[],"num_samples":[],"user_data":{}})").empty());
    CHECK(users_of(one("[]", "[]", "0")).at("u").rows() == 0);
    CHECK(users_of(one("[[1]]", "[3.0]", "1")).at("u").labels ==
          std::vector<std::int32_t>{3});  // y as LEAF's scripts write it
}

TEST_CASE("LEAF: num_samples, x and y agree for every user (L-DATA-4)") {
    CHECK_NOTHROW(users_of(one("[[1],[2]]", "[0,1]", "2")));
    refused(one("[[1],[2]]", "[0,1]", "3"), "user 'u' has 2 examples in x, 2 in y and 3 in num_samples");
    refused(one("[[1],[2]]", "[0]", "2"), "2 examples in x, 1 in y and 2 in num_samples");
    refused(one("[[1]]", "[0,1]", "2"), "1 examples in x, 2 in y");
    refused(R"({"users":["u","v"],"num_samples":[1],"user_data":{"u":{"x":[[1]],"y":[0]},"v":{"x":[[1]],"y":[0]}}})",
            "names 2 users, but counts the examples of 1");
    refused(R"({"users":["v"],"num_samples":[1],"user_data":{"u":{"x":[[1]],"y":[0]}}})",
            "user 'v' is not in user_data");
    refused(R"({"users":[],"num_samples":[],"user_data":{"u":{"x":[[1]],"y":[0]}}})", "user 'u', who is not in users");
    refused(R"({"users":["u","u"],"num_samples":[1,1],"user_data":{"u":{"x":[[1]],"y":[0]}}})", "the user 'u' twice");
    refused(R"({"users":["u"],"num_samples":[1],"user_data":{"u":{"x":[[1]],"y":[0]},"u":{"x":[[1]],"y":[0]}}})",
            "user 'u' is there twice");
}

TEST_CASE("LEAF: what is not the format is refused with the place") {
    refused("", "is not JSON at byte");
    refused("{\"users\":[", "is not JSON at byte");
    refused(std::string(train) + "x", "is not JSON at byte");
    refused("[1]", "has a list where LEAF has something else");
    refused("3", "has a number where LEAF");
    refused("{}", "has no 'users', 'num_samples' or 'user_data'");
    refused(R"({"users":"u"})", "has a text where LEAF");
    refused(R"({"users":[1]})", "has a number where LEAF");
    refused(R"({"users":[],"users":[]})", "has two members 'users'");
    refused(R"({"num_samples":[-1]})", "is not a count");
    refused(R"({"num_samples":[1.5]})", "is not a count");
    refused(R"({"user_data":[]})", "has a list where LEAF");
    refused(R"({"user_data":{"u":[]}})", "user 'u' has a list where LEAF");
    refused(one("[[1],[1,2]]", "[0,1]", "2"), "user 'u' has rows of 1 and of 2 numbers");
    refused(one("[[]]", "[0]", "1"), "has an empty row");
    refused(one("[[1e39]]", "[0]", "1"), "not finite");
    refused(one("[[1e999]]", "[0]", "1"), "is not JSON at byte");
    refused(one("[[null]]", "[0]", "1"), "user 'u' has null where LEAF");
    refused(one("[[1]]", "[-1]", "1"), "which is not a class");
    refused(one("[[1]]", "[0.5]", "1"), "which is not a class");
    refused(one("[[1]]", "[2147483648]", "1"), "which is not a class");
    refused(one("[1]", "[0]", "1"), "user 'u' has a number where LEAF");
    refused(one("[[[1]]]", "[0]", "1"), "user 'u' has a list where LEAF");
    refused(one(R"(["a",[1]])", "[0,1]", "2"), "texts and numbers");
    refused(one(R"([[1],"a"])", "[0,1]", "2"), "texts and numbers");
    refused(one(R"(["a","b"])", R"(["a",1])", "2"), "texts and numbers");
    refused(R"({"user_data":{"u":{"x":[],"x":[]}}})", "has two members 'x'");
    refused(std::string(100'000, '['), "has a list where LEAF");
    refused("{\"more\":" + std::string(100'000, '['), "is not JSON at byte");  // deep, and no stack is used for it
}

TEST_CASE("LEAF: labels that are no classes are refused before memory is taken for them") {
    const auto years = users_of(one("[[1],[2]]", "[1999,2000000000]", "2"));
    CHECK_THROWS_WITH_AS(leaf_pool(years, {}, "some"), Contains("has the label 2000000000 for 2 examples"), IoError);
    const auto few = users_of(one("[[1],[2]]", "[0,20000]", "2"));
    CHECK_THROWS_WITH_AS(leaf_pool(few, {}, "some"), Contains("without gaps"), IoError);
    CHECK(leaf_pool(few, {}, "some", 30000).examples.examples().classes == 30000);  // as a vocabulary says
}

TEST_CASE("LEAF directories: train and test, several files, clients with names") {
    const Folder folder;
    folder.write("d/train/b.json", train);
    folder.write("d/train/a.json", R"({"users":["bob"],"num_samples":[1],"user_data":{"bob":{"x":[[9,9]],"y":[1]}}})");
    folder.write("d/train/readme.txt", std::string_view("no data"));
    CHECK_THROWS_WITH_AS(read_leaf(folder / "d"), Contains("d/test"), IoError);
    folder.write("d/test/all.json", R"({"users":["bob","zoe"],"num_samples":[1,1],
        "user_data":{"bob":{"x":[[8,8]],"y":[4]},"zoe":{"x":[[7,7]],"y":[0]}}})");
    const auto pool = read_leaf(folder / "d");
    CHECK(pool.clients == Names{"ann", "bob", "zoe"});
    CHECK(pool.train_size == 4);
    CHECK(pool.client_of == std::vector<Id>{0, 1, 2, 2, 1, 2});
    CHECK(pool.examples.examples().classes == 5);
    CHECK(pool.examples.examples().width == 2);
    const auto people = pool.federated();
    REQUIRE(people.size() == 3);
    CHECK(people[0].test.empty());
    CHECK(people[2].train.size() == 2);
    CHECK(people.split().clients[1].test == std::vector<Index>{4});
    CHECK(pool.name_of(people.split().clients[2]) == "zoe");
    CHECK(pool.federated({}, {.train = 1, .test = 1}).size() == 2);  // ann has nothing to test on

    const auto single = read_leaf(folder / "d/train");  // one kind of file: not cut yet
    CHECK(single.train_size == 0);
    CHECK(single.federated()[2].train.size() == 1);  // max(1, floor(0.9 * 2))

    folder.write("twice/a.json", train);
    folder.write("twice/b.json", train);
    CHECK_THROWS_WITH_AS(read_leaf(folder / "twice"), Contains("b.json: user 'ann' is in another file too"), IoError);
    folder.write("wide/a.json", one("[[1]]", "[0]", "1"));
    folder.write("wide/b.json", R"({"users":["v"],"num_samples":[1],"user_data":{"v":{"x":[[1,2]],"y":[0]}}})");
    CHECK_THROWS_WITH_AS(read_leaf(folder / "wide"), Contains("user 'v' has rows of 2 numbers, others of 1"), IoError);
    folder.write("none/readme.txt", std::string_view("x"));
    CHECK_THROWS_WITH_AS(read_leaf(folder / "none"), Contains("holds no .json file"), IoError);
    folder.write("hollow/a.json", std::string_view(R"({"users":[],"num_samples":[],"user_data":{}})"));
    CHECK_THROWS_WITH_AS(read_leaf(folder / "hollow"), Contains("holds no example"), IoError);
}

TEST_CASE("LEAF texts become windows of ids (Shakespeare's form)") {
    const LeafFiles files{users_of(one(R"(["abba","ab"])", R"(["b","c"])", "2")),
                          users_of(one(R"(["bbxb"])", R"(["a"])", "1"))};
    CHECK_THROWS_WITH_AS(leaf_pool(files.train, files.test, "some"), Contains("texts"), IoError);
    const auto vocabulary = leaf_vocabulary(files.train, {});
    CHECK(vocabulary.tokens() == Names{"b", "a", "c"});
    const auto numbers = as_numbers(files, vocabulary, 4, "some");
    CHECK(numbers.train.at("u").numbers == std::vector<float>{2, 1, 1, 2, 0, 0, 2, 1});
    CHECK(numbers.train.at("u").labels == std::vector<std::int32_t>{1, 3});
    CHECK(numbers.test.at("u").numbers == std::vector<float>{1, 1, 4, 1});
    const auto pool = leaf_pool(numbers.train, numbers.test, "some", vocabulary.size());
    CHECK(pool.train_size == 2);
    CHECK(pool.examples.examples().width == 4);
    CHECK(pool.examples.examples().classes == 7);
    CHECK_THROWS_WITH_AS(as_numbers(files, vocabulary, 3, "some"), Contains("a text of 4 tokens"), IoError);
    const LeafFiles longer{users_of(one(R"(["a"])", R"(["ab"])", "1")), {}};
    CHECK_THROWS_WITH_AS(as_numbers(longer, vocabulary, 3, "some"), Contains("an answer of 2 tokens"), IoError);
    CHECK_THROWS_WITH_AS(as_numbers({users_of(train), {}}, vocabulary, 3, "some"), Contains("user 'ann' has no texts"),
                         IoError);
}

}  // namespace leaf_test
