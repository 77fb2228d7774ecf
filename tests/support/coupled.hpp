// SPDX-License-Identifier: BSD-3-Clause
// Objectives of one shared number u (body) and one personal number v (head), over support::quadratic_data: an example
// has a slope a and a target c.
#pragma once

#include <array>
#include <cstddef>

#include <tessera/contracts/model.hpp>

namespace tessera::support {

// slope(u, v, a, c) gives the loss of an example and writes its two partial derivatives.
template <class Slope>
struct TwoNumbers {
    using Real = double;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 2> segments{Segment{.name = "u", .part = Part::body, .offset = 0},
                                                     Segment{.name = "v", .part = Part::head, .offset = 1}};
    Slope slope{};

    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<double> w, const Batch<double>& batch, Out<double> out) const {
        out[0] = out[1] = 0;
        double loss = 0;
        Vec<double> row(batch.width());
        const auto n = static_cast<double>(batch.size());
        for (std::size_t i = 0; i < batch.size(); ++i) {
            batch.read(i, row);
            double du = 0, dv = 0;
            loss += slope(w[0], w[1], row[0], batch.target(i), du, dv) / n;
            out[0] += du / n;
            out[1] += dv / n;
        }
        return loss;
    }
    void predict(In<double> w, const Batch<double>& batch, Out<double> out) const {
        for (std::size_t i = 0; i < batch.size(); ++i) out[i] = w[0] + w[1];
    }
};

// 1/2 (u + v - c)^2
struct SumSlope {
    double operator()(double u, double v, double, double c, double& du, double& dv) const {
        du = dv = u + v - c;
        return du * du / 2;
    }
};
using Coupled = TwoNumbers<SumSlope>;

// a/2 (u - c)^2 + 1/2 (v - 2c)^2
struct ApartSlope {
    double operator()(double u, double v, double a, double c, double& du, double& dv) const {
        du = a * (u - c);
        dv = v - 2 * c;
        return du * (u - c) / 2 + dv * dv / 2;
    }
};
using Separable = TwoNumbers<ApartSlope>;

// a/2 (v - c)^2 + lambda/2 (v - u)^2
struct FullSlope {
    double lambda = 0.5;
    double operator()(double u, double v, double a, double c, double& du, double& dv) const {
        du = lambda * (u - v);
        dv = a * (v - c) + lambda * (v - u);
        return a * (v - c) * (v - c) / 2 + lambda * (v - u) * (v - u) / 2;
    }
};
using Full = TwoNumbers<FullSlope>;

}  // namespace tessera::support
