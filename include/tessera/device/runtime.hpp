// SPDX-License-Identifier: BSD-3-Clause
// A device as this library uses it: memory that is owned, one stream, one cuBLAS handle whose numbers repeat
// themselves.
//
// One stream and a workspace of the handle's own, so that cuBLAS chooses the same algorithm for the same shapes and the
// same device gives the same bits (cuBLAS, "Results reproducibility"). Nothing here waits but finish().
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <tessera/core/error.hpp>
#include <tessera/device/kernels.hpp>

namespace tessera {

// The device failed, or is lost: nothing that was asked of it since it was last waited for has come true.
struct DeviceError : Error {
    using Error::Error;
};

}  // namespace tessera

namespace tessera::device {

// Nothing has happened yet: there is not enough memory for what was asked.
struct OutOfMemory : DeviceError {
    using DeviceError::DeviceError;
};

// What products are rounded to. fp32 is IEEE single precision in every step (cuBLAS's pedantic mode); the others keep
// 10 and 7 bits of a factor and add up in single precision.
enum class Precision : std::uint8_t { fp32, tf32, bf16 };
constexpr std::array<std::string_view, 3> words_of(Precision) { return {"fp32", "tf32", "bf16"}; }

inline void must(cudaError_t e) {
    if (e == cudaErrorMemoryAllocation) throw OutOfMemory("the device has no more memory");
    if (e != cudaSuccess) throw DeviceError(std::string("the device failed: ") + cudaGetErrorString(e));
}
inline void must(cublasStatus_t s) {
    if (s == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory("the device has no more memory");
    if (s != CUBLAS_STATUS_SUCCESS) throw DeviceError(std::string("cuBLAS failed: ") + cublasGetStatusString(s));
}
inline void must(int kernel) { must(static_cast<cudaError_t>(kernel)); }

// Whether there is a device, and a driver that speaks to it.
inline bool present() {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// Numbers on the device. What they are is not known until somebody writes them.
template <class T>
class Array {
public:
    Array() = default;
    explicit Array(std::size_t n) : size_(n) {
        if (n > std::numeric_limits<std::size_t>::max() / sizeof(T))
            throw OutOfMemory("the device has not so much memory");
        if (n > 0) must(cudaMalloc(reinterpret_cast<void**>(&at_), n * sizeof(T)));
    }
    Array(Array&& other) noexcept : at_(std::exchange(other.at_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Array& operator=(Array&& other) noexcept {
        std::swap(at_, other.at_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Array() {
        if (at_) (void)cudaFree(at_);
    }
    T* data() const { return at_; }
    std::size_t size() const { return size_; }

private:
    T* at_ = nullptr;
    std::size_t size_ = 0;
};

// A matrix that lies row by row, `pitch` numbers from one row to the next, and `apart` from one problem to the next.
struct Matrix {
    const float* at;
    std::size_t pitch;
    std::size_t apart = 0;
    bool turned = false;  // read column by column
};

namespace detail {

class Stream {
public:
    Stream() { must(cudaStreamCreateWithFlags(&it_, cudaStreamNonBlocking)); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() { (void)cudaStreamDestroy(it_); }
    cudaStream_t get() const { return it_; }

private:
    cudaStream_t it_ = nullptr;
};
class BlasHandle {
public:
    BlasHandle() { must(cublasCreate(&it_)); }
    BlasHandle(const BlasHandle&) = delete;
    BlasHandle& operator=(const BlasHandle&) = delete;
    ~BlasHandle() { (void)cublasDestroy(it_); }
    cublasHandle_t get() const { return it_; }

private:
    cublasHandle_t it_ = nullptr;
};

}  // namespace detail

class Context {
public:
    explicit Context(Precision precision = Precision::fp32) : precision_(precision), workspace_(workspace_bytes) {
        const cublasHandle_t blas = blas_.get();
        must(cublasSetStream(blas, stream()));
        must(cublasSetWorkspace(blas, workspace_.data(), workspace_.size()));  // after the stream, which takes it back
        must(cublasSetMathMode(blas, precision == Precision::fp32 ? CUBLAS_PEDANTIC_MATH : CUBLAS_DEFAULT_MATH));
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    cudaStream_t stream() const { return stream_.get(); }
    Precision precision() const { return precision_; }

    // c = alpha a b + beta c, rows x columns, `depth` numbers a sum, `count` problems. All row by row: cuBLAS, which
    // thinks column by column, is given b' a' = c'.
    void product(const Matrix& a, const Matrix& b, float* c, std::size_t pitch, std::size_t apart, std::size_t rows,
                 std::size_t columns, std::size_t depth, std::size_t count = 1, float alpha = 1, float beta = 0) const {
        if (rows == 0 || columns == 0 || count == 0) return;
        const auto how = precision_ == Precision::fp32   ? CUBLAS_COMPUTE_32F_PEDANTIC
                         : precision_ == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                         : CUBLAS_COMPUTE_32F_FAST_16BF;
        must(cublasGemmStridedBatchedEx(
            blas_.get(), b.turned ? CUBLAS_OP_T : CUBLAS_OP_N, a.turned ? CUBLAS_OP_T : CUBLAS_OP_N, narrow(columns),
            narrow(rows), narrow(depth), &alpha, b.at, CUDA_R_32F, narrow(b.pitch), static_cast<long long>(b.apart),
            a.at, CUDA_R_32F, narrow(a.pitch), static_cast<long long>(a.apart), &beta, c, CUDA_R_32F, narrow(pitch),
            static_cast<long long>(apart), narrow(count), how, CUBLAS_GEMM_DEFAULT));
    }

    // Copies, in the order of the stream. What lies on the host must stay as it is until finish().
    template <class T>
    void up(const T* host, T* device, std::size_t n) const {
        copy(host, device, n, cudaMemcpyHostToDevice);
    }
    template <class T>
    void down(const T* device, T* host, std::size_t n) const {
        copy(device, host, n, cudaMemcpyDeviceToHost);
    }
    template <class T>
    void across(const T* from, T* to, std::size_t n) const {
        copy(from, to, n, cudaMemcpyDeviceToDevice);
    }
    template <class T>
    void zero(T* device, std::size_t n) const {
        if (n > 0) must(cudaMemsetAsync(device, 0, n * sizeof(T), stream()));
    }
    // Everything asked for has happened, or DeviceError.
    void finish() const { must(cudaStreamSynchronize(stream())); }

private:
    static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // as cuBLAS takes on the largest devices

    static int narrow(std::size_t n) {
        if (n > static_cast<std::size_t>(std::numeric_limits<int>::max()))
            throw ConfigError("a product on the device has a side of " + std::to_string(n) + "; cuBLAS counts to 2^31");
        return static_cast<int>(n);
    }
    template <class T>
    void copy(const T* from, T* to, std::size_t n, cudaMemcpyKind kind) const {
        if (n > 0) must(cudaMemcpyAsync(to, from, n * sizeof(T), kind, stream()));
    }

    Precision precision_;
    Array<unsigned char> workspace_;
    detail::Stream stream_;
    detail::BlasHandle blas_;
};

// A context for threads that take turns, and what they must know of each other: whether the device was lost.
class SharedContext {
public:
    std::unique_ptr<Context> on;  // null until somebody opens it
    bool lost = false;

    // f() while no other thread uses the device. After any failure but a want of memory the device is lost.
    template <class F>
    auto alone(const F& f) {
        const std::scoped_lock hold(lock_);
        try {
            return f();
        } catch (const OutOfMemory&) {
            throw;
        } catch (const DeviceError&) {
            lost = true;
            throw;
        }
    }

private:
    std::mutex lock_;
};

}  // namespace tessera::device
