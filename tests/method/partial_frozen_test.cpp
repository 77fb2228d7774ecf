// SPDX-License-Identifier: BSD-3-Clause
// Partial personalization with one block at rest: what is left is a method of its own, bit for bit.
#include <doctest/doctest.h>

#include <cstddef>
#include <utility>

#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/partly.hpp>
#include <support/toy_data.hpp>
#include <support/unfused.hpp>

namespace partial_frozen_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;
using namespace support::partly;

namespace {

using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
// FedAvg on the coordinates off the scope, the others frozen.
struct Frozen {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    scope::Chosen own{};
    rule::Sgd local{};
    fold::Mean fold{};
    auto visit(const auto& at, auto w, Nothing&) const {
        const Coordinates v = on(own, *at.model);
        scatter(gather(*at.initial, v), v, w);
        descend(at, w, at.epochs(1), local, {.on = off(own, *at.model)});
        return up(at, std::move(w));
    }
};
// Fine-tuning of the scope alone, each client for itself.
struct Tuned {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    scope::Chosen own{};
    rule::Sgd local{};
    fold::Mean fold{};
    Pass pass = Pass::own;
    template <class R>
    struct Client {
        Vec<R> w;
    };
    auto visit(const auto& at, auto w, auto& me) const {
        descend(at, start(me.w, *at.initial), at.epochs(1, pass), local, {.on = on(own, *at.model)});
        return up(at, std::move(w));
    }
};

}  // namespace

TEST_CASE("L-ALT-3 gamma_v = 0: FedAvg on u with v frozen") {
    // Where a step of FedSim is taken in blocks, the gradient is taken first: the reference must do so too.
    using Plain = support::Unfused<Net>;
    const auto same = [](auto model, auto method, const char* frozen) {
        using M = decltype(model);
        Federation<Frozen, M> reference{model, toy_data(), {.own = frozen, .local = lively}, usual};
        Federation<decltype(method), M> split{model, toy_data(), method, usual};
        const Coordinates u = off(scope::Chosen(frozen), model);
        for (int r = 0; r < 5; ++r) {
            reference.round(sample::Uniform{4});
            split.round(sample::Uniform{4});
            if (!same_bits(gather(reference.server().w, u), split.server().w)) return false;
            for (Id k = 0; k < 6; ++k)
                if (!split.client(k).v.empty() &&
                    !same_bits(split.client(k).v, gather(split.setup().initial, on(scope::Chosen(frozen), model))))
                    return false;
        }
        return true;
    };
    rule::Sgd still = lively;
    still.rate = 0;
    for (const char* own : {"output", "input"}) {
        CHECK(same(Plain{}, with<Alt>(own, still, lively), own));
        CHECK(same(Plain{}, with<Sim>(own, still, lively), own));
        CHECK(same(Net{}, with<Alt>(own, still, lively), own));
        CHECK_FALSE(same(Plain{}, with<Sim>(own, {.rate = 1e-3}, lively), own));
    }
}

TEST_CASE("L-ALT-4 gamma_u = 0: u is constant and both fine-tune v") {
    using Plain = support::Unfused<Net>;
    const auto same = [](auto method, Pass pass) {
        Federation<Tuned, Plain> reference{{}, toy_data(), {.own = "output", .local = lively, .pass = pass}, usual};
        Federation<decltype(method), Plain> split{{}, toy_data(), method, usual};
        const Coordinates v = on(scope::Head{}, Net{}), u = off(scope::Head{}, Net{});
        for (int r = 0; r < 5; ++r) {
            reference.round(sample::Uniform{4});
            split.round(sample::Uniform{4});
            for (Id k = 0; k < 6; ++k)
                if (!split.client(k).v.empty() && !same_bits(split.client(k).v, gather(reference.client(k).w, v)))
                    return false;
        }
        return same_bits(split.server().w, gather(split.setup().initial, u));  // the mean of equal floats is that float
    };
    rule::Sgd still = lively;
    still.rate = 0;
    CHECK(same(with<Alt>("output", lively, still), Pass::own));
    CHECK(same(with<Sim>("output", lively, still), Pass::shared));
    CHECK_FALSE(same(with<Alt>("output", lively, still), Pass::shared));
    CHECK_FALSE(same(with<Sim>("output", lively, {.rate = 1e-3}), Pass::shared));
}

}  // namespace partial_frozen_test
