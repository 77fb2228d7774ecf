// SPDX-License-Identifier: BSD-3-Clause
// Single products on a device: rows at the border, as the reference has them.
#include <tessera/device/cublas.hpp>

#include <cstddef>
#include <vector>

#include <device/standin/standin.hpp>
#include <doctest/doctest.h>
#include <tessera/core/random.hpp>
#include <tessera/kernels/backend.hpp>

namespace cublas_test {

using namespace tessera;

constexpr std::size_t batch = 5, in = 7, out = 3, weights = out * in + out;

std::vector<float> drawn(std::size_t n, std::uint64_t seed) {
    Stream draw(Key{seed});
    std::vector<float> x(n);
    for (float& v : x) v = static_cast<float>(draw.normal());
    return x;
}
struct Problem {
    device::Context on;
    backend::Cublas blas{on};
    std::vector<float> x = drawn(batch * in, 1), w = drawn(weights, 2), dy = drawn(batch * out, 3);

    device::Array<float> sent(const std::vector<float>& host) const {
        device::Array<float> there(host.size());
        on.up(host.data(), there.data(), host.size());
        on.finish();
        return there;
    }
    std::vector<float> got(const device::Array<float>& there) const {
        std::vector<float> host(there.size());
        on.down(there.data(), host.data(), host.size());
        on.finish();
        return host;
    }
};
// Sums of at most eight products of normal numbers, in another order.
void close(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t j = 0; j < a.size(); ++j) CHECK(a[j] == doctest::Approx(b[j]).epsilon(1e-5).scale(1));
}

TEST_CASE("products are the reference's") {
    standin::reset();
    {
        const Problem p;
        const auto x = p.sent(p.x), w = p.sent(p.w), dy = p.sent(p.dy);
        const device::Array<float> y(batch * out), dx(batch * in), dw(weights);
        p.blas.affine(x.data(), w.data(), w.data() + out * in, y.data(), batch, in, out);
        p.blas.affine_input_gradient(dy.data(), w.data(), dx.data(), batch, in, out);
        p.blas.affine_weight_gradient(dy.data(), x.data(), dw.data(), dw.data() + out * in, batch, in, out);
        std::vector<float> ry(batch * out), rdx(batch * in), rdw(weights);
        backend::Reference::affine(p.x.data(), p.w.data(), p.w.data() + out * in, ry.data(), batch, in, out);
        backend::Reference::affine_input_gradient(p.dy.data(), p.w.data(), rdx.data(), batch, in, out);
        backend::Reference::affine_weight_gradient(p.dy.data(), p.x.data(), rdw.data(), rdw.data() + out * in, batch, in, out);
        close(p.got(y), ry);
        close(p.got(dx), rdx);
        close(p.got(dw), rdw);
    }
    CHECK(standin::faults().empty());
    CHECK(standin::in_use() == 0);
}
TEST_CASE("steps are the reference's, with and without momentum") {
    for (const bool momentum : {false, true})
        for (const bool pulled : {false, true}) {
            standin::reset();
            const Problem p;
            const auto prox_center = drawn(weights, 4), linear = drawn(weights, 5), velocity = drawn(weights, 6);
            const auto x = p.sent(p.x), w = p.sent(p.w), dy = p.sent(p.dy), t = p.sent(prox_center), a = p.sent(linear),
                       v = p.sent(velocity);
            const kernels::UpdateNumbers<float> numbers{0.1f, pulled ? 0.2f : 0, pulled ? 0.3f : 0, momentum ? 0.9f : 0};
            p.blas.affine_update(dy.data(), x.data(), w.data(), batch, in, out,
                                 {pulled ? t.data() : nullptr, pulled ? a.data() : nullptr, momentum ? v.data() : nullptr},
                                 numbers);
            auto rw = p.w, rv = velocity;
            backend::Reference::affine_update(p.dy.data(), p.x.data(), rw.data(), batch, in, out,
                                              {pulled ? prox_center.data() : nullptr, pulled ? linear.data() : nullptr,
                                               momentum ? rv.data() : nullptr},
                                              numbers);
            close(p.got(w), rw);
            if (momentum) close(p.got(v), rv);
            CHECK(standin::faults().empty());
        }
}

}  // namespace cublas_test
