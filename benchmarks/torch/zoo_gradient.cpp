// SPDX-License-Identifier: BSD-3-Clause
// Logits and the gradient of one network of the image zoo at weights from a file, by name: what zoo.py holds against
// torch.
//
//   zoo_gradient NET INPUT WEIGHTS LOGITS GRADIENT AGAIN     all but the first are .safetensors; the last three are
//   written
#include <tessera/data/dataset.hpp>
#include <tessera/io/safetensors.hpp>
#include <tessera/io/weights.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/resnet_zoo.hpp>
#include <tessera/nn/vit_zoo.hpp>
#include <tessera/nn/weight_names.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace tessera;
namespace names = nn::weight_names;
using nn::recipe::Beside3x3;

struct Zoo {
    nn::Network<float> net;
    std::span<const Renamed> names{};
};

Zoo made(const std::string& name, nn::Shape in, std::size_t classes) {
    const auto net = [&](const auto& layers) { return nn::Network<float>(in, layers); };
    const auto with = [&](Beside3x3 kind) {
        auto resnet = nn::recipe::resnet18(classes);
        resnet.adapters.kind = kind;
        return net(resnet);
    };
    auto perada = nn::recipe::perada_resnet18(classes);
    perada.adapters.dropout = 0;  // torch draws other numbers
    if (name == "resnet8") return {net(nn::recipe::resnet8(classes))};
    if (name == "resnet18") return {net(nn::recipe::resnet18(classes))};
    if (name == "resnet34") return {net(nn::recipe::resnet34(classes))};
    if (name == "flow-resnet18") return {net(nn::recipe::flow_resnet18(classes))};
    if (name == "fedalt-resnet18") return {net(nn::recipe::fedalt_resnet18(classes))};
    if (name == "perada-resnet18") return {net(perada)};
    if (name == "resnet18-parallel") return {with(Beside3x3::parallel)};
    if (name == "resnet18-bottleneck") return {with(Beside3x3::bottleneck)};
    if (name == "vgg11") return {net(nn::recipe::vgg11(classes)), names::vgg11};
    if (name == "lenet5") return {net(nn::recipe::lenet5(classes)), names::lenet5};
    if (name == "cnn") return {net(nn::recipe::small_cnn(classes)), names::small_cnn};
    if (name == "cifarnet") return {net(nn::recipe::cifar_net(classes)), names::cifar_net};
    if (name == "cifar-cnn") return {net(nn::recipe::cifar_cnn(classes)), names::cifar_cnn};
    if (name == "small-vit") return {net(nn::recipe::small_vit(classes))};
    if (name == "vit-s16") return {net(nn::recipe::vit_s16(classes))};
    throw ConfigError(name + ": there is no such network here");
}

const io::NamedTensor& tensor(const std::vector<io::NamedTensor>& all, const char* name) {
    for (const auto& t : all)
        if (t.name == name) return t;
    throw ConfigError(std::string("the input has no tensor ") + name);
}

void run(char** argv) {
    const auto input = io::read_safetensors(argv[2]).tensors;
    const auto shape = tensor(input, "shape").as<std::int64_t>();
    const auto classes = static_cast<std::size_t>(tensor(input, "classes").as<std::int64_t>().at(0));
    const auto size = [&](std::size_t k) { return static_cast<std::size_t>(shape.at(k)); };
    const Zoo zoo = made(argv[1], nn::Shape(size(0), size(1), size(2)), classes);
    const Layout layout = zoo.net.layout();

    const auto x = tensor(input, "x").as<float>();
    std::vector<std::int32_t> labels(x.size() / zoo.net.input_width());
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % classes);
    std::vector<Index> ids(labels.size());
    std::iota(ids.begin(), ids.end(), Index{0});
    const auto pool = data::Dataset::own(x, labels, classes);
    const Key draws(1);  // with keys for draws it is a training batch, so that batch norms take its statistics
    const Batch<float> quiet(pool.examples(), ids), training(pool.examples(), ids, {}, &draws);

    const auto w =
        io::read_weights<float>(argv[3], layout, Vec<float>(dimension(layout)), {.names = zoo.names}).parameters;
    Vec<float> z(ids.size() * zoo.net.outputs()), g(w.size());
    zoo.net.logits(w, quiet, z);
    zoo.net.gradient(w, training, g);
    io::write_safetensors(argv[4], {{io::NamedTensor::from<float>("logits", {ids.size(), zoo.net.outputs()}, z)}});
    io::write_weights<float>(argv[5], layout, g, zoo.names);
    io::write_weights<float>(argv[6], layout, w, zoo.names);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 7) return std::fputs("zoo_gradient NET INPUT WEIGHTS LOGITS GRADIENT AGAIN\n", stderr), 2;
    try {
        run(argv);
    } catch (const std::exception& e) {
        return std::fprintf(stderr, "zoo_gradient: %s\n", e.what()), 1;
    }
}
