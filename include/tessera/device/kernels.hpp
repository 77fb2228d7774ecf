// SPDX-License-Identifier: BSD-3-Clause
// The kernels of device/kernels.cu, which no library of NVIDIA's has. All run on a stream, take the number of threads
// first and give back a CUDA error. Arrays are the device's, [client][example][...], and begin with the first client.
#pragma once

namespace tessera::device::kernel {

using Long = long long;

// Numbers [begin, begin + length) of every client; clients are `stride` apart.
struct Place {
    Long begin, length, stride;
};
// A convolution's window over planes; rows x columns come out.
struct Window {
    Long channels, height, width, kernel, stride, pad, rows, columns;
};
// Groups of `numbers` side by side, `groups` an example; number j of a group has the pair (group % groups) * pairs + j
// / run.
struct Norm {
    Long numbers, groups, pairs, run, examples;
    Long scale, shift, stride;
    int none;  // there are no pairs: 1 and 0
};
struct Rule {
    float rate, decay, prox_weight, momentum;
};
// Eight neighbours of a cohort, and the factors of both sides of each node of the tree over them: node 1 is the root,
// 2 k and 2 k + 1 are below k, 8..15 are the rows. A null row is nobody. `flush`: numbers too small for the host are 0.
struct MeanRows {
    const float* x[8];
    const unsigned long long* masks[8];
    double left[8], right[8];
    int flush;
};

extern "C" {
// to[row] = (pool[ids[row]] - shift) * scale; an id below 0 is a row that is not there, and all zero.
int tessera_gather_bytes(Long n, const unsigned char* pool, const int* ids, float shift, float scale, float* to,
                         Long width, void* on);
int tessera_gather_floats(Long n, const float* pool, const int* ids, float* to, Long width, void* on);
// Biases stand at w[begin ..] of a client; `each` numbers a client, out planes of `plane` numbers an example.
int tessera_add_bias(Long n, float* y, const float* w, Long begin, Long stride, Long each, Long out, Long plane,
                     void* on);
// to = beta to + alpha (sum of dy over examples and planes); nothing is read where beta is 0.
int tessera_bias_sums(Long n, const float* dy, float* to, Long begin, Long stride, Long examples, Long out, Long plane,
                      float alpha, float beta, void* on);
int tessera_leaky_relu(Long n, const float* x, float* y, float slope, void* on);
int tessera_leaky_relu_slope(Long n, const float* y, const float* dy, float* dx, float slope, void* on);
int tessera_add(Long n, const float* a, const float* b, float* y, void* on);
// A row of z leaves as the slope of its loss, share * -log softmax(z)[label]; with share 0 it costs nothing.
int tessera_softmax(Long n, float* z, const int* labels, const float* shares, Long classes, double* losses, void* on);
int tessera_add_losses(Long n, const double* losses, double* totals, Long rows, void* on);
// Patches of `count` of a client's examples, from `first` on, as rows [pixel][tap]; back, each number the sum of its
// taps.
int tessera_patches(Long n, const float* x, float* to, Window s, Long examples, Long first, Long count, void* on);
int tessera_patches_slope(Long n, const float* from, float* dx, Window s, Long examples, Long first, Long count,
                          void* on);
int tessera_rows_to_planes(Long n, const float* rows, float* y, Long out, Long pixels, Long examples, Long first,
                           Long count, void* on);
int tessera_planes_to_rows(Long n, const float* y, float* rows, Long out, Long pixels, Long examples, Long first,
                           Long count, void* on);
int tessera_norm(Long n, const float* x, const float* w, float* y, float* saved, Norm s, float eps, void* on);
int tessera_norm_slope(Long n, const float* x, const float* dy, const float* w, const float* saved, float* dx, Norm s,
                       void* on);
int tessera_norm_pairs(Long n, const float* x, const float* dy, const float* saved, float* to, Norm s, Long begin,
                       Long stride, float alpha, float beta, void* on);
int tessera_max_pool(Long n, const float* x, float* y, Long height, Long width, Long kernel, void* on);
int tessera_max_pool_slope(Long n, const float* x, const float* y, const float* dy, float* dx, Long height, Long width,
                           Long kernel, void* on);
int tessera_mean_pool(Long n, const float* x, float* y, Long plane, void* on);
int tessera_mean_pool_slope(Long n, const float* dy, float* dx, Long plane, void* on);
// d = scale g + decay x + prox_weight (x - prox_center) + linear;  v = momentum v + d;  x -= rate v.  Null: not there.
int tessera_update(Long n, float* x, const float* g, const float* prox_center, const float* linear, float* velocity,
                   const float* scales, const unsigned long long* masks, Long words, Place p, Rule r, void* on);
// What is not active becomes zero.
int tessera_keep_active(Long n, float* x, const unsigned long long* masks, Long words, Place p, void* on);
// sums[client][part] += squares;  scales[client] = min(1, clip / (norm + 1e-6)).
int tessera_squares(Long n, const float* g, const unsigned long long* masks, Long words, Place p, Long parts,
                    double* sums, void* on);
int tessera_clip_scales(Long n, const double* sums, Long parts, double clip, float* scales, void* on);
// The sum of eight rows, in double; what is not active reads `before`.
int tessera_mean_rows(Long n, MeanRows rows, const float* before, double* sum, void* on);
// a = mine a + its b
int tessera_join_sums(Long n, double* a, double mine, const double* b, double its, void* on);
// to[i] = from[places[i]], and to[places[i]] = from[i].
int tessera_pick(Long n, const float* from, const Long* places, float* to, void* on);
int tessera_put(Long n, const float* from, const Long* places, float* to, void* on);
}

}  // namespace tessera::device::kernel
