// SPDX-License-Identifier: BSD-3-Clause
// Weights of one model, from other programs and for them: npz or safetensors, tensor by tensor by name.
//
//   const auto taken = io::read_weights<float>("resnet18.safetensors", net.layout(), first, {.new_head = true});
//   io::write_weights<float>("mine.safetensors", net.layout(), w, nn::weight_names::cifar_net);
//
// A segment is looked for under its own name and, by a list of other names (core/layout.hpp), under those of its
// published form; shapes are as in torch: [outputs][inputs], [outputs][channels][height][width]. Numbers of a segment
// that is not in the file stay what they were, where that is allowed; anything else that does not fit is an IoError
// with all that is missing and all that is left over. BatchNorm's `num_batches_tracked` says nothing that a segment
// holds and is passed over.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/io/model_file.hpp>
#include <tessera/io/tensor.hpp>

namespace tessera::io {

struct WeightSettings {
    std::string prefix{};              // of the tensors that are meant; all others are passed over
    std::span<const Renamed> names{};  // what else segments are called
    bool new_head = false;             // the head keeps its numbers where the file has another one, or none
    bool new_adapters = false;         // adapters that are not in the file keep theirs
    bool ignore_extra = false;         // tensors that no segment is called are no mistake
};

template <class R>
struct Weights {
    Vec<R> parameters;
    std::vector<std::string> kept{};   // segments that were not read
    std::vector<std::string> extra{};  // tensors that nobody wanted
};

namespace detail {

inline std::vector<std::size_t> shape_of(const Segment& s) {
    return {s.shape.begin(), s.shape.begin() + static_cast<std::ptrdiff_t>(s.rank)};
}

// Whether `name` is `whole` or begins with it and a dot.
constexpr bool within(std::string_view name, std::string_view whole) {
    return name.starts_with(whole) && (name.size() == whole.size() || name[whole.size()] == '.');
}
inline std::string called(const Segment& s, std::span<const Renamed> names) {
    const auto own = s.name.view();
    for (const auto& n : names)
        if (within(own, n.ours)) return std::string(n.theirs) + std::string(own.substr(n.ours.size()));
    return std::string(own);
}

inline std::string first_names(const std::vector<std::string>& all) {
    constexpr std::size_t most = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(all.size(), most); ++i) text += (i > 0 ? ", " : "") + in_quotes(all[i]);
    return all.size() > most ? text + " and " + std::to_string(all.size() - most) + " more" : text;
}

// Numbers of float or double as R; a NaN, an infinity and what R cannot hold are refused.
template <class From, class R>
void take_numbers(const std::string& path, const NamedTensor& tensor, std::span<R> out) {
    const auto numbers = tensor.as<From>();
    for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i] = static_cast<R>(numbers[i]); !std::isfinite(out[i]))
            throw IoError(path, "tensor " + in_quotes(tensor.name) + " holds a number that is not finite, at place " +
                                    std::to_string(i));
}

}  // namespace detail

// `first` are the numbers of what the file has not.
template <class R>
Weights<R> read_weights(const std::string& path, Layout layout, Vec<R> first, const WeightSettings& settings = {}) {
    if (first.size() != dimension(layout))
        throw ConfigError("io::read_weights: the first values are " + std::to_string(first.size()) +
                          " numbers, the layout has " + std::to_string(dimension(layout)));
    const auto tensors = read_tensors(path);
    std::map<std::string, const NamedTensor*, std::less<>> there;
    for (const auto& t : tensors)
        if (t.name.starts_with(settings.prefix)) there[t.name.substr(settings.prefix.size())] = &t;
    if (there.empty() && !layout.empty())
        throw IoError(path, "there is no tensor whose name begins with " + detail::in_quotes(settings.prefix));

    Weights<R> result{std::move(first)};
    std::vector<std::string> missing;
    const auto find = [&](const Segment& s) {
        const auto own = there.find(s.name.view());
        return own != there.end() ? own : there.find(detail::called(s, settings.names));
    };
    // A head of another width keeps all of its segments.
    const auto fits = [&](const Segment& s) {
        const auto at = find(s);
        return at != there.end() && at->second->shape == detail::shape_of(s);
    };
    bool other_head = false;
    for (const auto& s : layout) other_head = other_head || (s.part == Part::head && !fits(s));
    for (const auto& s : layout) {
        const std::string name(s.name.view());
        const auto at = find(s);
        const bool new_one = (s.part == Part::head && settings.new_head && other_head) ||
                             (s.part == Part::adapter && settings.new_adapters && at == there.end());
        if (new_one) {
            result.kept.push_back(name);
        } else if (at == there.end()) {
            missing.push_back(detail::called(s, settings.names));
            continue;
        } else {
            const NamedTensor& tensor = *at->second;
            if (const auto shape = detail::shape_of(s); tensor.shape != shape) {
                const bool turned = shape.size() == 2 && tensor.shape.size() == 2 && tensor.shape[0] == shape[1] &&
                                    tensor.shape[1] == shape[0];
                throw IoError(path, "tensor " + detail::in_quotes(tensor.name) + " has the shape " +
                                        detail::text_of(tensor.shape) + ", the model's is " + detail::text_of(shape) +
                                        (turned ? "; it is written [inputs][outputs], so turn it round" : "") +
                                        (s.part == Part::head ? "; is a new head wanted?" : ""));
            }
            const auto to = std::span<R>(result.parameters).subspan(s.offset, s.size());
            if (tensor.dtype == Dtype::float32) detail::take_numbers<float>(path, tensor, to);
            else if (tensor.dtype == Dtype::float64) detail::take_numbers<double>(path, tensor, to);
            else throw IoError(path, "tensor " + detail::in_quotes(tensor.name) + " holds whole numbers");
        }
        if (at != there.end()) there.erase(at);
    }
    for (const auto& [name, tensor] : there)
        if (!name.ends_with("num_batches_tracked")) result.extra.push_back(tensor->name);
    const bool leftover = !result.extra.empty() && !settings.ignore_extra;
    if (!missing.empty() || leftover)
        throw IoError(path, (missing.empty() ? std::string() : "the model needs " + detail::first_names(missing)) +
                                (!missing.empty() && leftover ? "; " : "") +
                                (leftover ? "the model has nothing called " + detail::first_names(result.extra) : ""));
    return result;
}

// All segments by the names given, or their own, as read_weights and torch read them.
template <class R>
void write_weights(const std::string& path, Layout layout, std::span<const R> parameters,
                   std::span<const Renamed> names = {}) {
    std::vector<NamedTensor> all;
    for (const auto& s : layout)
        all.push_back(NamedTensor::from<R>(detail::called(s, names), detail::shape_of(s),
                                           parameters.subspan(s.offset, s.size())));
    write_tensors(path, all);
}

}  // namespace tessera::io
