// SPDX-License-Identifier: BSD-3-Clause
// Visits of a round on a GPU, where the lab was built with the component cuda (TESSERA_LAB_CUDA) and a device answers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <tessera/core/function_ref.hpp>

namespace lab {

class Device {
public:
    using Body = tessera::FunctionRef<void(std::size_t task, std::size_t worker)>;

    virtual ~Device() = default;
    virtual std::size_t concurrency() const = 0;
    virtual void for_each(std::size_t tasks, Body body) const = 0;
    virtual std::vector<std::string> remarks() const = 0;
    virtual bool lost() const = 0;
};

// Null if the lab was built without.
std::unique_ptr<Device> open_device(std::size_t threads);

}  // namespace lab
