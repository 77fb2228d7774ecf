// SPDX-License-Identifier: BSD-3-Clause
// Reads a whole log (store/log.hpp) and says what is in it, without knowing the method: every checksum is tried. A run
// that writes to it meanwhile is not disturbed; what it has begun and not ended counts as torn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/io/file.hpp>
#include <tessera/store/detail/log_format.hpp>

namespace tessera::store {

struct LogContents {
    std::size_t files = 0, clients = 0, states = 0;  // states: written and once up to date
    std::uint64_t rounds = 0;                        // one more than the number of the last that is whole
    std::uint64_t bytes = 0;                         // of all files
    std::uint64_t alive = 0, garbage = 0;            // bytes of states that are up to date; of those that are not
    std::uint64_t torn = 0;                          // bytes behind the last whole round
    Fingerprint print{};                             // the sum over the clients
    std::vector<std::string> faults{};               // a sentence each; empty: all is well
};

namespace detail {

class LogReader {
public:
    explicit LogReader(LogContents& found) : found_(&found) {}

    void read(const std::string& directory, std::uint32_t number, bool last) {
        const File file(directory + "/" + name_of(number), O_RDONLY);
        const std::uint64_t size = file.size();
        ++found_->files;
        found_->bytes += size;
        std::uint64_t at = sizeof(FileHead), whole = at;  // `whole`: where the last table ends
        try {
            FileHead head;
            file.read(0, &head, sizeof head);
            if (head != FileHead{.number = number}) throw WireError("the file is not what its name says");
            for (bool sealed = false; at < size;) {
                if (sealed) throw WireError("bytes follow the end of the file's index");
                Block kind{};
                file.read(at, &kind, sizeof kind);
                if (kind == Block::record) {
                    at += record(file, at, size);
                } else {
                    TableHead table;
                    file.read(at, &table, sizeof table);
                    if (table.kind != Block::footer && table.kind != Block::seal)
                        throw WireError("at byte " + std::to_string(at) +
                                        " there is neither a state nor the end of a round");
                    if (table_size(table.rows) > size - at) throw WireError("the file ends within the end of a round");
                    const auto rows = read_table(file, at + table_size(table.rows), table.kind);
                    at += table_size(table.rows);
                    whole = at;
                    sealed = table.kind == Block::seal;
                    commit(number, rows, sealed);
                }
            }
        } catch (const WireError& e) {
            if (!last) found_->faults.push_back(file.path() + ": " + e.what());
        }
        if (last) found_->torn = size - std::min(size, whole);
        else if (whole < size) found_->torn += size - whole;
        in_file_.clear();
    }
    void finish() {
        found_->clients = index_.size();
        for (const auto& [client, at] : index_) {
            found_->alive += record_size(at.row.length);
            found_->print += at.row.print;
            if (damaged_.contains({at.number, at.row.place}))
                found_->faults.push_back("the state of client " + std::to_string(client) + " in " + name_of(at.number) +
                                         " does not match its checksum");
        }
        found_->garbage = written_ - found_->alive;
    }

private:
    struct Last {
        std::uint32_t number;
        Row row;
    };

    std::uint64_t record(const File& file, std::uint64_t at, std::uint64_t size) {
        RecordHead head;
        file.read(at, &head, sizeof head);
        if (record_size(head.length) > size - at) throw WireError("the file ends within a state");
        try {
            read_record(file, at, head.client, head.length, static_cast<std::uint32_t>(head.check), room_);
        } catch (const WireError&) {
            in_file_.insert(static_cast<std::uint32_t>(at / step));
        }
        return record_size(head.length);
    }
    // A round's states count from its end on; those of a file that was full before it are named by the seal.
    void commit(std::uint32_t number, const Table& table, bool sealed) {
        for (const auto& row : table.rows) {
            if (in_file_.contains(row.place)) damaged_.insert({number, row.place});
            auto [at, added] = index_.try_emplace(row.client, Last{number, row});
            if (!added && at->second.number == number && at->second.row.place == row.place) continue;
            if (sealed && at->second.number == number && at->second.row.place > row.place) continue;
            at->second = {number, row};
            written_ += record_size(row.length);
            ++found_->states;
        }
        if (!sealed) found_->rounds = table.tail.round + 1;
    }

    LogContents* found_;
    Bytes room_{};
    std::uint64_t written_ = 0;
    std::set<std::uint32_t> in_file_{};  // places of states whose checksum is wrong
    std::set<std::pair<std::uint32_t, std::uint32_t>> damaged_{};
    std::map<Id, Last> index_{};  // in order, so that faults are told in order
};

}  // namespace detail

// IoError if there is no log, or it cannot be read at all.
inline LogContents read_log(const std::string& directory) {
    std::vector<std::uint32_t> numbers;
    for (const auto& name : io::list_files(directory))
        if (const auto number = detail::number_in(name)) numbers.push_back(number);
    if (numbers.empty()) throw IoError(directory, "holds no log of clients' states");
    LogContents found;
    detail::LogReader reader(found);
    for (const auto number : numbers) reader.read(directory, number, number == numbers.back());
    reader.finish();
    return found;
}

}  // namespace tessera::store
