// SPDX-License-Identifier: BSD-3-Clause
// The active weights of one linear layer of every client, each client with a pattern of its own, by cuSPARSE: forward
// by a sparse product (SpMM), the gradient only where there is a weight (SDDMM). The slope of the input stays a dense
// product on zero-filled weights, because that of a transposed sparse matrix does not repeat its bits.
//
// Values are picked from the dense weights before they are used and put back when they have changed, so all else of a
// step is as for dense ones.
#pragma once

#include <cusparse.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tessera/core/mask.hpp>
#include <tessera/device/kernels.hpp>
#include <tessera/device/runtime.hpp>

namespace tessera::device {

inline void must(cusparseStatus_t s) {
    if (s == CUSPARSE_STATUS_ALLOC_FAILED) throw OutOfMemory("the device has no more memory");
    if (s != CUSPARSE_STATUS_SUCCESS) throw DeviceError(std::string("cuSPARSE failed: ") + cusparseGetErrorString(s));
}

// The table: below this share of active weights a layer goes to cuSPARSE. Not measured; the one public figure known to
// us has sparse products 6 to 7 times slower than dense ones at half density.
inline constexpr double sparse_share = 0.1;

class SparseHandle {
public:
    explicit SparseHandle(const Context& on) {
        must(cusparseCreate(&handle_));
        const auto status = cusparseSetStream(handle_, on.stream());
        if (status == CUSPARSE_STATUS_SUCCESS) return;
        (void)cusparseDestroy(handle_);
        must(status);
    }
    SparseHandle(const SparseHandle&) = delete;
    SparseHandle& operator=(const SparseHandle&) = delete;
    ~SparseHandle() { (void)cusparseDestroy(handle_); }
    cusparseHandle_t get() const { return handle_; }

private:
    cusparseHandle_t handle_ = nullptr;
};

class ActiveWeights {
public:
    // Weights [out][in] begin at `begin` of each client's parameters, which are `stride` apart; x has at most `rows`
    // rows.
    ActiveWeights(const Context& on, const SparseHandle& blas, std::span<const Mask* const> masks, std::size_t begin,
                  std::size_t stride, std::size_t out, std::size_t in, std::size_t rows)
        : on_(on), blas_(blas), out_(out), in_(in), rows_(rows) {
        std::vector<int> offsets, places;
        std::vector<kernel::Long> index;
        for (std::size_t c = 0; c < masks.size(); ++c) {
            first_.push_back(places.size());
            for (std::size_t o = 0; o < out; ++o) {
                offsets.push_back(static_cast<int>(places.size() - first_.back()));
                for (std::size_t i = 0; i < in; ++i)
                    if (const std::size_t j = begin + o * in + i; (*masks[c])[j]) {
                        places.push_back(static_cast<int>(i));
                        index.push_back(static_cast<kernel::Long>(c * stride + j));
                    }
            }
            offsets.push_back(static_cast<int>(places.size() - first_.back()));
        }
        first_.push_back(places.size());
        offsets_ = sent(offsets);
        places_ = sent(places);
        index_ = sent(index);
        values_ = Array<float>(std::max<std::size_t>(1, places.size()));
        on.finish();
        const std::size_t bytes = buffer_bytes();
        buffer_ = Array<unsigned char>(std::max<std::size_t>(256, bytes));
    }
    // Of so many clients: y = x w', all rows of a client.
    void forward(const float* w, const float* x, float* y, std::size_t clients, std::size_t rows) const {
        pick(w, clients);
        const float one = 1, zero = 0;
        for (std::size_t c = 0; c < clients; ++c) {
            const Sparse a(*this, c);
            const Dense b(x + c * rows * in_, in_, rows, in_, CUSPARSE_ORDER_COL);
            const Dense to(y + c * rows * out_, out_, rows, out_, CUSPARSE_ORDER_COL);
            must(cusparseSpMM(blas_.get(), none, none, &one, a.get(), b.get(), &zero, to.get(), CUDA_R_32F,
                              CUSPARSE_SPMM_CSR_ALG2, buffer_.data()));
        }
    }
    // to = beta to + alpha dy' x where there is a weight.
    void gradient(const float* dy, const float* x, float* to, std::size_t clients, std::size_t rows, float alpha,
                  float beta) const {
        if (beta != 0) pick(to, clients);
        for (std::size_t c = 0; c < clients; ++c) {
            const Dense a(dy + c * rows * out_, rows, out_, out_, CUSPARSE_ORDER_ROW);
            const Dense b(x + c * rows * in_, rows, in_, in_, CUSPARSE_ORDER_ROW);
            const Sparse s(*this, c);
            must(cusparseSDDMM(blas_.get(), turned, none, &alpha, a.get(), b.get(), &beta, s.get(), CUDA_R_32F,
                               CUSPARSE_SDDMM_ALG_DEFAULT, buffer_.data()));
        }
        must(kernel::tessera_put(count(clients), values_.data(), index_.data(), to, on_.stream()));
    }

private:
    static constexpr auto none = CUSPARSE_OPERATION_NON_TRANSPOSE, turned = CUSPARSE_OPERATION_TRANSPOSE;

    class Sparse {
    public:
        Sparse(const ActiveWeights& w, std::size_t c) {
            const std::size_t begin = w.first_[c];
            must(cusparseCreateCsr(&it_, static_cast<std::int64_t>(w.out_), static_cast<std::int64_t>(w.in_),
                                   static_cast<std::int64_t>(w.first_[c + 1] - begin),
                                   w.offsets_.data() + c * (w.out_ + 1), w.places_.data() + begin,
                                   w.values_.data() + begin, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                   CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
        }
        Sparse(const Sparse&) = delete;
        Sparse& operator=(const Sparse&) = delete;
        ~Sparse() { (void)cusparseDestroySpMat(it_); }
        cusparseSpMatDescr_t get() const { return it_; }

    private:
        cusparseSpMatDescr_t it_ = nullptr;
    };
    class Dense {
    public:
        Dense(const float* at, std::size_t rows, std::size_t columns, std::size_t ld, cusparseOrder_t order) {
            must(cusparseCreateDnMat(&it_, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns),
                                     static_cast<std::int64_t>(ld), const_cast<float*>(at), CUDA_R_32F, order));
        }
        Dense(const Dense&) = delete;
        Dense& operator=(const Dense&) = delete;
        ~Dense() { (void)cusparseDestroyDnMat(it_); }
        cusparseDnMatDescr_t get() const { return it_; }

    private:
        cusparseDnMatDescr_t it_ = nullptr;
    };

    template <class T>
    Array<T> sent(const std::vector<T>& host) const {
        Array<T> there(std::max<std::size_t>(1, host.size()));
        on_.up(host.data(), there.data(), host.size());
        return there;
    }
    kernel::Long count(std::size_t clients) const { return static_cast<kernel::Long>(first_[clients]); }
    void pick(const float* from, std::size_t clients) const {
        must(kernel::tessera_pick(count(clients), from, index_.data(), values_.data(), on_.stream()));
    }
    // The most that any client's products want; nothing is computed.
    std::size_t buffer_bytes() const {
        const float one = 1, zero = 0;
        std::size_t most = 0, bytes = 0;
        float* const somewhere = values_.data();
        for (std::size_t c = 0; c + 1 < first_.size(); ++c) {
            const Sparse s(*this, c);
            const Dense x(somewhere, in_, rows_, in_, CUSPARSE_ORDER_COL),
                y(somewhere, out_, rows_, out_, CUSPARSE_ORDER_COL);
            const Dense dy(somewhere, rows_, out_, out_, CUSPARSE_ORDER_ROW),
                b(somewhere, rows_, in_, in_, CUSPARSE_ORDER_ROW);
            must(cusparseSpMM_bufferSize(blas_.get(), none, none, &one, s.get(), x.get(), &zero, y.get(), CUDA_R_32F,
                                         CUSPARSE_SPMM_CSR_ALG2, &bytes));
            most = std::max(most, bytes);
            must(cusparseSDDMM_bufferSize(blas_.get(), turned, none, &one, dy.get(), b.get(), &zero, s.get(),
                                          CUDA_R_32F, CUSPARSE_SDDMM_ALG_DEFAULT, &bytes));
            most = std::max(most, bytes);
        }
        return most;
    }

    const Context& on_;
    const SparseHandle& blas_;
    std::size_t out_, in_, rows_;
    std::vector<std::size_t> first_;  // of a client's values
    Array<int> offsets_, places_;
    Array<kernel::Long> index_;
    Array<float> values_;
    Array<unsigned char> buffer_;
};

}  // namespace tessera::device
