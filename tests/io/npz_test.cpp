// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/npz.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <doctest/doctest.h>

namespace npz_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using doctest::Contains;

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

NamedTensor small(const std::string& name) {
    const std::vector<std::uint8_t> numbers{1, 2, 3};
    return NamedTensor::from<std::uint8_t>(name, {3}, numbers);
}

// An archive put together by hand, so that a test can lie in any field.
struct Archive {
    struct Member {
        std::string name = "w.npy", local_name = name;
        std::string body = {};
        std::uint16_t flags = 0, method = 0;
        std::uint32_t crc = 0, packed = 0, size = 0;
        std::string local_extra = {}, central_extra = {}, central_comment = {};
        std::int64_t shift = 0;  // added to where the directory says the member starts
        std::string gap = {};    // bytes behind the body
        bool zip64_local = false;
    };
    std::vector<Member> members;
    std::string prefix = {}, before_directory = {}, behind_directory = {}, comment = {};

    static Member member(const std::string& name) {
        const auto npy = encode_npy(small("w"));
        Member m{.name = name, .local_name = name, .body = {reinterpret_cast<const char*>(npy.data()), npy.size()}};
        m.crc = crc32(npy);
        m.packed = m.size = static_cast<std::uint32_t>(npy.size());
        return m;
    }

    static void put(std::string& out, std::uint64_t value, std::size_t size) {
        for (std::size_t i = 0; i < size; ++i) out += static_cast<char>(value >> 8 * i);
    }
    static void put_shared(std::string& out, const Member& m, bool local, std::size_t extra) {
        const bool full = local && m.zip64_local;
        for (const std::uint16_t field : {std::uint16_t{20}, m.flags, m.method, std::uint16_t{0}, std::uint16_t{0x21}})
            put(out, field, 2);
        put(out, m.crc, 4);
        put(out, full ? 0xFFFFFFFF : m.packed, 4);
        put(out, full ? 0xFFFFFFFF : m.size, 4);
        put(out, (local ? m.local_name : m.name).size(), 2);
        put(out, extra, 2);
    }

    std::string text() const {
        std::string out = prefix;
        std::vector<std::size_t> begins;
        for (const auto& m : members) {
            begins.push_back(out.size());
            put(out, 0x04034B50, 4);
            put_shared(out, m, true, m.local_extra.size());
            out += m.local_name + m.local_extra + m.body + m.gap;
        }
        out += before_directory;
        const std::size_t directory = out.size();
        for (std::size_t i = 0; i < members.size(); ++i) {
            const auto& m = members[i];
            put(out, 0x02014B50, 4);
            put(out, 20, 2);
            put_shared(out, m, false, m.central_extra.size());
            put(out, m.central_comment.size(), 2);
            put(out, 0, 8);
            put(out, static_cast<std::uint64_t>(static_cast<std::int64_t>(begins[i]) + m.shift), 4);
            out += m.name + m.central_extra + m.central_comment;
        }
        const std::size_t size = out.size() - directory;
        out += behind_directory;
        put(out, 0x06054B50, 4);
        put(out, 0, 4);
        put(out, members.size(), 2);
        put(out, members.size(), 2);
        put(out, size, 4);
        put(out, directory, 4);
        put(out, comment.size(), 2);
        return out + comment;
    }
};

std::vector<NamedTensor> decoded(const std::string& file) { return decode_npz(bytes_of(file), "a.npz"); }

void refused(const Archive& archive, const char* sentence) {
    CAPTURE(sentence);
    CHECK_THROWS_WITH_AS(decoded(archive.text()), Contains(sentence), IoError);
}

// numpy.savez's local extra field: sizes of 8 bytes each, unpacked first.
std::string zip64_extra(std::uint64_t size, std::uint64_t packed) {
    std::string extra;
    Archive::put(extra, 1, 2);
    Archive::put(extra, 16, 2);
    Archive::put(extra, size, 8);
    Archive::put(extra, packed, 8);
    return extra;
}

}  // namespace

TEST_CASE("npz: a hand-made archive is read, and is what we write") {
    const Archive archive{.members = {Archive::member("w.npy"), Archive::member("layer/0/bias:0.npy")}};
    const auto tensors = decoded(archive.text());
    REQUIRE(tensors.size() == 2);
    CHECK(tensors[0] == small("w"));
    CHECK(tensors[1] == small("layer/0/bias:0"));
    CHECK(encode_npz(tensors) == bytes_of(archive.text()));
}

TEST_CASE("npz: round trips") {
    const std::vector<double> numbers{1, 2, 3, 4, 5, 6};
    const std::vector<NamedTensor> many{small("b"), NamedTensor::from<double>("a", {2, 3}, numbers),
                                        NamedTensor::from<float>("größe", {0}, {}), small("x.npy")};
    CHECK(decode_npz(encode_npz(many), "a.npz") == many);
    CHECK(decode_npz(encode_npz({}), "a.npz").empty());
    CHECK(encode_npz({}).size() == 22);
}

TEST_CASE("npz: numpy's habit of marking local headers as zip64 is read, if the sizes agree") {
    Archive archive{.members = {Archive::member("w.npy")}};
    auto& m = archive.members[0];
    m.zip64_local = true;
    m.local_extra = zip64_extra(m.size, m.packed);
    CHECK(decoded(archive.text()).at(0) == small("w"));
    m.local_extra = std::string("\x75\x70\x01\x00!", 5) + m.local_extra;  // another field before it
    CHECK(decoded(archive.text()).at(0) == small("w"));
    m.local_extra = zip64_extra(m.size + 1, m.packed);
    refused(archive, "described differently");
    m.local_extra = zip64_extra(m.size, m.packed).substr(0, 12);
    refused(archive, "described differently");
    m.local_extra = "";
    refused(archive, "described differently");
}

TEST_CASE("npz: extra fields and comments of entries are skipped") {
    Archive archive{.members = {Archive::member("w.npy")}};
    archive.members[0].central_extra = "any thing";
    archive.members[0].central_comment = "a comment";
    archive.members[0].local_extra = "xx";
    CHECK(decoded(archive.text()).at(0) == small("w"));
}

TEST_CASE("npz: refused names") {
    for (const char* name : {"../w.npy", "/w.npy", "a/../../w.npy", "a//w.npy", "./w.npy", "a\\w.npy", "a/..", "..",
                             "", "a\nb.npy", "\xFF\xFE.npy", "a/"})
        refused({.members = {Archive::member(name)}}, "leaves the archive");
    for (const char* name : {"w.txt", "w", ".npy"}) refused({.members = {Archive::member(name)}}, "not an .npy file");
    refused({.members = {Archive::member("w.npy"), Archive::member("w.npy")}}, "two members named 'w.npy'");
    for (const char* name : {"", "..//x", "/abs", "a\\b", "bell\a", "\xC0\x80"})
        CHECK_THROWS_WITH_AS(encode_npz(std::vector{small(name)}), Contains("cannot be the name"), IoError);
    CHECK_THROWS_WITH_AS(encode_npz(std::vector{small("w"), small("w")}), Contains("names two tensors"), IoError);
}

TEST_CASE("npz: a directory that lies") {
    const auto lying = [](auto change, const char* sentence) {
        Archive archive{.members = {Archive::member("v.npy"), Archive::member("w.npy")}};
        change(archive, archive.members[1]);
        refused(archive, sentence);
    };
    lying([](auto&, auto& m) { m.local_name = "x.npy"; }, "described differently");
    lying([](auto&, auto& m) { m.crc ^= 1; }, "CRC does not hold");
    lying([](auto&, auto& m) { m.body[130] = 9; }, "CRC does not hold");
    lying([](auto&, auto& m) { m.size += 1; }, "announces two sizes");
    lying([](auto&, auto& m) { m.size = m.packed += 1; }, "runs into the zip directory");
    lying([](auto&, auto& m) { m.size = m.packed -= 1; }, "between its last member and its zip directory");
    lying([](auto&, auto& m) { m.size = m.packed = 0x7FFFFFFF; }, "runs into the zip directory");
    lying([](auto&, auto& m) { m.shift = 1; }, "overlaps another or leaves a gap");
    lying([](auto&, auto& m) { m.shift = 1 << 30; }, "overlaps another or leaves a gap");
    // Both entries at the first member, as in a zip bomb of overlapping files.
    lying([](auto&, auto& m) { m.shift = -(30 + 5 + static_cast<std::int64_t>(m.size)); }, "overlaps another");
    lying([](auto& a, auto&) { a.members[0].gap = "hidden"; }, "leaves a gap");
    lying([](auto& a, auto&) { a.prefix = "MZ"; }, "leaves a gap");
    lying([](auto& a, auto&) { a.before_directory = "hidden"; }, "between its last member and its zip directory");
    lying([](auto& a, auto&) { a.behind_directory = "hidden"; }, "directory that does not reach");
    lying([](auto& a, auto&) { a.comment = "note"; }, "does not end with a zip end record");
    lying([](auto& a, auto&) { a.comment = std::string(22, '\0'); }, "does not end with a zip end record");
}

TEST_CASE("npz: kinds of zip that are not read") {
    const auto odd = [](auto change, const char* sentence) {
        Archive archive{.members = {Archive::member("w.npy")}};
        change(archive.members[0]);
        refused(archive, sentence);
    };
    odd([](auto& m) { m.flags = 1; }, "encrypted, streamed");
    odd([](auto& m) { m.flags = 8; }, "encrypted, streamed");
    odd([](auto& m) { m.method = 14; }, "method 14");
    odd([](auto& m) { m.size = m.packed = 0xFFFFFFFF; }, "zip64");
    odd([](auto& m) { m.shift = 0xFFFFFFFF; }, "zip64");
    refused({.members = {Archive::member("w.npy")}, .behind_directory = "PK\x06\x07" + std::string(16, '\0')}, "zip64");

    std::string file = Archive{.members = {Archive::member("w.npy")}}.text();
    std::memset(file.data() + file.size() - 14, 0xFF, 4);  // both counts
    CHECK_THROWS_WITH_AS(decoded(file), Contains("zip64"), IoError);
    file = Archive{.members = {Archive::member("w.npy")}}.text();
    file[file.size() - 18] = 1;
    CHECK_THROWS_WITH_AS(decoded(file), Contains("several disks"), IoError);
    file = Archive{.members = {Archive::member("w.npy")}}.text();
    file[file.size() - 14] = file[file.size() - 12] = 2;
    CHECK_THROWS_WITH_AS(decoded(file), Contains("no zip directory entry"), IoError);
    file[file.size() - 14] = file[file.size() - 12] = 0;
    CHECK_THROWS_WITH_AS(decoded(file), Contains("behind the last entry"), IoError);
    CHECK_THROWS_WITH_AS(decoded(""), Contains("not an npz file"), IoError);
}

TEST_CASE("npz: what is wrong inside a member is told with the member") {
    Archive archive{.members = {Archive::member("w.npy")}};
    auto& m = archive.members[0];
    m.body = "not an array";
    m.size = m.packed = 12;
    m.crc = crc32(bytes_of(m.body));
    refused(archive, "a.npz(w.npy): is not an npy file");
}

TEST_CASE("npz: compressed members") {
    Archive archive{.members = {Archive::member("w.npy")}};
    auto& m = archive.members[0];
    m.method = 8;
#ifdef TESSERA_HAS_ZLIB
    // A final block of deflate that is stored: 0x01, length, its complement, bytes.
    const auto deflated = [](const std::string& body) {
        std::string out("\x01", 1);
        Archive::put(out, body.size(), 2);
        Archive::put(out, ~body.size(), 2);
        return out + body;
    };
    const std::string npy = m.body;
    m.body = deflated(npy);
    m.packed = static_cast<std::uint32_t>(m.body.size());
    CHECK(decoded(archive.text()).at(0) == small("w"));

    const auto lying = [&](auto change, const char* sentence) {
        Archive changed = archive;
        change(changed.members[0]);
        refused(changed, sentence);
    };
    lying([](auto& x) { x.size += 1; }, "does not inflate");
    lying([](auto& x) { x.size -= 1; }, "does not inflate");
    lying([](auto& x) { x.body += '!', x.packed += 1; }, "does not inflate");
    lying([](auto& x) { x.body.pop_back(), x.packed -= 1; }, "does not inflate");
    lying([](auto& x) { x.body[0] = 7; }, "does not inflate");
    lying([](auto& x) { x.body.back() ^= 1; }, "CRC does not hold");
    lying([](auto& x) { x.size = 0x70000000; }, "announces more bytes than it can hold");
#else
    refused(archive, "compressed npz needs the zlib component");
#endif
    CHECK_THROWS_WITH_AS(decode_npz(encode_npz(std::vector{small("w")}), "a.npz", 100), Contains("100 bytes allowed"),
                         IoError);
}

TEST_CASE("npz: every truncation and every flipped byte is a valid archive or an IoError") {
    const auto file = encode_npz(std::vector{small("v"), small("w")});
    for (std::size_t size = 0; size < file.size(); ++size)
        REQUIRE_THROWS_AS(decode_npz(std::span(file).first(size), "a.npz"), IoError);
    for (std::size_t at = 0; at < file.size(); ++at)
        for (unsigned mask = 1; mask < 256; ++mask) {
            auto flipped = file;
            flipped[at] ^= static_cast<std::byte>(mask);
            try {
                const auto tensors = decode_npz(flipped, "a.npz");
                REQUIRE(tensors == std::vector{small("v"), small("w")});
            } catch (const IoError& error) {
                REQUIRE(error.path.starts_with("a.npz"));
            }
        }
}

TEST_CASE("npz: files") {
    const std::string path = "/tmp/tessera_npz_" + std::to_string(::getpid()) + ".npz";
    const std::vector<NamedTensor> tensors{small("v"), small("w")};
    write_npz(path, tensors);
    CHECK(read_npz(path) == tensors);
    remove_file(path);
    CHECK_THROWS_WITH_AS(read_npz(path), Contains(path.c_str()), IoError);
}

}  // namespace npz_test
