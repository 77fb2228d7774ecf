// SPDX-License-Identifier: BSD-3-Clause
// The log by itself: what is committed is read, also after damage, kills, full disks and compaction, or refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tessera/core/random.hpp>
#include <tessera/store/log.hpp>

#include <support/folder.hpp>

namespace log_test {

using namespace tessera;

namespace {

constexpr std::size_t clients = 20, least = 80'000;

Bytes state_of(Id client, std::uint64_t round, std::size_t size) {
    Vec<std::uint64_t> words(size / 8 + 1);
    std::uint64_t word = Key{round}(client).key;
    for (auto& w : words) w = word = 6364136223846793005u * word + 1442695040888963407u;
    Bytes bytes(size);
    std::memcpy(bytes.data(), words.data(), size);
    return bytes;
}
Fingerprint print_of(Id client, const Bytes& state) {
    Hasher h;
    h.word(client);
    h.bytes(state.data(), state.size());
    return h.finish();
}

// What the log should hold, kept in memory beside it.
class Run {
public:
    explicit Run(const std::string& directory, std::size_t size = 1000) : directory_(directory), size_(size) { open(); }
    void open() {
        store.reset();
        store = store::Log{.directory = directory_, .least = least}.open(clients);
    }

    // Client r and two more are visited in round r.
    void round(std::uint64_t r) {
        store->begin();
        Vec<Staged> staged;
        std::map<Id, Bytes> next = states;
        for (const Id c : {Id(r % clients), Id((3 * r + 1) % clients), Id((7 * r + 5) % clients)}) {
            if (std::any_of(staged.begin(), staged.end(), [&](const Staged& s) { return s.client == c; })) continue;
            next[c] = state_of(c, r, size_ + c);
            staged.push_back(store->stage(c, next[c], print_of(c, next[c])));
        }
        store->commit(r, staged);
        store->committed();
        states = std::move(next);
    }
    Bytes checkpoint() {
        Bytes out;
        store->save(out);
        store->saved();
        return out;
    }
    void restore(const Bytes& from) {
        Reader in(from);
        store->restore(in);
        store->restored();
    }
    bool right() const {
        Bytes room;
        Fingerprint sum;
        for (Id c = 0; c < clients; ++c) {
            const auto held = states.find(c);
            if (store->visited(c) != (held != states.end())) return false;
            if (held == states.end()) continue;
            const auto read = store->read(c, room);
            if (!std::equal(read.begin(), read.end(), held->second.begin(), held->second.end())) return false;
            sum += print_of(c, held->second);
        }
        return sum == store->fingerprint();
    }

    std::unique_ptr<Store> store;
    std::map<Id, Bytes> states;

private:
    std::string directory_;
    std::size_t size_;
};

std::uintmax_t bytes_in(const std::string& directory) {
    std::uintmax_t all = 0;
    for (const auto& file : std::filesystem::directory_iterator(directory)) all += file.file_size();
    return all;
}
std::string refusal(Run& run, const Bytes& checkpoint) {
    try {
        run.restore(checkpoint);
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}
int in_child(auto body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("what was committed is read, and what was only staged is not") {
    const support::Folder folder;
    Run run(folder.path());
    CHECK(run.right());
    for (std::uint64_t r = 0; r < 30; ++r) {
        run.round(r);
        REQUIRE(run.right());
    }
    run.store->stage(3, state_of(3, 99, 500), {1, 2});
    CHECK(run.right());
    run.store->abandon();
    CHECK(run.right());
    run.round(30);
    CHECK(run.right());
    run.states[3][0] ^= std::byte{1};  // the control
    CHECK_FALSE(run.right());
}

TEST_CASE("a round that is written counts only from `committed` on, and is gone without it") {
    for (const std::size_t size : {1000u, 60'000u}) {  // within a file, and across files
        const support::Folder folder;
        Run run(folder.path(), size);
        for (std::uint64_t r = 0; r < 5; ++r) run.round(r);
        const auto before = bytes_in(folder.path());
        for (int again = 0; again < 2; ++again) {
            run.store->begin();
            const Bytes other = state_of(3, 99, size);
            Vec<Staged> staged{run.store->stage(3, other, print_of(3, other))};
            for (Id c = 4; c < 8; ++c) staged.push_back(run.store->stage(c, other, print_of(c, other)));
            run.store->commit(5, staged);
            CHECK(run.right());
            run.store->abandon();
            CHECK(run.right());
            CHECK(bytes_in(folder.path()) == before);
        }
        for (std::uint64_t r = 5; r < 9; ++r) run.round(r);
        const auto checkpoint = run.checkpoint();
        run.open();
        run.restore(checkpoint);
        CHECK(run.right());
    }
}

TEST_CASE("what a checkpoint says is looked for first, and nothing changes before `restored`") {
    const support::Folder folder;
    Run run(folder.path());
    for (std::uint64_t r = 0; r < 3; ++r) run.round(r);
    const auto early = run.checkpoint();
    const auto then = run.states;
    for (std::uint64_t r = 3; r < 6; ++r) run.round(r);
    Reader in(early);
    run.store->restore(in);
    CHECK(run.right());
    run.round(6);  // it was not meant
    CHECK(run.right());
    run.restore(early);
    run.states = then;
    CHECK(run.right());
}

TEST_CASE("parts of several ranks lie below one directory, are read by all, and go when nobody needs them") {
    const support::Folder folder;
    const store::Log policy{.directory = folder.path()};
    const StorePart first{.ranks = 2, .rank = 1}, moved{.began = 4, .ranks = 3, .rank = 0};
    const Bytes state = state_of(3, 0, 500);
    const auto fill = [&](Store& log) {
        log.begin();
        Vec<Staged> one{log.stage(3, state, print_of(3, state))};
        log.commit(0, one);
        log.committed();
        Bytes out;
        log.save(out);
        return out;
    };
    auto own = policy.open(clients, first);
    const auto written = fill(*own);
    Reader a(written), b(written);
    const auto one = policy.look(clients, first, a), two = policy.look(clients, first, b);  // while it is in use
    Bytes room;
    for (const auto* seen : {&one, &two}) {
        CHECK((*seen)->visited(3));
        CHECK_FALSE((*seen)->visited(4));
        CHECK(std::ranges::equal((*seen)->read(3, room), state));
    }
    CHECK_THROWS_AS(policy.open(clients)->begin(), IoError);  // an earlier run's, though not its own
    auto other = policy.open(clients, moved);
    fill(*other);
    other.reset();
    fill(*policy.open(clients, moved));  // nobody knows of what lay there
    policy.let_go(std::array{first});
    Reader c(written);
    CHECK(std::ranges::equal(policy.look(clients, first, c)->read(3, room), state));
    CHECK_FALSE(std::filesystem::exists(folder / "from-00000004-on-3"));
    policy.let_go(std::array{moved});
    CHECK(std::filesystem::exists(folder / "from-00000000-on-2"));  // in use
    own.reset();
    policy.let_go(std::array{moved});
    CHECK_FALSE(std::filesystem::exists(folder / "from-00000000-on-2"));
    policy.open(clients)->begin();  // the control: now there is nothing
    fill(*policy.open(clients, first));
    store::Log{.directory = folder.path(), .anew = true}.open(clients)->begin();
    CHECK_FALSE(std::filesystem::exists(folder / "from-00000000-on-2"));
}

TEST_CASE("a log goes on where a checkpoint stands, whatever was written after it") {
    const support::Folder folder;
    Run run(folder.path());
    for (std::uint64_t r = 0; r < 5; ++r) run.round(r);
    const auto early = run.checkpoint();
    const auto then = run.states;
    for (std::uint64_t r = 5; r < 9; ++r) run.round(r);
    const auto late = run.checkpoint();
    const auto now = run.states;
    for (std::uint64_t r = 9; r < 12; ++r) run.round(r);

    run.open();
    run.restore(late);
    run.states = now;
    CHECK(run.right());
    run.round(9);
    CHECK(run.right());
    run.open();
    run.restore(early);
    run.states = then;
    CHECK(run.right());
    run.open();
    CHECK(refusal(run, late) != "");  // its end is cut off
    run.restore(early);
    CHECK(run.right());
    run.round(5);
    CHECK(run.right());
}

TEST_CASE("an earlier run's log is not written over unless that is asked for") {
    const support::Folder folder;
    {
        Run run(folder.path());
        run.round(0);
        CHECK_THROWS_AS(store::Log{.directory = folder.path()}.open(clients), IoError);  // in use
    }
    Run other(folder.path());
    CHECK_THROWS_WITH_AS(other.round(0),
                         (folder.path() + ": holds the states of an earlier run; resume it from its checkpoint, or "
                                          "begin anew in an empty directory")
                             .c_str(),
                         IoError);
    other.store.reset();
    const auto anew = store::Log{.directory = folder.path(), .anew = true}.open(clients);
    anew->begin();
    CHECK_FALSE(anew->visited(0));
    CHECK_THROWS_AS(store::Log{}.open(clients), ConfigError);
}

TEST_CASE("every truncation and every flipped byte is noticed, and the log before it is still there") {
    const support::Folder folder, copy;
    Run run(folder.path(), 60);
    for (std::uint64_t r = 0; r < 6; ++r) run.round(r);
    const auto checkpoint = run.checkpoint();
    run.store.reset();
    const std::string file = folder / "states-00000001.log", copied = copy / "states-00000001.log";
    const auto whole = io::read_file(file);
    Run damaged(copy.path(), 60);
    damaged.states = run.states;
    // Damage of an index is a refusal; that of a state is met by whoever reads it, and then by nobody else.
    std::size_t refused = 0, met = 0, harmless = 0;
    const auto meets = [&](std::span<const std::byte> bytes) {
        damaged.store.reset();
        std::filesystem::remove(copied);  // to write over a file costs a wait for the disk
        std::ofstream(copied, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        damaged.open();
        if (!refusal(damaged, checkpoint).empty()) return void(++refused);
        try {
            const bool right = damaged.right();
            REQUIRE(right);
            ++harmless;  // of a state that is out of date
        } catch (const IoError&) {
            ++met;
        }
    };
    for (std::size_t n = 0; n < whole.size(); n += 29) meets(std::span(whole).first(n));
    CHECK(met + harmless == 0);
    CHECK(refused > 40);
    for (std::size_t i = 0; i < whole.size(); i += 7) {
        auto bad = whole;
        bad[i] ^= std::byte{0x10};
        meets(bad);
    }
    CHECK(met > 20);
    CHECK(harmless > 0);
    refused = met = harmless = 0;
    meets(whole);  // the control
    CHECK(harmless == 1);
    auto forged = checkpoint;
    for (std::size_t i = 0; i < forged.size(); ++i) {
        forged = checkpoint;
        forged[i] ^= std::byte{0x01};
        CAPTURE(i);
        CHECK(refusal(damaged, forged) != "");
    }
    CHECK(damaged.right());  // a refusal changes nothing
    CHECK(refusal(damaged, Bytes(checkpoint.begin(), checkpoint.end() - 1)) != "");
    CHECK(refusal(damaged, checkpoint) == "");
}

TEST_CASE("compaction keeps the log within twice its states and some, and loses none") {
    const support::Folder folder;
    Run run(folder.path(), 2'000);  // 40 KB alive, 6 KB a round
    std::uintmax_t most = 0;
    for (std::uint64_t r = 0; r < 300; ++r) {
        run.round(r);
        most = std::max(most, bytes_in(folder.path()));
        if (r % 50 == 0) REQUIRE(run.right());
    }
    CHECK(run.right());
    // 42 KB alive, at most 80 KB of garbage in files that are read, and the one that is being filled.
    CHECK(most < 42'000 + 2 * least + 3'000);
    CHECK(most > least);  // the control: more was written than one file takes
}

TEST_CASE("the files of the last two checkpoints stay, and no others") {
    const support::Folder folder;
    Run run(folder.path(), 2'000);
    std::vector<std::pair<Bytes, std::map<Id, Bytes>>> kept;
    for (std::uint64_t r = 0; r < 240; ++r) {
        run.round(r);
        if (r % 40 == 39) kept.emplace_back(run.checkpoint(), run.states);
    }
    CHECK(bytes_in(folder.path()) < 2 * 40 * 3 * 2'200 + 42'000 + 3 * least);
    const auto last = kept.size() - 1;
    run.open();
    CHECK(refusal(run, kept[0].first) != "");
    run.restore(kept[last - 1].first);
    run.states = kept[last - 1].second;
    CHECK(run.right());
    for (std::uint64_t r = 200; r < 320; ++r) run.round(r);
    CHECK(run.right());
    const auto now = run.checkpoint();
    run.open();
    run.restore(now);
    CHECK(run.right());
}

TEST_CASE("after its last checkpoint a log does not grow without end") {
    const support::Folder folder;
    Run run(folder.path(), 2'000);
    for (std::uint64_t r = 0; r < 20; ++r) run.round(r);
    const auto then = run.states;
    const auto only = run.checkpoint();
    for (std::uint64_t r = 20; r < 400; ++r) run.round(r);
    CHECK(run.right());
    CHECK(bytes_in(folder.path()) < 20 * 6'500 + 42'000 + 3 * least);
    run.open();
    run.restore(only);
    run.states = then;
    CHECK(run.right());
}

TEST_CASE("states of any threads at once") {
    const support::Folder folder;
    const auto log = store::Log{.directory = folder.path(), .least = least}.open(1000);
    log->begin();
    std::vector<Staged> all(1000);
    std::vector<std::thread> threads;
    for (Id t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (Id c = t; c < 1000; c += 4) {
                const auto state = state_of(c, 1, 3'000);
                all[c] = log->stage(c, state, print_of(c, state));
            }
        });
    for (auto& t : threads) t.join();
    log->commit(0, all);  // 3 MB: several files in one round
    log->committed();
    Bytes room;
    std::size_t right = 0;
    for (Id c = 0; c < 1000; ++c) {
        const auto state = state_of(c, 1, 3'000);
        const auto read = log->read(c, room);
        right += std::equal(read.begin(), read.end(), state.begin(), state.end());
    }
    CHECK(right == 1000);
    CHECK(io::list_files(folder.path()).size() > 1);
}

TEST_CASE("a full disk is a round that did not happen") {
    const support::Folder folder;
    CHECK(in_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              Run run(folder.path(), 2'000);
              for (std::uint64_t r = 0; r < 4; ++r) run.round(r);
              const auto checkpoint = run.checkpoint();
              rlimit limit{};
              ::getrlimit(RLIMIT_FSIZE, &limit);
              const auto before = limit.rlim_cur;
              // In the middle of a state, and in the middle of the footer.
              const auto size = std::filesystem::file_size(folder / "states-00000001.log");
              for (const std::uint64_t room : {1'000u, 4'150u}) {
                  limit.rlim_cur = size + room;
                  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
                  try {
                      run.round(4);
                      return 2;
                  } catch (const IoError& e) {
                      if (std::string(e.what()).find("cannot be written: File too large") == std::string::npos)
                          return 3;
                      run.store->abandon();
                  }
                  if (!run.right()) return 4;
              }
              limit.rlim_cur = before;
              ::setrlimit(RLIMIT_FSIZE, &limit);
              run.round(4);
              if (!run.right()) return 5;
              const auto now = run.checkpoint();
              run.open();
              run.restore(now);
              return run.right() ? 0 : 6;
          }) == 0);
}

}  // namespace log_test
