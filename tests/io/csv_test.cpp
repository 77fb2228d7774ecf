// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/csv.hpp>

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <support/folder.hpp>

namespace csv_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using namespace tessera::support;
using doctest::Contains;
using Names = std::vector<std::string>;

const CsvSettings settings{.label = "grade", .client = "school", .ignore = {"note"}};

CsvTable table_of(std::string_view text, const CsvSettings& s = settings) { return decode_csv(text, s, "some.csv"); }

void refused(std::string_view text, const char* what, const CsvSettings& s = settings) {
    CHECK_THROWS_WITH_AS(table_of(text, s), Contains(what), IoError);
}

std::vector<float> rows_of(const CsvTable& table) {
    const auto& view = table.pool.examples.examples();
    const auto* rows = static_cast<const float*>(view.rows);
    return {rows, rows + view.size * view.width};
}

std::vector<std::int32_t> labels_of(const CsvTable& table) {
    const auto& view = table.pool.examples.examples();
    return {view.labels, view.labels + view.size};
}

constexpr std::string_view plain =
    "age,school,grade,note,score\n"
    "1,north,10,x,2.5\n"
    "-3,east,2,,1e2\n"
    "4,north,2,y,0\n";

}  // namespace

TEST_CASE("a table: features in the order of their columns, classes and clients ranked") {
    const auto table = table_of(plain);
    CHECK(table.features == Names{"age", "score"});
    CHECK(table.classes == Names{"2", "10"});  // as numbers; as text "10" would come first
    CHECK(table.pool.clients == Names{"east", "north"});
    CHECK(table.pool.client_of == std::vector<Id>{1, 0, 1});
    CHECK(rows_of(table) == std::vector<float>{1, 2.5, -3, 100, 4, 0});
    CHECK(labels_of(table) == std::vector<std::int32_t>{1, 0, 0});
    CHECK(table.pool.train_size == 0);

    const auto words = table_of("grade,a\nlow,1\nhigh,2\n7,3\n", {.label = "grade"});
    CHECK(words.classes == Names{"7", "high", "low"});
    CHECK(words.pool.clients.empty());
}

TEST_CASE("quotes, CRLF, byte-order mark, blanks and a last line without an end") {
    for (const std::string_view same : {"a,grade,school\r\n1,x y,k\r\n2,z,l\r\n",
                                        "\xEF\xBB\xBF"
                                        "a,grade,school\n1,x y,k\n2,z,l",
                                        "\"a\",\"grade\",\"school\"\n\"1\",\"x y\",\"k\"\n\"2\",\"z\",\"l\"",
                                        " a ,\tgrade, school\n 1, x y ,k \n2,z,l\n"}) {
        const auto table = table_of(same, {.label = "grade", .client = "school"});
        CHECK(table.classes == Names{"x y", "z"});
        CHECK(table.pool.clients == Names{"k", "l"});
        CHECK(rows_of(table) == std::vector<float>{1, 2});
    }
    const auto odd = table_of("a,grade\n1,\"say \"\"no, never\"\"\nagain\"\n2,b\n", {.label = "grade"});
    CHECK(odd.classes == Names{"b", "say \"no, never\"\nagain"});
    CHECK(table_of("a;grade\n1;b\n", {.label = "grade", .separator = ';'}).features == Names{"a"});
}

TEST_CASE("missing values are refused with line and column") {
    refused("a,grade,school,note\n1,b,c,\n,b,c,x\n", "line 3: column 'a': the value is missing");
    for (const auto* gone : {"NA", "NaN", "?", "null", "  ", "\"\""})
        refused("grade,a,school,note\nb," + std::string(gone) + ",c,n\n", "line 2: column 'a': the value is missing");
    refused("a,grade,school,note\n1,,c,n\n", "column 'grade': the value is missing");
    refused("a,grade,school,note\n1,b,NA,n\n", "column 'school': the value is missing");
    CHECK(table_of("a,grade,school,note\n1,b,c,NA\n").pool.examples.size() == 1);  // nobody reads that column
}

TEST_CASE("what is no table is refused with its line") {
    const CsvSettings s{.label = "grade"};
    refused("", "is empty", s);
    refused("a,grade\n", "has a header, but no example", s);
    refused("a,grade\n1,b\n2\n", "line 3: there are 1 cells, but the header has 2", s);
    refused("a,grade\n1,b\n\n2,b\n", "line 3: there are 1 cells", s);
    refused("a,grade\n1,b,c\n", "line 2: there are 3 cells", s);
    refused("a,grade\n\"x\ny\",b\nf,b\n", "line 2: column 'a': 'x?y' is not a number", s);
    refused("a,grade\n1,\"x\ny\"\nf,b\n", "line 4: column 'a': 'f' is not a number", s);  // counted through the quote
    refused("a,grade\n1,\"b\n", "line 2: a quote is opened and never closed", s);
    refused("a,grade\n1,b\"c\n", "line 2: a quote inside a cell", s);
    refused("a,grade\n1,\"b\"c\n", "line 2: text behind a closing quote", s);
    refused("a,grade\r1,b\r", "line 1: a carriage return without a line feed", s);
    refused("a,a,grade\n1,2,b\n", "two columns are called 'a'", s);
    refused("b,c\n1,2\n", "there is no column 'grade', which is asked for as the label", s);
    refused("grade,a,note\n1,2,3\n", "there is no column 'school', which is asked for as the client");
    refused("grade,a,school\n1,2,3\n", "there is no column 'note', which is asked for as one to ignore");
    refused("grade\n1\n", "no column is left to be a feature", s);
    for (const auto* wrong : {"1e999", "inf", "0x10", "1.5.2", "1 2", "+1", "1e39"})
        refused("a,grade\n" + std::string(wrong) + ",b\n", "is not a number that a feature can be", s);
}

TEST_CASE("a header of two hundred thousand columns is read in one go") {
    // Held against each other pair by pair the names alone would take minutes, and the test's time would run out.
    constexpr std::size_t columns = 200'000;
    std::string header = "grade", line = "1";
    CsvSettings s{.label = "grade"};
    for (std::size_t c = 0; c < columns; ++c) {
        header += ",c" + std::to_string(c);
        line += "," + std::to_string(c % 10);
        if (c % 2 == 1) s.ignore.push_back("c" + std::to_string(c));
    }
    const auto table = decode_csv(header + "\n" + line + "\n", s, "table");
    CHECK(table.features.size() == columns / 2);
    CHECK(table.features.back() == "c" + std::to_string(columns - 2));
    CHECK_THROWS_WITH_AS(decode_csv(header + ",c7\n" + line + ",1\n", s, "table"),
                         Contains("two columns are called 'c7'"), IoError);
}

TEST_CASE("clients of a table hold their own lines") {
    const Folder folder;
    std::string text = "x,who,y\n";
    for (int i = 0; i < 40; ++i)
        text += std::to_string(i) + "," + (i % 4 == 0 ? "ann" : "bob") + "," + std::to_string(i % 3) + "\n";
    const auto table = read_csv(folder.write("t.csv", text), {.label = "y", .client = "who"});
    const auto people = table.pool.federated({.seed = 4});
    REQUIRE(people.size() == 2);
    CHECK(people[0].train.size() == 9);  // max(1, floor(0.9 * 10))
    CHECK(people[0].test.size() == 1);
    CHECK(people[1].train.size() == 27);
    for (const Index i : people[0].train) CHECK(i % 4 == 0);
    CHECK(table.pool.name_of(people.split().clients[0]) == "ann");
    CHECK(table.pool.federated({.seed = 4}, {.train = 10}).size() == 1);
    CHECK_THROWS_WITH_AS(table.pool.federated({}, {.train = 100}), Contains("no client has the 100 training"),
                         ConfigError);
    CHECK_THROWS_WITH_AS(read_csv(folder / "gone.csv", {.label = "y"}), Contains("gone.csv"), IoError);
}

}  // namespace csv_test
