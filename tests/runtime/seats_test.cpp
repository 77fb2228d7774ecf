// SPDX-License-Identifier: BSD-3-Clause
// A seat is taken once, whoever overlaps whom: every upload is sent by several threads at the same time, in memory and
// as bytes, while others are excused and rounds close. Run it under -fsanitize=thread as well (preset tsan).
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/client.hpp>
#include <tessera/runtime/server.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace seats_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using Net = nn::Mclr<Toy::width, Toy::classes>;
constexpr std::size_t clients = 40, threads = 4;

// body(thread) on several threads that begin together.
void together(std::size_t count, auto&& body) {
    std::atomic<std::size_t> ready{0};
    std::vector<std::thread> all;
    for (std::size_t t = 0; t < count; ++t)
        all.emplace_back([&, t] {
            ++ready;
            while (ready < count) std::this_thread::yield();
            body(t);
        });
    for (auto& each : all) each.join();
}

template <class Me>
struct Meeting {
    data::FederatedDataset data = support::toy_data({.clients = clients, .train = 3, .extra = 0, .test = 1});
    Setup<Me, Net> setup{Net{}, {}, {.seed = 3, .batch = 2, .rounds = 9}, {}, clients};
    Server<Me, Net> server{setup, clients};
    Plan plan;
    std::vector<Bytes> uploads{clients};

    explicit Meeting(bool keep) : setup{Net{}, {}, {.seed = 3, .batch = 2, .rounds = 9, .keep_uploads = keep}, {}, clients} {
        for (Id k = 0; k < clients; ++k) plan.push_back({k, true});
    }
    void open() {
        server.open_round(plan);
        for (Id k = 0; k < clients; ++k)
            uploads[k] = Client<Me, Net>(setup, k, data[k]).visit(server.download(k));
    }
};

TEST_CASE_TEMPLATE("of overlapping duplicates exactly one is accepted, and the round is that of one thread", Me, FedAvg<>,
                   FedAvg<rule::Sgd, fold::ServerMomentum<>>, FedSpa<>) {
    for (const bool keep : {false, true}) {
        Meeting<Me> crowd(keep), alone(keep);
        for (int round = 0; round < 4; ++round) {
            alone.open();
            for (Id k = 0; k < clients; ++k) alone.server.receive(k, alone.uploads[k]);
            crowd.open();
            std::array<std::atomic<int>, clients> accepted{}, repeated{};
            together(threads, [&](std::size_t t) {
                for (std::size_t i = 0; i < clients; ++i) {
                    const auto k = static_cast<Id>(t % 2 == 0 ? i : clients - 1 - i);
                    const auto verdict = crowd.server.receive(k, crowd.uploads[k]);
                    accepted[k] += verdict == Verdict::accepted;
                    repeated[k] += verdict == Verdict::duplicate;
                }
            });
            for (std::size_t k = 0; k < clients; ++k) {
                CHECK(accepted[k] == 1);
                CHECK(repeated[k] == threads - 1);
            }
            const auto outcome = crowd.server.close_round();
            CHECK(outcome.counted);
            CHECK(outcome.merged == clients);
            CHECK(outcome.verdicts[static_cast<std::size_t>(Verdict::duplicate)] == clients * (threads - 1));
            alone.server.close_round();
            CHECK(same_bits(crowd.server.state().w, alone.server.state().w));
        }
    }
}

TEST_CASE("whoever comes while a round closes is in it or late, and counted as that") {
    Meeting<FedAvg<>> crowd(false);
    for (int round = 0; round < 8; ++round) {
        crowd.open();
        std::atomic<std::size_t> accepted{0}, late{0};
        Outcome outcome;
        together(3, [&](std::size_t t) {
            if (t == 2) {
                outcome = crowd.server.close_round();
                return;
            }
            for (std::size_t k = t; k < clients; k += 2) {
                const auto verdict = crowd.server.receive(static_cast<Id>(k), crowd.uploads[k]);
                accepted += verdict == Verdict::accepted;
                late += verdict == Verdict::stale;
            }
        });
        CHECK(accepted + late == clients);
        CHECK(outcome.merged == accepted);
        CHECK(crowd.server.round() == static_cast<std::size_t>(round) + 1);
    }
}

TEST_CASE("a seat is excused or taken, not both") {
    Meeting<FedAvg<>> crowd(false);
    crowd.open();
    std::atomic<std::size_t> accepted{0}, refused{0};
    together(2, [&](std::size_t t) {
        for (Id k = 0; k < clients; ++k) {
            if (t == 1) {
                crowd.server.excuse(k);
                continue;
            }
            const auto verdict = crowd.server.receive(k, crowd.uploads[k]);
            accepted += verdict == Verdict::accepted;
            refused += verdict == Verdict::unexpected;
        }
    });
    CHECK(accepted + refused == clients);
    CHECK(crowd.server.close_round().merged == accepted);
}

}  // namespace seats_test
