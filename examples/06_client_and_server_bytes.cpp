// SPDX-License-Identifier: BSD-3-Clause
// No simulator: one server and twelve devices that share nothing but bytes.
//
// Teaches: Setup, Server, Client, what happens to damaged, repeated and late messages.
// Next: 07_foreign_project
#include <tessera/data/synthetic.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <cstdio>
#include <memory>
#include <vector>

using namespace tessera;

using Net = nn::Mclr<60, 10>;
using Method = FedAvg<>;
constexpr std::size_t rounds = 5;

// What everybody agrees on beforehand. Equal seeds make equal initial models on every device.
Setup<Method, Net> agreement() {
    return {Net{}, Method{.local = {.rate = 0.05}}, {.seed = 7, .batch = 10, .rounds = rounds}};
}

struct Device {
    Setup<Method, Net> setup = agreement();
    Client<Method, Net> client;
    Device(Id id, const ClientData& own_data) : client(setup, id, own_data) {}
    Bytes answer(const Bytes& download) { return client.visit(download); }
};

int main() {
    const auto data = data::synthetic({.clients = 12, .seed = 1, .max_examples = 200});
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<Candidate> candidates;
    for (Id k = 0; k < data.size(); ++k) {
        devices.push_back(std::make_unique<Device>(k, data[k]));
        candidates.push_back({k, data[k].key});
    }

    const auto setup = agreement();
    Server<Method, Net> server(setup, devices.size());
    std::size_t counted = 0, damaged = 0, repeated = 0, late = 0;
    Bytes kept;
    Id last = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
        const Plan plan = sample::Everyone{}.plan(Key{setup.settings.seed}, round, candidates);
        server.open_round(plan);
        if (round > 0) late += server.receive(last, kept) == Verdict::stale;
        for (const Seat& seat : plan) {
            Bytes upload = devices[seat.client]->answer(server.download(seat.client));
            kept = upload;
            last = seat.client;  // who speaks is for the transport to know
            upload[upload.size() / 2] ^= std::byte{1};  // one bit falls over on the way
            damaged += server.receive(last, upload) == Verdict::malformed;
            counted += server.receive(last, kept) == Verdict::accepted;
            repeated += server.receive(last, kept) == Verdict::duplicate;
        }
        const Outcome outcome = server.close_round();
        std::printf("round %zu: %zu merged, %zu refused\n", round, outcome.merged,
                    outcome.rejected());
    }

    // The simulator drives the same two classes, so it ends with the same bits.
    Federation<Method, Net> simulated{Net{}, data, setup.method, setup.settings};
    simulated.run(rounds, sample::Everyone{});
    const bool same = server.state().w == simulated.server().w;
    std::printf("%zu counted; %zu damaged, %zu repeated, %zu late; as the simulator: %s\n", counted,
                damaged, repeated, late, same ? "yes" : "NO");
    const std::size_t all = rounds * devices.size();
    const bool sorted = counted == all && damaged == all && repeated == all && late == rounds - 1;
    return same && sorted ? 0 : 1;
}
