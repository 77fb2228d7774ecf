// SPDX-License-Identifier: BSD-3-Clause
// Where a run came from, the loss its clients descended and the names of classes: through JSON and back, and on the page.
#include <tessera/report/record.hpp>

#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include <tessera/report/csv.hpp>
#include <tessera/report/html.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/json_reader.hpp>

#include <report/page.hpp>

namespace provenance_test {

using namespace tessera::report;

namespace {

RunRecord some_run() {
    RunRecord run;
    run.set("algorithm", "fedavg");
    run.rounds = {RoundRecord{.round = 1, .train_loss = 2.25}, RoundRecord{.round = 2, .train_loss = 1.5}};
    run.per_client = {{.id = 0, .n_train = 3}};
    run.per_client[0].labels = {1, 2};
    run.class_names = {"<cat>", "dog"};
    run.provenance = {{"command", "tessera-lab run --data \"a b\""}, {"date", "2026-11-18"}};
    return run;
}

}  // namespace

TEST_CASE("JSON keeps training losses, names of classes and where a run came from") {
    const auto back = runs_from_json(to_json(some_run()), "a file").at(0);
    REQUIRE(back.rounds.size() == 2);
    CHECK(back.rounds[0].train_loss == 2.25);
    CHECK(back.rounds[1].train_loss == 1.5);
    CHECK(back.class_names == some_run().class_names);
    CHECK(back.provenance == some_run().provenance);
    // A file from before they were kept.
    const auto old = runs_from_json(R"({"config": {}, "rounds": [{"round": 1}], "final": {"evaluations": []}})", "old").at(0);
    CHECK(std::isnan(old.rounds[0].train_loss));
    CHECK(old.class_names.empty());
    CHECK(old.provenance.empty());
}

TEST_CASE("the page draws the training loss, calls classes by name and tells where the run came from") {
    const std::string page = to_html({some_run()}, "A run");
    const auto drawn = page::figure(page, "train-loss");
    CHECK(drawn.find("data-p=\"1,2.25 2,1.5 \"") != std::string::npos);
    CHECK(page::figure(page, "classes").find("&lt;cat&gt;") != std::string::npos);
    CHECK(page.find("<th>command</th><td class=\"v\"><code>tessera-lab run --data &quot;a b&quot;</code>") != std::string::npos);
    CHECK(page::well_nested(page));
    RunRecord silent = some_run();
    for (auto& round : silent.rounds) round.train_loss = absent;
    CHECK(page::figure(to_html({silent}, "A run"), "train-loss").empty());
}

TEST_CASE("tables have a column for the training loss, and one named after each class") {
    CHECK(rounds_csv(some_run()).find(",examples,train_loss,trained,") != std::string::npos);
    CHECK(rounds_csv(some_run()).find(",0,2.25,0,0,0,0,") != std::string::npos);
    CHECK(clients_csv(some_run()).find(",label_<cat>,label_dog\r\n") != std::string::npos);
}

}  // namespace provenance_test
