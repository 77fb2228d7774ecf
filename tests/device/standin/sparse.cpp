// SPDX-License-Identifier: BSD-3-Clause
// The cuSPARSE of the stand-in: a sparse matrix in rows times a dense one, and a dense product sampled at the entries of a
// sparse matrix, in single precision.
#include <cusparse.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "machine.hpp"
#include "standin.hpp"

struct cusparseContext {
    cudaStream_t stream = nullptr;
};
struct cusparseSpMatDescr {
    std::int64_t rows, columns, entries;
    const int *offsets, *places;
    float* values;
};
struct cusparseDnMatDescr {
    std::int64_t rows, columns, ld;
    float* at;
    bool by_rows;

    float& get(std::int64_t i, std::int64_t j) const { return at[by_rows ? i * ld + j : i + j * ld]; }
    std::size_t bytes() const {
        return static_cast<std::size_t>(by_rows ? (rows - 1) * ld + columns : (columns - 1) * ld + rows) * sizeof(float);
    }
    bool written() const {
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j)
                if (standin::unwritten(&get(i, j))) return false;
        return true;
    }
    bool meets(const cusparseDnMatDescr& o) const {
        const auto *a = reinterpret_cast<const char*>(at), *b = reinterpret_cast<const char*>(o.at);
        return a < b + o.bytes() && b < a + bytes();
    }
};

namespace {

using Sparse = cusparseSpMatDescr;
using Dense = cusparseDnMatDescr;
using standin::machine;

// Where its parts lie and what they say is a matrix.
bool sound(const Sparse& s, bool values_written) {
    auto& m = machine();
    const auto n = static_cast<std::size_t>(s.entries);
    if (!m.holds(s.offsets, static_cast<std::size_t>(s.rows + 1) * sizeof(int)) ||
        (n > 0 && (!m.holds(s.places, n * sizeof(int)) || !m.holds(s.values, n * sizeof(float))))) {
        m.wrong("a sparse matrix does not lie in device memory, or goes beyond its allocation");
        return false;
    }
    bool good = s.offsets[0] == 0 && s.offsets[s.rows] == s.entries;
    for (std::int64_t i = 0; good && i < s.rows; ++i) {
        good = s.offsets[i] <= s.offsets[i + 1] && s.offsets[i + 1] <= s.entries;
        for (int k = s.offsets[i]; good && k < s.offsets[i + 1]; ++k)
            good = s.places[k] >= 0 && s.places[k] < s.columns && (k == s.offsets[i] || s.places[k - 1] < s.places[k]);
    }
    if (!good) m.wrong("the rows and columns of a sparse matrix are none");
    for (std::size_t k = 0; good && values_written && k < n; ++k)
        if (standin::unwritten(s.values + k)) {
            m.wrong("a sparse product reads numbers that nobody wrote");
            return false;
        }
    return good;
}
bool lies(const Dense& d) {
    if (machine().holds(d.at, d.bytes())) return true;
    machine().wrong("an operand of a sparse product does not lie in device memory, or goes beyond its allocation");
    return false;
}
bool read(const Dense& d) {
    if (!lies(d)) return false;
    if (d.written()) return true;
    machine().wrong("a sparse product reads numbers that nobody wrote");
    return false;
}
cusparseStatus_t done(cudaError_t e) { return e == cudaSuccess ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_EXECUTION_FAILED; }

}  // namespace

extern "C" {

const char* cusparseGetErrorString(cusparseStatus_t s) {
    const auto hold = standin::alone();
    return s == CUSPARSE_STATUS_SUCCESS ? "success" : s == CUSPARSE_STATUS_INVALID_VALUE ? "invalid value" : "an error of the stand-in";
}
cusparseStatus_t cusparseCreate(cusparseHandle_t* handle) {
    const auto hold = standin::alone();
    if (machine().alive()) return CUSPARSE_STATUS_NOT_INITIALIZED;
    const auto made = std::make_shared<cusparseContext>();
    machine().handles.emplace(*handle = made.get(), made);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) {
    const auto hold = standin::alone();
    if (machine().handles.erase(handle) == 0) return CUSPARSE_STATUS_NOT_INITIALIZED;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
    const auto hold = standin::alone();
    handle->stream = stream;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t* d, int64_t rows, int64_t columns, int64_t entries, void* offsets, void* places,
                                   void* values, cusparseIndexType_t of, cusparseIndexType_t in, cusparseIndexBase_t base,
                                   cudaDataType type) {
    const auto hold = standin::alone();
    if (of != CUSPARSE_INDEX_32I || in != CUSPARSE_INDEX_32I || base != CUSPARSE_INDEX_BASE_ZERO || type != CUDA_R_32F)
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    *d = new Sparse{rows, columns, entries, static_cast<int*>(offsets), static_cast<int*>(places), static_cast<float*>(values)};
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t d) {
    const auto hold = standin::alone();
    delete d;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t* d, int64_t rows, int64_t columns, int64_t ld, void* at, cudaDataType type,
                                     cusparseOrder_t order) {
    const auto hold = standin::alone();
    const bool by_rows = order == CUSPARSE_ORDER_ROW;
    if (type != CUDA_R_32F) return CUSPARSE_STATUS_NOT_SUPPORTED;
    if (ld < (by_rows ? columns : rows)) {
        machine().faults.push_back("a dense matrix has a leading dimension that is less than its rows");
        return CUSPARSE_STATUS_INVALID_VALUE;
    }
    *d = new Dense{rows, columns, ld, static_cast<float*>(at), by_rows};
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t d) {
    const auto hold = standin::alone();
    delete d;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                                         cusparseConstDnMatDescr_t, const void*, cusparseDnMatDescr_t, cudaDataType,
                                         cusparseSpMMAlg_t, size_t* bytes) {
    const auto hold = standin::alone();
    *bytes = 64;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t oa, cusparseOperation_t ob, const void* alpha,
                              cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void* beta, cusparseDnMatDescr_t c,
                              cudaDataType, cusparseSpMMAlg_t, void* buffer) {
    const auto hold = standin::alone();
    if (oa != CUSPARSE_OPERATION_NON_TRANSPOSE || ob != CUSPARSE_OPERATION_NON_TRANSPOSE) return CUSPARSE_STATUS_NOT_SUPPORTED;
    if (a->columns != b->rows || a->rows != c->rows || b->columns != c->columns) {
        machine().faults.push_back("the sizes of a sparse product do not fit");
        return CUSPARSE_STATUS_INVALID_VALUE;
    }
    const float al = *static_cast<const float*>(alpha), be = *static_cast<const float*>(beta);
    return done(machine().put(handle->stream, [A = *a, B = *b, C = *c, al, be, buffer] {
        auto& m = machine();
        ++m.sparse;
        if (!m.holds(buffer, 64)) return m.wrong("a sparse product has no buffer");
        if (!sound(A, true) || !read(B) || !(be == 0 ? lies(C) : read(C))) return;
        if (B.meets(C)) return m.wrong("a sparse product writes where it reads");
        for (std::int64_t i = 0; i < C.rows; ++i)
            for (std::int64_t j = 0; j < C.columns; ++j) {
                float sum = 0;
                for (int k = A.offsets[i]; k < A.offsets[i + 1]; ++k) sum += A.values[k] * B.get(A.places[k], j);
                C.get(i, j) = al * sum + (be == 0 ? 0.0f : be * C.get(i, j));
            }
    }));
}
cusparseStatus_t cusparseSDDMM_bufferSize(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void*,
                                          cusparseConstDnMatDescr_t, cusparseConstDnMatDescr_t, const void*, cusparseSpMatDescr_t,
                                          cudaDataType, cusparseSDDMMAlg_t, size_t* bytes) {
    const auto hold = standin::alone();
    *bytes = 64;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSDDMM(cusparseHandle_t handle, cusparseOperation_t oa, cusparseOperation_t ob, const void* alpha,
                               cusparseConstDnMatDescr_t a, cusparseConstDnMatDescr_t b, const void* beta, cusparseSpMatDescr_t c,
                               cudaDataType, cusparseSDDMMAlg_t, void* buffer) {
    const auto hold = standin::alone();
    const bool turned = oa == CUSPARSE_OPERATION_TRANSPOSE;
    if (ob != CUSPARSE_OPERATION_NON_TRANSPOSE) return CUSPARSE_STATUS_NOT_SUPPORTED;
    if ((turned ? a->columns : a->rows) != c->rows || (turned ? a->rows : a->columns) != b->rows || b->columns != c->columns) {
        machine().faults.push_back("the sizes of a sparse product do not fit");
        return CUSPARSE_STATUS_INVALID_VALUE;
    }
    const float al = *static_cast<const float*>(alpha), be = *static_cast<const float*>(beta);
    return done(machine().put(handle->stream, [A = *a, B = *b, C = *c, al, be, buffer, turned] {
        auto& m = machine();
        ++m.sparse;
        if (!m.holds(buffer, 64)) return m.wrong("a sparse product has no buffer");
        if (!read(A) || !read(B) || !sound(C, be != 0)) return;
        for (std::int64_t i = 0; i < C.rows; ++i)
            for (int k = C.offsets[i]; k < C.offsets[i + 1]; ++k) {
                float sum = 0;
                for (std::int64_t q = 0; q < B.rows; ++q) sum += (turned ? A.get(q, i) : A.get(i, q)) * B.get(q, C.places[k]);
                C.values[k] = al * sum + (be == 0 ? 0.0f : be * C.values[k]);
            }
    }));
}

}  // extern "C"
