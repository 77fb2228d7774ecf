// SPDX-License-Identifier: BSD-3-Clause
// Whose examples a rank reads: of clients that it trains in a round, and of those that live there when all are asked.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tessera/data/lazy.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <place/threads.hpp>
#include <support/folder.hpp>

namespace data_of_ranks_test {

using namespace tessera;
using support::on_ranks;

namespace {

using Net = nn::Mclr<3, 2>;
constexpr std::size_t clients = 24, width = 3;

// Rows on demand; `asked` hears for whom.
data::FederatedDataset people(std::set<Id>& asked, bool known) {
    data::LazyPopulation all{.width = width, .classes = 2, .most = 0};
    for (std::size_t k = 0; k < clients; ++k)
        all.clients.push_back({.labels = {0, 1, 0, 1, 1}, .test = 1, .key = 70 + k});
    if (known) {
        Hasher h;
        h.word(1);
        all.content = h.finish();
    }
    return data::lazy(std::move(all), [&asked](Id client) {
        static std::mutex one;
        const std::scoped_lock hold(one);
        asked.insert(client);
        std::vector<float> rows(5 * width);
        std::iota(rows.begin(), rows.end(), static_cast<float>(client));
        return rows;
    });
}

}  // namespace

TEST_CASE("a rank reads the examples of those whom it trains, and of its own when all are judged") {
    for (const std::size_t n : {1u, 2u, 4u}) {
        INFO(n, " ranks");
        std::vector<std::set<Id>> trained(n), judged(n), lives(n), for_name(n);
        const support::Folder folder;
        on_ranks(n, [&](std::shared_ptr<Place> place) {
            const std::size_t me = place->rank();
            std::set<Id> asked;
            Federation<Ditto<>, Net> run({}, people(asked, false), {}, {.seed = 1, .batch = 2});
            run.spread_over(std::move(place));
            CHECK(asked.empty());
            run.round(sample::Uniform{12});
            trained[me] = std::exchange(asked, {});
            evaluate<Which::personal>(run);
            judged[me] = std::exchange(asked, {});
            for (Id k = 0; k < clients; ++k)
                if (run.lives_here(k)) lives[me].insert(k);
            write_checkpoint(folder / "kept", run, "x");
            for_name[me] = std::exchange(asked, {});
        });
        std::size_t visits = 0;
        std::set<Id> seen;
        for (std::size_t r = 0; r < n; ++r) {
            visits += trained[r].size();
            seen.insert(trained[r].begin(), trained[r].end());
            CHECK(std::ranges::includes(lives[r], judged[r]));
            CHECK(judged[r].size() + 1 >= lives[r].size());  // the rows that were read last are still there
            CHECK(for_name[r].size() == (r == 0 ? clients : 0));  // a checkpoint names its data; nobody said what they are
        }
        CHECK(visits == 12);  // nobody's were read twice
        CHECK(seen.size() == 12);
    }
}

TEST_CASE("a checkpoint reads nobody's examples where it is said what they are") {
    const support::Folder folder;
    on_ranks(2, [&](std::shared_ptr<Place> place) {
        std::set<Id> asked;
        Federation<Ditto<>, Net> run({}, people(asked, true), {}, {.seed = 1, .batch = 2});
        run.spread_over(std::move(place));
        write_checkpoint(folder / "kept", run, "x");
        read_checkpoint(folder / "kept", run, "x");
        CHECK(asked.empty());
    });
}

}  // namespace data_of_ranks_test
