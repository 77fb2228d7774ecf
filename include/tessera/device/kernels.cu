// SPDX-License-Identifier: BSD-3-Clause
// What no library of NVIDIA's has: the elementwise work of a cohort's step, in float. Free of this library's headers, so that
// nvcc reads C and nothing else; declared in device/kernels.hpp, which says what each of them does. A thread does one number,
// or one sum from its first term to its last, so the same device gives the same bits.
//
// Compiled as C++ the same text is a kernel of the tests' stand-in, which TESSERA_DEVICE_LAUNCHER names.
#ifdef __CUDACC__
#include <cuda_runtime.h>
#define KERNEL(name, ...) static __global__ void name(long long n, __VA_ARGS__)
#define EACH(i) for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL)
#define LAUNCH(name, n, stream, ...)                                                                          \
    if ((n) <= 0) return 0;                                                                                   \
    name<<<(unsigned)((n) < (1LL << 38) ? ((n) + 255) / 256 : 1LL << 30), 256, 0, (cudaStream_t)(stream)>>>(  \
        n, __VA_ARGS__);                                                                                      \
    return (int)cudaGetLastError()
#else
#include <cmath>

#include TESSERA_DEVICE_LAUNCHER
#define KERNEL(name, ...) static void name(long long n, __VA_ARGS__)
#define EACH(i) for (long long i = 0; i < n; ++i)
#define LAUNCH(name, n, stream, ...)    \
    if ((n) <= 0) return 0;             \
    return standin::launch(stream, #name, name, n, __VA_ARGS__)
using std::exp;
using std::log;
using std::sqrt;
#endif

typedef long long Long;
typedef unsigned long long Word;
typedef unsigned char Byte;

// What is read and written of the numbers of one layer, client after client.
struct Place {
    Long begin, length, stride;  // first number, how many, from one client to the next
};
#ifdef __CUDACC__
#define HERE static __device__ inline
#else
#define HERE static inline
#endif
HERE Long at(Place p, Long i) { return i / p.length * p.stride + p.begin + i % p.length; }

KERNEL(gather_bytes, const Byte* pool, const int* ids, float shift, float scale, float* to, Long width) {
    EACH(i) {
        const int id = ids[i / width];
        to[i] = id < 0 ? 0.0f : ((float)pool[id * width + i % width] - shift) * scale;
    }
}
KERNEL(gather_floats, const float* pool, const int* ids, float* to, Long width) {
    EACH(i) {
        const int id = ids[i / width];
        to[i] = id < 0 ? 0.0f : pool[id * width + i % width];
    }
}

// Numbers of a client: `each` of them, in rows of out x plane.
KERNEL(add_bias, float* y, const float* w, Long begin, Long stride, Long each, Long out, Long plane) {
    EACH(i) y[i] += w[i / each * stride + begin + i / plane % out];
}
// to[c][o] = beta to[c][o] + alpha sum over examples and places of a plane
KERNEL(bias_sums, const float* dy, float* to, Long begin, Long stride, Long examples, Long out, Long plane, float alpha, float beta) {
    EACH(i) {
        const Long c = i / out, o = i % out;
        float sum = 0;
        for (Long b = 0; b < examples; ++b)
            for (Long p = 0; p < plane; ++p) sum += dy[((c * examples + b) * out + o) * plane + p];
        float* t = to + c * stride + begin + o;
        *t = alpha * sum + (beta == 0 ? 0.0f : beta * *t);
    }
}

KERNEL(leaky_relu, const float* x, float* y, float slope) {
    EACH(i) y[i] = x[i] > 0 ? x[i] : slope != 0 ? slope * x[i] : 0.0f;
}
KERNEL(leaky_relu_slope, const float* y, const float* dy, float* dx, float slope) {
    EACH(i) dx[i] = y[i] > 0 ? dy[i] : slope != 0 ? slope * dy[i] : 0.0f;
}

KERNEL(add, const float* a, const float* b, float* y) {
    EACH(i) y[i] = a[i] + b[i];
}

// A row of z, raw outputs, becomes share * (softmax - one at the label); share 0: a row that costs nothing.
KERNEL(softmax, float* z, const int* labels, const float* shares, Long classes, double* losses) {
    EACH(i) {
        float* row = z + i * classes;
        const float share = shares[i];
        losses[i] = 0;
        if (share == 0) {
            for (Long k = 0; k < classes; ++k) row[k] = 0;
            continue;
        }
        float top = row[0], sum = 0;
        for (Long k = 1; k < classes; ++k) top = row[k] > top || row[k] != row[k] ? row[k] : top;
        const float chosen = row[labels[i]] - top;
        for (Long k = 0; k < classes; ++k) sum += row[k] = exp(row[k] - top);
        losses[i] = (double)share * (log((double)sum) - (double)chosen);
        for (Long k = 0; k < classes; ++k) row[k] *= share / sum;
        row[labels[i]] -= share;
    }
}
KERNEL(add_losses, const double* losses, double* totals, Long rows) {
    EACH(i) {
        double sum = 0;
        for (Long r = 0; r < rows; ++r) sum += losses[i * rows + r];
        totals[i] += sum;
    }
}

// Patches of `count` examples of each client from `first` on: [client][example][pixel][tap].
struct Window {
    Long channels, height, width, kernel, stride, pad, rows, columns;
};
KERNEL(patches, const float* x, float* to, Window s, Long examples, Long first, Long count) {
    const Long taps = s.channels * s.kernel * s.kernel, pixels = s.rows * s.columns;
    EACH(i) {
        const Long tap = i % taps, p = i / taps % pixels, b = i / taps / pixels % count, c = i / taps / pixels / count;
        const Long channel = tap / (s.kernel * s.kernel), r = p / s.columns * s.stride + tap / s.kernel % s.kernel - s.pad,
                   q = p % s.columns * s.stride + tap % s.kernel - s.pad;
        const bool inside = r >= 0 && r < s.height && q >= 0 && q < s.width;
        to[i] = inside ? x[((c * examples + first + b) * s.channels + channel) * s.height * s.width + r * s.width + q] : 0.0f;
    }
}
// The sum of all taps that read a number.
KERNEL(patches_slope, const float* from, float* dx, Window s, Long examples, Long first, Long count) {
    const Long taps = s.channels * s.kernel * s.kernel, pixels = s.rows * s.columns, image = s.channels * s.height * s.width;
    EACH(i) {
        const Long at = i % image, b = i / image % count, c = i / image / count;
        const Long channel = at / (s.height * s.width), r = at / s.width % s.height + s.pad, q = at % s.width + s.pad;
        const float* rows = from + (c * count + b) * pixels * taps + channel * s.kernel * s.kernel;
        float sum = 0;
        for (Long k = 0; k < s.kernel; ++k) {
            if (r < k || (r - k) % s.stride != 0 || (r - k) / s.stride >= s.rows) continue;
            for (Long l = 0; l < s.kernel; ++l) {
                if (q < l || (q - l) % s.stride != 0 || (q - l) / s.stride >= s.columns) continue;
                sum += rows[((r - k) / s.stride * s.columns + (q - l) / s.stride) * taps + k * s.kernel + l];
            }
        }
        dx[(c * examples + first + b) * image + at] = sum;
    }
}
// [client][example][pixel][out] to planes, and back.
KERNEL(rows_to_planes, const float* rows, float* y, Long out, Long pixels, Long examples, Long first, Long count) {
    EACH(i) {
        const Long p = i % pixels, o = i / pixels % out, b = i / pixels / out % count, c = i / pixels / out / count;
        y[((c * examples + first + b) * out + o) * pixels + p] = rows[((c * count + b) * pixels + p) * out + o];
    }
}
KERNEL(planes_to_rows, const float* y, float* rows, Long out, Long pixels, Long examples, Long first, Long count) {
    EACH(i) {
        const Long o = i % out, p = i / out % pixels, b = i / out / pixels % count, c = i / out / pixels / count;
        rows[i] = y[((c * examples + first + b) * out + o) * pixels + p];
    }
}

// Groups of `numbers` that lie side by side; number j has the pair of scale and shift (group % groups) * pairs + j / run.
// `none`: 1 and 0.
struct Norm {
    Long numbers, groups, pairs, run, examples;  // examples a client
    Long scale, shift, stride;                   // where a client's pairs begin
    int none;
};
KERNEL(norm, const float* x, const float* w, float* y, float* saved, Norm s, float eps) {
    EACH(i) {
        const Long c = i / (s.groups * s.examples), first = i % s.groups * s.pairs;
        const float *from = x + i * s.numbers, *scale = w + c * s.stride + s.scale, *shift = w + c * s.stride + s.shift;
        float sum = 0, squares = 0;
        for (Long j = 0; j < s.numbers; ++j) sum += from[j];
        const float mean = sum / (float)s.numbers;
        for (Long j = 0; j < s.numbers; ++j) squares += (from[j] - mean) * (from[j] - mean);
        const float inverse = 1.0f / sqrt(squares / (float)s.numbers + eps);
        saved[2 * i] = mean;
        saved[2 * i + 1] = inverse;
        for (Long j = 0; j < s.numbers; ++j) {
            const Long k = first + j / s.run;
            const float h = (from[j] - mean) * inverse;
            y[i * s.numbers + j] = s.none ? h : scale[k] * h + shift[k];
        }
    }
}
KERNEL(norm_slope, const float* x, const float* dy, const float* w, const float* saved, float* dx, Norm s) {
    EACH(i) {
        const Long c = i / (s.groups * s.examples), first = i % s.groups * s.pairs;
        const float *scale = w + c * s.stride + s.scale, mean = saved[2 * i], inverse = saved[2 * i + 1];
        float sum = 0, along = 0;
        for (Long j = 0; j < s.numbers; ++j) {
            const float d = dy[i * s.numbers + j] * (s.none ? 1.0f : scale[first + j / s.run]);
            sum += d;
            along += d * ((x[i * s.numbers + j] - mean) * inverse);
        }
        for (Long j = 0; j < s.numbers; ++j) {
            const Long at = i * s.numbers + j;
            const float d = dy[at] * (s.none ? 1.0f : scale[first + j / s.run]), h = (x[at] - mean) * inverse;
            dx[at] = inverse * (d - sum / (float)s.numbers - h * along / (float)s.numbers);
        }
    }
}
// One pair of one client: to = beta to + alpha slope.
KERNEL(norm_pairs, const float* x, const float* dy, const float* saved, float* to, Norm s, Long begin, Long stride, float alpha,
       float beta) {
    const Long all = s.groups * s.pairs;
    EACH(i) {
        const Long c = i / all, k = i % all, group = k / s.pairs, first = k % s.pairs * s.run;
        float scale = 0, shift = 0;
        for (Long b = 0; b < s.examples; ++b) {
            const Long g = (c * s.examples + b) * s.groups + group;
            for (Long j = first; j < first + s.run; ++j) {
                const float d = dy[g * s.numbers + j];
                scale += d * ((x[g * s.numbers + j] - saved[2 * g]) * saved[2 * g + 1]);
                shift += d;
            }
        }
        float* t = to + c * stride + begin + k;
        t[0] = alpha * scale + (beta == 0 ? 0.0f : beta * t[0]);
        t[all] = alpha * shift + (beta == 0 ? 0.0f : beta * t[all]);
    }
}

// The largest of each window; the slope goes to the first of them; a NaN is larger than all.
KERNEL(max_pool, const float* x, float* y, Long height, Long width, Long kernel) {
    const Long columns = width / kernel, pixels = height / kernel * columns;
    EACH(i) {
        const float* corner = x + i / pixels * height * width + i % pixels / columns * kernel * width + i % columns * kernel;
        float top = corner[0];
        for (Long t = 1; t < kernel * kernel; ++t) {
            const float v = corner[t / kernel * width + t % kernel];
            top = v > top || v != v ? v : top;
        }
        y[i] = top;
    }
}
// One thread a number of dx.
KERNEL(max_pool_slope, const float* x, const float* y, const float* dy, float* dx, Long height, Long width, Long kernel) {
    const Long columns = width / kernel, rows = height / kernel;
    EACH(i) {
        const Long plane = i / (height * width), r = i / width % height, q = i % width, row = r / kernel, column = q / kernel;
        dx[i] = 0;
        if (row >= rows || column >= columns) continue;
        const Long out = (plane * rows + row) * columns + column, mine = r % kernel * kernel + q % kernel;
        const float *corner = x + (plane * height + row * kernel) * width + column * kernel, top = y[out];
        Long first = 0;
        for (; first < mine; ++first) {
            const float v = corner[first / kernel * width + first % kernel];
            if (v == top || v != v) break;
        }
        if (first == mine && (x[i] == top || x[i] != x[i])) dx[i] = dy[out];
    }
}
KERNEL(mean_pool, const float* x, float* y, Long plane) {
    EACH(i) {
        float sum = 0;
        for (Long j = 0; j < plane; ++j) sum += x[i * plane + j];
        y[i] = sum / (float)plane;
    }
}
KERNEL(mean_pool_slope, const float* dy, float* dx, Long plane) {
    EACH(i) dx[i] = dy[i / plane] / (float)plane;
}

// The step of a rule on some coordinates of each client, as rule/step.hpp has it:
//   d = scale g + decay x + prox_weight (x - prox_center) + linear;   v = momentum v + d;   x -= rate v
// A null g, prox_center, linear, velocity or scales is not there; of a mask, what is not active is zero and stays so.
struct Rule {
    float rate, decay, prox_weight, momentum;
};
KERNEL(update, float* x, const float* g, const float* prox_center, const float* linear, float* velocity, const float* scales,
       const Word* masks, Long words, Place p, Rule r) {
    EACH(i) {
        const Long j = at(p, i), c = i / p.length, own = p.begin + i % p.length;
        if (masks && !(masks[c * words + own / 64] >> (own % 64) & 1)) {
            x[j] = 0;
            continue;
        }
        float d = g ? (scales ? scales[c] * g[j] : g[j]) : 0.0f;
        if (r.decay != 0) d += r.decay * x[j];
        if (prox_center) d += r.prox_weight * (x[j] - prox_center[j]);
        if (linear) d += linear[j];
        if (velocity) velocity[j] = d = r.momentum * velocity[j] + d;
        x[j] -= r.rate * d;
    }
}
KERNEL(keep_active, float* x, const Word* masks, Long words, Place p) {
    EACH(i) {
        const Long own = p.begin + i % p.length;
        if (!(masks[i / p.length * words + own / 64] >> (own % 64) & 1)) x[at(p, i)] = 0;
    }
}
// Squared norm of some coordinates of each client, in `parts` pieces: sums[c][part] += ...
KERNEL(squares, const float* g, const Word* masks, Long words, Place p, Long parts, double* sums) {
    EACH(i) {
        const Long c = i / parts;
        double sum = 0;
        for (Long k = i % parts; k < p.length; k += parts) {
            const Long own = p.begin + k;
            if (masks && !(masks[c * words + own / 64] >> (own % 64) & 1)) continue;
            const double v = g[c * p.stride + own];
            sum += v * v;
        }
        sums[i] += sum;
    }
}
// scale[c] = min(1, clip / (norm + 1e-6))
KERNEL(clip_scales, const double* sums, Long parts, double clip, float* scales) {
    EACH(i) {
        double sum = 0;
        for (Long k = 0; k < parts; ++k) sum += sums[i * parts + k];
        const double scale = clip / (sqrt(sum) + 1e-6);
        scales[i] = scale < 1 ? (float)scale : 1.0f;
    }
}

// Numbers that lie apart, side by side, and back.
KERNEL(pick, const float* from, const Long* places, float* to) {
    EACH(i) to[i] = from[places[i]];
}
KERNEL(put, const float* from, const Long* places, float* to) {
    EACH(i) to[places[i]] = from[i];
}

// Where the host rounds each product and each sum by itself, so does the device: nothing here becomes a multiply-add.
#ifdef __CUDACC__
HERE double times(double a, double b) { return __dmul_rn(a, b); }
HERE double plus(double a, double b) { return __dadd_rn(a, b); }
#else
HERE double times(double a, double b) { return a * b; }
HERE double plus(double a, double b) { return a + b; }
#endif
struct MeanRows {
    const float* x[8];
    const Word* masks[8];
    double left[8], right[8];
    int flush;
};
// What a row reads at i. Nobody there is -0, which changes no bit of what it is added to.
HERE double mean_leaf(const MeanRows& rows, int k, const float* before, Long i) {
    if (!rows.x[k]) return -0.0;
    const float v = !rows.masks[k] || (rows.masks[k][i / 64] >> (i % 64) & 1) ? rows.x[k][i] : before[i];
    const float least = 1.17549435e-38f;
    return rows.flush && v < least && v > -least ? times(v, 0.0) : (double)v;
}
KERNEL(mean_rows, MeanRows rows, const float* before, double* sum) {
    EACH(i) {
        double node[16];
        for (int k = 0; k < 8; ++k) node[8 + k] = mean_leaf(rows, k, before, i);
        for (int k = 7; k > 0; --k) node[k] = plus(times(node[2 * k], rows.left[k]), times(node[2 * k + 1], rows.right[k]));
        sum[i] = node[1];
    }
}
KERNEL(join_sums, double* a, double mine, const double* b, double its) {
    EACH(i) a[i] = plus(times(a[i], mine), times(b[i], its));
}

extern "C" {
int tessera_gather_bytes(Long n, const Byte* pool, const int* ids, float shift, float scale, float* to, Long width, void* on) {
    LAUNCH(gather_bytes, n, on, pool, ids, shift, scale, to, width);
}
int tessera_gather_floats(Long n, const float* pool, const int* ids, float* to, Long width, void* on) {
    LAUNCH(gather_floats, n, on, pool, ids, to, width);
}
int tessera_add_bias(Long n, float* y, const float* w, Long begin, Long stride, Long each, Long out, Long plane, void* on) {
    LAUNCH(add_bias, n, on, y, w, begin, stride, each, out, plane);
}
int tessera_bias_sums(Long n, const float* dy, float* to, Long begin, Long stride, Long examples, Long out, Long plane, float alpha,
                      float beta, void* on) {
    LAUNCH(bias_sums, n, on, dy, to, begin, stride, examples, out, plane, alpha, beta);
}
int tessera_leaky_relu(Long n, const float* x, float* y, float slope, void* on) { LAUNCH(leaky_relu, n, on, x, y, slope); }
int tessera_leaky_relu_slope(Long n, const float* y, const float* dy, float* dx, float slope, void* on) {
    LAUNCH(leaky_relu_slope, n, on, y, dy, dx, slope);
}
int tessera_add(Long n, const float* a, const float* b, float* y, void* on) { LAUNCH(add, n, on, a, b, y); }
int tessera_softmax(Long n, float* z, const int* labels, const float* shares, Long classes, double* losses, void* on) {
    LAUNCH(softmax, n, on, z, labels, shares, classes, losses);
}
int tessera_add_losses(Long n, const double* losses, double* totals, Long rows, void* on) {
    LAUNCH(add_losses, n, on, losses, totals, rows);
}
int tessera_patches(Long n, const float* x, float* to, Window s, Long examples, Long first, Long count, void* on) {
    LAUNCH(patches, n, on, x, to, s, examples, first, count);
}
int tessera_patches_slope(Long n, const float* from, float* dx, Window s, Long examples, Long first, Long count, void* on) {
    LAUNCH(patches_slope, n, on, from, dx, s, examples, first, count);
}
int tessera_rows_to_planes(Long n, const float* rows, float* y, Long out, Long pixels, Long examples, Long first, Long count,
                           void* on) {
    LAUNCH(rows_to_planes, n, on, rows, y, out, pixels, examples, first, count);
}
int tessera_planes_to_rows(Long n, const float* y, float* rows, Long out, Long pixels, Long examples, Long first, Long count,
                           void* on) {
    LAUNCH(planes_to_rows, n, on, y, rows, out, pixels, examples, first, count);
}
int tessera_norm(Long n, const float* x, const float* w, float* y, float* saved, Norm s, float eps, void* on) {
    LAUNCH(norm, n, on, x, w, y, saved, s, eps);
}
int tessera_norm_slope(Long n, const float* x, const float* dy, const float* w, const float* saved, float* dx, Norm s, void* on) {
    LAUNCH(norm_slope, n, on, x, dy, w, saved, dx, s);
}
int tessera_norm_pairs(Long n, const float* x, const float* dy, const float* saved, float* to, Norm s, Long begin, Long stride,
                       float alpha, float beta, void* on) {
    LAUNCH(norm_pairs, n, on, x, dy, saved, to, s, begin, stride, alpha, beta);
}
int tessera_max_pool(Long n, const float* x, float* y, Long height, Long width, Long kernel, void* on) {
    LAUNCH(max_pool, n, on, x, y, height, width, kernel);
}
int tessera_max_pool_slope(Long n, const float* x, const float* y, const float* dy, float* dx, Long height, Long width, Long kernel,
                           void* on) {
    LAUNCH(max_pool_slope, n, on, x, y, dy, dx, height, width, kernel);
}
int tessera_mean_pool(Long n, const float* x, float* y, Long plane, void* on) { LAUNCH(mean_pool, n, on, x, y, plane); }
int tessera_mean_pool_slope(Long n, const float* dy, float* dx, Long plane, void* on) {
    LAUNCH(mean_pool_slope, n, on, dy, dx, plane);
}
int tessera_update(Long n, float* x, const float* g, const float* prox_center, const float* linear, float* velocity, const float* scales,
                   const Word* masks, Long words, Place p, Rule r, void* on) {
    LAUNCH(update, n, on, x, g, prox_center, linear, velocity, scales, masks, words, p, r);
}
int tessera_keep_active(Long n, float* x, const Word* masks, Long words, Place p, void* on) {
    LAUNCH(keep_active, n, on, x, masks, words, p);
}
int tessera_squares(Long n, const float* g, const Word* masks, Long words, Place p, Long parts, double* sums, void* on) {
    LAUNCH(squares, n, on, g, masks, words, p, parts, sums);
}
int tessera_mean_rows(Long n, MeanRows rows, const float* before, double* sum, void* on) {
    LAUNCH(mean_rows, n, on, rows, before, sum);
}
int tessera_join_sums(Long n, double* a, double mine, const double* b, double its, void* on) {
    LAUNCH(join_sums, n, on, a, mine, b, its);
}
int tessera_pick(Long n, const float* from, const Long* places, float* to, void* on) { LAUNCH(pick, n, on, from, places, to); }
int tessera_put(Long n, const float* from, const Long* places, float* to, void* on) { LAUNCH(put, n, on, from, places, to); }
int tessera_clip_scales(Long n, const double* sums, Long parts, double clip, float* scales, void* on) {
    LAUNCH(clip_scales, n, on, sums, parts, clip, scales);
}
}
