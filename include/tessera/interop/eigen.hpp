// SPDX-License-Identifier: BSD-3-Clause
// Tessera's memory seen by Eigen. Nothing is copied: what is written through a view is written.
//
//   as_vector(w)                        any flat numbers
//   as_matrix(out, rows, columns)       row-major, as predictions and Batch::inputs() are
//   as_matrix(w, layout, "0.weight")    a named parameter; dimensions behind the first are joined to columns
//   as_matrix<float>(examples)          all stored rows, read only
//   as_vector(batch, i)                 row i of a batch where it lies, read only
//
// A view of something const is const. It lives no longer than what it looks at; a temporary Vec is refused.
// Give results explicit types: `auto` of an Eigen expression keeps references to its operands.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <ranges>
#include <string_view>
#include <type_traits>

#include <tessera/core/batch.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/interop/segment.hpp>

namespace tessera::interop {

template <class R>
using Matrix = Eigen::Matrix<R, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class R>
using Vector = Eigen::Matrix<R, Eigen::Dynamic, 1>;

// T is R, or const R for a view that cannot be written through.
template <class T>
using MatrixView = Eigen::Map<std::conditional_t<std::is_const_v<T>, const Matrix<std::remove_const_t<T>>, Matrix<T>>>;
template <class T>
using VectorView = Eigen::Map<std::conditional_t<std::is_const_v<T>, const Vector<std::remove_const_t<T>>, Vector<T>>>;

namespace detail {
inline Eigen::Index index(std::size_t n) { return static_cast<Eigen::Index>(n); }
template <class X>
using Element = std::remove_reference_t<std::ranges::range_reference_t<X>>;
}  // namespace detail

template <Numbers X>
VectorView<detail::Element<X>> as_vector(X&& x) {
    return {std::ranges::data(x), detail::index(std::ranges::size(x))};
}

template <Numbers X>
MatrixView<detail::Element<X>> as_matrix(X&& x, std::size_t rows, std::size_t columns) {
    detail::require_size(std::ranges::size(x), rows * columns);
    return {std::ranges::data(x), detail::index(rows), detail::index(columns)};
}

template <Numbers X>
MatrixView<detail::Element<X>> as_matrix(X&& x, Layout layout, std::string_view name) {
    const Segment& s = detail::segment_named(layout, name, std::ranges::size(x));
    const std::size_t rows = s.shape[0];
    return {std::ranges::data(x) + s.offset, detail::index(rows), detail::index(rows > 0 ? s.size() / rows : 0)};
}

template <class R>
MatrixView<const R> as_matrix(const Examples& examples) {
    return {detail::rows_of<R>(examples), detail::index(examples.size), detail::index(examples.width)};
}

template <class R>
VectorView<const R> as_vector(const Batch<R>& batch, std::size_t i) {
    return {detail::rows_of<R>(batch.examples()) + batch.ids()[i] * batch.width(), detail::index(batch.width())};
}

}  // namespace tessera::interop
