// SPDX-License-Identifier: BSD-3-Clause
// Personal parts of different kinds and sizes over one layout: the scope says what of it a client has.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <utility>

#include <tessera/conformance.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedsim.hpp>
#include <tessera/method/ft_part.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace varied_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Base = nn::Mclr<Toy::width, Toy::classes>;
using Small = nn::Dnn<Toy::width, 2, Toy::classes>;
using Large = nn::Dnn<Toy::width, 7, Toy::classes>;

// Logits of a shared model plus those of a small and a large personal one. A model whose parameters are all 0 adds 0.
struct Lanes {
    using Real = float;
    static constexpr auto offers = offer::input_width;
    static constexpr std::size_t inputs = Toy::width;
    static constexpr std::size_t small = Base::parameters, large = small + Small::parameters,
                                 end = large + Large::parameters;
    static constexpr std::array<Segment, 3> segments{
        Segment{.name = "shared", .part = Part::head, .shape = {small, 1, 1, 1}, .fan_in = Toy::width},
        Segment{
            .name = "small", .part = Part::adapter, .offset = small, .shape = {large - small, 1, 1, 1}, .fan_in = 8},
        Segment{.name = "large", .part = Part::adapter, .offset = large, .shape = {end - large, 1, 1, 1}, .fan_in = 8}};

    Layout layout() const { return segments; }
    std::size_t outputs() const { return Toy::classes; }
    double gradient(In<float> w, const Batch<float>& b, Out<float> out) const {
        auto z = logits(w, b);
        const double loss = nn::SoftmaxCrossEntropy::gradient(b, Out<float>(z));
        Base{}.pullback(w.first(small), b, z, out.first(small));
        Small{}.pullback(w.subspan(small, large - small), b, z, out.subspan(small, large - small));
        Large{}.pullback(w.subspan(large), b, z, out.subspan(large));
        return loss;
    }
    void predict(In<float> w, const Batch<float>& b, Out<float> out) const {
        const auto z = logits(w, b);
        std::copy(z.begin(), z.end(), out.begin());
        for (std::size_t i = 0; i < b.size(); ++i) nn::log_softmax(out.subspan(i * outputs(), outputs()));
    }

private:
    Vec<float> logits(In<float> w, const Batch<float>& b) const {
        Vec<float> z(b.size() * outputs()), more(z.size());
        Base{}.logits(w.first(small), b, z);
        const auto add = [&] {
            for (std::size_t i = 0; i < z.size(); ++i) z[i] += more[i];
        };
        Small{}.logits(w.subspan(small, large - small), b, more);
        add();
        Large{}.logits(w.subspan(large), b, more);
        add();
        return z;
    }
};

// Even clients are small devices; client 5 has no personal part at all.
struct ByDevice {
    static constexpr auto offers = offer::has;
    static constexpr bool selects(const Segment& s) { return s.part == Part::adapter; }
    static bool has(const Segment& s, Id client) {
        return client != 5 && (s.name == Name("small")) == (client % 2 == 0);
    }
};

template <class Me>
Federation<Me, Lanes> ran(std::size_t rounds) {
    Federation<Me, Lanes> run{{}, toy_data(), {}, {.seed = 2, .batch = 5}};
    run.run(rounds, sample::Everyone{});
    return run;
}

}  // namespace

TEST_CASE("every client keeps a personal part of its own size, and the shared part has one") {
    CHECK(conformance::check_gradients(Lanes{}).empty());
    const auto check = [](const auto& run) {
        CHECK(run.server().w.size() == Base::parameters);
        for (Id k = 0; k < 6; ++k)
            CHECK(run.client(k).v.size() == (k == 5 ? 0 : k % 2 == 0 ? Small::parameters : Large::parameters));
    };
    check(ran<FedAlt<ByDevice>>(2));
    check(ran<FedSim<ByDevice>>(2));
}

TEST_CASE("what a client lacks is 0 in its model and does not move") {
    const auto run = ran<FedSim<ByDevice>>(3);
    Workspace<float> workspace;
    for (Id k = 0; k < 6; ++k) {
        const auto w = run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
            return client.serve(std::move(received), 3, space).parameters;
        });
        const auto zero = [&](const char* name) {
            const auto lane = gather(w, on(scope::Chosen(name), Lanes{}));
            return lane == Vec<float>(lane.size());
        };
        CHECK(zero("named:small") == (k == 5 || k % 2 == 1));
        CHECK(zero("named:large") == (k == 5 || k % 2 == 0));
        CHECK_FALSE(zero("named:shared"));
    }
}

TEST_CASE("FT (part.) tunes of a model what the client has") {
    const auto run = ran<FtPart<ByDevice>>(2);
    Workspace<float> workspace;
    for (Id k = 0; k < 6; ++k) {
        const auto w = run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
            return client.serve(std::move(received), 2, space).parameters;
        });
        const auto tuned = [&](const char* name) {
            const Coordinates lane = on(scope::Chosen(name), Lanes{});
            return gather(w, lane) != gather(run.server().w, lane);
        };
        CHECK(tuned("named:small") == (k != 5 && k % 2 == 0));
        CHECK(tuned("named:large") == (k != 5 && k % 2 == 1));
        CHECK_FALSE(tuned("named:shared"));
    }
}

TEST_CASE("a client without a personal part trains the shared model alone") {
    const auto data = toy_data();
    data::Split only = data.split();
    only.clients.resize(6);
    for (std::size_t k = 0; k < 5; ++k) only.clients[k].train.clear();  // client 5 is the one that trains
    const data::FederatedDataset one{data.pool(), only};
    const Settings usual{.seed = 2, .batch = 5};
    Federation<FedAlt<ByDevice>, Lanes> lanes{{}, one, {}, usual};
    const auto start = gather(lanes.setup().initial, off(ByDevice{}, Lanes{}));
    Federation<FedAlt<scope::None>, Base> alone{{}, one, {}, usual, start};
    lanes.run(3, sample::Everyone{});
    alone.run(3, sample::Everyone{});
    // A sum with zeros is exact; the two models' steps round in their own way, one fused and one not.
    CHECK(support::distance(lanes.server().w, alone.server().w) < 1e-5);
    CHECK(support::distance(lanes.server().w, start) > 1e-2);
}

TEST_CASE("the state survives a checkpoint although its sizes differ") {
    const auto straight = ran<FedAlt<ByDevice>>(4);
    auto first = ran<FedAlt<ByDevice>>(2), second = ran<FedAlt<ByDevice>>(1);
    Bytes bytes;
    first.save(bytes);
    Reader in(bytes);
    second.restore(in);
    second.run(2, sample::Everyone{});
    CHECK(second.fingerprint() == straight.fingerprint());
    CHECK(first.fingerprint() != straight.fingerprint());
}

}  // namespace varied_test
