// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/codec.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <doctest/doctest.h>

namespace codec_test {

using namespace tessera;

namespace {

template <class R>
Vec<R> numbers(std::size_t n, std::uint64_t seed = 1) {
    Stream draw(Key{seed});
    Vec<R> x(n);
    for (R& v : x) v = static_cast<R>(draw.normal());
    return x;
}
template <class R>
struct Coded {
    Bytes bytes;
    Vec<R> read;  // as the encoder says
};
template <class C, class R>
Coded<R> coded(const C& codec, const Vec<R>& x, Key key = Key{3}) {
    Coded<R> all{{}, Vec<R>(x.size())};
    codec.encode(In<R>(x), key, all.bytes, Out<R>(all.read));
    return all;
}
template <class C, class R>
Vec<R> decoded(const C& codec, const Bytes& bytes, std::size_t n) {
    Vec<R> x(n, R(7));
    Reader in(bytes);
    codec.decode(in, Out<R>(x));
    if (in.left() > 0) throw WireError("bytes are left");
    return x;
}

// What the encoder says is read is what is read, at sizes around the blocks; what is cut short or has more is refused.
template <class C, class R>
void check_codec_laws(const C& codec) {
    static_assert(check_codec<C, R>());
    for (const std::size_t n : {1u, 2u, 7u, 8u, 9u, 63u, 1023u, 1024u, 1025u, 3000u}) {
        CAPTURE(n);
        const auto x = numbers<R>(n);
        const auto all = coded(codec, x);
        CHECK(decoded<C, R>(codec, all.bytes, n) == all.read);
        CHECK(coded(codec, x).bytes == all.bytes);  // keyed draws
        if (!C::loses) CHECK(all.read == x);
        Bytes shorter = all.bytes;
        shorter.pop_back();
        CHECK_THROWS_AS((decoded<C, R>(codec, shorter, n)), WireError);
        const Vec<R> zeros(n);
        CHECK(decoded<C, R>(codec, coded(codec, zeros).bytes, n) == zeros);
    }
}
double distance(const auto& a, const auto& b) {
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) {
        const double d = static_cast<double>(a[j]) - static_cast<double>(b[j]);
        sum += d * d;
    }
    return std::sqrt(sum);
}

TEST_CASE("codecs: the decoder reads what the encoder says it will, in both precisions") {
    const auto both = [](const auto& codec) {
        check_codec_laws<std::remove_cvref_t<decltype(codec)>, float>(codec);
        check_codec_laws<std::remove_cvref_t<decltype(codec)>, double>(codec);
    };
    both(codec::Whole{});
    both(codec::Quantised<8>{});
    both(codec::Quantised<4>{});
    both(codec::Quantised<8>{codec::Rounding::nearest});
    both(codec::Sign{});
    both(codec::TopK<>{.share = 0.1});
    both(codec::TopK<codec::Quantised<8>>{.share = 0.1});
    both(codec::RandomK<>{.share = 0.1});
}

TEST_CASE("quantised: the error is at most half a level to the nearest, one level by chance, and the bytes are as said") {
    const auto x = numbers<float>(5000);
    double largest = 0;
    for (const float v : x) largest = std::max(largest, std::abs(static_cast<double>(v)));
    const auto farthest = [&](const auto& codec) {
        const auto all = coded(codec, x);
        double most = 0;
        for (std::size_t j = 0; j < x.size(); ++j)
            most = std::max(most, std::abs(static_cast<double>(x[j]) - static_cast<double>(all.read[j])));
        return most;
    };
    const double rounding = 1 + 1e-5;  // of floats of this size, against a level of 1/127 of them
    CHECK(farthest(codec::Quantised<8>{codec::Rounding::nearest}) <= largest / 254 * rounding);
    CHECK(farthest(codec::Quantised<8>{}) <= largest / 127 * rounding);
    CHECK(farthest(codec::Quantised<4>{codec::Rounding::nearest}) <= largest / 14 * rounding);
    CHECK(farthest(codec::Quantised<4>{codec::Rounding::nearest}) > largest / 254);  // four bits are fewer than eight
    CHECK(coded(codec::Quantised<8>{}, x).bytes.size() == 5000 + 5 * sizeof(float));
    CHECK(coded(codec::Quantised<4>{}, x).bytes.size() == 2500 + 5 * sizeof(float));
    CHECK(coded(codec::Sign{}, x).bytes.size() == 625 + 5 * sizeof(float));
}

TEST_CASE("quantised by chance: the mean over many draws is the number, and by nearest it is not") {
    Vec<float> x(64, 0.3f);
    x[0] = 127;  // levels are whole numbers
    constexpr std::size_t draws = 4000;
    double sum = 0;
    for (std::size_t i = 0; i < draws; ++i) {
        const auto read = coded(codec::Quantised<8>{}, x, Key{i}).read;
        for (std::size_t j = 1; j < x.size(); ++j) sum += static_cast<double>(read[j]);
    }
    sum /= draws * 63.0;
    // 252,000 draws of 0 or 1 with chance 0.3: a standard deviation of 0.00091, and 16 bits of chance.
    CHECK(std::abs(sum - 0.3) < 5 * 0.00091);
    CHECK(coded(codec::Quantised<8>{codec::Rounding::nearest}, x).read[1] == 0);
}

TEST_CASE("top-k keeps the largest magnitudes, random-k others every time; the rest reads 0") {
    Vec<float> x = numbers<float>(1000);
    x[17] = -50, x[900] = 40;
    const auto top = coded(codec::TopK<>{.share = 0.002}, x);
    for (std::size_t j = 0; j < x.size(); ++j) CHECK(top.read[j] == (j == 17 || j == 900 ? x[j] : 0));
    CHECK(top.bytes.size() == 8 + 3 + 2 * sizeof(float));  // 17 is a byte, the gap of 882 two
    const auto count = [&](const Vec<float>& read) {
        std::size_t kept = 0;
        for (std::size_t j = 0; j < x.size(); ++j) {
            if (read[j] != 0) CHECK(read[j] == x[j]);
            kept += read[j] != 0;
        }
        return kept;
    };
    const codec::RandomK<> some{.share = 0.05};
    const auto one = coded(some, x, Key{1}), other = coded(some, x, Key{2});
    CHECK(count(one.read) == 50);
    CHECK(one.read != other.read);
    CHECK(one.bytes.size() == 16 + 50 * sizeof(float));
    CHECK(coded(codec::TopK<>{.share = 1}, x).read == x);
    CHECK(coded(codec::RandomK<>{.share = 1}, x).read == x);
}

TEST_CASE("sign: every number reads plus or minus its block's mean magnitude") {
    const auto all = coded(codec::Sign{}, Vec<float>{1, -2, 0, -5});
    CHECK(all.read == Vec<float>{2, -2, 2, -2});
}

TEST_CASE("codecs refuse bytes that no encoder writes") {
    const auto refuses = [](const auto& codec, auto change) {
        const auto x = numbers<float>(100);
        Bytes bytes = coded(codec, x).bytes;
        change(bytes);
        using C = std::remove_cvref_t<decltype(codec)>;
        CHECK_THROWS_AS((decoded<C, float>(codec, bytes, x.size())), WireError);
    };
    const auto scale = [](float v) {
        return [v](Bytes& bytes) { std::memcpy(bytes.data(), &v, sizeof v); };
    };
    for (const float bad : {-1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        refuses(codec::Quantised<8>{}, scale(bad));
        refuses(codec::Quantised<4>{}, scale(bad));
        refuses(codec::Sign{}, scale(bad));
    }
    refuses(codec::Quantised<8>{}, [](Bytes& bytes) { bytes[10] = std::byte{0x80}; });
    refuses(codec::Quantised<4>{}, [](Bytes& bytes) { bytes[10] = std::byte{0x08}; });
    refuses(codec::Sign{}, [](Bytes& bytes) { bytes.back() = std::byte{0xF0}; });  // 100 bits, and more
    const auto count = [](std::uint64_t k) {
        return [k](Bytes& bytes) { std::memcpy(bytes.data(), &k, sizeof k); };
    };
    refuses(codec::TopK<>{.share = 0.1}, count(101));
    refuses(codec::TopK<>{.share = 0.1}, count(~0ull));
    refuses(codec::RandomK<>{.share = 0.1}, count(101));
    refuses(codec::TopK<>{.share = 0.1}, [](Bytes& bytes) { bytes[8] = std::byte{100}; });  // behind the end
    refuses(codec::TopK<>{.share = 0.1}, [](Bytes& bytes) {
        for (std::size_t i = 8; i < 20; ++i) bytes[i] = std::byte{0xFF};
    });
}

TEST_CASE("a share outside (0, 1] is refused before round one") {
    CHECK_THROWS_AS(codec::TopK<>{.share = 0}.validate(), ConfigError);
    CHECK_THROWS_AS(codec::RandomK<>{.share = 1.5}.validate(), ConfigError);
    CHECK_NOTHROW(codec::TopK<>{.share = 1}.validate());
}

TEST_CASE("error feedback: what is sent late arrives, and without it is lost") {
    // A constant vector sent again and again: the mean of what was read goes to it as 1/T with feedback, and stays a
    // constant away from it without.
    const auto x = numbers<float>(500, 9);
    const auto miss = [&](const auto& codec, bool feedback) {
        Vec<float> lost(x.size()), sum(x.size());
        constexpr std::size_t times = 400;
        for (std::size_t t = 0; t < times; ++t) {
            Vec<float> step = x;
            for (std::size_t j = 0; feedback && j < x.size(); ++j) step[j] += lost[j];
            const auto all = coded(codec, step, Key{t});
            for (std::size_t j = 0; j < x.size(); ++j) {
                lost[j] = step[j] - all.read[j];
                sum[j] += all.read[j] / times;
            }
        }
        return distance(sum, x) / distance(x, Vec<float>(x.size()));
    };
    CHECK(miss(codec::TopK<>{.share = 0.05}, true) < 0.1);
    CHECK(miss(codec::TopK<>{.share = 0.05}, false) > 0.5);
    CHECK(miss(codec::RandomK<>{.share = 0.05}, true) < 0.1);
    CHECK(miss(codec::Sign{}, true) < 0.1);
    CHECK(miss(codec::Sign{}, false) > 0.5);
}

}  // namespace
}  // namespace codec_test
