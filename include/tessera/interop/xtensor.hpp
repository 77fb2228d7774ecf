// SPDX-License-Identifier: BSD-3-Clause
// Tessera's memory seen by xtensor. Nothing is copied: what is written through a view is written.
//
//   as_tensor<2>(out, {rows, columns})    row-major, as predictions and Batch::inputs() are
//   as_tensor<2>(w, layout, "0.weight")   a named parameter, which must have that many dimensions
//   as_tensor<float>(examples)            all stored rows, read only
//   as_tensor(batch, i)                   row i of a batch where it lies, read only
//
// A view of something const is const. It lives no longer than what it looks at; a temporary Vec is refused.
//
// Three rules for what you write with it. Reducers must be immediate, because a lazy one inside an expression reads
// memory it does not own (`e / xt::sum(e, {1}, xt::keep_dims)` is wrong from 0.24 to 0.27):
//   e / xt::sum(e, {1}, xt::keep_dims | xt::evaluation_strategy::immediate)
// No `auto` for expressions, they keep references. Shapes by from_shape: xt::xtensor<float, 1>({64}) holds one number.
// Needs: xtensor (component `xtensor`), 0.23 or newer. No XTENSOR_ macro is set here, nor should a single file set one:
// XTENSOR_USE_XSIMD changes types.
#pragma once

#include <array>
#include <cstddef>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>

#if __has_include(<xtensor/containers/xtensor.hpp>)  // 0.26 and newer
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/core/xmath.hpp>
#include <xtensor/core/xnoalias.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>
#endif

#include <tessera/core/batch.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/interop/segment.hpp>

namespace tessera::interop {

namespace detail {
// The pointer must come as a value: adapt() would keep a reference to a variable.
template <std::size_t Rank, class T>
auto adapted(T* data, const std::array<std::size_t, Rank>& shape) {
    std::size_t size = 1;
    for (const std::size_t n : shape) size *= n;
    return xt::adapt<xt::layout_type::row_major>(static_cast<T*>(data), size, xt::no_ownership(), shape);
}
}  // namespace detail

template <std::size_t Rank, Numbers X>
auto as_tensor(X&& x, const std::array<std::size_t, Rank>& shape) {
    std::size_t size = 1;
    for (const std::size_t n : shape) size *= n;
    detail::require_size(std::ranges::size(x), size);
    return detail::adapted(std::ranges::data(x), shape);
}

template <std::size_t Rank, Numbers X>
auto as_tensor(X&& x, Layout layout, std::string_view name) {
    static_assert(Rank >= 1 && Rank <= 4, "tessera::interop: a parameter has 1 to 4 dimensions");
    const Segment& s = detail::segment_named(layout, name, std::ranges::size(x));
    tessera::detail::require(s.rank == Rank, "'" + std::string(name) + "' has " + std::to_string(s.rank) +
                                                 " dimensions, not " + std::to_string(Rank));
    std::array<std::size_t, Rank> shape{};
    for (std::size_t i = 0; i < Rank; ++i) shape[i] = s.shape[i];
    return detail::adapted(std::ranges::data(x) + s.offset, shape);
}

template <class R>
auto as_tensor(const Examples& examples) {
    return detail::adapted<2>(detail::rows_of<R>(examples), {examples.size, examples.width});
}

template <class R>
auto as_tensor(const Batch<R>& batch, std::size_t i) {
    return detail::adapted<1>(detail::rows_of<R>(batch.examples()) + batch.ids()[i] * batch.width(), {batch.width()});
}

}  // namespace tessera::interop
