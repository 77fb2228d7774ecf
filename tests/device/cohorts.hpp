// SPDX-License-Identifier: BSD-3-Clause
// Small federations for the device's tests: pictures of 2 x 6 x 6 as bytes, nine clients of different sizes, and the four kinds of
// networks that the papers train, narrow.
#pragma once

#include <tessera/device/executor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <device/standin/standin.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/reflect.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/resnet_zoo.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/uniform.hpp>

namespace cohorts {

using namespace tessera;
using Net = nn::Network<float>;

inline constexpr std::size_t classes = 4, clients = 9, width = 72;
inline const nn::Shape picture(2, 6, 6);

// Client k has `least` + 4 k examples; of `pictures()`, with batches of 8, from one short batch to six.
inline data::FederatedDataset pictures_of(nn::Shape shape, std::size_t classes_of_them, std::size_t people, std::size_t least) {
    Stream draw(Key{11}(purpose::synthetic));
    std::vector<std::uint8_t> rows;
    std::vector<std::int32_t> labels;
    data::Split split;
    for (std::size_t k = 0; k < people; ++k) {
        data::Share share;
        share.key = 100 + k;
        for (std::size_t i = 0; i < least + 4 * k; ++i) {
            const std::size_t label =
                draw.uniform() < 0.6 ? k % classes_of_them : static_cast<std::size_t>(draw.below(classes_of_them));
            share.train.push_back(static_cast<Index>(labels.size()));
            labels.push_back(static_cast<std::int32_t>(label));
            for (std::size_t j = 0; j < shape.size(); ++j)
                rows.push_back(static_cast<std::uint8_t>(draw.below(128) + (j % classes_of_them == label ? 96 : 0)));
        }
        split.clients.push_back(std::move(share));
    }
    return data::FederatedDataset{
        data::Dataset::own(std::move(rows), std::move(labels), classes_of_them).normalised(96, 1 / 64.0f), std::move(split)};
}
inline const data::FederatedDataset& pictures() {
    static const data::FederatedDataset all = pictures_of(picture, classes, clients, 5);
    return all;
}

inline Net mclr() { return Net(picture, nn::recipe::mclr(classes)); }
inline Net dnn() { return Net(picture, nn::recipe::dnn(10, classes)); }
inline Net lenet() {  // LeNet5's list, with smaller windows
    return Net(picture, nn::chain(nn::Conv2d{.outputs = 3, .kernel = 3}, nn::Relu{}, nn::MaxPool2d{},
                                  nn::Conv2d{.outputs = 5, .kernel = 2}, nn::Relu{}, nn::Linear{7}, nn::Relu{},
                                  nn::Linear{classes}));
}
inline Net resnet() {  // ResNet-8's list: three residual blocks, the second and third at half the size
    return Net(picture, nn::recipe::ResNet{
                            .classes = classes, .blocks = {1, 1, 1, 0}, .width = 4, .norm = {.groups = {2, 2, 2, 2}}});
}

inline const Settings settings{.seed = 3, .batch = 8, .rounds = 5};
inline const sample::Uniform sampler{.count = 7};

// All numbers of a state, in the order of its declaration.
template <class T>
void numbers(const T& value, std::vector<float>& to) {
    if constexpr (std::is_same_v<T, Vec<float>>) to.insert(to.end(), value.begin(), value.end());
    else if constexpr (std::is_class_v<T> && Reflectable<T>)
        with_fields(value, [&](const auto&... field) { (numbers(field, to), ...); });
}
template <class Run>
std::vector<float> all_numbers(const Run& run) {
    std::vector<float> all;
    numbers(run.server(), all);
    for (Id k = 0; k < run.size(); ++k) numbers(run.client(k), all);
    return all;
}
// The largest difference; infinite where there are more of one than of the other, or one is not finite.
inline double apart(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return HUGE_VAL;
    double most = 0;
    for (std::size_t j = 0; j < a.size(); ++j) {
        const double d = std::fabs(static_cast<double>(a[j]) - static_cast<double>(b[j]));
        if (!std::isfinite(d)) return HUGE_VAL;
        most = std::max(most, d);
    }
    return most;
}

// What a run leaves: its numbers, its bits, and the reports of its rounds.
struct Left {
    std::vector<float> all;
    Fingerprint state;
    std::vector<RoundReport> reports;
    std::size_t products = 0, sparse_products = 0, sums = 0;  // on the device
};
template <class Me, class M, class E>
Left left_by(const M& net, const Me& method, const E& executor, std::size_t rounds = 5, const Settings& how = settings,
             const data::FederatedDataset& on = pictures(), const sample::Uniform& drawn = sampler) {
    Federation<Me, M> run(net, on, method, how);
    Left left;
    const std::size_t before = standin::products(), sparse = standin::sparse_products(), sums = standin::launches("mean_rows");
    run.run(rounds, drawn, executor, [&](const RoundReport& r) { left.reports.push_back(r); });
    left.all = all_numbers(run);
    left.state = run.fingerprint();
    left.products = standin::products() - before;
    left.sparse_products = standin::sparse_products() - sparse;
    left.sums = standin::launches("mean_rows") - sums;
    return left;
}

inline bool says(const Left& left, const std::string& words) {
    for (const auto& report : left.reports)
        for (const auto& remark : report.remarks)
            if (remark.find(words) != std::string::npos) return true;
    return false;
}
inline std::string said(const RoundReport& report) {
    std::string all;
    for (const auto& remark : report.remarks) all += remark + "; ";
    return all;
}
inline bool says_nothing(const Left& left) {
    return std::ranges::all_of(left.reports, [](const RoundReport& r) { return r.remarks.empty(); });
}

struct Fresh {
    Fresh() { standin::reset(); }
    ~Fresh() {
        for (const auto& f : standin::faults()) std::fprintf(stderr, "the stand-in: %s\n", f.c_str());
        standin::reset();
    }
};

}  // namespace cohorts
