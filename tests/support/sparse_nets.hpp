// SPDX-License-Identifier: BSD-3-Clause
// The networks of FedSpa's tables as layouts: shapes, and at how many places of the output a weight is used.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include <tessera/core/layout.hpp>

namespace tessera::support {

struct NetShape {
    std::vector<Segment> layout;
    std::vector<std::size_t> places;  // H_out * W_out of a convolution, 1 of a linear layer, 0 of a norm

    void tensor(const std::string& name, Part part, std::initializer_list<std::size_t> shape, std::size_t uses) {
        Segment s{.name = Name(name), .part = part, .offset = dimension(layout)};
        s.rank = 0;
        for (const std::size_t n : shape) s.shape[s.rank++] = n;
        layout.push_back(s);
        places.push_back(uses);
    }
    void conv(const std::string& name, std::size_t in, std::size_t out, std::size_t k, std::size_t side, bool bias) {
        tensor(name + ".weight", Part::body, {out, in, k, k}, side * side);
        if (bias) tensor(name + ".bias", Part::body, {out}, side * side);
    }
    void norm(const std::string& name, std::size_t channels) {
        tensor(name + ".weight", Part::norm, {channels}, 0);
        tensor(name + ".bias", Part::norm, {channels}, 0);
    }
    void linear(const std::string& name, std::size_t in, std::size_t out) {
        tensor(name + ".weight", Part::body, {out, in}, 1);
        tensor(name + ".bias", Part::body, {out}, 1);
    }
    const Segment& at(const std::string& name) const {
        for (const auto& s : layout)
            if (s.name == Name(name)) return s;
        return layout.at(layout.size());
    }
};

inline NetShape dnn_784_100_10() {
    NetShape net;
    net.linear("fc1", 784, 100);
    net.linear("fc2", 100, 10);
    return net;
}

inline NetShape lenet5(std::size_t classes) {
    NetShape net;
    net.conv("conv1", 1, 20, 5, 24, true);
    net.conv("conv2", 20, 50, 5, 8, true);
    net.linear("fc3", 800, 500);
    net.linear("fc4", 500, classes);
    return net;
}

inline NetShape vgg11_gn(std::size_t classes) {
    NetShape net;
    struct Conv {
        std::size_t in, out, side;
    };
    std::size_t number = 1;
    for (const auto& [in, out, side] : {Conv{3, 64, 32}, Conv{64, 128, 16}, Conv{128, 256, 8}, Conv{256, 256, 8},
                                        Conv{256, 512, 4}, Conv{512, 512, 4}, Conv{512, 512, 2}, Conv{512, 512, 2}}) {
        net.conv("conv" + std::to_string(number), in, out, 3, side, true);
        net.norm("norm" + std::to_string(number++), out);
    }
    net.linear("fc", 512, classes);
    return net;
}

// CIFAR's: a 3x3 stem without pooling; convolutions without bias. Names are stage.block.convN, from 1.
inline NetShape resnet18_gn(std::size_t classes) {
    NetShape net;
    net.conv("stem", 3, 64, 3, 32, false);
    net.norm("stem.norm", 64);
    std::size_t in = 64, side = 32;
    for (std::size_t stage = 1; stage <= 4; ++stage) {
        const std::size_t out = std::size_t{64} << (stage - 1);
        if (stage > 1) side /= 2;
        for (std::size_t block = 1; block <= 2; ++block) {
            const std::string name = std::to_string(stage) + "." + std::to_string(block);
            net.conv(name + ".conv1", in, out, 3, side, false);
            net.norm(name + ".norm1", out);
            net.conv(name + ".conv2", out, out, 3, side, false);
            net.norm(name + ".norm2", out);
            if (in != out) {
                net.conv(name + ".short", in, out, 1, side, false);
                net.norm(name + ".norm3", out);
            }
            in = out;
        }
    }
    net.linear("fc", 512, classes);
    return net;
}

}  // namespace tessera::support
