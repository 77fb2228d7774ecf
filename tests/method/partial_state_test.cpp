// SPDX-License-Identifier: BSD-3-Clause
// What partial personalization keeps, and that nothing but what it declares matters.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tessera/exec/openmp.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/checkpoint.hpp>
#include <support/partly.hpp>
#include <support/toy_data.hpp>

namespace partial_state_test {

using namespace tessera;
using support::restore;
using support::same_bits;
using support::saved;
using support::Toy;
using support::toy_data;
using namespace support::partly;

namespace {

using Net = nn::Dnn<Toy::width, 6, Toy::classes>;

// The saved state with every v of client k doubled.
template <class Fed>
Bytes tampered(const Bytes& bytes, Id k) {
    Reader in(bytes);
    std::uint64_t round = 0, kept = 0;
    typename Fed::ServerState server;
    get(in, round), get(in, server), get(in, kept);
    Bytes out;
    put(out, round), put(out, server), put(out, kept);
    for (std::uint64_t i = 0; i < kept; ++i) {
        Id id = 0;
        typename Fed::ClientState state;
        get(in, id), get(in, state);
        if (id == k)
            for (auto& x : state.v) x *= 2;
        put(out, id), put(out, state);
    }
    return out;
}
std::vector<bool> seated(const data::FederatedDataset& data, std::size_t count, std::size_t round) {
    std::vector<Candidate> all;
    for (std::size_t k = 0; k < data.size(); ++k) all.push_back({static_cast<Id>(k), data[k].key});
    std::vector<bool> in(data.size());
    for (const auto& seat : sample::Uniform{count}.plan(Key{usual.seed}, round, all)) in[seat.client] = true;
    return in;
}
}  // namespace

TEST_CASE("L-ALT-10 the v of a client that is not sampled does not reach u") {
    using Fed = Federation<Alt, Net>;
    const auto data = toy_data();
    Fed start{{}, data, with<Alt>("output"), usual};
    start.run(3, sample::Everyone{});
    const auto bytes = saved(start);
    start.round(sample::Uniform{3});
    const auto in = seated(data, 3, 3);
    std::size_t changed = 0;
    for (Id k = 0; k < 6; ++k) {
        Fed other{{}, data, with<Alt>("output"), usual};
        restore(other, tampered<Fed>(bytes, k));
        other.round(sample::Uniform{3});
        CHECK(same_bits(other.server().w, start.server().w) == !in[k]);
        changed += in[k];
    }
    CHECK(changed == 3);
}

TEST_CASE("L-GEN-7 the personal part of a client that is not visited keeps every bit") {
    const auto data = toy_data();
    const auto check = [&](auto method) {
        Federation<decltype(method), Net> fed{{}, data, method, usual};
        for (std::size_t r = 0; r < 6; ++r) {
            std::vector<Vec<float>> before;
            for (Id k = 0; k < 6; ++k) before.push_back(fed.client(k).v);
            const auto in = seated(data, 2, r);
            fed.round(sample::Uniform{2});
            for (Id k = 0; k < 6; ++k) CHECK(same_bits(before[k], fed.client(k).v) == !in[k]);
        }
    };
    check(with<Alt>("output"));
    check(with<Sim>("input"));
}

TEST_CASE("L-GEN-9 T1 rounds, a checkpoint and T2 rounds are T1 + T2 rounds") {
    const auto resumes = [](auto method, bool tamper) {
        using Fed = Federation<decltype(method), Net>;
        const sample::Uniform sampler{4};
        Fed straight{{}, toy_data(), method, usual}, first{{}, toy_data(), method, usual},
            second{{}, toy_data(), method, usual};
        straight.run(7, sampler);
        first.run(3, sampler);
        second.run(1, sampler);  // whatever it holds, restore replaces
        restore(second, tamper ? tampered<Fed>(saved(first), 0) : saved(first));
        second.run(4, sampler);
        return second.fingerprint() == straight.fingerprint() && same_bits(saved(second), saved(straight));
    };
    CHECK(resumes(with<Alt>("output"), false));
    CHECK(resumes(with<Sim>("input+output"), false));
    CHECK_FALSE(resumes(with<Alt>("output"), true));
}

TEST_CASE("one, two and three threads, and messages through their bytes, give the same state") {
    const auto check = [](auto method) {
        using Fed = Federation<decltype(method), Net>;
        const auto last = [&](auto executor, bool wire, std::size_t rounds = 5) {
            Fed fed{{}, toy_data(), method, usual};
            fed.over_the_wire(wire);
            fed.run(rounds, sample::Uniform{5}, executor);
            return fed.fingerprint();
        };
        const auto alone = last(exec::Serial{}, false);
#ifdef _OPENMP
        CHECK(last(exec::OpenMp{1}, false) == alone);
        CHECK(last(exec::OpenMp{2}, false) == alone);
        CHECK(last(exec::OpenMp{3}, false) == alone);
#endif
        CHECK(last(exec::Serial{}, true) == alone);
        CHECK(last(exec::Serial{}, false, 4) != alone);
    };
    check(with<Alt>("output"));
    check(with<Sim>("output", lively, {.rate = 0.05}));
}

}  // namespace partial_state_test
