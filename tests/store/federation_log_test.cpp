// SPDX-License-Identifier: BSD-3-Clause
// A federation whose clients rest in a log is the federation whose clients rest in memory, bit for bit.
#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tessera/exec/openmp.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedamp.hpp>
#include <tessera/method/fedavg.hpp>
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

#include <support/folder.hpp>
#include <support/keyed_noise.hpp>
#include <support/toy_data.hpp>

namespace federation_log_test {

using namespace tessera;

namespace {

using Net = nn::Mclr<8, 4>;
const sample::Uniform three{3};

template <class Me>
Federation<Me, Net> in_memory(const Me& method) {
    return {Net{}, support::toy_data({.clients = 9}), method, {.seed = 2, .batch = 5, .rounds = 8}};
}
template <class Me>
Federation<Me, Net> in_log(const Me& method, const std::string& directory) {
    auto run = in_memory(method);
    run.keep_in(store::Log{.directory = directory});
    return run;
}

template <class Me>
bool same_bits(const Me& method) {
    const support::Folder folder;
    auto memory = in_memory(method);
    bool same = true;
    {
        auto log = in_log(method, folder / "a"), wire = in_log(method, folder / "b");
        wire.over_the_wire();
        for (int r = 0; r < 4; ++r) {
            const auto expected = memory.round(three);
            same = same && log.round(three, exec::OpenMp{2}).state == expected.state;
            same = same && wire.round(three).state == expected.state;
        }
        write_checkpoint(folder / "ckpt", log, "x");
    }
    auto resumed = in_log(method, folder / "a");
    read_checkpoint(folder / "ckpt", resumed, "x");
    same = same && resumed.rounds_done() == 4 && resumed.fingerprint() == memory.fingerprint();
    for (int r = 0; r < 4; ++r) same = same && resumed.round(three).state == memory.round(three).state;
    for (Id k = 0; k < memory.size(); ++k) {
        Hasher a, b;
        hash_into(a, memory.client(k));
        hash_into(b, resumed.client(k));
        same = same && a.finish() == b.finish();
    }
    return same;
}

int in_child(auto body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// An executor that is killed after so many visits.
struct Mortal {
    static constexpr Offers offers{};
    int* left;
    std::size_t concurrency() const { return 1; }
    template <class Body>
    void for_each(std::size_t tasks, Body&& body) const {
        for (std::size_t t = 0; t < tasks; ++t) {
            body(t, 0);
            if (--*left == 0) ::kill(::getpid(), SIGKILL);
        }
    }
};

using Secret = Private<FedAvg<rule::DpSgd<support::KeyedNoise>>>;

}  // namespace

TEST_CASE("the same bits under methods of every kind, resumed as well") {
    CHECK(same_bits(FedAvg<>{}));
    CHECK(same_bits(FedAvg<>{.steps = 3}));  // a place in the stream
    CHECK(same_bits(Local<>{}));
    CHECK(same_bits(Ditto<>{}));
    CHECK(same_bits(Scaffold{}));
    CHECK(same_bits(FedAmp<>{}));
    CHECK(same_bits(FedFomo<>{}));
    CHECK(same_bits(KnnPer<>{}));
    CHECK(same_bits(FedSpa<>{}));
    CHECK(same_bits(Secret{.delta = 1e-3}));
}

TEST_CASE("a torn log falls back to the checkpoint before, with a sentence") {
    const support::Folder folder;
    auto straight = in_memory(Ditto<>{});
    {
        auto run = in_log(Ditto<>{}, folder / "log");
        const CheckpointDirectory checkpoints(folder / "ckpt");
        for (int r = 0; r < 5; ++r) {
            run.round(three);
            checkpoints.save(run, "x");
        }
    }
    const std::string file = folder / "log/states-00000001.log";
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 20);
    auto run = in_log(Ditto<>{}, folder / "log");
    const CheckpointDirectory checkpoints(folder / "ckpt");
    const auto resumed = checkpoints.resume(run, "x");
    REQUIRE(resumed);
    REQUIRE(resumed->refused.size() == 1);
    CHECK(resumed->refused[0].find("the log ends before the round of the checkpoint") != std::string::npos);
    CHECK(run.rounds_done() == 4);
    straight.run(8, three);
    run.run(4, three);
    CHECK(run.fingerprint() == straight.fingerprint());
}

TEST_CASE("states move from memory into a log, and a log's checkpoint needs the log") {
    const support::Folder folder;
    auto straight = in_memory(Ditto<>{}), first = in_memory(Ditto<>{});
    straight.run(6, three);
    first.run(3, three);
    write_checkpoint(folder / "one", first, "x");
    auto second = in_log(Ditto<>{}, folder / "log");
    read_checkpoint(folder / "one", second, "x");
    CHECK(second.fingerprint() == first.fingerprint());
    second.run(3, three);
    CHECK(second.fingerprint() == straight.fingerprint());
    write_checkpoint(folder / "two", second, "x");
    CHECK_THROWS_WITH_AS(read_checkpoint(folder / "two", first, "x"),
                         (folder / "two: its clients' states rest in a store; tell the run in which one").c_str(),
                         IoError);
    CHECK_THROWS_AS(second.keep_in(store::Log{.directory = folder / "other"}), ConfigError);
}

TEST_CASE("a state that the method did not leave is refused, though its checksums are right") {
    const support::Folder folder;
    auto run = in_log(Ditto<>{}, folder / "log");
    run.run(2, three);
    Id visited = 0;
    const auto forge = [&](std::size_t numbers, float value) {
        const auto log = store::Log{.directory = folder / "forged", .anew = true}.open(run.size());
        log->begin();
        auto state = run.client(visited);
        state.v.assign(numbers, value);
        Bytes bytes;
        put(bytes, state);
        Vec<Staged> staged{log->stage(visited, bytes, {})};
        log->commit(1, staged);
        log->committed();
        Bytes out;
        put(out, std::uint64_t{2});
        put(out, run.server());
        put(out, ~std::uint64_t{});
        log->save(out);
        return out;
    };
    while (run.client(visited).v.empty()) ++visited;
    const std::size_t d = run.client(visited).v.size();
    const auto complaint = [&](const Bytes& checkpoint) -> std::string {
        auto other = in_log(Ditto<>{}, folder / "forged");
        Reader in(checkpoint);
        other.restore(in);  // states are judged when they are read
        try {
            other.client(visited);
        } catch (const IoError& e) {
            return e.what();
        }
        return "";
    };
    CHECK(complaint(forge(d - 1, 0.5f)).find("cannot be one that this method left") != std::string::npos);
    CHECK(complaint(forge(d, std::numeric_limits<float>::quiet_NaN())).find("cannot be one") != std::string::npos);
    CHECK(complaint(forge(d, 0.5f)).empty());  // the control
}

TEST_CASE("a full disk is a round that did not happen, and what was spent of privacy is not forgotten") {
    const auto full = [](const auto& method, auto check) {
        const support::Folder folder;
        return in_child([&] {
            ::signal(SIGXFSZ, SIG_IGN);
            auto run = in_log(method, folder / "log");
            run.run(3, three);
            const auto before = run.fingerprint();
            rlimit limit{};
            ::getrlimit(RLIMIT_FSIZE, &limit);
            const auto free = limit.rlim_cur;
            limit.rlim_cur = std::filesystem::file_size(folder / "log/states-00000001.log") + 100;
            ::setrlimit(RLIMIT_FSIZE, &limit);
            try {
                run.round(three);
                return 1;
            } catch (const IoError&) {
            }
            if (run.rounds_done() != 3) return 2;
            const int told = check(run, before);
            if (told != 0) return told;
            limit.rlim_cur = free;
            ::setrlimit(RLIMIT_FSIZE, &limit);
            run.round(three);
            return run.rounds_done() == 4 ? check(run, run.fingerprint()) : 3;
        });
    };
    CHECK(full(Ditto<>{}, [](const auto& run, Fingerprint before) { return run.fingerprint() == before ? 0 : 10; }) ==
          0);
    CHECK(full(Secret{.delta = 1e-3}, [](const auto& run, Fingerprint) {
              double spent = 0;
              for (Id k = 0; k < run.size(); ++k) spent += run.setup().method.spent(run.client(k)).epsilon > 0 ? 1 : 0;
              static double last = 0;
              const bool more = spent >= last && spent >= 3;
              last = spent;
              return more ? 0 : 11;
          }) == 0);
}

TEST_CASE("killed at any moment, a run with a checkpoint a round loses the round under way and no more") {
    const support::Folder folder;
    auto straight = in_memory(Ditto<>{});
    straight.run(8, three);
    // It is told which rounds are kept; these must be there.
    std::size_t kills = 0, least = 8;
    for (int moment = 1; moment < 60; moment += 3) {
        const std::string place = folder / std::to_string(moment);
        int told[2];
        REQUIRE(::pipe(told) == 0);
        const pid_t child = ::fork();
        if (child == 0) {
            auto run = in_log(Ditto<>{}, place + "/log");
            const CheckpointDirectory checkpoints(place + "/ckpt");
            int left = moment;
            for (int r = 0; r < 8; ++r) {
                if (--left == 0) ::kill(::getpid(), SIGKILL);
                run.round(three, Mortal{&left});
                if (--left == 0) ::kill(::getpid(), SIGKILL);
                checkpoints.save(run, "x");
                const char done = static_cast<char>(r + 1);
                if (::write(told[1], &done, 1) != 1) ::_exit(9);
            }
            ::_exit(0);
        }
        ::close(told[1]);
        char done = 0, next = 0;
        while (::read(told[0], &next, 1) == 1) done = next;
        ::close(told[0]);
        int status = 0;
        ::waitpid(child, &status, 0);
        kills += WIFSIGNALED(status);
        least = std::min<std::size_t>(least, static_cast<std::size_t>(done));
        auto run = in_log(Ditto<>{}, place + "/log");
        const CheckpointDirectory checkpoints(place + "/ckpt");
        if (const auto resumed = checkpoints.resume(run, "x")) CHECK(resumed->refused.empty());
        REQUIRE(run.rounds_done() == static_cast<std::size_t>(done));
        if (done == 0) continue;
        run.run(8 - static_cast<std::size_t>(done), three);
        CHECK(run.fingerprint() == straight.fingerprint());
    }
    CHECK(kills > 10);
    CHECK(least < 3);
}

TEST_CASE("a mirror shows what a run holds, wherever that rests, and has no rounds") {
    const support::Folder folder;
    auto run = in_log(Ditto<>{}, folder / "log"), other = in_memory(Ditto<>{});
    run.run(4, three);
    other.mirror(run);
    CHECK(other.fingerprint() == run.fingerprint());
    CHECK(evaluate<Which::personal>(other).accuracy(Average::pooled).value ==
          evaluate<Which::personal>(run).accuracy(Average::pooled).value);
    CHECK_THROWS_AS(other.round(three), ConfigError);
}

}  // namespace federation_log_test
