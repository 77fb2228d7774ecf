// SPDX-License-Identifier: BSD-3-Clause
// What a policy remembers between calls: `template <class R> struct Memory`, a plain struct that the
// caller owns, or nothing at all.
#pragma once

#include <tessera/core/view.hpp>

namespace tessera {
namespace detail {
template <class Policy, class R>
struct MemoryOf {
    using type = Nothing;
};
template <class Policy, class R>
    requires requires { typename Policy::template Memory<R>; }
struct MemoryOf<Policy, R> {
    using type = typename Policy::template Memory<R>;
};
}  // namespace detail

template <class Policy, class R>
using memory_t = typename detail::MemoryOf<Policy, R>::type;

}  // namespace tessera
