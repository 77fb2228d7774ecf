// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for a GPU, for tests: the entry points of the CUDA runtime, cuBLAS and cuSPARSE that the library uses, compiled
// against NVIDIA's own headers and linked instead of NVIDIA's libraries. It computes what their documentation says, on the
// processor, and is stricter than they are:
//
//   - device memory is out of reach (PROT_NONE) except while work runs, and filled with NaN at birth;
//   - work is lazy: it runs when its stream is synchronised, so what is read too early is not there;
//   - a copy to the host leaves NaN there until it has run, and one from the host sees to it that nobody changed the source;
//   - operands must lie in one allocation, must have been written, and an output may overlap nothing that is read;
//   - it runs out of memory, fails to launch and gets lost when it is told to.
//
// What it cannot show: speed, real concurrency, the bits of a GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace standin {

// A new device: all memory is gone, all handles are invalid, nothing is wrong and nothing is going to fail.
void reset();
// Of the whole device. Without a device the runtime says that there is no driver.
void present(bool yes);
void memory(std::size_t bytes);
// From now on the n-th of these fails, counted from 0: an allocation for want of memory (once, or from then on); a piece of
// work, for a bad launch; or the device is lost and answers nothing any more.
void fail_allocation(std::size_t n, bool for_good = false);
void fail_launch(std::size_t n);
void lose(std::size_t n);

// What was found wrong since the last reset, one sentence each.
const std::vector<std::string>& faults();
std::size_t in_use();       // bytes of device memory
std::size_t most_in_use();  // at any time
std::size_t work_done();    // pieces of work: kernels, products, copies
std::size_t products();     // of these, calls of cuBLAS
std::size_t sparse_products();
std::size_t launches(const std::string& kernel);  // of a kernel of the .cu

// Something that runs on a stream, and the device pointers that it is given, those of doubles once more. What it returns is a
// CUDA error.
int enqueue(void* stream, const char* name, std::vector<const void*> pointers, const std::vector<const void*>& doubles,
            std::function<void()> work);

// A kernel of the .cu, compiled as C++.
template <class Kernel, class... Arguments>
int launch(void* stream, const char* name, Kernel kernel, long long n, Arguments... arguments) {
    std::vector<const void*> pointers, doubles;
    const auto note = [&](auto a) {
        if constexpr (std::is_pointer_v<decltype(a)>) {
            if (!a) return;
            pointers.push_back(a);
            if constexpr (std::is_convertible_v<decltype(a), const double*>) doubles.push_back(a);
        } else if constexpr (requires { a.x, a.masks; }) {  // rows of a mean
            for (const void* p : a.x)
                if (p) pointers.push_back(p);
            for (const void* p : a.masks)
                if (p) pointers.push_back(p);
        }
    };
    (note(arguments), ...);
    return enqueue(stream, name, std::move(pointers), doubles, [=] { kernel(n, arguments...); });
}

}  // namespace standin
