// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/local.hpp>

#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace tessera {
template class Federation<Local<>, nn::Mclr<support::Toy::width, support::Toy::classes, float>>;
template class Federation<Local<>, nn::Mclr<support::Toy::width, support::Toy::classes, double>>;
}  // namespace tessera

namespace local_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};

template <class Fed>
Vec<float> prediction(const Fed& fed, Id k) {
    Workspace<float> workspace;
    const auto share = fed.data()[k];
    return fed.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
        Vec<float> out(share.test.size() * Toy::classes);
        client.serve(received, fed.rounds_done(), space)(Batch<float>(*share.examples, share.test), out);
        return out;
    });
}
}  // namespace

TEST_CASE("a client depends on its own data only") {
    const auto data = toy_data();
    auto split = data.split();
    std::swap(split.clients[0].train, split.clients[1].train);
    split.clients[2].train.resize(3);
    Federation<Local<>, Net> a{{}, data, {}, usual}, b{{}, {data.pool(), split}, {}, usual};
    a.run(4, sample::Everyone{});
    b.run(4, sample::Everyone{});
    for (Id k = 0; k < 6; ++k) CHECK(same_bits(a.client(k).w, b.client(k).w) == (k > 2));
}

TEST_CASE("every client starts from the common initial value and goes on from its own") {
    Federation<Local<>, Net> fed{{}, toy_data(), {}, usual}, once{{}, toy_data(), {}, usual};
    CHECK(fed.client(0).w.empty());  // an unvisited client costs nothing
    const auto before = prediction(fed, 0);
    Vec<float> initial(before.size());
    const auto share = fed.data()[0];
    Net{}.predict(fed.setup().initial, Batch<float>(*share.examples, share.test), initial);
    CHECK(same_bits(before, initial));  // it is served with the initial value
    fed.round(sample::Everyone{});
    const auto first = fed.client(0).w;
    fed.round(sample::Everyone{});
    CHECK_FALSE(same_bits(fed.client(0).w, first));
    CHECK_FALSE(same_bits(fed.client(0).w, fed.client(1).w));
    CHECK_FALSE(same_bits(prediction(fed, 0), before));
    once.round(sample::Everyone{});
    CHECK(same_bits(once.client(0).w, first));
}

TEST_CASE("serving changes nothing") {
    Federation<Local<>, Net> fed{{}, toy_data(), {}, usual};
    fed.round(sample::Uniform{3});
    const auto before = fed.fingerprint();
    for (Id k = 0; k < 6; ++k) CHECK(all_finite(prediction(fed, k)));
    CHECK(fed.fingerprint() == before);
}

TEST_CASE("nothing travels, and a client that is not sampled is not trained") {
    Federation<Local<>, Net> fed{{}, toy_data(), {}, usual};
    const auto report = fed.round(sample::Uniform{2});
    CHECK(report.bytes_up == 0);
    CHECK(report.bytes_down == 0);
    CHECK(report.train_loss > 0);
    std::size_t trained = 0;
    for (Id k = 0; k < 6; ++k) trained += !fed.client(k).w.empty();
    CHECK(trained == 2);
}

TEST_CASE("`pass` and `steps` choose the batches") {
    const auto end = [](Local<> method) {
        Federation<Local<>, Net> fed{{}, toy_data(), method, usual};
        fed.run(2, sample::Everyone{});
        return fed.client(0).w;
    };
    CHECK(same_bits(end({}), end({.pass = Pass::own})));
    CHECK_FALSE(same_bits(end({}), end({.pass = Pass::shared})));
    CHECK_FALSE(same_bits(end({}), end({.steps = 4})));
}

}  // namespace local_test
