// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/fedspa.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tessera/exec/openmp.hpp>
#include <tessera/fold/owners_mean.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/kernel_sets.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace fedspa_test {

using namespace tessera;
using mask::DynamicSparse;
using mask::RandomStatic;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Dnn<Toy::width, 10, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 5};
using Dst = FedSpa<DynamicSparse>;
using Rsm = FedSpa<RandomStatic>;

template <class Me>
Federation<Me, Net> federation(const Me& method, const Settings& settings = usual) {
    return {{}, toy_data(), method, settings};
}

// (1, 1, 0) for the first client and (0, 1, 1) for the second; the server's key is that of no public data.
struct ByHand {
    static constexpr Offers offers{};
    Mask first(Layout, Key key) const {
        Mask mask(3, true);
        mask.set(key == Key{usual.seed}(purpose::client)(0)(purpose::mask)(1) ? 0 : 2, false);
        return mask;
    }
    void next(const auto&, Mask&) const {}
};

// Wrong ones.
struct TooLong {
    static constexpr Offers offers{};
    Mask first(Layout layout, Key) const { return Mask(dimension(layout) + 640, true); }
    void next(const auto&, Mask&) const {}
};
struct Hollow {
    static constexpr Offers offers{};
    Mask first(Layout layout, Key) const {
        Mask mask(dimension(layout), true);
        for (std::size_t j = layout[1].offset; j < layout[1].end(); ++j) mask.set(j, false);
        return mask;
    }
    void next(const auto&, Mask&) const {}
};
struct Clears {
    static constexpr Offers offers{};
    Mask first(Layout layout, Key) const { return Mask(dimension(layout), true); }
    void next(const auto&, Mask& mask) const { mask = Mask(mask.size()); }
};

}  // namespace

struct OnlyFirst {
    static constexpr Offers offers{};
    Plan plan(Key, std::size_t, std::span<const Candidate>) const { return {{.client = 0}}; }
};

TEST_CASE("L-SPA-1 and L-GEN-10 RSM with D = 1 is FedAvg with uniform weights, bit for bit") {
    for (const std::size_t epochs : {1u, 2u}) {
        auto spa = federation(Rsm{.masking = {.density = 1}, .epochs = epochs});
        auto avg = federation(FedAvg<>{.epochs = epochs, .weights = Weigh::uniform});
        auto half = federation(Rsm{.masking = {.density = 0.5}, .epochs = epochs});
        for (int r = 0; r < 4; ++r) {
            spa.round(sample::Uniform{4});
            avg.round(sample::Uniform{4});
            half.round(sample::Uniform{4});
            CHECK(same_bits(spa.server().w, avg.server().w));
            CHECK_FALSE(same_bits(half.server().w, avg.server().w));
        }
    }
}

TEST_CASE("masks are searched by the gradient as evaluated: dropout has no say") {
    const nn::Linear first{10}, last{Toy::classes};
    const auto initial = initial_parameters(Net{}, Key{1});
    const auto masks = [&](const auto& layers, std::uint64_t seed = usual.seed) {
        using M = nn::Network<float>;
        Federation<Dst, M> run{M(Toy::width, layers), toy_data(), Dst{.local = {.rate = 0}}, {.seed = seed, .batch = 5, .rounds = 5}, initial};
        run.round(sample::Everyone{});
        std::vector<Mask> all;
        for (Id k = 0; k < 6; ++k) all.push_back(run.server().mask(k));
        return all;
    };
    const auto plain = nn::chain(first, nn::LeakyRelu{}, last);
    CHECK(masks(nn::chain(first, nn::LeakyRelu{}, nn::Dropout{}, last)) == masks(plain));
    CHECK(masks(plain, 4) != masks(plain));  // other batches
}

TEST_CASE("a sparse visit is billed what its mask leaves of the model, also behind a type-erased one") {
    const auto bill = [](auto run) { return run.round(sample::Everyone{}).flops; };
    const double dense = bill(federation(FedAvg<>{}));
    const double half = bill(federation(Rsm{.masking = {.density = 0.5}}));
    CHECK(bill(federation(Rsm{.masking = {.density = 1}})) == dense);
    CHECK(half < 0.75 * dense);  // half of each tensor, up to rounding of the smallest
    CHECK(half > 0.25 * dense);
    const nn::AnyModel<float> any{Net{}};
    CHECK(bill(Federation<Rsm, nn::AnyModel<float>>{any, toy_data(), Rsm{.masking = {.density = 0.5}}, usual}) == half);
}

TEST_CASE("a mask search by gradient is billed a dense batch (5.5), one by chance nothing") {
    const auto bill = [](auto run) { return run.round(sample::Everyone{}).flops; };
    const double still = bill(federation(Rsm{})), dense = Net{}.forward_flops();
    CHECK(bill(federation(Dst{})) == still + 6 * 5 * 3 * dense);  // six clients, batches of five
    CHECK(bill(federation(Dst{.masking = {.grow = mask::Grow::random}})) == still);
    CHECK(bill(federation(Dst{.masking = {.prune_rate = 0}})) == still);
    const nn::AnyModel<float> any{Net{}};
    CHECK(bill(Federation<Dst, nn::AnyModel<float>>{any, toy_data(), Dst{}, usual}) == still + 6 * 5 * 3 * dense);
}

TEST_CASE("L-SPA-2 DST with a prune rate of 0 is RSM, bit for bit") {
    auto still = federation(Dst{.masking = {.prune_rate = 0}});
    auto fixed = federation(Rsm{});
    auto moving = federation(Dst{});
    still.run(3, sample::Uniform{4});
    fixed.run(3, sample::Uniform{4});
    moving.run(3, sample::Uniform{4});
    CHECK(still.fingerprint() == fixed.fingerprint());
    CHECK(moving.fingerprint() != fixed.fingerprint());
}

TEST_CASE("L-SPA-3 with one static mask nothing moves outside it") {
    auto run = federation(Rsm{});
    const Mask mask = run.server().first;
    const auto w0 = run.setup().initial;
    run.run(4, sample::Everyone{});
    std::size_t moved_inside = 0, moved_outside = 0;
    for (std::size_t j = 0; j < w0.size(); ++j) (mask[j] ? moved_inside : moved_outside) += run.server().w[j] != w0[j];
    CHECK(moved_outside == 0);
    CHECK(moved_inside > mask.count() / 2);
}

TEST_CASE("L-SPA-3 inside one static mask it is FedAvg of the sub-network") {
    auto run = federation(Rsm{});
    const Mask mask = run.server().first;
    const nn::Sparse<Net> sub(run.setup().model, mask, 5);
    Federation<FedAvg<>, nn::Sparse<Net>> alone{
        sub, toy_data(), {.weights = Weigh::uniform}, usual, packed(run.setup().initial, mask)};
    for (int r = 0; r < 4; ++r) {
        run.round(sample::Uniform{4});
        alone.round(sample::Uniform{4});
        CHECK(same_bits(packed(run.server().w, mask), alone.server().w));
    }
}

TEST_CASE("L-SPA-4 every tensor keeps its number of weights, in every round and client") {
    auto run = federation(Dst{});
    const auto layout = Layout(run.setup().model.layout());
    const auto shares = mask::densities(layout, 0.5, mask::Distribution::erk);
    const Mask first = run.server().first;
    for (int r = 0; r < 4; ++r) {
        run.round(sample::Uniform{3});
        std::size_t changed = 0;
        for (Id k = 0; k < 6; ++k) {
            const Mask& m = run.server().mask(k);
            for (std::size_t l = 0; l < layout.size(); ++l)
                CHECK(count_in(m, range_of(layout[l])) == mask::active_count(shares[l], layout[l].size()));
            changed += m != first;
        }
        CHECK(changed >= 3);
    }
}

TEST_CASE("L-SPA-5 a coordinate moves only if a client of the round has it; masks of others stay") {
    auto run = federation(Dst{.first = FirstMasks::different});
    std::size_t moved = 0, stayed = 0;
    for (int r = 0; r < 3; ++r) {  // before the last round, in which nothing is exchanged: who came is seen by its mask
        const auto before = run.server();
        run.round(sample::Uniform{2});
        Mask anybody(before.w.size());
        std::size_t untouched = 0;
        for (Id k = 0; k < 6; ++k) {
            untouched += run.server().mask(k) == before.mask(k);
            if (run.server().mask(k) != before.mask(k))
                for_each_active(before.mask(k), {0, anybody.size()}, [&](std::size_t j) { anybody.set(j, true); });
        }
        CHECK(untouched == 4);
        for (std::size_t j = 0; j < before.w.size(); ++j) {
            const bool moves = before.w[j] != run.server().w[j];
            CHECK((anybody[j] || !moves));
            moved += moves;
            stayed += !moves;
        }
    }
    CHECK(moved > 50);
    CHECK(stayed > 50);
}

TEST_CASE("L-SPA-6 a grown coordinate starts at the server's value, a pruned one keeps its value there") {
    auto run = federation(Dst{});
    run.round(sample::Everyone{});
    const auto& s = run.server();
    std::size_t grown = 0;
    for (Id k = 0; k < 6; ++k) {
        const auto down = send_to<Dst, float>(run.setup().method, s, k);
        std::size_t i = 0;
        for_each_active(s.mask(k), {0, s.w.size()}, [&](std::size_t j) {
            CHECK(down.x[i] == s.w[j]);
            if (!s.first[j]) {
                ++grown;
                CHECK(down.x[i] != 0);
            }
            ++i;
        });
        CHECK(i == down.x.size());
    }
    CHECK(grown > 6);

    // Only client 0 goes on: what it does not have stays as it is.
    const auto before = s;
    run.round(OnlyFirst{});
    for (std::size_t j = 0; j < before.w.size(); ++j)
        if (!before.mask(0)[j]) CHECK(run.server().w[j] == before.w[j]);
}

TEST_CASE("V-SPA-1 one round of two clients with masks of their own, by both folds") {
    using Line = support::Quadratic<double, 3>;
    const auto data = support::quadratic_data({{{1, 0}}, {{1, 0}}});  // f = 1/2 |w|^2, so g = (1, 1, 1) at (1, 1, 1)
    const auto after = [&]<class F>(F) {
        using Me = FedSpa<ByHand, rule::Sgd, F>;
        const Me method{.local = {.rate = 0.1}, .first = FirstMasks::different};
        Federation<Me, Line> run{{}, data, method, usual, Vec<double>{1, 1, 1}};
        run.round(sample::Everyone{});
        return run.server().w;
    };
    // A step of 0.1 and a mean of two, in double.
    CHECK(support::distance(after(fold::Mean{}), {0.95, 0.90, 0.95}) < 1e-15);
    CHECK(support::distance(after(fold::OwnersMean{}), {0.9, 0.9, 0.9}) < 1e-15);
}

TEST_CASE("D-SPA-2 the gradient is masked, then clipped") {
    using Line = support::Quadratic<double, 3>;
    using Me = FedSpa<ByHand>;
    const auto data = support::quadratic_data({{{1, 0}}});  // g = w; the mask is (1, 1, 0)
    const auto after = [&](double clip) {
        Federation<Me, Line> run{{}, data, {.local = {.rate = 0.1, .clip = clip}}, usual, Vec<double>{3, 4, 100}};
        run.round(sample::Everyone{});
        return run.server().w;
    };
    // |(3, 4)| = 5 is cut to 1; clipping divides by the norm plus 1e-6.
    CHECK(support::distance(after(1), {3 - 0.06, 4 - 0.08, 100}) < 1e-7);
    CHECK(support::distance(after(0), {2.7, 3.6, 100}) < 1e-15);
    CHECK(support::distance(after(6), {2.7, 3.6, 100}) < 1e-15);  // the whole gradient's norm is 100
}

TEST_CASE("a model chosen at run time gives the same bits") {
    const auto trained = [](auto model, Arithmetic arithmetic) {
        Federation<Dst, decltype(model)> run{std::move(model), toy_data(), {.arithmetic = arithmetic}, usual};
        run.run(3, sample::Uniform{4});
        return run.fingerprint();
    };
    for (const auto how : {Arithmetic::table, Arithmetic::sparse})
        CHECK(trained(nn::AnyModel<float>(Net{}), how) == trained(Net{}, how));
    CHECK(trained(nn::AnyModel<float>(Net{}), Arithmetic::sparse) != trained(Net{}, Arithmetic::dense));
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    const conformance::MethodLaws searching{.rate_zero_serves = false};  // masks move, whatever the rate
    for (const auto arithmetic : {Arithmetic::sparse, Arithmetic::dense}) {
        CHECK(support::broken_laws<Dst, Net>({.arithmetic = arithmetic}, searching) == "");
        CHECK(support::broken_laws<Rsm, Net>({.arithmetic = arithmetic}) == "");
    }
    CHECK(support::broken_laws<Dst, Net>({}, searching) == "");
    CHECK(support::broken_laws<Dst, Net>({.masking = {.prune_rate = 0}}) == "");
    CHECK(support::broken_laws<Rsm, Net>({}) == "");
    CHECK(support::broken_laws<Dst, Net>({.remember = false}, searching) == "");
    CHECK(support::broken_laws<FedSpa<DynamicSparse, rule::Sgd, fold::OwnersMean>, Net>(
              {.masking = {.grow = mask::Grow::random}, .local = {.clip = 10}}, searching) == "");
    // Masks of one's own are drawn by the number of a client, which relabelling changes.
    CHECK(support::broken_laws<Dst, Net>({.first = FirstMasks::different},
                                         {.rate_zero_serves = false, .relabels = false}) == "");
}

#ifdef _OPENMP
TEST_CASE("in every kernel set and either arithmetic one state for any number of threads, and not the same in all") {
    std::set<std::uint64_t> states;
    std::size_t kinds = 0;
    support::for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        const auto after = [](const auto& method, std::size_t threads) {
            using Me = std::remove_cvref_t<decltype(method)>;
            Federation<Me, Net> run{{}, toy_data(), method, usual};
            run.run(3, sample::Uniform{4}, exec::OpenMp{threads});
            return run.fingerprint();
        };
        const auto check = [&](const auto& method) {
            const auto one = after(method, 1);
            for (const std::size_t threads : {2u, 3u}) CHECK(after(method, threads) == one);
            states.insert(one.low);
            ++kinds;
        };
        check(Dst{.arithmetic = Arithmetic::sparse});
        check(Dst{.arithmetic = Arithmetic::dense});
        check(FedAvg<>{});
    });
    CHECK(states.size() > (kinds > 3 ? 3 : 2));  // sets and arithmetics do differ: `amx` alone may be AVX-512 here
}
#endif

TEST_CASE("packed messages: values and mask bits on the wire, and a frame with lengths around them") {
    auto run = federation(Dst{.masking = {.density = 0.5}});
    const std::size_t d = run.server().w.size(), active = run.server().mask(0).count(), bits = (d + 7) / 8;
    const std::size_t n = run.size();
    const auto formula = [&](std::size_t each) { return static_cast<double>(n * each); };
    const auto first = run.round(sample::Everyone{});
    CHECK(first.formula_bytes_down == formula(4 * active + bits + 8));  // the values, the mask and its name
    CHECK(first.formula_bytes_up == formula(4 * active + bits + 16));   // the values, the next mask, weight and sender
    CHECK(first.bytes_down == n * (io::frame_overhead + 16 + 4 * active + bits + 8));  // two lengths of 8 bytes
    CHECK(first.bytes_up == n * (io::frame_overhead + 16 + 4 * active + bits + 12));   // a sender has 4
    // Everybody knows its mask now, so no bits go down; masks moved, so bits go up.
    const auto second = run.round(sample::Everyone{});
    CHECK(second.formula_bytes_down == formula(4 * active + 8));
    CHECK(first.bytes_down - second.bytes_down == n * bits);
    CHECK(second.bytes_up == first.bytes_up);
}

TEST_CASE("a masking of one's own is checked: the size of a mask, and a weight in every tensor") {
    CHECK_THROWS_WITH_AS(federation(FedSpa<TooLong>{}), doctest::Contains("first gives a mask of"), ConfigError);
    CHECK_THROWS_WITH_AS(federation(FedSpa<Hollow>{}), doctest::Contains("first leaves no active weight in 0.bias"),
                         ConfigError);
    auto run = federation(FedSpa<Clears>{});
    const auto before = run.fingerprint();
    CHECK_THROWS_WITH_AS(run.round(sample::Everyone{}), doctest::Contains("next leaves no active weight in 0.weight"),
                         ConfigError);
    CHECK(run.fingerprint() == before);
}

TEST_CASE("wrong settings are refused before round one") {
    CHECK_THROWS_AS(federation(Dst{.masking = {.density = 0}}), ConfigError);
    CHECK_THROWS_AS(federation(Dst{.masking = {.density = 1.01}}), ConfigError);
    CHECK_THROWS_AS(federation(Dst{.masking = {.prune_rate = 2}}), ConfigError);
    CHECK_THROWS_WITH_AS(federation(Rsm{.masking = {.density = 0.05, .distribution = mask::Distribution::uniform}}),
                         doctest::Contains("leaves no active weight in"), ConfigError);
    CHECK_NOTHROW(federation(Rsm{.masking = {.density = 0.3, .distribution = mask::Distribution::uniform}}));
    const auto without_end = [](const auto& method) {
        return Federation<std::remove_cvref_t<decltype(method)>, Net>{Net{}, toy_data(), method, {.rounds = 0}};
    };
    CHECK_THROWS_WITH_AS(without_end(Dst{}), doctest::Contains("set Settings::rounds"), ConfigError);  // L-SPA-9 needs T
    CHECK_NOTHROW(without_end(Dst{.masking = {.prune_rate = 0}}));
    CHECK_NOTHROW(without_end(Rsm{}));
}

}  // namespace fedspa_test
