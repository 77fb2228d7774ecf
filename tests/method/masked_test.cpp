// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/masked.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <tessera/codec.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/fold/owners_mean.hpp>
#include <tessera/method/coded.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/perada.hpp>
#include <tessera/method/pfedme.hpp>
#include <tessera/method/private.hpp>
#include <tessera/nn/tuned.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/keyed_noise.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>

namespace masked_test {

using namespace tessera;
using support::same_bits;
using Net = nn::Dnn<support::Toy::width, 10, support::Toy::classes>;
using Rsm = mask::RandomStatic;
using Dst = mask::DynamicSparse;

namespace {

constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 9};

template <class Me>
Federation<Me, Net> after(const Me& method, std::size_t rounds) {
    Federation<Me, Net> run{{}, support::toy_data(), method, usual};
    run.run(rounds, sample::Everyone{});
    return run;
}
Fingerprint print_of(const auto& value) {
    Hasher h;
    hash_into(h, value);
    return h.finish();
}
Mask where(auto scope) {
    Mask mask(Net::parameters);
    select(scope, Net{}.layout()).each(Net::parameters, [&](Range r) {
        for (std::size_t j = r.begin; j < r.end; ++j) mask.set(j, true);
    });
    return mask;
}

// No segment is personal.
struct Nobody {
    static constexpr auto offers = offer::may_be_empty;
    static constexpr bool selects(const Segment&) { return false; }
};

TEST_CASE("at density 1 a masked method is that method, bit for bit; at density 0.5 it is not") {
    const auto same = [](const auto& method) {
        using Me = std::remove_cvref_t<decltype(method)>;
        const auto plain = after(method, 3);
        const auto full = after(Masked<Me, Rsm>{.inner = method, .masking = {.density = 1}}, 3);
        const auto half = after(Masked<Me, Rsm>{.inner = method, .masking = {.density = 0.5}}, 3);
        CHECK(same_bits(full.server().w, plain.server().w));
        CHECK_FALSE(same_bits(half.server().w, plain.server().w));
        for (Id k = 0; k < plain.size(); ++k) CHECK(print_of(full.client(k).own) == print_of(plain.client(k)));
        CHECK(evaluate<Which::personal>(full).loss(Average::unweighted).value ==
              evaluate<Which::personal>(plain).loss(Average::unweighted).value);
    };
    same(FedAvg<>{.epochs = 2});
    same(FedAvg<>{.steps = 3});
    same(Ditto<>{});
    same(FedAlt<>{});
    same(PFedMe<>{});
    same(PerAda<rule::Sgd, fold::Mean>{});
}

TEST_CASE("masked FedAvg of one weight is FedSpa, and so is masked FedAlt with nothing personal") {
    const FedSpa<> spa{.masking = {.density = 0.4}, .local = {.rate = 0.1}};
    const auto expected = after(spa, 4);
    const Masked<FedAvg<>> average{{.local = {.rate = 0.1}, .weights = Weigh::uniform}, {.density = 0.4}};
    const auto one = after(average, 4);
    CHECK(same_bits(one.server().w, expected.server().w));
    using Empty = Partial<Nobody, order::Alternate<rule::Sgd, rule::Sgd>>;
    Masked<Empty> alternate{{.weights = Weigh::uniform}, {.density = 0.4}};
    alternate.inner.order.u.rate = 0.1;
    const auto two = after(alternate, 4);
    CHECK(same_bits(two.server().w, expected.server().w));
    for (Id k = 0; k < expected.size(); ++k) {
        CHECK(one.server().mask(k) == expected.server().mask(k));
        CHECK(two.server().mask(k) == expected.server().mask(k));
    }
    alternate.inner.order.u.rate = 0.11;
    CHECK_FALSE(same_bits(after(alternate, 4).server().w, expected.server().w));
}

TEST_CASE("a scope says what is masked: the rest stays whole, and messages are packed") {
    const auto head = where(scope::Head{}), body = where(scope::BelowHead{});
    // A personal head that is sparse: the body travels whole, the head not at all.
    const auto personal = after(Masked<FedAlt<>, Rsm, scope::Head>{.masking = {.density = 0.3}}, 2);
    const Mask mask = personal.server().mask(0);
    for (std::size_t j = 0; j < mask.size(); ++j)
        if (body[j]) CHECK(mask[j]);
    std::size_t active = 0;
    for (std::size_t j = 0; j < mask.size(); ++j) active += head[j] && mask[j];
    CHECK(active < head.count() / 2);
    CHECK(personal.client(0).own.v.size() == active);
    CHECK(personal.server().w.size() == body.count());
    // A shared part that is sparse: what travels is packed.
    auto shared = after(Masked<FedAlt<>, Rsm, scope::BelowHead>{.masking = {.density = 0.3}}, 2);
    const auto report = shared.round(sample::Everyone{});
    const auto sent = static_cast<double>(shared.server().first.count() - head.count());
    CHECK(report.formula_bytes_down == 6 * (4 * sent + 8));
    CHECK(report.formula_bytes_up == 6 * (4 * sent + 16));
    CHECK(shared.client(0).own.v.size() == head.count());
    CHECK(sent < 0.31 * static_cast<double>(body.count()));
    // Said at run time.
    const Masked<FedAvg<>, Rsm, scope::Chosen> chosen{.masking = {.density = 0.3}, .over = "head"};
    CHECK(after(chosen, 1).server().first == after(Masked<FedAvg<>, Rsm, scope::Head>{.masking = {.density = 0.3}}, 1).server().first);
}

TEST_CASE("masks that are searched: personal numbers move with their coordinates") {
    const auto moves = [](const auto& method) {
        auto run = after(method, 2);
        const Mask before = run.server().mask(0);
        const auto was = run.client(0);
        CHECK(was.next == before);  // proposed, and taken
        run.round(sample::Everyone{});
        const auto is = run.client(0);
        CHECK(is.mask == before);
        CHECK(is.mask != was.mask);
        return std::pair{was, is};
    };
    const auto [was, is] = moves(Masked<Ditto<>>{.inner = {.local = {.rate = 0}, .personal = {.rate = 0}}});
    CHECK(is.own.v.size() == is.mask.count());
    // With rates of 0 a number that stays is what it was.
    std::size_t i = 0, k = 0, stayed = 0;
    for (std::size_t j = 0; j < is.mask.size(); ++j) {
        if (was.mask[j] && is.mask[j]) {
            CHECK(was.own.v[i] == is.own.v[k]);
            ++stayed;
        }
        i += was.mask[j];
        k += is.mask[j];
    }
    CHECK(stayed > 10);
    const auto [head_was, head_is] = moves(Masked<FedAlt<>, Dst, scope::Head>{});
    CHECK(head_is.own.v.size() == head_was.own.v.size());  // a search keeps the density
    for (std::size_t j = 0; j < head_is.mask.size(); ++j)
        if (!where(scope::Head{})[j]) CHECK(head_is.mask[j]);
    moves(Masked<PFedMe<>>{});
}

TEST_CASE("masks, codecs and noise nest") {
    using Noisy = rule::DpSgd<support::KeyedNoise>;
    const Masked<Private<FedAvg<Noisy>>, Rsm> hidden{.inner = {.inner = {.local = {.noise = 1}}}, .masking = {.density = 0.5}};
    const auto run = after(hidden, 2);
    CHECK(run.client(0).own.ledger.size() == 1);
    // A split method inside a private one: what is sent is the shared part, masked.
    using Split = Private<FedAlt<scope::Head, Noisy>>;
    const auto with_noise = [](auto method) {
        method.order.v.noise = method.order.u.noise = 1;
        return method;
    };
    const FedAlt<scope::Head, Noisy> noisy = with_noise(FedAlt<scope::Head, Noisy>{});
    const auto all = after(Masked<Split, Rsm>{.inner = {noisy}, .masking = {.density = 1}}, 2);
    const auto bare = after(Split{noisy}, 2);
    // Norms of examples are summed in another order under masks: 6e-8 apart where noise and clipping move w by 0.4.
    const auto near = [](const auto& a, const auto& b) {
        return std::ranges::equal(a, b, [](float x, float y) { return std::abs(x - y) < 1e-6f; });
    };
    CHECK(near(all.server().w, bare.server().w));
    CHECK(near(all.client(0).own.own.v, bare.client(0).own.v));
    const auto half = after(Masked<Split, Rsm>{.inner = {noisy}, .masking = {.density = 0.5}}, 2);
    CHECK(half.server().w.size() == all.server().w.size());
    CHECK_FALSE(near(half.server().w, all.server().w));
    CHECK(half.client(0).own.own.v.size() < all.client(0).own.own.v.size());
    const Masked<Ditto<>> sparse{};
    auto plain = after(sparse, 1);
    auto coded = after(Coded<Masked<Ditto<>>>{sparse}, 1);
    const auto a = plain.round(sample::Everyone{}), b = coded.round(sample::Everyone{});
    CHECK(b.bytes_up < a.bytes_up);
    CHECK(coded.server().w.size() == plain.server().w.size());
}

TEST_CASE("masked: what every method owes") {
    const conformance::MethodLaws searching{.rate_zero_serves = false};
    CHECK(support::broken_laws<Masked<Ditto<>>, Net>({}, searching) == "");
    CHECK(support::broken_laws<Masked<FedAlt<>, Dst, scope::Head>, Net>({}, searching) == "");
    CHECK(support::broken_laws<Masked<FedAlt<>>, Net>({.remember = false}, searching) == "");
    CHECK(support::broken_laws<Masked<PFedMe<>, Rsm>, Net>({}) == "");
    CHECK(support::broken_laws<Masked<FedAvg<rule::Sgd, fold::OwnersMean>, Rsm>, Net>({}) == "");
}

}  // namespace
}  // namespace masked_test
