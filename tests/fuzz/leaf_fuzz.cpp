// SPDX-License-Identifier: BSD-3-Clause
// LEAF: any text is refused with an IoError, or gives users whose counts agree and who survive being written again.
#include "driver.hpp"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/io/leaf.hpp>

using namespace tessera;
using namespace tessera::io;

bool fuzz_accepted = false;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

bool whole_texts(const LeafUser& held) { return !held.texts.empty() && held.ends() == 0; }  // without a y

std::string encoded(const LeafUsers& users) {
    nlohmann::json root{{"users", nlohmann::json::array()},
                        {"num_samples", nlohmann::json::array()},
                        {"user_data", nlohmann::json::object()}};
    for (const auto& [name, held] : users) {
        root["users"].push_back(name);
        root["num_samples"].push_back(held.rows());
        auto x = nlohmann::json::array(), y = nlohmann::json::array();
        for (std::size_t i = 0; i < held.rows() && held.texts.empty(); ++i)
            x.push_back(std::vector<float>(held.numbers.begin() + static_cast<std::ptrdiff_t>(i * held.width),
                                           held.numbers.begin() + static_cast<std::ptrdiff_t>((i + 1) * held.width)));
        for (const auto& text : held.texts) x.push_back(text);
        for (const auto label : held.labels) y.push_back(label);
        for (const auto& answer : held.answers) y.push_back(answer);
        root["user_data"][name]["x"] = x;
        if (!whole_texts(held)) root["user_data"][name]["y"] = y;
    }
    return root.dump();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz_accepted = false;
    LeafUsers users;
    try {
        users = decode_leaf({reinterpret_cast<const char*>(data), size}, "input");
    } catch (const IoError& e) {
        fuzz_refused(e, "input");
        return 0;
    }
    fuzz_accepted = true;
    for (const auto& [name, held] : users) {
        require(held.rows() == held.ends() || whole_texts(held));
        require(held.texts.empty() || held.numbers.empty());
        require(held.width == 0 || held.numbers.size() == held.rows() * held.width);
    }
    require(decode_leaf(encoded(users), "written") == users);
    try {
        const auto pool = leaf_pool(users, {}, "pool");
        require(pool.client_of.size() == pool.examples.size());
    } catch (const IoError& e) {  // texts, or rows of several widths
        fuzz_refused(e, "pool");
    }
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
    std::vector<std::vector<std::uint8_t>> seeds;
    for (
        const std::string_view text :
        {R"({"users":["b","a"],"num_samples":[2,1],"user_data":{"b":{"x":[[1,2.5],[-3,4e1]],"y":[0,2]},"a":{"y":[1],"x":[[5,6]]}}})",
         R"({"hierarchies":[["h",{"k":[null,true]}]],"num_samples":[2],"users":["u"],"user_data":{"u":{"raw":"no","x":["to be","or n"],"y":["a","\u00e9"]}}})",
         R"({"users":[],"num_samples":[],"user_data":{}})"})
        seeds.emplace_back(text.begin(), text.end());
    return seeds;
}
