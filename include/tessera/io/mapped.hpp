// SPDX-License-Identifier: BSD-3-Clause
// A file as memory: read where it lies, page by page as somebody looks, and let go by the system when it needs the
// room.
//
// The file must stay as it is while it is mapped; one that is cut meanwhile ends the program (SIGBUS). Readers that
// give datasets from mapped files are beside those that copy: map_idx_dataset, map_npy_dataset, map_cifar.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>

namespace tessera::io {

class MappedFile {
public:
    explicit MappedFile(const std::string& path) {
        const detail::Descriptor file(
            detail::uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
        if (!file) detail::fail(path, "cannot be opened");
        struct ::stat seen {};
        if (::fstat(file.get(), &seen) != 0) detail::fail(path, "cannot be read");
        if (!S_ISREG(seen.st_mode)) throw IoError(path, "cannot be mapped, because it is not a regular file");
        if (seen.st_size == 0) throw IoError(path, "is empty");
        size_ = static_cast<std::size_t>(seen.st_size);
        void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
        if (at == MAP_FAILED) detail::fail(path, "cannot be mapped");
        begin_ = static_cast<const std::byte*>(at);
    }
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile() { ::munmap(const_cast<std::byte*>(begin_), size_); }

    std::span<const std::byte> bytes() const { return {begin_, size_}; }

private:
    const std::byte* begin_ = nullptr;
    std::size_t size_ = 0;
};

inline std::shared_ptr<const MappedFile> map_file(const std::string& path) {
    return std::make_shared<const MappedFile>(path);
}

}  // namespace tessera::io
