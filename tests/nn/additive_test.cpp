// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/additive.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/method/fedsim.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace additive_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

// The halves may be of different kinds.
template <class R>
using Pair = Additive<Dnn<8, 5, 4, R>, Mclr<8, 4, R>>;

template <class M>
Vec<double> answers(const M& model, const Vec<double>& w, const Batch<double>& batch) {
    Vec<double> out(batch.size() * model.outputs());
    model.predict(w, batch, out);
    return out;
}

}  // namespace

TEST_CASE("gradients agree with differences, the mixing weight's too") {
    for (const Mix mix : {Mix::probabilities, Mix::logits}) {
        CHECK(conformance::check_gradients(Pair<double>(mix)).empty());
        CHECK(conformance::check_gradients(Pair<float>(mix)).empty());
    }
}

TEST_CASE("the prediction is the mixture, and the loss is its cross-entropy") {
    const auto data = toy_dataset<double>(7, 8, 4);
    const auto ids = first_ids(7);
    const Batch<double> batch(data.examples(), ids);
    const Dnn<8, 5, 4, double> shared;
    const Mclr<8, 4, double> own;
    auto w = initial_parameters(Pair<double>{}, Key{4});
    CHECK(w.back() == 0);  // a = 1/2
    w.back() = 0.7;
    const double a = 1 / (1 + std::exp(-0.7));
    const Vec<double> u(w.begin(), w.begin() + 69), v(w.begin() + 69, w.end() - 1);
    const auto p = answers(shared, u, batch), q = answers(own, v, batch);
    Vec<double> z(p.size()), y(p.size()), mixed(p.size()), g(w.size());
    shared.logits(u, batch, z);
    own.logits(v, batch, y);
    for (const Mix mix : {Mix::probabilities, Mix::logits}) {
        const auto got = answers(Pair<double>(mix), w, batch);
        double loss = 0;
        for (std::size_t i = 0; i < 7; ++i) {
            for (std::size_t c = 0; c < 4; ++c)
                mixed[4 * i + c] = mix == Mix::probabilities
                                       ? std::log((1 - a) * std::exp(p[4 * i + c]) + a * std::exp(q[4 * i + c]))
                                       : (1 - a) * z[4 * i + c] + a * y[4 * i + c];
            if (mix == Mix::logits) log_softmax(Out<double>(mixed).subspan(4 * i, 4));
            loss -= mixed[4 * i + batch.label(i)] / 7;
        }
        CHECK(distance(got, mixed) < 1e-12);  // a few roundings of numbers near 1
        CHECK(Pair<double>(mix).gradient(w, batch, g) == doctest::Approx(loss).epsilon(1e-12));
    }
    CHECK(distance(answers(Pair<double>(Mix::logits), w, batch), answers(Pair<double>(Mix::probabilities), w, batch)) >
          1e-4);
}

TEST_CASE("far-off mixing weights leave one model, without a number that is not finite") {
    const auto data = toy_dataset<double>(5, 8, 4);
    const auto ids = first_ids(5);
    const Batch<double> batch(data.examples(), ids);
    auto w = initial_parameters(Pair<double>{}, Key{5});
    Vec<double> g(w.size());
    const Vec<double> u(w.begin(), w.begin() + 69), v(w.begin() + 69, w.end() - 1);
    for (const double far : {-800.0, -40.0, 40.0, 800.0}) {
        w.back() = far;
        const Pair<double> model;
        const auto one = far < 0 ? answers(Dnn<8, 5, 4, double>{}, u, batch) : answers(Mclr<8, 4, double>{}, v, batch);
        CHECK(distance(answers(model, w, batch), one) < 1e-12);
        CHECK(std::isfinite(model.gradient(w, batch, g)));
        CHECK(all_finite(g));
    }
}

TEST_CASE("the personal half and the mixing weight are what scope::Adapter selects") {
    CHECK(dimension(Pair<float>{}) == 69 + 36 + 1);
    const auto own = on<scope::Adapter>(Pair<float>{});
    CHECK(own.size(0) == 37);
    CHECK(own.covers({69, 106}));
    CHECK(on<scope::Head>(Pair<float>{}).size(0) == 24);  // the shared model's
    using Uneven = Additive<Mclr<8, 4>, Mclr<8, 3>>;
    CHECK_THROWS_WITH_AS(Uneven{}, "the shared model has 4 outputs, the personal one 3", ConfigError);
}

TEST_CASE("in a federation the halves learn together and every client finds its own mixture") {
    Federation<FedSim<scope::Adapter>, Pair<float>> run{Pair<float>{}, toy_data(), {}, {.seed = 1, .batch = 5}};
    run.run(15, sample::Everyone{});
    CHECK(run.server().w.size() == 69);
    CHECK(run.client(0).v.size() == 37);
    CHECK(run.client(0).v.back() != run.client(1).v.back());
    CHECK(evaluate<Which::personal, SplitOf::train>(run).loss(Average::pooled).value.get() <
          evaluate<Which::global, SplitOf::train>(run).loss(Average::pooled).value.get());
}

}  // namespace additive_test
