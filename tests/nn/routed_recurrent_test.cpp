// SPDX-License-Identifier: BSD-3-Clause
// The contract of routable models fits recurrent nets: at every time step both cells advance from their own states on
// the same input, the gate reads the states of both, and the mixed state replaces that of the global cell only.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <tessera/conformance.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/nn/routed.hpp>

#include <support/toy_numbers.hpp>

namespace routed_recurrent_test {

using namespace tessera;

namespace {

constexpr std::size_t steps = 3, seen_width = 5;

// c' = a c + tanh(u x + v h), h' = tanh(b c'); the prediction is s h after the last step, loss 1/2 (s h - y)^2. Both
// branches have all five numbers, but s is read from the global one, as the output layer of a language model may be.
struct Recurrent {
    using Real = double;
    static constexpr auto offers = offer::input_width | offer::routed;
    static constexpr std::size_t inputs = steps;
    static constexpr std::array<Segment, 1> segments{Segment{.name = "uvabs", .shape = {5, 1, 1, 1}, .fan_in = 1}};

    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<double> w, const Batch<double>& b, Out<double> out) const {
        const std::vector<double> ones(b.size() * steps, 1);
        Given<double> global(ones, steps);
        return routed_gradient(w, w, global, b, out, {});
    }
    void predict(In<double> w, const Batch<double>& b, Out<double> out) const {
        const std::vector<double> ones(b.size() * steps, 1);
        Given<double> global(ones, steps);
        routed_predict(w, w, global, b, out);
    }

    Routes routes(MixAt) const { return {steps, steps}; }
    double routed_gradient(In<double> w_g, In<double> w_l, Routing<double>& routing, const Batch<double>& b,
                           Out<double> dw_g, Out<double> dw_l) const {
        const auto run = forward(w_g, w_l, routing, b, false);
        std::vector<State> d(b.size()), d_local(b.size());
        for (double& g : dw_g) g = 0;
        for (double& g : dw_l) g = 0;
        double loss = 0;
        for (std::size_t i = 0; i < b.size(); ++i) {
            const double h = run.back()[i].mixed.h, miss = w_g[4] * h - b.target(i), n = static_cast<double>(b.size());
            loss += miss * miss / 2 / n;
            d[i].h = miss * w_g[4] / n;
            if (!dw_g.empty()) dw_g[4] += miss * h / n;
        }
        std::vector<double> dq(b.size()), dseen(b.size() * seen_width);
        for (std::size_t t = steps; t-- > 0;) {
            const auto& now = run[t];
            for (std::size_t i = 0; i < b.size(); ++i)
                dq[i] = d[i].h * (now[i].global.h - now[i].local.h) + d[i].c * (now[i].global.c - now[i].local.c);
            const auto seen = shown(now);
            std::fill(dseen.begin(), dseen.end(), 0.0);
            if (routing.wants_gradient()) routing.answer(t, seen, dq, dseen);
            for (std::size_t i = 0; i < b.size(); ++i) {
                const double q = now[i].q, *more = dseen.data() + i * seen_width;
                const State of_g{q * d[i].h + more[1], q * d[i].c + more[2]};
                const State of_l{(1 - q) * d[i].h + d_local[i].h + more[3], (1 - q) * d[i].c + d_local[i].c + more[4]};
                d[i] = back(w_g, now[i].x, now[i].global_before, now[i].global, of_g, dw_g);
                d_local[i] = back(w_l, now[i].x, now[i].local_before, now[i].local, of_l, dw_l);
            }
        }
        return loss;
    }
    void routed_predict(In<double> w_g, In<double> w_l, Routing<double>& routing, const Batch<double>& b,
                        Out<double> out) const {
        const auto run = forward(w_g, w_l, routing, b, false);
        for (std::size_t i = 0; i < b.size(); ++i) out[i] = w_g[4] * run.back()[i].mixed.h;
    }
    void hard_predict(In<double> w_g, In<double> w_l, Routing<double>& routing, const Batch<double>& b,
                      Out<double> out) const {
        const auto run = forward(w_g, w_l, routing, b, true);
        for (std::size_t i = 0; i < b.size(); ++i) out[i] = w_g[4] * run.back()[i].mixed.h;
    }

private:
    struct State {
        double h = 0, c = 0;
    };
    struct Moment {
        double x = 0, q = 0;
        State global_before{}, local_before{}, global{}, local{}, mixed{};
    };
    using Steps = std::vector<std::vector<Moment>>;

    static State advance(In<double> w, double x, State s) {
        const double c = w[2] * s.c + std::tanh(w[0] * x + w[1] * s.h);
        return {std::tanh(w[3] * c), c};
    }
    static State back(In<double> w, double x, State before, State after, State d, Out<double> dw) {
        const double inner = std::tanh(w[0] * x + w[1] * before.h), dz = d.h * (1 - after.h * after.h);
        const double dc = d.c + dz * w[3], da = dc * (1 - inner * inner);
        if (!dw.empty()) {
            dw[0] += da * x;
            dw[1] += da * before.h;
            dw[2] += dc * before.c;
            dw[3] += dz * after.c;
        }
        return {da * w[1], dc * w[2]};
    }
    static std::vector<double> shown(const std::vector<Moment>& now) {
        std::vector<double> seen;
        for (const auto& m : now)
            for (const double v : {m.x, m.global.h, m.global.c, m.local.h, m.local.c}) seen.push_back(v);
        return seen;
    }
    static Steps forward(In<double> w_g, In<double> w_l, Routing<double>& routing, const Batch<double>& b, bool hard) {
        Steps all(steps, std::vector<Moment>(b.size()));
        const auto x = b.inputs();
        std::vector<double> q(b.size());
        for (std::size_t t = 0; t < steps; ++t) {
            auto& now = all[t];
            for (std::size_t i = 0; i < b.size(); ++i) {
                now[i].x = x[i * steps + t];
                if (t > 0) {
                    now[i].global_before = all[t - 1][i].mixed;
                    now[i].local_before = all[t - 1][i].local;
                }
                now[i].global = advance(w_g, now[i].x, now[i].global_before);
                now[i].local = advance(w_l, now[i].x, now[i].local_before);
            }
            routing.ask(t, shown(now), q);
            for (std::size_t i = 0; i < b.size(); ++i) {
                now[i].q = hard ? (q[i] >= 0.5 ? 1 : 0) : q[i];
                const auto mix = [&](double g, double l) { return now[i].q * g + (1 - now[i].q) * l; };
                now[i].mixed = {mix(now[i].global.h, now[i].local.h), mix(now[i].global.c, now[i].local.c)};
            }
        }
        return all;
    }
};

// q0 = sigmoid(<psi, (seen, 1)>), one set of weights for all time steps.
struct ReadsStates {
    static constexpr Offers offers{};
    struct Asked final : Routing<double> {
        In<double> psi;
        Out<double> dpsi;
        Asked(In<double> p, Out<double> d) : psi(p), dpsi(d) {
            for (double& g : dpsi) g = 0;
        }
        double at(const double* seen) const {
            double z = psi[seen_width];
            for (std::size_t k = 0; k < seen_width; ++k) z += psi[k] * seen[k];
            return 1 / (1 + std::exp(-z));
        }
        bool wants_gradient() const override { return true; }  // also for the branches' sake
        void ask(std::size_t, In<double> seen, Out<double> q0) override {
            for (std::size_t i = 0; i < q0.size(); ++i) q0[i] = at(seen.data() + i * seen_width);
        }
        void answer(std::size_t, In<double> seen, In<double> dq0, Out<double> dseen) override {
            for (std::size_t i = 0; i < dq0.size(); ++i) {
                const double* row = seen.data() + i * seen_width;
                const double q = at(row), dz = dq0[i] * q * (1 - q);
                for (std::size_t k = 0; k < seen_width; ++k) dseen[i * seen_width + k] = dz * psi[k];
                if (dpsi.empty()) continue;
                for (std::size_t k = 0; k < seen_width; ++k) dpsi[k] += dz * row[k];
                dpsi[seen_width] += dz;
            }
        }
    };
    Vec<Segment> segments(const Routes&) const {
        return {{.name = "states", .shape = {seen_width + 1, 1, 1, 1}, .fan_in = seen_width}};
    }
    template <class R>
    Asked route(const Routes&, In<R> psi, const Batch<R>&, Out<R> dpsi) const {
        return {psi, dpsi};
    }
};

data::FederatedDataset sequences() {
    std::vector<double> x, y;
    data::Split split;
    Stream draw(Key{4});
    for (std::size_t k = 0; k < 4; ++k) {
        data::Share share;
        share.key = k + 1;
        for (std::size_t i = 0; i < 12; ++i) {
            share.train.push_back(static_cast<Index>(y.size()));
            double sum = 0;
            for (std::size_t t = 0; t < steps; ++t) {
                x.push_back(draw.normal());
                sum += x.back() * (k % 2 == 0 ? 1 : -1);
            }
            y.push_back(std::tanh(sum));
        }
        share.test = share.train;
        split.clients.push_back(share);
    }
    return {data::Dataset::regression(std::move(x), std::move(y)), std::move(split)};
}

}  // namespace

TEST_CASE("a gate that reads both cells' states: gradients of w_g, psi and w_l are those of differences") {
    static_assert(RoutableModel<Recurrent> && RouteGate<ReadsStates, double>);
    const Recurrent model;
    const ReadsStates gate;
    const auto data = sequences();
    const auto share = data[0];
    const Batch<double> b(*share.examples, share.train);
    for (const auto reg : {nn::Reg::q0_all, nn::Reg::code, nn::Reg::code_cifar}) {
        const nn::Routed<Recurrent, ReadsStates> objective(model, gate, {.gamma = 0.1, .reg = reg});
        CHECK(conformance::check_gradients(objective, b) == conformance::Complaints{});
    }
    CHECK(conformance::check_gradients(model, b) == conformance::Complaints{});
}

TEST_CASE("q0 is asked at every time step, and only the global state is replaced") {
    const Recurrent model;
    const auto data = sequences();
    const auto share = data[0];
    const Batch<double> b(*share.examples, share.train);
    const std::vector<double> w_g{0.5, 0.4, 0.3, 0.8, 1.5}, w_l{-0.7, 0.2, 0.6, 0.9, 9};
    const auto out = [&](double first, double later) {
        std::vector<double> q0(b.size() * steps, later), got(b.size());
        for (std::size_t i = 0; i < b.size(); ++i) q0[i * steps] = first;
        Given<double> routing(q0, steps);
        model.routed_predict(w_g, w_l, routing, b, got);
        return got;
    };
    std::vector<double> global(b.size()), local(b.size());
    model.predict(w_g, b, global);
    auto own = w_l;
    own[4] = w_g[4];  // the output layer is the global one
    model.predict(own, b, local);
    CHECK(out(1, 1) == global);
    CHECK(out(0, 0) == local);  // the local cell never saw a mixed state
    CHECK(out(0.5, 0) == local);
    CHECK(out(0.5, 1) != global);
}

TEST_CASE("Flow trains it: personal models beat the global one where clients disagree") {
    Federation<Flow<ReadsStates>, Recurrent> run{
        {}, sequences(), {.local = {.rate = 0.3}, .local_epochs = 10, .joint_epochs = 3}, {.seed = 2, .batch = 4}};
    run.run(20, sample::Uniform{.count = 4});
    double personal = 0, global = 0;
    Workspace<double> workspace;
    for (Id k = 0; k < 4; ++k)
        run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
            const auto share = run.data()[k];
            const Batch<double> b(*share.examples, share.test);
            std::vector<double> got(b.size()), plain(b.size());
            client.serve(received, run.rounds_done(), space)(b, got);
            Recurrent{}.predict(In<double>(received).first(5), b, plain);
            for (std::size_t i = 0; i < b.size(); ++i) {
                personal += std::pow(got[i] - b.target(i), 2);
                global += std::pow(plain[i] - b.target(i), 2);
            }
        });
    CHECK(personal < 0.5 * global);
}

}  // namespace routed_recurrent_test
