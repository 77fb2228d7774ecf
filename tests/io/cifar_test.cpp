// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/cifar.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/random.hpp>

#include <support/folder.hpp>

namespace cifar_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using namespace tessera::support;
using doctest::Contains;
using Bytes8 = std::vector<std::uint8_t>;

Bytes8 record(const Bytes8& labels, std::uint64_t seed) {
    Stream draw{Key{seed}};
    Bytes8 bytes = labels;
    for (std::size_t i = 0; i < cifar_pixels; ++i) bytes.push_back(static_cast<std::uint8_t>(draw.below(256)));
    return bytes;
}

Bytes8 joined(const std::vector<Bytes8>& parts) {
    Bytes8 all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}

CifarRecords decoded(const Bytes8& bytes, Cifar kind) {
    CifarRecords records;
    decode_cifar(std::as_bytes(std::span(bytes)), kind, "some.bin", records);
    return records;
}

void refused(const Bytes8& bytes, Cifar kind, const char* what) {
    CifarRecords records{{1, 2}, {3}};
    CHECK_THROWS_WITH_AS(decode_cifar(std::as_bytes(std::span(bytes)), kind, "some.bin", records), Contains(what),
                         IoError);
    CHECK(records == CifarRecords{{1, 2}, {3}});  // nothing half-read
}

}  // namespace

TEST_CASE("CIFAR records: labels and pixels as they lie") {
    const auto ten = decoded(joined({record({7}, 1), record({0}, 2)}), Cifar::ten);
    CHECK(ten.labels == std::vector<std::int32_t>{7, 0});
    auto pixels = record({}, 1);
    const auto second = record({}, 2);
    pixels.insert(pixels.end(), second.begin(), second.end());
    CHECK(ten.pixels == pixels);

    const auto hundred = joined({record({19, 99}, 1), record({3, 42}, 2)});
    CHECK(decoded(hundred, Cifar::hundred_fine).labels == std::vector<std::int32_t>{99, 42});
    CHECK(decoded(hundred, Cifar::hundred_coarse).labels == std::vector<std::int32_t>{19, 3});
    CHECK(decoded(hundred, Cifar::hundred_fine).pixels == pixels);
}

TEST_CASE("CIFAR files that are not whole records, or have no such class, are refused") {
    auto one = record({7}, 1);
    refused({}, Cifar::ten, "has 0 bytes");
    refused(Bytes8(one.begin(), one.end() - 1), Cifar::ten,
            "has 3072 bytes, which is not a whole number of records of 3073");
    refused(joined({one, {0}}), Cifar::ten, "has 3074 bytes");
    refused(one, Cifar::hundred_fine, "records of 3074");
    refused(joined({one, record({10}, 2)}), Cifar::ten,
            "record 1 has the label 10 at offset 3073, not one of 10 classes");
    refused(record({20, 5}, 1), Cifar::hundred_fine, "the label 20 at offset 0, not one of 20");
    refused(record({19, 100}, 1), Cifar::hundred_coarse, "the label 100 at offset 1, not one of 100");
    // A CIFAR-100 file of 3073 records has as many bytes as one of CIFAR-10 of 3074: labels tell them apart.
    Bytes8 long_file;
    for (std::size_t i = 0; i < 3073; ++i)
        long_file.insert(long_file.end(), one.begin(), one.end()), long_file.push_back(200);
    refused(long_file, Cifar::ten, "not one of 10 classes");
}

TEST_CASE("CIFAR by its published names: training files, then the test file") {
    const Folder folder;
    for (const char* number : {"1", "2", "3", "4", "5"}) {
        const auto bytes = joined({record({static_cast<std::uint8_t>(*number - '1')}, 1), record({9}, 2)});
        folder.write(std::string("data_batch_") + number + ".bin", std::as_bytes(std::span(bytes)));
    }
    CHECK_THROWS_WITH_AS(read_cifar(Cifar::ten, folder.path()), Contains("test_batch.bin"), IoError);
    const auto test = record({4}, 3);
    folder.write("test_batch.bin", std::as_bytes(std::span(test)));
    const auto pool = read_cifar(Cifar::ten, folder.path());
    CHECK(pool.train_size == 10);
    CHECK(pool.examples.size() == 11);
    CHECK(pool.examples.examples().width == 3072);
    CHECK(pool.examples.examples().classes == 10);
    CHECK(pool.examples.examples().storage == Storage::bytes);
    CHECK(pool.examples.label(6) == 3);
    CHECK(pool.examples.label(10) == 4);
    CHECK(pool.clients.empty());
    CHECK_THROWS_WITH_AS(pool.federated(), Contains("name no clients"), ConfigError);

    CHECK_THROWS_WITH_AS(read_cifar(Cifar::hundred_fine, folder.path()), Contains("train.bin"), IoError);
    const auto fine = record({1, 77}, 4);
    folder.write("train.bin", std::as_bytes(std::span(fine)));
    folder.write("test.bin", std::as_bytes(std::span(fine)));
    CHECK(read_cifar(Cifar::hundred_fine, folder.path()).examples.label(1) == 77);
    CHECK(read_cifar(Cifar::hundred_coarse, folder.path()).examples.examples().classes == 20);
    CHECK_THROWS_AS(read_cifar(Cifar::ten, std::vector<std::string>{}, std::vector<std::string>{}), ConfigError);
}

}  // namespace cifar_test
