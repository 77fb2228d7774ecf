// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/fold/distill.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <tessera/core/bytes.hpp>
#include <tessera/exec/serial.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/adam.hpp>
#include <tessera/runtime/setup.hpp>

#include <support/bits.hpp>
#include <support/slope.hpp>
#include <support/toy_numbers.hpp>

namespace distill_test {

using namespace tessera;
using support::same_bits;

namespace {

constexpr std::size_t width = 5, classes = 3, examples = 60;
template <class R>
using Net = nn::Dnn<width, 4, classes, R>;
template <class R>
using Linear = nn::Mclr<width, classes, R>;
static_assert(RowDecorator<fold::Distill<>, Net<float>> && Fold<fold::Distill<>, Net<float>>);
static_assert(!LinearFold<fold::Distill<>, Net<float>> && !LinearFold<fold::Relax<fold::Distill<>>, Net<float>>);
static_assert(!accepts_masks<fold::Distill<>>);

// A server with public examples of its own, and labelled ones.
template <class M>
struct PublicServer {
    using R = real<M>;
    M model{};
    data::Dataset data = support::toy_dataset<R>(examples, width, classes);
    std::vector<Index> ids = support::first_ids(40), held{};
    ClientData labelled{};
    Workspace<R> workspace{};
    std::size_t round = 0;

    Context<M> context() {
        labelled = {&data.examples(), held};
        return {.model = &model,
                .examples = &data.examples(),
                .ids = ids,
                .key = Key{4},
                .batch = 7,
                .round = round,
                .rounds = 10,
                .workspace = &workspace,
                .labelled = &labelled};
    }
    std::vector<Vec<R>> uploads(std::size_t count) const {
        std::vector<Vec<R>> all;
        for (std::size_t k = 0; k < count; ++k) all.push_back(initial_parameters(model, Key{70 + k}));
        return all;
    }
    template <class F>
    Vec<R> folded(const F& fold, const std::vector<Vec<R>>& uploads, const std::vector<double>& weights = {}) {
        Vec<Row<R>> rows;
        for (std::size_t k = 0; k < uploads.size(); ++k)
            rows.push_back({.x = uploads[k], .weight = weights.empty() ? 1 : weights[k]});
        memory_t<F, R> memory{};
        Vec<R> w = initial_parameters(model, Key{69});
        fold_rows(fold, context(), w, Rows<R>(rows), memory);
        return w;
    }
};

const fold::Distill<> few{.kd_steps = 12, .kd_batch = 16, .kd_rate = 0.01};

}  // namespace

TEST_CASE("V-ADA-2 two teachers (4, 0) and (0, 2): the mean of logits, or of probabilities") {
    // One feature that is 1: a teacher's weights are its logits.
    using Two = nn::Mclr<1, 2, double>;
    PublicServer<Two> server;
    server.data = data::Dataset::own(std::vector<double>{1.0}, {0}, 2);
    server.ids = {0};
    const Vec<double> a{4, 0, 0, 0}, b{0, 2, 0, 0};
    const Vec<Row<double>> rows{{.x = a}, {.x = b, .weight = 3}};
    const auto target = [&](const fold::Distill<>& fold) {
        return fold.answers(server.context(), Rows<double>(rows), {0}).q;
    };
    CHECK(support::distance(target({}), {0.7310585786, 0.2689414214}) < 1e-10);  // the vectors have ten decimals
    CHECK(support::distance(target({.ensemble = fold::Ensemble::probabilities}), {0.5506083560, 0.4493916440}) < 1e-10);
    CHECK(support::distance(target({.weighted = true}), {0.7310585786, 0.2689414214}) > 0.1);  // (1, 1.5)
}

TEST_CASE_TEMPLATE("L-ADA-3, L-ADA-4 one teacher, or equal ones: nothing changes, bit for bit", R, float, double) {
    PublicServer<Net<R>> server;
    for (const auto ensemble : {fold::Ensemble::logits, fold::Ensemble::probabilities})
        for (const double temperature : {1.0, 2.5}) {
            auto fold = few;
            fold.ensemble = ensemble;
            fold.temperature = temperature;
            const auto one = server.uploads(1);
            CHECK(same_bits(server.folded(fold, one), one[0]));
            CHECK(same_bits(server.folded(fold, {one[0], one[0]}), one[0]));
            // The mean of three equal doubles may round, and Adam makes a step of any slope.
            if (std::is_same_v<R, float>) CHECK(same_bits(server.folded(fold, {one[0], one[0], one[0]}), one[0]));
            CHECK_FALSE(
                same_bits(server.folded(fold, server.uploads(2)), server.folded(fold::Mean{}, server.uploads(2))));
        }
}

TEST_CASE_TEMPLATE("L-ADA-2 answers linear in the parameters: the teachers' mean is the student's, nothing moves", R,
                   float, double) {
    // Eighths of small whole numbers, so that no sum and no mean of two rounds and the slope is 0 exactly. (Where it is
    // only rounding, Adam's steps let it grow.)
    PublicServer<Linear<R>> server;
    const auto eighths = [](std::size_t n, std::uint64_t seed) {
        auto x = support::toy_numbers<R>(n, seed);
        for (R& each : x) each = std::round(each * 8) / 8;
        return x;
    };
    server.data = data::Dataset::own(eighths(examples * width, 5), support::toy_labels(examples, classes, 6), classes);
    std::vector<Vec<R>> uploads;
    for (const std::uint64_t seed : {7u, 8u}) {
        const auto x = eighths(Linear<R>::parameters, seed);
        uploads.emplace_back(x.begin(), x.end());
    }
    auto long_one = few;
    long_one.kd_steps = 200;
    CHECK(same_bits(server.folded(long_one, uploads), server.folded(fold::Mean{}, uploads)));
    const std::vector<double> weights{1, 4};
    auto weighted = long_one;
    weighted.weighted = true;
    CHECK(same_bits(server.folded(weighted, {uploads[0], uploads[1], uploads[1]}, {2, 1, 1}),
                    server.folded(fold::Mean{}, uploads)));
    // Teachers that count the same against a mean that does not, and probabilities, which are not linear.
    CHECK(support::distance(server.folded(few, uploads, weights), server.folded(fold::Mean{}, uploads, weights)) >
          1e-3);
    auto mixed = few;
    mixed.ensemble = fold::Ensemble::probabilities;
    CHECK(support::distance(server.folded(mixed, uploads), server.folded(fold::Mean{}, uploads)) > 1e-3);
}

TEST_CASE_TEMPLATE("the student's steps are Adam's with a cosine rate, on reshuffled passes over the public data", R,
                   float, double) {
    PublicServer<Net<R>> server;
    server.round = 3;
    const auto uploads = server.uploads(3);
    auto w = server.folded(fold::Mean{}, uploads);
    Vec<Row<R>> rows;
    for (const auto& x : uploads) rows.push_back({.x = x});
    const auto said = few.answers(server.context(), Rows<R>(rows), {server.ids.begin(), server.ids.end()});
    const nn::Taught<Net<R>> taught{&server.model, &said, few.softening()};
    auto desk = server.context();
    desk.batch = 16;
    const auto batches = desk.epochs(4);  // 40 examples: 16 + 16 + 8, four times
    auto at = desk.with(taught);
    at.rounds = 12;
    rule::Adam::Memory<R> memory;
    const rule::Adam adam{.rate = 0.01, .schedule = {.decay = rule::Decay::cosine}};
    for (at.round = 0; at.round < 12; ++at.round) adam.step(at, w, batches[at.round], {}, memory);
    CHECK(same_bits(server.folded(few, uploads), w));
    server.round = 4;  // other shuffles
    CHECK_FALSE(same_bits(server.folded(few, uploads), w));
}

TEST_CASE("it lowers the divergence from the teachers") {
    PublicServer<Net<double>> server;
    const auto uploads = server.uploads(4);
    Vec<Row<double>> rows;
    for (const auto& x : uploads) rows.push_back({.x = x});
    const auto said = few.answers(server.context(), Rows<double>(rows), {server.ids.begin(), server.ids.end()});
    const nn::Taught<Net<double>> taught{&server.model, &said, few.softening()};
    const auto loss = [&](const Vec<double>& w) {
        Vec<double> unused(w.size());
        return taught.gradient(w, server.context().everything(), unused);
    };
    auto longer = few;
    longer.kd_steps = 200;
    const double before = loss(server.folded(fold::Mean{}, uploads));
    CHECK(loss(server.folded(few, uploads)) < before);
    CHECK(loss(server.folded(longer, uploads)) < 0.5 * before);
    // A lesson smaller than what is worth a round is not given; 12 batches of 16 read all 40 examples.
    auto choosy = few;
    choosy.least_lesson = 0.999 * before;
    CHECK(same_bits(server.folded(choosy, uploads), server.folded(few, uploads)));
    choosy.least_lesson = 1.001 * before;
    CHECK(same_bits(server.folded(choosy, uploads), server.folded(fold::Mean{}, uploads)));
}

TEST_CASE("where the lesson is rounding alone Adam wanders, and a least lesson leaves the mean") {
    PublicServer<Linear<double>> server;
    const auto uploads = server.uploads(3);
    const auto mean = server.folded(fold::Mean{}, uploads);
    CHECK(support::distance(server.folded(few, uploads), mean) > 1e-9);
    auto choosy = few;
    choosy.least_lesson = 1e-12;
    CHECK(same_bits(server.folded(choosy, uploads), mean));
    choosy.least_lesson = -1;
    CHECK_THROWS_AS(choosy.validate(), ConfigError);
}

TEST_CASE("D-ADA-2 only in the first rounds; no steps and no uploads: the inner fold alone") {
    PublicServer<Net<float>> server;
    const auto uploads = server.uploads(3);
    const auto distils = [&](std::size_t round, std::size_t kd_rounds, std::size_t kd_steps = 12) {
        server.round = round;
        auto fold = few;
        fold.kd_rounds = kd_rounds;
        fold.kd_steps = kd_steps;
        return !same_bits(server.folded(fold, uploads), server.folded(fold::Mean{}, uploads));
    };
    CHECK_FALSE(distils(0, 0));
    CHECK(distils(0, 1));
    CHECK_FALSE(distils(1, 1));
    CHECK(distils(1, 2));
    CHECK(distils(9, std::numeric_limits<std::size_t>::max()));
    CHECK_FALSE(distils(0, 5, 0));
    CHECK(same_bits(server.folded(few, {}), server.folded(fold::Mean{}, {})));
}

TEST_CASE("D-ADA-3 the best student on labelled examples, or the mean if none is better") {
    PublicServer<Net<double>> server;
    auto uploads = server.uploads(4);
    for (auto& x : uploads)
        for (double& each : x) each *= 3;  // teachers that disagree
    // Labels are made so that the answer that is called right is the mean's, or the last student's.
    const auto judged_by = [&](const Vec<double>& reference, std::size_t patience = 1000) {
        std::vector<std::int32_t> labels(examples);
        Vec<double> out(examples * classes);
        const auto all = support::first_ids(examples);
        server.model.predict(reference, Batch<double>(server.data.examples(), all), out);
        for (std::size_t i = 0; i < examples; ++i)
            labels[i] = static_cast<std::int32_t>(
                std::max_element(out.begin() + static_cast<std::ptrdiff_t>(i * classes),
                                 out.begin() + static_cast<std::ptrdiff_t>((i + 1) * classes)) -
                (out.begin() + static_cast<std::ptrdiff_t>(i * classes)));
        server.data = data::Dataset::own(support::toy_numbers<double>(examples * width, 1), labels, classes);
        server.held = all;
        auto fold = few;
        fold.kd_steps = 60;
        fold.kd_rate = 0.1;
        fold.select = fold::Select::best_val_or_init;
        fold.patience = patience;
        return server.folded(fold, uploads);
    };
    auto plain = few;
    plain.kd_steps = 60;
    plain.kd_rate = 0.1;
    const auto mean = server.folded(fold::Mean{}, uploads), last = server.folded(plain, uploads);
    CHECK(same_bits(judged_by(mean), mean));  // all the mean's answers are right: the whole distillation is thrown away
    const auto best = judged_by(last);
    CHECK_FALSE(same_bits(best, mean));
    const auto right = [&](const Vec<double>& w) {
        Vec<double> a(examples * classes);
        const Batch<double> held(server.data.examples(), server.held);
        server.model.predict(w, held, a);
        std::size_t n = 0;
        for (std::size_t i = 0; i < examples; ++i) {
            const auto* row = a.data() + i * classes;
            n += static_cast<std::size_t>(std::max_element(row, row + classes) - row) == held.label(i);
        }
        return n;
    };
    CHECK(right(best) == examples);
    CHECK(right(mean) < examples);
    // The first student is no better than the mean, and one step without a better one is enough to stop.
    CHECK(same_bits(judged_by(last, 1), mean));
}

TEST_CASE("patience counts from the last better student") {
    PublicServer<Net<double>> server;
    auto uploads = server.uploads(4);
    for (auto& x : uploads)
        for (double& each : x) each *= 3;
    fold::Distill<> fold{.kd_steps = 40, .kd_batch = 40, .kd_rate = 0.1, .select = fold::Select::best_val_or_init};
    // All its students, as above: the rule's Adam.
    std::vector<Vec<double>> students{server.folded(fold::Mean{}, uploads)};
    Vec<Row<double>> rows;
    for (const auto& x : uploads) rows.push_back({.x = x});
    const auto said = fold.answers(server.context(), Rows<double>(rows), {server.ids.begin(), server.ids.end()});
    const nn::Taught<Net<double>> taught{&server.model, &said, fold.softening()};
    auto desk = server.context();
    desk.batch = fold.kd_batch;
    const auto batches = desk.epochs(fold.kd_steps);
    auto at = desk.with(taught);
    at.rounds = fold.kd_steps;
    rule::Adam::Memory<double> memory;
    const rule::Adam adam{.rate = fold.kd_rate, .schedule = {.decay = rule::Decay::cosine}};
    for (at.round = 0; at.round < fold.kd_steps; ++at.round) {
        students.push_back(students.back());
        adam.step(at, students.back(), batches[at.round], {}, memory);
    }
    // What the last one answers is called right.
    const auto all = support::first_ids(examples);
    const auto answers = [&](const Vec<double>& w) {
        Vec<double> out(examples * classes);
        server.model.predict(w, Batch<double>(server.data.examples(), all), out);
        std::vector<std::int32_t> best;
        for (auto row = out.begin(); row != out.end(); row += classes)
            best.push_back(static_cast<std::int32_t>(std::max_element(row, row + classes) - row));
        return best;
    };
    const auto labels = answers(students.back());
    std::vector<std::ptrdiff_t> right;
    for (const auto& w : students) {
        const auto said_now = answers(w);
        std::ptrdiff_t n = 0;
        for (std::size_t i = 0; i < examples; ++i) n += said_now[i] == labels[i];
        right.push_back(n);
    }
    server.data = data::Dataset::own(support::toy_numbers<double>(examples * width, 1), labels, classes);
    server.held = all;
    std::size_t later = 0;  // patiences whose best student came after more steps than that
    for (fold.patience = 1; fold.patience < 12; ++fold.patience) {
        std::size_t best = 0;
        for (std::size_t r = 1; r < students.size() && r <= best + fold.patience; ++r)
            if (right[r] > right[best]) best = r;
        CHECK(same_bits(server.folded(fold, uploads), students[best]));
        later += best > fold.patience;
    }
    CHECK(later > 0);
}

TEST_CASE("teachers and student are computed in pieces that any number of workers may take") {
    PublicServer<Net<float>> server;
    server.data = support::toy_dataset<float>(700, width, classes);
    server.ids = support::first_ids(700);
    const auto uploads = server.uploads(3);
    const auto alone = server.folded(few, uploads);
    std::size_t pieces = 0;
    const auto backwards = [&](std::size_t count, auto&& piece) {
        for (pieces += count; count-- > 0;) piece(count);
    };
    auto fold = few;
    fold.kd_steps = 50;
    const auto long_alone = server.folded(fold, uploads);
    CrewBy crew(4, backwards);
    const Crew::Use use(&crew);
    CHECK(same_bits(server.folded(few, uploads), alone));
    CHECK(same_bits(server.folded(fold, uploads), long_alone));
    CHECK(pieces >= 3);
}

TEST_CASE("decorators nest: what is distilled is what the inner fold gives") {
    PublicServer<Net<float>> server;
    const auto uploads = server.uploads(3);
    const fold::Distill<fold::Relax<>> half{.kd_steps = 12, .kd_batch = 16, .kd_rate = 0.01, .inner = {.beta = 0.5}};
    const fold::Relax<fold::Distill<>> outside{.beta = 0.5, .inner = few};
    CHECK_FALSE(same_bits(server.folded(half, uploads), server.folded(few, uploads)));
    CHECK_FALSE(same_bits(server.folded(half, uploads), server.folded(outside, uploads)));
    auto none = half;
    none.kd_steps = 0;
    CHECK(same_bits(server.folded(none, uploads), server.folded(fold::Relax<>{.beta = 0.5}, uploads)));
    CHECK(wire_size(memory_t<fold::Distill<>, float>{}) == 0);
}

TEST_CASE("wrong settings and a server without data are refused in a sentence, also deep inside") {
    const auto refuses = [](auto change) {
        fold::Relax<fold::Distill<>> fold;
        change(fold.inner);
        CHECK_THROWS_AS(detail::validate_all(fold), ConfigError);
    };
    CHECK_NOTHROW(detail::validate_all(fold::Relax<fold::Distill<>>{}));
    refuses([](auto& f) { f.kd_batch = 0; });
    refuses([](auto& f) { f.kd_rate = -1; });
    refuses([](auto& f) { f.temperature = 0; });
    refuses([](auto& f) { f.patience = 0; });
    refuses([](auto& f) { f.judge_every = 0; });

    PublicServer<Net<float>> server;
    const fold::Relax<fold::Distill<>> fold;
    const Vec<float> w(Net<float>::parameters);
    CHECK_NOTHROW(check_context(fold, server.context(), w));
    CHECK_THROWS_WITH_AS(check_context(fold, server.context(), Vec<float>(w.size() - 1)),
                         "distillation asks whole models, and what this method's clients send has 38 of the model's 39 "
                         "parameters: share all of them",
                         ConfigError);
    auto choosing = fold;
    choosing.inner.select = fold::Select::best_val_or_init;
    CHECK_THROWS_WITH_AS(check_context(choosing, server.context(), w),
                         "select=best_val_or_init needs labelled examples at the server: split the data with a share "
                         "for it, or keep the last student (select=last)",
                         ConfigError);
    server.ids.clear();
    CHECK_THROWS_WITH_AS(check_context(fold, server.context(), w),
                         "distillation needs public examples at the server: give the federation `aux`, or split the "
                         "data with a share for the server",
                         ConfigError);
    auto never = fold;
    never.inner.kd_rounds = 0;
    CHECK_NOTHROW(check_context(never, server.context(), w));
}

}  // namespace distill_test
