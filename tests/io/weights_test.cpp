// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/weights.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/io/safetensors.hpp>

#include <support/folder.hpp>

namespace weights_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using doctest::Contains;
using Tensors = std::vector<NamedTensor>;

// A convolution, a norm with statistics, an adapter and a head of two classes.
const std::array<Segment, 7> layout{{
    {.name = "0.weight", .part = Part::input, .offset = 0, .shape = {2, 1, 2, 2}, .rank = 4},
    {.name = "1.weight", .part = Part::norm, .offset = 8, .shape = {2, 1, 1, 1}},
    {.name = "1.running_mean", .part = Part::buffer, .offset = 10, .shape = {2, 1, 1, 1}},
    {.name = "10.weight", .part = Part::body, .offset = 12, .shape = {3, 2, 1, 1}, .rank = 2},
    {.name = "2.adapter", .part = Part::adapter, .offset = 18, .shape = {2, 1, 1, 1}},
    {.name = "3.weight", .part = Part::head, .offset = 20, .shape = {2, 3, 1, 1}, .rank = 2},
    {.name = "3.bias", .part = Part::head, .offset = 26, .shape = {2, 1, 1, 1}},
}};
constexpr std::size_t size = 28;
constexpr auto names = std::to_array<Renamed>({{"0", "conv1"}, {"1", "bn1"}, {"10", "fc1"}, {"3", "fc2"}});

Vec<float> counted(float from = 0) {
    Vec<float> w(size);
    std::iota(w.begin(), w.end(), from);
    return w;
}

NamedTensor tensor(const std::string& name, std::vector<std::size_t> shape, float from = 100) {
    std::size_t n = 1;
    for (const auto extent : shape) n *= extent;
    std::vector<float> numbers(n);
    std::iota(numbers.begin(), numbers.end(), from);
    return NamedTensor::from<float>(name, std::move(shape), numbers);
}
Tensors published() {
    return {tensor("conv1.weight", {2, 1, 2, 2}),
            tensor("bn1.weight", {2}),
            tensor("bn1.running_mean", {2}),
            tensor("fc1.weight", {3, 2}),
            tensor("2.adapter", {2}),
            tensor("fc2.weight", {2, 3}),
            tensor("fc2.bias", {2}),
            NamedTensor::from<std::int64_t>("bn1.num_batches_tracked", {}, std::vector<std::int64_t>{7})};
}
void without(Tensors& all, const std::string& name) {
    std::erase_if(all, [&](const NamedTensor& t) { return t.name == name; });
}
void instead(Tensors& all, NamedTensor t) {
    without(all, t.name);
    all.push_back(std::move(t));
}

Weights<float> taken(const Tensors& all, WeightSettings settings = {.names = names}) {
    const support::Folder folder;
    write_tensors(folder / "w.safetensors", all);
    return read_weights<float>(folder / "w.safetensors", layout, counted(), settings);
}
void refused(const Tensors& all, const char* sentence, WeightSettings settings = {.names = names}) {
    CHECK_THROWS_WITH_AS(taken(all, settings), Contains(sentence), IoError);
}

}  // namespace

TEST_CASE("names of another program and our own are read; what is written is read again") {
    const auto read = taken(published());
    CHECK(read.kept.empty());
    CHECK(read.extra.empty());
    CHECK(read.parameters[0] == 100);
    CHECK(read.parameters[7] == 107);
    CHECK(read.parameters[13] == 101);  // "10" is not what "1" is called
    CHECK(read.parameters[27] == 101);
    const support::Folder folder;
    for (const char* file : {"a.npz", "a.safetensors"}) {
        write_weights<float>(folder / file, layout, counted(5), names);
        CHECK(read_tensors(folder / file)[3].name == "fc1.weight");
        CHECK(read_weights<float>(folder / file, layout, counted(), {.names = names}).parameters == counted(5));
        CHECK_THROWS_AS(read_weights<float>(folder / file, layout, counted()), IoError);  // without the names
        write_weights<float>(folder / file, layout, counted(6));
        CHECK(read_weights<float>(folder / file, layout, counted(), {.names = names}).parameters == counted(6));
    }
    // Double numbers, a prefix, and others beside it.
    Tensors all{NamedTensor::from<double>("net.0.weight", {2, 1, 2, 2}, std::vector<double>(8, 0.5))};
    for (auto t : published())
        if (t.name != "conv1.weight") t.name = "net." + t.name, all.push_back(t);
    all.push_back(tensor("other.thing", {4}));
    CHECK(taken(all, {.prefix = "net.", .names = names}).parameters[3] == 0.5f);
    CHECK(taken(all, {.prefix = "net.", .names = names}).parameters[20] == 100);
    refused(all, "'net.fc2.weight', 'other.thing'");
    refused(all, "no tensor whose name begins with 'model.'", {.prefix = "model.", .names = names});
}

TEST_CASE("what is missing, left over or of another shape is a sentence that names it") {
    auto all = published();
    without(all, "bn1.weight");
    without(all, "bn1.running_mean");
    all.push_back(tensor("bn2.weight", {2}));
    refused(all, "the model needs 'bn1.weight', 'bn1.running_mean'; the model has nothing called 'bn2.weight'");
    all = published();
    all.push_back(tensor("bn2.weight", {2}));
    refused(all, "nothing called 'bn2.weight'");
    CHECK(taken(all, {.names = names, .ignore_extra = true}).extra == std::vector<std::string>{"bn2.weight"});
    all = published();
    instead(all, tensor("fc1.weight", {2, 3}));
    refused(all, "(2, 3), the model's is (3, 2); it is written [inputs][outputs]");
    instead(all, tensor("fc1.weight", {6}));
    refused(all, "'fc1.weight' has the shape (6)");
    all = published();
    without(all, "2.adapter");
    refused(all, "needs '2.adapter'");
    CHECK_THROWS_AS(read_weights<float>("none.npz", layout, Vec<float>(3)), ConfigError);
    CHECK_THROWS_AS(read_weights<float>("weights.pt", layout, counted()), IoError);
}

TEST_CASE("a new head and new adapters keep their first values, where that is asked for") {
    auto all = published();
    instead(all, tensor("fc2.weight", {5, 3}));
    instead(all, tensor("fc2.bias", {5}));
    refused(all, "is a new head wanted?");
    const auto read = taken(all, {.names = names, .new_head = true});
    CHECK(read.kept == std::vector<std::string>{"3.weight", "3.bias"});
    CHECK(read.parameters[0] == 100);
    CHECK(read.parameters[20] == 20);
    CHECK(read.parameters[26] == 26);
    CHECK(read.extra.empty());
    CHECK(taken(published(), {.names = names, .new_head = true}).kept.empty());  // it fits, so it is read
    without(all, "fc2.weight");
    without(all, "fc2.bias");
    CHECK(taken(all, {.names = names, .new_head = true}).parameters[26] == 26);
    without(all, "2.adapter");
    const auto fresh = taken(all, {.names = names, .new_head = true, .new_adapters = true});
    CHECK(fresh.kept == std::vector<std::string>{"2.adapter", "3.weight", "3.bias"});
    CHECK(fresh.parameters[18] == 18);
    instead(all, tensor("2.adapter", {3}));  // it is there, and of another shape
    refused(all, "'2.adapter' has the shape (3)", {.names = names, .new_head = true, .new_adapters = true});
}

TEST_CASE("hostile numbers and files are refused") {
    auto all = published();
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300}) {
        instead(all, NamedTensor::from<double>("bn1.weight", {2}, std::vector<double>{1, bad}));
        refused(all, "not finite, at place 1");
    }
    instead(all, NamedTensor::from<std::int32_t>("bn1.weight", {2}, std::vector<std::int32_t>{1, 2}));
    refused(all, "whole numbers");
    const support::Folder folder;
    write_tensors(folder / "w.safetensors", published());
    auto bytes = read_file(folder / "w.safetensors");
    bytes.resize(bytes.size() - 3);
    folder.write("cut.safetensors", bytes);
    CHECK_THROWS_AS(read_weights<float>(folder / "cut.safetensors", layout, counted(), {.names = names}), IoError);
}

}  // namespace weights_test
