// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/csv.hpp>

#include <clocale>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace csv_test {

using namespace tessera::report;

namespace {

// A reader of RFC 4180, to see that what was written means what was meant.
std::vector<std::vector<std::string>> read(std::string_view text) {
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string> row{""};
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c != '"') row.back() += c;
            else if (i + 1 < text.size() && text[i + 1] == '"') row.back() += text[++i];
            else quoted = false;
        } else if (c == '"') quoted = true;
        else if (c == ',') row.emplace_back();
        else if (c == '\n') rows.push_back(row), row = {""};
        else if (c != '\r') row.back() += c;
    }
    return rows;
}

Evaluation accuracy(std::string stage, double value) {
    return {.model = Which::global,
            .when = When::before,
            .on = On::local(),
            .split = SplitOf::test,
            .clients = Whom::sampled,
            .pick = Pick::last(),
            .average = Average::unweighted,
            .metric = Metric::accuracy,
            .stage = stage,
            .value = value};
}

}  // namespace

TEST_CASE("one row per round and evaluation, every tag a column") {
    RunRecord run;
    RoundRecord round{.round = 1, .seconds = 0.5, .bytes_up = 10, .bytes_down = 20};
    round.formula_bytes_up = 9.5;
    round.evaluations = {accuracy("a", 0.25), accuracy("b", absent)};
    run.rounds = {round, RoundRecord{.round = 2}};
    const auto rows = read(rounds_csv(run));
    REQUIRE(rows.size() == 4);
    for (const auto& row : rows) CHECK(row.size() == rows[0].size());
    const auto field = [&](std::size_t row, std::string_view name) {
        for (std::size_t i = 0; i < rows[0].size(); ++i)
            if (rows[0][i] == name) return rows[row][i];
        return std::string("no such column");
    };
    CHECK(field(1, "round") == "1");
    CHECK(field(1, "seconds") == "0.5");
    CHECK(field(1, "formula_bytes_up") == "9.5");
    CHECK(field(1, "formula_bytes_down") == "");
    CHECK(field(1, "model") == "global");
    CHECK(field(1, "when") == "before");
    CHECK(field(1, "on") == "local");
    CHECK(field(1, "split") == "test");
    CHECK(field(1, "clients") == "sampled");
    CHECK(field(1, "pick") == "last");
    CHECK(field(1, "average") == "unweighted");
    CHECK(field(1, "metric") == "accuracy");
    CHECK(field(1, "stage") == "a");
    CHECK(field(1, "value") == "0.25");
    CHECK(field(2, "value") == "");
    CHECK(field(3, "round") == "2");
    CHECK(field(3, "model") == "");
}

TEST_CASE("the table is its header and the rows of each round, so that it can grow") {
    RunRecord run;
    run.rounds = {RoundRecord{.round = 1, .evaluations = {accuracy("a", 0.5), accuracy("b", 0.25)}},
                  RoundRecord{.round = 2}};
    std::string grown(rounds_csv_header);
    for (const auto& round : run.rounds) grown += to_csv(round);
    CHECK(grown == rounds_csv(run));
    CHECK(rounds_csv({}) == rounds_csv_header);
}

TEST_CASE("odd text survives") {
    const std::string odd = "say \"hi\", then\r\nleave";
    RunRecord run;
    run.rounds = {RoundRecord{.round = 1}};
    run.rounds[0].evaluations = {accuracy(odd, 1)};
    const std::string text = rounds_csv(run);
    CHECK(text.find("\"say \"\"hi\"\", then\r\nleave\"") != std::string::npos);
}

TEST_CASE("clients, with as many label columns as the widest") {
    RunRecord run;
    run.per_client = {{.id = 3, .n_train = 8, .n_test = 4, .accuracy_global = 0.5, .accuracy_personal = 0.75},
                      {.id = 4, .n_train = 2}};
    run.per_client[0].labels = {5, 3};
    const auto rows = read(clients_csv(run));
    REQUIRE(rows.size() == 3);
    CHECK(rows[0] == std::vector<std::string>{"client", "n_train", "n_test", "accuracy_global", "accuracy_personal",
                                              "gain", "loss_global", "loss_personal", "train_accuracy_global",
                                              "train_accuracy_personal", "label_0", "label_1"});
    CHECK(rows[1] == std::vector<std::string>{"3", "8", "4", "0.5", "0.75", "0.25", "", "", "", "", "5", "3"});
    CHECK(rows[2] == std::vector<std::string>{"4", "2", "0", "", "", "", "", "", "", "", "0", "0"});
    run.per_client[1].name = "s,1";
    const auto named = read(clients_csv(run));
    CHECK(named[0][1] == "name");
    CHECK(named[1][1].empty());
    CHECK(named[2][1] == "s,1");
    CHECK(std::vector(named[2].begin() + 2, named[2].end()) == std::vector(rows[2].begin() + 1, rows[2].end()));
}

TEST_CASE("clients of texts have accuracies of words") {
    RunRecord run;
    run.per_client = {{.id = 3, .n_train = 8, .in_vocabulary_global = 0.25, .labels = {5}}, {.id = 4}};
    const auto rows = read(clients_csv(run));
    CHECK(std::vector(rows[0].end() - 3, rows[0].end()) ==
          std::vector<std::string>{"in_vocabulary_global", "in_vocabulary_personal", "label_0"});
    CHECK(std::vector(rows[1].end() - 3, rows[1].end()) == std::vector<std::string>{"0.25", "", "5"});
    CHECK(std::vector(rows[2].end() - 3, rows[2].end()) == std::vector<std::string>{"", "", "0"});
    run.per_client.erase(run.per_client.begin());
    CHECK(read(clients_csv(run))[0].back() == "train_accuracy_personal");
}

TEST_CASE("clients of speech have word error rates") {
    RunRecord run;
    run.per_client = {{.id = 3, .n_train = 8, .word_error_rate_personal = 1.5}, {.id = 4}};
    const auto rows = read(clients_csv(run));
    CHECK(std::vector(rows[0].end() - 2, rows[0].end()) ==
          std::vector<std::string>{"word_error_rate_global", "word_error_rate_personal"});
    CHECK(std::vector(rows[1].end() - 2, rows[1].end()) == std::vector<std::string>{"", "1.5"});
    CHECK(std::vector(rows[2].end() - 2, rows[2].end()) == std::vector<std::string>{"", ""});
}

TEST_CASE("the decimal point is a point in every locale") {
    const std::string before = std::setlocale(LC_ALL, nullptr);
    // Where no such locale is installed the case still holds, trivially.
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"})
        if (std::setlocale(LC_ALL, name)) break;
    RunRecord run;
    run.rounds = {RoundRecord{.round = 1, .seconds = 1234.5}};
    const std::string text = rounds_csv(run);
    std::setlocale(LC_ALL, before.c_str());
    CHECK(text.find("1,1234.5,0") != std::string::npos);
}

TEST_CASE("an empty run has heads only") {
    CHECK(read(rounds_csv({})).size() == 1);
    CHECK(read(clients_csv({})).size() == 1);
}

}  // namespace csv_test
