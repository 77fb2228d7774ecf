// SPDX-License-Identifier: BSD-3-Clause
#include <page/page.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <page/drawn.hpp>
#include <page/run_reader.hpp>
#include <support/toy_records.hpp>
#include <tessera/report/json.hpp>

namespace page_provenance_test {

using namespace tessera::report;
using tessera::support::run_with_provenance;
using lab::runs_from_json, lab::page::to_html;

TEST_CASE("JSON keeps training losses, names of classes and where a run came from") {
    const auto back = runs_from_json(to_json(run_with_provenance()), "a file").at(0);
    REQUIRE(back.rounds.size() == 2);
    CHECK(back.rounds[0].train_loss == 2.25);
    CHECK(back.rounds[1].train_loss == 1.5);
    CHECK(back.class_names == run_with_provenance().class_names);
    CHECK(back.provenance == run_with_provenance().provenance);
    // A file from before they were kept.
    const auto old = runs_from_json(R"({"config": {}, "rounds": [{"round": 1}], "final": {"evaluations": []}})", "old").at(0);
    CHECK(std::isnan(old.rounds[0].train_loss));
    CHECK(old.class_names.empty());
    CHECK(old.provenance.empty());
}

TEST_CASE("the page draws the training loss, calls classes by name and tells where the run came from") {
    const std::string page = to_html({run_with_provenance()}, "A run");
    const auto drawn = page::figure(page, "train-loss");
    CHECK(drawn.find("data-p=\"1,2.25 2,1.5 \"") != std::string::npos);
    CHECK(page::figure(page, "classes").find("&lt;cat&gt;") != std::string::npos);
    CHECK(page.find("<th>command</th><td class=\"v\"><code>tessera-lab run --data &quot;a b&quot;</code>") != std::string::npos);
    CHECK(page::well_nested(page));
    RunRecord silent = run_with_provenance();
    for (auto& round : silent.rounds) round.train_loss = absent;
    CHECK(page::figure(to_html({silent}, "A run"), "train-loss").empty());
}

}  // namespace page_provenance_test
