// SPDX-License-Identifier: BSD-3-Clause
// The inside of the stand-in: memory, streams, and what goes wrong. Shared by its runtime, its BLAS and its sparse part.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

struct CUstream_st {
    std::deque<std::function<void()>> queue;
};

namespace standin {

struct Block {
    std::size_t asked = 0;  // bytes
    char* pages = nullptr;
    std::size_t length = 0;  // of the pages, with a guard page behind them
    bool doubles = false;    // a kernel has it as such: half of one may look like a float that nobody wrote
};

struct Countdown {
    bool on = false, for_good = false;
    std::size_t left = 0;

    bool now() {
        if (!on) return false;
        if (left > 0) {
            --left;
            return false;
        }
        on = for_good;
        return true;
    }
};

struct Machine {
    std::map<char*, Block> blocks;
    std::set<cudaStream_t> streams;
    std::map<const void*, std::shared_ptr<void>> handles;  // of cuBLAS and cuSPARSE; a reset frees what is left
    std::vector<std::string> faults;
    std::map<std::string, std::size_t> kernels;  // by name
    cudaError_t broken = cudaSuccess;  // sticky, as of a device
    bool present = true;
    std::size_t room = std::size_t{1} << 32, in_use = 0, most = 0, work = 0, products = 0, sparse = 0;
    Countdown allocation, launch, loss;

    // Whether all of these bytes are of one allocation.
    bool holds(const void* p, std::size_t bytes) const;
    bool touches(const void* p) const { return holds(p, 1); }
    Block* block_of(const void* p);
    void open(bool yes);
    // Wrong while work runs: everything from here on fails, as it does after a bad access on a device.
    void wrong(const std::string& what) {
        faults.push_back(what);
        if (broken == cudaSuccess) broken = cudaErrorIllegalAddress;
    }
    cudaError_t put(cudaStream_t stream, std::function<void()> work);
    cudaError_t run(cudaStream_t stream);
    cudaError_t alive();
};

Machine& machine();

// The entry points may be called from any threads, as NVIDIA's may. A name, so that it lives to the end of the block.
std::unique_lock<std::recursive_mutex> alone();

// Nobody wrote this number: memory is born so, and no arithmetic makes this NaN.
bool unwritten(const float* p);

}  // namespace standin
