// SPDX-License-Identifier: BSD-3-Clause
// A file that grows by whole pieces while a run goes on, such as a line for each round.
//
// Whoever looks meets whole pieces, also after a kill: each goes to the system at once and whole. A piece for which
// there is no room leaves the file as it was before it. Only `sync` waits for the disk.
#pragma once

#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <tessera/io/file.hpp>

namespace tessera::io {

class GrowingFile {
public:
    // Nothing is touched before the first piece; then what was there is replaced by it, atomically.
    explicit GrowingFile(std::string path) : path_(std::move(path)) {}

    const std::string& path() const { return path_; }

    // IoError if the piece could not be written.
    void append(std::string_view piece) {
        const auto bytes = std::as_bytes(std::span(piece));
        if (!file_) return begin(bytes);
        try {
            detail::write_all(file_.get(), bytes, path_);
        } catch (const IoError&) {
            if (::ftruncate(file_.get(), static_cast<::off_t>(size_)) != 0) detail::fail(path_, "has a torn last line");
            throw;
        }
        size_ += bytes.size();
    }

    void sync() const {
        if (file_ && detail::uninterrupted([&] { return ::fsync(file_.get()); }) != 0)
            detail::fail(path_, "cannot be synced");
    }

private:
    void begin(std::span<const std::byte> first) {
        write_file_atomically(path_, first);
        file_ = detail::Descriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
        if (!file_) detail::fail(path_, "cannot be opened again");
        size_ = first.size();
    }

    std::string path_;
    detail::Descriptor file_;
    std::size_t size_ = 0;
};

}  // namespace tessera::io
