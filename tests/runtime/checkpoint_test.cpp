// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/checksum.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/sample/uniform.hpp>
#include <tessera/version.hpp>

#include <support/toy_data.hpp>

namespace checkpoint_test {

using namespace tessera;

namespace {

using Net = nn::Mclr<8, 4>;

template <class Me>
Federation<Me, Net> make(Me method = {}) {
    return {Net{}, support::toy_data(), method, {.seed = 2, .batch = 5, .rounds = 8}};
}

class Folder {
public:
    Folder() : path_((std::filesystem::temp_directory_path() / "tessera-checkpoint-XXXXXX").string()) {
        REQUIRE(mkdtemp(path_.data()) != nullptr);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

Bytes bytes_of(const std::string& text) {
    Bytes out;
    put_raw(out, text.data(), text.size());
    return out;
}

template <class Me>
void check_resume(Me method) {
    const Folder folder;
    const std::string file = folder.path() + "/one";
    auto straight = make(method), first = make(method), second = make(method);
    straight.run(8, sample::Uniform{3});
    first.run(5, sample::Uniform{3});
    write_checkpoint(file, first, "settings", bytes_of("history"));
    CHECK(read_checkpoint(file, second, "settings") == bytes_of("history"));
    CHECK(second.rounds_done() == 5);
    CHECK(second.fingerprint() == first.fingerprint());
    second.run(3, sample::Uniform{3});
    CHECK(second.fingerprint() == straight.fingerprint());
}

}  // namespace

TEST_CASE("a resumed run equals the uninterrupted one bit for bit (L-GEN-9)") {
    check_resume(FedAvg<>{});
    check_resume(FedAvg<>{.steps = 3});  // the place in the stream survives
    check_resume(FedAvg<rule::Sgd, fold::ServerAdam<>>{});
    check_resume(Local<>{});
}

TEST_CASE("every truncation and every flipped byte is refused, and the run stays as it was") {
    const Folder folder;
    const std::string file = folder.path() + "/one";
    auto run = make<Local<>>();
    run.run(1, sample::Uniform{1});
    write_checkpoint(file, run, "s");
    const auto whole = io::read_file(file);
    run.run(1, sample::Uniform{1});
    const auto before = run.fingerprint();
    const auto refused = [&](std::span<const std::byte> bytes) {
        io::write_file_atomically(file, bytes);
        CHECK_THROWS_AS(read_checkpoint(file, run, "s"), IoError);
    };
    for (std::size_t n = 0; n < whole.size(); n += 7) refused(std::span(whole).first(n));
    for (std::size_t i = 0; i < whole.size(); i += 5) {
        auto bad = whole;
        bad[i] ^= std::byte{0x10};
        refused(bad);
    }
    CHECK(run.fingerprint() == before);
    io::write_file_atomically(file, whole);  // the control: untouched it is read
    read_checkpoint(file, run, "s");
    CHECK(run.rounds_done() == 1);
}

TEST_CASE("a checkpoint of another run is refused with the difference") {
    const Folder folder;
    const std::string file = folder.path() + "/one";
    auto run = make<FedAvg<>>();
    write_checkpoint(file, run, "rate=0.1\nbatch=5\n");
    CHECK_THROWS_WITH_AS(
        read_checkpoint(file, run, "rate=0.2\nbatch=5\n"),
        (file + ": the checkpoint is of a run with other settings (it has rate=0.1, this run rate=0.2)").c_str(),
        IoError);
    const auto says = [&](const std::string& written, const std::string& asked) -> std::string {
        write_checkpoint(file, run, written);
        try {
            read_checkpoint(file, run, asked);
        } catch (const IoError& e) {
            return std::string(e.what()).substr((file + ": the checkpoint is of a run with other settings ").size());
        }
        return "";
    };
    // A setting that one of them lacks, with others behind it, and one that begins like another.
    CHECK(says("augment=flip\nrate=0.1\n", "rate=0.1\n") == "(it has augment=flip, this run none)");
    CHECK(says("rate=0.1\n", "augment=flip\nrate=0.1\n") == "(it has none, this run augment=flip)");
    CHECK(says("rate=0.1\n", "rate=0.15\n") == "(it has rate=0.1, this run rate=0.15)");
    CHECK(says("a=1\nb=1\n", "c=2\nb=2\na=1\n") == "(it has b=1, this run b=2)");
    CHECK(says("a=1\nb=1\n", "b=1\na=1\n") == "(the same ones in another order)");
    CHECK(says("a=1\nb=1\n", "a=1\nb=1\n") == "");
    auto other = make<Local<>>();
    write_checkpoint(file, run, "rate=0.1\nbatch=5\n");
    CHECK_THROWS_AS(read_checkpoint(file, other, "rate=0.1\nbatch=5\n"), IoError);
}

TEST_CASE("settings, method, split and keys are the run's whatever the caller calls it") {
    const Folder folder;
    const std::string file = folder.path() + "/one";
    const Settings settings{.seed = 2, .batch = 5, .rounds = 8};
    const auto data = support::toy_data();
    const auto refusal = [&](const FedAvg<>& method, const Settings& other, const data::FederatedDataset& clients,
                             Vec<float> warm_start = {}) -> std::string {
        Federation<FedAvg<>, Net> run{{}, clients, method, other, std::move(warm_start)};
        try {
            read_checkpoint(file, run, "x");
        } catch (const IoError& e) {
            CHECK(run.rounds_done() == 0);
            return e.what();
        }
        return "";
    };
    const auto says = [](const std::string& text, const std::string& words) { return text.find(words) != text.npos; };
    Federation<FedAvg<>, Net> run{{}, data, {}, settings};
    run.run(1, sample::Uniform{3});
    write_checkpoint(file, run, "x");

    CHECK(refusal({}, settings, data) == "");
    CHECK(refusal({}, {.seed = 2, .batch = 5, .rounds = 8, .keep_uploads = true}, data) == "");
    CHECK(says(refusal({}, {.seed = 3, .batch = 5, .rounds = 8}, data), "(it has seed=2, this run seed=3)"));
    CHECK(says(refusal({}, {.seed = 2, .batch = 9, .rounds = 8}, data), "(it has batch=5, this run batch=9)"));
    CHECK(says(refusal({.local = {.rate = 0.77}}, settings, data), "this run method.local.rate=0.77)"));
    // The planned rounds decide no number unless something reads them: a run can be made longer.
    CHECK(refusal({}, {.seed = 2, .batch = 5, .rounds = 80}, data) == "");
    const FedAvg<> falling{.local = {.schedule = {.decay = rule::Decay::linear}}};
    Federation<FedAvg<>, Net> planned{{}, data, falling, settings};
    planned.run(1, sample::Uniform{3});
    write_checkpoint(file, planned, "x");
    CHECK(refusal(falling, settings, data) == "");
    CHECK(says(refusal(falling, {.seed = 2, .batch = 5, .rounds = 80}, data), "(it has rounds=8, this run rounds=80)"));
    write_checkpoint(file, run, "x");
    CHECK(says(refusal({}, settings, data, Vec<float>(run.setup().initial.size())), "first parameters="));

    auto split = data.split();
    std::swap(split.clients[0].train[0], split.clients[0].train[1]);
    CHECK(says(refusal({}, settings, {data.pool(), split}), "is of a run on another split (it has split and keys="));
    split = data.split();
    split.clients[2].key += 1;
    CHECK(says(refusal({}, settings, {data.pool(), split}), "is of a run on another split (it has split and keys="));
}

TEST_CASE("other features, labels or public data are other data, whatever the caller calls the run") {
    const Folder folder;
    const std::string file = folder.path() + "/one";
    const Settings settings{.seed = 2, .batch = 5, .rounds = 8};
    const auto data = support::toy_data();
    std::vector<std::int32_t> labels(data.pool().size());
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = data.pool().label(i);
    std::vector<float> rows(labels.size() * support::Toy::width);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 17);
    const auto pool = [&] { return data::Dataset::own(rows, labels, 4); };
    const auto refusal = [&](const data::Dataset& examples, const ClientData& aux) -> std::string {
        Federation<FedAvg<>, Net> run{{}, {examples, data.split()}, {}, settings, {}, aux};
        try {
            read_checkpoint(file, run, "x");
        } catch (const IoError& e) {
            CHECK(run.rounds_done() == 0);
            return std::string(e.what()).substr(file.size());
        }
        return "";
    };
    const auto open = pool(), other_open = pool().normalised(1, 1);
    const std::vector<Index> first{0, 1, 2}, second{0, 1, 3};
    const ClientData aux{&open.examples(), first};
    Federation<FedAvg<>, Net> run{{}, {pool(), data.split()}, {}, settings, {}, aux};
    run.run(1, sample::Uniform{3});
    write_checkpoint(file, run, "x");

    CHECK(refusal(pool(), aux) == "");  // the control: equal bytes in another place
    const std::string on_other_data = ": the checkpoint is of a run on other data (it has features and labels=",
                      other_public = ": the checkpoint is of a run with other public data (it has public data=";
    CHECK(refusal(pool(), {&open.examples(), second}).starts_with(other_public));
    CHECK(refusal(pool(), {}).starts_with(other_public));
    CHECK(refusal(pool(), {&other_open.examples(), first}) == "");  // of floats, shift and scale are not read
    for (const std::size_t at : {std::size_t{0}, rows.size() / 2, rows.size() - 1}) {
        const float before = rows[at];
        rows[at] = std::nextafter(before, 100.0f);  // one bit of one feature
        const auto changed = pool();
        CHECK(refusal(changed, aux).starts_with(on_other_data));
        rows[at] = before;
        CHECK(refusal(pool(), {&changed.examples(), first}).starts_with(other_public));
    }
    labels[0] = (labels[0] + 1) % 4;
    CHECK(refusal(pool(), aux).starts_with(on_other_data));
}

TEST_CASE("a checkpoint of another version of the library is refused and says so") {
    const Folder folder;
    const std::string file = folder.path() + "/one";
    auto run = make<FedAvg<>>();
    write_checkpoint(file, run, "x");
    const auto whole = io::read_file(file);
    std::string text(reinterpret_cast<const char*>(whole.data()), whole.size() - 4);
    const auto at = text.find("library version=" + std::string(version));
    REQUIRE(at != text.npos);
    text.replace(at + 16, std::string(version).size(), std::string(std::string(version).size(), '9'));
    Bytes forged = bytes_of(text);
    put(forged, crc32c(forged));
    io::write_file_atomically(file, forged);
    CHECK_THROWS_WITH_AS(read_checkpoint(file, run, "x"),
                         doctest::Contains("is of a run of another version of the library (it has library version=9"),
                         IoError);
    io::write_file_atomically(file, whole);  // the control
    read_checkpoint(file, run, "x");
}

TEST_CASE("rows are hashed once, however many checkpoints are written") {
    const Folder folder;
    const auto data = support::toy_data();
    std::vector<std::int32_t> labels(data.pool().size());
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = data.pool().label(i);
    static std::size_t fetched = 0;
    fetched = 0;
    const auto pool = data::Dataset::from(
        [](std::size_t i, std::span<float> out) {
            ++fetched;
            for (std::size_t j = 0; j < out.size(); ++j) out[j] = static_cast<float>((i + j) % 5);
        },
        support::Toy::width, labels, 4);
    Federation<FedAvg<>, Net> run{{}, {pool, data.split()}, {}, {.seed = 2, .batch = 5, .rounds = 8}};
    CHECK(fetched == 0);  // and not before somebody asks
    for (int n = 0; n < 5; ++n) write_checkpoint(folder.path() + "/one", run, "x");
    CHECK(fetched == labels.size());
}

TEST_CASE("a state that is too long is refused before anything has changed") {
    auto run = make<FedAvg<>>(), other = make<FedAvg<>>();
    other.run(2, sample::Uniform{3});
    Bytes bytes;
    other.save(bytes);
    bytes.push_back(std::byte{0});
    const auto before = run.fingerprint();
    Reader in(bytes);
    CHECK_THROWS_WITH_AS(run.restore(in), "bytes follow the end of the state", WireError);
    CHECK(run.fingerprint() == before);
}

TEST_CASE("a run's checkpoint outlives those of a longer run that was there before") {
    const Folder folder;
    CHECK(checkpoints_in(folder.path() + "/nowhere").empty());
    const CheckpointDirectory directory(folder.path());
    auto longer = make<FedAvg<>>(), shorter = make<FedAvg<>>();
    for (int round = 0; round < 5; ++round) {
        longer.run(1, sample::Uniform{3});
        directory.save(longer, "longer");
    }
    for (int round = 0; round < 3; ++round) {
        shorter.run(1, sample::Uniform{3});
        directory.save(shorter, "shorter");
    }
    CHECK(checkpoints_in(folder.path()) ==
          std::vector<std::string>{"round-00000002.tessera", "round-00000003.tessera", "round-00000004.tessera",
                                   "round-00000005.tessera"});
    auto again = make<FedAvg<>>();
    REQUIRE(directory.resume(again, "shorter").has_value());
    CHECK(again.rounds_done() == 3);
    REQUIRE(directory.resume(again, "longer").has_value());
    CHECK(again.rounds_done() == 5);
}

TEST_CASE("a directory keeps two, falls back over a torn one, and lets one process in") {
    const Folder folder;
    auto run = make<FedAvg<>>();
    {
        const CheckpointDirectory directory(folder.path());
        CHECK_FALSE(directory.resume(run, "s").has_value());
        for (int round = 0; round < 4; ++round) {
            run.run(1, sample::Uniform{3});
            directory.save(run, "s");
        }
        CHECK(io::list_files(folder.path()).size() == 2);
        CHECK_THROWS_AS(CheckpointDirectory{folder.path()}, IoError);

        const std::string newest = folder.path() + "/round-00000004.tessera";
        const auto whole = io::read_file(newest);
        io::write_file_atomically(newest, std::span(whole).first(whole.size() - 1));
        const auto resumed = directory.resume(run, "s");
        REQUIRE(resumed.has_value());
        CHECK(run.rounds_done() == 3);
        REQUIRE(resumed->refused.size() == 1);
        CHECK(resumed->refused[0].starts_with(newest));
    }
    const CheckpointDirectory again(folder.path());
    CHECK_THROWS_AS(again.resume(run, "other"), IoError);  // there are some, and none is ours
}

}  // namespace checkpoint_test
