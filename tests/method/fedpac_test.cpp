// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/fedpac.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <tessera/method/fedrep.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/answers.hpp>
#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace fedpac_test {

using namespace tessera;
using support::answers;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Dnn<Toy::width, 6, Toy::classes>;  // 54 numbers below the head, 28 in it
using Run = Federation<FedPac<>, Net>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};
constexpr double body = 54, head = 28, means = 6 * Toy::classes;

// A server of the method and a cohort of uploads, in double: 2 classes, 2 features.
using Small = nn::Dnn<3, 2, 2, double>;  // 8 numbers below the head, 6 in it
using Upload = FedPac<>::Upload<double>;
struct Meeting {
    FedPac<> method{};
    Small model{};
    Workspace<double> workspace{};
    Vec<double> initial = initial_parameters(Small{}, Key{2});
    Context<Small> context{.model = &model, .key = Key{7}, .initial = &initial, .workspace = &workspace};
    FedPac<>::Server<double> server = method.open(context, initial, 5);

    void merge(const std::vector<Upload>& ups) { method.merge(context, server, std::span<const Upload>(ups)); }
};
template <class Me>
Vec<float> global_of(const Federation<Me, Net>& run) {
    return run.setup().method.global(run.server(), run.setup().initial);
}
Upload upload(Id from, double number, Vec<double> mu, Vec<std::uint32_t> counts, double variance) {
    return {Vec<double>(8, number), 1, Vec<double>(6, number), {std::move(mu), std::move(counts), variance}, from};
}
}  // namespace

TEST_CASE("lambda = 0 without collaboration is FedRep, bit for bit, for the epochs given, also who never came") {
    for (const std::size_t epochs : {1u, 2u}) {
        FedRep<> rep;
        rep.order.v.rate = 0.05;
        rep.order.u.rate = 0.1;
        rep.order.epochs_v = 3 - epochs;
        rep.order.epochs_u = epochs;
        const FedPac<> pac{.local = {.rate = 0.1}, .personal = {.rate = 0.05}, .epochs = epochs,
                           .head_epochs = 3 - epochs, .lambda = 0, .collaborate = false};
        auto pulled = pac, mixed = pac;
        pulled.lambda = 0.1;
        mixed.collaborate = true;
        Federation<FedRep<>, Net> expected{{}, toy_data({.unseen = 1}), rep, usual};
        Run run{{}, toy_data({.unseen = 1}), pac, usual}, aligned{{}, toy_data(), pulled, usual};
        Run helped{{}, toy_data(), mixed, usual};
        for (int r = 0; r < 4; ++r) {
            expected.round(sample::Uniform{3}), run.round(sample::Uniform{3});
            aligned.round(sample::Uniform{3}), helped.round(sample::Uniform{3});
            CHECK(same_bits(run.server().w, expected.server().w));
            CHECK(same_bits(aligned.server().w, expected.server().w) == (r == 0));  // no centroids in round one
            for (Id k = 0; k < run.size(); ++k) {
                CHECK(same_bits(run.client(k).v, expected.client(k).v));
                CHECK(same_bits(answers(run, k), answers(expected, k)));
            }
        }
        CHECK(same_bits(global_of(run), global_of(expected)));
        CHECK_FALSE(same_bits(helped.server().w, expected.server().w));  // others' heads lead elsewhere
    }
}

TEST_CASE("a cohort of one mixes nothing: with lambda = 0 its client is FedRep's") {
    FedRep<> rep;
    const FedPac<> pac{.lambda = 0};
    Federation<FedRep<>, Net> expected{{}, toy_data({.clients = 1}), rep, usual};
    Run run{{}, toy_data({.clients = 1}), pac, usual};
    for (int r = 0; r < 3; ++r) {
        expected.round(sample::Everyone{}), run.round(sample::Everyone{});
        CHECK(same_bits(run.server().w, expected.server().w));
        CHECK(same_bits(run.server().heads[0], expected.client(0).v));
    }
}

TEST_CASE("means, counts and variance are those of the definition, at the model that is uploaded") {
    const FedPac<> method{.lambda = 0.1};
    const auto data = toy_data();
    const Setup<FedPac<>, Net> setup(Net{}, method, usual);
    Client<FedPac<>, Net> client(setup, 2, data[2]);
    Workspace<float> workspace;
    const Server<FedPac<>, Net> server(setup, 6);
    const auto up = client.visit(method.send(server.state(), 2), 0, workspace);

    Vec<float> w = up.x;  // the head comes last in this model
    w.insert(w.end(), up.head.begin(), up.head.end());
    const auto share = data[2];
    const Batch<float> all(*share.examples, share.train);
    Vec<float> z(all.size() * 6);
    Net{}.features(w, all, z);
    const auto n = static_cast<double>(all.size());
    double variance = 0;
    for (std::size_t c = 0; c < Toy::classes; ++c) {
        double count = 0, trace = 0, squared = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all.label(i) != c) continue;
            count += 1;
            for (std::size_t j = 0; j < 6; ++j) trace += std::pow(static_cast<double>(z[6 * i + j]), 2);
        }
        CHECK(up.statistics.counts[c] == count);
        if (count == 0) continue;
        for (std::size_t j = 0; j < 6; ++j) {
            double mean = 0;
            for (std::size_t i = 0; i < all.size(); ++i)
                if (all.label(i) == c) mean += static_cast<double>(z[6 * i + j]) / count;
            CHECK(up.statistics.means[6 * c + j] == doctest::Approx(mean).epsilon(1e-6));  // kept in float
            squared += mean * mean;
        }
        const double p = count / n;
        variance += p * trace / count - p * p * squared;
    }
    CHECK(up.statistics.variance == doctest::Approx(variance / n).epsilon(1e-12));
    CHECK(up.statistics.variance > 0);
    CHECK(up.weight == n);
}

TEST_CASE("centroids go by class counts; a class that nobody brings keeps its own, or stays unknown") {
    Meeting meeting;
    meeting.merge({upload(0, 1, {1, 2, 0, 0}, {3, 0}, 1), upload(3, 1, {5, 6, 0, 0}, {1, 0}, 1)});
    CHECK(meeting.server.centroids.known[0]);
    CHECK_FALSE(meeting.server.centroids.known[1]);
    CHECK(meeting.server.centroids.rows == Vec<double>{2, 3, 0, 0});  // (3 * 1 + 5) / 4, (3 * 2 + 6) / 4
    meeting.merge({upload(1, 1, {0, 0, 7, 8}, {0, 2}, 1)});
    CHECK(meeting.server.centroids.rows == Vec<double>{2, 3, 7, 8});
    CHECK(meeting.server.centroids.known.count() == 2);
}

TEST_CASE("heads by hand: those alike share by inverse variance, those apart do not, far ones are left out") {
    // q = p mu; clients 0 and 1 are equal, client 2 is at a squared distance of 4 from them.
    Meeting meeting;
    const std::vector<Upload> ups{upload(0, 10, {1, 1, 0, 0}, {2, 0}, 1), upload(1, 20, {1, 1, 0, 0}, {5, 0}, 3),
                                  upload(4, 40, {1, 3, 0, 0}, {1, 0}, 2)};
    meeting.merge(ups);
    // Client 0 and 1: Q = diag(1, 3, 2 + 4); weights 1 : 1/3 : 1/6 = 6/9, 2/9, 1/9.
    const double alike = (6 * 10 + 2 * 20 + 1 * 40) / 9.0;
    CHECK(meeting.server.heads[0][0] == doctest::Approx(alike).epsilon(1e-12));
    CHECK(meeting.server.heads[1][5] == doctest::Approx(alike).epsilon(1e-12));
    // Client 4: Q = (1+4, 4, 0; 4, 3+4, 0; 0, 0, 2); Q^-1 1 = (3/19, 1/19, 1/2), the sum is 27/38.
    const double apart = (6 * 10 + 2 * 20 + 19 * 40) / 27.0;
    CHECK(meeting.server.heads[4][2] == doctest::Approx(apart).epsilon(1e-12));
    CHECK(meeting.server.heads[2].empty());
    CHECK(meeting.server.head.w[0] == doctest::Approx((10 + 20 + 40) / 3.0).epsilon(1e-12));

    // A thousand away: a weight of a millionth, below a thousandth, so none at all. Products of a million lose as many
    // digits of a distance of 0.
    auto far = ups;
    far[2].statistics.means = {1e3, 0, 0, 0};
    meeting.merge(far);
    CHECK(meeting.server.heads[0][0] == doctest::Approx((3 * 10 + 20) / 4.0).epsilon(1e-8));
    CHECK(meeting.server.heads[4] == Vec<double>(6, 40.0));
    // Classes count: equal means of unlike frequency are apart.
    Meeting classes;
    classes.merge({upload(0, 10, {1, 0, 1, 0}, {1, 3}, 0.001), upload(1, 20, {1, 0, 1, 0}, {3, 1}, 0.001)});
    CHECK(classes.server.heads[0][0] < 10.1);
    CHECK(classes.server.heads[1][0] > 19.9);
}

TEST_CASE("equal clients without variance share evenly, and one alone keeps its head, bit for bit") {
    Meeting meeting;
    std::vector<Upload> ups;
    for (Id k = 0; k < 4; ++k) ups.push_back(upload(k, 1.0 + k, {0.1, 0.2, 0.3, 0.7}, {1, 2}, 0));
    meeting.merge(ups);
    for (Id k = 0; k < 4; ++k) CHECK(meeting.server.heads[k] == Vec<double>(6, 2.5));
    for (auto& up : ups) up.statistics.means.assign(4, 0);
    meeting.merge(ups);
    CHECK(meeting.server.heads[3] == Vec<double>(6, 2.5));
    meeting.merge({upload(2, 0.1, {1, 2, 3, 4}, {1, 1}, 0.3)});
    CHECK(meeting.server.heads[2] == Vec<double>(6, 0.1));
}

TEST_CASE("the pull brings clients' features of a class together") {
    // Between the means of a class on two clients, at what each uploads, relative to their size.
    const auto spread = [](double lambda) {
        const FedPac<> method{
            .local = {.rate = 0.05}, .personal = {.rate = 0.05}, .epochs = 3, .lambda = lambda};
        Run run{{}, toy_data(), method, usual};
        run.run(8, sample::Everyone{});
        Workspace<float> workspace;
        Vec<Vec<float>> found;
        for (Id k = 0; k < 2; ++k)
            run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
                auto copy = client;
                found.push_back(copy.visit(received, 8, space).statistics.means);
                return 0;
            });
        double apart = 0, size = 0;
        for (std::size_t j = 0; j < found[0].size(); ++j) {
            apart += std::pow(static_cast<double>(found[0][j] - found[1][j]), 2);
            size += std::pow(static_cast<double>(found[0][j]), 2);
        }
        return apart / size;
    };
    CHECK(spread(1) < 0.5 * spread(0));
}

TEST_CASE("who never came is served the extractor and the mean head; who came its own mixture") {
    Run run{{}, toy_data({.unseen = 1}), {}, usual};
    run.run(2, sample::Uniform{3});
    const auto& server = run.server();
    const auto whole = [&](const Vec<float>& h) {
        Vec<float> w = server.w;
        w.insert(w.end(), h.begin(), h.end());
        return w;
    };
    CHECK(same_bits(global_of(run), whole(server.head.w)));
    std::size_t came = 0;
    for (Id k = 0; k < run.size(); ++k) {
        const bool has = !server.heads[k].empty();
        const auto w = whole(has ? server.heads[k] : server.head.w);
        came += has;
        const auto share = run.data()[k];
        Vec<float> expected(share.test.size() * Toy::classes);
        Net{}.predict(w, Batch<float>(*share.examples, share.test), expected);
        CHECK(same_bits(answers(run, k), expected));
        if (has) CHECK_FALSE(same_bits(server.heads[k], server.head.w));
    }
    CHECK(came >= 3);
    CHECK(came < 6);
    CHECK(same_bits(run.setup().method.send(server, 99).head, server.head.w));
}

TEST_CASE("what travels: extractor, head and centroids down; extractor, head, means, counts and numbers up") {
    constexpr double scalars = 8 + 8 + 8;  // weight, variance, sender
    const auto bytes = [](const FedPac<>& method, std::size_t rounds) {
        Run run{{}, toy_data(), method, usual};
        run.run(rounds, sample::Everyone{});
        const auto report = run.round(sample::Everyone{});
        return std::pair{report.formula_bytes_down / 6, report.formula_bytes_up / 6};
    };
    const double up = 4 * (body + head + means + Toy::classes) + scalars;
    CHECK(bytes({}, 0) == std::pair{4 * (body + head), up});  // no centroids in round one
    CHECK(bytes({}, 1) == std::pair{4 * (body + head + means) + 1, up});
    CHECK(bytes({.lambda = 0}, 1) == std::pair{4 * (body + head), up});
    CHECK(bytes({.collaborate = false}, 1) == std::pair{4 * (body + means) + 1, up - 4 * head});
    CHECK(bytes({.lambda = 0, .collaborate = false}, 1) == std::pair{4 * body, 4 * body + scalars});
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws<FedPac<>, Net>({}) == "");
    CHECK(support::broken_laws<FedPac<>, Net>({.epochs = 2, .head_epochs = 0, .lambda = 0.5}) == "");
    CHECK(support::broken_laws<FedPac<>, Net>({.lambda = 0}) == "");
    CHECK(support::broken_laws<FedPac<>, Net>({.lambda = 0.5, .collaborate = false}) == "");
}

TEST_CASE("a network of run-time widths and a model chosen at run time give the bits of the network") {
    Run run{{}, toy_data(), {}, usual};
    Federation<FedPac<>, nn::Network<>> loose{nn::mlp({Toy::width, 6, Toy::classes}), toy_data(), {}, usual};
    Federation<FedPac<>, nn::AnyModel<float>> any{Net{}, toy_data(), {}, usual};
    run.run(3, sample::Uniform{4}), loose.run(3, sample::Uniform{4}), any.run(3, sample::Uniform{4});
    CHECK(run.fingerprint() == loose.fingerprint());
    CHECK(run.fingerprint() == any.fingerprint());
}

TEST_CASE("wrong settings and models, and centroids of another shape, are refused") {
    const auto data = toy_data();
    const doctest::Contains size("lambda must be 0 or more"), hidden("take one with a hidden layer");
    CHECK_THROWS_WITH_AS((Run{{}, data, {.lambda = -1}}), size, ConfigError);
    CHECK_THROWS_WITH_AS((Run{{}, data, {.lambda = std::numeric_limits<double>::infinity()}}), size, ConfigError);
    using Any = Federation<FedPac<>, nn::AnyModel<float>>;
    CHECK_THROWS_WITH_AS((Any{nn::Mclr<Toy::width, Toy::classes>{}, data, {}}), hidden, ConfigError);
    CHECK_THROWS_WITH_AS((Any{support::Quadratic<float>{}, data, {}}), hidden, ConfigError);
    using Loose = Federation<FedPac<>, nn::Network<>>;
    CHECK_THROWS_WITH_AS((Loose{nn::mlp({Toy::width, Toy::classes}), data, {}}), hidden, ConfigError);
    CHECK_NOTHROW((Loose{nn::mlp({Toy::width, 6, Toy::classes}), data, {}}));

    const Setup<FedPac<>, Net> setup(Net{}, {}, usual);
    Client<FedPac<>, Net> client(setup, 0, data[0]);
    Workspace<float> workspace;
    auto down = setup.method.send(Server<FedPac<>, Net>(setup, 6).state(), 0);
    down.centroids = {Vec<float>(20), Mask(Toy::classes, true)};
    CHECK_THROWS_WITH_AS(client.visit(down, 0, workspace), doctest::Contains("its lengths are not those"), WireError);
    down.centroids = {Vec<float>(24), Mask(Toy::classes, true)};
    CHECK_NOTHROW(client.visit(down, 0, workspace));
}

TEST_CASE("uploads that do not fit are refused") {
    const Meeting meeting;
    const auto sound = upload(4, 1, {1, 2, 3, 4}, {1, 2}, 0.5);
    const auto admits = [&](auto&& spoil, const FedPac<>& method = {}) {
        auto up = sound;
        spoil(up);
        return method.admits(meeting.server, 4, up);
    };
    CHECK(admits([](Upload&) {}));
    CHECK_FALSE(admits([](Upload& up) { up.from = 5; }));
    CHECK_FALSE(admits([](Upload& up) { up.x.pop_back(); }));
    CHECK_FALSE(admits([](Upload& up) { up.weight = -1; }));
    CHECK_FALSE(admits([](Upload& up) { up.head.push_back(1); }));
    CHECK_FALSE(admits([](Upload& up) { up.head.clear(); }));
    CHECK_FALSE(admits([](Upload& up) { up.statistics.means.pop_back(); }));
    CHECK_FALSE(admits([](Upload& up) { up.statistics.counts.push_back(1); }));
    CHECK_FALSE(admits([](Upload& up) { up.statistics.counts = {0, 0}; }));
    CHECK_FALSE(admits([](Upload& up) { up.statistics.variance = -1e-9; }));
    const FedPac<> apart{.lambda = 0, .collaborate = false};
    CHECK(admits([](Upload& up) { up.head.clear(), up.statistics = {}; }, apart));
    CHECK_FALSE(admits([](Upload&) {}, apart));
}

}  // namespace fedpac_test
