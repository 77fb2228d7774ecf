// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/pfedbayes.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/method/local.hpp>
#include <tessera/nn/batch_norm.hpp>
#include <tessera/nn/gradient_check.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/answers.hpp>
#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>

namespace pfedbayes_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Mclr<Toy::width, Toy::classes>;
using Wide = nn::Dnn<4, 3, 3, double>;
constexpr Settings usual{.seed = 3, .batch = 5};

Vec<double> about(const Wide& model, double mean, double s) {
    Vec<double> x(2 * dimension(model), nn::softplus_inverse(s));
    for (std::size_t j = 0; j < x.size() / 2; ++j) x[j] = mean * std::sin(static_cast<double>(j));
    return x;
}

}  // namespace

TEST_CASE("the divergence of two Gaussians by hand, and none of one from itself") {
    // log(2 / 1/2) + (1/4 + 1) / 8 - 1/2
    const Vec<double> q{1, nn::softplus_inverse(0.5)}, w{0, nn::softplus_inverse(2)};
    Vec<double> g(2);
    CHECK(nn::add_divergence<double>(q, w, 1, true, g) == doctest::Approx(std::log(4) + 1.25 / 8 - 0.5));
    CHECK(g[0] == doctest::Approx(0.25));  // (m_q - m_w) / s_w^2
    Vec<double> none(2);
    CHECK(std::fabs(nn::add_divergence<double>(w, w, 1, true, none)) < 1e-15);  // rounding of logs and quotients
    CHECK(std::fabs(none[0]) + std::fabs(none[1]) < 1e-15);
    CHECK(nn::softplus(nn::softplus_inverse(0.08)) == doctest::Approx(0.08));
}

TEST_CASE("both objectives have the gradients that differences find") {
    const Wide model;
    const auto prior = about(model, 0.3, 0.2), q = about(model, -0.2, 0.4);
    CHECK(conformance::check_gradients(nn::Variational<Wide>{&model, prior, 0.05, 3}, 1e-6, 4).empty());
    CHECK(conformance::check_gradients(nn::Nearest<Wide>{&model, q}, 1e-6, 4).empty());
}

TEST_CASE("narrow and unpulled it is each client's own descent; the pull and the width both count") {
    const auto means = [](double deviation, double zeta) {
        PFedBayes<> method{.personal = {.rate = 0.1}, .zeta = zeta, .deviation = deviation};
        method.steps = 4;
        Federation<PFedBayes<>, Net> run{{}, toy_data(), method, usual};
        run.run(3, sample::Everyone{});
        auto v = run.client(1).v;
        v.resize(v.size() / 2);
        return v;
    };
    Federation<Local<>, Net> alone{{}, toy_data(), {.local = {.rate = 0.1}, .epochs = 0, .steps = 4, .pass = Pass::shared}, usual};
    alone.run(3, sample::Everyone{});
    const auto w = alone.client(1).w;
    CHECK(support::distance(means(1e-6, 0), w) < 1e-4);  // draws of 1e-6 around it, and float
    CHECK(support::distance(means(0.3, 0), w) > 1e-2);
    CHECK(support::distance(means(0.05, 5), w) > 1e-2);
}

TEST_CASE("answers average probabilities of drawn models; without draws they are the mean's") {
    Federation<PFedBayes<>, Net> run{{}, toy_data(), {.personal = {.rate = 0.1}, .deviation = 0.5}, usual};
    run.run(2, sample::Everyone{});
    const auto shown = [&](std::size_t draws) {
        auto v = run.client(0).v;
        const nn::DrawnPredictor<Net> predict(run.setup().model, v, draws, Key{4});
        const auto data = run.data()[0];
        Vec<float> out(data.train.size() * Toy::classes), plain(out.size());
        predict(Batch<float>(*data.examples, data.train), Out<float>(out));
        v.resize(v.size() / 2);
        run.setup().model.predict(v, Batch<float>(*data.examples, data.train), Out<float>(plain));
        double sum = 0;
        for (std::size_t c = 0; c < Toy::classes; ++c) sum += std::exp(static_cast<double>(out[c]));
        CHECK(sum == doctest::Approx(1).epsilon(1e-5));  // probabilities in float
        return std::pair{support::distance(out, plain), out};
    };
    CHECK(shown(0).first == 0);
    CHECK(shown(5).first > 1e-3);
    CHECK(same_bits(shown(5).second, shown(5).second));
}

TEST_CASE("settings and models that cannot be right are refused") {
    const auto refused = [](PFedBayes<> method, const std::string& words) {
        CHECK_THROWS_WITH_AS((Federation<PFedBayes<>, Net>{{}, toy_data(), method, usual}), doctest::Contains(words.c_str()),
                             ConfigError);
    };
    refused({.deviation = 0}, "deviation");
    refused({.zeta = -1}, "zeta");
    refused({.draws = 0}, "draws");
    const nn::Network<float> normed(Toy::width, nn::chain(nn::Linear{4}, nn::BatchNorm{}, nn::Linear{Toy::classes}));
    CHECK_THROWS_WITH_AS((Federation<PFedBayes<>, nn::Network<float>>{normed, toy_data(), {}, usual}),
                         doctest::Contains("running statistics"), ConfigError);
}

TEST_CASE("the conformance kit: laws of methods") {
    CHECK(support::broken_laws(PFedBayes<>{.local = {.rate = 0.05}, .personal = {.rate = 0.05}, .steps = 3, .zeta = 0.1, .answers = 2}) == "");
}

}  // namespace pfedbayes_test
