// SPDX-License-Identifier: BSD-3-Clause
// Networks of the image zoo against torch 2.15 with the same weights, in double, at small widths: loss, logits, and the
// gradient along four waves over all of its numbers, to which running statistics contribute their steps. The numbers
// are those that benchmarks/torch/zoo.py --vectors prints, which holds the networks in full size, too.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/data/dataset.hpp>
#include <tessera/io/weights.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/resnet_zoo.hpp>
#include <tessera/nn/vit_zoo.hpp>
#include <tessera/nn/weight_names.hpp>

#include <support/folder.hpp>

namespace zoo_vectors_test {

namespace {

using namespace tessera;
using nn::recipe::Beside3x3, nn::recipe::ResNet;

const std::map<std::string, std::vector<double>> torchs{
    {"group",
     {1.110426031, -0.1479423234, 0.2019612115, 0.2152670048, -0.2478177693, 0.2201033637, 0.3337047397, -0.1689122323,
      0.1912880846, 0.2253240759, 0.3725877367, 0.8254907028, 3.076107082, 0.5294058371}},
    {"flow",
     {1.184689072, -0.06800350856, 0.03001553581, -0.04054791127, 0.1118820737, 0.04793806247, -0.2021187745,
      0.2221150471, 0.1770079125, -0.1802201437, 51.09337806, -22.16282437, -44.74712039, -23.40030832}},
    {"batch",
     {1.017180082, 0.2926271431, 0.2816029304, -0.14378573, 0.7874483274, 0.2963388263, -0.6234558499, -0.1038551835,
      0.4008128908, 0.3747849022, 23.12232745, 10.72197055, 15.78352177, 78.80015233}},
    {"parallel",
     {1.123560336, 0.01183657122, 0.1589469156, 0.01151390278, 0.05332146272, 0.356989006, 0.1726697928, 0.2548236496,
      0.5231160944, 0.1412037934, -38.10040106, -0.1542516536, -2.945895224, 9.31322753}},
    {"bottleneck",
     {1.148599919, 0.3483144905, 0.3200620448, -0.1600568346, 0.2809362822, 0.3549049289, -0.05703702273, 0.5018484848,
      0.5270836333, -0.1017277167, 8.128216393, -0.7082538778, 0.5122062405, 4.446161963}},
    {"vgg11",
     {1.712810914, 1.402292787, 0.04108260184, -1.530803363, 1.494006085, 0.1363254933, -1.713253068, 1.365241813,
      0.1401534072, -1.588130629, 23.70262491, 27.32804734, 26.34881179, 41.12279141}},
    {"cifarnet",
     {1.248373735, 0.6819637885, -0.09419836806, -0.6553504346, 0.6819626643, -0.09420684402, -0.655346975,
      0.6819002381, -0.09416193911, -0.6552974619, 0.4607772261, 0.5099628952, 0.0112713878, -0.6206521734}},
    {"vit",
     {1.59893428, -0.03386866048, 1.199166974, -1.576939677, 0.02435407811, 1.106697952, -1.503083572, 0.01828945397,
      1.091079672, -1.474709821, 34.68850619, -18.76776367, 0.4337066776, 3.147405519}}};

constexpr std::size_t examples = 3;

double number(const std::string& name, std::size_t i, const std::vector<std::size_t>& shape) {
    std::size_t at = 0;
    for (std::size_t k = 0; k < name.size(); ++k) at += (k + 1) * static_cast<unsigned char>(name[k]);
    const double wave = std::sin(1.7 * static_cast<double>(i) + static_cast<double>(at % 97));
    double each = 1;
    for (std::size_t k = 1; k < shape.size(); ++k) each *= static_cast<double>(shape[k]);
    const double v = name.ends_with("running_var") ? 1 + 0.5 * wave * wave
                     : shape.size() > 1            ? wave * 1.2 / std::sqrt(each)
                     : name.ends_with("weight")    ? 1 + 0.3 * wave
                                                   : 0.2 * wave;
    return std::nearbyint(v * 1e4) / 1e4;
}

// Loss, logits and the gradient along waves. `tilt` moves one weight: what must then differ.
std::vector<double> numbers_of(nn::Shape in, const auto& layers, std::span<const Renamed> names = {}, double tilt = 0) {
    const nn::Network<double> net(in, layers);
    const Layout layout = net.layout();
    // By the names that torch has for them, through a file.
    const support::Folder folder;
    const std::string file = folder / "zero.npz";
    io::write_weights<double>(file, layout, Vec<double>(dimension(net)), names);
    const auto called = io::read_tensors(file);
    Vec<double> w(dimension(net)), g(w.size()), z(examples * net.outputs());
    for (std::size_t s = 0; s < layout.size(); ++s)
        for (std::size_t i = 0; i < layout[s].size(); ++i)
            w[layout[s].offset + i] = number(called[s].name, i, called[s].shape);
    w[1] += tilt;
    std::vector<double> x(examples * in.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = std::nearbyint(1e4 * std::sin(0.37 * static_cast<double>(i) + 0.5)) / 1e4;
    const auto pool = data::Dataset::own(x, std::vector<std::int32_t>{0, 1, 2}, 3);
    const std::vector<Index> ids{0, 1, 2};
    const Key draws(1);  // with keys for draws it is a training batch, so that batch norms take its statistics
    const Batch<double> batch(pool.examples(), ids, {}, &draws);
    std::vector<double> all{net.gradient(w, batch, g)};
    net.logits(w, batch, z);
    all.insert(all.end(), z.begin(), z.end());
    for (int f = 0; f < 4; ++f) {
        double along = 0;
        for (std::size_t s = 0; s < layout.size(); ++s) {
            std::size_t letters = 0;
            for (const char c : called[s].name) letters += static_cast<unsigned char>(c);
            for (std::size_t i = 0; i < layout[s].size(); ++i)
                along += g[layout[s].offset + i] * std::cos(0.9 * (f + 1) * static_cast<double>(i) + f) *
                         (1 + 0.1 * static_cast<double>(letters % 7));
        }
        all.push_back(along);
    }
    return all;
}

// The largest miss, relative to numbers above 1.
double off(const std::string& name, const std::vector<double>& ours) {
    const auto& theirs = torchs.at(name);
    REQUIRE(ours.size() == theirs.size());
    double most = 0;
    for (std::size_t i = 0; i < ours.size(); ++i)
        most = std::max(most, std::abs(ours[i] - theirs[i]) / std::max(1.0, std::abs(theirs[i])));
    return most;
}

ResNet small(std::size_t second, std::size_t groups, Beside3x3 kind = Beside3x3::nothing) {
    ResNet net{.classes = 3, .blocks = {1, second, 0, 0}, .width = 4};
    net.norm.groups = {groups, groups, groups, groups};
    net.adapters = {.kind = kind, .rank = 2};
    return net;
}

}  // namespace

TEST_CASE("the image zoo is torch's, with the same weights") {
    constexpr double tolerance = 1e-8;  // they are printed to ten digits
    CHECK(off("group", numbers_of(nn::Shape(3, 8, 8), small(2, 2))) < tolerance);
    CHECK(off("parallel", numbers_of(nn::Shape(3, 8, 8), small(1, 2, Beside3x3::parallel))) < tolerance);
    CHECK(off("bottleneck", numbers_of(nn::Shape(3, 8, 8), small(1, 2, Beside3x3::bottleneck))) < tolerance);
    ResNet flow = small(1, 2), batch = small(1, 2, Beside3x3::serial);
    flow.stem = batch.stem = nn::recipe::Stem::imagenet;
    flow.norm = {.each = 2, .affine = nn::Affine::group};
    batch.norm.batch = true;
    CHECK(off("flow", numbers_of(nn::Shape(3, 16, 16), flow)) < tolerance);
    CHECK(off("batch", numbers_of(nn::Shape(3, 16, 16), batch)) < tolerance);
    CHECK(off("vgg11", numbers_of(nn::Shape(3, 32, 32), nn::recipe::vgg11(3, 2, 2), nn::weight_names::vgg11)) <
          tolerance);
    CHECK(off("cifarnet", numbers_of(nn::Shape(3, 32, 32), nn::recipe::cifar_net(3), nn::weight_names::cifar_net)) <
          tolerance);
    const nn::recipe::Vit vit{.classes = 3, .patch = 4, .width = 6, .blocks = 2, .heads = 2, .inner = 5};
    CHECK(off("vit", numbers_of(nn::Shape(3, 8, 8), vit)) < tolerance);
    // A weight that is off by a thousandth is seen.
    CHECK(off("group", numbers_of(nn::Shape(3, 8, 8), small(2, 2), {}, 1e-3)) > 1e3 * tolerance);
}

}  // namespace zoo_vectors_test
