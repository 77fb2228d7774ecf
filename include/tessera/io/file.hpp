// SPDX-License-Identifier: BSD-3-Clause
// Whole files in and out, so that a reader meets the old content or the new one and never a part.
//
// A file is written under a hidden temporary name beside its target, synced, renamed over it, and its
// directory synced. A failure throws IoError with the old file as it was and no temporary left; only a
// kill can leave one, which `sweep_temporaries` removes at the next start. A symbolic link is followed;
// devices, pipes and directories are refused, because a rename would replace them. What is read has an end: files and
// pipes are bounded, devices refused.
// Needs POSIX. Of several processes that use one directory, each should hold its DirectoryLock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tessera/core/error.hpp>

namespace tessera::io {

inline constexpr std::size_t file_cap = std::size_t{1} << 34;  // bytes read from one file unless asked otherwise
inline constexpr std::size_t pipe_cap = std::size_t{1} << 30;  // a pipe does not say how much will come

namespace detail {

inline constexpr std::string_view temporary_prefix = ".tessera-";
inline constexpr std::string_view temporary_suffix = ".tmp";

[[noreturn]] inline void fail(const std::string& path, const std::string& what, int error = errno) {
    throw IoError(path, what + ": " + std::strerror(error));
}

class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }

    int get() const { return number_; }
    explicit operator bool() const { return number_ >= 0; }

    // False if the system reports a late write error. An interrupted close has closed.
    bool close() { return ::close(std::exchange(number_, -1)) == 0 || errno == EINTR; }

private:
    int number_ = -1;
};

template <class Call>
auto uninterrupted(Call call) {
    auto result = call();
    while (result < 0 && errno == EINTR) result = call();
    return result;
}

inline void write_all(int descriptor, std::span<const std::byte> bytes, const std::string& path) {
    while (!bytes.empty()) {
        const auto written = uninterrupted([&] { return ::write(descriptor, bytes.data(), bytes.size()); });
        if (written < 0) fail(path, "cannot be written");
        if (written == 0) fail(path, "cannot be written", ENOSPC);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

// The directory and the name under which a file is to appear, with the permissions it has or will have.
struct Place {
    Descriptor directory;
    std::string parent, name;
    ::mode_t mode = 0666;
};

inline Place place_of(const std::string& path) {
    std::string target = path;
    struct ::stat seen {};
    if (::lstat(path.c_str(), &seen) == 0 && S_ISLNK(seen.st_mode)) {
        const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), &std::free);
        if (!real) fail(path, "is a symbolic link that leads nowhere");
        target = real.get();
    }

    const auto slash = target.rfind('/');
    Place place;
    place.parent = slash == std::string::npos ? "." : target.substr(0, slash + 1);
    place.name = target.substr(slash == std::string::npos ? 0 : slash + 1);
    if (place.name.empty()) throw IoError(path, "cannot be written, because it does not name a file");

    place.directory = Descriptor(::open(place.parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!place.directory) fail(path, "cannot be written, because its directory cannot be opened");
    if (::fstatat(place.directory.get(), place.name.c_str(), &seen, 0) == 0) {
        if (!S_ISREG(seen.st_mode)) throw IoError(path, "cannot be replaced, because it is not a regular file");
        place.mode = seen.st_mode & 0777;
    } else if (errno != ENOENT) {
        fail(path, "cannot be written");
    }
    return place;
}

// An empty file with a name of its own in the place's directory; gone with this object unless renamed. It is locked
// while its writer lives, whatever process that is and on whatever machine, so that a sweep knows what is left over.
class Temporary {
public:
    Temporary(const Place& place, const std::string& path) : directory_(place.directory.get()) {
        static std::atomic<std::uint64_t> count{0};
        do {
            do {
                name_ = std::string(temporary_prefix) + std::to_string(::getpid()) + "-" + std::to_string(count++) +
                        std::string(temporary_suffix);
                constexpr int create = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
                file_ = Descriptor(::openat(directory_, name_.c_str(), create, place.mode));
            } while (!file_ && errno == EEXIST);
            if (!file_) fail(path, "cannot be written, because no file can be created beside it");
        } while (swept());
        held_ = Descriptor(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
        if (!held_) {
            const int error = errno;
            ::unlinkat(directory_, name_.c_str(), 0);
            fail(path, "cannot be written", error);
        }
    }
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    ~Temporary() {
        if (!renamed_) ::unlinkat(directory_, name_.c_str(), 0);
    }

    Descriptor& file() { return file_; }
    bool rename_to(const std::string& name) {
        return renamed_ = ::renameat(directory_, name_.c_str(), directory_, name.c_str()) == 0;
    }

private:
    // Between its making and its lock a sweep may have come by. Where there are no locks, sweeps take nothing.
    bool swept() const {
        if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return true;
        struct ::stat seen {};
        return ::fstat(file_.get(), &seen) == 0 && seen.st_nlink == 0;
    }

    int directory_;
    std::string name_;
    Descriptor file_, held_{};  // held_ keeps the lock when file_ is closed, until the file has its name
    bool renamed_ = false;
};

inline bool is_directory(const std::string& path) {
    struct ::stat seen {};
    return ::stat(path.c_str(), &seen) == 0 && S_ISDIR(seen.st_mode);
}

// Sorted names of the regular files in `directory`, or of the directories, for which `wanted(name)` holds.
template <class Wanted>
std::vector<std::string> names_in(const std::string& directory, Wanted wanted, bool directories = false) {
    const std::unique_ptr<::DIR, int (*)(::DIR*)> open(::opendir(directory.c_str()), [](::DIR* d) {
        return ::closedir(d);
    });
    if (!open) fail(directory, "cannot be listed");
    std::vector<std::string> names;
    for (;;) {
        errno = 0;
        const ::dirent* entry = ::readdir(open.get());
        if (!entry && errno != 0) fail(directory, "cannot be listed");
        if (!entry) break;
        struct ::stat seen {};
        if (wanted(std::string_view(entry->d_name)) && ::fstatat(::dirfd(open.get()), entry->d_name, &seen, 0) == 0 &&
            (directories ? S_ISDIR(seen.st_mode) : S_ISREG(seen.st_mode)))
            names.emplace_back(entry->d_name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace detail

inline std::vector<std::byte> read_file(const std::string& path, std::size_t cap = file_cap) {
    const detail::Descriptor file(
        // Not blocking, for a pipe into which nobody writes would be waited for without end.
        detail::uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
    if (!file) detail::fail(path, "cannot be opened");

    struct ::stat seen {};
    if (::fstat(file.get(), &seen) != 0) detail::fail(path, "cannot be read");
    const auto too_large = [&] {
        return IoError(path, "is larger than the " + std::to_string(cap) + " bytes allowed");
    };
    if (S_ISCHR(seen.st_mode) || S_ISBLK(seen.st_mode))
        throw IoError(path, "is a device, which may have no end; only files and pipes are read");
    if (!S_ISREG(seen.st_mode)) cap = std::min(cap, pipe_cap);
    const auto announced = static_cast<std::size_t>(std::max<::off_t>(seen.st_size, 0));
    if (S_ISREG(seen.st_mode) && announced > cap) throw too_large();

    // One byte more than announced, so that the end shows without growing; files in /proc announce nothing.
    std::vector<std::byte> bytes(std::min(announced, cap) + 1);
    std::size_t size = 0;
    if (S_ISFIFO(seen.st_mode)) {
        const auto got = detail::uninterrupted([&] { return ::read(file.get(), bytes.data(), bytes.size()); });
        // Of a pipe that had a writer, which left, a poll says that it hung up.
        ::pollfd ends{file.get(), POLLIN, 0};
        if (got == 0 && detail::uninterrupted([&] { return ::poll(&ends, 1, 0); }) >= 0 && !(ends.revents & POLLHUP))
            throw IoError(path, "is a pipe into which nobody writes; start its writer first");
        if (got > 0) size = static_cast<std::size_t>(got), bytes.resize(4096);
    }
    if (::fcntl(file.get(), F_SETFL, 0) != 0) detail::fail(path, "cannot be read");  // from here on, as it comes
    for (;;) {
        const auto got =
            detail::uninterrupted([&] { return ::read(file.get(), bytes.data() + size, bytes.size() - size); });
        if (got < 0) detail::fail(path, "cannot be read");
        if (got == 0) break;
        size += static_cast<std::size_t>(got);
        if (size > cap) throw too_large();
        if (size == bytes.size()) bytes.resize(std::min(std::max<std::size_t>(4096, 2 * size), cap + 1));
    }
    bytes.resize(size);
    return bytes;
}

inline void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
    const detail::Place place = detail::place_of(path);
    detail::Temporary temporary(place, path);
    detail::Descriptor& file = temporary.file();
    detail::write_all(file.get(), bytes, path);
    if (detail::uninterrupted([&] { return ::fsync(file.get()); }) != 0) detail::fail(path, "cannot be synced");
    if (!file.close()) detail::fail(path, "cannot be written");
    if (!temporary.rename_to(place.name)) detail::fail(path, "cannot be replaced");
    // Some file systems cannot sync a directory and say EINVAL; there the rename is all there is.
    if (detail::uninterrupted([&] { return ::fsync(place.directory.get()); }) != 0 && errno != EINVAL)
        detail::fail(path, "is replaced, but its directory cannot be synced, so a power cut may undo it");
}

// Throws what write_file_atomically would throw for an empty file, and leaves nothing behind.
inline void check_writable(const std::string& path) {
    const detail::Place place = detail::place_of(path);
    const detail::Temporary probe(place, path);
}

inline bool exists(const std::string& path) {
    struct ::stat seen {};
    if (::stat(path.c_str(), &seen) == 0) return true;
    if (errno != ENOENT && errno != ENOTDIR) detail::fail(path, "cannot be looked up");
    return false;
}

// Like mkdir -p: directories that are there already are fine.
inline void make_directories(const std::string& path) {
    for (auto end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (::mkdir(part.c_str(), 0777) != 0) {
            const int error = errno;
            if (!detail::is_directory(part)) detail::fail(part, "cannot be made a directory", error);
        }
        if (end == std::string::npos) return;
    }
}

// Names, not paths, of the regular files in a directory, sorted; hidden ones (.name) are left out.
inline std::vector<std::string> list_files(const std::string& directory) {
    return detail::names_in(directory, [](std::string_view name) { return !name.starts_with('.'); });
}

// The same of the directories in it.
inline std::vector<std::string> list_directories(const std::string& directory) {
    return detail::names_in(directory, [](std::string_view name) { return !name.starts_with('.'); }, true);
}

// False if there was no such file.
inline bool remove_file(const std::string& path) {
    if (::unlink(path.c_str()) == 0) return true;
    if (errno != ENOENT) detail::fail(path, "cannot be removed");
    return false;
}

// Removes what killed writers left in a directory; what a live one holds stays, and so does what cannot be removed.
inline void sweep_temporaries(const std::string& directory) {
    const auto left = detail::names_in(directory, [](std::string_view name) {
        return name.starts_with(detail::temporary_prefix) && name.ends_with(detail::temporary_suffix);
    });
    for (const auto& name : left) {
        const std::string path = directory + "/" + name;
        const detail::Descriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
        if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
    }
}
// The same in the directory where a file is to be written.
inline void sweep_beside(const std::string& path) {
    sweep_temporaries(detail::place_of(path).parent);
}

// One holder per directory, among processes and within one. Advisory: it stops those who ask. The hidden
// lock file stays after the release, since removing it would let two runs hold different files.
class DirectoryLock {
public:
    explicit DirectoryLock(const std::string& directory) {
        const std::string path = directory + "/.tessera-lock";
        file_ = detail::Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
        if (!file_) detail::fail(directory, "cannot be locked");
        if (detail::uninterrupted([&] { return ::flock(file_.get(), LOCK_EX | LOCK_NB); }) != 0) {
            if (errno != EWOULDBLOCK) detail::fail(directory, "cannot be locked");
            throw IoError(directory, "is in use by another run" + holder());
        }
        // The lock holds without it, so a full disk is no reason to refuse; it only names us in the sentence above.
        const std::string us = std::to_string(::getpid());
        if (::ftruncate(file_.get(), 0) != 0 || ::pwrite(file_.get(), us.data(), us.size(), 0) < 0) return;
    }

private:
    std::string holder() const {
        char text[20];
        const auto size = ::pread(file_.get(), text, sizeof text, 0);
        if (size <= 0) return {};
        const std::string_view process(text, static_cast<std::size_t>(size));
        if (process.find_first_not_of("0123456789") != std::string_view::npos) return {};
        return " (process " + std::string(process) + ")";
    }

    detail::Descriptor file_;
};

}  // namespace tessera::io
