// SPDX-License-Identifier: BSD-3-Clause
// A federation on several ranks whose clients rest in logs, one a rank, is the federation of one process in memory.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/method/ditto.hpp>
#include <tessera/method/fedfomo.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/knn_per.hpp>
#include <tessera/method/local.hpp>
#include <tessera/method/private.hpp>
#include <tessera/method/scaffold.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>
#include <tessera/store/log.hpp>
#include <tessera/store/log_check.hpp>

#include <place/threads.hpp>
#include <support/folder.hpp>
#include <support/keyed_noise.hpp>
#include <support/toy_data.hpp>

namespace federation_parts_test {

using namespace tessera;
using support::on_ranks;

namespace {

using Net = nn::Mclr<8, 4>;
using Secret = Private<FedAvg<rule::DpSgd<support::KeyedNoise>>>;
const sample::Uniform eleven{11};
constexpr std::size_t clients = 14;

template <class Me>
Federation<Me, Net> made(const Me& method) {
    return {Net{}, support::toy_data({.clients = clients}), method, {.seed = 2, .batch = 5, .rounds = 8}};
}
template <class Me, class Keep>
Federation<Me, Net> spread(const Me& method, std::shared_ptr<Place> place, const Keep& keep) {
    auto run = made(method);
    run.spread_over(std::move(place));
    run.keep_in(keep);
    return run;
}

template <class F>
std::string said(F&& f) {
    try {
        f();
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

// A log whose disk has no room left on one rank, for as long as `full` says so.
struct Disk {
    bool stages = true, commits = true;
};
class Narrow final : public Store {
public:
    Narrow(std::unique_ptr<Store> log, const Disk* disk) : log_(std::move(log)), disk_(disk) {}
    bool visited(Id k) const override { return log_->visited(k); }
    std::span<const std::byte> read(Id k, Bytes& room) const override { return log_->read(k, room); }
    Staged stage(Id k, std::span<const std::byte> state, Fingerprint print) override {
        if (!disk_->stages) throw IoError("disk", "is full");
        return log_->stage(k, state, print);
    }
    void begin() override { log_->begin(); }
    void commit(std::uint64_t round, std::span<const Staged> counted) override {
        log_->commit(round, counted);
        if (!disk_->commits) throw IoError("disk", "is full");
    }
    void committed() override { log_->committed(); }
    void abandon() override { log_->abandon(); }
    void save(Bytes& out) override { log_->save(out); }
    void saved() override { log_->saved(); }
    void restore(Reader& in) override { log_->restore(in); }
    void restored() override { log_->restored(); }
    Fingerprint fingerprint() const override { return log_->fingerprint(); }
    std::string where() const override { return log_->where(); }

private:
    std::unique_ptr<Store> log_;
    const Disk* disk_;
};
struct NarrowLog {
    [[maybe_unused]] static constexpr Offers offers{};
    store::Log log;
    const Disk* disk;
    std::unique_ptr<Store> open(std::size_t n, const StorePart& part = {}) const {
        return std::make_unique<Narrow>(log.open(n, part), disk);
    }
    std::unique_ptr<Store> look(std::size_t n, const StorePart& part, Reader& in) const {
        return log.look(n, part, in);
    }
    void let_go(std::span<const StorePart> needed) const { log.let_go(needed); }
};
struct OfOneProcess {
    [[maybe_unused]] static constexpr Offers offers{};
    store::Log log;
    std::unique_ptr<Store> open(std::size_t n) const { return log.open(n); }
};

// Every visit is made, and then a disk is gone.
struct Stumbles {
    static constexpr Offers offers{};
    std::size_t concurrency() const { return 1; }
    template <class Body>
    void for_each(std::size_t tasks, Body&& body) const {
        for (std::size_t i = 0; i < tasks; ++i) body(i, std::size_t{0});
        throw IoError("disk", "is full");
    }
};

template <class State>
std::string hashed(const State& state) {
    Hasher h;
    hash_into(h, state);
    return h.finish().hex();
}

// Four rounds on n ranks, kept; four more on m.
template <class Me>
void same_bits(const Me& method) {
    auto alone = made(method);
    std::vector<std::string> expected, states;
    for (int r = 0; r < 8; ++r) expected.push_back(alone.round(eleven).state.hex());
    for (Id k = 0; k < clients; ++k) states.push_back(hashed(alone.client(k)));
    for (const auto& [n, m] : {std::pair<std::size_t, std::size_t>{2, 2}, {3, 1}, {1, 2}, {2, 3}}) {
        INFO(n, " ranks, then ", m);
        const support::Folder folder;
        const store::Log log{.directory = folder / "log"};
        const auto rounds = [&](auto& run, std::size_t from) {
            for (std::size_t r = from; r < from + 4; ++r) CHECK(run.round(eleven).state.hex() == expected[r]);
        };
        on_ranks(n, [&](std::shared_ptr<Place> place) {
            auto run = spread(method, std::move(place), log);
            rounds(run, 0);
            write_checkpoint(folder / "kept", run, "x");
        });
        on_ranks(m, [&](std::shared_ptr<Place> place) {
            auto run = spread(method, std::move(place), log);
            read_checkpoint(folder / "kept", run, "x");
            CHECK(run.fingerprint().hex() == expected[3]);
            rounds(run, 4);
            for (Id k = 0; k < clients; ++k)
                if (run.lives_here(k)) CHECK(hashed(run.client(k)) == states[k]);
        });
    }
}

// One checkpoint a round; how many rounds, on how many ranks.
void go_on(const support::Folder& folder, std::size_t ranks, int rounds, std::size_t first = 0) {
    on_ranks(ranks, [&](std::shared_ptr<Place> place) {
        const bool speaks = place->rank() == 0;
        auto run = spread(Ditto<>{}, std::move(place), store::Log{.directory = folder / "log"});
        const CheckpointDirectory checkpoints(folder / "kept", speaks);
        const auto resumed = checkpoints.resume(run, "x");
        CHECK(run.rounds_done() == first);
        for (int r = 0; r < rounds; ++r) {
            run.round(eleven);
            checkpoints.save(run, "x");
        }
    });
}
Fingerprint after(std::size_t rounds) {
    auto alone = made(Ditto<>{});
    alone.run(rounds, eleven);
    return alone.fingerprint();
}

}  // namespace

TEST_CASE("logs on several ranks have the bits of one process in memory, resumed on any other number as well") {
    SUBCASE("Ditto") { same_bits(Ditto<>{}); }
    SUBCASE("Scaffold") { same_bits(Scaffold<>{}); }
    SUBCASE("Local") { same_bits(Local<>{}); }
    SUBCASE("FedFomo, whose server holds states") { same_bits(FedFomo<>{}); }
    SUBCASE("FedSpa") { same_bits(FedSpa<>{}); }
    SUBCASE("kNN-Per, which keeps examples") { same_bits(KnnPer<>{}); }
    SUBCASE("budgets") { same_bits(Secret{.delta = 1e-3}); }
}

TEST_CASE("each state is in one log, and each log is whole by itself") {
    const support::Folder folder;
    go_on(folder, 3, 2);
    std::size_t kept = 0;
    Fingerprint all;
    for (const std::string rank : {"rank-0", "rank-1", "rank-2"}) {
        const auto found = store::read_log(folder / ("log/from-00000000-on-3/" + rank));
        CHECK(found.faults.empty());
        CHECK(found.rounds == 2);
        CHECK(found.clients < clients);
        kept += found.clients;
        all += found.print;
    }
    auto alone = made(Ditto<>{});
    alone.run(2, eleven);
    const support::Folder one;
    auto in_one = made(Ditto<>{});
    in_one.keep_in(store::Log{.directory = one.path()});
    in_one.run(2, eleven);
    const auto expected = store::read_log(one.path());
    CHECK(kept == expected.clients);
    CHECK(all == expected.print);
}

TEST_CASE("a log that is torn on one rank takes all ranks one round back") {
    const support::Folder folder;
    go_on(folder, 3, 5);
    const support::Folder copy;
    const std::string file = folder / "log/from-00000000-on-3/rank-1/states-00000001.log";
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 20);
    std::filesystem::copy(folder.path(), copy.path(), std::filesystem::copy_options::recursive);
    on_ranks(3, [&](std::shared_ptr<Place> place) {
        const bool speaks = place->rank() == 0;
        auto run = spread(Ditto<>{}, std::move(place), store::Log{.directory = folder / "log"});
        const auto resumed = CheckpointDirectory(folder / "kept", speaks).resume(run, "x");
        CHECK(run.rounds_done() == 4);
        CHECK(run.fingerprint() == after(4));
        if (!resumed || resumed->refused.size() != 1) throw Error("it was not refused once");
        CHECK(resumed->refused[0].find("rank-1: the log ends before the round") != std::string::npos);
        run.run(2, eleven);
        CHECK(run.fingerprint() == after(6));
    });
    // The same on another number of ranks, all of which read that log.
    go_on(copy, 2, 1, 4);
}

TEST_CASE("states move with the ranks, and what nobody needs any more is let go") {
    const support::Folder folder;
    const auto there = [&](const std::string& name) { return std::filesystem::exists(folder / ("log/" + name)); };
    go_on(folder, 1, 2);  // in the directory itself
    CHECK(there("states-00000001.log"));
    go_on(folder, 2, 1, 2);
    CHECK(there("states-00000001.log"));  // by the checkpoint before
    go_on(folder, 2, 1, 3);
    CHECK_FALSE(there("states-00000001.log"));
    CHECK(there("from-00000003-on-2"));
    go_on(folder, 3, 0, 4);  // moved, and nothing of it was kept
    go_on(folder, 3, 2, 4);
    CHECK_FALSE(there("from-00000003-on-2"));
    CHECK_FALSE(there("from-00000000-on-3"));
    go_on(folder, 1, 2, 6);
    CHECK(there("from-00000007-on-1"));
    CHECK_FALSE(there("from-00000005-on-3"));
    auto run = made(Ditto<>{});
    run.keep_in(store::Log{.directory = folder / "log"});
    CheckpointDirectory(folder / "kept").resume(run, "x");
    CHECK(run.fingerprint() == after(8));
}

TEST_CASE("a full disk on one rank is a round that did not happen on any") {
    const auto tried = [](const auto& method, bool Disk::*what) {
        const support::Folder folder;
        auto alone = made(method);
        alone.run(2, eleven);
        const auto before = alone.fingerprint();
        CHECK_THROWS_AS(alone.round(eleven, Stumbles{}), IoError);
        const auto failed = alone.fingerprint();
        alone.run(1, eleven);
        on_ranks(3, [&](std::shared_ptr<Place> place) {
            const bool mine = place->rank() == 1;
            Disk disk;
            auto run = spread(method, std::move(place), NarrowLog{{.directory = folder / "log"}, &disk});
            run.run(2, eleven);
            CHECK(run.fingerprint() == before);
            disk.*what = !mine;
            CHECK(said([&] { run.round(eleven); }) == "disk: is full");
            CHECK(run.rounds_done() == 2);
            disk.*what = true;
            if (detail::keeps_spent<std::remove_cvref_t<decltype(method)>>) CHECK(run.fingerprint() != before);
            CHECK(run.fingerprint() == failed);  // what was sent is spent
            run.run(1, eleven);
            CHECK(run.fingerprint() == alone.fingerprint());
        });
    };
    tried(Ditto<>{}, &Disk::stages);
    tried(Ditto<>{}, &Disk::commits);
    tried(Secret{.delta = 1e-3}, &Disk::commits);
}

TEST_CASE("a move that fails on one rank has not happened, and can be tried again") {
    const support::Folder folder;
    go_on(folder, 2, 3);
    for (const bool full : {true, false})
        on_ranks(3, [&](std::shared_ptr<Place> place) {
            Disk disk{.commits = !(full && place->rank() == 2)};
            auto run = spread(Ditto<>{}, std::move(place), NarrowLog{{.directory = folder / "log"}, &disk});
            const auto complaint = said([&] { read_checkpoint(folder / "kept/round-00000003.tessera", run, "x"); });
            CHECK(complaint == (full ? "disk: is full" : ""));
            CHECK(run.rounds_done() == (full ? 0 : 3));
            if (!full) CHECK(run.fingerprint() == after(3));
        });
}

TEST_CASE("a state that is damaged on one rank is the same sentence on all, and no round") {
    const support::Folder folder;
    go_on(folder, 3, 1);
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder / "log")) {
        if (file.path().string().find("rank-1/states") == std::string::npos) continue;
        std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
        for (std::streamoff at = 80; at + 800 < std::streamoff(file.file_size()); at += 40) {
            bytes.seekp(at);
            bytes.put('\x55');
        }
    }
    on_ranks(3, [&](std::shared_ptr<Place> place) {
        auto run = spread(Ditto<>{}, std::move(place), store::Log{.directory = folder / "log"});
        read_checkpoint(folder / "kept/round-00000001.tessera", run, "x");
        const auto before = run.fingerprint();
        const auto complaint = said([&] { run.round(sample::Uniform{clients}); });
        CHECK(complaint.find("rank-1") != std::string::npos);
        CHECK(complaint.find("is damaged") != std::string::npos);
        CHECK(run.fingerprint() == before);
        CHECK(run.rounds_done() == 1);
    });
}

TEST_CASE("a checkpoint of states in memory moves into logs") {
    const support::Folder folder;
    on_ranks(2, [&](std::shared_ptr<Place> place) {
        auto run = made(Ditto<>{});
        run.spread_over(std::move(place));
        run.run(3, eleven);
        write_checkpoint(folder / "memory", run, "x");
    });
    on_ranks(3, [&](std::shared_ptr<Place> place) {
        auto run = spread(Ditto<>{}, std::move(place), store::Log{.directory = folder / "log"});
        read_checkpoint(folder / "memory", run, "x");
        run.run(2, eleven);
        CHECK(run.fingerprint() == after(5));
    });
}

TEST_CASE("what cannot be is a sentence before round one, on all ranks") {
    const support::Folder folder;
    auto alone = made(Ditto<>{});
    alone.keep_in(store::Log{.directory = folder / "log"});
    alone.run(1, eleven);
    write_checkpoint(folder / "kept", alone, "x");
    on_ranks(2, [&](std::shared_ptr<Place> place) {
        auto run = spread(Ditto<>{}, place, store::Log{.directory = folder / "log"});
        CHECK(said([&] { run.round(eleven); }).find("holds the states of an earlier run") != std::string::npos);
        CHECK(run.rounds_done() == 0);
        auto first = made(Ditto<>{});
        first.keep_in(store::Log{.directory = folder / std::to_string(place->rank())});
        CHECK(said([&] { first.spread_over(place); }).find("before it is told where clients") != std::string::npos);
        auto one = made(Ditto<>{});
        one.spread_over(place);
        CHECK(said([&] { one.keep_in(OfOneProcess{{.directory = folder / "x"}}); }).find("is of one process") !=
              std::string::npos);
        CHECK(said([&] { read_checkpoint(folder / "kept", one, "x"); }).find("tell the run in which one") !=
              std::string::npos);
    });
    CHECK(after(1) == alone.fingerprint());
}

}  // namespace federation_parts_test
