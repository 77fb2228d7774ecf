// SPDX-License-Identifier: BSD-3-Clause
// The wire: any bytes are either a well-formed message that is asked for, or leave server and client as they were.
//
// A message ends in a checksum that mutations rarely meet, so every input is tried twice: as it is, and with the
// checksum made right.
#include "driver.hpp"

#include <cstdlib>
#include <cstring>

#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/client.hpp>
#include <tessera/runtime/server.hpp>

#include "../support/speaker.hpp"
#include "../support/toy_data.hpp"

namespace {

using namespace tessera;
using Net = nn::Mclr<support::Toy::width, support::Toy::classes>;
using Method = FedAvg<>;

void demand(bool holds) {
    if (!holds) std::abort();
}

Fingerprint print_of(const auto& state) {
    Hasher h;
    hash_into(h, state);
    return h.finish();
}

struct World {
    static constexpr std::size_t clients = 3;
    data::FederatedDataset data = support::toy_data({.clients = clients, .train = 4, .extra = 0, .test = 1});
    Setup<Method, Net> setup{{}, {.steps = 1}, {.batch = 2}};
    Server<Method, Net> server{setup, clients};
    Server<Method, Net>::State fresh = server.state();

    void reset() {  // round 2 is open; clients 0 and 1 are asked, client 2 is not
        server.restore(fresh, 2);
        server.open_round({{0}, {1}});
    }
    Client<Method, Net> client() const { return {setup, 1, data[1]}; }
};

World& world() {
    static World w;
    return w;
}

// What an acceptable upload looks like, written down once more.
bool is_asked_for(std::span<const std::byte> bytes, std::size_t d) {
    const std::size_t payload = 8 + 4 * d + 8;
    if (bytes.size() != io::frame_overhead + payload) return false;
    const auto word = [&](std::size_t at) {
        std::uint64_t w = 0;
        std::memcpy(&w, bytes.data() + at, 8);
        return w;
    };
    std::uint16_t version = 0, kind = 0;
    std::uint32_t sum = 0;
    std::memcpy(&version, bytes.data() + 4, 2);
    std::memcpy(&kind, bytes.data() + 6, 2);
    std::memcpy(&sum, bytes.data() + bytes.size() - 4, 4);
    double weight = 0;
    std::memcpy(&weight, bytes.data() + 48 + payload - 8, 8);
    bool finite = std::isfinite(weight) && weight >= 0;
    for (std::size_t j = 0; j < d; ++j) {
        float x = 0;
        std::memcpy(&x, bytes.data() + 56 + 4 * j, 4);
        finite = finite && std::isfinite(x);
    }
    return std::memcmp(bytes.data(), "TSRA", 4) == 0 && version == 1 && kind == 2 && word(8) == shape_of<Up<float>>() &&
           word(16) == d && word(24) == 2 && word(32) < 2 && word(40) == payload && word(48) == d && finite &&
           sum == crc32c(bytes.first(bytes.size() - 4));
}

bool feed_server(std::span<const std::byte> bytes) {
    World& w = world();
    w.reset();
    const auto before = print_of(w.server.state());
    const Verdict verdict = w.server.receive(support::speaker(bytes), bytes);
    const bool accepted = verdict == Verdict::accepted;
    demand(accepted == is_asked_for(bytes, w.setup.initial.size()));
    demand(print_of(w.server.state()) == before);  // nothing moves before the round is closed
    if (accepted) demand(w.server.receive(support::speaker(bytes), bytes) == Verdict::duplicate);
    const auto outcome = w.server.close_round();
    demand(outcome.merged == accepted);
    demand(outcome.verdicts[static_cast<std::size_t>(verdict)] == 1);
    if (!accepted) demand(!outcome.counted && print_of(w.server.state()) == before);
    demand(all_finite(w.server.state()));
    return accepted;
}

bool feed_client(std::span<const std::byte> bytes) {
    World& w = world();
    auto client = w.client();
    const auto before = print_of(client.state());
    Bytes reply;
    try {
        reply = client.visit(bytes);
    } catch (const WireError&) {
        demand(print_of(client.state()) == before);
        return false;
    }
    const auto asked = io::decode_frame(bytes), frame = io::decode_frame(reply);
    const auto up = io::decode_payload<Up<float>>(frame, io::Kind::upload, w.setup.initial.size());
    demand(frame.client == 1 && frame.round == asked.round);
    demand(up.x.size() == w.setup.initial.size());
    demand(client.sound() == all_finite(up));
    demand(all_finite(client.state()));
    if (!client.sound()) demand(print_of(client.state()) == before);
    return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Bytes bytes(size);
    if (size > 0) std::memcpy(bytes.data(), data, size);
    const bool server = feed_server(bytes), client = feed_client(bytes);
    fuzz_accepted = server || client;
    if (size >= 4) {
        const std::uint32_t sum = crc32c(std::span<const std::byte>(bytes).first(size - 4));
        std::memcpy(bytes.data() + size - 4, &sum, 4);
        const bool server_then = feed_server(bytes), client_then = feed_client(bytes);
        demand(server_then || !server);
        demand(client_then || !client);
        fuzz_accepted = server_then || client_then;
    }
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
    World& w = world();
    w.reset();
    std::vector<std::vector<std::uint8_t>> seeds;
    const auto add = [&](const Bytes& bytes) {
        auto& seed = seeds.emplace_back();
        for (const std::byte byte : bytes) seed.push_back(std::to_integer<std::uint8_t>(byte));
    };
    auto client = w.client();
    add(w.server.download(1));
    add(w.server.download(2));
    add(client.visit(w.server.download(1)));
    add(io::encode_frame(io::Kind::upload, w.setup.initial.size(), 2, 2, Up<float>{w.setup.initial, 1}));
    add(io::encode_frame(io::Kind::upload, w.setup.initial.size(), 2, 0, Up<float>{Vec<float>(7), 0}));
    return seeds;
}
