// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/pfedhn.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/method/fedavg.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/answers.hpp>
#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/method_laws.hpp>
#include <support/one_client.hpp>
#include <support/quadratic.hpp>

namespace pfedhn_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
using Line = support::Quadratic<>;
using State = server_t<PFedHn<>, double>;
using Ups = std::vector<PFedHn<>::Upload<double>>;
constexpr Settings usual{.seed = 3, .batch = 5};

// A server of `clients` for models of D numbers, all of whose own numbers are drawn: also H's last weights, which are 0
// at first.
template <std::size_t D>
class HyperServer {
public:
    HyperServer(const PFedHn<>& method, std::size_t clients) : method_(method) {
        server = method.open(one_.context(), Vec<double>(D), clients);
        Stream draw(Key{41});
        for (double& x : server.network.phi.x) x = 0.5 * draw.normal();
    }
    void merge(const Ups& ups) { method_.merge(one_.context(), server, std::span<const Ups::value_type>(ups)); }
    Vec<double> model(Id k) const { return method_.send(server, k); }

    State server;

private:
    support::OneClient<D> one_{{{1, 0}}};
    PFedHn<> method_;
};

std::vector<double> listed(const Vec<double>& v) { return {v.begin(), v.end()}; }
double dot(const Vec<double>& a, const Vec<double>& b) {
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
    return sum;
}

// The paper's server as it reads, with a gradient that is stored: slopes of all uploads first, then torch's SGD.
struct ByHand {
    std::vector<double> phi, momentum;
    std::vector<std::vector<double>> e, e_momentum;
    std::vector<std::size_t> widths;

    explicit ByHand(const State& from) : phi(listed(from.network.phi.x)), momentum(phi.size()) {
        for (const auto& one : from.embeddings) e.push_back(listed(one.x)), e_momentum.emplace_back(one.x.size());
        for (const auto w : from.network.widths) widths.push_back(static_cast<std::size_t>(w));
    }
    std::pair<std::vector<double>, std::vector<double>> gradient(std::size_t k, const Vec<double>& d) const {
        std::vector<std::vector<double>> h{e[k]};
        std::vector<std::size_t> begins;
        std::size_t at = 0;
        for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
            const std::size_t in = widths[l], out = widths[l + 1];
            std::vector<double> next(out);
            for (std::size_t o = 0; o < out; ++o) {
                next[o] = phi[at + in * out + o];
                for (std::size_t i = 0; i < in; ++i) next[o] += phi[at + o * in + i] * h[l][i];
                if (l + 2 < widths.size()) next[o] = std::max(next[o], 0.0);
            }
            h.push_back(next);
            begins.push_back(at);
            at += (in + 1) * out;
        }
        std::vector<double> g(phi.size()), dy = listed(d);
        for (std::size_t l = widths.size() - 1; l-- > 0;) {
            const std::size_t in = widths[l], out = widths[l + 1];
            std::vector<double> dx(in);
            for (std::size_t o = 0; o < out; ++o) {
                g[begins[l] + in * out + o] = dy[o];
                for (std::size_t i = 0; i < in; ++i) {
                    g[begins[l] + o * in + i] = dy[o] * h[l][i];
                    dx[i] += dy[o] * phi[begins[l] + o * in + i];
                }
            }
            for (std::size_t i = 0; l > 0 && i < in; ++i)
                if (h[l][i] == 0) dx[i] = 0;
            dy = dx;
        }
        return {g, dy};
    }
    void merge(const PFedHn<>& method, const Ups& ups) {
        std::vector<std::pair<std::vector<double>, std::vector<double>>> all;
        for (const auto& up : ups) all.push_back(gradient(up.from, up.change));
        for (std::size_t u = 0; u < ups.size(); ++u) {
            auto& [g, ge] = all[u];
            double norm = 0;
            for (const double v : g) norm += v * v;
            for (const double v : ge) norm += v * v;
            const double scale = std::min(1.0, method.hyper_clip / (std::sqrt(norm) + 1e-6));
            sgd(method, phi, momentum, g, scale, 1);
            sgd(method, e[ups[u].from], e_momentum[ups[u].from], ge, scale, method.embedding_pace);
        }
    }
    static void sgd(const PFedHn<>& method, std::vector<double>& x, std::vector<double>& m,
                    const std::vector<double>& g, double scale, double pace) {
        for (std::size_t j = 0; j < x.size(); ++j) {
            m[j] = method.hyper_momentum * m[j] + scale * g[j] + method.hyper_decay * x[j];
            x[j] -= method.hyper_rate * pace * m[j];
        }
    }
};
double apart(const State& server, const ByHand& by_hand) {
    double most = support::distance(server.network.phi.x, Vec<double>(by_hand.phi.begin(), by_hand.phi.end()));
    for (std::size_t k = 0; k < by_hand.e.size(); ++k)
        most = std::max(most, support::distance(server.embeddings[k].x,
                                                Vec<double>(by_hand.e[k].begin(), by_hand.e[k].end())));
    return most;
}
Ups three_uploads(std::size_t d) {
    Stream draw(Key{17});
    Ups ups{{Vec<double>(d), 2}, {Vec<double>(d), 0}, {Vec<double>(d), 3}};
    for (auto& up : ups)
        for (double& v : up.change) v = draw.normal();
    return ups;
}
}  // namespace

TEST_CASE("L-BASE-15 one client, e frozen, one linear layer, plain SGD: w = W e changes by -a |e|^2 D") {
    const PFedHn<> method{.embedding = 3, .hidden = 0, .hyper_rate = 0.25, .hyper_momentum = 0, .hyper_decay = 0,
                          .hyper_clip = 0, .embedding_pace = 0};
    HyperServer<4> hyper(method, 1);
    const auto e = hyper.server.embeddings[0].x, before = hyper.server.network.phi.x, w = hyper.model(0);
    const Vec<double> d{1, -2, 0.5, 3};
    hyper.merge({{d, 0}});
    CHECK(same_bits(hyper.server.embeddings[0].x, e));
    const auto& after = hyper.server.network.phi.x;
    const auto now = hyper.model(0);
    for (std::size_t j = 0; j < 4; ++j) {  // roundings of numbers of size 1
        double linear = 0;  // of W e, which is the identity's w; the bias beside it is one more input, 1
        for (std::size_t i = 0; i < 3; ++i) linear += (after[j * 3 + i] - before[j * 3 + i]) * e[i];
        CHECK(std::fabs(linear + 0.25 * dot(e, e) * d[j]) < 1e-14);
        CHECK(std::fabs(now[j] - w[j] + 0.25 * (dot(e, e) + 1) * d[j]) < 1e-14);
    }
    // A frozen e is what the identity needs.
    PFedHn<> moving = method;
    moving.embedding_pace = 1;
    HyperServer<4> other(moving, 1);
    other.merge({{d, 0}});
    CHECK(std::fabs(other.model(0)[0] - now[0]) > 1e-3);
}

TEST_CASE("slopes of phi and e are those of <D, H(e; phi)> by differences") {
    // A step of rate 1 and nothing else leaves x - gradient.
    for (const std::size_t hidden : {0u, 1u, 3u}) {
        CAPTURE(hidden);
        const PFedHn<> method{.embedding = 3, .hidden = hidden, .width = 5, .hyper_rate = 1, .hyper_momentum = 0,
                              .hyper_decay = 0, .hyper_clip = 0};
        HyperServer<7> hyper(method, 4);
        const State before = hyper.server;
        const auto ups = three_uploads(7);
        const auto& d = ups[0].change;
        const Id k = ups[0].from;
        hyper.merge({ups[0]});
        const auto value = [&](const State& at) { return dot(d, method.send(at, k)); };
        const auto difference = [](const Vec<double>& a, const Vec<double>& b) {
            std::vector<double> out;
            for (std::size_t j = 0; j < a.size(); ++j) out.push_back(a[j] - b[j]);
            return out;
        };
        const auto slope_of_phi = support::finite_differences(
            [&](const std::vector<double>& phi) {
                State at = before;
                at.network.phi.x.assign(phi.begin(), phi.end());
                return value(at);
            },
            listed(before.network.phi.x));
        const auto slope_of_e = support::finite_differences(
            [&](const std::vector<double>& e) {
                State at = before;
                at.embeddings[k].x.assign(e.begin(), e.end());
                return value(at);
            },
            listed(before.embeddings[k].x));
        auto got = difference(before.network.phi.x, hyper.server.network.phi.x);
        CHECK(support::relative_error(got, slope_of_phi) < 1e-6);
        const auto got_e = difference(before.embeddings[k].x, hyper.server.embeddings[k].x);
        CHECK(support::relative_error(got_e, slope_of_e) < 1e-6);
        got[0] += 0.02 * *std::max_element(slope_of_phi.begin(), slope_of_phi.end());
        CHECK_FALSE(support::relative_error(got, slope_of_phi) < 1e-6);
    }
}

TEST_CASE("a cohort is one step each in its order, with momentum, decay and clipped norms, as by hand") {
    const PFedHn<> method{.embedding = 3, .hidden = 2, .width = 6, .hyper_rate = 0.05, .hyper_decay = 0.01,
                          .hyper_clip = 3, .embedding_pace = 0.5};
    HyperServer<90> hyper(method, 5);  // more outputs than go through the steps at once
    ByHand by_hand(hyper.server), backwards = by_hand;
    const auto start = hyper.server;
    auto ups = three_uploads(90);
    ups[1].change = Vec<double>(90, 1e-3);  // not clipped; the others are
    auto reversed = ups;
    std::reverse(reversed.begin(), reversed.end());
    for (int round = 0; round < 2; ++round) {
        hyper.merge(ups);
        by_hand.merge(method, ups);
        backwards.merge(method, reversed);
    }
    CHECK(apart(hyper.server, by_hand) < 1e-13);  // sums in another order
    CHECK(apart(hyper.server, backwards) > 1e-6);  // momentum remembers who came first
    for (const auto change : {&PFedHn<>::hyper_momentum, &PFedHn<>::hyper_decay, &PFedHn<>::hyper_clip}) {
        PFedHn<> other = method;
        other.*change *= 0.5;
        ByHand wrong(start);
        for (int round = 0; round < 2; ++round) wrong.merge(other, ups);
        CHECK(apart(hyper.server, wrong) > 1e-6);
    }
    for (const Id absent : {1u, 4u}) CHECK(same_bits(hyper.server.embeddings[absent].x, start.embeddings[absent].x));
    for (const Id came : {0u, 2u, 3u})
        CHECK_FALSE(same_bits(hyper.server.embeddings[came].x, start.embeddings[came].x));
}

TEST_CASE("all start at the initial w, so round one trains as FedAvg does, bit for bit") {
    Federation<PFedHn<>, Net> run{{}, toy_data(), {}, usual};
    Federation<FedAvg<>, Net> average{{}, toy_data(), {}, usual};
    const auto w = run.setup().initial;
    for (Id k = 0; k < run.size(); ++k) CHECK(same_bits(send_to<PFedHn<>, float>({}, run.server(), k), w));
    const auto ours = run.round(sample::Everyone{}), theirs = average.round(sample::Everyone{});
    CHECK(ours.train_loss == theirs.train_loss);
    CHECK(run.round(sample::Everyone{}).train_loss != average.round(sample::Everyone{}).train_loss);
    for (Id k = 1; k < run.size(); ++k)
        CHECK_FALSE(same_bits(send_to<PFedHn<>, float>({}, run.server(), k),
                              send_to<PFedHn<>, float>({}, run.server(), 0)));
}

TEST_CASE("embeddings of 0, no hidden layer, plain steps of 1 / cohort: FedAvg with equal weights") {
    const auto distance_after = [](double rate) {
        Federation<PFedHn<>, Net> run{{}, toy_data(),
                                      {.hidden = 0, .spread = 0, .hyper_rate = rate, .hyper_momentum = 0,
                                       .hyper_decay = 0, .hyper_clip = 0}, usual};
        Federation<FedAvg<>, Net> average{{}, toy_data(), {.weights = Weigh::uniform}, usual};
        run.run(3, sample::Uniform{4}), average.run(3, sample::Uniform{4});
        return support::distance(send_to<PFedHn<>, float>({}, run.server(), 2), average.server().w);
    };
    CHECK(distance_after(0.25) < 1e-5);  // w - w' and back, and a sum in another order
    CHECK(distance_after(0.2) > 1e-3);
}

TEST_CASE("clients far apart get models of their own; embeddings that stay at 0 give all the same") {
    const auto models = [](double spread, std::size_t hidden) {
        Federation<PFedHn<>, Line> run{{}, support::quadratic_data({{{1, -2}}, {{1, 0}}, {{1, 3}}, {{1, 5}}}),
                                       {.local = {.rate = 0.1}, .epochs = 5, .embedding = 4, .hidden = hidden,
                                        .width = 20, .spread = spread, .hyper_decay = 0},
                                       {.batch = 0}, Vec<double>{1}};
        run.run(1500, sample::Uniform{1});
        std::vector<double> all;
        for (Id k = 0; k < 4; ++k) all.push_back(send_to<PFedHn<>, double>({}, run.server(), k)[0]);
        return all;
    };
    const auto own = models(1, 2);
    for (const auto& [k, c] : {std::pair{0u, -2.0}, {1u, 0.0}, {2u, 3.0}, {3u, 5.0}})
        CHECK(std::fabs(own[k] - c) < 0.05);
    const auto same = models(0, 0);
    CHECK(same[0] == same[3]);
}

TEST_CASE("a stranger is served H of the mean of all embeddings") {
    const PFedHn<> method{.embedding = 3, .hidden = 1, .width = 5};
    HyperServer<4> hyper(method, 2);
    auto alone = hyper.server;
    alone.embeddings.resize(1);
    for (std::size_t j = 0; j < 3; ++j)
        alone.embeddings[0].x[j] = (hyper.server.embeddings[0].x[j] + hyper.server.embeddings[1].x[j]) / 2;
    CHECK(same_bits(hyper.model(2), method.send(alone, 0)));
    CHECK(same_bits(hyper.model(99), hyper.model(2)));
    CHECK_FALSE(same_bits(hyper.model(2), hyper.model(0)));

    const auto data = toy_data({.unseen = 1});
    Federation<PFedHn<>, Net> run{{}, data, {}, usual};
    run.run(2, sample::Everyone{});
    Workspace<float> workspace;
    const auto share = data.unseen(0);
    const Batch<float> b(*share.examples, share.test);
    Vec<float> got(share.test.size() * Toy::classes), expected(got.size());
    run.at_unseen(0, workspace, [&](const auto& client, auto received, auto& space) {
        client.serve(std::move(received), run.rounds_done(), space)(b, got);
    });
    Net{}.predict(run.server().network(run.server().mean_embedding()), b, expected);
    CHECK(same_bits(got, expected));
}

TEST_CASE("d numbers go down; d numbers and who sent them come up") {
    Federation<PFedHn<>, Net> run{{}, toy_data(), {}, usual};
    const auto report = run.round(sample::Uniform{4});
    constexpr double d = Net::parameters;
    CHECK(report.formula_bytes_down == 4 * 4 * d);
    CHECK(report.formula_bytes_up == 4 * (4 * d + 8));
}

TEST_CASE("an embedding has 1 + N/4 numbers unless it is said how many") {
    const auto width = [](std::size_t clients, std::size_t embedding) {
        return HyperServer<2>({.embedding = embedding}, clients).server.network.widths;
    };
    CHECK(width(100, 0) == Vec<std::uint64_t>{26, 100, 100, 100, 2});
    CHECK(width(3, 0) == Vec<std::uint64_t>{1, 100, 100, 100, 2});
    CHECK(width(100, 5) == Vec<std::uint64_t>{5, 100, 100, 100, 2});
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed; L-GEN-4") {
    // First embeddings are drawn by clients' numbers, and at rate 0 the network's weights still decay.
    CHECK(support::broken_laws(PFedHn<>{.width = 20}, {.rate_zero_serves = false, .relabels = false}) == "");
    CHECK(support::broken_laws(PFedHn<>{.steps = 3, .width = 20, .hyper_decay = 0}, {.relabels = false}) == "");
    CHECK(support::broken_laws(PFedHn<>{.width = 20, .hyper_momentum = 0, .hyper_decay = 0}, {.relabels = false}) ==
          "");
    CHECK(support::broken_laws(PFedHn<>{.width = 20}, {.rate_zero_serves = false}) != "");
}

TEST_CASE("L-GEN-9 embeddings that begin equal depend on no number: steps follow the plan") {
    CHECK(support::broken_laws(PFedHn<>{.width = 20, .spread = 0, .hyper_decay = 0}) == "");
    Federation<PFedHn<>, Net> run{{}, toy_data(), {.spread = 0}, usual};
    run.run(3, sample::Everyone{});
    CHECK_FALSE(same_bits(run.server().embeddings[0].x, run.server().embeddings[1].x));  // the law had something to see
}

#ifdef _OPENMP
TEST_CASE("a network large enough for several threads ends in the bits of one") {
    using Long = support::Quadratic<double, 8000>;  // 6 steps of 100 x 8000 weights
    const auto state_after = [](std::size_t threads) {
        const auto data = support::quadratic_data({{{1, 0}}, {{1, 1}}, {{2, 2}}, {{1, 3}}, {{1, 4}}, {{3, 5}}});
        Federation<PFedHn<>, Long> run{{}, data, {.hidden = 1}, {.batch = 0}};
        run.run(2, sample::Everyone{}, exec::OpenMp{threads});
        return run.fingerprint();
    };
    CHECK(state_after(1) == state_after(2));
    CHECK(state_after(1) == state_after(3));
}
#endif

TEST_CASE("wrong settings are refused before round one") {
    const auto refused = [](const PFedHn<>& method, const char* sentence) {
        CHECK_THROWS_WITH_AS((Federation<PFedHn<>, Net>{{}, toy_data(), method}), doctest::Contains(sentence),
                             ConfigError);
    };
    constexpr double infinite = std::numeric_limits<double>::infinity();
    refused({.hyper_rate = -1}, "hyper_rate must be 0 or more");
    refused({.hyper_momentum = 1}, "hyper_momentum must lie in [0, 1), not 1");
    refused({.hyper_decay = infinite}, "hyper_decay must be 0 or more, and finite");
    refused({.hyper_clip = -1}, "hyper_clip must be 0 (off) or a positive norm");
    refused({.embedding_pace = -1}, "embedding_pace must be 0 or more");
    refused({.spread = infinite}, "spread must be 0 or more, and finite");
    refused({.width = 0}, "width must be at least 1; without hidden layers, hidden is 0");
    refused({.width = std::size_t{1} << 40}, "embedding and width may be at most 65536");
    refused({.local = {.rate = -1}}, "rate must be 0 or more");
    refused({.embedding = std::size_t{1} << 40, .hidden = 0}, "embedding and width may be at most 65536");
    refused({.hidden = 64, .width = 65536}, "more than memory can hold; make `hidden`, `width` or `embedding`");
    CHECK_NOTHROW((Federation<PFedHn<>, Net>{{}, toy_data(), {.hidden = 0, .width = std::size_t{1} << 40}}));
}

TEST_CASE("uploads and downloads that do not fit are refused, and nobody speaks for another") {
    const Setup<PFedHn<>, Net> setup(Net{}, {.width = 10}, usual);
    Server<PFedHn<>, Net> server(setup, 3);
    const auto before = server.state().embeddings;
    server.open_round({{.client = 0}, {.client = 1}});
    const std::size_t d = setup.initial.size();
    CHECK(server.accept(0, {Vec<float>(d, 1.0f), 2}) == Verdict::not_admitted);
    CHECK(server.accept(0, {Vec<float>(d - 1, 1.0f), 0}) == Verdict::not_admitted);
    CHECK(server.accept(1, {Vec<float>(d, std::numeric_limits<float>::quiet_NaN()), 1}) == Verdict::not_finite);
    CHECK(server.accept(0, {Vec<float>(d, 1.0f), 0}) == Verdict::accepted);
    CHECK(server.close_round().merged == 1);
    CHECK(same_bits(server.state().embeddings[1].x, before[1].x));
    CHECK_FALSE(PFedHn<>{}.admits(server.state(), 0, PFedHn<>::Upload<float>{Vec<float>(d), 3}));

    const auto data = toy_data();
    Client<PFedHn<>, Net> client(setup, 0, data[0]);
    const auto frame = [&](std::size_t n) { return io::encode_frame(io::Kind::download, d, 0, 0, Vec<float>(n)); };
    CHECK_THROWS_WITH_AS(client.visit(frame(d + 1)), doctest::Contains("it has a length of"), WireError);
    CHECK_NOTHROW(client.visit(frame(d)));
}

}  // namespace pfedhn_test
