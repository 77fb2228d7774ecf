// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/fallback.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/knn_per.hpp>
#include <tessera/method/masked.hpp>
#include <tessera/method/mtl.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace fallback_test {

using namespace tessera;
using support::same_bits;

namespace {

// A model that always answers with one class, the one w names, so that everybody's score can be written down.
struct Constant {
    using Real = float;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 1> segments{Segment{.name = "w", .part = Part::head}};
    Layout layout() const { return segments; }
    std::size_t outputs() const { return 2; }
    double gradient(In<float>, const Batch<float>&, Out<float> out) const {
        out[0] = 0;
        return 0;
    }
    void predict(In<float> w, const Batch<float>& batch, Out<float> out) const {
        for (std::size_t i = 0; i < batch.size(); ++i) {
            out[2 * i] = w[0] < 0.5f ? -0.1f : -2.0f;
            out[2 * i + 1] = w[0] < 0.5f ? -2.0f : -0.1f;
        }
    }
};

// The server says class 0, the client's own model class 1. The upload tells how many examples the visit saw.
struct Opposite {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr auto offers = offer::keeps;
    fold::Mean fold{};
    template <class R>
    struct Client {
        Vec<Index> seen;
    };
    bool keeps(const auto&, const auto&, std::size_t) const { return true; }
    auto visit(const auto& at, auto w, auto& me) const {
        me.seen.assign(at.ids.begin(), at.ids.end());
        return up(at, std::move(w));
    }
    auto serve(const auto& at, auto w, auto) const {
        w[0] = 1;
        return plain(at, std::move(w));
    }
};

// One client for each list of labels.
data::FederatedDataset labelled(const std::vector<std::vector<std::int32_t>>& clients) {
    std::vector<std::int32_t> labels;
    data::Split split;
    for (const auto& own : clients) {
        data::Share share;
        share.key = split.clients.size() + 1;
        for (const auto label : own) {
            share.train.push_back(static_cast<Index>(labels.size()));
            labels.push_back(label);
        }
        split.clients.push_back(std::move(share));
    }
    std::vector<float> rows(labels.size(), 1.0f);
    return {data::Dataset::own(std::move(rows), std::move(labels), 2), std::move(split)};
}

float served(const Federation<Fallback<Opposite>, Constant>& run, Id k) {
    Workspace<float> workspace;
    return run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
        return client.serve(std::move(received), run.rounds_done(), space).parameters[0];
    });
}

}  // namespace

TEST_CASE("the better model on the held-out share is served, the global one on a tie") {
    using Labels = std::vector<std::int32_t>;
    const auto data = labelled({Labels(10, 0), Labels(10, 1), Labels{1}, Labels{1, 1}});
    Federation<Fallback<Opposite>, Constant> run{{}, data, {}, {.batch = 0}, Vec<float>{0}};
    CHECK(served(run, 0) == 0);
    CHECK(served(run, 1) == 1);
    CHECK(served(run, 2) == 0);  // nothing is held out of one example: a tie
    CHECK(served(run, 3) == 0);
    Federation<Fallback<Opposite>, Constant> half{{}, data, {.share = 0.5}, {.batch = 0}, Vec<float>{0}};
    CHECK(served(half, 3) == 1);  // the control: one of two examples decides
}

TEST_CASE("what is held out is never trained on, and is the same in every round and for every seat") {
    using Labels = std::vector<std::int32_t>;
    const auto data = labelled({Labels(20, 0), Labels(7, 1)});
    Federation<Fallback<Opposite>, Constant> run{{}, data, {}, {.batch = 0}, Vec<float>{0}};
    run.round(sample::Everyone{});
    const auto first = run.client(0).seen;
    CHECK(first.size() == 16);
    CHECK(run.client(1).seen.size() == 6);
    run.run(3, sample::Everyone{});
    CHECK(same_bits(run.client(0).seen, first));
    Federation<Fallback<Opposite>, Constant> other{{}, data, {}, {.seed = 9, .batch = 0}, Vec<float>{0}};
    other.round(sample::Everyone{});
    CHECK_FALSE(same_bits(other.client(0).seen, first));
}

TEST_CASE("a decorated method trains as on the data that is left, and obeys the laws of methods") {
    const auto data = support::toy_data();
    using Net = nn::Dnn<support::Toy::width, 6, support::Toy::classes>;
    const Settings usual{.seed = 3, .batch = 5};
    Federation<Fallback<FedAlt<>>, Net> decorated{{}, data, {}, usual};
    Federation<FedAlt<>, Net> whole{{}, data, {}, usual};
    auto split = data.split();
    Workspace<float> workspace;
    for (Id k = 0; k < 6; ++k) {
        const auto at = decorated.setup().context(data[k], k, 0, workspace);
        const auto rest = detail::HoldOut(at, 0.2);
        const auto ids = rest.rest(at).ids;
        split.clients[k].train.assign(ids.begin(), ids.end());
    }
    Federation<FedAlt<>, Net> rest{{}, {data.pool(), split}, {}, usual};
    for (int r = 0; r < 3; ++r) {
        decorated.round(sample::Everyone{});
        rest.round(sample::Everyone{});
        whole.round(sample::Everyone{});
        CHECK(same_bits(decorated.server().w, rest.server().w));
    }
    CHECK_FALSE(same_bits(decorated.server().w, whole.server().w));
    CHECK(conformance::method<Fallback<FedAlt<>>>().empty());
    CHECK(conformance::method<Fallback<FedAvg<>>>().empty());
}

TEST_CASE("a sparse method falls back to the server's model on the client's own mask") {
    using Sparse = Masked<Ditto<>, mask::RandomStatic>;
    using Net = nn::Dnn<support::Toy::width, 6, support::Toy::classes>;
    Federation<Sparse, Net> run{{}, support::toy_data(), {.masking = {.density = 0.5}}, {.seed = 3, .batch = 5}};
    run.run(2, sample::Everyone{});
    Workspace<float> workspace;
    const auto at = run.setup().context(run.data()[0], 0, 2, workspace);
    const auto& method = run.setup().method;
    const auto seen = method.global_at(at, method.send(run.server(), 0), run.client(0));
    const Mask mask = run.client(0).mask;
    REQUIRE(seen.size() == mask.size());
    for (std::size_t j = 0; j < seen.size(); ++j) CHECK(seen[j] == (mask[j] ? run.server().w[j] : 0));
    CHECK(mask.count() < mask.size());
    std::string all;
    for (const auto& each : conformance::method<Fallback<Sparse>>()) all += each + "; ";
    CHECK(all == "");
}

TEST_CASE("a decorated method refuses the uploads that it refuses alone") {
    const auto verdict = [](const auto& method, std::size_t size) {
        using Me = std::remove_cvref_t<decltype(method)>;
        using M = nn::Mclr<support::Toy::width, support::Toy::classes>;
        const Setup<Me, M> setup(M{}, method, {});
        Server<Me, M> server(setup, 3);
        server.open_round({{.client = 0}});
        return server.accept(0, {Vec<float>(size), 0});
    };
    const std::size_t d = nn::Mclr<support::Toy::width, support::Toy::classes>::parameters;
    CHECK(verdict(Fallback<Mtl<>>{}, d) == Verdict::accepted);
    CHECK(verdict(Fallback<Mtl<>>{}, 1) == Verdict::not_admitted);
    CHECK(verdict(Fallback<FedAvg<>>{}, d) == Verdict::accepted);
    CHECK(verdict(Fallback<FedAvg<>>{}, 1) == Verdict::not_admitted);
    CHECK(verdict(KnnPer<Mtl<>>{}, 1) == Verdict::not_admitted);
}

TEST_CASE("a share that leaves nothing to train or to judge on is refused") {
    using Fed = Federation<Fallback<Opposite>, Constant>;
    const auto data = labelled({{0, 1}});
    for (const double share : {0.0, 1.0, -0.1})
        CHECK_THROWS_WITH_AS((Fed{{}, data, {.share = share}}), doctest::Contains("share must lie in (0, 1)"),
                             ConfigError);
}

}  // namespace fallback_test
