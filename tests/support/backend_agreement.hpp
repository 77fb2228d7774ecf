// SPDX-License-Identifier: BSD-3-Clause
// What every backend owes: the reference loops within the rounding of a sum, and models that do not notice.
#pragma once

#include <string>
#include <vector>

#include <tessera/contracts/model.hpp>
#include <tessera/kernels/reference/dense.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace tessera::support {

// Which function of a backend is wrong on this shape; "" if none. `tampered` is added to one weight behind its back.
template <class Backend, class R>
std::string disagreement(std::size_t batch, std::size_t in, std::size_t out, R tampered = 0) {
    using W = Wide<R>;
    const auto x = toy_numbers<R>(batch * in, 1), bias = toy_numbers<R>(out, 3), dy = toy_numbers<R>(batch * out, 4);
    const auto w = toy_numbers<R>(out * in, 2);
    auto seen = w;
    if (!seen.empty()) seen[0] += tampered;
    const auto wx = converted<W>(x), ww = converted<W>(w), wb = converted<W>(bias), wdy = converted<W>(dy);
    const auto ax = magnitudes(wx), aw = magnitudes(ww), ab = magnitudes(wb), ady = magnitudes(wdy);

    std::vector<R> y(batch * out), dx(batch * in), dw(out * in), db(out);
    std::vector<W> exact(y.size()), terms(y.size());
    for (const bool with_bias : {true, false}) {
        Backend::affine(x.data(), seen.data(), with_bias ? bias.data() : nullptr, y.data(), batch, in, out);
        kernels::reference::affine(wx.data(), ww.data(), with_bias ? wb.data() : nullptr, exact.data(), batch, in, out);
        kernels::reference::affine(ax.data(), aw.data(), with_bias ? ab.data() : nullptr, terms.data(), batch, in, out);
        if (!within(y, exact, terms, in + 2)) return "affine";
    }
    exact.resize(dx.size()), terms.resize(dx.size());
    Backend::affine_input_gradient(dy.data(), seen.data(), dx.data(), batch, in, out);
    kernels::reference::affine_input_gradient(wdy.data(), ww.data(), exact.data(), batch, in, out);
    kernels::reference::affine_input_gradient(ady.data(), aw.data(), terms.data(), batch, in, out);
    if (!within(dx, exact, terms, out + 1)) return "affine_input_gradient";

    std::vector<W> exact_db(out), terms_db(out);
    exact.resize(dw.size()), terms.resize(dw.size());
    Backend::affine_weight_gradient(dy.data(), x.data(), dw.data(), db.data(), batch, in, out);
    kernels::reference::affine_weight_gradient(wdy.data(), wx.data(), exact.data(), exact_db.data(), batch, in, out);
    kernels::reference::affine_weight_gradient(ady.data(), ax.data(), terms.data(), terms_db.data(), batch, in, out);
    if (!within(dw, exact, terms, batch + 1)) return "affine_weight_gradient";
    if (!within(db, exact_db, terms_db, batch + 1)) return "affine_weight_gradient, bias";
    return "";
}

// The largest difference between five proximal momentum steps of a net on this backend and of the same net on
// backend::Reference in double.
template <class Backend, class R>
double step_error() {
    const auto net = []<class B, class T>(B*, T*) {
        return nn::Network<T>(19, nn::recipe::dnn(17, 5), nn::backend_for<T, B>());
    };
    const auto ours = net(static_cast<Backend*>(nullptr), static_cast<R*>(nullptr));
    const auto exact = net(static_cast<backend::Reference*>(nullptr), static_cast<double*>(nullptr));
    const auto data = toy_dataset<float>(13, 19, 5);
    const auto ids = first_ids(13);
    const auto w64 = initial_parameters(exact, Key{3});
    const auto run = [&]<class T>(const auto& model, T*) {
        Vec<T> w(w64.begin(), w64.end()), prox_center(w.size(), T(0.01)), velocity(w.size());
        const Batch<T> batch(data.examples(), ids);
        const Step<T> step{.terms = {.prox_center = prox_center, .prox_weight = 0.5},
                           .rate = 0.1,
                           .decay = 0.01,
                           .momentum = 0.9,
                           .velocity = &velocity};
        for (int i = 0; i < 5; ++i) model.fused_step(w, batch, step);
        return std::vector<double>(w.begin(), w.end());
    };
    const auto a = run(ours, static_cast<R*>(nullptr)), b = run(exact, static_cast<double*>(nullptr));
    double worst = 0;
    for (std::size_t j = 0; j < a.size(); ++j) worst = std::max(worst, std::abs(a[j] - b[j]));
    return worst;
}

}  // namespace tessera::support
