// SPDX-License-Identifier: BSD-3-Clause
// A folder that goes away with its object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <tessera/io/file.hpp>

namespace tessera::support {

class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "tessera-test-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made for the test");
        path_ = name;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }

    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    // Makes the folders on the way; returns the path.
    std::string write(const std::string& name, std::span<const std::byte> bytes) const {
        const std::filesystem::path path = *this / name;
        std::filesystem::create_directories(path.parent_path());
        io::write_file_atomically(path.string(), bytes);
        return path.string();
    }
    std::string write(const std::string& name, std::string_view text) const {
        return write(name, std::as_bytes(std::span(text)));
    }

private:
    std::string path_;
};

}  // namespace tessera::support
