// SPDX-License-Identifier: BSD-3-Clause
// The CUDA runtime of the stand-in.
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstdint>
#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "machine.hpp"
#include "standin.hpp"

namespace standin {

namespace {
constexpr std::size_t page = 4096, aligned = 256, large = std::size_t{32} << 20;
std::size_t rounded(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }
constexpr unsigned char canary = 0xA5;

// What lies between the end of an allocation and the next multiple of 256 must stay as it was; behind that is a guard page.
bool intact(char* at, const Block& b) {
    for (std::size_t j = b.asked; j < rounded(b.asked, aligned); ++j)
        if (static_cast<unsigned char>(at[j]) != canary) return false;
    return true;
}
std::uint64_t sum_of(const void* p, std::size_t bytes) {
    std::uint64_t h = 1469598103934665603u;
    const auto* at = static_cast<const unsigned char*>(p);
    for (std::size_t j = 0; j < bytes; ++j) h = (h ^ at[j]) * 1099511628211u;
    return h;
}
}  // namespace

Machine& machine() {
    static Machine one;
    return one;
}

std::unique_lock<std::recursive_mutex> alone() {
    static std::recursive_mutex lock;
    return std::unique_lock(lock);
}

bool unwritten(const float* p) {
    std::uint32_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return bits == 0xFFFFFFFFu;
}

bool Machine::holds(const void* p, std::size_t bytes) const {
    auto* const at = const_cast<char*>(static_cast<const char*>(p));
    auto next = blocks.upper_bound(at);
    if (next == blocks.begin()) return false;
    --next;
    return at + bytes <= next->first + next->second.asked;
}
Block* Machine::block_of(const void* p) {
    if (!touches(p)) return nullptr;
    return &std::prev(blocks.upper_bound(const_cast<char*>(static_cast<const char*>(p))))->second;
}
void Machine::open(bool yes) {
    for (const auto& [at, b] : blocks) mprotect(b.pages, b.length - page, yes ? PROT_READ | PROT_WRITE : PROT_NONE);
}
cudaError_t Machine::alive() {
    if (!present) return cudaErrorInsufficientDriver;
    return broken;
}
cudaError_t Machine::put(cudaStream_t stream, std::function<void()> job) {
    if (const auto e = alive()) return e;
    if (!streams.contains(stream)) {
        faults.push_back("work on a stream that does not exist");
        return cudaErrorInvalidResourceHandle;
    }
    if (launch.now()) return broken = cudaErrorLaunchFailure;
    if (loss.now()) return broken = cudaErrorDevicesUnavailable;
    stream->queue.push_back(std::move(job));
    return cudaSuccess;
}
cudaError_t Machine::run(cudaStream_t stream) {
    if (const auto e = alive()) return e;
    if (!streams.contains(stream)) return cudaErrorInvalidResourceHandle;
    open(true);
    while (!stream->queue.empty() && broken == cudaSuccess) {
        const auto job = std::move(stream->queue.front());
        stream->queue.pop_front();
        ++work;
        job();
    }
    for (const auto& [at, b] : blocks)
        if (!intact(at, b)) wrong("something wrote behind the end of an allocation of " + std::to_string(b.asked) + " bytes");
    open(false);
    stream->queue.clear();
    return broken;
}

void reset() {
    Machine& m = machine();
    for (const auto& [at, b] : m.blocks) munmap(b.pages, b.length);
    for (cudaStream_t s : m.streams) delete s;
    m = Machine{};
}
void present(bool yes) { machine().present = yes; }
void memory(std::size_t bytes) { machine().room = bytes; }
void fail_allocation(std::size_t n, bool for_good) { machine().allocation = {true, for_good, n}; }
void fail_launch(std::size_t n) { machine().launch = {true, false, n}; }
void lose(std::size_t n) { machine().loss = {true, false, n}; }
const std::vector<std::string>& faults() { return machine().faults; }
std::size_t in_use() { return machine().in_use; }
std::size_t most_in_use() { return machine().most; }
std::size_t work_done() { return machine().work; }
std::size_t products() { return machine().products; }
std::size_t sparse_products() { return machine().sparse; }

std::size_t launches(const std::string& kernel) { return machine().kernels[kernel]; }

int enqueue(void* stream, const char* name, std::vector<const void*> pointers, const std::vector<const void*>& doubles,
            std::function<void()> work) {
    const auto hold = alone();
    ++machine().kernels[name];
    for (const void* p : doubles)
        if (Block* const b = machine().block_of(p)) b->doubles = true;
    return machine().put(static_cast<cudaStream_t>(stream), [=, pointers = std::move(pointers)] {
        for (const void* p : pointers)
            if (!machine().touches(p)) return machine().wrong(std::string(name) + " was given a pointer that is not the device's");
        work();
    });
}

}  // namespace standin

using standin::machine;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    const auto hold = standin::alone();
    *count = machine().present ? 1 : 0;
    return machine().alive();
}
cudaError_t cudaGetLastError() {
    const auto hold = standin::alone();
    return machine().broken;
}
const char* cudaGetErrorString(cudaError_t e) {
    const auto hold = standin::alone();
    switch (e) {
        case cudaSuccess: return "no error";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorLaunchFailure: return "unspecified launch failure";
        case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
        case cudaErrorDevicesUnavailable: return "CUDA-capable device(s) is/are busy or unavailable";
        case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
        default: return "an error of the stand-in";
    }
}
cudaError_t cudaMalloc(void** p, size_t bytes) {
    const auto hold = standin::alone();
    auto& m = machine();
    *p = nullptr;
    if (const auto e = m.alive()) return e;
    if (bytes == 0) return cudaSuccess;
    if (m.allocation.now() || m.in_use + bytes > m.room) return cudaErrorMemoryAllocation;
    // The end lies at the end of a page, so that the next byte is out of bounds for the processor, too.
    const std::size_t body = standin::rounded(bytes, standin::aligned), length = standin::rounded(body, standin::page) + standin::page;
    void* const pages = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return cudaErrorMemoryAllocation;
    char* const begin = static_cast<char*>(pages);
    mprotect(begin, length - standin::page, PROT_READ | PROT_WRITE);
    char* const at = begin + (length - standin::page) - body;
    // As large as the workspace of cuBLAS, which nobody here reads: filling that took most of the time of the tests.
    std::memset(at, 0xFF, bytes < standin::large ? bytes : 0);
    std::memset(at + bytes, standin::canary, body - bytes);
    mprotect(begin, length - standin::page, PROT_NONE);
    m.blocks[at] = {bytes, begin, length};
    m.in_use += bytes;
    m.most = std::max(m.most, m.in_use);
    *p = at;
    return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
    const auto hold = standin::alone();
    auto& m = machine();
    if (!p) return cudaSuccess;
    const auto it = m.blocks.find(static_cast<char*>(p));
    if (it == m.blocks.end()) return cudaErrorInvalidValue;
    for (cudaStream_t s : m.streams) m.run(s);  // freeing waits for the device
    munmap(it->second.pages, it->second.length);
    m.in_use -= it->second.asked;
    m.blocks.erase(it);
    return m.broken;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    const auto hold = standin::alone();
    auto& m = machine();
    if (bytes == 0) return m.alive();
    const bool up = kind == cudaMemcpyHostToDevice, down = kind == cudaMemcpyDeviceToHost;
    if (!up && !down && kind != cudaMemcpyDeviceToDevice) return cudaErrorInvalidMemcpyDirection;
    if (const auto e = m.alive()) return e;
    if ((up && m.touches(from)) || (down && m.touches(to))) {
        m.faults.push_back("a copy says that one end is the host's, and it is the device's");
        return cudaErrorInvalidValue;
    }
    if (up) {
        const std::uint64_t before = standin::sum_of(from, bytes);
        return m.put(stream, [=, &m] {
            if (!m.holds(to, bytes)) return m.wrong("a copy to the device goes beyond an allocation");
            if (standin::sum_of(from, bytes) != before)
                return m.wrong("the host changed numbers before their copy to the device had run");
            std::memcpy(to, from, bytes);
        });
    }
    if (down) {
        std::memset(to, 0xFF, bytes);  // not there yet
        return m.put(stream, [=, &m] {
            if (!m.holds(from, bytes)) return m.wrong("a copy from the device goes beyond an allocation");
            const std::size_t each = m.block_of(from)->doubles ? 8 : 4;
            for (std::size_t j = 0; j + each <= bytes; j += each) {
                const auto* const at = reinterpret_cast<const float*>(static_cast<const char*>(from) + j);
                if (!standin::unwritten(at) || !standin::unwritten(at + each / 4 - 1)) continue;
                return m.wrong("a copy from the device reads numbers that nobody wrote");
            }
            std::memcpy(to, from, bytes);
        });
    }
    return m.put(stream, [=, &m] {
        if (!m.holds(from, bytes) || !m.holds(to, bytes)) return m.wrong("a copy on the device goes beyond an allocation");
        const auto *a = static_cast<const char*>(from), *b = static_cast<const char*>(to);
        if (a < b + bytes && b < a + bytes) return m.wrong("a copy on the device overlaps itself");
        std::memcpy(to, from, bytes);
    });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    const auto hold = standin::alone();
    auto& m = machine();
    return m.put(stream, [=, &m] {
        if (!m.holds(to, bytes)) return m.wrong("a fill goes beyond an allocation");
        std::memset(to, value, bytes);
    });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    const auto hold = standin::alone();
    auto& m = machine();
    if (const auto e = m.alive()) return e;
    m.streams.insert(*stream = new CUstream_st);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const auto hold = standin::alone();
    auto& m = machine();
    if (m.streams.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
    delete stream;
    return m.broken;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const auto hold = standin::alone();
    return machine().run(stream);
}

}  // extern "C"
