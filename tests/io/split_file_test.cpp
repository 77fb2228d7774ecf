// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/split_file.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/data/partition.hpp>

namespace split_file_test {

namespace {

using namespace tessera;
using namespace tessera::data;
using namespace tessera::io;
using doctest::Contains;

Dataset balanced(std::size_t size, std::size_t classes = 10) {
    std::vector<std::int32_t> labels(size);
    for (std::size_t i = 0; i < size; ++i) labels[i] = static_cast<std::int32_t>(i % classes);
    return Dataset::own(std::vector<std::uint8_t>(size), std::move(labels), classes);
}

bool same(const std::vector<Share>& a, const std::vector<Share>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Share& x, const Share& y) {
        return x.train == y.train && x.validation == y.validation && x.test == y.test && x.key == y.key;
    });
}
bool same(const Split& a, const Split& b) {
    return same(a.clients, b.clients) && same(a.unseen, b.unseen) && a.server == b.server;
}

const Dataset pool = balanced(8, 2);
const Split small{.clients = {{.train = {0, 5}, .validation = {1}, .test = {6}, .key = 0xABC},
                              {.train = {2}, .test = {7}, .key = 0xFFFFFFFFFFFFFFFF}},
                  .unseen = {{.train = {3}, .key = 1}},
                  .server = {4}};

std::string body() {
    return "tessera-split 1\n"
           "examples 8\n"
           "labels " +
           io::detail::labels_fingerprint(pool) +
           "\n"
           "tests disjoint\n"
           "clients 2\n"
           "unseen 1\n"
           "server 4\n"
           "client 0 key 0000000000000abc\n"
           "train 0 5\n"
           "validation 1\n"
           "test 6\n"
           "client 1 key ffffffffffffffff\n"
           "train 2\n"
           "validation\n"
           "test 7\n"
           "unseen 0 key 0000000000000001\n"
           "train 3\n"
           "validation\n"
           "test\n";
}
std::string sealed(const std::string& text) { return text + io::detail::split_checksum(text); }

// What decoding says about the valid text with `from` replaced by `to` and a checksum that fits.
void refused(const std::string& from, const std::string& to, const char* what) {
    std::string text = body();
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    CHECK_THROWS_WITH_AS(decode_split(sealed(text), "some.split", pool), Contains(what), IoError);
}

}  // namespace

TEST_CASE("a split is written as documented and read back") {
    CHECK(encode_split(small, pool) == sealed(body()));
    CHECK(same(decode_split(sealed(body()), "x", pool), small));
    CHECK(same(decode_split(encode_split(Split{}, pool), "x", pool), Split{}));
}

TEST_CASE("notes say how a split was made, and can be read without the pool") {
    const SplitNotes notes{{"partition", "dirichlet:0.3 of six sevenths"}, {"split_seed", "7"}, {"validation", ""}};
    const auto noted = encode_split(small, pool, notes);
    CHECK(noted.starts_with("tessera-split 2\nnote partition dirichlet:0.3 of six sevenths\nnote split_seed 7\n"));
    CHECK(same(decode_split(noted, "x", pool), small));
    std::string folder = (std::filesystem::temp_directory_path() / "tessera-split-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    const std::string path = folder + "/noted";
    write_split(path, small, pool, notes);
    const auto head = read_split_head(path);
    CHECK(head.notes == notes);
    CHECK(head.clients == 2);
    CHECK(head.unseen == 1);
    write_split(path, small, pool);
    CHECK(read_split_head(path).notes.empty());
    std::filesystem::remove_all(folder);
    for (const auto& wrong : {SplitNotes{{"", "x"}}, {{"two words", "x"}}, {{"name", "two\nlines"}}})
        CHECK_THROWS_WITH_AS(encode_split(small, pool, wrong), Contains("a name without blanks"), ConfigError);
}

TEST_CASE("splits of every partitioner survive the file") {
    std::string folder = (std::filesystem::temp_directory_path() / "tessera-split-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    const std::string path = folder + "/a split.txt";
    const auto large = balanced(3500);
    std::vector<Id> owner(3500);
    for (std::size_t i = 0; i < owner.size(); ++i) owner[i] = static_cast<Id>(i % 20);
    for (const auto* name : {"iid", "shards:2", "lognormal:2", "natural", "dirichlet:0.3", "dirichlet-fixed:0.6",
                             "dirichlet-unbalanced:0.1"}) {
        const auto split = partition_by_name(
            name, large, {.clients = 20, .train_size = 3000, .validation = 0.1, .unseen = 3, .client_of = owner});
        write_split(path, split, large);
        CHECK(same(read_split(path, large), split));
    }
    CHECK_THROWS_WITH_AS(read_split(path, balanced(3499)), Contains("3500 examples, but the pool has 3499"), IoError);
    CHECK_THROWS_WITH_AS(read_split(path, balanced(3500, 7)), Contains("a pool with other labels"), IoError);
    CHECK_THROWS_WITH_AS(read_split(folder + "/gone", large), Contains("gone"), IoError);
    std::filesystem::remove_all(folder);
}

TEST_CASE("a pool without labels has splits too") {
    const auto targets = Dataset::regression(std::vector<double>(8), std::vector<double>(8));
    CHECK(same(decode_split(encode_split(small, targets), "x", targets), small));
    CHECK_THROWS_AS(decode_split(encode_split(small, targets), "x", pool), IoError);
}

TEST_CASE("a wrong split is not written") {
    Split wrong = small;
    wrong.clients[1].train = {0};
    CHECK_THROWS_WITH_AS(encode_split(wrong, pool), Contains("client 1 holds example 0, which client 0 holds already"),
                         ConfigError);
    wrong.clients[1].train = {8};
    CHECK_THROWS_WITH_AS(encode_split(wrong, pool), Contains("but the pool has 8"), ConfigError);
}

TEST_CASE("shared test examples are declared, and then allowed") {
    Split shared = small;
    shared.clients[1].test = {6};
    const auto text = encode_split(shared, pool);
    CHECK(text.find("tests shared") != std::string::npos);
    CHECK(same(decode_split(text, "x", pool), shared));
    refused("test 7", "test 6", "client 1 holds example 6, which client 0 holds already");
}

TEST_CASE("a file that breaks the rules of a split is refused in a sentence") {
    refused("train 0 5", "train 0 8", "line 9: index 8 is not in the pool of 8");
    refused("train 0 5", "train 0 99999999999999999999", "line 9: an index is not a number of at most 64 bits");
    refused("train 0 5", "train 0 0", "client 0 holds example 0 twice");
    refused("test 6", "test 5", "client 0 holds example 5 twice");
    refused("validation 1", "validation 0", "client 0 holds example 0 twice");
    refused("train 2", "train 5", "client 1 holds example 5, which client 0 holds already");
    refused("train 3", "train 2", "unseen client 0 holds example 2, which client 1 holds already");
    refused("server 4", "server 3", "the server holds example 3, which unseen client 0 holds already");
    refused("client 1 key", "client 2 key", "line 12: 'client 1 key ' is expected here");
    refused("clients 2", "clients 3", "line 16: 'client 2 key ' is expected here");
    refused("clients 2", "clients 1", "line 12: 'unseen 0 key ' is expected here");
    refused("clients 2", "clients 18446744073709551615", "'client 2 key ' is expected here");
    refused("unseen 1", "unseen 0", "line 16: the split should end here");
}

TEST_CASE("a file that breaks the rules of the format is refused in a sentence") {
    refused("tessera-split", "other-split", "is not a tessera split file");
    refused("split 1", "split 3", "is a split file of version 3, but only versions up to 2 are read");
    refused("split 1\n", "split 2\nnote partition\n", "line 2: ' ' is expected here");
    refused("split 1", "split x", "line 1: the version is not a number");
    refused("examples 8", "examples 9", "is a split of 9 examples, but the pool has 8");
    refused("labels ", "labels 0", "a pool with other labels");
    refused("tests disjoint", "tests maybe", "line 4: 'disjoint' is expected here");
    refused("train 0 5", "train 00 5", "line 9: an index starts with a zero");
    refused("train 0 5", "train 0  5", "line 9: an index is not a number");
    refused("train 0 5", "train 0 -5", "line 9: an index is not a number");
    refused("train 0 5", "train 0 5 ", "line 9: an index is not a number");
    refused("train 0 5", "train 0 5\r", "line 9: the line should end here");
    refused("abc", "ABC", "line 8: the key is not 16 hexadecimal digits");
    refused("0abc", "abc", "line 8: the key is not 16 hexadecimal digits");
}

TEST_CASE("every truncation, every bit flip and every trailing byte is refused") {
    const std::string good = sealed(body());
    for (std::size_t n = 0; n < good.size(); ++n)
        CHECK_THROWS_AS(decode_split(std::string_view(good).substr(0, n), "x", pool), IoError);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
        std::string bad = good;
        bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
        CHECK_THROWS_AS(decode_split(bad, "x", pool), IoError);
    }
    CHECK_THROWS_AS(decode_split(good + "\n", "x", pool), IoError);
}

}  // namespace split_file_test
