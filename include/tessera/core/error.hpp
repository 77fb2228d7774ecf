// SPDX-License-Identifier: BSD-3-Clause
// The errors a caller can meet. Each message is one sentence that names the field, flag or file.
#pragma once

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include <tessera/core/strict_math.hpp>

namespace tessera {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A setting is wrong; thrown before round one, nothing has happened yet.
struct ConfigError : Error {
    using Error::Error;
};

// A file cannot be read or written, or is not what it claims to be.
struct IoError : Error {
    IoError(std::string where, const std::string& what) : Error(where + ": " + what), path(std::move(where)) {}
    std::string path;
};

// A message from outside is malformed; the receiver's state is as it was.
struct WireError : Error {
    using Error::Error;
};

namespace detail {
// Not inlined: what is never thrown would be compiled wherever something is required.
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(const std::string& sentence) { throw ConfigError(sentence); }

inline void require(bool holds, const std::string& sentence) {
    if (!holds) refuse(sentence);
}
// A sentence as it stands: visits require things too, and a string of it would be taken from the heap each time.
inline void require(bool holds, const char* sentence) {
    if (!holds) refuse(sentence);
}
inline void require_size(double x, const std::string& name) {
    if (!(x >= 0 && x <= std::numeric_limits<double>::max()))
        refuse(name + " must be 0 or more, and finite, not " + std::to_string(x));
}
inline void require_positive(double x, const std::string& name) {
    if (!(x > 0 && x <= std::numeric_limits<double>::max()))
        refuse(name + " must be positive, and finite, not " + std::to_string(x));
}
}  // namespace detail

}  // namespace tessera
