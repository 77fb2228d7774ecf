// SPDX-License-Identifier: BSD-3-Clause
// One step of an LSTM, nonlinearities and all, in both directions: what reference/recurrent.hpp says, by registers. The
// bits of a row depend on its numbers alone. In double it is those loops.
#pragma once

#include <cstddef>

#include <tessera/kernels/exponential.hpp>
#include <tessera/kernels/reference/recurrent.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

template <class, std::size_t Bytes>
TESSERA_INLINE void lstm_step_body(float* gates, const float* more, const float* before, float* cells, float* shown,
                                   const LstmStep<float>& s) {
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    const std::size_t n = s.hidden;
    for (std::size_t b = 0; b < s.rows; ++b) {
        float* row = gates + b * s.gates_apart;
        for (std::size_t j = 0; j < n; j += lanes) {
            const std::size_t count = n - j;
            Held<float, Bytes> gate[4];
#pragma GCC unroll 4
            for (std::size_t k = 0; k < 4; ++k) {
                load_first<Bytes>(row + k * n + j, count, gate[k]);
                if (more) {
                    Held<float, Bytes> own;
                    load_first<Bytes>(more + (4 * b + k) * n + j, count, own);
                    gate[k] += own;
                }
            }
            logistic<Bytes>(gate[0]);
            logistic<Bytes>(gate[1]);
            tangent<Bytes>(gate[2]);
            logistic<Bytes>(gate[3]);
            Held<float, Bytes> cell = gate[0] * gate[2];
            if (before) {
                Held<float, Bytes> last;
                load_first<Bytes>(before + b * s.apart + j, count, last);
                cell += gate[1] * last;
            }
#pragma GCC unroll 4
            for (std::size_t k = 0; k < 4; ++k) keep_first<Bytes>(gate[k], count, row + k * n + j);
            keep_first<Bytes>(cell, count, cells + b * s.apart + j);
            tangent<Bytes>(cell);
            cell *= gate[3];
            keep_first<Bytes>(cell, count, shown + b * s.apart + j);
        }
    }
}
template <class, std::size_t Bytes>
TESSERA_INLINE void lstm_step_back_body(const float* gates, const float* before, const float* cells,
                                        const float* dshown, const float* more, float* dcells, float* dgates,
                                        const LstmStep<float>& s) {
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    const std::size_t n = s.hidden;
    for (std::size_t b = 0; b < s.rows; ++b)
        for (std::size_t j = 0; j < n; j += lanes) {
            const std::size_t count = n - j, at = b * s.apart + j;
            Held<float, Bytes> i, f, g, o, dh, bent, dc, last{};
            load_first<Bytes>(gates + b * s.gates_apart + j, count, i);
            load_first<Bytes>(gates + b * s.gates_apart + n + j, count, f);
            load_first<Bytes>(gates + b * s.gates_apart + 2 * n + j, count, g);
            load_first<Bytes>(gates + b * s.gates_apart + 3 * n + j, count, o);
            load_first<Bytes>(dshown + at, count, dh);
            if (more) {
                Held<float, Bytes> own;
                load_first<Bytes>(more + b * n + j, count, own);
                dh += own;
            }
            if (before) load_first<Bytes>(before + at, count, last);
            load_first<Bytes>(cells + at, count, bent);
            tangent<Bytes>(bent);
            load_first<Bytes>(dcells + b * n + j, count, dc);
            dc += dh * o * (1.0f - bent * bent);
            float* to = dgates + b * s.gates_apart + j;
            const Held<float, Bytes> di = dc * g * (i * (1.0f - i)), dg = dc * i * (1.0f - g * g);
            keep_first<Bytes>(di, count, to);
            last *= dc;
            last *= f * (1.0f - f);
            keep_first<Bytes>(last, count, to + n);
            keep_first<Bytes>(dg, count, to + 2 * n);
            dh *= bent * (o * (1.0f - o));
            keep_first<Bytes>(dh, count, to + 3 * n);
            dc *= f;
            keep_first<Bytes>(dc, count, dcells + b * n + j);
        }
}

}  // namespace detail

TESSERA_DISPATCH(lstm_step, float,
                 (float* gates, const float* more, const float* before, float* cells, float* shown,
                  const LstmStep<float>& s),
                 (gates, more, before, cells, shown, s))
TESSERA_DISPATCH(lstm_step_back, float,
                 (const float* gates, const float* before, const float* cells, const float* dshown, const float* more,
                  float* dcells, float* dgates, const LstmStep<float>& s),
                 (gates, before, cells, dshown, more, dcells, dgates, s))

inline void lstm_step(double* gates, const double* more, const double* before, double* cells, double* shown,
                      const LstmStep<double>& s) {
    reference::lstm_step(gates, more, before, cells, shown, s);
}
inline void lstm_step_back(const double* gates, const double* before, const double* cells, const double* dshown,
                           const double* more, double* dcells, double* dgates, const LstmStep<double>& s) {
    reference::lstm_step_back(gates, before, cells, dshown, more, dcells, dgates, s);
}

}  // namespace tessera::kernels
