// SPDX-License-Identifier: BSD-3-Clause
// A model of your own, written with xtensor: softmax regression as one would write it in NumPy.
// Teaches: the Model contract, views, checking gradients.   Next: 06_client_and_server_bytes.cpp
#include <cstdio>

#if __has_include(<xtensor/xtensor.hpp>) || __has_include(<xtensor/containers/xtensor.hpp>)
#include <tessera/conformance.hpp>
#include <tessera/interop/xtensor.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/runtime/evaluate.hpp>

using namespace tessera;
using interop::as_tensor;

// A lazy reducer inside an expression reads memory it does not own: always ask for the numbers.
constexpr auto now = xt::evaluation_strategy::immediate;

template <class R, std::size_t Width, std::size_t Classes>
struct SoftmaxRegression {
    using Real = R;
    using Table = xt::xtensor<R, 2>;
    static constexpr std::size_t inputs = Width;
    static constexpr auto offers = offer::input_width;  // which of the optional names it has
    static constexpr std::array<Segment, 2> segments{
        Segment{.name = "weight", .shape = {Classes, Width, 1, 1}, .rank = 2},
        Segment{.name = "bias", .offset = Classes * Width, .shape = {Classes, 1, 1, 1}}};

    Layout layout() const { return segments; }
    std::size_t outputs() const { return Classes; }

    void predict(In<R> w, const Batch<R>& batch, Out<R> out) const {
        auto log_p = as_tensor<2>(out, {batch.size(), Classes});
        xt::noalias(log_p) = log_probabilities(w, batch.inputs(), batch.size());
    }
    double gradient(In<R> w, const Batch<R>& batch, Out<R> out) const {
        const auto rows = batch.inputs();
        const Table log_p = log_probabilities(w, rows, batch.size());
        Table miss = xt::exp(log_p);  // d loss / d logits: p - 1 at the label, p elsewhere
        double loss = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            loss -= static_cast<double>(log_p(i, batch.label(i)));
            miss(i, batch.label(i)) -= 1;
        }
        miss /= static_cast<R>(batch.size());

        const auto x = as_tensor<2>(rows, {batch.size(), Width});
        auto d_weight = as_tensor<2>(out, segments, "weight");
        auto d_bias = as_tensor<1>(out, segments, "bias");
        xt::noalias(d_bias) = xt::sum(miss, {0}, now);
        xt::noalias(d_weight) = xt::sum(xt::view(miss, xt::all(), xt::all(), xt::newaxis()) *
                                        xt::view(x, xt::all(), xt::newaxis(), xt::all()), {0}, now);
        return loss / static_cast<double>(batch.size());
    }

private:
    static Table log_probabilities(In<R> w, const Vec<R>& rows, std::size_t n) {
        const auto x = as_tensor<2>(rows, {n, Width});
        const auto weight = as_tensor<2>(w, segments, "weight");
        Table z = xt::sum(weight * xt::view(x, xt::all(), xt::newaxis(), xt::all()), {2}, now);
        z += as_tensor<1>(w, segments, "bias");
        z -= xt::amax(z, {1}, xt::keep_dims | now);
        return z - xt::log(xt::sum(xt::exp(z), {1}, xt::keep_dims | now));
    }
};

int main() {
    conformance::require(conformance::check_gradients(SoftmaxRegression<double, 60, 10>{}));

    using Mine = SoftmaxRegression<float, 60, 10>;
    const auto clients = data::synthetic({.clients = 10, .seed = 4, .max_examples = 100});
    Federation<FedAvg<>, Mine> federation{{}, clients, {.local = {.rate = 0.05}}, {.batch = 20}};
    federation.run(10, sample::Uniform{.count = 5});
    const auto result = evaluate<Which::global>(federation).accuracy(Average::pooled);
    std::printf("%s: %.1f %%\n", in_words(result).c_str(), 100 * result.value.get());
    return result.value > 0.3 ? 0 : 1;
}
#else
int main() { std::puts("xtensor is not installed: nothing to show"); }
#endif
