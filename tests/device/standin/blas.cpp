// SPDX-License-Identifier: BSD-3-Clause
// The cuBLAS of the stand-in: one product, in single precision, for matrices that lie column by column.
#include <cublas_v2.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>

#include "machine.hpp"
#include "standin.hpp"

struct cublasContext {
    cudaStream_t stream = nullptr;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
    cublasPointerMode_t mode = CUBLAS_POINTER_MODE_HOST;
};

using standin::machine;

namespace {

// Rounded to a mantissa of so many bits, to nearest.
float cut(float x, int bits) {
    if (bits >= 23 || !std::isfinite(x)) return x;
    const auto word = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t half = 1u << (22 - bits), mask = ~((half << 1) - 1);
    return std::bit_cast<float>((word + half) & mask);
}

struct Matrix {
    const float* at;
    long long ld, stride;
    bool turned;
    int rows, columns;  // as it lies

    long long span() const { return ld * (columns - 1) + rows; }  // numbers of one problem
    float get(int problem, int i, int j) const {
        return at[problem * stride + (turned ? j + i * ld : i + j * ld)];
    }
    bool inside(int count) const {
        const long long last = stride * (count - 1) + span();
        return stride >= 0 && machine().holds(at, static_cast<std::size_t>(last) * sizeof(float));
    }
    bool written(int count) const {
        for (int c = 0; c < count; ++c)
            for (int j = 0; j < columns; ++j)
                for (int i = 0; i < rows; ++i)
                    if (standin::unwritten(at + c * stride + i + j * ld)) return false;
        return true;
    }
    bool meets(const Matrix& other, int count) const {
        const float *end = at + stride * (count - 1) + span(), *others = other.at + other.stride * (count - 1) + other.span();
        return at < others && other.at < end;
    }
};

}  // namespace

extern "C" {

const char* cublasGetStatusString(cublasStatus_t s) {
    const auto hold = standin::alone();
    switch (s) {
        case CUBLAS_STATUS_SUCCESS: return "success";
        case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
        case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed to the function";
        case CUBLAS_STATUS_EXECUTION_FAILED: return "the GPU program failed to execute";
        default: return "an error of the stand-in";
    }
}
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    const auto hold = standin::alone();
    if (machine().alive()) return CUBLAS_STATUS_NOT_INITIALIZED;
    const auto made = std::make_shared<cublasContext>();
    machine().handles.emplace(*handle = made.get(), made);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    const auto hold = standin::alone();
    if (machine().handles.erase(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    const auto hold = standin::alone();
    handle->stream = stream;  // (this takes the workspace back, as in cuBLAS: set it afterwards)
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void* workspace, size_t bytes) {
    const auto hold = standin::alone();
    const bool fits = machine().holds(workspace, bytes) && reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0;
    return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math) {
    const auto hold = standin::alone();
    handle->math = math;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType at, int lda, long long sa, const void* b,
                                          cudaDataType bt, int ldb, long long sb, const void* beta, void* c, cudaDataType ct,
                                          int ldc, long long sc, int count, cublasComputeType_t compute, cublasGemmAlgo_t) {
    const auto hold = standin::alone();
    auto& machine = standin::machine();
    if (!machine.handles.contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (at != CUDA_R_32F || bt != CUDA_R_32F || ct != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool na = ta == CUBLAS_OP_N, nb = tb == CUBLAS_OP_N;
    const auto least = [](int rows) { return std::max(1, rows); };
    if (m < 0 || n < 0 || k < 0 || count < 0 || lda < least(na ? m : k) || ldb < least(nb ? k : n) || ldc < least(m)) {
        machine.faults.push_back("a product has a size below 0 or a leading dimension that is less than its rows");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (m == 0 || n == 0 || count == 0) return CUBLAS_STATUS_SUCCESS;
    const int bits = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? 10 : compute == CUBLAS_COMPUTE_32F_FAST_16BF ? 7 : 23;
    const Matrix A{static_cast<const float*>(a), lda, sa, !na, na ? m : k, na ? k : m};
    const Matrix B{static_cast<const float*>(b), ldb, sb, !nb, nb ? k : n, nb ? n : k};
    const Matrix C{static_cast<const float*>(c), ldc, sc, false, m, n};
    const float al = *static_cast<const float*>(alpha), be = *static_cast<const float*>(beta);  // of the host, read now
    float* const to = static_cast<float*>(c);
    const auto e = machine.put(handle->stream, [=, &machine] {
        ++machine.products;
        if ((k > 0 && (!A.inside(count) || !B.inside(count))) || !C.inside(count))
            return machine.wrong("an operand of a product does not lie in device memory, or goes beyond its allocation");
        if (k > 0 && (A.meets(C, count) || B.meets(C, count))) return machine.wrong("a product writes where it reads");
        if (count > 1 && C.stride < C.span()) return machine.wrong("outputs of the problems of a batch overlap");
        if (k > 0 && (!A.written(count) || !B.written(count))) return machine.wrong("a product reads numbers that nobody wrote");
        if (be != 0 && !C.written(count)) return machine.wrong("a product adds to numbers that nobody wrote");
        for (int p = 0; p < count; ++p)
            for (int j = 0; j < n; ++j)
                for (int i = 0; i < m; ++i) {
                    float sum = 0;
                    for (int q = 0; q < k; ++q) sum += cut(A.get(p, i, q), bits) * cut(B.get(p, q, j), bits);
                    float& out = to[p * sc + i + static_cast<long long>(j) * ldc];
                    out = al * sum + (be == 0 ? 0.0f : be * out);
                }
    });
    return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
