// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/objective/taught.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include <tessera/conformance.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/toy_numbers.hpp>

namespace taught_test {

using namespace tessera;
using support::same_bits;

namespace {
using Net = nn::Dnn<5, 4, 3, double>;
static_assert(Model<nn::Taught<Net>>);

template <class R>
nn::Answers<R> answers_to(std::vector<R> logits, std::size_t outputs, nn::Softening soften) {
    nn::Answers<R> a;
    for (std::size_t i = 0; i < logits.size() / outputs; ++i) a.ids.push_back(static_cast<Index>(i));
    a.q.assign(logits.begin(), logits.end());
    soften(Out<R>(a.q), outputs);
    return a;
}

struct Lesson {
    double loss;
    Vec<double> slope;
};
// One batch of examples 0, 1, ... with these logits of teacher and student.
Lesson lesson(const std::vector<double>& teacher, const std::vector<double>& student, nn::Softening soften = {}) {
    const auto data = support::toy_dataset<double>(8, 5, 3);
    const Net net;
    const auto ids = support::first_ids(teacher.size() / 3);
    const auto said = answers_to(teacher, 3, soften);
    const nn::Taught<Net> taught{&net, &said, soften};
    Lesson result{0, Vec<double>(student.begin(), student.end())};
    result.loss = taught.slope(Batch<double>(data.examples(), ids), result.slope);
    return result;
}
}  // namespace

TEST_CASE("V-ADA-1 teacher (2, 0, -1), student (0, 0, 0)") {
    const auto got = lesson({2, 0, -1}, {0, 0, 0});
    CHECK(std::fabs(got.loss - 0.5743456719) < 1e-10);  // the vector has ten decimals
    CHECK(support::distance(got.slope, {-0.5104614011, 0.2191381339, 0.2913232672}) < 1e-10);
    const auto averaged = lesson({2, 0, -1, 2, 0, -1}, {0, 0, 0, 0, 0, 0});  // a mean over the batch
    CHECK(std::fabs(averaged.loss - 0.5743456719) < 1e-10);
    CHECK(support::distance(averaged.slope, {-0.5104614011 / 2, 0.2191381339 / 2, 0.2913232672 / 2, -0.5104614011 / 2,
                                             0.2191381339 / 2, 0.2913232672 / 2}) < 1e-10);
}

TEST_CASE("L-ADA-7 a constant added to all logits changes nothing; loss(z, tau) = loss(z / tau, 1)") {
    const std::vector<double> teacher{2, 0.5, -1}, student{0.25, -0.75, 1.5};
    const auto plain = lesson(teacher, student);
    const auto raised = [](std::vector<double> z, double by) {
        for (double& each : z) each += by;
        return z;
    };
    // Quarters and 16 add without rounding, so the differences to the largest logit are the same numbers.
    CHECK(same_bits(lesson(raised(teacher, 16), student).slope, plain.slope));
    CHECK(lesson(teacher, raised(student, 16)).loss == doctest::Approx(plain.loss).epsilon(1e-14));
    CHECK(same_bits(lesson(teacher, raised(student, 16)).slope, plain.slope));
    CHECK_FALSE(same_bits(lesson({2, 0.5, -0.75}, student).slope, plain.slope));
    const auto divided = [](std::vector<double> z, double by) {
        for (double& each : z) each /= by;
        return z;
    };
    const auto warm = lesson(teacher, student, {.temperature = 4});
    const auto scaled = lesson(divided(teacher, 4), divided(student, 4));
    CHECK(warm.loss == scaled.loss);
    for (std::size_t c = 0; c < 3; ++c) CHECK(warm.slope[c] == scaled.slope[c] / 4);  // d(z / tau) / dz, and no tau^2
    CHECK(warm.loss != plain.loss);
}

TEST_CASE_TEMPLATE("a student that answers as its teacher has the slope 0, exactly", R, float, double) {
    for (const auto answer : {nn::Answer::classes, nn::Answer::labels}) {
        const nn::Softening soften{.temperature = 3, .answer = answer};
        const nn::Dnn<5, 4, 3, R> net;
        const auto data = support::toy_dataset<R>(40, 5, 3);
        const auto ids = support::first_ids(40);
        const auto w = initial_parameters(net, Key{2});
        nn::Answers<R> said;
        said.ids.assign(ids.begin(), ids.end());
        said.q.resize(40 * 3);
        net.logits(w, Batch<R>(data.examples(), ids), said.q);
        soften(Out<R>(said.q), 3);
        const nn::Taught<nn::Dnn<5, 4, 3, R>> taught{&net, &said, soften};
        Vec<R> g(w.size(), R(1));
        // Another batch than the teacher's: what a row answers does not depend on the rows beside it.
        const std::vector<Index> some{31, 7, 8, 39, 0, 2, 20};
        const double loss = taught.gradient(w, Batch<R>(data.examples(), some), g);
        CHECK(std::fabs(loss) < 1e-6);  // logarithms of rounded probabilities
        CHECK(same_bits(g, Vec<R>(w.size())));
        auto moved = w;
        moved[0] += R(0.5);
        CHECK(taught.gradient(moved, Batch<R>(data.examples(), some), g) > 1e-6);
        CHECK_FALSE(same_bits(g, Vec<R>(w.size())));
    }
}

TEST_CASE("gradients by differences, classes and labels, cold and warm") {
    const Net net;
    const auto data = support::toy_dataset<double>(9, 5, 3);
    const auto ids = support::first_ids(9);
    const Batch<double> batch(data.examples(), ids);
    for (const auto answer : {nn::Answer::classes, nn::Answer::labels})
        for (const double temperature : {0.5, 1.0, 3.0}) {
            const nn::Softening soften{temperature, answer};
            const auto said = answers_to(support::toy_numbers<double>(9 * 3, 3), 3, soften);
            CHECK(conformance::check_gradients(nn::Taught<Net>{&net, &said, soften}, batch).empty());
        }
}

TEST_CASE("labels: the binary divergence of each, mean over labels") {
    const nn::Softening labels{.answer = nn::Answer::labels};
    const auto got = lesson({1, -2, 0.5}, {0, 0, 0}, labels);
    double expected = 0;
    for (const double z : {1.0, -2.0, 0.5}) {
        const double q = 1 / (1 + std::exp(-z));
        expected += (q * std::log(q / 0.5) + (1 - q) * std::log((1 - q) / 0.5)) / 3;
    }
    CHECK(got.loss == doctest::Approx(expected).epsilon(1e-14));
    CHECK(got.slope[1] == doctest::Approx((0.5 - 1 / (1 + std::exp(2.0))) / 3).epsilon(1e-14));
    CHECK(lesson({1, -2, 0.5}, {0, 0, 0}).loss != doctest::Approx(expected));
    // Far out, where probabilities round to 0 and 1, the loss is still a number.
    CHECK(std::isfinite(lesson({800, -800, 0}, {-800, 800, 0}, labels).loss));
    CHECK(std::isfinite(lesson({800, -800, 0}, {-800, 800, 0}).loss));
}

}  // namespace taught_test
