// SPDX-License-Identifier: BSD-3-Clause
// Models in files other programs read: npz or safetensors, one tensor per segment of the layout, named as
// the layout names it. Several models share a file under prefixes ("global/", "client/12/").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/io/npz.hpp>
#include <tessera/io/safetensors.hpp>
#include <tessera/io/tensor.hpp>

namespace tessera::io {

template <class R>
void append_tensors(std::vector<NamedTensor>& out, Layout layout, std::span<const R> parameters,
                    const std::string& prefix = {}) {
    for (const auto& s : layout)
        out.push_back(NamedTensor::from<R>(prefix + std::string(s.name.view()),
                                           {s.shape.begin(), s.shape.begin() + static_cast<std::ptrdiff_t>(s.rank)},
                                           parameters.subspan(s.offset, s.size())));
}

// The file's kind is its ending.
inline void write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
    if (path.ends_with(".npz")) write_npz(path, tensors);
    else if (path.ends_with(".safetensors")) write_safetensors(path, tensors);
    else throw IoError(path, "a file of models ends in .npz or .safetensors");
}
inline std::vector<NamedTensor> read_tensors(const std::string& path) {
    if (path.ends_with(".npz")) return read_npz(path);
    if (path.ends_with(".safetensors")) return read_safetensors(path).tensors;
    throw IoError(path, "a file of models ends in .npz or .safetensors");
}

// The flat parameters of the model under `prefix`; every segment must be there, with its shape.
template <class R>
Vec<R> read_parameters(const std::string& path, Layout layout, const std::string& prefix = {}) {
    const auto tensors = read_tensors(path);
    Vec<R> parameters(dimension(layout));
    for (const auto& s : layout) {
        const std::string name = prefix + std::string(s.name.view());
        const NamedTensor* found = nullptr;
        for (const auto& t : tensors)
            if (t.name == name) found = &t;
        if (!found) throw IoError(path, "there is no tensor '" + name + "', which the model needs");
        const std::vector<std::size_t> shape(s.shape.begin(), s.shape.begin() + static_cast<std::ptrdiff_t>(s.rank));
        if (found->shape != shape) throw IoError(path, "tensor '" + name + "' does not have the model's shape");
        found->copy_to(std::span<R>(parameters).subspan(s.offset, s.size()));
    }
    return parameters;
}

}  // namespace tessera::io
