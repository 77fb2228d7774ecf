// SPDX-License-Identifier: BSD-3-Clause
// Where a run came from, the loss its clients descended and the names of classes: through JSON and back, and on the page.
#include <tessera/report/record.hpp>

#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include <support/toy_records.hpp>
#include <tessera/report/csv.hpp>
#include <tessera/report/json.hpp>

namespace provenance_test {

using namespace tessera::report;
using tessera::support::run_with_provenance;

TEST_CASE("tables have a column for the training loss, and one named after each class") {
    CHECK(rounds_csv(run_with_provenance()).find(",examples,train_loss,trained,") != std::string::npos);
    CHECK(rounds_csv(run_with_provenance()).find(",0,2.25,0,0,0,0,") != std::string::npos);
    CHECK(clients_csv(run_with_provenance()).find(",label_<cat>,label_dog\r\n") != std::string::npos);
}

}  // namespace provenance_test
