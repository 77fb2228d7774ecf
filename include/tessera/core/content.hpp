// SPDX-License-Identifier: BSD-3-Clause
// What examples hold, in 128 bits: whether two runs read the same data.
//
// Rows are many, so they are read once, at the speed of memory, and who keeps them remembers the answer; rows that
// change afterwards are not noticed. Labels are few and are read each time. The same for any number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/hash.hpp>

namespace tessera {

// The fingerprint of rows that somebody keeps. Whoever asks first works it out; two who ask at once both do, and write
// the same bits.
class RowsSeen {
public:
    // Of rows made on demand: what they are made of and how, which is less than all of them.
    using Recipe = Fingerprint (*)(const void* rows);

    explicit RowsSeen(Recipe recipe = nullptr) : recipe_(recipe) {}

    Fingerprint of(const Examples& e) const {
        const void* const rows = __atomic_load_n(&rows_, __ATOMIC_ACQUIRE);
        if (rows && rows == e.rows)
            return {__atomic_load_n(&low_, __ATOMIC_RELAXED), __atomic_load_n(&high_, __ATOMIC_RELAXED)};
        const Fingerprint found = recipe_ && e.storage == Storage::callback ? recipe_(e.rows) : read(e);
        if (!rows) {  // a copy of the view that was pointed elsewhere is nobody's
            __atomic_store_n(&low_, found.low, __ATOMIC_RELAXED);
            __atomic_store_n(&high_, found.high, __ATOMIC_RELAXED);
            __atomic_store_n(&rows_, e.rows, __ATOMIC_RELEASE);
        }
        return found;
    }

    static Fingerprint read(const Examples& e) {
        if (e.storage != Storage::callback) {
            const std::size_t numbers = e.size * e.width;
            return bulk_fingerprint({static_cast<const std::byte*>(e.rows), numbers * bytes_each(e.storage)});
        }
        constexpr std::size_t at_once = 1 << 16;  // numbers
        const std::size_t rows = std::max<std::size_t>(1, at_once / std::max<std::size_t>(1, e.width));
        Vec<float> made(std::min(rows, e.size) * e.width);
        Hasher h;
        for (std::size_t begin = 0; begin < e.size; begin += rows) {
            const std::size_t count = std::min(rows, e.size - begin);
            for (std::size_t i = 0; i < count; ++i) e.fetch(e.rows, begin + i, made.data() + i * e.width);
            h.add(bulk_fingerprint(std::as_bytes(std::span(made.data(), count * e.width))));
        }
        return h.finish();
    }

private:
    Recipe recipe_;
    mutable const void* rows_ = nullptr;
    mutable std::uint64_t low_ = 0, high_ = 0;
};

// Of the rows as they are read.
inline Fingerprint rows_fingerprint(const Examples& e) {
    Hasher h;
    h.word(e.size);
    h.word(e.width);
    h.word(static_cast<std::uint64_t>(e.storage));
    if (e.storage == Storage::bytes)
        for (const float number : {e.shift, e.scale}) h.bytes(&number, sizeof number);
    h.add(e.size == 0 ? Fingerprint{} : e.seen ? e.seen->of(e) : RowsSeen::read(e));
    return h.finish();
}

// Of the rows, and what each is an example of.
inline Fingerprint fingerprint(const Examples& e) {
    Hasher h;
    const auto hash = [&](const auto* data, std::size_t count) { h.bytes(data, data ? count * sizeof *data : 0); };
    h.add(rows_fingerprint(e));
    h.word(e.classes);
    hash(e.labels, e.size * e.labels_each);
    hash(e.multi_hot, e.size * e.classes);
    hash(e.targets, e.size * e.targets_each);
    if (e.labels_each != 1 || e.targets_each != 1)  // the same numbers cut otherwise are other examples
        for (const std::size_t each : {e.labels_each, e.targets_each}) h.word(each);
    return h.finish();
}

}  // namespace tessera
