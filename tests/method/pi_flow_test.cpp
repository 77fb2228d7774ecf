// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/pi_flow.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <tessera/gate/chain.hpp>
#include <tessera/gate/fixed.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>
#include <support/toy_place.hpp>
#include <support/unfused.hpp>

namespace pi_flow_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
using Router = gate::Chain<5>;
constexpr Settings usual{.seed = 3, .batch = 5};
constexpr auto d = static_cast<std::ptrdiff_t>(Net::parameters);

Vec<float> first(const Vec<float>& x) { return {x.begin(), x.begin() + d}; }
Vec<float> second(const Vec<float>& x) { return {x.end() - d, x.end()}; }
}  // namespace

TEST_CASE("L-FLOW-9 tied: FedAvg on zeta_g, and predictions are the global ones, for every psi") {
    const rule::Sgd local{.rate = 0.1, .momentum = 0.5};
    PiFlow<Router> method{.local = local, .joint_epochs = 2, .halves = {.split = SplitBy::none}, .pi = Pi::tied};
    Federation<PiFlow<Router>, Net> tied{{}, toy_data(), method, usual};
    Federation<FedAvg<>, support::Unfused<Net>> plain{{}, toy_data(), {.local = local, .epochs = 2}, usual};
    const auto psi = tied.server().w.back();
    for (int r = 0; r < 3; ++r) {
        tied.round(sample::Everyone{});
        plain.round(sample::Everyone{});
        CHECK(same_bits(first(tied.server().w), plain.server().w));
    }
    CHECK(tied.server().w.back() != psi);  // the regulariser moved it
    Workspace<float> workspace;
    for (Id k = 0; k < 6; ++k)
        tied.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
            const auto share = tied.data()[k];
            const Batch<float> b(*share.examples, share.test);
            Vec<float> got(share.test.size() * Toy::classes), global(got.size());
            Net{}.predict(first(received), b, global);
            client.serve(std::move(received), tied.rounds_done(), space)(b, Out<float>(got));
            CHECK(same_bits(got, global));
        });
}

TEST_CASE("L-FLOW-9 two_global: equal branches and q = (1/2, 1/2) stay equal; others come apart") {
    support::ToyPlace<Net> place;
    const auto at = place.context();
    const auto& w0 = place.initial;
    const auto visited = [&](double q0) {
        const PiFlow<gate::Fixed> method{
            .gate = {.q0 = q0}, .local = {.rate = 0.1, .momentum = 0.9}, .joint_epochs = 3};
        Vec<float> x = w0;
        x.insert(x.end(), w0.begin(), w0.end());
        Nothing me;
        return visit_at<PiFlow<gate::Fixed>, Net>(method, at, x, me).x;
    };
    const auto even = visited(0.5), odd = visited(0.6);
    CHECK(same_bits(first(even), second(even)));
    CHECK_FALSE(same_bits(first(even), w0));
    CHECK_FALSE(same_bits(first(odd), second(odd)));
}

TEST_CASE("two_global: the branches start apart, both are trained and averaged") {
    Federation<PiFlow<Router>, Net> run{{}, toy_data(), {}, usual};
    const auto before = run.server().w;
    CHECK(same_bits(first(before), run.setup().initial));
    CHECK_FALSE(same_bits(first(before), second(before)));
    run.run(2, sample::Everyone{});
    CHECK_FALSE(same_bits(first(before), first(run.server().w)));
    CHECK_FALSE(same_bits(second(before), second(run.server().w)));
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws<PiFlow<Router>, Net>({}) == "");
    CHECK(support::broken_laws<PiFlow<Router>, Net>({.pi = Pi::tied, .alternate = Alternate::global_first}) == "");
}

TEST_CASE("two branches cannot both descend the loss of one") {
    PiFlow<Router> method{.routing = {.global_loss = nn::GlobalLoss::global}};
    CHECK_THROWS_WITH_AS((Federation<PiFlow<Router>, Net>{{}, toy_data(), method, usual}),
                         doctest::Contains("leave global_loss=personalized or set pi=tied"), ConfigError);
    method.pi = Pi::tied;  // whose objective that is anyway
    Federation<PiFlow<Router>, Net> said{{}, toy_data(), method, usual};
    Federation<PiFlow<Router>, Net> unsaid{{}, toy_data(), {.pi = Pi::tied}, usual};
    for (auto* run : {&said, &unsaid}) run->run(2, sample::Everyone{});
    CHECK(said.fingerprint() == unsaid.fingerprint());
}

TEST_CASE("a visit is billed three passes of what runs: the router's step both branches, the tied step one") {
    const auto bill = [](Pi pi) {
        Federation<PiFlow<Router>, Net> run{
            {}, toy_data(), {.joint_epochs = 2, .halves = {.split = SplitBy::none}, .pi = pi}, usual};
        return run.round(sample::Everyone{}).flops;
    };
    double examples = 0;
    for (std::size_t k = 0; k < 6; ++k) examples += static_cast<double>(toy_data()[k].train.size());
    const Net model;
    const double one = model.forward_flops(), both = 2 * one + Router{}.forward_flops(model.routes(MixAt::layer));
    CHECK(bill(Pi::two_global) == 3 * 2 * examples * (both + both));
    CHECK(bill(Pi::tied) == 3 * 2 * examples * (both + one));
}

}  // namespace pi_flow_test
