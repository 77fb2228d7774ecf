// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/runtime/class_loss.hpp>

#include <doctest/doctest.h>

#include <tessera/exec/openmp.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace class_loss_test {

using namespace tessera;

namespace {

using Net = nn::Mclr<8, 4>;
using Run = Federation<FedAvgFt<>, Net>;

Run trained() {
    const FedAvgFt<> method{.local = {.rate = 0.3}, .tune_epochs = 3};
    Run run{Net{}, support::toy_data({}), method, {.seed = 2, .batch = 5}};
    run.run(4, sample::Uniform{3});
    return run;
}

// Sums over the classes are the evaluation's sums over the examples.
template <class Classes, class Result>
void adds_up(const Classes& classes, const Result& result) {
    REQUIRE(classes.size() == result.counts().size());
    for (std::size_t k = 0; k < classes.size(); ++k) {
        double loss = 0;
        std::size_t n = 0;
        for (std::size_t c = 0; c < 4; ++c) loss += classes[k].loss_sum[c], n += classes[k].n[c];
        CHECK(classes[k].client == result.counts()[k].client);
        CHECK(n == result.counts()[k].n);
        CHECK(loss == doctest::Approx(result.counts()[k].loss_sum).epsilon(1e-12));  // order of additions
    }
}

}  // namespace

TEST_CASE("losses per class add up to the evaluation's, on own data and on the union") {
    const auto run = trained();
    adds_up(class_losses<Which::personal>(run), evaluate<Which::personal>(run));
    adds_up(class_losses<Which::global>(run), evaluate<Which::global>(run));
    adds_up(class_losses_on_union<Which::personal>(run), evaluate_on_union<Which::personal>(run));
}

TEST_CASE("examples are counted under their own class") {
    const auto run = trained();
    const auto classes = class_losses<Which::personal>(run);
    for (std::size_t k = 0; k < run.size(); ++k) {
        std::vector<std::size_t> expected(4);
        const auto data = run.data()[k];
        for (const Index i : data.test) ++expected[static_cast<std::size_t>(data.examples->labels[i])];
        CHECK(classes[k].n == expected);
    }
    // On the union every model sees the same examples, and the models differ.
    const auto everywhere = class_losses_on_union<Which::personal>(run);
    CHECK(everywhere[0].n == everywhere[1].n);
    CHECK(everywhere[0].loss_sum != everywhere[1].loss_sum);
}

TEST_CASE("one model for all deviates from nothing on the union; threads change no bit") {
    const auto run = trained();
    for (const auto& client : report::analysis::loss_deviations(class_losses_on_union<Which::global>(run),
                                                               Average::unweighted))
        for (const double deviation : client) CHECK(deviation == 0);
    const auto one = class_losses<Which::personal>(run), four = class_losses<Which::personal>(run, exec::OpenMp{4});
    for (std::size_t k = 0; k < one.size(); ++k) CHECK(one[k].loss_sum == four[k].loss_sum);
}

TEST_CASE("targets that are not classes are refused") {
    const Federation<Local<>, support::Quadratic<>> run{support::Quadratic<>{}, support::quadratic_data({{{1, 0}}}),
                                                        Local<>{}};
    CHECK_THROWS_AS(class_losses<Which::personal>(run), ConfigError);
}

}  // namespace class_loss_test
