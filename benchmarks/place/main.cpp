// SPDX-License-Identifier: BSD-3-Clause
// What a round on several ranks costs, for scripts/place: lines of JSON from rank 0.
//
//   place carry                             a message there and back, and many bytes one way, between two ranks
//   place rounds METHOD CLIENTS SEATS       fedavg or ditto on MCLR (7,850 floats), sizes log-normal with sigma 1
//   place data FILE                         examples from a mapped file, which it makes: how much of it each rank holds
//   place visits SEATS                      how long each visit of a round takes on one thread, and how busy two are
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <tessera/core/clock.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/exec/serial.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/mapped.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/place/mpi.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/uniform.hpp>

using namespace tessera;

namespace {

using Net = nn::Mclr<784, 10>;

double median(std::vector<double> all) {
    std::ranges::sort(all);
    return all[all.size() / 2];
}

data::FederatedDataset skewed(std::size_t clients) {
    constexpr std::size_t pool = 2000;
    Stream draw(Key{3});
    std::vector<float> rows(pool * 784);
    std::vector<std::int32_t> labels(pool);
    for (float& each : rows) each = static_cast<float>(draw.uniform());
    for (auto& each : labels) each = static_cast<std::int32_t>(draw.below(10));
    data::Split split;
    for (std::size_t k = 0; k < clients; ++k) {
        data::Share share;
        share.key = 100 + k;
        const auto size = static_cast<std::size_t>(std::clamp(60 * std::exp(draw.normal() - 0.5), 1.0, 1000.0));
        for (std::size_t i = 0; i < size; ++i) share.train.push_back(static_cast<Index>(draw.below(pool)));
        split.clients.push_back(std::move(share));
    }
    return {data::Dataset::own(std::move(rows), std::move(labels), 10), std::move(split)};
}

// Says of an executor how long its visits took, and all of them together.
template <class E>
struct Watched {
    static constexpr Offers offers{};
    struct Seen {
        std::vector<double> seconds{};  // by seat, in the order in which they were begun
        double wall = 0;
    };
    E inner;
    Seen* seen;
    std::size_t concurrency() const { return inner.concurrency(); }
    template <class Body>
    void for_each(std::size_t tasks, Body&& body) const {
        if (!seen->seconds.empty()) return inner.for_each(tasks, body);  // visits come first in a round
        seen->seconds.resize(tasks);
        const double begin = clock_seconds();
        inner.for_each(tasks, [&](std::size_t task, std::size_t worker) {
            const double started = clock_seconds();
            body(task, worker);
            seen->seconds[task] = clock_seconds() - started;
        });
        seen->wall = clock_seconds() - begin;
    }
};
double sum_of(const std::vector<double>& all) {
    double sum = 0;
    for (const double one : all) sum += one;
    return sum;
}

void visits(std::size_t seats) {
    constexpr std::size_t timed = 15;
    const auto data = skewed(seats);
    Federation<FedAvg<>, Net> one(Net{}, data, {}, {.seed = 1, .batch = 20}), two(Net{}, data, {}, {.seed = 1, .batch = 20});
    const sample::Uniform everybody{seats};
    std::vector<double> seconds, share, allowed;
    for (std::size_t r = 0; r < timed; ++r) {
        Watched<exec::Serial>::Seen alone;
        Watched<exec::OpenMp>::Seen both;
        one.round(everybody, Watched<exec::Serial>{{}, &alone});
        two.round(everybody, Watched<exec::OpenMp>{{2}, &both});
        share.push_back(sum_of(both.seconds) / (2 * both.wall));
        allowed.push_back(std::min(1.0, sum_of(both.seconds) / 2 / *std::ranges::max_element(both.seconds)));
        seconds = alone.seconds;
    }
    std::printf("{\"what\": \"visits\", \"seats\": %zu, \"two_busy\": %.4f, \"least_busy\": %.4f, \"longest_allows\": %.4f, "
                "\"state\": \"%s\", \"state_of_two\": \"%s\", \"seconds\": [",
                seats, median(share), *std::ranges::min_element(share), median(allowed),
                one.fingerprint().hex().c_str(), two.fingerprint().hex().c_str());
    for (std::size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.6f", i > 0 ? ", " : "", seconds[i]);
    std::printf("]}\n");
}

double mapped_MB() {  // of files, in this process's memory
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("RssFile")) return std::strtod(line.c_str() + line.find(':') + 1, nullptr) / 1024;
    return 0;
}

// 400 clients of 500 images that lie beside each other in a file of 157 MB.
void data_of(const std::shared_ptr<place::Mpi>& all, const std::string& file) {
    constexpr std::size_t clients = 400, each = 500, width = 784;
    if (all->rank() == 0) {
        Bytes bytes(width * clients * each);
        Stream draw(Key{7});
        for (auto& b : bytes) b = static_cast<std::byte>(draw.word());
        io::write_file_atomically(file, bytes);
        const io::detail::Descriptor written(::open(file.c_str(), O_RDONLY));  // what is in nobody's memory comes page by page
        ::posix_fadvise(written.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
    all->gather_all({});
    const auto mapped = io::map_file(file);
    const std::span<const std::uint8_t> rows(reinterpret_cast<const std::uint8_t*>(mapped->bytes().data()), mapped->bytes().size());
    std::vector<std::int32_t> labels(clients * each);
    data::Split split;
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
    for (std::size_t k = 0; k < clients; ++k) {
        data::Share share{.key = 100 + k};
        for (std::size_t i = 0; i < each; ++i) (i < 400 ? share.train : share.test).push_back(static_cast<Index>(k * each + i));
        split.clients.push_back(std::move(share));
    }
    Federation<FedAvg<>, Net> run(Net{}, {data::Dataset::kept_by(mapped, rows, std::move(labels), 10), std::move(split)}, {},
                                  {.seed = 1, .batch = 20});
    run.spread_over(all);
    std::vector<double> held{mapped_MB()};
    run.run(1, sample::Uniform{40});
    held.push_back(mapped_MB());
    run.run(9, sample::Uniform{40});
    held.push_back(mapped_MB());
    evaluate<Which::global>(run);
    held.push_back(mapped_MB());
    Bytes mine;
    put(mine, Vec<double>(held.begin(), held.end()));
    const auto told = all->gather_all(mine);
    if (all->rank() != 0) return;
    std::printf("{\"what\": \"data\", \"ranks\": %zu, \"file_MB\": %.0f, \"MB_of_files_by_rank\": [", all->ranks(),
                static_cast<double>(rows.size()) / (1 << 20));
    for (std::size_t r = 0; r < told.size(); ++r) {
        const auto one = decode<Vec<double>>(told[r]);
        std::printf("%s{\"before\": %.0f, \"round_of_40\": %.0f, \"ten_rounds\": %.0f, \"all_judged\": %.0f}", r > 0 ? ", " : "", one[0],
                    one[1], one[2], one[3]);
    }
    std::printf("]}\n");
    std::remove(file.c_str());
}

void carry(place::Mpi& all) {
    if (all.ranks() != 2) throw Error("carry is of two ranks");
    const std::size_t other = 1 - all.rank();
    const auto there_and_back = [&](std::size_t size, std::size_t times) {
        std::vector<double> seconds;
        for (std::size_t i = 0; i < times; ++i) {
            const double begin = clock_seconds();
            if (all.rank() == 0) all.send(other, Bytes(size)), all.receive(other);
            else all.receive(other), all.send(other, Bytes(8));
            seconds.push_back(clock_seconds() - begin);
        }
        return median(seconds);
    };
    const double small = there_and_back(8, 2000) / 2, large = there_and_back(4 << 20, 50);
    if (all.rank() == 0)
        std::printf("{\"what\": \"carry\", \"latency_us\": %.2f, \"GB_per_s\": %.3f}\n", 1e6 * small,
                    (4 << 20) / (large - small) / 1e9);
}

template <class Me>
void rounds(const std::shared_ptr<place::Mpi>& all, const char* name, Me method, std::size_t clients, std::size_t seats) {
    constexpr std::size_t warm = 3, timed = 15;
    Federation<Me, Net> run(Net{}, skewed(clients), std::move(method), {.seed = 1, .batch = 20});
    run.spread_over(all);
    const sample::Uniform sampler{seats};
    run.run(warm, sampler);
    const auto before = all->sent();
    std::vector<double> seconds;
    for (std::size_t i = 0; i < timed; ++i) seconds.push_back(run.round(sampler).seconds);
    const auto after = all->sent();
    Bytes mine;
    put(mine, after.messages - before.messages);
    put(mine, after.bytes - before.bytes);
    std::uint64_t messages = 0, bytes = 0, most = 0;
    for (const auto& one : all->gather_all(mine)) {
        Reader in(one);
        std::uint64_t m = 0, b = 0;
        get(in, m), get(in, b);
        messages += m, bytes += b, most = std::max(most, b);
    }
    if (all->rank() == 0)
        std::printf("{\"what\": \"rounds\", \"method\": \"%s\", \"ranks\": %zu, \"clients\": %zu, \"seats\": %zu, \"ms\": %.3f, "
                    "\"least_ms\": %.3f, \"messages\": %.1f, \"MB\": %.4f, \"most_MB_of_a_rank\": %.4f, \"state\": \"%s\"}\n",
                    name, all->ranks(), clients, seats, 1e3 * median(seconds),
                    1e3 * *std::ranges::min_element(seconds), static_cast<double>(messages) / timed,
                    static_cast<double>(bytes) / timed / 1e6, static_cast<double>(most) / timed / 1e6,
                    run.fingerprint().hex().c_str());
}

}  // namespace

int main(int argc, char** argv) {
    const place::MpiProgram program(argc, argv);
    const auto all = place::Mpi::world();
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "carry") {
        carry(*all);
    } else if (what == "rounds" && argc == 5) {
        const std::size_t clients = std::strtoul(argv[3], nullptr, 10), seats = std::strtoul(argv[4], nullptr, 10);
        if (argv[2] == std::string("ditto")) rounds(all, "ditto", Ditto<>{}, clients, seats);
        else rounds(all, "fedavg", FedAvg<>{}, clients, seats);
    } else if (what == "data" && argc == 3) {
        data_of(all, argv[2]);
    } else if (what == "visits" && argc == 3) {
        visits(std::strtoul(argv[2], nullptr, 10));
    } else {
        std::fprintf(stderr, "place carry, place data FILE, place visits SEATS, or place rounds METHOD CLIENTS SEATS\n");
        return 2;
    }
}
