// SPDX-License-Identifier: BSD-3-Clause
// What store::Log opens: the files, the index, compaction, and what a checkpoint holds of them.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <tessera/contracts/store.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/io/file.hpp>
#include <tessera/store/detail/log_format.hpp>
#include <tessera/store/detail/log_parts.hpp>

namespace tessera::store::detail {

class LogStore final : public Store {
public:
    LogStore(const std::string& run, const StorePart& part, bool anew, std::uint64_t least, std::size_t clients)
        : run_(run),
          directory_(path_of_part(run, part)),
          part_(part),
          anew_(anew || part.began > 0),  // no checkpoint knows what an attempt to move there left
          least_(least),
          lock_(hold(directory_)),
          index_(clients) {}
    // What a checkpoint says of a log that is not this process's own: only to be read.
    LogStore(const std::string& run, const StorePart& part, std::size_t clients, Reader& written)
        : run_(run), directory_(path_of_part(run, part)), part_(part), index_(clients) {
        adopt(load(written));
    }

    bool visited(Id client) const override { return index_[client].number != 0; }
    std::span<const std::byte> read(Id client, Bytes& room) const override {
        const Entry& at = index_[client];
        const File& file = file_of(at.number);
        try {
            return read_record(file, at.place * step, client, at.length, at.check, room);
        } catch (const WireError& e) {
            throw IoError(file.path(), e.what());
        }
    }
    Staged stage(Id client, std::span<const std::byte> state, Fingerprint print) override {
        if (state.size() > largest_state)
            throw IoError(directory_, "the state of client " + std::to_string(client) +
                                          " is too large for a log: " + std::to_string(state.size()) + " bytes");
        RecordHead head{.client = client, .length = static_cast<std::uint32_t>(state.size()), .print = print};
        head.check = check_of(head, state);
        const Scratch<std::byte> record(record_size(state.size()));
        std::memcpy(record.data(), &head, sizeof head);
        if (!state.empty()) std::memcpy(record.data() + sizeof head, state.data(), state.size());
        std::fill(record.begin() + sizeof head + state.size(), record.end(), std::byte{});
        const auto [file, number, offset] = reserve(record.size());
        file->write(offset, std::span(record.data(), record.size()));
        return {.where = std::uint64_t{number} << 32 | offset / step,
                .check = head.check,
                .print = print,
                .client = client,
                .length = head.length};
    }

    void begin() override {
        if (begun_) return;
        const auto found = log_files(directory_);
        const bool for_all = part_.began == 0 && part_.rank == 0;
        if (!anew_ && (!found.empty() || (for_all && other_logs_hold_states(run_, part_))))
            throw IoError(run_,
                          "holds the states of an earlier run; resume it from its checkpoint, or begin anew "
                          "in an empty directory");
        for (const auto& file : found) io::remove_file(file);
        if (for_all) let_go_of_logs(run_, std::span(&part_, 1));
        begun_ = true;
    }
    void commit(std::uint64_t round, std::span<const Staged> counted) override {
        next_ = {round, sum_, visited_, 0, Vec<Staged>(counted.begin(), counted.end())};
        for (const auto& s : counted) {
            if (visited(s.client)) next_.sum -= print_of(s.client);
            else ++next_.visited;
            next_.sum += s.print;
            next_.written += record_size(s.length);
        }
        close_group(round, counted, next_.sum, next_.visited);
    }
    void committed() override {
        publish(next_.counted);
        sum_ = next_.sum;
        visited_ = next_.visited;
        compact(next_.round, 2 * next_.written);
        release();
    }
    void abandon() override {
        while (!segments_.empty() && segments_.rbegin()->second.size == 0) drop(std::prev(segments_.end()));
        if (segments_.empty()) return;
        auto& last = segments_.rbegin()->second;
        last.rows.resize(last.rows_before);
        last.sealed = false;
        last.offset = last.size;
        last.file.cut(last.size);  // if it stays, the next round writes over it
    }

    // Where the log ends, the sums over it, and the full files that it still reads.
    void save(Bytes& out) override {
        sync();
        std::uint64_t full = 0;
        for (const auto& [number, s] : segments_) full += s.sealed && s.live > 0;
        put(out, static_cast<std::uint64_t>(index_.size()));
        put(out, end_);
        put(out, end_check_);
        put(out, visited_);
        put(out, sum_);
        put(out, full);
        for (const auto& [number, s] : segments_)
            if (s.sealed && s.live > 0) {
                put(out, number);
                put(out, s.size);
                put(out, s.check);
            }
        written_down_ = end_;
    }
    void saved() override {
        saved_ = {saved_[1], written_down_};
        release();
    }
    void restore(Reader& in) override { found_.emplace(load(in)); }
    // What cannot be removed or cut is in nobody's way: the next rounds write over it.
    void restored() override {
        adopt(std::move(*found_));
        found_.reset();
        begun_ = true;
        try {
            for (const auto& name : io::list_files(directory_))
                if (const auto number = number_in(name); number > 0 && !segments_.contains(number))
                    ::unlink(path_of(number).c_str());
            if (!segments_.empty() && !last().sealed) last().file.cut(last().size);
        } catch (const IoError&) {
        }
    }

    Fingerprint fingerprint() const override { return sum_; }
    std::string where() const override { return directory_; }

private:
    struct Entry {
        std::uint32_t number = 0;  // of the file; 0: never visited
        std::uint32_t place = 0, length = 0, check = 0;
    };
    static_assert(sizeof(Entry) == 16);
    struct Segment {
        File file;
        std::uint64_t size = 0, offset = 0;  // committed; and with what is staged
        std::uint64_t states = 0, live = 0;  // bytes of states that counted once; of those that are up to date
        std::vector<Row> rows{};             // what counted in it, until it is sealed
        std::size_t rows_before = 0;         // of the rounds before this one
        std::uint32_t last_footer = 0;       // where it ends
        bool sealed = false, unsynced = true, damaged = false;
        std::uint64_t check = 0;    // of the seal
        std::uint64_t emptied = 0;  // where the log ended when nothing in it was needed any more
    };
    using Segments = std::map<std::uint32_t, Segment>;
    struct Loaded {
        Segments segments{};
        std::vector<Entry> index{};
        std::uint64_t end = 0, end_check = 0, visited = 0;
        Fingerprint sum{};
    };
    struct Next {  // a round that is written and does not count yet
        std::uint64_t round = 0;
        Fingerprint sum{};
        std::uint64_t visited = 0, written = 0;
        Vec<Staged> counted{};
    };
    struct Room {
        const File* file;
        std::uint32_t number;
        std::uint64_t offset;
    };
    struct Victim {
        std::uint32_t number = 0;
        Vec<Row> rows{};
        std::size_t next = 0;
    };

    static io::DirectoryLock hold(const std::string& directory) {
        io::make_directories(directory);
        return io::DirectoryLock(directory);
    }
    std::string path_of(std::uint32_t number) const { return directory_ + "/" + name_of(number); }
    const File& file_of(std::uint32_t number) const {
        const std::lock_guard hold(lock_of_files_);
        return segments_.find(number)->second.file;
    }
    Segment& last() { return segments_.rbegin()->second; }

    // ------------------------------------------------------------------------------------------ writing

    // A sixteenth of what is alive a file: so there are never many, and moving one costs little room.
    Room reserve(std::uint64_t size) {
        const std::lock_guard hold(lock_of_files_);
        const std::uint64_t full = std::clamp(live_ / 16, least_, largest_file / 4);
        if (segments_.empty() || last().offset >= full) add_file();
        auto& segment = last();
        const std::uint64_t offset = std::exchange(segment.offset, segment.offset + size);
        return {&segment.file, segments_.rbegin()->first, offset};
    }
    void add_file() {
        const std::uint32_t number = newest_ + 1;
        Segment next{.file = File(path_of(number), O_RDWR | O_CREAT | O_TRUNC)};
        const FileHead head{.number = number};
        next.file.write(0, raw(head));
        next.offset = sizeof head;
        segments_.emplace(number, std::move(next));
        newest_ = number;
        new_names_ = true;
    }
    void close_group(std::uint64_t round, std::span<const Staged> counted, Fingerprint sum, std::uint64_t known) {
        if (segments_.empty()) reserve(0);
        for (const auto& s : counted)
            segments_.at(static_cast<std::uint32_t>(s.where >> 32))
                .rows.push_back({s.client, static_cast<std::uint32_t>(s.where), s.length,
                                 static_cast<std::uint32_t>(s.check), s.print});
        TableTail tail{.round = round, .visited = known, .print = sum};
        for (auto& [number, s] : segments_)
            if (!s.sealed && number != segments_.rbegin()->first) seal(s, tail);
        auto& s = last();
        tail.previous = s.last_footer;
        const auto rows = std::span<const Row>(s.rows).subspan(s.rows_before);
        next_check_ = append(s, Block::footer, rows, tail);
    }
    void seal(Segment& s, TableTail tail) {
        s.check = append(s, Block::seal, s.rows, tail);
        s.sealed = true;
    }
    std::uint64_t append(Segment& s, Block kind, std::span<const Row> rows, TableTail tail) {
        const TableHead head{.kind = kind, .rows = static_cast<std::uint32_t>(rows.size()), .round = tail.round};
        tail.kind = kind;
        tail.rows = head.rows;
        tail.check = check_of(head, rows, tail);
        Bytes bytes;
        bytes.reserve(table_size(rows.size()));
        put_raw(bytes, &head, sizeof head);
        put_raw(bytes, rows.data(), rows.size_bytes());
        put_raw(bytes, &tail, sizeof tail);
        s.file.write(s.offset, bytes);
        s.offset += bytes.size();
        return tail.check;
    }
    // From here on nothing can fail.
    void publish(std::span<const Staged> counted) noexcept {
        const std::uint32_t number = segments_.rbegin()->first;
        for (auto& [n, s] : segments_) {
            if (s.size == s.offset) continue;
            for (const auto& row : std::span(s.rows).subspan(s.rows_before)) s.states += record_size(row.length);
            s.file.begin_sync(std::exchange(s.size, s.offset), s.offset);
            s.unsynced = true;
            if (s.sealed) s.rows = {};
            s.rows_before = s.rows.size();
        }
        last().last_footer = static_cast<std::uint32_t>(last().size / step);
        end_ = std::uint64_t{number} << 32 | last().size / step;
        end_check_ = next_check_;
        for (const auto& staged : counted) {
            Entry& at = index_[staged.client];
            if (at.number != 0) {
                auto& before = segments_.find(at.number)->second;
                before.live -= record_size(at.length);
                live_ -= record_size(at.length);
                if (before.live == 0) before.emptied = end_;
            }
            at = {static_cast<std::uint32_t>(staged.where >> 32), static_cast<std::uint32_t>(staged.where),
                  staged.length, static_cast<std::uint32_t>(staged.check)};
            segments_.find(at.number)->second.live += record_size(at.length);
            live_ += record_size(at.length);
        }
    }
    Fingerprint print_of(Id client) const {
        const Entry& at = index_[client];
        const File& file = file_of(at.number);
        RecordHead head;
        try {
            file.read(at.place * step, &head, sizeof head);
            if (head.kind != Block::record || head.client != client ||
                static_cast<std::uint32_t>(head.check) != at.check)
                throw WireError("the state of client " + std::to_string(client) + " is damaged");
        } catch (const WireError& e) {
            throw IoError(file.path(), e.what());
        }
        return head.print;
    }

    // ------------------------------------------------------------------------------------------ compaction

    static std::uint64_t out_of_date(const Segment& s) { return s.states - s.live; }
    // Of the files that are still read: those that only wait for a checkpoint cost nothing to let go.
    std::uint64_t garbage() const {
        std::uint64_t all = 0;
        for (const auto& [number, s] : segments_)
            if (s.live > 0) all += out_of_date(s);
        return all;
    }
    bool choose_victim() {
        const Segment* best = nullptr;
        for (const auto& [number, s] : segments_) {
            if (!s.sealed || s.damaged || s.live == 0 || out_of_date(s) < s.live) continue;
            if (best && out_of_date(s) * best->live <= out_of_date(*best) * s.live) continue;
            best = &s;
            victim_.number = number;
        }
        if (!best) return false;
        victim_.rows = read_table(best->file, best->size, Block::seal).rows;
        victim_.next = 0;
        return true;
    }
    // A state that cannot be read stays where it is, for whoever visits the client to hear of; a disk that is full is
    // no reason to undo the round.
    void compact(std::uint64_t round, std::uint64_t budget) {
        if (budget == 0 || garbage() <= std::max(live_, least_)) return;
        Vec<Staged> moved;
        Bytes room;
        bool reading = true;
        try {
            if (victim_.number == 0 && !choose_victim()) return;
            const std::uint32_t number = victim_.number;
            for (; victim_.next < victim_.rows.size() && budget > 0; ++victim_.next) {
                const Row& row = victim_.rows[victim_.next];
                const Entry& at = index_[row.client];
                if (at.number != number || at.place != row.place) continue;
                const auto state = read(row.client, room);
                reading = false;
                moved.push_back(stage(row.client, state, row.print));
                reading = true;
                budget -= std::min(budget, record_size(row.length));
            }
            if (victim_.next == victim_.rows.size()) victim_ = {};
            if (moved.empty()) return;
            reading = false;
            close_group(round, moved, sum_, visited_);
            publish(moved);
        } catch (const Error&) {
            if (const auto at = segments_.find(victim_.number); reading && at != segments_.end())
                at->second.damaged = true;
            victim_ = {};
            abandon();
        }
    }
    void drop(Segments::iterator at) {
        if (at->first == newest_ && at->second.size == 0) --newest_;
        if (at->first == victim_.number) victim_ = {};
        ::unlink(at->second.file.path().c_str());
        segments_.erase(at);
    }
    // By one of the last two checkpoints.
    bool needed(std::uint32_t number, const Segment& s) const {
        return std::ranges::any_of(saved_, [&](std::uint64_t end) { return number <= end >> 32 && s.emptied > end; });
    }
    void release() {
        for (auto at = segments_.begin(); at != segments_.end();) {
            const auto here = at++;
            const Segment& s = here->second;
            if (s.sealed && s.live == 0 && !needed(here->first, s)) drop(here);
        }
    }

    // ------------------------------------------------------------------------------------------ lasting

    void sync() {
        for (auto& [number, s] : segments_)
            if (s.unsynced) {
                s.file.sync();
                s.unsynced = false;
            }
        if (!new_names_) return;
        const File names(directory_, O_RDONLY | O_DIRECTORY);
        if (io::detail::uninterrupted([&] { return ::fsync(names.descriptor()); }) != 0 && errno != EINVAL)
            io::detail::fail(directory_, "cannot be synced");
        new_names_ = false;
    }

    void adopt(Loaded next) {
        segments_ = std::move(next.segments);
        index_ = std::move(next.index);
        sum_ = next.sum;
        visited_ = next.visited;
        end_ = written_down_ = next.end;
        end_check_ = next.end_check;
        saved_ = {end_, end_};
        newest_ = segments_.empty() ? 0 : segments_.rbegin()->first;
        victim_ = {};
        live_ = 0;
        for (const auto& [number, s] : segments_) live_ += s.live;
    }
    File open_file(std::uint32_t number, std::uint64_t size) const {
        File file(path_of(number), lock_ ? O_RDWR : O_RDONLY);
        FileHead head;
        file.read(0, &head, sizeof head);
        if (head != FileHead{.number = number}) throw WireError("a file of the log is not what its name says");
        if (file.size() < size) throw WireError("the log ends before the round of the checkpoint");
        return file;
    }
    void take(Loaded& next, std::vector<Fingerprint>& prints, std::uint32_t number, std::span<const Row> rows) const {
        for (const auto& row : rows) {
            if (row.client >= index_.size()) throw WireError("the log is of a client that is not in this federation");
            Entry& at = next.index[row.client];
            if (at.number == 0) ++next.visited;
            else next.segments.at(at.number).live -= record_size(at.length);
            at = {number, row.place, row.length, row.check};
            auto& here = next.segments.at(number);
            here.live += record_size(row.length);
            here.states += record_size(row.length);
            next.sum -= prints[row.client];
            next.sum += prints[row.client] = row.print;
        }
    }
    Loaded load(Reader& in) const {
        Loaded next;
        std::uint64_t clients = 0, visited = 0, full = 0;
        Fingerprint sum;
        get(in, clients);
        get(in, next.end);
        get(in, next.end_check);
        get(in, visited);
        get(in, sum);
        get(in, full);
        if (clients != index_.size()) throw WireError("the log is of another number of clients");
        next.index.resize(index_.size());
        std::vector<Fingerprint> prints(index_.size());
        const auto last = static_cast<std::uint32_t>(next.end >> 32);
        std::uint32_t before = 0;
        for (std::uint64_t i = 0; i < full; ++i) {
            std::uint32_t number = 0;
            std::uint64_t size = 0, check = 0;
            get(in, number);
            get(in, size);
            get(in, check);
            if (number <= std::exchange(before, number) || number >= last)
                throw WireError("the files of the log are out of order");
            Segment s{.file = open_file(number, size), .size = size, .offset = size, .sealed = true, .check = check};
            const auto table = read_table(s.file, size, Block::seal);
            if (table.tail.check != check) throw WireError("a file of the log is not the one that was checkpointed");
            next.segments.emplace(number, std::move(s));
            take(next, prints, number, table.rows);
        }
        if (in.left() > 0) throw WireError("bytes follow the end of the state");
        if (last > 0) load_open_file(next, prints, last);
        if (next.visited != visited || next.sum != sum)
            throw WireError("the states in the log are not those that were checkpointed");
        return next;
    }
    // The file in which the log ended: its footers, found from the last one backwards.
    void load_open_file(Loaded& next, std::vector<Fingerprint>& prints, std::uint32_t number) const {
        const std::uint64_t end = (next.end & 0xFFFFFFFFu) * step;
        Segment s{.file = open_file(number, end), .size = end, .offset = end};
        s.last_footer = static_cast<std::uint32_t>(end / step);
        std::vector<Table> all;
        for (std::uint64_t at = end; at > 0; at = all.back().tail.previous * step)
            all.push_back(read_table(s.file, at, Block::footer));
        if (all.front().tail.check != next.end_check) throw WireError("the log is not the one that was checkpointed");
        for (auto table = all.rbegin(); table != all.rend(); ++table)
            s.rows.insert(s.rows.end(), table->rows.begin(), table->rows.end());
        s.rows_before = s.rows.size();
        const auto rows = s.rows;
        next.segments.emplace(number, std::move(s));
        take(next, prints, number, rows);
    }

    std::string run_, directory_;
    StorePart part_;
    bool anew_ = false, begun_ = false, new_names_ = false;
    std::uint64_t least_ = 1, written_down_ = 0;
    std::optional<io::DirectoryLock> lock_{};  // of whoever writes
    mutable std::mutex lock_of_files_;  // of the list of files, while states are read and staged
    Segments segments_{};
    std::vector<Entry> index_;
    Fingerprint sum_{};
    std::uint64_t visited_ = 0, live_ = 0;
    std::uint64_t end_ = 0, end_check_ = 0, next_check_ = 0;  // where the log ends, and the check of its last footer
    std::uint32_t newest_ = 0;
    Next next_{};
    std::optional<Loaded> found_{};
    std::array<std::uint64_t, 2> saved_{};  // where the log ended at the last two checkpoints
    Victim victim_{};
};

}  // namespace tessera::store::detail
