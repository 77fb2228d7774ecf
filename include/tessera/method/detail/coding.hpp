// SPDX-License-Identifier: BSD-3-Clause
// Whole messages through a codec: every vector of numbers is encoded, all else travels as it is.
//
// A vector is written as the step from a vector of the same length that the other side knows, or from 0, whichever is
// nearer: the models of an upload are steps from models of the download, its statistics are what they are. The number
// of that vector travels. Bytes are not believed: a codec that leaves coordinates out takes its length from what the
// other side knows, and all of it may be twice as much as that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>

namespace tessera {

// A message as bytes.
template <class R>
struct Encoded {
    Bytes bytes;
    R sound = 0;  // not finite where what was to be sent is not, and then there are no bytes
};

namespace detail {

template <class R>
using Vectors = Vec<Vec<R>>;

// The vectors of a message, for whoever codes the answer to it.
template <class R, class T>
Vectors<R> vectors_of(const T& message) {
    Vectors<R> all;
    for_each_leaf(message, [&](const auto& each) {
        if constexpr (std::is_same_v<decltype(each), const Vec<R>&>) all.push_back(each);
    });
    return all;
}

enum class Written : std::uint8_t { whole, from_zero, as_step };

template <class Codec, class R>
struct Encoder {
    const Codec& codec;
    std::size_t least;  // vectors that are shorter travel as they are
    Key key;
    const Vectors<R>& known;
    Vectors<R>* lost;  // of each vector as long as a known one, what is still to be sent; may be null
    Bytes& out;
    std::size_t index = 0;

    template <class T>
    void write(const T& value) {
        if constexpr (std::is_same_v<T, Vec<R>>) {
            vector(value, index++);
        } else if constexpr (Number<T> || std::is_same_v<T, Mask>) {
            put(out, value);
        } else if constexpr (Growable<T>) {
            if constexpr (Number<typename T::value_type>) return put(out, value);
            put(out, static_cast<std::uint64_t>(value.size()));
            for (const auto& each : value) write(each);
        } else if constexpr (is_array<T>) {
            for (const auto& each : value) write(each);
        } else {
            with_fields(value, [&](const auto&... field) { (write(field), ...); });
        }
    }

private:
    struct From {
        std::uint32_t number = 0;  // of the known vectors of this length, from 1
        bool step = false;
    };
    From nearest(const Vec<R>& x) const {
        From best;
        double least_square = 0;
        for (const R v : x) least_square += static_cast<double>(v) * static_cast<double>(v);
        for (std::size_t k = 0; k < known.size(); ++k) {
            if (known[k].size() != x.size()) continue;
            if (best.number == 0) best.number = static_cast<std::uint32_t>(k + 1);
            double square = 0;
            for (std::size_t j = 0; j < x.size(); ++j) {
                const double d = static_cast<double>(x[j]) - static_cast<double>(known[k][j]);
                square += d * d;
            }
            if (square < least_square) best = {static_cast<std::uint32_t>(k + 1), true}, least_square = square;
        }
        return best;
    }
    void vector(const Vec<R>& x, std::size_t i) {
        if (lost && lost->size() <= i) lost->resize(i + 1);
        const auto whole = [&] {
            put(out, Written::whole);
            put(out, x);
            if (lost) (*lost)[i] = {};
        };
        if (!Codec::loses || x.size() < least) return whole();
        const From from = nearest(x);
        if (Codec::per_byte == 0 && from.number == 0) return whole();
        Vec<R> step = x, read(x.size());
        if (from.step)
            for (std::size_t j = 0; j < x.size(); ++j) step[j] -= known[from.number - 1][j];
        if (lost && (*lost)[i].size() == x.size())
            for (std::size_t j = 0; j < x.size(); ++j) step[j] += (*lost)[i][j];
        if (!finite(step.data(), step.size())) return whole();
        put(out, from.step ? Written::as_step : Written::from_zero);
        put(out, from.number);
        if (from.number == 0) put(out, static_cast<std::uint64_t>(x.size()));
        codec.encode(In<R>(step), key(i), out, Out<R>(read));
        if (!lost) return;
        for (std::size_t j = 0; j < x.size(); ++j) step[j] -= read[j];
        if (from.number > 0) (*lost)[i] = std::move(step);
        else (*lost)[i] = {};
    }
};

template <class Codec, class R>
struct Decoder {
    const Codec& codec;
    const Vectors<R>& known;
    Reader& in;
    std::size_t room = 0;  // numbers that may still be read by lengths that are known

    template <class T>
    void read(T& value) {
        if constexpr (std::is_same_v<T, Vec<R>>) {
            vector(value);
        } else if constexpr (Number<T> || std::is_same_v<T, Mask>) {
            get(in, value);
        } else if constexpr (Growable<T>) {
            if constexpr (Number<typename T::value_type>) return get(in, value);
            const std::size_t n = in.length(1);
            value.clear();
            for (std::size_t i = 0; i < n; ++i) read(value.emplace_back());
        } else if constexpr (is_array<T>) {
            for (auto& each : value) read(each);
        } else {
            with_fields(value, [&](auto&... field) { (read(field), ...); });
        }
    }

private:
    void vector(Vec<R>& x) {
        Written how{};
        get(in, how);
        if (how == Written::whole) return get(in, x);
        if (how > Written::as_step) throw WireError("a vector is written in a way that is not known");
        std::uint32_t number = 0;
        get(in, number);
        if (number > known.size()) throw WireError("a vector is a step from one that was not sent");
        if (number > 0) {
            const std::size_t n = known[number - 1].size();
            if (n > room) throw WireError("the message stands for more numbers than there can be");
            room -= n;
            x.resize(n);
        } else {
            if (how == Written::as_step) throw WireError("a vector is a step from nothing");
            x.resize(own_length());
        }
        codec.decode(in, Out<R>(x));
        if (how == Written::as_step)
            for (std::size_t j = 0; j < x.size(); ++j) x[j] += known[number - 1][j];
    }
    std::size_t own_length() {
        std::uint64_t n = 0;
        get(in, n);
        if (n / (Codec::per_byte > 0 ? Codec::per_byte : 1) > in.left() || Codec::per_byte == 0)
            throw WireError("a length does not fit in the bytes that are left");
        return static_cast<std::size_t>(n);
    }
};

// A number for the declaration and the codec, so that bytes of others are refused.
template <class T, class Codec>
std::uint64_t coded_shape() {
    return shape_of<T>() + Codec::per_byte;
}

template <class R, class T, class Codec>
Encoded<R> encode_message(const T& message, const Codec& codec, std::size_t least, Key key, const Vectors<R>& known,
                          Vectors<R>* lost) {
    if (!all_finite(message)) return {{}, std::numeric_limits<R>::quiet_NaN()};
    Encoded<R> coded;
    put(coded.bytes, coded_shape<T, Codec>());
    Encoder<Codec, R>{codec, least, key, known, lost, coded.bytes}.write(message);
    return coded;
}
// WireError if the bytes cannot be such a message.
template <class R, class T, class Codec>
void decode_message(const Encoded<R>& coded, const Codec& codec, const Vectors<R>& known, T& message) {
    Reader in(coded.bytes);
    std::uint64_t shape = 0;
    get(in, shape);
    if (shape != coded_shape<T, Codec>()) throw WireError("the message is of another declaration or codec");
    std::size_t room = 0;
    for (const auto& each : known) room += 2 * each.size();
    Decoder<Codec, R>{codec, known, in, room}.read(message);
    if (in.left() > 0) throw WireError("bytes follow the end of the message");
}

}  // namespace detail
}  // namespace tessera
