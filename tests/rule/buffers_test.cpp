// SPDX-License-Identifier: BSD-3-Clause
// Running statistics take what a gradient says of them whole, whoever steps; nothing else does.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/data/dataset.hpp>
#include <tessera/fold/grouped.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/mask/density.hpp>
#include <tessera/method/apfl.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedbn.hpp>
#include <tessera/method/feddyn.hpp>
#include <tessera/method/per_fedavg.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/batch_norm.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/nn/tuned.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/adam.hpp>
#include <tessera/rule/adam_w.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/rule/sam.hpp>
#include <tessera/rule/sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/by_hand.hpp>
#include <support/keyed_noise.hpp>
#include <support/toy_numbers.hpp>

namespace buffers_test {

using namespace tessera;
using support::same_bits;

namespace {

// Two weights, two running statistics, a weight; the gradient is given, whatever x is.
struct Counts {
    using Real = double;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 3> segments{
        Segment{.name = "w", .shape = {2, 1, 1, 1}},
        Segment{.name = "seen", .part = Part::buffer, .offset = 2, .shape = {2, 1, 1, 1}},
        Segment{.name = "v", .offset = 4}};

    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<double>, const Batch<double>&, Out<double> out) const {
        constexpr std::array<double, 5> g{3, -4, 0.5, -0.25, 12};
        std::copy(g.begin(), g.end(), out.begin());
        return 0;
    }
    void predict(In<double>, const Batch<double>&, Out<double>) const {}
};
const Vec<double> start_at{1, 2, 3, 4, 5};

template <class Rule>
Vec<double> after(const Rule& rule, std::size_t steps, const Terms<double>& terms = {}) {
    static const Counts model;
    static const auto pool = data::Dataset::regression({0}, {0});
    static const std::array<Index, 1> ids{0};
    Workspace<double> workspace;
    const Context<Counts> at{.model = &model, .examples = &pool.examples(), .ids = ids, .workspace = &workspace};
    auto x = start_at;
    auto step = walk(at, rule, terms);
    for (std::size_t k = 0; k < steps; ++k) step(x, at.everything());
    return x;
}

constexpr nn::Shape width = 6;
constexpr auto normed = nn::chain(nn::Linear{5}, nn::BatchNorm{}, nn::Relu{}, nn::Linear{3});
struct NormedRecipe {
    static constexpr nn::Shape in = width;
    static constexpr auto layers = normed;
};

std::string refusal(auto&& f) {
    try {
        f();
    } catch (const ConfigError& e) {
        return e.what();
    }
    return "";
}

}  // namespace

TEST_CASE("every rule: x -= g on running statistics, without rate, decay, pull, momentum, moments or clipping") {
    const Vec<double> away(5, 100.0), linear(5, 7.0);
    const Terms<double> pulled{.prox_center = away, .prox_weight = 0.5, .linear = linear};
    const auto moved = [](const Vec<double>& x) {
        return x[2] == 3 - 3 * 0.5 && x[3] == 4 + 3 * 0.25 && x[0] != 1 && x[4] != 5;
    };
    CHECK(moved(after(rule::Sgd{.rate = 0.1}, 3)));
    CHECK(moved(after(rule::Sgd{.rate = 0.1, .momentum = 0.9, .weight_decay = 0.2, .clip = 0.1}, 3, pulled)));
    CHECK(moved(after(rule::Adam{}, 3)));
    CHECK(moved(after(rule::Adam{.rate = 0.5}, 3, pulled)));
    CHECK(moved(after(rule::AdamW{.rate = 0.5, .weight_decay = 0.1}, 3, pulled)));
    CHECK(moved(after(rule::Sam<>{.base = {.rate = 0.1, .weight_decay = 0.2}}, 3, pulled)));
    // What is left of the vector is what it is without them: the norm of (3, -4, 12) is 13, not that of all five.
    const auto clipped = after(rule::Sgd{.rate = 1, .clip = 1.3}, 1);
    CHECK(clipped[4] == doctest::Approx(5 - 1.2).epsilon(1e-6));  // 1e-6 is added to the norm
}

TEST_CASE("a scope that leaves them out leaves them alone; a mask cannot") {
    for (const Coordinates& on : {Coordinates::range(0, 2), Coordinates::range(3, 5)}) {
        const auto x = after(rule::Sgd{.rate = 0.1}, 1, {.on = on}), y = after(rule::Adam{}, 1, {.on = on});
        for (std::size_t j = 2; j < 4; ++j) {
            const double expected = on.touches({j, j + 1}) ? start_at[j] - (j == 2 ? 0.5 : -0.25) : start_at[j];
            CHECK(x[j] == expected);
            CHECK(y[j] == expected);
        }
    }
    Mask none(5);
    none.set(4, true);
    for (const auto& x : {after(rule::Sgd{.rate = 0.1}, 1, {.active = &none}), after(rule::Adam{}, 1, {.active = &none})}) {
        CHECK(x[0] == 1);  // masked
        CHECK(x[2] == 2.5);
        CHECK(x[3] == 4.25);
    }
}

TEST_CASE("a fused step is the step of two passes, bit for bit, in and out of scope") {
    const nn::Network<float> net(width, normed);
    const auto data = support::toy_dataset<float>(9, 6, 3);
    const auto ids = support::first_ids(9);
    const Key key{3};
    const Batch<float> batch(data.examples(), ids, {}, &key);
    Workspace<float> workspace;
    const auto first = initial_parameters(net, Key{1});
    const auto running = select<scope::Is<Part::buffer>>(net.layout());
    for (const Coordinates& on : {Coordinates{}, on<scope::Norm>(net), off(scope::Norm{}, net)}) {
        auto fused = first, plain = first;
        Vec<float> velocity(first.size()), speed(first.size()), g(first.size());
        Step<float> step{
            .terms = {.on = on, .prox_center = first, .prox_weight = 0.3}, .rate = 0.2, .decay = 0.01, .momentum = 0.9};
        for (int k = 0; k < 3; ++k) {
            step.velocity = &velocity;
            REQUIRE(net.fuses(step));
            net.fused_step(fused, batch, step);
            step.velocity = &speed;
            net.gradient(plain, batch, g);
            each_piece(on, net.layout(), plain.size(), [&](Range r, bool of_buffers) {
                if (of_buffers) detail::take_whole<float>(plain, g, r);
                else detail::update_range<float>(plain, g, step, 1.0f, r);
            });
        }
        CHECK(same_bits(fused, plain));
        CHECK(same_bits(velocity, speed));
        CHECK((gather(fused, running) == gather(first, running)) == !on.touches({50, 51}));
    }
}

TEST_CASE("predictions read the running statistics that training left, and evaluation changes none") {
    const auto data = support::toy_dataset<float>(40, 6, 3);
    data::Share share{.train = support::first_ids(40), .test = support::first_ids(40), .key = 1};
    Federation<FedAvg<>, nn::Network<float>> run{nn::Network<float>(width, normed),
                                                 data::FederatedDataset(data, {.clients = {share}}),
                                                 {.local = {.rate = 0.05}, .epochs = 2},
                                                 {.batch = 8}};
    const auto before = run.server().w;
    run.run(5, sample::Everyone{});
    const auto w = run.server().w;
    const nn::Network<float> net(width, normed);
    const auto running = select<scope::Is<Part::buffer>>(net.layout());
    CHECK(gather(w, running) != gather(before, running));
    const auto ids = support::first_ids(40);
    const Batch<float> all(data.examples(), ids);
    std::vector<float> together(40 * 3), one(3);
    net.predict(w, all, together);
    for (std::size_t i = 0; i < 40; ++i) {
        net.predict(w, all.part(i, 1), one);
        for (std::size_t c = 0; c < 3; ++c) CHECK(one[c] == doctest::Approx(together[3 * i + c]).epsilon(1e-5));
    }
    // After 50 batches they are near the statistics of what the layer reads: momentum 0.1 forgets 0.9^50 = 0.5 % of 0, 1
    std::vector<float> hidden(40 * 5);
    nn::Network<float>(width, nn::chain(nn::Linear{5})).logits(In<float>(w).first(35), all, hidden);
    for (std::size_t c = 0; c < 5; ++c) {
        double mean = 0;
        for (std::size_t i = 0; i < 40; ++i) mean += static_cast<double>(hidden[5 * i + c]) / 40;
        CHECK(std::fabs(static_cast<double>(w[45 + c]) - mean) < 0.1);  // batches of 8 of numbers of deviation 0.5
    }
}

TEST_CASE("folds average them, and what goes around a fold leaves the average alone") {
    const nn::Network<double> net(width, normed);
    const auto w0 = initial_parameters(net, Key{1});
    auto a = w0, b = w0;
    for (std::size_t j = 0; j < w0.size(); ++j) a[j] += 1, b[j] += 2;
    Workspace<double> workspace;
    const Context<nn::Network<double>> context{.model = &net, .workspace = &workspace};
    const std::array<Row<double>, 2> rows{Row<double>{a, 1}, Row<double>{b, 1}};
    const auto folded = [&](const auto& fold) {
        auto w = w0;
        memory_t<std::remove_cvref_t<decltype(fold)>, double> memory{};
        fold_rows(fold, context, w, Rows<double>(rows), memory);
        sum_t<std::remove_cvref_t<decltype(fold)>, double> one{}, other{};
        auto streamed = w0;
        memory_t<std::remove_cvref_t<decltype(fold)>, double> again{};
        lift_row<nn::Network<double>>(fold, rows[0], w0, one, net.layout());
        lift_row<nn::Network<double>>(fold, rows[1], w0, other, net.layout());
        add_sums<double>(fold, one, other);
        finish_sum(fold, context, streamed, one, again);
        CHECK(same_bits(streamed, w));
        return w;
    };
    const auto mean = folded(fold::Mean{});
    CHECK(mean[46] == doctest::Approx(w0[46] + 1.5));
    const auto check = [&](const Vec<double>& w) {
        for (std::size_t j = 0; j < w.size(); ++j) {
            const bool running = j >= 45 && j < 55;
            CHECK((w[j] == mean[j]) == running);
        }
    };
    check(folded(fold::Relax<>{.beta = 2}));
    check(folded(fold::ServerMomentum<>{.server_rate = 0.5}));
    check(folded(fold::ServerAdam<>{}));
    check(folded(fold::ServerYogi<fold::Relax<>>{.inner = {.beta = 3}}));
    // Also of a part of the model.
    using Further = fold::Relax<>;
    check(folded(fold::Grouped<scope::Head, Further, Further>{.selected = {.beta = 2}, .others = {.beta = 2}}));
    check(folded(fold::Grouped<scope::Norm, fold::ServerAdam<>, Further>{.others = {.beta = 2}}));
}

TEST_CASE("methods: averaged by FedAvg, at home with FedBN; FedDyn, APFL and Per-FedAvg keep them sane") {
    const auto running = [](const auto& w) {
        return gather(w, select<scope::Is<Part::buffer>>(nn::Network<float>(width, normed).layout()));
    };
    std::vector<float> x;
    std::vector<std::int32_t> y;
    data::Split split;
    for (std::size_t k = 0; k < 2; ++k) {  // two clients whose inputs lie 4 apart
        data::Share share{.key = k + 1};
        for (std::size_t i = 0; i < 24; ++i) {
            share.train.push_back(static_cast<Index>(y.size()));
            for (const float v : support::toy_numbers<float>(6, 100 * k + i)) x.push_back(v + 4 * static_cast<float>(k));
            y.push_back(static_cast<std::int32_t>(i % 3));
        }
        share.test = share.train;
        split.clients.push_back(share);
    }
    const data::FederatedDataset data(data::Dataset::own(std::move(x), std::move(y), 3), split);
    const auto trained = [&]<class Me>(const Me& method) {
        Federation<Me, nn::Network<float>> run{nn::Network<float>(width, normed), data, method, {.batch = 8}};
        run.run(30, sample::Everyone{});
        return run;
    };
    const auto sane = [&](const Vec<float>& w) {
        const auto all = running(w);
        bool good = all != running(initial_parameters(nn::Network<float>(width, normed), Key{1}));
        for (std::size_t c = 5; c < 10; ++c) good = good && all[c] >= 0 && all[c] < 100;
        return good;
    };
    const auto average = trained(FedAvg<>{.local = {.rate = 0.05}});
    CHECK(sane(average.server().w));
    CHECK(sane(trained(FedAvg<rule::Adam, fold::ServerAdam<>>{.local = {.rate = 0.01}}).server().w));
    CHECK(sane(trained(FedDyn<>{.local = {.rate = 0.05}}).server().w));
    CHECK(sane(trained(Apfl<>{.local = {.rate = 0.05}}).server().w));
    CHECK(sane(trained(PerFedAvg<>{.local = {.rate = 0.05}, .alpha = 0.01}).server().w));
    // FedAlt with a personal head: statistics travel with the body, and only the phase that trains it moves them.
    const auto shared = trained(FedAlt<scope::Head>{.order = {.v = {.rate = 0.05}, .u = {.rate = 0.05}}});
    CHECK(gather(shared.server().w, Coordinates::range(45, 55)) !=
          running(initial_parameters(nn::Network<float>(width, normed), Key{1}(purpose::init))));
    const auto frozen = trained(FedAlt<scope::Head>{.order = {.v = {.rate = 0.05}, .u = {.rate = 0.05}, .epochs_u = 0}});
    CHECK(gather(frozen.server().w, Coordinates::range(45, 55)) ==
          running(initial_parameters(nn::Network<float>(width, normed), Key{1}(purpose::init))));
    const auto home = trained(FedBn<>{.order = {.v = {.rate = 0.05}, .u = {.rate = 0.05}}});
    CHECK(home.server().w.size() == average.server().w.size() - 20);  // norms and their statistics never leave
    // v is scale, shift, means, variances: those of inputs that lie 4 apart
    CHECK(gather(home.client(0).v, Coordinates::range(10, 15)) != gather(home.client(1).v, Coordinates::range(10, 15)));
    double most = 0;
    for (std::size_t c = 10; c < 15; ++c)
        most = std::max(most, static_cast<double>(std::fabs(home.client(0).v[c] - home.client(1).v[c])));
    CHECK(most > 0.5);
}

TEST_CASE("where examples are to be private, a model in which they meet is refused before round one") {
    const auto data = support::toy_dataset<float>(12, 6, 3);
    const data::Share share{.train = support::first_ids(12), .test = support::first_ids(12), .key = 1};
    const data::FederatedDataset one(data, {.clients = {share}});
    const auto run = [&](const auto& model, const auto& method) {
        using M = std::remove_cvref_t<decltype(model)>;
        return refusal([&] { Federation<std::remove_cvref_t<decltype(method)>, M>{model, one, method, {.batch = 4}}; });
    };
    const nn::Network<float> meets(width, normed),
        apart(width, nn::chain(nn::Linear{4}, nn::GroupNorm{}, nn::Relu{}, nn::Linear{3}));
    const FedAvg<rule::DpSgd<support::KeyedNoise>> noisy{.local = {.clip = 1, .noise = 1}};
    CHECK(run(meets, noisy).find("examples of a batch meet in this model") != std::string::npos);
    CHECK(run(nn::AnyModel<float>(meets), noisy).find("examples of a batch meet") != std::string::npos);
    CHECK(run(nn::Tuned<nn::Network<float>>(meets, initial_parameters(meets, Key{1})), noisy) != "");
    CHECK(run(apart, noisy) == "");
    const FedAvg<rule::Sgd, fold::PrivateMean<support::KeyedNoise>> clients{.fold = {.clients = 1}};
    CHECK(run(meets, clients).find("noise on running statistics") != std::string::npos);
    CHECK(run(apart, clients) == "");

    const auto ids = support::first_ids(12);
    const Batch<float> batch(data.examples(), ids);
    const auto sum = [&](const auto& model) {
        const auto w = initial_parameters(model, Key{1});
        Vec<float> out(w.size());
        return refusal([&] { clipped_sum(model, In<float>(w), batch, Clip<float>{.norm = 1}, Out<float>(out)); });
    };
    CHECK(sum(meets) == detail::examples_meet);
    CHECK(sum(nn::AnyModel<float>(meets)) == detail::examples_meet);
    CHECK(sum(apart) == "");
    static_assert(!nn::Fixed<NormedRecipe>::apart());
    static_assert(!detail::may_be_apart<nn::Fixed<NormedRecipe>>());
    static_assert(detail::may_be_apart<nn::Network<float>>());  // asked at run time
}

TEST_CASE("masks never leave one out") {
    const nn::Network<double> net(width, normed);
    for (const auto scope : {mask::MaskScope::all, mask::MaskScope::weights})
        for (const auto how : {mask::Distribution::erk, mask::Distribution::uniform}) {
            const Mask drawn = mask::drawn(net.layout(), 0.5, how, Key{4}, scope);
            CHECK(count_in(drawn, {45, 55}) == 10);
            CHECK(drawn.count() < net.layout().back().end());
        }
    Mask mask(dimension(net), true);
    mask.set(3, false);
    mask.set(41, false);  // a shift of the norm may go
    const nn::Sparse<nn::Network<double>> fine(net, mask, 9, Arithmetic::sparse);
    const auto data = support::toy_dataset<double>(9, 6, 3);
    const auto ids = support::first_ids(9);
    const Key key{3};
    const Batch<double> batch(data.examples(), ids, {}, &key);
    auto w = initial_parameters(net, Key{1});
    auto x = packed(w, mask);
    w[3] = w[41] = 0;
    Workspace<double> workspace;
    const Context<nn::Network<double>> at{.model = &net, .workspace = &workspace};
    const Step<double> step{.rate = 0.2, .decay = 0.1};
    tessera::take_step(at.with(fine), x, batch, step);
    tessera::take_step(at, w, batch, step);
    const auto whole = fine.whole(x);
    for (std::size_t j = 0; j < w.size(); ++j)
        if (mask[j]) CHECK(whole[j] == doctest::Approx(w[j]).epsilon(1e-12));  // two orders of the same sums
    mask.set(50, false);
    CHECK(refusal([&] { nn::Sparse<nn::Network<double>>(net, mask, 9); }).find("1.running_var holds running statistics") !=
          std::string::npos);
}

}  // namespace buffers_test
