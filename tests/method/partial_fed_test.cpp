// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/partial_fed.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <tessera/method/fedavg.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>

namespace partial_fed_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Dnn<Toy::width, 6, Toy::classes>;  // two layers with parameters
constexpr Settings usual{.seed = 3, .batch = 5};
constexpr double never = -1000, always = 1000;  // exp(-1000) is 0: the sample is certain and the slope exactly 0

template <class Me, class M>
Vec<float> served(const Federation<Me, M>& run, Id k) {
    Workspace<float> workspace;
    return run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
        return client.serve(std::move(received), run.rounds_done(), space).parameters;
    });
}
// Whether each layer of x is that layer of y.
std::pair<bool, bool> layers_agree(const Vec<float>& x, const Vec<float>& y) {
    constexpr auto cut = static_cast<std::ptrdiff_t>(Net::segments[2].offset);
    const auto part = [&](const Vec<float>& v, bool second) {
        return second ? Vec<float>(v.begin() + cut, v.end()) : Vec<float>(v.begin(), v.begin() + cut);
    };
    return {same_bits(part(x, false), part(y, false)), same_bits(part(x, true), part(y, true))};
}
}  // namespace

TEST_CASE("all logits for the common layers: FedAvg, bit for bit, whoever is sampled") {
    const auto compare = [](double lean) {
        Federation<PartialFed<>, Net> run{{}, toy_data(), {.epochs = 2, .lean = lean}, usual};
        Federation<FedAvg<>, Net> average{{}, toy_data(), {.epochs = 2}, usual};
        bool same = true, answers = true;
        for (int r = 0; r < 4; ++r) {
            run.round(sample::Uniform{4});
            average.round(sample::Uniform{4});
            same = same && same_bits(run.server().w, average.server().w);
            for (Id k = 0; k < 6; ++k) answers = answers && same_bits(served(run, k), run.server().w);
        }
        return std::pair(same, answers);
    };
    CHECK(compare(never) == std::pair(true, true));
    CHECK(compare(0) == std::pair(false, false));
}

TEST_CASE("all logits for the own layers: every client is Local's, bit for bit, if it came in the first round") {
    const auto compare = [](double lean, const auto& sampler) {
        Federation<PartialFed<>, Net> run{{}, toy_data(), {.epochs = 2, .lean = lean}, usual};
        Federation<Local<>, Net> local{{}, toy_data(), {.epochs = 2, .pass = Pass::shared}, usual};
        bool same = true;
        for (int r = 0; r < 4; ++r) {
            run.round(sampler);
            local.round(sampler);
            for (Id k = 0; k < 6; ++k) {
                same = same && same_bits(run.client(k).w, local.client(k).w);
                if (!run.client(k).w.empty()) same = same && same_bits(served(run, k), run.client(k).w);
            }
        }
        return same;
    };
    CHECK(compare(always, sample::Everyone{}));
    CHECK_FALSE(compare(0, sample::Everyone{}));
    CHECK_FALSE(compare(always, sample::Uniform{2}));  // whoever comes later starts at the w it receives
}

TEST_CASE("the common model of clients that keep to themselves is the mean of what they keep") {
    Federation<PartialFed<>, Net> run{{}, toy_data(), {.weights = Weigh::uniform}, usual};
    run.run(3, sample::Everyone{});
    for (std::size_t j = 0; j < Net::parameters; ++j) {
        double sum = 0;
        for (Id k = 0; k < 6; ++k) sum += static_cast<double>(run.client(k).w[j]);
        CHECK(std::fabs(static_cast<double>(run.server().w[j]) - sum / 6) < 1e-7);  // one rounding to float
    }
}

TEST_CASE("a model is served layer by layer: what is received where the first logit is not smaller, else its own") {
    Federation<PartialFed<>, Net> run{{}, toy_data(), {.logit_rate = 0}, usual};
    run.run(2, sample::Everyone{});
    Workspace<float> workspace;
    const auto with = [&](std::array<double, 4> logits) {
        auto state = run.client(1);
        state.logits.assign(logits.begin(), logits.end());
        const Client<PartialFed<>, Net> client(run.setup(), 1, run.data()[1], state);
        return client.serve(run.server().w, run.rounds_done(), workspace).parameters;
    };
    const auto own = run.client(1).w;
    const auto& w = run.server().w;
    CHECK(layers_agree(own, w) == std::pair(false, false));
    CHECK(layers_agree(with({0, 1, 0.5, 0}), own) == std::pair(true, false));
    CHECK(layers_agree(with({0, 1, 0.5, 0}), w) == std::pair(false, true));
    CHECK(layers_agree(with({2, 1, 0, 0.5}), own) == std::pair(false, true));
    CHECK(layers_agree(with({0, 0, 0, 0}), w) == std::pair(true, true));
}

TEST_CASE("layers are the segments whose names agree up to the last dot") {
    constexpr std::array<Segment, 5> segments{Segment{.name = "0.weight"}, Segment{.name = "1.0.weight"},
                                              Segment{.name = "1.0.bias"}, Segment{.name = "0.bias"},
                                              Segment{.name = "alone"}};
    CHECK(detail::layers_of(segments) == Vec<std::size_t>{0, 1, 1, 0, 2});
    CHECK(detail::first_logits(segments, 0.5) == detail::ChoiceLogits{0, 0.5, 0, 0.5, 0, 0.5});
    CHECK(detail::layers_of(Net::segments) == Vec<std::size_t>{0, 0, 1, 1});
}

TEST_CASE("samples are as frequent as the softmax of the logits says") {
    constexpr std::array<Segment, 1> one{Segment{.name = "w"}};
    for (const double lean : {0.0, 1.0, -2.0}) {
        detail::ChoiceLogits logits{0, lean};
        detail::LayerChoice<double> choice(one, {0}, {1}, logits);
        constexpr int draws = 20000;
        double own = 0;
        for (int i = 0; i < draws; ++i) {
            choice.draw(Key{1}(static_cast<std::uint64_t>(i)), 0.5);
            own += choice.used()[0];
        }
        const double p = 1 / (1 + std::exp(-lean));
        CHECK(std::fabs(own / draws - p) < 4 * std::sqrt(p * (1 - p) / draws));  // four deviations; keys are fixed
    }
}

TEST_CASE("every batch draws anew: in a visit of 17 or more, each layer is trained as common and as own") {
    // One draw for the whole visit would leave half of the layers as received; one a batch leaves 1 in 2^17.
    const Federation<PartialFed<>, Net> run{{}, toy_data(), {.logit_rate = 0}, {.seed = 3, .batch = 1}};
    Workspace<float> workspace;
    for (Id k = 0; k < 6; ++k) {
        const auto sent = run.at_client(k, workspace, [&](auto client, auto received, auto& space) {
            return client.visit(std::move(received), 0, space).x;  // logits alike: the common layers
        });
        CHECK(layers_agree(sent, run.server().w) == std::pair(false, false));
    }
}

TEST_CASE("the slope of the logits is that of the loss at the soft mixture, straight through the sample") {
    // A loss that is linear in the weights has the same gradient at the sample and at the mixture, so the
    // straight-through slope is the true one and differences can be held against it.
    constexpr std::array<Segment, 3> layout{Segment{.name = "a.x"}, Segment{.name = "a.y", .offset = 1},
                                            Segment{.name = "b.x", .offset = 2}};
    const Vec<double> common{1, -2, 0.5}, own{0.3, 0.7, -1}, gradient{0.9, -0.4, 1.3};
    constexpr double tau = 0.7;
    const auto soft_loss = [&](const std::vector<double>& a, const Key key) {
        Stream stream(key);  // the draws of LayerChoice: common, own, layer after layer
        double loss = 0;
        for (std::size_t l = 0; l < 2; ++l) {
            const double c = std::exp((a[2 * l] - std::log(-std::log(stream.uniform_open()))) / tau);
            const double o = std::exp((a[2 * l + 1] - std::log(-std::log(stream.uniform_open()))) / tau);
            for (std::size_t j = l == 0 ? 0 : 2; j < (l == 0 ? 2u : 3u); ++j)
                loss += gradient[j] * (c * common[j] + o * own[j]) / (c + o);
        }
        return loss;
    };
    std::array<bool, 2> used_own{}, used_common{};
    for (std::uint64_t i = 0; i < 12; ++i) {
        const std::vector<double> start{0.2, -0.1, 0.4, 0.6};
        detail::ChoiceLogits logits(start.begin(), start.end());
        detail::LayerChoice<double> choice(layout, common, own, logits);
        choice.draw(Key{7}(i), tau);
        (choice.used()[0] == own[0] ? used_own : used_common)[0] = true;
        (choice.used()[2] == own[2] ? used_own : used_common)[1] = true;
        choice.learn(gradient, tau, 1);
        std::vector<double> slope;
        for (std::size_t l = 0; l < 4; ++l) slope.push_back(start[l] - logits[l]);
        const auto expected =
            support::finite_differences([&](const auto& a) { return soft_loss(a, Key{7}(i)); }, start);
        CHECK(support::relative_error(slope, expected) < 1e-6);
    }
    CHECK((used_own[0] && used_own[1] && used_common[0] && used_common[1]));  // both signs were asked
}

TEST_CASE("logits move at their own rate, in pairs") {
    const auto after = [](double rate, std::size_t rounds) {
        Federation<PartialFed<>, Net> run{{}, toy_data(), {.logit_rate = rate}, usual};
        run.run(rounds, sample::Everyone{});
        return run.client(0).logits;
    };
    const detail::ChoiceLogits none{0, 0, 0, 0};
    CHECK(after(0, 3) == none);
    CHECK(after(0.5, 3) != none);
    const auto a = after(0.5, 3);
    CHECK(std::fabs(a[0] + a[1]) < 1e-12);  // what one gains the other loses, a few roundings of numbers below 1
}

TEST_CASE("the gradient of the logits is billed beside that of the weights") {
    double examples = 0;
    for (std::size_t k = 0; k < 6; ++k) examples += static_cast<double>(toy_data()[k].train.size());
    const auto bill = [](double logit_rate) {
        Federation<PartialFed<>, Net> run{{}, toy_data(), {.epochs = 2, .logit_rate = logit_rate}, usual};
        return run.round(sample::Everyone{}).flops;
    };
    CHECK(bill(0.1) == 3 * 2 * examples * 2 * Net{}.forward_flops());
    CHECK(bill(0) == 3 * 2 * examples * Net{}.forward_flops());
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws<PartialFed<>, Net>({}) == "");
    CHECK(support::broken_laws(PartialFed<>{.steps = 3, .logit_rate = 1, .lean = 0.5}) == "");
}

TEST_CASE("wrong settings are refused") {
    using Run = Federation<PartialFed<>, Net>;
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.temperature = 0}}), "temperature must be positive, and finite, not 0.000000",
                         ConfigError);
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.lean = std::numeric_limits<double>::quiet_NaN()}}),
                         doctest::Contains("lean must be finite"), ConfigError);
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.logit_rate = -1}}), doctest::Contains("logit_rate must be 0 or more"),
                         ConfigError);
}

}  // namespace partial_fed_test
