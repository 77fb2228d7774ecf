// SPDX-License-Identifier: BSD-3-Clause
// Examples on a device: all rows of a pool, sent once. Bytes stay bytes; other numbers are single precision there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tessera/core/batch.hpp>
#include <tessera/core/content.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/device/kernels.hpp>
#include <tessera/device/runtime.hpp>

namespace tessera::device {

class Pool {
public:
    // Rows made on demand stay where they are made.
    static bool takes(const Examples& e) { return e.storage != Storage::callback && e.rows && e.one_label(); }

    Pool() = default;
    Pool(const Context& on, const Examples& e)
        : holds_(rows_fingerprint(e)), shift_(e.shift), scale_(e.scale), width_(e.width) {
        const std::size_t n = e.size * e.width;
        if (e.storage == Storage::bytes) {
            bytes_ = Array<unsigned char>(n);
            on.up(static_cast<const unsigned char*>(e.rows), bytes_.data(), n);
            on.finish();
            return;
        }
        numbers_ = Array<float>(n);
        if (e.storage == Storage::float32) {
            on.up(static_cast<const float*>(e.rows), numbers_.data(), n);
            on.finish();
            return;
        }
        std::vector<float> some(rows_at_once * width_);
        for (std::size_t first = 0; first < e.size; first += rows_at_once) {
            const std::size_t count = std::min(rows_at_once, e.size - first);
            for (std::size_t i = 0; i < count; ++i) {
                const auto id = static_cast<Index>(first + i);
                Batch<float>(e, {&id, 1}).read(0, {some.data() + i * width_, width_});
            }
            on.up(some.data(), numbers_.data() + first * width_, count * width_);
            on.finish();
        }
    }

    // Whether these rows are the ones that it holds. Who keeps rows and remembers what they are (core/content.hpp) is
    // asked; other rows are read again.
    bool holds(const Examples& e) const { return width_ == e.width && width_ > 0 && holds_ == rows_fingerprint(e); }
    // `rows` of them, one after the other; an id below 0 is a row of zeros.
    void gather(const Context& on, const int* ids, float* to, std::size_t rows) const {
        const auto n = static_cast<kernel::Long>(rows * width_), width = static_cast<kernel::Long>(width_);
        if (bytes_.data())
            must(kernel::tessera_gather_bytes(n, bytes_.data(), ids, shift_, scale_, to, width, on.stream()));
        else must(kernel::tessera_gather_floats(n, numbers_.data(), ids, to, width, on.stream()));
    }

private:
    static constexpr std::size_t rows_at_once = 1024;

    Fingerprint holds_{};
    Array<unsigned char> bytes_;
    Array<float> numbers_;
    float shift_ = 0, scale_ = 1;
    std::size_t width_ = 0;
};

}  // namespace tessera::device
