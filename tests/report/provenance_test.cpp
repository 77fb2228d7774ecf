// SPDX-License-Identifier: BSD-3-Clause
// Where a run came from, the loss its clients descended and the names of classes: through JSON and back, and on the page.
#include <tessera/report/record.hpp>

#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include <tessera/report/csv.hpp>
#include <tessera/report/json.hpp>

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

TEST_CASE("tables have a column for the training loss, and one named after each class") {
    CHECK(rounds_csv(some_run()).find(",examples,train_loss,trained,") != std::string::npos);
    CHECK(rounds_csv(some_run()).find(",0,2.25,0,0,0,0,") != std::string::npos);
    CHECK(clients_csv(some_run()).find(",label_<cat>,label_dog\r\n") != std::string::npos);
}

}  // namespace provenance_test
