// SPDX-License-Identifier: BSD-3-Clause
// Where partial personalization must become another method, bit for bit.
#include <doctest/doctest.h>

#include <cstddef>
#include <utility>

#include <tessera/method/fedavg.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/partly.hpp>
#include <support/toy_data.hpp>

namespace partial_limits_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;
using namespace support::partly;

namespace {

template <class R>
using Net = nn::Dnn<Toy::width, 6, Toy::classes, R>;

}  // namespace

TEST_CASE_TEMPLATE("L-ALT-1, L-GEN-10 no personal part: FedAlt and FedSim are FedAvg", R, float, double) {
    const auto same = [](auto method) {
        Federation<FedAvg<>, Net<R>> average{{}, toy_data(), {.local = lively}, usual};
        Federation<decltype(method), Net<R>> split{{}, toy_data(), method, usual};
        for (int r = 0; r < 5; ++r) {
            average.round(sample::Uniform{4});
            split.round(sample::Uniform{4});
            if (!same_bits(average.server().w, split.server().w)) return false;
        }
        return true;
    };
    CHECK(same(with<Alt>("none")));
    CHECK(same(with<Sim>("none")));
    CHECK_FALSE(same(with<Alt>("none", lively, {.rate = 0.2})));  // the shared rule is what acts
    CHECK(same(with<Sim>("none", {.rate = 0.2}, lively)));        // and the personal one does not
    auto by_batches = with<Alt>("none");
    by_batches.weights = Weigh::batches;
    CHECK_FALSE(same(by_batches));
}

TEST_CASE("L-ALT-2 no shared part: both are Local, and no parameter travels") {
    const auto same = [](auto method) {
        Federation<Local<>, Net<float>> local{{}, toy_data(), {.local = lively}, usual};
        Federation<decltype(method), Net<float>> split{{}, toy_data(), method, usual};
        for (int r = 0; r < 5; ++r) {
            local.round(sample::Uniform{4});
            const auto report = split.round(sample::Uniform{4});
            CHECK(report.formula_bytes_down == 0);
            CHECK(report.formula_bytes_up == 4 * 8);  // the weights alone
            CHECK(split.server().w.empty());
            for (Id k = 0; k < 6; ++k)
                if (!same_bits(local.client(k).w, split.client(k).v)) return false;
        }
        return true;
    };
    CHECK(same(with<Alt>("all")));
    CHECK(same(with<Sim>("all")));
    CHECK_FALSE(same(with<Alt>("all", {.rate = 0.2}, lively)));
    CHECK(same(with<Sim>("all", lively, {.rate = 0.2})));
}

}  // namespace partial_limits_test
