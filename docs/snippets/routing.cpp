// SPDX-License-Identifier: BSD-3-Clause
// The code of systems/flow.md and policies/gate.md.
#include <tessera/conformance.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/gate.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/pi_flow.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/report/record.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/routing.hpp>
#include <tessera/sample/uniform.hpp>

#include <cmath>
#include <cstdio>

using namespace tessera;

namespace mine {

// [gate]
// One share for each block, learnt, the same for all examples: q0_j = 1 / (1 + exp(-psi_j)).
struct PerBlock {
    static constexpr Offers offers{};
    Vec<Segment> segments(const Routes& routes) const { return {{.name = "logit", .shape = {routes.blocks, 1, 1, 1}}}; }
    template <class R>
    void operator()(const Routes& routes, In<R> psi, const Batch<R>&, Out<R> q0, Out<R>) const {
        for (std::size_t k = 0; k < q0.size(); ++k) q0[k] = 1 / (1 + std::exp(-psi[k % routes.blocks]));
    }
    template <class R>
    void pull_back(const Routes& routes, In<R>, const Batch<R>&, In<R> q0, In<R>, In<R> dq0, Out<R> dpsi) const {
        for (R& d : dpsi) d = 0;
        for (std::size_t k = 0; k < q0.size(); ++k) dpsi[k % routes.blocks] += dq0[k] * q0[k] * (1 - q0[k]);
    }
};
// [/gate]

}  // namespace mine

int main() {
    const auto clients = data::synthetic({.alpha = 1, .beta = 1, .clients = 12, .seed = 3, .max_examples = 60});

    // [network]
    const nn::Network<float> net(60, nn::chain(nn::chain(nn::Linear{20}, nn::GroupNorm{}), nn::Relu{},  // block 1
                                               nn::Linear{20}, nn::Relu{},                              // block 2
                                               nn::Linear{10}));                                        // block 3
    // [/network]

    // [system]
    using Method = Flow<gate::Chain<30, 15>>;  // 60 -> 30 -> 15 -> 2: three exits for three blocks
    const Method method{.local = {.rate = 0.05, .momentum = 0.9},
                        .local_epochs = 3,
                        .joint_epochs = 3,
                        .routing = {.gamma = 1e-2}};
    Federation<Method, nn::Network<float>> run{net, clients, method, {.seed = 1, .batch = 10}};
    run.run(5, sample::Uniform{.count = 6});
    const double global = evaluate<Which::global>(run).accuracy(Average::pooled).value;
    const double personal = evaluate<Which::personal>(run).accuracy(Average::pooled).value;
    // [/system]

    // [statistics]
    report::RunRecord record;
    const auto routed = routed_clients(run);
    if (const auto* most = report::analysis::most_changed(routed)) {
        record.add(report::analysis::routing_distributions(*most));
        record.add(report::analysis::routing_table(*most));
    }
    record.add(report::analysis::routing_worth(routed));
    record.add(report::analysis::routing_by_block(routed));
    record.add(report::analysis::routing_against_loss(routed));
    record.add(report::analysis::routing_cost(routing_cost_of(run)));
    // [/statistics]

    // [variants]
    const Flow<gate::Fixed> fixed{.gate = {.q0 = 0.5}};
    const Flow<> released{.routing = {.reg = nn::Reg::code, .global_loss = nn::GlobalLoss::global},
                          .local_init = LocalInit::averaged_local};
    const PiFlow<> two_global{.joint_epochs = 3};
    const Flow<gate::Chain<>> outputs{.routing = {.mix = MixAt::output}};
    // [/variants]

    // [gates]
    const gate::Chain<350, 150, 50> emnist{};                                           // four blocks
    const gate::Chain<1000, 750, 350, 150, 50> cifar{.dropout = 0, .relu = false};      // six blocks
    const gate::AnyChain at_run_time{.first = 200, .second = 80};                       // two blocks take the first
    const gate::Fixed local{.q0 = 0};
    // [/gates]

    // [gate_test]
    using Small = nn::Dnn<8, 6, 4>;
    conformance::require(conformance::method(Flow<mine::PerBlock>{}, Small{}));

    const mine::PerBlock gate;
    const nn::Dnn<8, 6, 4, double> model;
    const nn::Routed<nn::Dnn<8, 6, 4, double>, mine::PerBlock> objective(model, gate, {.gamma = 0.1});
    conformance::require(conformance::check_gradients(objective, 1e-6, 8));
    // [/gate_test]

    Federation<Flow<>, nn::Network<float>>{net, clients, released}.run(1, sample::Uniform{.count = 3});
    Federation<PiFlow<>, nn::Network<float>>{net, clients, two_global}.run(1, sample::Uniform{.count = 3});
    Federation<Flow<gate::Chain<>>, nn::Network<float>>{net, clients, outputs}.run(1, sample::Uniform{.count = 3});
    Federation<Flow<gate::Fixed>, nn::Network<float>>{net, clients, fixed}.run(1, sample::Uniform{.count = 3});
    const bool used = emnist.dropout > cifar.dropout && at_run_time.first == 200 && local.q0 == 0;
    std::printf("%.3f %.3f\n", global, personal);
    return used && personal > global && record.extras.size() == 6 ? 0 : 1;
}
