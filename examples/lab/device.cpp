// SPDX-License-Identifier: BSD-3-Clause
#include "device.hpp"

#ifdef TESSERA_HAS_CUDA
#include <tessera/device/executor.hpp>
#endif

namespace lab {

#ifdef TESSERA_HAS_CUDA
namespace {

class Cuda final : public Device {
public:
    explicit Cuda(std::size_t threads) : on_{.threads = threads} {}
    std::size_t concurrency() const override { return on_.concurrency(); }
    void for_each(std::size_t tasks, Body body) const override { on_.for_each(tasks, body); }
    std::vector<std::string> remarks() const override { return on_.remarks(); }
    bool lost() const override { return on_.session->device()->lost; }

private:
    tessera::exec::Device on_;
};

}  // namespace

std::unique_ptr<Device> open_device(std::size_t threads) { return std::make_unique<Cuda>(threads); }
#else
std::unique_ptr<Device> open_device(std::size_t) { return nullptr; }
#endif

}  // namespace lab
