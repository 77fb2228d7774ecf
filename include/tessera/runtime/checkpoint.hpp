// SPDX-License-Identifier: BSD-3-Clause
// A run's whole state in one file, written atomically and checked when read.
//
//   magic "TSRACKPT" | version | shape of the state's declaration | configuration | round | notes | state | CRC-32C
//
// A directory keeps a run's last two checkpoints. A torn or foreign file is refused with a sentence and the
// one before it is used. Random streams have no state, so nothing else is needed to go on bit for bit.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/checksum.hpp>
#include <tessera/core/content.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/reflect.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/io/file.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/version.hpp>

namespace tessera {

inline constexpr std::array<char, 8> checkpoint_magic{'T', 'S', 'R', 'A', 'C', 'K', 'P', 'T'};
inline constexpr std::uint32_t checkpoint_version = 3;

namespace detail {

// The first setting in which two configurations differ: "it has rate=0.1, this run rate=0.2".
inline std::string first_difference(const std::string& theirs, const std::string& ours) {
    using Lines = std::vector<std::string_view>;
    const auto lines_of = [](std::string_view text) {
        Lines all;
        for_each_piece(text, '\n', [&](std::string_view line) { all.push_back(line); });
        return all;
    };
    const auto name = [](std::string_view line) { return line.substr(0, line.find('=')); };
    const auto holds = [](const Lines& all, std::string_view line) { return std::ranges::count(all, line) > 0; };
    const Lines here = lines_of(theirs), there = lines_of(ours);
    for (const auto line : here)
        if (!holds(there, line)) {
            const auto same = std::ranges::find_if(
                there, [&](std::string_view other) { return name(other) == name(line) && !holds(here, other); });
            return "it has " + std::string(line) + ", this run " + (same == there.end() ? "none" : std::string(*same));
        }
    for (const auto line : there)
        if (!holds(here, line)) return "it has none, this run " + std::string(line);
    return "the same ones in another order";
}

// Public data of the server; none is a fingerprint too.
template <class Me, class M>
std::string public_data_of(const Federation<Me, M>& run) {
    const auto& held = run.public_data();
    if (held.train.empty()) return "none";
    Hasher h;
    h.add(fingerprint(*held.examples));
    h.bytes(held.train.data(), held.train.size_bytes());
    return h.finish().hex();
}

inline constexpr std::string_view version_line = "library version", data_line = "features and labels",
                                  split_line = "split and keys", public_line = "public data";

// What the caller says of the run, then what the run says of itself: whatever decides its numbers and can be read off.
// Uploads that are kept are not of it: they change no bit. Nor are the planned rounds, unless something in the method
// reads them, so a run can be made longer. Rows are hashed when it is first asked for, and not again.
template <class Me, class M>
std::string identity_of(const Federation<Me, M>& run, const std::string& configuration) {
    std::string text;
    const auto add = [&](std::string_view name, const std::string& value) {
        text.append(name).append("=").append(value).append("\n");
    };
    add(version_line, version);  // first: settings may have come and gone between versions
    text += configuration;
    if (text.back() != '\n') text += '\n';
    const bool planned = reads_rounds(run.setup().method);
    for (const auto& [name, value] : settings_of(run.settings()))
        if (name != "keep_uploads" && (name != "rounds" || planned)) add(name, value);
    if constexpr (Reflectable<Me>)
        for (const auto& [name, value] : settings_of(run.setup().method)) add("method." + name, value);
    add(data_line, run.data().pool().fingerprint().hex());
    add(split_line, run.data().split_fingerprint().hex());
    add(public_line, public_data_of(run));
    Hasher start;
    hash_into(start, run.setup().initial);
    add("first parameters", start.finish().hex());
    return text;
}

// "with other settings (it has rate=0.1, this run rate=0.2)"
inline std::string how_another(const std::string& theirs, const std::string& ours) {
    const std::string difference = first_difference(theirs, ours);
    const auto is = [&](std::string_view line) { return difference.starts_with("it has " + std::string(line) + "="); };
    const std::string what = is(version_line)  ? "of another version of the library"
                             : is(data_line)   ? "on other data"
                             : is(split_line)  ? "on another split"
                             : is(public_line) ? "with other public data"
                                               : "with other settings";
    return what + " (" + difference + ")";
}

}  // namespace detail

// `configuration` names the run, a line per setting, where the run cannot say itself what decides its numbers (sampler,
// kernels). A checkpoint of another one, or of other settings, method, data, split or public data, or of another
// version of the library, is refused with what differs.
// `notes` are the caller's own bytes and come back as they were, the history of a run for example.
// On several ranks all call these: rank 0 writes the file that one process would, and reads it for all, so a run goes
// on on any number of ranks.
template <class Me, class M>
void write_checkpoint(const std::string& path, const Federation<Me, M>& run, const std::string& configuration,
                      const Bytes& notes = {}) {
    Bytes out;
    put(out, checkpoint_magic);
    put(out, checkpoint_version);
    put(out, run.shape());
    put(out, run.ranks().of_first([&] { return detail::identity_of(run, configuration); }));  // who reads all rows
    put(out, notes);
    run.save(out);
    put(out, crc32c(out));
    run.ranks().first_does([&] { io::write_file_atomically(path, out); });
    run.saved();
}

// Returns the notes. IoError if the file is not a whole checkpoint of this run; the run is then as it was.
template <class Me, class M>
Bytes read_checkpoint(const std::string& path, Federation<Me, M>& run, const std::string& configuration) {
    const auto bytes = run.ranks().of_first([&] { return io::read_file(path); });
    const std::span<const std::byte> all(bytes);
    try {
        if (all.size() < checkpoint_magic.size() + 16) throw WireError("the file is too short to be a checkpoint");
        Reader in(all.first(all.size() - 4));
        std::array<char, 8> magic{};
        std::uint32_t format = 0, sent = 0;
        std::uint64_t shape = 0;
        std::string written_for;
        Bytes notes;
        get(in, magic);
        if (magic != checkpoint_magic) throw WireError("the file is not a Tessera checkpoint");
        get(in, format);
        if (format != checkpoint_version)
            throw WireError("the checkpoint has version " + std::to_string(format) + ", this library reads version " +
                            std::to_string(checkpoint_version));
        std::memcpy(&sent, all.data() + all.size() - 4, 4);
        if (sent != crc32c(all.first(all.size() - 4)))
            throw WireError("the checkpoint is torn: its checksum does not match");
        get(in, shape);
        if (shape != run.shape()) throw WireError("the checkpoint is of another method, model or number of clients");
        get(in, written_for);
        if (const auto identity = run.ranks().of_first([&] { return detail::identity_of(run, configuration); });
            written_for != identity)
            throw WireError("the checkpoint is of a run " + detail::how_another(written_for, identity));
        get(in, notes);
        run.restore(in);
        return notes;
    } catch (const WireError& e) {
        throw IoError(path, e.what());
    }
}

// Their names, oldest first; none where there is no such directory.
inline std::vector<std::string> checkpoints_in(const std::string& directory) {
    if (!io::exists(directory)) return {};
    auto all = io::list_files(directory);
    std::erase_if(all, [](const std::string& name) {
        return !name.starts_with("round-") || !name.ends_with(".tessera");
    });
    return all;
}

// A run's directory of checkpoints, held by one process at a time. On several ranks that is rank 0; the others say that
// they do not hold it, and make the same calls.
class CheckpointDirectory {
public:
    explicit CheckpointDirectory(std::string directory, bool holds = true) : directory_(std::move(directory)) {
        if (!holds) return;
        io::make_directories(directory_);
        lock_.emplace(directory_);
        io::sweep_temporaries(directory_);
    }

    template <class Me, class M>
    void save(const Federation<Me, M>& run, const std::string& configuration, const Bytes& notes = {}) const {
        const auto written = name_of(run.rounds_done());
        write_checkpoint(directory_ + "/" + written, run, configuration, notes);
        if (!lock_) return;
        auto all = checkpoints_in(directory_);
        std::erase_if(all, [&](const std::string& name) { return name > written; });  // not of this run's past
        for (std::size_t i = 0; i + 2 < all.size(); ++i) io::remove_file(directory_ + "/" + all[i]);
    }

    struct Resumed {
        std::string path;
        Bytes notes;
        std::vector<std::string> refused;  // newer files that were not usable, and why
    };
    // Goes on from the newest usable checkpoint; empty if there is none at all. If there are some and all
    // are refused, the reason for the newest is thrown.
    template <class Me, class M>
    std::optional<Resumed> resume(Federation<Me, M>& run, const std::string& configuration) const {
        Resumed result;
        const auto all = run.ranks().of_first([&] { return checkpoints_in(directory_); });
        std::optional<IoError> first;
        for (auto name = all.rbegin(); name != all.rend(); ++name) {
            try {
                result.path = directory_ + "/" + *name;
                result.notes = read_checkpoint(result.path, run, configuration);
                return result;
            } catch (const IoError& e) {
                if (!first) first = e;
                result.refused.push_back(e.what());
            }
        }
        if (first) throw *first;
        return std::nullopt;
    }

private:
    static std::string name_of(std::size_t round) {
        std::string digits = std::to_string(round);
        if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
        return "round-" + digits + ".tessera";
    }

    std::string directory_;
    std::optional<io::DirectoryLock> lock_;
};

}  // namespace tessera
