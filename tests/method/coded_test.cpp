// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/coded.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

#include <tessera/codec.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/mask/dynamic_sparse.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fallback.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedem.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/privacy_statement.hpp>
#include <tessera/method/private.hpp>
#include <tessera/method/scaffold.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/keyed_noise.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>

namespace coded_test {

using namespace tessera;
using Net = nn::Dnn<support::Toy::width, 16, support::Toy::classes>;
using Noisy = rule::DpSgd<support::KeyedNoise>;

namespace {

template <class Me>
Federation<Me, Net> after(const Me& method, std::size_t rounds, Settings settings = {.seed = 3, .batch = 5, .rounds = 9}) {
    Federation<Me, Net> run{{}, support::toy_data(), method, settings};
    run.run(rounds, sample::Everyone{});
    return run;
}
double distance(const auto& a, const auto& b) {
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) {
        const double d = static_cast<double>(a[j]) - static_cast<double>(b[j]);
        sum += d * d;
    }
    return std::sqrt(sum);
}
template <class Run>
std::uint64_t bytes_up(const Run& run) {
    auto copy = Federation{Net{}, support::toy_data(), run.setup().method, run.settings()};
    return copy.round(sample::Everyone{}).bytes_up;
}

TEST_CASE("a codec of full width is no codec, bit for bit; one of eight bits is one") {
    const auto same = [](const auto& method) {
        using Me = std::remove_cvref_t<decltype(method)>;
        const auto plain = after(method, 3);
        const auto whole = after(Coded<Me, codec::Whole, codec::Whole>{method}, 3);
        const auto eight = after(Coded<Me, codec::Quantised<8>>{method}, 3);
        CHECK(whole.server().w == plain.server().w);
        CHECK(eight.server().w != plain.server().w);
        for (Id k = 0; k < plain.size(); ++k) {
            Hasher a, b;
            hash_into(a, plain.client(k));
            hash_into(b, whole.client(k).own);
            CHECK(a.finish() == b.finish());
            CHECK(whole.client(k).lost.empty());
        }
    };
    same(FedAvg<>{});
    same(Ditto<>{});
    same(FedAlt<>{});
    same(FedSpa<>{});
    same(FedAvg<rule::Sgd, fold::ServerAdam<>>{});
}

TEST_CASE("eight bits stay near, four less so, and the bytes shrink") {
    const FedAvg<> method{.local = {.rate = 0.1}};
    const auto plain = after(method, 3);
    const auto eight = after(Coded<FedAvg<>>{method}, 3);
    const auto four = after(Coded<FedAvg<>, codec::Quantised<4>>{method}, 3);
    const double step = distance(plain.server().w, plain.setup().initial);
    CHECK(distance(eight.server().w, plain.server().w) < 0.01 * step);  // a level is 1/127 of the largest step
    CHECK(distance(four.server().w, plain.server().w) < 0.2 * step);
    CHECK(distance(four.server().w, plain.server().w) > distance(eight.server().w, plain.server().w));
    // 212 numbers: 848 bytes and a frame, and 212 and a scale and a frame.
    CHECK(bytes_up(eight) < bytes_up(plain) / 2);
    CHECK(bytes_up(four) < bytes_up(eight));
}

TEST_CASE("coding both ways, over the wire, streamed or kept: one state") {
    using Me = Coded<FedAvg<>, codec::TopK<codec::Quantised<8>>, codec::Quantised<8>>;
    const Me method{{.local = {.rate = 0.1}}, {.share = 0.1}};
    static_assert(Server<Me, Net>::streams);
    const auto memory = after(method, 4);
    const auto kept = after(method, 4, {.seed = 3, .batch = 5, .rounds = 9, .keep_uploads = true});
    Federation<Me, Net> wire{{}, support::toy_data(), method, {.seed = 3, .batch = 5, .rounds = 9}};
    wire.over_the_wire();
    wire.run(4, sample::Everyone{});
    CHECK(memory.fingerprint() == kept.fingerprint());
    CHECK(memory.fingerprint() == wire.fingerprint());
    CHECK(!memory.client(0).lost.empty());
}

TEST_CASE("error feedback reaches where top-k alone does not") {
    using Me = Coded<FedAvg<>, codec::TopK<>>;
    const auto loss = [](const auto& run) { return evaluate<Which::global, SplitOf::train>(run).loss(Average::pooled).value; };
    Me method{{.local = {.rate = 0.05}}, {.share = 0.02}};
    const double with = loss(after(method, 40));
    method.feedback = Feedback::off;
    const double without = loss(after(method, 40));
    const double plain = loss(after(method.inner, 40));
    CHECK(with < without);
    CHECK(with - plain < 0.5 * (without - plain));
}

TEST_CASE("methods of other messages: models are steps from models, and short vectors travel whole") {
    // The lists of FedEM, SCAFFOLD's model and change of drift, and packed numbers whose mask moves.
    const auto near = [](const auto& method, auto w) {
        using Me = std::remove_cvref_t<decltype(method)>;
        const auto plain = after(method, 3);
        const auto coded = after(Coded<Me, codec::Quantised<8>>{method}, 3);
        const auto a = w(plain), b = w(coded);
        CHECK(a != b);
        CHECK(distance(a, b) < 0.03 * distance(a, plain.setup().initial));
        CHECK(bytes_up(coded) < bytes_up(plain) / 2);
    };
    near(Scaffold<>{}, [](const auto& run) { return run.server().w; });
    near(FedSpa<>{}, [](const auto& run) { return run.server().w; });
    near(FedEm<>{}, [](const auto& run) { return run.server().components[0].w; });
}

TEST_CASE("what was lost under one mask is not sent under another") {
    using Me = Coded<FedSpa<>, codec::TopK<>>;
    const Me method{{}, {.share = 0.05}};
    Federation<Me, Net> run{{}, support::toy_data(), method, {.seed = 3, .batch = 5, .rounds = 9}};
    run.run(2, sample::Everyone{});
    const auto before = run.client(0);
    CHECK(before.places == detail::name_of(before.own.mask));
    run.run(1, sample::Everyone{});
    CHECK(run.client(0).places != before.places);
}

TEST_CASE("quantised Ditto under differential privacy: noise first, then the codec; budgets as without") {
    using Me = Coded<Private<Ditto<Noisy>>>;
    Me method{};
    method.inner.inner.local = {.rate = 0.1, .clip = 1, .noise = 1};
    method.inner.inner.personal = method.inner.inner.local;
    const auto plain = after(method.inner, 2);
    const auto coded = after(method, 2);
    for (Id k = 0; k < plain.size(); ++k) {
        CHECK(plain.client(k).ledger.size() == coded.client(k).own.ledger.size());
        CHECK(plain.client(k).ledger[0].steps == coded.client(k).own.ledger[0].steps);
    }
    CHECK(privacy_statement(coded).epsilon[1] == privacy_statement(plain).epsilon[1]);
    method.inner.epsilon = 1e-3;  // nobody may come
    CHECK_THROWS_AS(after(method, 1), BudgetError);
}

TEST_CASE("coded: what every method owes") {
    CHECK(support::broken_laws<Coded<FedAvg<>>, Net>({}) == "");
    CHECK(support::broken_laws<Coded<FedAvg<>, codec::TopK<>, codec::Quantised<8>>, Net>({{}, {.share = 0.1}},
              {.rate_zero_stays = false}) == "");  // what goes down is rounded, and trained from there
    CHECK(support::broken_laws<Fallback<Coded<Ditto<>, codec::Sign>>, Net>({}) == "");
}

TEST_CASE("hostile bytes never reach a fold, and numbers that were never finite are seen as such") {
    using Me = Coded<FedAvg<>, codec::TopK<>, codec::Quantised<8>>;
    const Setup<Me, Net> setup(Net{}, Me{{}, {.share = 0.1}}, {.seed = 3, .batch = 5});
    const auto data = support::toy_data();
    Server<Me, Net> server(setup, 6);
    Client<Me, Net> client(setup, 0, data[0]);
    Workspace<float> space;
    const auto down = server.send(0);
    const auto up = client.visit(down, 0, space);
    const auto verdict = [&](auto changed) {
        server.open_round({{.client = 0}});
        return server.accept(0, std::move(changed));
    };
    CHECK(verdict(up) == Verdict::accepted);
    for (std::size_t i = 0; i < up.bytes.size(); ++i) {  // cut anywhere
        auto cut = up;
        cut.bytes.resize(i);
        CHECK(verdict(cut) == Verdict::not_admitted);
    }
    auto longer = up;
    longer.bytes.push_back(std::byte{});
    CHECK(verdict(longer) == Verdict::not_admitted);
    auto diverged = up;
    diverged.sound = std::numeric_limits<float>::quiet_NaN();
    CHECK(verdict(diverged) == Verdict::not_finite);
    auto whole = detail::encode_message<float>(Up<float>{Vec<float>(211), 1}, setup.method.up, 64, {}, {}, nullptr);
    CHECK(verdict(whole) == Verdict::not_admitted);  // a good message with a short vector
    auto huge = detail::encode_message<float>(Up<float>{Vec<float>(212), -1}, setup.method.up, 64, {}, {}, nullptr);
    CHECK(verdict(huge) == Verdict::not_admitted);  // a weight below 0
    for (std::size_t i = 0; i < down.bytes.size(); ++i) {
        auto cut = down;
        cut.bytes.resize(i);
        CHECK_THROWS_AS(client.visit(cut, 1, space), WireError);
    }
    // A rate that makes NaNs: the client says so, and keeps its state.
    const Setup<Me, Net> wild(Net{}, Me{{.local = {.rate = 1e30}}}, {.seed = 3, .batch = 5});
    Client<Me, Net> lost(wild, 0, data[0]);
    CHECK(verdict(lost.visit(down, 0, space)) == Verdict::not_finite);
    CHECK(!lost.sound());
    CHECK(lost.state().lost.empty());
}

TEST_CASE("clients that forget cannot keep what a codec lost") {
    using Me = Coded<FedAvg<>, codec::TopK<>>;
    const Settings forget{.seed = 3, .batch = 5, .stateless = true};
    CHECK_THROWS_AS((Setup<Me, Net>(Net{}, {}, forget)), ConfigError);
    Me off{};
    off.feedback = Feedback::off;
    CHECK_NOTHROW((Setup<Me, Net>(Net{}, off, forget)));
    CHECK_NOTHROW((Setup<Coded<FedAvg<>>, Net>(Net{}, {}, forget)));  // unbiased: nothing to keep
}

}  // namespace
}  // namespace coded_test
