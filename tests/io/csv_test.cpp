// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/csv.hpp>

#include <algorithm>
#include <array>
#include <cmath>
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
    for (const auto* wrong : {"1e999", "inf", "0x10", "1.5.2", "1 2", "+-1", "1e39"})
        refused("a,grade\n" + std::string(wrong) + ",b\n", "is not a number that a feature can be", s);
}

TEST_CASE("columns of words: a feature for each word where it is asked for, else refused with what to write") {
    constexpr std::string_view text = "city,y,age,code\nrome,0,1,7\nbern,1,2,8\nrome,0,3,9\n";
    const auto named = table_of(text, {.label = "y", .one_hot = {"city", "code"}});
    CHECK(named.features == Names{"city=bern", "city=rome", "age", "code=7", "code=8", "code=9"});
    CHECK(rows_of(named) == std::vector<float>{0, 1, 1, 1, 0, 0, 1, 0, 2, 0, 1, 0, 0, 1, 3, 0, 0, 1});
    CHECK(named.worded == Names{"city", "code"});
    const auto found = table_of(text, {.label = "y", .words = 2});
    CHECK(found.features == Names{"city=bern", "city=rome", "age", "code"});
    CHECK(found.worded == Names{"city"});
    CHECK(named.numbers_among == std::vector<std::size_t>{0, 0});  // a column that one_hot names is not looked at
    // Half of them words: a column of words, and how many of its cells are none is told.
    const auto half = table_of("a,y\n1,0\nx,1\nz,0\n4,1\n", {.label = "y", .words = 9});
    CHECK(half.worded == Names{"a"});
    CHECK(half.numbers_among == std::vector<std::size_t>{2});
    refused(text,
            "line 2: column 'city': 'rome' is not a number that a feature can be, nor is most of the column; name it "
            "in one_hot",
            {.label = "y"});
    refused(text, "is one of 2 different words, above 1; name it in ignore, or in one_hot", {.label = "y", .words = 1});
    refused(text, "there is no column 'town', which is asked for as one of words; there are 'city', 'y', 'age', 'code'",
            {.label = "y", .one_hot = {"town"}});
    // A word among numbers is a slip, whatever is asked for.
    refused("a,y\n1,0\n2,1\nx3,0\n4,1\n", "line 4: column 'a': 'x3' is not a number", {.label = "y", .words = 9});
}

TEST_CASE("missing values: lines dropped, or kept as NaN; never in a label") {
    constexpr std::string_view text = "a,y,w\n1,0,u\nNA,1,v\n3,,u\n4,1,\n";
    const auto dropped = table_of(text, {.label = "y", .words = 9, .missing = Missing::drop});
    CHECK(rows_of(dropped) == std::vector<float>{1, 1});
    CHECK(dropped.dropped == 3);
    constexpr std::string_view labelled = "a,y,w\n1,0,u\nNA,1,v\n4,1,\n";
    const auto kept = table_of(labelled, {.label = "y", .words = 9, .missing = Missing::keep});
    CHECK(kept.holes == 2);
    const auto rows = rows_of(kept);
    REQUIRE(rows.size() == 9);
    CHECK(std::isnan(rows[3]));
    CHECK(std::vector<float>(rows.begin() + 6, rows.end()) == std::vector<float>{4, 0, 0});  // none of the words
    refused(text, "line 4: column 'y': the value is missing, and no mean",
            {.label = "y", .words = 9, .missing = Missing::keep});
    refused("a,y\nNA,1\n", "has a missing value in every line", {.label = "y", .missing = Missing::drop});
}

TEST_CASE("all faults of a file are told at once, with their lines") {
    refused("a,y\n1,0\n,1\n2\n3,NA\n",
            "line 3: column 'a': the value is missing; line 4: there are 1 cells, but the header has 2; line 5: column "
            "'y': "
            "the value is missing",
            {.label = "y"});
    std::string many = "a,y\n";
    for (int i = 0; i < 25; ++i) many += ",1\n";
    refused(many, "line 11: column 'a': the value is missing; and 15 more faults", {.label = "y"});
}

TEST_CASE("separators are found, and with another one a comma may be a decimal point") {
    for (const char c : {',', ';', '\t', '|'}) {
        std::string text = "a_b_grade\n1_2_x\n3_4_z\n";
        std::ranges::replace(text, '_', c);
        CHECK(rows_of(table_of(text, {.label = "grade", .separator = 0})) == std::vector<float>{1, 2, 3, 4});
    }
    CHECK(rows_of(table_of("a;y\n1,5;0\n-2,25;1\n", {.label = "y", .separator = 0})) ==
          std::vector<float>{1.5f, -2.25f});
    CHECK(table_of("\"a,b\";c;y\n1;2;0\n", {.label = "y", .separator = 0}).features == Names{"a,b", "c"});
}

TEST_CASE("a first line of counts or numbers is no header; without one columns have numbers") {
    constexpr std::string_view counts = "3,2,setosa\n1,2,0\n3,4,1\n5,6,1\n";
    refused(counts, "line 1: it holds counts ('3' lines follow), not the names of columns", {.label = "setosa"});
    refused("5.1,3.5,0\n4.9,3,1\n", "line 1: it holds numbers, as '5.1', not the names of columns", {.label = "0"});
    const auto bare = table_of("5.1,3.5,0\n4.9,3,1\n", {.label = "3", .header = false});
    CHECK(bare.features == Names{"1", "2"});
    CHECK(bare.pool.examples.size() == 2);
    CHECK(table_of(counts, {.label = "3", .header = false, .skip = 1}).pool.examples.size() == 3);
    // Names that count the columns are names, and one that is a year among words too.
    CHECK(table_of("0,1,2\n7,8,1\n9,8,0\n", {.label = "2"}).pool.examples.size() == 2);
    CHECK(table_of("y,size,2019\n0,8,1\n1,8,0\n", {.label = "y"}).features == Names{"size", "2019"});
}

TEST_CASE("a label that names no classes is refused") {
    refused("a,price\n1,10\n2,12.5\n", "line 3: column 'price': '12.5' is a real number, and a label names a class",
            {.label = "price"});
    CHECK(table_of("a,y\n1,1.0\n2,0.0\n3,1.0\n", {.label = "y"}).classes == Names{"0.0", "1.0"});
    CHECK(table_of("a,y\n1,2.5\n2,low\n", {.label = "y"}).classes.size() ==
          2);  // names, one of which looks like a number
    std::string ids = "a,id\n";
    for (int i = 0; i < 30; ++i) ids += "1," + std::to_string(i) + "\n";
    refused(ids, "column 'id' has 30 different values in 30 examples", {.label = "id"});
}

TEST_CASE("real targets instead of a label, in the order of the table") {
    const auto table =
        table_of("b,a,price,who\n2,1,10.5,x\n4,3,-20,y\n", {.label = "", .client = "who", .targets = {"price", "b"}});
    CHECK(table.features == Names{"a"});
    CHECK(rows_of(table) == std::vector<float>{1, 3});
    const auto& view = table.pool.examples.examples();
    REQUIRE(view.targets_each == 2);
    CHECK(std::vector<double>(view.targets, view.targets + 4) == std::vector<double>{2, 10.5, 4, -20});
    CHECK(table.pool.clients == Names{"x", "y"});
    refused("a,price\n1,dear\n", "line 2: column 'price': 'dear' is not a number that a target can be",
            {.label = "", .targets = {"price"}});
    refused("a,b\n1,2\n", "there is no column 'price', which is asked for as a target",
            {.label = "", .targets = {"price"}});
}

TEST_CASE("a training and a test file: one set of classes, words and columns, whatever their order") {
    const std::array<CsvPart, 2> parts{{{"a,y,w\n1,b,u\n2,a,v\n", "train.csv"}, {"w;y;a\nz;c;5\n", "test.csv"}}};
    const auto table = decode_csv(parts, {.label = "y", .separator = 0, .words = 9});
    CHECK(table.pool.train_size == 2);
    CHECK(table.classes == Names{"a", "b", "c"});
    CHECK(table.features == Names{"a", "w=u", "w=v", "w=z"});
    CHECK(rows_of(table) == std::vector<float>{1, 1, 0, 0, 2, 0, 1, 0, 5, 0, 0, 1});
    const std::array<CsvPart, 2> other{{{"a,y\n1,b\n", "train.csv"}, {"b,y\n1,b\n", "test.csv"}}};
    CHECK_THROWS_WITH_AS(decode_csv(other, {.label = "y"}),
                         Contains("test.csv: line 1: there is no column 'a', which train.csv has"), IoError);
    const std::array<CsvPart, 2> more{{{"a,y\n1,b\n", "train.csv"}, {"y,b,a\nb,1,1\n", "test.csv"}}};
    CHECK_THROWS_WITH_AS(decode_csv(more, {.label = "y"}),
                         Contains("test.csv: line 1: there is a column 'b', which train.csv has not"), IoError);
}

TEST_CASE("a first column without a name holds names of lines and is not read; another one must have a name") {
    const CsvSettings y{.label = "y"};
    const auto table = table_of(",a,y\n0,5,u\n1,6,v\n", y);
    CHECK(table.named_lines);
    CHECK(table.features == Names{"a"});
    CHECK(rows_of(table) == std::vector<float>{5, 6});
    CHECK_FALSE(table_of("a,y\n5,u\n6,v\n", y).named_lines);
    // Its cells may be words, and empty ones are not missing.
    CHECK(rows_of(table_of("\"\",a,y\nMazda RX4,5,u\n,6,v\n", y)) == std::vector<float>{5, 6});
    const CsvPart train{",a,y\n3,5,u\n0,6,v\n", "train.csv"}, test{",a,y\n1,7,u\n", "test.csv"};
    const std::array<CsvPart, 2> parts{train, test};
    CHECK(rows_of(decode_csv(parts, y)) == std::vector<float>{5, 6, 7});
    refused("a,,y\n1,2,u\n", "line 1: column 2 has no name; give it one", y);
    refused("a,y,\n1,u,\n", "column 3 has no name; give it one, or take the separator at the end of each line away", y);
    refused(",a\n0,1\n", "there is no column ''", {});
    refused(",y\n0,u\n1,v\n", "no column is left to be a feature", y);
}

TEST_CASE("what is no text is called what it is") {
    using namespace std::string_view_literals;
    refused("PK\x03\x04..."sv, "some.csv: is a zip archive, as .xlsx and .ods are; save the sheet as CSV");
    refused("\xD0\xCF\x11\xE0..."sv, "old Excel");
    refused("PAR1...PAR1"sv, "is a Parquet file; write it as CSV");
    refused("BZh91AY&SY..."sv, "is compressed by bzip2");
    refused("\xFD" "7zXZ..."sv, "is compressed by xz");
    refused("(\xB5/\xFD..."sv, "is compressed by zstd");
    refused("\xFF\xFE" "a\0,\0"sv, "is text in UTF-16; save it as UTF-8");
    refused("\xFE\xFF\0a\0,"sv, "is text in UTF-16");
    refused("a,grade\n1,\0\n"sv, "is no text: byte 11 is 0");
    CHECK(table_of("PAR1,y\n1,u\n2,v\n", {.label = "y"}).features == Names{"PAR1"});  // a column may be called so
}

TEST_CASE("a first line of one cell is told what parts cells and what passes over lines") {
    refused("a b grade\n1 2 3\n", "there are 'a b grade' alone; cells are parted by a comma");
    refused("# made on Monday\na,grade\n1,2\n", "skip=1 passes over a line before the names");
    CHECK(table_of("# made on Monday\na,y\n1,u\n2,v\n", {.label = "y", .skip = 1}).features == Names{"a"});
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
