// SPDX-License-Identifier: BSD-3-Clause
// The files of store::Log, and how they are read by somebody who trusts nothing.
//
//   states-00000001.log   head | record ... record | footer | record ... | footer | ... | seal
//
// A record is a client's state. A footer ends a round: which of the records since the footer before it count. Offsets
// are in steps of 8 bytes. A file that is full gets a seal, which names all its records that counted once, so that the
// index is found without reading states. Footers are read from their end backwards, from a place that somebody knows.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tessera/core/arena.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/io/file.hpp>

namespace tessera::store::detail {

using io::detail::Descriptor;

enum class Block : std::uint32_t { record = 0x44524F43, footer = 0x544F4F46, seal = 0x4C414553 };

struct FileHead {
    std::array<char, 8> magic{'T', 'S', 'R', 'A', 'L', 'O', 'G', '1'};
    std::uint64_t number = 0;  // of the file, from 1
    friend bool operator==(const FileHead&, const FileHead&) = default;
};
struct RecordHead {
    Block kind = Block::record;
    Id client = 0;
    std::uint32_t length = 0, zero = 0;
    Fingerprint print{};      // of the state
    std::uint64_t check = 0;  // of all this and the bytes that follow
};
struct Row {
    Id client = 0;
    std::uint32_t place = 0;  // of the record's head
    std::uint32_t length = 0;
    std::uint32_t check = 0;  // the lower half of the record's
    Fingerprint print{};
};
struct TableHead {
    Block kind = Block::footer;
    std::uint32_t rows = 0;
    std::uint64_t round = 0;
};
struct TableTail {
    Block kind = Block::footer;
    std::uint32_t rows = 0;
    std::uint64_t round = 0;
    std::uint64_t visited = 0;   // clients that have a state after this round
    Fingerprint print{};         // the sum over them
    std::uint32_t previous = 0;  // where the footer before this one ends; 0: it is the first of the file
    std::uint32_t zero = 0;
    std::uint64_t check = 0;  // of head, rows and all this
};
static_assert(sizeof(FileHead) == 16 && sizeof(RecordHead) == 40 && sizeof(Row) == 32 && sizeof(TableHead) == 16 &&
              sizeof(TableTail) == 56);

inline constexpr std::uint64_t step = 8;
inline constexpr std::uint64_t largest_file = step << 32, largest_state = std::uint64_t{1} << 31;

constexpr std::uint64_t record_size(std::uint64_t length) {
    return sizeof(RecordHead) + (length + step - 1) / step * step;
}
constexpr std::uint64_t table_size(std::uint64_t rows) {
    return sizeof(TableHead) + rows * sizeof(Row) + sizeof(TableTail);
}

template <class T>
std::span<const std::byte> raw(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return std::as_bytes(std::span(&value, 1));
}

inline std::uint64_t check_of(const RecordHead& head, std::span<const std::byte> state) {
    Hasher h;
    h.word(head.client);
    h.word(head.length);
    h.add(head.print);
    h.add(bulk_fingerprint(state));
    return h.finish().low;
}
inline std::uint64_t check_of(const TableHead& head, std::span<const Row> rows, const TableTail& tail) {
    Hasher h;
    h.bytes(&head, sizeof head);
    h.add(bulk_fingerprint(std::as_bytes(rows)));
    h.bytes(&tail, offsetof(TableTail, check));
    return h.finish().low;
}

inline constexpr std::string_view name_begins = "states-", name_ends = ".log";

inline std::string name_of(std::uint32_t number) {
    char digits[16];
    std::snprintf(digits, sizeof digits, "%08u", number);
    return std::string(name_begins) + digits + std::string(name_ends);
}
// 0 if it is not the name of such a file.
inline std::uint32_t number_in(std::string_view name) {
    if (!name.starts_with(name_begins) || !name.ends_with(name_ends)) return 0;
    const auto digits = name.substr(name_begins.size(), name.size() - name_begins.size() - name_ends.size());
    std::uint64_t number = 0;
    for (const char c : digits) {
        if (c < '0' || c > '9' || number > 0xFFFFFFF) return 0;
        number = 10 * number + static_cast<std::uint64_t>(c - '0');
    }
    return name == name_of(static_cast<std::uint32_t>(number)) ? static_cast<std::uint32_t>(number) : 0;
}

// Bytes of a file by their place. IoError with the file's path.
class File {
public:
    File() = default;
    File(std::string path, int flags) : path_(std::move(path)) {
        file_ = Descriptor(io::detail::uninterrupted([&] { return ::open(path_.c_str(), flags | O_CLOEXEC, 0666); }));
        if (!file_) io::detail::fail(path_, "cannot be opened");
    }

    const std::string& path() const { return path_; }
    int descriptor() const { return file_.get(); }
    std::uint64_t size() const {
        struct ::stat seen {};
        if (::fstat(file_.get(), &seen) != 0) io::detail::fail(path_, "cannot be looked up");
        return static_cast<std::uint64_t>(seen.st_size);
    }
    // WireError if the file ends before.
    void read(std::uint64_t offset, void* to, std::size_t size) const {
        auto* at = static_cast<std::byte*>(to);
        while (size > 0) {
            const auto got =
                io::detail::uninterrupted([&] { return ::pread(file_.get(), at, size, static_cast<::off_t>(offset)); });
            if (got < 0) io::detail::fail(path_, "cannot be read");
            if (got == 0) throw WireError("the log ends too early");
            at += got;
            offset += static_cast<std::uint64_t>(got);
            size -= static_cast<std::size_t>(got);
        }
    }
    void write(std::uint64_t offset, std::span<const std::byte> bytes) const {
        while (!bytes.empty()) {
            const auto put = io::detail::uninterrupted(
                [&] { return ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<::off_t>(offset)); });
            if (put < 0) io::detail::fail(path_, "cannot be written");
            if (put == 0) io::detail::fail(path_, "cannot be written", ENOSPC);
            offset += static_cast<std::uint64_t>(put);
            bytes = bytes.subspan(static_cast<std::size_t>(put));
        }
    }
    void sync() const {
        if (io::detail::uninterrupted([&] { return ::fdatasync(file_.get()); }) != 0)
            io::detail::fail(path_, "cannot be synced");
    }
    // Lets the disk begin, so that a sync waits for less: it need not hear of it.
    void begin_sync([[maybe_unused]] std::uint64_t from, [[maybe_unused]] std::uint64_t to) const {
#ifdef __linux__
        ::sync_file_range(file_.get(), static_cast<::off64_t>(from), static_cast<::off64_t>(to - from),
                          SYNC_FILE_RANGE_WRITE);
#endif
    }
    bool cut(std::uint64_t size) const { return ::ftruncate(file_.get(), static_cast<::off_t>(size)) == 0; }

private:
    std::string path_;
    Descriptor file_;
};

// The record at a place, head and state, in `room`. WireError if it is not that of the row.
inline std::span<const std::byte> read_record(const File& file, std::uint64_t offset, Id client, std::uint32_t length,
                                              std::uint32_t check, Bytes& room) {
    room.resize(sizeof(RecordHead) + length);
    file.read(offset, room.data(), room.size());
    RecordHead head;
    std::memcpy(&head, room.data(), sizeof head);
    const auto state = std::span<const std::byte>(room).subspan(sizeof head);
    if (head.kind != Block::record || head.client != client || head.length != length ||
        static_cast<std::uint32_t>(head.check) != check || head.check != check_of(head, state))
        throw WireError("the state of client " + std::to_string(client) + " is damaged: its checksum does not match");
    return state;
}

struct Table {
    TableTail tail{};
    Vec<Row> rows{};
    std::uint64_t begins = 0;
};
// The table that ends at `end`. WireError if there is none, or its rows cannot be records of this file.
inline Table read_table(const File& file, std::uint64_t end, Block kind) {
    const auto refuse = [&]() -> WireError {
        return WireError(kind == Block::seal ? "the log is damaged: the index of a file does not match its checksum"
                                             : "the log is torn: the end of a round does not match its checksum");
    };
    Table table;
    if (end < sizeof(FileHead) + table_size(0)) throw refuse();
    file.read(end - sizeof(TableTail), &table.tail, sizeof(TableTail));
    if (table.tail.kind != kind || end - sizeof(FileHead) < table_size(table.tail.rows)) throw refuse();
    table.begins = end - table_size(table.tail.rows);
    TableHead head;
    file.read(table.begins, &head, sizeof head);
    table.rows.resize(table.tail.rows);
    file.read(table.begins + sizeof head, table.rows.data(), table.rows.size() * sizeof(Row));
    if (head.kind != kind || table.tail.check != check_of(head, table.rows, table.tail)) throw refuse();
    for (const auto& row : table.rows)
        if (row.place * step < sizeof(FileHead) || row.length > largest_state ||
            row.place * step + record_size(row.length) > table.begins)
            throw WireError("the log is damaged: a state lies outside its file");
    if (table.tail.previous * step > table.begins) throw refuse();
    return table;
}

}  // namespace tessera::store::detail
