// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/data/lazy.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/exec/openmp.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/toy_data.hpp>

namespace lazy_test {

using namespace tessera;

namespace {

constexpr std::size_t width = support::Toy::width;

// The toy's clients, loaded one by one from the pool that holds them all.
struct Lazy {
    data::FederatedDataset whole = support::toy_data({.clients = 8});
    std::shared_ptr<std::atomic<std::size_t>> loads = std::make_shared<std::atomic<std::size_t>>(0);

    data::FederatedDataset of(std::size_t most, std::size_t missing = 0) const {
        data::LazyPopulation people{.width = width, .classes = support::Toy::classes, .most = most};
        for (const auto& share : whole.split().clients) {
            data::LazyClient client{.test = share.test.size(), .key = share.key};
            for (const auto* part : {&share.train, &share.test})
                for (const auto i : *part) client.labels.push_back(whole.pool().label(i));
            people.clients.push_back(std::move(client));
        }
        return data::lazy(std::move(people), [all = whole, count = loads, missing](Id client) {
            ++*count;
            std::vector<float> rows;
            const auto* numbers = static_cast<const float*>(all.pool().examples().rows);
            const auto& share = all.split().clients[client];
            for (const auto* part : {&share.train, &share.test})
                for (const auto i : *part) rows.insert(rows.end(), numbers + i * width, numbers + (i + 1) * width);
            rows.resize(rows.size() - missing);
            return rows;
        });
    }
};

Fingerprint after(const data::FederatedDataset& clients, std::size_t threads) {
    Federation<FedAvg<>, nn::Mclr<width, support::Toy::classes>> run{{}, clients, {}, {.seed = 3, .batch = 4}};
    run.run(4, sample::Uniform{5}, exec::OpenMp{threads});
    return run.fingerprint();
}

}  // namespace

TEST_CASE("clients loaded on demand train to the same bits, whatever is kept of them") {
    const Lazy toy;
    const auto expected = after(toy.whole, 1);
    CHECK(after(toy.of(1 << 20), 1) == expected);
    const std::size_t once = *toy.loads;
    CHECK(once <= 8);  // each client at most once
    CHECK(after(toy.of(1), 1) == expected);
    CHECK(*toy.loads > 2 * once);  // the control: with no room they are loaded again
    CHECK(after(toy.of(1), 2) == expected);
    CHECK(toy.of(1).pool().fingerprint() == toy.of(1 << 20).pool().fingerprint());
}

TEST_CASE("what does not fit is a sentence") {
    const Lazy toy;
    CHECK_THROWS_AS(after(toy.of(1 << 20, 1), 1), ConfigError);
    CHECK_THROWS_AS(data::lazy({.width = 0, .classes = 2, .clients = {}}, [](Id) { return std::vector<float>{}; }),
                    ConfigError);
    CHECK_THROWS_AS(data::lazy({.width = 1, .classes = 2, .clients = {{.labels = {0}, .test = 2}}},
                               [](Id) { return std::vector<float>{1}; }),
                    ConfigError);
    const auto known = data::lazy({.width = 1, .classes = 2, .clients = {{.labels = {0, 1}}}, .content = {1, 2}},
                                  [](Id) -> std::vector<float> { throw Error("nobody need load this"); });
    CHECK_NOTHROW(known.pool().fingerprint());
}

}  // namespace lazy_test
