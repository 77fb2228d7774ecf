// SPDX-License-Identifier: BSD-3-Clause
// A warm round of the methods with personal models takes nothing from the heap. Replaces the global operator new of
// this room's program, to count.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tessera/codec.hpp>
#include <tessera/io/sequences.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/apfl.hpp>
#include <tessera/method/coded.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedfomo.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/hyp_cluster.hpp>
#include <tessera/method/knn_per.hpp>
#include <tessera/method/masked.hpp>
#include <tessera/method/mtl.hpp>
#include <tessera/method/partial_fed.hpp>
#include <tessera/method/per_fedavg.hpp>
#include <tessera/method/perada.hpp>
#include <tessera/method/pfedbred.hpp>
#include <tessera/method/pfedhn.hpp>
#include <tessera/method/pi_flow.hpp>
#include <tessera/method/privacy_forecast.hpp>
#include <tessera/method/scaffold.hpp>
#include <tessera/nn/ctc.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/speech.hpp>
#include <tessera/nn/text_zoo.hpp>
#include <tessera/nn/tuned.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/prior/hybrid.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/counted_heap.hpp>
#include <support/keyed_noise.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace heap_test {

using namespace tessera;

namespace {
// Allocations of the first round, and of ten later ones.
template <class Me, class Net>
std::pair<std::size_t, std::size_t> heap_use(const Me& method, const Net& model, const data::FederatedDataset& data) {
    Federation<Me, Net> run{model, data, method, {.seed = 3, .batch = 5, .rounds = 16}};
    const sample::Uniform sampler{.count = 3, .everyone_trains = true};
    const auto one_round = [&] {
        const std::size_t before = support::allocations;
        run.round(sampler);
        return support::allocations - before;
    };
    const std::size_t first = one_round();
    for (int r = 0; r < 5; ++r) one_round();
    std::size_t warm = 0;
    for (int r = 0; r < 10; ++r) warm += one_round();
    return {first, warm};
}
template <class Me, class Net = nn::Mclr<support::Toy::width, support::Toy::classes>>
bool frugal(const Me& method, const Net& model = {}) {
    const auto data = support::toy_data({.clients = 8, .unseen = 1});
    auto split = data.split();
    split.server = split.unseen[0].train;
    const auto [first, warm] = heap_use(method, model, {data.pool(), split});
    return first > 20 && warm == 0;  // the counter does count
}
template <class Net>
bool frugal_on(const data::FederatedDataset& data, const Net& model) {
    const auto [first, warm] = heap_use(FedAvg<>{.local = {.rate = 0.1}}, model, data);
    return first > 20 && warm == 0;
}
}  // namespace

TEST_CASE("a warm round takes nothing from the heap") {
    CHECK(frugal(FedBreD<>{.steps = 3}));
    CHECK(frugal(FedBreD<prior::Hybrid>{.prior = {.mh = prior::Reading::code}, .steps = 3}));
    CHECK(frugal(FedBreD<prior::Hybrid>{.steps = 3, .jacobian = Jacobian::hvp}));
    CHECK(frugal(PerFedAvg<>{.steps = 3, .meta_gradient = MetaGradient::hessian_free}));
    CHECK(frugal(Ditto<>{}));
    CHECK(frugal(FedSpa<>{.first = FirstMasks::different}));  // a mask each from the start
    CHECK(frugal(Masked<Ditto<>>{.first = FirstMasks::different}));
    CHECK(frugal(Coded<FedAvg<>, codec::Quantised<8>, codec::Quantised<8>>{.least = 1}));
    CHECK(frugal(Coded<Ditto<>, codec::TopK<codec::Quantised<4>>>{.up = {.share = 0.2}, .least = 1}));
    CHECK(frugal(KnnPer<>{}));
    CHECK(frugal(HypCluster<>{.clusters = 3}));
    CHECK(frugal(PartialFed<>{}));
    CHECK(frugal(Apfl<>{.mixing = nn::Mixing::per_step}));
    CHECK(frugal(Mtl<>{}));
    CHECK(frugal(FedFomo<>{.others = 3, .explore = 0.5}));
    CHECK(frugal(Scaffold<>{}));
    CHECK(frugal(PFedHn<>{}));
    CHECK(frugal(Flow<>{.local = {.momentum = 0.9}}));
    CHECK(frugal(PiFlow<>{}));
}

TEST_CASE("nor does a round with distillation, or with a frozen backbone") {
    using Net = nn::AdaptedDnn<support::Toy::width, 6, support::Toy::classes, 3>;
    const nn::Tuned<Net> adapters(Net{}, initial_parameters(Net{}, Key{1}));
    const PerAda<> perada{.personal = {.momentum = 0.5}, .fold = {.kd_steps = 5, .kd_batch = 8}};
    CHECK(frugal(perada, Net{}));
    CHECK(frugal(perada, adapters));
}

TEST_CASE("nor does a round on texts, padded ones among them, or on frames with what is said in them") {
    std::vector<io::ClientText> people;
    for (std::size_t k = 0; k < 4; ++k)
        people.push_back({std::string(1, "abcd"[k]), {"abcabdacbdabcab", std::string("dcbadcab").substr(k)}});
    const io::TextHalves halves{people, {}};
    const auto letters = io::vocabulary_of(halves.train, {.most = 4});
    const auto texts = io::sequence_pool(halves, letters, {.length = 6}).federated({.seed = 1});
    using Net = nn::Network<float>;
    CHECK(frugal_on(texts, Net(6, nn::recipe::char_lstm(letters.size(), 7, 4))));
    CHECK(frugal_on(texts, Net(6, nn::recipe::Transformer{
                                      .words = letters.size(), .width = 8, .heads = 2, .inner = 10, .blocks = 2, .rank = 3})));

    std::vector<std::int32_t> said;
    for (int i = 0; i < 24; ++i) said.insert(said.end(), {1 + i % 3, 1 + i % 2, i % 2 == 0 ? -1 : 3});
    data::Split split;
    split.clients.resize(4);
    for (Index i = 0; i < 24; ++i) split.clients[i % 4].train.push_back(i);
    const data::FederatedDataset frames(data::Dataset::own(support::toy_numbers<float>(24 * 16 * 3, 5), said, 4, 3), split);
    CHECK(frugal_on(frames, nn::Network<float, nn::Ctc>(nn::Shape(16, 3), nn::recipe::speech_transformer(4, 0, 6, 2, 8, 1))));
}

// Poisson samples vary in size, so the arenas of a private run go on growing for some rounds, with a budget or without.
TEST_CASE("nor does a budget, whether somebody is left out of a round or nobody") {
    using Noisy = rule::DpSgd<support::KeyedNoise>;
    using Net = nn::Mclr<support::Toy::width, support::Toy::classes>;
    using Run = Federation<Private<Ditto<Noisy>>, Net>;
    struct Round {
        std::size_t allocations = 0, left_out = 0;
    };
    const auto with_budget = [](double epsilon) {
        const Noisy rule{.rate = 0.1, .clip = 1, .noise = 1.2};
        return Run{{}, support::toy_data(), {.inner = {.local = rule, .personal = rule}, .epsilon = epsilon},
                   {.seed = 3, .batch = 5}};
    };
    const auto rounds = [&](double epsilon) {
        auto run = with_budget(epsilon);
        std::array<Round, 11> all;
        for (auto& each : all) {
            const std::size_t before = support::allocations;
            each.left_out = run.round(sample::Everyone{}).over_budget;
            each.allocations = support::allocations - before;
        }
        return all;
    };
    const auto ahead = privacy_forecast(with_budget(0), sample::Everyone{}, 9);
    const double of_eight_rounds = (ahead.dearest(1e-5, 8).epsilon + ahead.dearest(1e-5, 9).epsilon) / 2;
    const auto without = rounds(0), nobody = rounds(1e6), somebody = rounds(of_eight_rounds);
    CHECK(without[0].allocations > 20);  // the counter does count
    for (std::size_t r = 1; r < without.size(); ++r) {
        CHECK(nobody[r].allocations == without[r].allocations);
        CHECK(nobody[r].left_out == 0);
        CHECK(somebody[r].left_out == (r < 8 ? 0 : 2));
        if (r < 8) CHECK(somebody[r].allocations == without[r].allocations);
    }
    for (std::size_t r = 9; r < without.size(); ++r) {  // in round 8 lists of four rows are new to the arena
        CHECK(nobody[r].allocations == 0);
        CHECK(somebody[r].allocations == 0);
    }
}

// How often a visit asks for half as many numbers as the model has.
template <class Masking>
std::size_t dense_vectors(Arithmetic arithmetic) {
    using Net = nn::Dnn<800, 200, 10>;  // large against the room for the values of a batch
    const FedSpa<Masking> method{.masking = {.density = 0.1}, .arithmetic = arithmetic};
    const Net net;
    const auto data = support::toy_dataset<float>(20, 800, 10);
    const auto ids = support::first_ids(20);
    const Vec<float> w0 = initial_parameters(net, Key{1});
    Workspace<float> workspace;
    const Context<Net> at{.model = &net,
                          .examples = &data.examples(),
                          .ids = ids,
                          .key = Key{1},
                          .batch = 10,
                          .rounds = 10,
                          .initial = &w0,
                          .workspace = &workspace};
    const Mask mask = method.masking.first(net.layout(), Key{2});
    detail::MaskedDown<float> down{packed(w0, mask), mask, 0};
    client_t<FedSpa<Masking>, float> me;
    support::large_allocations = 0;
    support::large = sizeof(float) * Net::parameters / 2;
    visit_at(method, at, std::move(down), me);
    support::large = ~std::size_t{0};
    return support::large_allocations;
}

TEST_CASE("a sparse visit has no vector as large as the model but the one gradient of a mask search") {
    CHECK(dense_vectors<mask::RandomStatic>(Arithmetic::sparse) == 0);
    CHECK(dense_vectors<mask::DynamicSparse>(Arithmetic::sparse) == 1);
    CHECK(dense_vectors<mask::DynamicSparse>(Arithmetic::table) == 1);
    CHECK(dense_vectors<mask::RandomStatic>(Arithmetic::dense) > 1);  // on zero-filled weights: the counter does count
}

}  // namespace heap_test
