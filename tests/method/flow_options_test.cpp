// SPDX-License-Identifier: BSD-3-Clause
// What Flow can be told: how data is halved, the order of steps, where local models start, how clients are served.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include <tessera/gate/chain.hpp>
#include <tessera/gate/fixed.hpp>
#include <tessera/method/fallback.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/answers.hpp>
#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>
#include <support/toy_place.hpp>

namespace flow_options_test {

using namespace tessera;
using support::answers;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
using Router = gate::Chain<5>;
using Method = Flow<Router>;
constexpr Settings usual{.seed = 3, .batch = 5};

struct Split {
    std::vector<Index> local, global;
};
Split split_of(std::size_t n, const Halving& how, std::size_t batch = 2, std::uint64_t client = 1) {
    std::vector<Index> ids(n);
    std::iota(ids.begin(), ids.end(), Index{10});
    const Context<Net> at{.ids = ids, .key = Key{client}, .batch = batch};
    const detail::Halves halves(at, how);
    const auto copy = [](std::span<const Index> s) { return std::vector<Index>(s.begin(), s.end()); };
    return {copy(halves.local(at).ids), copy(halves.global(at).ids)};
}
bool covers(Split s, std::size_t n) {
    std::vector<Index> all = s.local;
    all.insert(all.end(), s.global.begin(), s.global.end());
    std::ranges::sort(all);
    std::vector<Index> ids(n);
    std::iota(ids.begin(), ids.end(), Index{10});
    return all == ids;
}

Vec<float> after(const Method& method, std::size_t rounds = 3) {
    Federation<Method, Net> run{{}, toy_data(), method, usual};
    run.run(rounds, sample::Everyone{});
    return run.server().w;
}

}  // namespace

TEST_CASE("batches 0, 2, 4, ... are zeta_l and 1, 3, 5, ... zeta_g, in stored order") {
    const auto s = split_of(9, {});
    CHECK(s.local == std::vector<Index>{10, 11, 14, 15, 18});
    CHECK(s.global == std::vector<Index>{12, 13, 16, 17});
}

TEST_CASE("other ratios: 25:75 and 75:25") {
    const auto quarter = split_of(16, {.ratio = 0.25}), most = split_of(16, {.ratio = 0.75});
    CHECK(quarter.local == std::vector<Index>{10, 11, 18, 19});
    CHECK(most.global == std::vector<Index>{16, 17, 24, 25});
    CHECK(covers(quarter, 16));
    CHECK(covers(most, 16));
    CHECK(split_of(16, {.split = SplitBy::sample_random, .ratio = 0.25}).local.size() == 4);
}

TEST_CASE("halves are disjoint and never empty, however little there is") {
    for (const auto by : {SplitBy::batch_interleave, SplitBy::sample_random})
        for (const double ratio : {0.1, 0.25, 0.5, 0.75, 0.9})
            for (std::size_t n = 2; n < 12; ++n)
                for (const std::size_t batch : {0u, 1u, 3u, 20u}) {
                    const auto s = split_of(n, {by, ratio}, batch);
                    CHECK(!s.local.empty());
                    CHECK(!s.global.empty());
                    CHECK(covers(s, n));
                }
    CHECK(split_of(4, {}, 20).local == std::vector<Index>{10, 12});  // one batch: by examples
    CHECK(split_of(1, {}).local == std::vector<Index>{10});          // one example: in both
    CHECK(split_of(1, {}).global == std::vector<Index>{10});
    CHECK(split_of(0, {}).local.empty());
    CHECK(split_of(5, {.split = SplitBy::none}).local == split_of(5, {.split = SplitBy::none}).global);
    CHECK(split_of(5, {.split = SplitBy::none}).local.size() == 5);
}

TEST_CASE("a random split is the client's own and the same every time") {
    const Halving random{.split = SplitBy::sample_random};
    CHECK(split_of(20, random).local == split_of(20, random).local);
    CHECK(split_of(20, random, 7).local == split_of(20, random).local);
    CHECK(split_of(20, random).local != split_of(20, random, 2, 2).local);
}

TEST_CASE("an upload weighs |zeta_g|") {
    support::ToyPlace<Net> place;
    const auto at = place.context();
    for (const auto& [halves, expected] : {std::pair{Halving{}, std::size_t{7}},
                                           std::pair{Halving{.split = SplitBy::none}, std::size_t{17}}}) {
        const Method method{.halves = halves};
        Nothing me;
        const auto up = visit_at<Method, Net>(method, at, detail::routed(method, at).start(place.initial, Key{1}), me);
        CHECK(up.weight == static_cast<double>(expected));
    }
}

TEST_CASE("the four orders of steps") {
    std::vector<Vec<float>> ends;
    for (const auto order : {Alternate::batch, Alternate::epoch, Alternate::router_first, Alternate::global_first})
        ends.push_back(after({.joint_epochs = 2, .alternate = order}, 2));
    for (std::size_t a = 0; a < ends.size(); ++a)
        for (std::size_t b = 0; b < a; ++b) CHECK_FALSE(same_bits(ends[a], ends[b]));
    // One epoch: a pass each is all of one kind before the other.
    CHECK(same_bits(after({.alternate = Alternate::epoch}), after({.alternate = Alternate::router_first})));

    // By name: what runs when, over two epochs of three batches.
    const auto data = toy_data();
    Batches<float> batches(*data[0].examples);
    std::vector<Index> ids(6);
    std::iota(ids.begin(), ids.end(), Index{0});
    for (std::size_t i = 0; i < 6; ++i) batches.append(std::span<const Index>(ids).subspan(i, 1), Key{i});
    const auto order_of = [&](Alternate how) {
        std::string seen;
        Vec<float> x;
        auto router = [&](auto&, const auto& b) { seen += static_cast<char>('a' + b.ids()[0]); };
        auto global = [&](auto&, const auto& b) { seen += static_cast<char>('A' + b.ids()[0]); };
        detail::take_turns(how, batches, 3, x, router, global);
        return seen;
    };
    CHECK(order_of(Alternate::batch) == "aAbBcCdDeEfF");
    CHECK(order_of(Alternate::epoch) == "abcABCdefDEF");
    CHECK(order_of(Alternate::router_first) == "abcdefABCDEF");
    CHECK(order_of(Alternate::global_first) == "ABCDEFabcdef");
}

TEST_CASE("averaged_local: the mean of the clients' local models travels and is where the next ones start") {
    const Method method{.local_epochs = 2, .local_init = LocalInit::averaged_local};
    Federation<Method, Net> run{{}, toy_data(), method, usual};
    const std::size_t d = Net::parameters, with = run.server().w.size();
    CHECK(with == 2 * d + detail::routed(method, Context<Net>{.model = &run.setup().model}).router_size());
    run.run(2, sample::Everyone{});
    const auto& x = run.server().w;
    CHECK_FALSE(std::equal(x.data(), x.data() + d, x.data() + x.size() - d));
    CHECK(after({.local_epochs = 2}, 1).size() == with - d);
    // In round one both start at w_0; from round two on they differ.
    const auto shared = [&](const Vec<float>& v) { return Vec<float>(v.data(), v.data() + (with - d)); };
    CHECK(same_bits(shared(after(method, 1)), after({.local_epochs = 2}, 1)));
    CHECK_FALSE(same_bits(shared(after(method, 2)), after({.local_epochs = 2}, 2)));
}

TEST_CASE("clients are served with an adapted router, or with the one received; new clients as well") {
    const auto data = toy_data({.unseen = 2});
    const auto served = [&](bool adapts, double gamma) {
        Federation<Method, Net> run{{},
                                    data,
                                    {.local = {.rate = 0.3},
                                     .local_epochs = 4,
                                     .joint_epochs = 4,
                                     .routing = {.gamma = gamma, .inference = nn::Inference::soft},
                                     .eval_adapt_psi = adapts},
                                    usual};
        run.run(2, sample::Everyone{});
        return std::pair{run.server().w, answers(run, 1)};
    };
    const auto adapted = served(true, 0.01), received = served(false, 0.01);
    CHECK(same_bits(adapted.first, received.first));
    CHECK_FALSE(same_bits(adapted.second, received.second));

    Federation<Method, Net> run{{}, data, {.local = {.rate = 0.3}, .local_epochs = 4}, usual};
    run.run(5, sample::Everyone{});
    const auto unseen = evaluate<Which::personal, SplitOf::test, Whom::unseen>(run);
    CHECK(unseen.accuracy(Average::pooled).value > 0.25);  // of four classes, one of them guessed
    CHECK(run.server().w.size() > Net::parameters);
    const double global = evaluate<Which::global>(run).accuracy(Average::pooled).value;
    const double personal = evaluate<Which::personal>(run).accuracy(Average::pooled).value;
    CHECK(personal > global);
}

TEST_CASE("eval_adapt_global: clients are served what a visit leaves; otherwise w_g as received") {
    support::ToyPlace<Net> place;
    const auto at = place.context();
    const auto& w0 = place.initial;
    const auto begins = [](const Vec<float>& x, const Vec<float>& with, std::size_t n) {
        return same_bits(Vec<float>(x.data(), x.data() + n), Vec<float>(with.data(), with.data() + n));
    };
    for (const bool router : {true, false})
        for (const bool global : {true, false}) {
            CAPTURE(router);
            CAPTURE(global);
            const Method method{.local = {.rate = 0.1, .momentum = 0.5}, .local_epochs = 2, .joint_epochs = 2,
                                .eval_adapt_psi = router, .eval_adapt_global = global};
            const Vec<float> sent = detail::routed(method, at).start(w0, Key{1});
            Nothing me;
            const auto left = visit_at<Method, Net>(method, at, sent, me).x;
            const auto served = method.serve(at, sent, Nothing{}).parameters();
            CHECK(begins(served, left, sent.size()) == (router && global));
            CHECK(begins(served, sent, w0.size()) == !global);
            CHECK(begins(served, sent, sent.size()) == (!router && !global));
        }
}

TEST_CASE("mix = output has one gate") {
    using One = Flow<gate::Chain<>>;
    const One method{.routing = {.mix = MixAt::output}};
    Federation<One, Net> run{{}, toy_data(), method, usual};
    CHECK(run.server().w.size() == Net::parameters + 2 * Toy::width + 2);
    run.run(2, sample::Everyone{});
    CHECK(support::broken_laws<One, Net>(method) == "");
    CHECK_THROWS_AS((Federation<One, Net>{{}, toy_data(), One{}, usual}), ConfigError);  // two blocks, one gate
}

TEST_CASE("a model chosen at run time has the same bits; one without blocks is refused before round one") {
    Federation<Flow<>, nn::AnyModel<float>> any{Net{}, toy_data(), {.gate = {.first = 5}}, usual};
    any.run(2, sample::Everyone{});
    CHECK(same_bits(any.server().w, after({}, 2)));
    struct Bare {
        using Real = float;
        Layout layout() const { return {}; }
        std::size_t outputs() const { return 1; }
        double gradient(In<float>, const Batch<float>&, Out<float>) const { return 0; }
        void predict(In<float>, const Batch<float>&, Out<float>) const {}
    };
    CHECK_THROWS_WITH_AS((Federation<Flow<>, nn::AnyModel<float>>{nn::AnyModel<float>(Bare{}), toy_data(), {}, usual}),
                         "this model has no blocks to route between, which the method needs", ConfigError);
}

TEST_CASE("Fallback takes w_g as Flow's global model") {
    const auto gap = [](double q0) {
        using Safe = Fallback<Flow<gate::Fixed>>;
        Federation<Safe, Net> run{{}, toy_data(), {.inner = {.gate = {.q0 = q0}, .local_epochs = 20}}, usual};
        run.run(2, sample::Everyone{});
        return evaluate<Which::personal>(run).loss(Average::pooled).value -
               evaluate<Which::global>(run).loss(Average::pooled).value;
    };
    CHECK(gap(1) == 0);
    CHECK(gap(0) != 0);
}

TEST_CASE("wrong settings are refused with a sentence") {
    const auto refused = [](const Method& method, const char* sentence) {
        CHECK_THROWS_WITH_AS((Federation<Method, Net>{{}, toy_data(), method, usual}), sentence, ConfigError);
    };
    refused({.halves = {.ratio = 0}}, "ratio must lie in (0, 1), not 0.000000; split = none gives all data to both");
    refused({.routing = {.gamma = -1}}, "gamma must be 0 or more, and finite, not -1.000000");
    refused({.gate = {.dropout = 1}}, "dropout must lie in [0, 1), not 1.000000");
    CHECK_THROWS_WITH_AS((Federation<Flow<gate::Chain<5, 4>>, Net>{{}, toy_data(), {}, usual}),
                         "a router with 2 hidden widths serves 3 blocks, the model has 2; give it one width less than "
                         "there are blocks",
                         ConfigError);
}

}  // namespace flow_options_test
