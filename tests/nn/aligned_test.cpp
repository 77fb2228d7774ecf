// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/objective/aligned.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include <tessera/nn/any_model.hpp>
#include <tessera/nn/gradient_check.hpp>
#include <tessera/nn/tuned.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/bits.hpp>
#include <support/quadratic.hpp>
#include <support/toy_numbers.hpp>

namespace aligned_test {

using namespace tessera;
using support::same_bits;

namespace {
using Net = nn::Dnn<5, 4, 3, double>;
using Shallow = nn::Mclr<5, 3, double>;
static_assert(Model<nn::Aligned<Net>> && CountedModel<nn::Aligned<Net>>);
static_assert(AlignableModel<Net> && AlignableModel<nn::Network<double>> && AlignableModel<nn::AnyModel<double>>);
static_assert(!AlignableModel<Shallow> && !AlignableModel<support::Quadratic<>>);

template <class R>
nn::Centroids<R> centroids(std::size_t width = 4) {
    const auto numbers = support::toy_numbers<R>(3 * width, 8);
    return {Vec<R>(numbers.begin(), numbers.end()), Mask(3, true)};
}

template <class R>
struct Lesson {
    data::Dataset data = support::toy_dataset<R>(9, 5, 3);
    std::vector<Index> ids = support::first_ids(9);
    Batch<R> batch{data.examples(), ids};
};

template <class M>
Vec<real<M>> parameters(const M& model) {
    return initial_parameters(model, Key{4});
}
template <class M>
Vec<real<M>> gradient(const M& model, const Vec<real<M>>& w, const Batch<real<M>>& b) {
    Vec<real<M>> g(w.size());
    model.gradient(w, b, g);
    return g;
}
}  // namespace

TEST_CASE("one example by hand: the value is lambda |z - c|^2, its slope 2 lambda (z - c)") {
    const Lesson<double> lesson;
    const Net net;
    const std::vector<Index> one{3};
    const Batch<double> b(lesson.data.examples(), one);
    auto c = centroids<double>();
    const double* own = c.of(b.label(0));
    const nn::Aligned<Net> pulled{&net, &c, 0.5};
    const Vec<double> z{own[0] + 1, own[1] - 2, own[2], own[3] + 0.5};
    Vec<double> slope{10, 20, 30, 40};
    CHECK(pulled.pull(b, z, slope) == doctest::Approx(0.5 * (1 + 4 + 0.25)).epsilon(1e-14));
    CHECK(support::distance(slope, {11, 18, 30, 40.5}) < 1e-14);  // it adds to the slope that is there
    c.known.set(b.label(0), false);
    slope = {10, 20, 30, 40};
    CHECK(pulled.pull(b, z, slope) == 0);
    CHECK(slope == Vec<double>{10, 20, 30, 40});
}

TEST_CASE("gradients by differences, in networks of all kinds, with a class that has no centroid, with weights") {
    const Lesson<double> lesson;
    auto c = centroids<double>();
    c.known.set(1, false);
    const Vec<double> weights{1, 0.5, 2, 0, 1, 1, 3, 0.25, 1};
    const Batch<double> weighted(lesson.data.examples(), lesson.ids, weights);
    const auto sound = [&](const auto& model) {
        using M = std::remove_cvref_t<decltype(model)>;
        const nn::Aligned<M> pulled{&model, &c, 0.7};
        return conformance::check_gradients(pulled, lesson.batch).empty() &&
               conformance::check_gradients(pulled, weighted).empty();
    };
    CHECK(sound(Net{}));
    CHECK(sound(nn::AdaptedDnn<5, 4, 3, 2, double>{}));
    CHECK(sound(nn::mlp<double>({5, 6, 4, 3})));
    CHECK(sound(nn::AnyModel<double>(Net{})));
    const nn::Tuned<Net, scope::BelowHead> tuned(Net{}, parameters(Net{}));
    CHECK(sound(tuned));
}

TEST_CASE("the differences see a pull whose slope is left out, and one that is a tenth too large") {
    struct Wrong {  // says the value of the pull but not its slope, or too much of it
        using Real = double;
        nn::Aligned<Net> right;
        double share = 0;
        Layout layout() const { return right.layout(); }
        std::size_t outputs() const { return right.outputs(); }
        void predict(In<double> x, const Batch<double>& b, Out<double> out) const { right.predict(x, b, out); }
        double gradient(In<double> x, const Batch<double>& b, Out<double> out) const {
            const double loss = right.gradient(x, b, out);
            Vec<double> plain(x.size());
            right.model->gradient(x, b, plain);
            for (std::size_t j = 0; j < x.size(); ++j) out[j] = plain[j] + share * (out[j] - plain[j]);
            return loss;
        }
    };
    const Lesson<double> lesson;
    const Net net;
    const auto c = centroids<double>();
    const nn::Aligned<Net> right{&net, &c, 0.7};
    CHECK(conformance::check_gradients(Wrong{right, 1}, lesson.batch).empty());
    CHECK_FALSE(conformance::check_gradients(Wrong{right, 0}, lesson.batch).empty());
    CHECK_FALSE(conformance::check_gradients(Wrong{right, 1.1}, lesson.batch).empty());
}

TEST_CASE("lambda = 0, or no centroid, is the model's own gradient, bit for bit; the head's slope never changes") {
    const Lesson<float> lesson;
    const nn::Dnn<5, 4, 3> net;
    using Pulled = nn::Aligned<nn::Dnn<5, 4, 3>>;
    const auto w = parameters(net);
    const auto all = centroids<float>();
    const nn::Centroids<float> none{Vec<float>(12), Mask(3)};
    const auto plain = gradient(net, w, lesson.batch);
    CHECK(same_bits(gradient(Pulled{&net, &all, 0}, w, lesson.batch), plain));
    CHECK(same_bits(gradient(Pulled{&net, &none, 1}, w, lesson.batch), plain));
    const auto pulled = gradient(Pulled{&net, &all, 1}, w, lesson.batch);
    CHECK_FALSE(same_bits(pulled, plain));
    const Coordinates head = on(scope::Head{}, net);
    CHECK(same_bits(gather(pulled, head), gather(plain, head)));
}

TEST_CASE("run-time widths and AnyModel have the bits of the network") {
    const Lesson<float> lesson;
    const nn::Dnn<5, 4, 3> net;
    const auto loose = nn::mlp({5, 4, 3});
    const nn::AnyModel<float> any(net);
    const auto c = centroids<float>();
    const auto w = parameters(net);
    const auto expected = gradient(nn::Aligned<nn::Dnn<5, 4, 3>>{&net, &c, 0.3}, w, lesson.batch);
    CHECK(same_bits(gradient(nn::Aligned<nn::Network<>>{&loose, &c, 0.3}, w, lesson.batch), expected));
    CHECK(same_bits(gradient(nn::Aligned<nn::AnyModel<float>>{&any, &c, 0.3}, w, lesson.batch), expected));
    CHECK_FALSE(same_bits(gradient(nn::Aligned<nn::AnyModel<float>>{&any, &c, 0.2}, w, lesson.batch), expected));
}

TEST_CASE("models without layers below the last say so") {
    const nn::AnyModel<double> shallow{Shallow{}}, quadratic{support::Quadratic<>{}};
    CHECK(nn::AnyModel<double>(Net{}).aligns());
    CHECK(nn::mlp<double>({5, 4, 3}).aligns());
    CHECK_FALSE(nn::mlp<double>({5, 3}).aligns());
    CHECK_FALSE(shallow.aligns());
    CHECK_FALSE(quadratic.aligns());
    const Lesson<double> lesson;
    const auto c = centroids<double>(5);
    Vec<double> g(Shallow::parameters);
    CHECK_THROWS_WITH_AS((nn::Aligned<nn::AnyModel<double>>{&shallow, &c}.gradient(g, lesson.batch, g)),
                         doctest::Contains("no features that its parameters move"), ConfigError);
}

}  // namespace aligned_test
