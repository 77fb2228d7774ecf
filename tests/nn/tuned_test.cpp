// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/tuned.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/conformance.hpp>
#include <tessera/io/model_file.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>
#include <support/unfused.hpp>

namespace tuned_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
template <class R>
using Net = nn::AdaptedDnn<Toy::width, 6, Toy::classes, 3, R>;
constexpr std::size_t adapter_and_head = 6 * 3 + 3 + 3 * 6 + 6 + 6 * 4 + 4;
static_assert(FusedModel<nn::Tuned<Net<float>>> && LogitModel<nn::Tuned<Net<float>>>);
static_assert(FeatureModel<nn::Tuned<Net<float>>> && CountedModel<nn::Tuned<Net<float>>>);
static_assert(InitializedModel<nn::Tuned<Net<float>>>);

template <class R>
Vec<R> backbone() {
    return initial_parameters(Net<R>{}, Key{8});
}

// Steps with a pull: on the whole vector, of which the scope's coordinates move, and on a vector that is all of it.
struct Scoped {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};
    auto visit(const auto& at, auto w, auto&) const {
        const auto received = w;
        descend(at, w, at.epochs(2), local,
                {.on = on(scope::Tunable{}, *at.model), .prox_center = received, .prox_weight = 0.3});
        return up(at, std::move(w));
    }
};
struct Pulled {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};
    auto visit(const auto& at, auto w, auto&) const {
        const auto received = w;
        descend(at, w, at.epochs(2), local, {.prox_center = received, .prox_weight = 0.3});
        return up(at, std::move(w));
    }
};
}  // namespace

TEST_CASE_TEMPLATE("training it is training the whole network in that scope, bit for bit; fused, unfused, clipped", R,
                   float, double) {
    const auto same = [](const auto& whole, const rule::Sgd& rule, std::size_t rounds) {
        using Whole = std::remove_cvref_t<decltype(whole)>;
        const nn::Tuned<Whole> tuned(whole, backbone<R>());
        const Settings settings{.seed = 3, .batch = 5};
        // A mean of equal floats is that float; of equal doubles it may round, and frozen ones of a whole vector move.
        const auto data = toy_data({.clients = std::is_same_v<R, float> ? std::size_t{6} : std::size_t{1}});
        Federation<Pulled, nn::Tuned<Whole>> small{tuned, data, {.local = rule}, settings};
        Federation<Scoped, Whole> large{whole, data, {.local = rule}, settings, backbone<R>()};
        bool equal = true;
        for (std::size_t r = 0; r < rounds; ++r) {
            small.round(sample::Everyone{});
            large.round(sample::Everyone{});
            equal = equal && same_bits(tuned.assembled(small.server().w), large.server().w);
        }
        CHECK_FALSE(same_bits(small.server().w, small.setup().initial));
        return equal;
    };
    for (const rule::Sgd rule : {rule::Sgd{.rate = 0.1}, rule::Sgd{.rate = 0.1, .momentum = 0.7, .weight_decay = 0.01},
                                 rule::Sgd{.rate = 0.1, .clip = 0.5}}) {
        CHECK(same(Net<R>{}, rule, 3));
        CHECK(same(support::Unfused<Net<R>>{}, rule, 3));
        CHECK(same(nn::AnyModel<R>{Net<R>{}}, rule, 3));
    }
}

TEST_CASE("L-ADA-8 frozen tensors are bit for bit what they were, after any number of rounds") {
    const nn::Tuned<Net<float>> tuned(Net<float>{}, backbone<float>());
    Federation<Ditto<>, nn::Tuned<Net<float>>> run{tuned, toy_data(), {}, {.seed = 3, .batch = 5}};
    Federation<Ditto<>, Net<float>> all{{}, toy_data(), {}, {.seed = 3, .batch = 5}, backbone<float>()};
    const Coordinates frozen = off(scope::Tunable{}, Net<float>{});
    const auto before = gather(backbone<float>(), frozen);
    for (int r = 0; r < 6; ++r) {
        run.round(sample::Everyone{});
        all.round(sample::Everyone{});
        CHECK(same_bits(gather(tuned.backbone(), frozen), before));
        CHECK(same_bits(gather(tuned.assembled(run.server().w), frozen), before));
        for (Id k = 0; k < run.size(); ++k)
            CHECK(same_bits(gather(tuned.assembled(run.client(k).v), frozen), before));
    }
    CHECK_FALSE(same_bits(gather(all.server().w, frozen), before));
    CHECK_FALSE(same_bits(run.server().w, gather(backbone<float>(), on(scope::Tunable{}, Net<float>{}))));
}

TEST_CASE("what is kept and sent are the tuned coordinates alone") {
    const nn::Tuned<Net<float>> tuned(Net<float>{}, backbone<float>());
    CHECK(dimension(tuned) == adapter_and_head);
    Federation<FedAvg<>, nn::Tuned<Net<float>>> run{tuned, toy_data(), {}, {.batch = 5}};
    run.over_the_wire();
    const auto report = run.round(sample::Everyone{});
    CHECK(report.formula_bytes_down == 6.0 * 4 * adapter_and_head);
    CHECK(report.formula_bytes_up == 6.0 * (4 * adapter_and_head + 8));  // and a weight each
    CHECK(same_bits(run.setup().initial, gather(backbone<float>(), on(scope::Tunable{}, Net<float>{}))));
}

TEST_CASE("its layout names the tuned segments as the whole model does") {
    const nn::Tuned<Net<float>> tuned(Net<float>{}, backbone<float>());
    std::string names;
    std::size_t next = 0;
    for (const auto& s : tuned.layout()) {
        names.append(s.name.view()).append(":").append(name_of(s.part)).append(" ");
        CHECK(s.offset == next);
        next = s.end();
    }
    CHECK(names ==
          "2.0.weight:adapter 2.0.bias:adapter 2.2.weight:adapter 2.2.bias:adapter 3.weight:head 3.bias:head ");
    const nn::Tuned<nn::AnyModel<float>, scope::Chosen> chosen(Net<float>{}, backbone<float>(), "input");
    CHECK(dimension(chosen) == Toy::width * 6 + 6);
    const nn::Network<float> net(4, nn::chain(nn::Linear{6}, nn::GroupNorm{}, nn::Linear{3}));
    const nn::Tuned<nn::Network<float>> normed(net, initial_parameters(net, Key{1}));
    CHECK(dimension(normed) == 12 + 21);  // norm and head, apart from each other or not
}

TEST_CASE("gradients by differences, of a range of scopes") {
    const auto data = toy_data();
    const Key draw{22};
    const Batch<double> b(*data[0].examples, data[0].train.first(8), {}, &draw);
    CHECK(conformance::check_gradients(nn::Tuned<Net<double>>(Net<double>{}, backbone<double>()), b).empty());
    CHECK(conformance::check_gradients(
              nn::Tuned<Net<double>, scope::Chosen>(Net<double>{}, backbone<double>(), "input+adapter"), b)
              .empty());
    CHECK(conformance::check_gradients(
              nn::Tuned<Net<double>, scope::Chosen>(Net<double>{}, backbone<double>(), "input+output"), b)
              .empty());
}

TEST_CASE("a scope inside the tuned part, where the tuned segments lie apart in the whole") {
    const Net<float> net;
    const nn::Tuned<Net<float>, scope::Chosen> tuned(net, backbone<float>(), "input+output");
    const auto data = toy_data();
    const Batch<float> b(*data[0].examples, data[0].train);
    const auto start = initial_parameters(tuned, Key{});
    const Coordinates head = on(scope::Head{}, tuned);
    auto x = start;
    const Step<float> step{.terms = {.on = head}};
    REQUIRE(tuned.fuses(step));
    tuned.fused_step(x, b, step);
    auto w = backbone<float>();
    net.fused_step(w, b, {.terms = {.on = on(scope::Head{}, net)}});
    CHECK(same_bits(tuned.assembled(x), w));
    CHECK(same_bits(gather(x, on(scope::Input{}, tuned)), gather(start, on(scope::Input{}, tuned))));
    CHECK_FALSE(same_bits(gather(x, head), gather(start, head)));
}

TEST_CASE("clipped sums over the tuned coordinates are those of the whole model in that scope") {
    const Net<float> net;
    const nn::Tuned<Net<float>> tuned(net, backbone<float>());
    const auto data = toy_data();
    const Batch<float> b(*data[0].examples, data[0].train);
    const Clip<float> small{.norm = 0.4}, scoped{.norm = 0.4, .on = on(scope::Tunable{}, net)};
    const auto x = initial_parameters(tuned, Key{});
    REQUIRE(tuned.clips(small));
    Vec<float> sum(x.size()), whole(backbone<float>().size()), plain(x.size());
    tuned.clipped_sum(x, b, small, sum);
    net.clipped_sum(backbone<float>(), b, scoped, whole);
    CHECK(same_bits(sum, gather(whole, scoped.on)));
    tuned.gradient(x, b, plain);
    CHECK_FALSE(same_bits(sum, plain));
    const Mask some(x.size(), true);
    CHECK_FALSE(tuned.clips({.active = &some}));
}

TEST_CASE("two backbones in one thread do not mix") {
    const auto data = toy_data();
    const Batch<float> b(*data[0].examples, data[0].train);
    auto other = backbone<float>();
    for (float& each : other) each *= 2;
    const nn::Tuned<Net<float>> one(Net<float>{}, backbone<float>()), two(Net<float>{}, other);
    const auto x = initial_parameters(one, Key{});
    const auto answers = [&](const auto& model) {
        Vec<float> z(b.size() * Toy::classes);
        model.logits(x, b, z);
        return z;
    };
    const auto first = answers(one), second = answers(two);
    CHECK(same_bits(answers(one), first));
    CHECK_FALSE(same_bits(first, second));
    Vec<float> whole(first.size());
    Net<float>{}.logits(two.assembled(x), b, whole);
    CHECK(same_bits(second, whole));
}

TEST_CASE("a backbone of another size, and a donor of other layers, are refused in a sentence") {
    CHECK_THROWS_WITH_AS((nn::Tuned<Net<float>>(Net<float>{}, Vec<float>(3))),
                         "the backbone has 3 numbers, the model has 127", ConfigError);
    const nn::Mclr<Toy::width, Toy::classes> other;
    CHECK_THROWS_AS(nn::grafted(Net<float>{}, Key{1}, other.layout(), initial_parameters(other, Key{1})), ConfigError);
}

TEST_CASE("a backbone from a file") {
    const std::string path = "tuned_test_backbone.npz";
    std::vector<io::NamedTensor> tensors;
    const auto values = backbone<float>();
    io::append_tensors<float>(tensors, Net<float>{}.layout(), values, "global/");
    io::write_tensors(path, tensors);
    const nn::Tuned<Net<float>> tuned(Net<float>{}, io::read_parameters<float>(path, Net<float>{}.layout(), "global/"));
    CHECK(same_bits(tuned.backbone(), values));
    std::remove(path.c_str());
}

}  // namespace tuned_test
